"""Transfer weights in float64, with the exit above their window: see ``transfer``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.sampler.transfer import (
    INDEPENDENCE_BITS,
    TINY,
    UNIT_ROUNDOFF,
    RunMatrix,
    RunWeights,
    certain_in_row,
    clipped,
    parts_of,
    split,
)

_STEPPING = 24
"""Runs shorter than the window by this factor are cheaper step by step than by a matrix."""

_SLACK = 1 + 2.0**-30
"""Covers the rounding of the few float operations that only bound the exit from above."""


@dataclass(frozen=True)
class FloatMatrix(RunMatrix):
    """T_n in float64 on a window and its exit.

    The true entries lie within lo * (1 - error) and hi * (1 + error). ``growth`` is the largest sum
    of a row of hi.

    The matrix of all long runs bounds some entries from above only: those of rows behind
    ``centre``, the index of state 0, and of columns in front of it. Elsewhere ``centre`` is None.
    """

    lo: FloatArray
    hi: FloatArray
    error: float
    growth: float
    centre: int | None = None

    def __matmul__(self, messages: FloatArray) -> FloatArray:
        """The product with messages in two columns (lo, hi), exit included."""
        if self.centre is not None:
            messages = messages.copy()
            messages[: self.centre, 0] = 0
        if self.lo is self.hi:
            product = self.hi @ messages
        else:
            product = np.stack([self.lo @ messages[:, 0], self.hi @ messages[:, 1]], axis=1)
        if self.centre is not None:
            product[self.centre + 1 :, 0] = 0
        return product

    def row(self, index: int, count: int) -> tuple[FloatArray, FloatArray, int]:
        found = slice(index, index + count)
        lower = self.lo[index, found]
        if self.centre is not None and index != self.centre:
            lower = lower * certain_in_row(self.centre, index, count)
        return lower, self.hi[index, found], 0


class FloatTransfer(RunWeights[FloatMatrix]):
    """T_n on the window -W..W and its exit, in float64.

    State D has index D + W; the exit has index 2W + 1.
    """

    def __init__(self, positive: Decay, negative: Decay, window: int):
        super().__init__(positive, negative, window)
        self._exit_decay = math.exp(-self.rate * (window + 1) / 2) * _SLACK

    def apply(self, length: int, messages: FloatArray) -> tuple[FloatArray, float, float]:
        """T_length times messages in two columns (lo, hi), exit included.

        Returns:
          The product; a bound on the relative error that it adds; and one on how much larger its
          largest entry is than the largest before.
        """
        if length * _STEPPING <= self.size:
            keep, climb = self._step
            for _ in range(length):
                moved = climb * messages[1:]
                messages = keep * messages
                messages[:-1] += moved
            return messages, 6 * length * UNIT_ROUNDOFF, 2.0**length
        matrix = self.matrix(length)
        return matrix @ messages, matrix.error + (self.size + 4) * UNIT_ROUNDOFF, matrix.growth

    def exit_weight(self, edge: float, ratio: float, length: int) -> float:
        """edge * ratio * R for a run of ``length`` zeros (see the module's text).

        R is bounded by its first factor, the largest, to the power of how many exceed 1. Infinite
        where the bound overflows: the window is too narrow then.
        """
        if not math.isfinite(ratio):
            return math.inf
        loss = self.rate * (self.window + 1) / 2
        gain = math.log1p(ratio * math.exp(-self.rate)) - loss
        if gain <= 0:
            return edge * ratio * _SLACK
        growing = min(length, math.log(ratio / math.expm1(loss)) / self.rate + 2)
        logarithm = growing * gain * _SLACK
        return edge * ratio * math.exp(logarithm) if logarithm < 500 else math.inf

    @cached_property
    def _step(self) -> tuple[FloatArray, FloatArray]:
        """T_1: what each state keeps, and what moves up from each state, as columns."""
        down = split(self.negative_weights.powers(1)[-2:0:-1])
        up = split(self.positive_weights.powers(1))
        weights = np.concatenate([np.ldexp(*down), np.ldexp(*up)])
        keep = np.append(weights[:-1], self._exit_decay)
        return keep[:, None], weights[1:, None]

    def _make(self, length: int) -> FloatMatrix:
        if length == self.long:
            return self._make_long(length)
        w, size = self.window, self.size
        across = np.s_[:w, w + 1 : size]
        one_side = self._one_side(length)
        # Entries on one side are products of two constants of two units each.
        error = 6 * UNIT_ROUNDOFF
        lo = np.zeros((size + 1, size + 1))
        lo[:size, :size] = one_side
        hi = lo.copy()
        if length == 1:
            hi[size - 1, size] = math.exp(-self.rate * (w + 1)) * _SLACK
            hi[size, size] = self._exit_decay
        else:
            near, far = (self.matrix(part) for part in parts_of(length))
            error += max(near.error, far.error) + (size + 10) * UNIT_ROUNDOFF
            above = near.hi @ far.hi[:, w + 1 :]
            hi[across] = above[:w, :-1]
            hi[:, size] = above[:, -1] * _SLACK
            same = near.lo is near.hi and far.lo is far.hi
            lo[across] = hi[across] if same else near.lo[:w] @ far.lo[:, w + 1 : size]
        lo, hi = self._settled(lo, hi, length)
        return FloatMatrix(lo, hi, error, float(hi.sum(axis=1).max()))

    def _make_long(self, length: int) -> FloatMatrix:
        """An enclosure of T_length and of all longer runs."""
        w, size = self.window, self.size
        states = np.arange(w + 1)
        hi = np.zeros((size + 1, size + 1))
        hi[:size, :size] = self._one_side(length)
        mantissas, exponents = self.crossing_long(states, states)
        hi[: w + 1, w:size] = np.ldexp(mantissas, clipped(exponents))[::-1]
        # What leaves above the window (see the module's text).
        leaving = math.exp(-self.rate * (w + 1))
        hi[: w + 1, size] = hi[: w + 1, size - 1] * (leaving / (1 - self._exit_decay))
        slowest = np.exp(-self.rate * (length - 1) * np.minimum(states[1:], (w + 1) / 2))
        climbs = np.ldexp(*self.leaving_first_run)[w - 1 :: -1]
        hi[w + 1 : size, size] = climbs * (leaving * length) * slowest
        hi[size, size] = math.exp(-self.rate * (w + 1) / 2 * length)
        hi[:, size] *= _SLACK
        lo, hi = self._settled(hi.copy(), hi, length)
        error = 6 * UNIT_ROUNDOFF + 2.0**-INDEPENDENCE_BITS
        if (lo == hi)[: w + 1, w:].all():
            lo = hi
        return FloatMatrix(lo, hi, error, float(hi.sum(axis=1).max()), centre=w)

    def _one_side(self, length: int) -> FloatArray:
        """The entries that do not cross zero, and zero elsewhere."""
        w, size = self.window, self.size
        entries = np.zeros((size, size))
        index = np.arange(w + 1)
        gap = index[None, :] - index[:, None]
        for weights, climbs, mirrored in (
            (self.positive_weights, self.positive_weights.upward(length), False),
            (self.negative_weights, self.negative_weights.inward(length), True),
        ):
            row, row_exponents = split(weights.powers(length)[: w + 1])
            climb, climb_exponents = split(climbs[: w + 1])
            part = np.ldexp(
                row[:, None] * climb[np.maximum(gap, 0)] * (gap >= 0),
                clipped(row_exponents[:, None] + climb_exponents[np.maximum(gap, 0)]),
            )
            if mirrored:
                # Entry (-s, -t) is that of (t, s).
                entries[: w + 1, : w + 1] = part.T[::-1, ::-1]
            else:
                entries[w:, w:] = part
        return entries

    def _settled(
        self, lo: FloatArray, hi: FloatArray, length: int
    ) -> tuple[FloatArray, FloatArray]:
        """Accounts for underflow; one array serves as both bounds where there is none."""
        if not (np.isfinite(lo).all() and np.isfinite(hi).all()):
            raise FloatingPointError("transfer weights overflow float64")
        index = np.arange(self.size + 1)
        climb = index[None, :] - index[:, None]
        weak = (climb >= 0) & (climb <= length) & (hi < TINY)
        lo[weak] = 0
        hi[weak] = TINY
        # The exit is zero in lo messages, so that its column does nothing there.
        lo[:, self.size] = hi[:, self.size]
        return (lo, hi) if weak[: self.size, : self.size].any() else (hi, hi)
