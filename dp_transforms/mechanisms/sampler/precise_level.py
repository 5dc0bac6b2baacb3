"""The walk's messages and its chain of states in MPFR numbers: the levels above float64.

The recurrence is that of ``float_level``, in a plainer form: every bound is rounded in its own
direction, so there are no error terms, and the range of exponents is so wide that nothing is
scaled.

``LookingAhead`` settles what float64 leaves open, one question at a time, by looking ahead from it.

Let a walk's next state be s_0, s_1, ... with weights w_0, w_1, ... Let T be these weights by state,
and N those of s_0, ..., s_j alone. Then

    U < C_j    if and only if    sum_D (N(D) - U T(D)) beta(D) > 0,

and the sum is the same in front of every later block, if transfer weights carry N and T there: they
are what the walks weigh that come there. The further ahead, the less does a state tell of j, and
the closer N is to a multiple of T. Then N - U T has one sign nearly everywhere, which is the sum's
whatever beta is. So N and T are carried on, in MPFR numbers, until the enclosures of beta in
float64 are good enough. How far depends on the rate, and not on how long the list is. Behind the
last block beta is known to any precision.

Only the states of a window are carried. T is log-concave on it, for its first values are, and so it
stays (see ``messages``) where walls and the window cut it off; and so is beta. So what has left the
window at the end of a block weighs at most a geometric series that continues T beta from the edge,
and 0 <= N <= T bounds its part of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from itertools import accumulate
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray, ObjectArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, Undecided, rounding_pair
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.float_level import FloatLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks, choose, shares

_BITS = 128

_NARROWEST = 32


class PreciseLevel:
    """Settles the questions of a release by MPFR enclosures on a window of states.

    Raises:
      Undecided: the window is too narrow for any enclosure.
    """

    def __init__(self, blocks: Blocks, transfer: PreciseTransfer):
        self._blocks = blocks
        self._transfer = transfer
        self._window = transfer.window
        self._size = transfer.size
        self._precision = transfer.precision
        self._down, self._up = rounding_pair(self._precision)
        self._messages = self._backward()

    def states(self, tape: RandomTape, count: int = NO_WALL) -> IntArray:
        """Draws the states as ``FloatLevel.states`` does."""
        lower, upper = tape.uniform("head", 0).enclosure(self._precision)
        state = choose(lower, upper, *self._head())
        states = [state]
        for index, bit in enumerate(self._blocks.bits[:count].tolist()):
            lower, upper = tape.uniform("moves", index).enclosure(self._precision)
            moves = choose(lower, upper, *self.thresholds(index, state))
            state += -moves if bit else moves
            states.append(state)
        return np.array(states, dtype=np.int64)

    def _backward(self) -> list[tuple[ObjectArray, ObjectArray]]:
        """Enclosures (lo, hi) of beta_r on the window, for r = 0..R."""
        size, window = self._size, self._window
        zero = self._down.add(0, 0)
        current: Any = np.full((2, size + 1), zero, dtype=object)
        current[:, window:size] = np.array(self._transfer.entering_last_run()).T
        lo, hi = current[:, :size]
        messages = [self._walled(lo, hi, len(self._blocks))]
        arrays = (self._blocks.bits, self._blocks.lengths, self._blocks.run_lengths)
        for index in range(len(self._blocks) - 1, -1, -1):
            bit, length, run_length = (array.item(index) for array in arrays)
            if run_length:
                # A run starts: turn it into one of zeros, and bound what lies above its window.
                lo, hi = (side[::-1] if bit else side for side in messages[-1])
                hi, ratio = self._tightened(lo, hi)
                exit_weight = self._transfer.exit_weight(hi[-1], ratio, run_length)
                if not gmpy2.is_finite(exit_weight):
                    raise Undecided
                current = [np.append(lo, zero), np.append(hi, exit_weight)]
            current = [self._transfer.apply(length, current[bound], bound) for bound in (0, 1)]
            lo, hi = (side[:size][::-1] if bit else side[:size] for side in current)
            messages.append(self._walled(lo, hi, index))
        return messages[::-1]

    def _walled(
        self, lo: ObjectArray, hi: ObjectArray, index: int
    ) -> tuple[ObjectArray, ObjectArray]:
        """Sets to zero, in place, what the walls in front of a block forbid."""
        below = max(self._blocks.lowest.item(index) + self._window, 0)
        above = self._blocks.highest.item(index) + self._window + 1
        for side in (lo, hi):
            side[:below] = side[above:] = self._down.add(0, 0)
        return lo, hi

    def total_weight(self) -> Enclosure:
        """(lo, hi) around Z, the sum of q**||x - f||_1 over all lists x."""
        below, above, rest = self._head_weights()
        return Enclosure(reduce(self._down.add, below), reduce(self._up.add, [*above, rest]))

    def _head(self) -> tuple[list[Any], list[Any]]:
        """Enclosures of Pr[a <= j] for j = 0..W."""
        return shares((self._down, self._up), *self._head_weights())

    def _head_weights(self) -> tuple[list[Any], list[Any], Any]:
        """Enclosures of A(a) beta_0(a) for a = 0..W, and an upper bound of what all others are."""
        lower, upper = zip(*self._transfer.leaving_first_run(), strict=True)
        lo, hi = (side[self._window :] for side in self._messages[0])
        below, above = list(map(self._down.mul, lower, lo)), list(map(self._up.mul, upper, hi))
        # A and beta_0 are log-concave both, and so is their product.
        above, ratio = self._tightened(below, above)
        if not ratio < 1:
            raise Undecided
        rest = self._up.div(self._up.mul(above[-1], ratio), self._down.sub(1, ratio))
        return below, above, rest

    def thresholds(self, index: int, state: int) -> tuple[list[Any], list[Any]]:
        """Enclosures of Pr[at most j moves in block ``index`` | state], for j = 0, 1, ...

        Raises:
          Undecided: the state is outside the window, or nothing is known about it.
        """
        bit, length = self._blocks.bits.item(index), self._blocks.lengths.item(index)
        if abs(state) > self._window:
            raise Undecided
        start = self._window + (-state if bit else state)
        here, after = (
            [side[::-1] if bit else side for side in self._messages[i]] for i in (index, index + 1)
        )
        if not here[0][start] > 0:
            raise Undecided
        reached = slice(start, min(self._size, start + length + 1))
        sums = []
        for bound, context in enumerate((self._down, self._up)):
            row = self._transfer.row(length, start, bound)
            weights = map(context.mul, row[reached], after[bound][reached])
            norm = here[1 - bound][start]
            sums.append([context.div(part, norm) for part in accumulate(weights, context.add)])
        return sums[0], sums[1]

    def _tightened(self, lo: Any, hi: Any) -> tuple[Any, Any]:
        """Upper bounds hi, and a ratio with beta(W + k) <= hi[-1] * ratio**k, by log-concavity.

        Towards the edge of the window upper bounds are made of what may lie outside. There the
        last ratio that is known bounds them better.
        """
        last = len(hi) - 1
        while last > 0 and not (lo[last - 1] > 0 and hi[last] <= self._down.mul(lo[last], 1.001)):
            last -= 1
        if last == 0:
            raise Undecided
        ratio = self._up.div(hi[last], lo[last - 1])
        hi = hi.copy()
        for state in range(last + 1, len(hi)):
            hi[state] = min(hi[state], self._up.mul(hi[state - 1], ratio))
        return hi, ratio


class LookingAhead:
    """A float64 level that settles its open questions too, for the ratio q."""

    def __init__(self, blocks: Blocks, floats: FloatLevel, decay: Decay):
        self._blocks = blocks
        self._floats = floats
        self._decay = decay
        self._down, self._up = rounding_pair(_BITS)

    def states(self, tape: RandomTape, count: int = NO_WALL) -> IntArray:
        """Draws the states as ``FloatLevel.states`` does."""
        return self._floats.states(tape, count, lambda *question: self._settle(tape, *question))

    def _settle(self, tape: RandomTape, index: int, state: int) -> int:
        uniform = tape.uniform("moves", index) if index >= 0 else tape.uniform("head", 0)
        lower, upper = uniform.enclosure(_BITS).rounded(_BITS)
        _, known = self._floats.thresholds(index, state) if index >= 0 else self._floats.head
        least = next((j for j, above in enumerate(known) if not above <= lower), 0)
        window = _NARROWEST
        while window < self._floats.window:
            try:
                return self._answer(index, state, least, lower, upper, window)
            except Undecided:
                window *= 2
        return self._answer(index, state, least, lower, upper, self._floats.window)

    def _answer(
        self, index: int, state: int, least: int, lower: Any, upper: Any, window: int
    ) -> int:
        """The smallest j >= ``least`` with U < C_j, given lower <= U < upper; j is how much block
        ``index`` moves, or the state behind the first infinite run if that is -1."""
        if abs(state) > window:
            raise Undecided
        # Few runs are passed, so that matrices are worth their price for long ones only.
        transfer = PreciseTransfer(self._decay, window, _BITS, window**2 // 4)
        bit = self._blocks.bits.item(index) if index >= 0 else 0
        start = window + (-state if bit else state)
        rows = np.full((2, 2 * window + 1), gmpy2.mpfr(0))
        if index < 0:
            rows[:, window:] = np.array(transfer.leaving_first_run()).T
        else:
            length = self._blocks.lengths.item(index)
            rows[:] = [transfer.row(length, start, bound) for bound in (0, 1)]
        for moves in range(least, 2 * window + 1 - start):
            head = rows.copy()
            head[:, start + moves + 1 :] = gmpy2.mpfr(0)
            weights = np.stack([head, rows], axis=1)
            if self._is_below(index + 1, bit, weights, lower, upper, transfer):
                return moves
        raise Undecided

    def _is_below(
        self,
        at: int,
        bit: int,
        weights: ObjectArray,
        lower: Any,
        upper: Any,
        transfer: PreciseTransfer,
    ) -> bool:
        """Tells whether U < C_j, given bounds of N and T in front of block ``at``, mirrored if the
        bit in front of the block is 1."""
        down, up = self._down, self._up
        leak = gmpy2.mpfr(0)
        while True:
            lo, hi = self._completions(at, transfer)
            if bit:
                lo, hi = lo[::-1], hi[::-1]
            weights[..., hi == 0] = gmpy2.mpfr(0)
            (some_lo, all_lo), (some_hi, all_hi) = weights
            leak = up.add(leak, self._beyond(map(down.mul, all_lo, lo), map(up.mul, all_hi, hi)))
            least = reduce(
                down.add,
                (
                    down.mul(term, below if term > 0 else above)
                    for part, whole, below, above in zip(some_lo, all_hi, lo, hi, strict=True)
                    for term in [down.sub(part, up.mul(upper, whole))]
                ),
            )
            most = reduce(
                up.add,
                (
                    up.mul(term, above if term > 0 else below)
                    for part, whole, below, above in zip(some_hi, all_lo, lo, hi, strict=True)
                    for term in [up.sub(part, down.mul(lower, whole))]
                ),
            )
            if least > leak or most < down.minus(leak):
                return bool(least > leak)
            # What has left the window does not become less.
            if at == len(self._blocks) or up.sub(most, least) < leak:
                raise Undecided
            if self._blocks.bits.item(at) != bit:
                bit, weights = 1 - bit, weights[..., ::-1]
            length = self._blocks.lengths.item(at)
            weights = np.array(
                [transfer.forward(length, weights[bound], bound) for bound in (0, 1)]
            )
            at += 1

    def _beyond(self, lower: Iterable[Any], upper: Iterable[Any]) -> Any:
        """An upper bound of the sum beyond the end of a log-concave sequence, given bounds of it.

        Every ratio of neighbours bounds the later ones.
        """
        lo, hi = list(lower), list(upper)
        ratios = (self._up.div(b, a) for a, b in zip(lo, hi[1:], strict=False) if a > 0)
        ratio = min(ratios, default=1) if hi[-1] else 0
        if not ratio < 1:
            raise Undecided
        return self._up.div(self._up.mul(hi[-1], ratio), self._down.sub(1, ratio))

    def _completions(self, at: int, transfer: PreciseTransfer) -> tuple[ObjectArray, ObjectArray]:
        """Bounds of beta in front of a block; 0 where walls forbid a state."""
        window = transfer.window
        if at == len(self._blocks):
            lo, hi = np.full((2, 2 * window + 1), gmpy2.mpfr(0))
            lo[window:], hi[window:] = zip(*transfer.entering_last_run(), strict=True)
        else:
            lo, hi = self._floats.messages(at, window)
        below = max(self._blocks.lowest.item(at) + window, 0)
        above = self._blocks.highest.item(at) + window + 1
        for side in (lo, hi):
            side[:below] = side[above:] = gmpy2.mpfr(0)
        return lo, hi
