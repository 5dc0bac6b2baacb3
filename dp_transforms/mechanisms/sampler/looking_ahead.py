"""Settles what float64 leaves open, one question at a time, by looking ahead from it.

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

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray, ObjectArray
from dp_transforms.mechanisms.enclosure import Undecided, rounding_pair
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.float_level import FloatLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks

_BITS = 128

_NARROWEST = 32


class LookingAhead:
    """A float64 level that settles its open questions too, by the transfer weights of a window,
    bits and most steps for blocks of zeros and, mirrored, for blocks of ones."""

    def __init__(
        self,
        blocks: Blocks,
        floats: FloatLevel,
        transfers: Callable[[int, int, int], tuple[PreciseTransfer, PreciseTransfer]],
    ):
        self._blocks = blocks
        self._floats = floats
        self._make = transfers
        self._down, self._up = rounding_pair(_BITS)

    def states(self, tape: RandomTape, count: int = NO_WALL) -> IntArray:
        """As ``FloatLevel.states``."""
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
        transfers = self._make(window, _BITS, window**2 // 4)
        bit = self._blocks.bits.item(index) if index >= 0 else 0
        start = window + (-state if bit else state)
        rows = np.full((2, 2 * window + 1), gmpy2.mpfr(0))
        if index < 0:
            rows[:, window:] = np.array(transfers[0].leaving_first_run()).T
        else:
            length = self._blocks.lengths.item(index)
            rows[:] = [transfers[bit].row(length, start, bound) for bound in (0, 1)]
        for moves in range(least, 2 * window + 1 - start):
            head = rows.copy()
            head[:, start + moves + 1 :] = gmpy2.mpfr(0)
            weights = np.stack([head, rows], axis=1)
            if self._is_below(index + 1, bit, weights, lower, upper, transfers):
                return moves
        raise Undecided

    def _is_below(
        self,
        at: int,
        bit: int,
        weights: ObjectArray,
        lower: Any,
        upper: Any,
        transfers: tuple[PreciseTransfer, PreciseTransfer],
    ) -> bool:
        """Whether U < C_j, given bounds of N and T in front of block ``at``, mirrored if the bit
        in front of that is 1."""
        down, up = self._down, self._up
        leak = gmpy2.mpfr(0)
        while True:
            lo, hi = self._completions(at, transfers[0])
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
                [transfers[bit].forward(length, weights[bound], bound) for bound in (0, 1)]
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
