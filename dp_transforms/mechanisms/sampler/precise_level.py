"""The walk's messages and its chain of states in MPFR numbers: the levels above float64.

The recurrence is that of ``float_level``, in a plainer form: every bound is rounded in its own
direction, so there are no error terms, and the range of exponents is so wide that nothing is
scaled.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray, ObjectArray
from dp_transforms.mechanisms.enclosure import Enclosure, Undecided, rounding_pair
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import NO_WALL, Blocks, choose, shares


class PreciseLevel:
    """Settles the questions of a release by MPFR enclosures on a window of states, given transfers
    of one precision for blocks of zeros and, mirrored, for blocks of ones.

    Raises:
      Undecided: the window is too narrow for any enclosure.
    """

    def __init__(self, blocks: Blocks, transfers: tuple[PreciseTransfer, PreciseTransfer]):
        self._blocks = blocks
        self._transfers = transfers
        self._window = transfers[0].window
        self._size = transfers[0].size
        self._precision = transfers[0].precision
        self._down, self._up = rounding_pair(self._precision)
        self._messages = self._backward()

    def states(self, tape: RandomTape, count: int = NO_WALL) -> IntArray:
        """As ``FloatLevel.states``."""
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
        current[:, window:size] = np.array(self._transfers[0].entering_last_run()).T
        lo, hi = current[:, :size]
        messages = [self._walled(lo, hi, len(self._blocks))]
        arrays = (self._blocks.bits, self._blocks.lengths, self._blocks.run_lengths)
        for index in range(len(self._blocks) - 1, -1, -1):
            bit, length, run_length = (array.item(index) for array in arrays)
            transfer = self._transfers[bit]
            if run_length:
                # A run starts: turn it into one of zeros, and bound what lies above its window.
                lo, hi = (side[::-1] if bit else side for side in messages[-1])
                hi, ratio = self._tightened(lo, hi)
                exit_weight = transfer.exit_weight(hi[-1], ratio, run_length)
                if not gmpy2.is_finite(exit_weight):
                    raise Undecided
                current = [np.append(lo, zero), np.append(hi, exit_weight)]
            current = [transfer.apply(length, current[bound], bound) for bound in (0, 1)]
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
        lower, upper = zip(*self._transfers[0].leaving_first_run(), strict=True)
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
            row = self._transfers[bit].row(length, start, bound)
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
