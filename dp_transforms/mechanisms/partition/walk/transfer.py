"""Transfer weights: how much a run of equal bits weighs, from each state to each other.

In a run of ``n`` zero bits the state D stays or goes up by one at each step, and every position
costs q**|D| (see ``walk``). T_n(D, D') is the total weight of the paths from D to D'. A run of one
bits is the mirror image (D to -D), so only runs of zeros appear here.

Where D and D' do not lie on different sides of zero, T_n has a closed form in Gaussian binomials
[n, k] = prod_{i=1..k} (1 - q**(n-k+i)) / (1 - q**i):

    T_n(0, k)       = q**(k(k+1)/2) [n, k]                       k >= 0
    T_n(D, D+k)     = q**(n D) T_n(0, k)                         D >= 0
    T_n(-s, 0)      = q**(-s) T_n(0, s)                          s >= 0, by reversal
    T_n(-s, -t)     = q**(n t) T_n(-(s-t), 0)                    s >= t >= 0

Across zero, T_n = T_h T_{n-h} where h is a power of two and at least n / 2. In T_n(-s, j) =
sum_m T_h(-s, m) T_{n-h}(m, j) at most one of the two factors crosses zero, so a relative error
grows with log n, not with n. A window keeps the states -W..W; as D is monotone within a run,
entries inside it are exact all the same.

In a long run the two ends have nothing to do with each other. The s early moves from -s to zero
and the j late ones from zero to j may be drawn apart, as if the run had no other end, with the
total weights B(s) and A(j) of the infinite runs; r is the probability that they collide:

    T_n(-s, j) = B(s) A(j) (1 - r)      0 <= r <= (s + j) q**(n // 2 - max(s, j))
    T_n(D, D+k) <= q**(n D) A(k)        T_n(-s, -t) <= q**(n t) B(s - t)

So from ``independence_length`` on all lengths share one enclosure. It says of the states on the
wrong side, above zero in front of the run or below it behind, only how little they weigh.

In float64: at small rates T_n(-s, j) is close to B(s) A(j), and A(k) alone grows to
e**(pi**2 / 12 c). So rows are kept in groups, and in a group entry (i, j) is a float64 times
2**(rows[i] + columns[j]). The columns' exponents are those of the group's first row. That takes out
nearly all of the range, since log T(i, j) changes slowly from row to row. A group keeps only the
columns that its rows reach. In MPFR numbers: see ``precise``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay, Weights
from dp_transforms.mechanisms.enclosure import Enclosure, rounding_pair

UNIT_ROUNDOFF = 2.0**-53

FAR = 2**40  # Constants below 2**-FAR are not kept.

INDEPENDENCE_BITS = 70
"""The ends of a run count as independent in float64 if they collide with a probability of at most
2 to the power of minus this."""

LOST = 2.0**-900  # What underflows beside others of its group is less than this, in their scale.

CLEARANCE = 2.0**100
"""A number that is larger than the bound on a loss by this factor is not affected by the loss."""

_CONSTANT_BITS = 64
_GROUP = 32  # The most rows of a group.
_LARGEST_RANGE = 300  # The logarithm of how much the entries of a group may differ.
_LARGEST_SHIFT = 900


def independence_length(decay: Decay, window: int, bits: int = INDEPENDENCE_BITS) -> int:
    """The length from which on a run's ends collide with a probability of at most 2**-bits.

    Args:
      decay: the ratio q.
      window: W; the run is entered and left in states within -W..W.
    """
    _, up = rounding_pair(64)
    rate, _ = decay.log_enclosure(64)
    cost = up.add(up.mul(bits, up.const_log2()), up.log(2 * max(window, 1)))
    distance = int(up.ceil(up.div(cost, rate)))
    return 2 * (window + distance) + 1


def parts_of(length: int) -> tuple[int, int]:
    """The lengths of the two runs that a run of more than one step is put together from."""
    first: int = 1 << ((length - 1).bit_length() - 1)
    return first, length - first


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

    @cached_property
    def _group_of(self) -> list[int]:
        return [number for number, group in enumerate(self.groups) for _ in group.rows]


class FloatTransfer:
    """T_n on the window -W..W in scaled float64; state D has index D + W.

    Args:
      decay: the ratio q.
      window: W.
    """

    def __init__(self, decay: Decay, window: int):
        self.window = window
        self.size = 2 * window + 1
        self.long = independence_length(decay, window)
        """From this length on all runs share one matrix."""
        self._weights = Weights(decay, window + 2, _CONSTANT_BITS)
        self._matrices: dict[int, FloatMatrix] = {}
        w = window
        # From row to row of a group entries change by factors of up to about q**W.
        rate = float(decay.log_enclosure(64)[1])
        group = max(1, min(_GROUP, int(_LARGEST_RANGE / (rate * (w + 1)))))
        self._spans = [
            (start, min(start + group, stop))
            for first, stop in ((0, w), (w, self.size))
            for start in range(first, stop, group)
        ]

    def matrix(self, length: int) -> FloatMatrix:
        """T_length, made once and kept.

        Raises:
          FloatingPointError: the entries span more than float64 does.
        """
        length = min(length, self.long)
        if length not in self._matrices:
            self._matrices[length] = self._make(length)
        return self._matrices[length]

    @cached_property
    def leaving_first_run(self) -> tuple[FloatArray, IntArray]:
        """A(a) for a = 0..W, as mantissas (two units of error) and exponents."""
        return split(self._weights.leaving_first_run()[: self.window + 1])

    @cached_property
    def entering_last_run(self) -> tuple[FloatArray, IntArray]:
        """B(e) for e = 0..W, likewise."""
        return split(self._weights.entering_last_run()[: self.window + 1])

    def _make(self, length: int) -> FloatMatrix:
        w = self.window
        weights = self._weights
        stays, climbs = split(weights.powers(length)), split(weights.upward(length))
        falls = split(weights.inward(length))
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
        entering, leaving = self.entering_last_run, self.leaving_first_run
        groups, lost = [], LOST
        for start, stop in self._spans:
            end = min(stop - 1 + length, self.size - 1) + 1
            rows, columns = np.arange(start, stop), np.arange(start, end)
            # What does not cross zero: q**(n d) times the weight of the moves.
            flips, above = columns - rows[:, None], start >= w
            reached = (flips >= 0) & (above | (columns <= w))
            flips = np.where(reached, flips, 0)
            distance = (rows - w)[:, None] if above else np.maximum(w - columns, 0)
            weight, shifts = climbs if above else falls
            mantissas = stays[0][distance] * weight[flips] * reached
            exponents = stays[1][distance] + shifts[flips]
            weak = None
            if start < w < end - 1:
                crossing = columns > w
                if halves is None:
                    # B(s) A(j): five units of error.
                    part = (
                        np.outer(entering[0][w - rows], leaving[0][1 : end - w]),
                        np.add.outer(entering[1][w - rows], leaving[1][1 : end - w]),
                    )
                else:
                    product, scales, floor = _product(halves, start, stop, w + 1, end)
                    possible = columns[crossing] - rows[:, None] <= length
                    weak = (product < floor) & possible, floor, scales
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


def split(enclosures: list[Enclosure]) -> tuple[FloatArray, IntArray]:
    """Mantissas in [1/2, 1) with an error of at most two units, and exponents.

    What is below 2**-FAR has the mantissa 0 and the exponent -FAR.
    """
    parts = [gmpy2.frexp(lo) for lo, _ in enclosures]
    exponents = [int(exponent) if mantissa else -FAR for exponent, mantissa in parts]
    mantissas = [
        float(mantissa) if exponent > -FAR else 0.0
        for exponent, (_, mantissa) in zip(exponents, parts, strict=True)
    ]
    return np.array(mantissas), np.maximum(np.array(exponents), -FAR)


def clipped(exponents: IntArray) -> npt.NDArray[np.int32]:
    """Exponents that ldexp takes, and that do what the given ones do."""
    return np.minimum(np.maximum(exponents, -5000), 5000).astype(np.int32)
