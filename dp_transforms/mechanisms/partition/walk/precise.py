"""Settles the questions left open by float64, one at a time, in MPFR numbers.

Let a walk's next state be s_0, s_1, ... with weights w_0, w_1, ... Let T be these weights by state,
and N the weights of s_0, ..., s_j alone. Then

    U < C_j    if and only if    sum_D (N(D) - U T(D)) beta(D) > 0,

and the sum is the same in front of every later block, if transfer weights carry N and T there, as
the weights of the walks that arrive. The further ahead, the less does a state tell of j, and the
closer N is to a multiple of T. Then N - U T has one sign nearly everywhere, which is the sum's for
any beta. So N and T are carried on until the enclosures of beta in float64 are good enough. How far
depends on the rate, and not on the list's length. Behind the last block beta is known to any
precision, so that some precision settles every question.

Only the states of a window are carried. T is log-concave on it: its first values are, and it stays
so (see ``transfer``) when walls and the window cut it off; so is beta. So the weight that leaves
the window at the end of a block is at most a geometric series that continues T beta from the edge,
and 0 <= N <= T bounds its part of the sum.
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
    """Computes T_n on the window -W..W, as MPFR numbers rounded down and up: see ``transfer``.
    State D has index D + W. Nothing is scaled, since exponents have a wide range."""

    def __init__(self, decay: Decay, window: int, precision: int):
        self.window = window
        self.size = 2 * window + 1
        self.precision = precision
        self.long = independence_length(decay, window, precision)
        """From this length on all runs share one matrix."""
        # Matrices take long to make: they are worth it for long runs only.
        self._most_steps = max(1, window**2 // 4)
        self.weights = Weights(decay, window + 1, precision)
        self._matrices: dict[int, tuple[ObjectArray, ObjectArray]] = {}

    def forward(self, length: int, weights: ObjectArray, bound: int) -> ObjectArray:
        """Multiplies weights by state in front of a run of zeros, in rows, by T_length. Bound 0 is
        for lower and 1 for upper weights."""
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
        """Returns lower and upper bounds of q**|D| of each state."""
        powers = self.weights.powers(1)
        costs: ObjectArray = np.array(powers[:0:-1] + powers, dtype=object).T
        return costs

    def matrix(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """Encloses T_length, which is computed once."""
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
        # Lower bounds for the wrong sides of long runs are 0.
        for d in range(w + 1 if bound or not is_long else 0):
            for k in range(min(w - d, length) + 1):
                table[w + d, w + d + k] = context.mul(stays[d][bound], climbs[k][bound])
                table[w - d - k, w - d] = context.mul(stays[d][bound], falls[k][bound])
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
        """Encloses Pr[at most j moves are among the first ``near`` steps], for j = 0..moves, of a
        run of near + far steps with so many moves, entered in the state of index start."""
        states = slice(start, start + flips + 1)
        first, second = (
            map(Enclosure, *(side[place] for side in self.matrix(length)))
            for length, place in ((near, (start, states)), (far, (states, start + flips)))
        )
        *parts, total = accumulate(map(mul, first, second))
        shares = [part / total for part in parts]
        # The last sum is the total by definition.
        return [*(share.lower for share in shares), 1], [*(share.upper for share in shares), 1]


class LookingAhead:
    """Settles questions of a release by roughly known messages. ``messages`` gives beta in front of
    a block, for the states of the transfer weights' window, or raises Undecided."""

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
            some = rows.copy()
            some[:, start + flips + 1 :] = gmpy2.mpfr(0)
            return self._is_below(index + 1, bit, np.stack([some, rows], axis=1), number)

        return smallest_where(is_below, 0)

    def _is_below(self, at: int, bit: int, weights: ObjectArray, number: Enclosure) -> bool:
        """Tells whether U < C_j, given bounds of N and T in front of block ``at``, mirrored if the
        bit in front of the block is 1."""
        down, up = rounding_pair(self._transfer.precision)
        leak = gmpy2.mpfr(0)
        while True:
            beta = self._completions(at)[:: -1 if bit else 1]
            weights[..., [not completion.upper for completion in beta]] = gmpy2.mpfr(0)
            # Of N and of T, by state.
            some, every = (list(map(Enclosure, *bounds)) for bounds in weights.swapaxes(0, 1))
            leak = up.add(leak, self._beyond(list(map(mul, every, beta))))
            differences = (n - number * t for n, t in zip(some, every, strict=True))
            least, most = reduce(add, map(mul, differences, beta))
            if least > leak or most < down.minus(leak):
                return bool(least > leak)
            # The weight outside the window does not fall.
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
        """Bounds the sum beyond the end of a log-concave sequence from above: every ratio of
        neighbours bounds the later ratios."""
        ratios = ((after / before).upper for before, after in pairwise(parts) if before.lower > 0)
        ratio = min(ratios, default=1) if parts[-1].upper else 0
        if not ratio < 1:
            raise Undecided
        bound = Enclosure(ratio, ratio)
        return (parts[-1] * bound / (1 - bound)).upper

    def _completions(self, at: int) -> list[Enclosure]:
        """Encloses beta in front of a block; it is 0 for states that walls forbid."""
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
