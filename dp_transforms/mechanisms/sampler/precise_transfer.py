"""Transfer weights in MPFR numbers, with the exit above their window: see ``transfer``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import ObjectArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, rounding_pair
from dp_transforms.mechanisms.sampler.transfer import Transfer, parts_of
from dp_transforms.mechanisms.sampler.walk import shares


class PreciseTransfer(Transfer[tuple[ObjectArray, ObjectArray]]):
    """T_n on the window -W..W and its exit, as MPFR numbers rounded down and up.

    State D has index D + W, the exit 2W + 1; nothing is scaled. Runs of up to ``most_steps`` are
    passed step by step; by default, those for which that is cheaper than to apply a matrix.
    """

    def __init__(
        self,
        decay: Decay,
        window: int,
        precision: int,
        most_steps: int | None = None,
    ):
        super().__init__(decay, window, precision, precision)
        self.precision = precision
        self._most_steps = self.size // 4 if most_steps is None else most_steps

    @cached_property
    def _step(self) -> list[tuple[ObjectArray, ObjectArray]]:
        """The weights that each state keeps in one step, and that move up from it, by bound."""
        up = self.weights.powers(1)
        down = up[-2:0:-1]
        steps = []
        for bound in (0, 1):
            weights = np.array([pair[bound] for pair in down + up], dtype=object)
            steps.append((np.append(weights[:-1], self._exit_decay), weights[1:]))
        return steps

    @cached_property
    def _exit_decay(self) -> Any:
        _, up = rounding_pair(self.precision)
        return up.sqrt(self.decay.power(self.window + 1, self.precision)[1])

    def exit_weight(self, edge: Any, ratio: Any, length: int) -> Any:
        """edge * ratio * R for a run of ``length`` zeros (see ``transfer``)."""
        _, up = rounding_pair(self.precision)
        step = self.decay.power(1, self.precision)[1]
        weight = up.mul(edge, ratio)
        for _ in range(length):
            ratio = up.mul(ratio, step)
            factor = up.mul(self._exit_decay, up.add(1, ratio))
            if factor <= 1:
                break
            weight = up.mul(weight, factor)
        return weight

    def leaving_first_run(self) -> list[Enclosure]:
        """A(a) for a = 0..W."""
        return self.weights.leaving_first_run()[:-1]

    def entering_last_run(self) -> list[Enclosure]:
        """B(e) for e = 0..W."""
        return self.weights.entering_last_run()[:-1]

    def apply(self, length: int, messages: ObjectArray, bound: int) -> ObjectArray:
        """T_length times lower (bound 0) or upper (bound 1) messages, exit included.

        Matrices are made of powers of two only: products of matrices are what takes long.
        """
        if not self._is_whole(length):
            near, far = parts_of(length)
            return self.apply(near, self.apply(far, messages, bound), bound)
        with gmpy2.context(rounding_pair(self.precision)[bound]):
            if length <= self._most_steps:
                keep, climb = self._step[bound]
                for _ in range(length):
                    moved = climb * messages[1:]
                    messages = keep * messages
                    messages[:-1] += moved
                return messages
            product: ObjectArray = self.matrix(length)[bound] @ messages
            return product

    def forward(self, length: int, weights: ObjectArray, bound: int) -> ObjectArray:
        """Weights by state in front of a run, in rows, times T_length; no exit."""
        if not self._is_whole(length):
            # Powers of one matrix commute.
            near, far = parts_of(length)
            return self.forward(near, self.forward(far, weights, bound), bound)
        with gmpy2.context(rounding_pair(self.precision)[bound]):
            if length > self._most_steps:
                product: ObjectArray = weights @ self.matrix(length)[bound][:-1, :-1]
                return product
            keep = self._step[bound][0][:-1]
            for _ in range(length):
                moved = weights[..., :-1]
                weights = weights.copy()
                weights[..., 1:] += moved
                weights = keep * weights
        return weights

    def row(self, length: int, start: int, bound: int) -> ObjectArray:
        """Row ``start`` of T_length, bounded from below (bound 0) or above (bound 1), no exit."""
        if length > self._most_steps and self._is_whole(length):
            return self.matrix(length)[bound][start, :-1]
        row = np.full(self.size, gmpy2.mpfr(0))
        row[start] = gmpy2.mpfr(1)
        return self.forward(length, row, bound)

    def _is_whole(self, length: int) -> bool:
        """Tells whether a run of this length is passed at once, by steps or by a matrix."""
        is_power = length & (length - 1) == 0
        return length <= self._most_steps or is_power or length >= self.long

    def in_first_part(
        self, near: int, far: int, start: int, moves: int
    ) -> tuple[list[Any], list[Any]]:
        """Computes the same as in ``FloatTransfer``."""
        states, contexts = slice(start, start + moves + 1), rounding_pair(self.precision)
        lower, upper = (
            map(context.mul, first[start, states], second[states, start + moves])
            for context, first, second in zip(
                contexts, self.matrix(near), self.matrix(far), strict=True
            )
        )
        lo, hi = shares(contexts, lower, upper)
        # The last sum is the total by definition.
        return [*lo[:-1], 1], [*hi[:-1], 1]

    def _make(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """(lo, hi) around T_length."""
        if length == self.long:
            return self._make_long(length)
        w, size = self.window, self.size
        weights = self.weights.powers(length), self.weights.upward(length)
        returning = self.weights.inward(length)
        bounds = []
        for bound, context in enumerate(rounding_pair(self.precision)):
            table = np.full((size + 1, size + 1), context.add(0, 0), dtype=object)
            powers, climbs, falls = (
                [pair[bound] for pair in pairs] for pairs in (*weights, returning)
            )
            for d in range(w + 1):
                for k in range(min(w - d, length) + 1):
                    table[w + d, w + d + k] = context.mul(powers[d], climbs[k])
                    table[w - d - k, w - d] = context.mul(powers[d], falls[k])
            if length == 1:
                table[size, size] = self._exit_decay
                table[size - 1, size] = self.decay.power(w + 1, self.precision)[1]
            else:
                near, far = (self.matrix(part)[bound] for part in parts_of(length))
                with gmpy2.context(context):
                    table[:w, w + 1 : size] = near[:w, :size] @ far[:size, w + 1 : size]
                    table[:, size] = near @ far[:, size]
            bounds.append(table)
        return bounds[0], bounds[1]

    def _make_long(self, length: int) -> tuple[ObjectArray, ObjectArray]:
        """Bounds of T_length and of all longer runs."""
        w, size = self.window, self.size
        down, up = rounding_pair(self.precision)
        lo, hi = (np.full((size + 1, size + 1), up.add(0, 0), dtype=object) for _ in range(2))
        climbs, falls = self.weights.leaving_first_run(), self.weights.entering_last_run()
        stays = self.weights.powers(length)
        kept = down.sub(1, up.exp2(-self.precision))
        for s in range(w + 1):
            for j in range(w + 1):
                hi[w - s, w + j] = up.mul(falls[s][1], climbs[j][1])
                lo[w - s, w + j] = down.mul(down.mul(falls[s][0], climbs[j][0]), kept)
        for d in range(1, w + 1):
            for k in range(w - d + 1):
                hi[w + d, w + d + k] = up.mul(stays[d][1], climbs[k][1])
                hi[w - d - k, w - d] = up.mul(stays[d][1], falls[k][1])
        # What leaves above the window (see the module's text).
        leaving = self.decay.power(w + 1, self.precision)[1]
        for s in range(w + 1):
            hi[w - s, size] = up.div(
                up.mul(hi[w - s, size - 1], leaving), down.sub(1, self._exit_decay)
            )
        for d in range(1, w + 1):
            slowest = max(self.decay.power(d, self.precision)[1], self._exit_decay)
            steps = up.mul(length, up.pow(slowest, length - 1))
            hi[w + d, size] = up.mul(up.mul(climbs[w - d][1], leaving), steps)
        hi[size, size] = up.pow(self._exit_decay, length)
        return lo, hi
