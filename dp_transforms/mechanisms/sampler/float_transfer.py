"""Transfer weights in float64, of any rate: see ``transfer``.

At small rates T_n(-s, j) is close to B(s) A(j), and A(k) alone grows to e**(pi**2 / 12 c). So rows
are kept in groups, and in a group entry (i, j) is a float64 times 2**(rows[i] + columns[j]). The
columns' exponents are those of the group's first row. That takes out nearly all of the range, since
log T(i, j) changes slowly from row to row. A group keeps only the columns that its rows reach.

All long runs share one matrix, as in ``transfer``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.sampler.transfer import (
    FAR,
    INDEPENDENCE_BITS,
    UNIT_ROUNDOFF,
    Transfer,
    clipped,
    cumulative,
    parts_of,
    settle,
    split,
)

_CONSTANT_BITS = 64

LOST = 2.0**-900  # What underflows beside others of its group is less than this, in their scale.

CLEARANCE = 2.0**100
"""A number that is larger than the bound on a loss by this factor is not affected by the loss."""

_GROUP = 32  # The most rows of a group.
_LARGEST_RANGE = 300  # The logarithm of how much the entries of a group may differ.
_LARGEST_SHIFT = 900
_STEPPING = 24


@dataclass(frozen=True)
class Group:
    """Rows start.. of T_n, and the columns start.. that they reach.

    Entry (i, j) of the group is entries[i, j] * 2**(rows[i] + columns[j]), with entries[i, j] <= 1.
    """

    start: int
    entries: FloatArray
    rows: IntArray
    columns: IntArray

    @property
    def stop(self) -> int:
        """The first row behind the group."""
        return self.start + len(self.rows)

    @property
    def end(self) -> int:
        """The first column behind those that the group reaches."""
        return self.start + len(self.columns)


@dataclass(frozen=True)
class FloatMatrix:
    """T_n on a window.

    An entry has a relative error of at most ``error``, or it was lost: then it is zero here, and in
    truth at most ``lost`` in its group's scale. ``rise[i]`` is at least T(i, j + 1) / T(i, j) for
    the window's last column j and all later ones.

    One for all long runs bounds some entries from above only: those of rows behind ``centre``, the
    index of state 0, and of columns in front of it. For others ``centre`` is None.
    """

    groups: list[Group]
    rise: FloatArray
    error: float
    lost: float
    centre: int | None

    def row(self, index: int, count: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Entries (index, index..index+count-1): lower and upper bounds, and exponents."""
        group = self.groups[self._group_of[index]]
        at = index - group.start
        found = group.entries[at, at : at + count]
        missing = count - len(found)
        exponents = group.rows[at] + group.columns[at : at + count]
        if missing:
            found = np.append(found, np.zeros(missing))
            exponents = np.append(exponents, np.full(missing, exponents[-1]))
        lower = found
        if self.centre is not None:
            # In long runs only these are bounded from below.
            columns = np.arange(index, index + count)
            lower = found * ((columns >= self.centre) & (index <= self.centre))
        return lower, found + self.lost, exponents

    def column(self, first: int, index: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Entries (first..index, index), likewise."""
        rows = [self.row(row, index - row + 1) for row in range(first, index + 1)]
        lo, hi, exponents = (
            np.array([np.atleast_1d(part)[-1] for part in parts])
            for parts in zip(*rows, strict=True)
        )
        return lo, hi, exponents

    @cached_property
    def _group_of(self) -> list[int]:
        return [number for number, group in enumerate(self.groups) for _ in group.rows]


class FloatTransfer(Transfer[FloatMatrix]):
    """T_n on the window -W..W in scaled float64. State D has index D + W."""

    def __init__(self, decay: Decay, window: int):
        # Shorter runs are cheaper step by step than by a matrix.
        self.most_steps = (2 * window + 1) // _STEPPING
        super().__init__(
            decay, window, _CONSTANT_BITS, INDEPENDENCE_BITS, beyond=1 + self.most_steps
        )
        self._in_first_part: dict[tuple[int, int, int, int], tuple[list[float], list[float]]] = {}
        w = window
        # From row to row of a group entries change by factors of up to about q**W.
        rate = float(decay.log_enclosure(64)[1])
        group = max(1, min(_GROUP, int(_LARGEST_RANGE / (rate * (w + 1)))))
        self._spans = [
            (start, min(start + group, stop))
            for first, stop in ((0, w), (w, self.size))
            for start in range(first, stop, group)
        ]

    @cached_property
    def step_weights(self) -> tuple[FloatArray, IntArray]:
        """q**|D| for D = -W..W + most_steps, which a step costs in each state, as mantissas and
        exponents."""
        mantissas, exponents = split(self.weights.powers(1))
        inner = slice(self.window, 0, -1)
        return np.append(mantissas[inner], mantissas), np.append(exponents[inner], exponents)

    def in_first_part(
        self, near: int, far: int, start: int, moves: int
    ) -> tuple[list[float], list[float]]:
        """Enclosures of Pr[at most j moves are among the first ``near`` steps], for j = 0..moves,
        of a run of near + far steps with so many moves that the state of index start enters."""
        found = self._in_first_part.get((near, far, start, moves))
        if found is None:
            first, second = self.matrix(near), self.matrix(far)
            first_lo, first_hi, first_scale = first.row(start, moves + 1)
            second_lo, second_hi, second_scale = second.column(start, start + moves)
            scale = np.asarray(first_scale + second_scale)
            lo, hi = cumulative(
                first_lo * second_lo, first_hi * second_hi, clipped(scale - scale.max())
            )
            error = 2 * (first.error + second.error + (moves + 6) * UNIT_ROUNDOFF)
            with np.errstate(divide="ignore", invalid="ignore"):
                lo, hi = lo[:-1] / hi[-1] * (1 - error), hi[:-1] / lo[-1] * (1 + error)
            settle(lo, hi)
            # The last sum is the total by definition.
            found = [*lo.tolist(), 1.0], [*hi.tolist(), 1.0]
            self._in_first_part[near, far, start, moves] = found
        return found

    def crossing_long(self, below: IntArray, above: IntArray) -> tuple[FloatArray, IntArray]:
        """B(s) A(j) for arrays of s and j, as mantissas (five units of error) and exponents."""
        entering, leaving = self.entering_last_run, self.leaving_first_run
        return (
            np.outer(entering[0][below], leaving[0][above]),
            np.add.outer(entering[1][below], leaving[1][above]),
        )

    @cached_property
    def leaving_first_run(self) -> tuple[FloatArray, IntArray]:
        """A(a) for a = 0..W, as mantissas (two units of error) and exponents."""
        return split(self.weights.leaving_first_run()[: self.window + 1])

    @cached_property
    def entering_last_run(self) -> tuple[FloatArray, IntArray]:
        """B(e) for e = 0..W, likewise."""
        return split(self.weights.entering_last_run()[: self.window + 1])

    def _make(self, length: int) -> FloatMatrix:
        w = self.window
        powers, climbs = split(self.weights.powers(length)), split(self.weights.upward(length))
        sides = (powers, climbs), (powers, split(self.weights.inward(length)))
        # Entries on one side are products of two constants of two units each.
        error = one_side = 6 * UNIT_ROUNDOFF
        halves = None
        if length == self.long:
            error += 2.0**-INDEPENDENCE_BITS
        elif length > 1:
            near, far = parts_of(length)
            halves = self.matrix(near), self.matrix(far)
            sums = self.size + len(self._spans) + 4
            error += max(half.error for half in halves) + one_side + sums * UNIT_ROUNDOFF
        groups, lost = [], LOST
        for start, stop in self._spans:
            end = min(stop - 1 + length, self.size - 1) + 1
            rows, columns = np.arange(start, stop), np.arange(start, end)
            mantissas, exponents = self._one_side(sides, rows, columns)
            weak = None
            if start < w < end - 1:
                crossing = columns > w
                if halves is None:
                    part = self.crossing_long(w - rows, columns[crossing] - w)
                else:
                    product, scales, floor = _product(halves, start, stop, w + 1, end)
                    reached = columns[crossing] - rows[:, None] <= length
                    weak = (product < floor) & reached, floor, scales
                    part = product * (product >= floor), scales
                mantissas[:, crossing], exponents[:, crossing] = part
            group = _scaled(start, min(length, end - 1 - start), mantissas, exponents)
            groups.append(group)
            if weak is not None and weak[0].any():
                scales = group.rows[:, None] + group.columns[columns > w]
                shift = int((weak[2] - scales)[weak[0]].max())
                if shift > _LARGEST_SHIFT:
                    raise FloatingPointError("transfer weights span too much for float64")
                lost = max(lost, weak[1] * 2.0**shift)
        centre = w if length == self.long else None
        return FloatMatrix(groups, self._rise(climbs, length), error, lost, centre)

    def _one_side(
        self,
        sides: tuple[tuple[tuple[FloatArray, IntArray], tuple[FloatArray, IntArray]], ...],
        rows: IntArray,
        columns: IntArray,
    ) -> tuple[FloatArray, IntArray]:
        """The entries that do not cross zero, as mantissas (zero elsewhere) and exponents."""
        climb = columns[None, :] - rows[:, None]
        reached = climb >= 0
        above = rows[0] >= self.window
        (power, power_exponents), (weight, weight_exponents) = sides[0 if above else 1]
        if above:
            stay = np.broadcast_to((rows - self.window)[:, None], climb.shape)
        else:
            reached &= columns <= self.window
            stay = np.broadcast_to(np.maximum(self.window - columns, 0)[None, :], climb.shape)
        climb = np.where(reached, climb, 0)
        return (
            power[stay] * weight[climb] * reached,
            power_exponents[stay] + weight_exponents[climb],
        )

    def _rise(self, climbs: tuple[FloatArray, IntArray], length: int) -> FloatArray:
        """T is totally positive, so the ratio of row 0 serves for the rows below it."""
        mantissas, exponents = climbs
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.ldexp(mantissas[1:] / mantissas[:-1], np.diff(exponents))
        # A bound that underflows is no bound.
        ratios = np.maximum(ratios, 2.0**-1000)
        ratios = np.where(np.arange(len(ratios)) < length, ratios, 0.0)[self.window :: -1]
        return np.concatenate([np.full(self.window, ratios[0]), ratios]) * (1 + 2.0**-30)


def _scaled(start: int, reach: int, mantissas: FloatArray, exponents: IntArray) -> Group:
    """A group from entries mantissa * 2**exponent; its first row reaches ``reach`` columns on."""
    _, own = np.frexp(mantissas)
    exponents = np.where(mantissas > 0, exponents + own, -FAR)
    first = exponents[0, np.minimum(np.arange(mantissas.shape[1]), reach)]
    # What is lost is below 2**-FAR: no scale may come near that.
    columns = np.maximum(first - first.max(), -FAR // 4)
    exponents -= columns
    rows = np.maximum(exponents.max(axis=1), -FAR // 4)
    entries = np.ldexp(mantissas, clipped(exponents - own - rows[:, None]))
    return Group(start, entries, rows, columns)


def _product(
    halves: tuple[FloatMatrix, FloatMatrix], start: int, stop: int, first: int, end: int
) -> tuple[FloatArray, IntArray, float]:
    """Rows start..stop-1 and columns first..end-1 of the product of two matrices: entries and their
    exponents, and the entry from which on nothing that was lost matters."""
    near = next(group for group in halves[0].groups if group.start == start)
    parts, scales = [], []
    for far in halves[1].groups:
        low, high = max(far.start, near.start), min(far.stop, near.end)
        if low >= high or far.end <= first:
            continue
        middle = slice(low - far.start, high - far.start)
        left = near.entries[:, low - near.start : high - near.start]
        inner = near.columns[low - near.start : high - near.start] + far.rows[middle]
        top = inner.max()
        left = np.ldexp(left, clipped(inner - top))
        # What the group's other rows reach beyond ``end`` is out of these rows' reach.
        begin, behind = max(first, far.start), min(end, far.end)
        right = slice(begin - far.start, behind - far.start)
        part = np.zeros((stop - start, end - first))
        part[:, begin - first : behind - first] = left @ far.entries[middle, right]
        scale = np.full(end - first, -FAR)
        scale[begin - first : behind - first] = top + far.columns[right]
        parts.append(part)
        scales.append(scale)
    columns = np.max(scales, axis=0)
    total = np.zeros((stop - start, end - first))
    for part, scale in zip(parts, scales, strict=True):
        total += np.ldexp(part, clipped(scale - columns))
    floor = len(near.columns) * (halves[0].lost + halves[1].lost + LOST) * CLEARANCE
    return total, near.rows[:, None] + columns, floor
