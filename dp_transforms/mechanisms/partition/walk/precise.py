"""Settles the questions left open by float64, one at a time, in MPFR numbers.

Let s_0, s_1, ... be the possible next states of a walk, with weights w_0, w_1, ... Let T(D) be the
weight of the state D, and N(D) the same weight if D is one of s_0, ..., s_j, and otherwise 0. Let
beta be the messages behind the block (``transfer``). Then

    U < C_j    if and only if    sum_D (N(D) - U T(D)) beta(D) > 0.

Transfer weights carry N and T to the front of any later block, as the weights of the walks that
arrive there; the sum stays the same. The further ahead, the less a state depends on j, and the
closer N is to a multiple of T. Then N - U T has the same sign nearly everywhere, and so has the sum
for any beta. So N and T are carried on until the enclosures of beta in float64 are good enough. How
far depends on the rate, and not on the list's length. Behind the last block beta is known to any
precision, so every question is settled at some precision.

Only the states of a window are carried. On it T is log-concave: its first values are, and it stays
so (see ``transfer``) when walls and the window cut it off. Beta is log-concave too. So the weight
that leaves the window at the end of a block is at most a geometric series that continues T beta
from the edge, and by 0 <= N <= T this bounds the part of the sum outside the window.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from operator import add, mul
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import ObjectArray
from dp_transforms.mechanisms.decay import Decay, Weights
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    Undecided,
    enclosed,
    rounding_pair,
    smallest_where,
)
from dp_transforms.mechanisms.partition.walk.transfer import independence_length, parts_of
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from dp_transforms.mechanisms.randomness import Uniform


class PreciseTransfer:
    """Computes the transfer weights T_n of ``transfer`` on the window -W..W, as MPFR numbers that
    are rounded down and up. State D has index D + W. Numbers are not scaled, since the exponents of
    MPFR have a wide range."""

    def __init__(self, decay: Decay, window: int, precision: int):
        self.window = window
        self.size = 2 * window + 1
        self.precision = precision
        self.long = independence_length(decay, window, precision)
        """From this length on all runs share one matrix."""
        # Matrices take long to make, and are worth it for long runs only.
        self._most_steps = max(1, window**2 // 4)
        self.weights = Weights(decay, window + 1, precision)
        self._matrices: dict[int, tuple[ObjectArray, ObjectArray]] = {}

    def forward(self, length: int, weights: ObjectArray, bound: int) -> ObjectArray:
        """Returns the weights by state behind a run of zeros, given those in front of it: they are
        multiplied by T_length.

        Args:
          weights: rows of weights, by state.
          bound: 0 for lower bounds, which are rounded down, and 1 for upper bounds.
        """
        is_power = length & (length - 1) == 0
        if not (length <= self._most_steps or is_power or length >= self.long):
            # Powers of one matrix commute.
            near, far = parts_of(length)
            return self.forward(near, self.forward(far, weights, bound), bound)
        steps = length if length <= self._most_steps else 0
        with gmpy2.context(rounding_pair(self.precision)[bound]):
            if not steps:
                weights = weights @ self.matrix(length)[bound]
            for _ in range(steps):
                moved = weights[..., :-1]
                weights = weights.copy()
                weights[..., 1:] += moved
                weights *= self._costs[bound]
        return weights

    @cached_property
    def _costs(self) -> ObjectArray:
        """Returns lower and upper bounds of q**|D|, for each state D."""
        powers = self.weights.powers(1)
        costs: ObjectArray = np.array(powers[:0:-1] + powers, dtype=object).T
        return costs

    def matrix(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """Returns a lower and an upper bound of T_length; both are computed once."""
        length = min(length, self.long)
        if length not in self._matrices:
            self._matrices[length] = self._make(length, 0), self._make(length, 1)
        return self._matrices[length]

    def _make(self, length: int, bound: int) -> ObjectArray:
        w, context = self.window, rounding_pair(self.precision)[bound]
        is_long = length == self.long
        stays = self.weights.powers(length)
        if is_long:
            climbs, falls = self.weights.leaving_first_run(), self.weights.entering_last_run()
        else:
            climbs, falls = self.weights.upward(length), self.weights.inward(length)
        table = np.full((self.size, self.size), gmpy2.mpfr(0))
        # Entries on one side of zero. For long runs their lower bounds stay 0.
        is_bounded_by_0 = is_long and bound == 0
        for d in range(0 if is_bounded_by_0 else w + 1):
            for k in range(min(w - d, length) + 1):
                table[w + d, w + d + k] = context.mul(stays[d][bound], climbs[k][bound])
                table[w - d - k, w - d] = context.mul(stays[d][bound], falls[k][bound])
        # Entries across zero.
        if is_long:
            kept = 1 if bound else context.sub(1, context.exp2(-self.precision))
            for s in range(w + 1):
                for j in range(w + 1):
                    weight = context.mul(falls[s][bound], climbs[j][bound])
                    table[w - s, w + j] = context.mul(weight, kept)
        elif length > 1:
            near, far = (self.matrix(part)[bound] for part in parts_of(length))
            with gmpy2.context(context):
                table[:w, w + 1 :] = near[:w] @ far[:, w + 1 :]
        return table

    def in_first_part(
        self, near: int, far: int, start: int, flips: int
    ) -> tuple[list[Any], list[Any]]:
        """Returns lower and upper bounds on Pr[at most j moves are among the first ``near`` steps]
        for j = 0..flips, in a run of near + far steps with ``flips`` moves that is entered in the
        state of index ``start``."""
        states = slice(start, start + flips + 1)
        end = start + flips
        near_lower, near_upper = self.matrix(near)
        far_lower, far_upper = self.matrix(far)
        first = map(Enclosure, near_lower[start, states], near_upper[start, states])
        second = map(Enclosure, far_lower[states, end], far_upper[states, end])
        *parts, total = accumulate(map(mul, first, second))
        shares = [part / total for part in parts]
        # The last share is the total divided by itself.
        return [*(share.lower for share in shares), 1], [*(share.upper for share in shares), 1]


class LookingAhead:
    """Settles questions of a release from messages that are roughly known.

    Args:
      blocks: the blocks of the private list.
      messages: encloses beta in front of a block for the states -window..window, given the block's
        index and the window, or raises Undecided.
      transfer: transfer weights, whose window and precision are used.
    """

    def __init__(
        self,
        blocks: Blocks,
        messages: Callable[[int, int], list[Enclosure]],
        transfer: PreciseTransfer,
    ):
        self._blocks = blocks
        self._messages = messages
        self._transfer = transfer

    def settle(self, uniform: Uniform, index: int, state: int) -> int:
        """Returns the smallest j with U < C_j: the moves of block ``index`` from a state, or the
        state behind the first infinite run for index -1.

        Raises:
          Undecided: more bits or a wider window are needed.
        """
        transfer, window = self._transfer, self._transfer.window
        if abs(state) > window:
            raise Undecided
        bit = self._blocks.bits.item(index) if index >= 0 else 0
        start = window + (-state if bit else state)
        rows = np.full((2, transfer.size), gmpy2.mpfr(0))
        if index < 0:
            rows[:, window:] = np.array(transfer.weights.leaving_first_run()).T
        else:
            rows[:, start] = gmpy2.mpfr(1)
            length = self._blocks.lengths.item(index)
            rows[:] = [transfer.forward(length, rows[bound], bound) for bound in (0, 1)]
        number = uniform.enclosure(transfer.precision).rounded(transfer.precision)

        def is_below(flips: int) -> bool:
            of_up_to_flips = rows.copy()
            of_up_to_flips[:, start + flips + 1 :] = gmpy2.mpfr(0)
            weights = np.stack([of_up_to_flips, rows], axis=1)
            return self._is_below(index + 1, bit, weights, number)

        return smallest_where(is_below, 0)

    def _is_below(self, at: int, bit: int, weights: ObjectArray, number: Enclosure) -> bool:
        """Tells whether U < C_j, given lower and upper bounds of N and T in front of block ``at``.
        These are mirrored (state D to -D) if ``bit``, the bit in front of the block, is 1."""
        down, up = rounding_pair(self._transfer.precision)
        leak = gmpy2.mpfr(0)
        while True:
            beta = self._completions(at)[:: -1 if bit else 1]
            weights[..., [not completion.upper for completion in beta]] = gmpy2.mpfr(0)
            # Enclosures of N and of T, by state.
            n_of, t_of = (list(map(Enclosure, *bounds)) for bounds in weights.swapaxes(0, 1))
            leak = up.add(leak, self._beyond(list(map(mul, t_of, beta))))
            differences = (n - number * t for n, t in zip(n_of, t_of, strict=True))
            least, most = reduce(add, map(mul, differences, beta))
            if least > leak or most < down.minus(leak):
                return bool(least > leak)
            # Going on would not help: the weight outside the window does not fall.
            if at == len(self._blocks) or up.sub(most, least) < leak:
                raise Undecided
            if self._blocks.bits.item(at) != bit:
                bit, weights = 1 - bit, weights[..., ::-1]
            length = self._blocks.lengths.item(at)
            weights = np.array(
                [self._transfer.forward(length, weights[bound], bound) for bound in (0, 1)]
            )
            at += 1

    def _beyond(self, parts: list[Enclosure]) -> Any:
        """Returns an upper bound on the sum beyond the end of a log-concave sequence: the ratio of
        two neighbours is at least every later ratio. Raises Undecided if the ratio is not below
        1."""
        ratios = ((after / before).upper for before, after in pairwise(parts) if before.lower > 0)
        ratio = min(ratios, default=1) if parts[-1].upper else 0
        if not ratio < 1:
            raise Undecided
        bound = Enclosure(ratio, ratio)
        return (parts[-1] * bound / (1 - bound)).upper

    def _completions(self, at: int) -> list[Enclosure]:
        """Encloses beta in front of a block, or behind the last one. It is 0 for states that walls
        forbid."""
        window, nothing = self._transfer.window, enclosed(0, self._transfer.precision)
        if at == len(self._blocks):
            completions = [nothing] * window + self._transfer.weights.entering_last_run()
        else:
            completions = self._messages(at, window)
        allowed = range(
            self._blocks.lowest.item(at) + window, self._blocks.highest.item(at) + window + 1
        )
        return [
            completion if place in allowed else nothing
            for place, completion in enumerate(completions)
        ]
