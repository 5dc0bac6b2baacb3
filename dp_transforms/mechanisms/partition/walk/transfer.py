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

In float64 every entry has lower and upper bounds and an exponent of its own, since A(k) alone grows
to e**(pi**2 / 12 c). Row i of a table holds T_n(i, i), T_n(i, i + 1), ..., up to n moves, so that
short runs have small ones. A product of two is taken in units of 2**(g(D) - g(D')), where 2**g(D)
is about B(-D) below zero and 1 / A(D) above: in these a step from D <= 0 stays with about q**|D|
and moves with 1 - q**|D|, and no entry is much above 1. In MPFR numbers: see ``precise``.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

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

LOST = 2.0**-900
"""What underflows beside entries of order one is less than this, and so is their smallest bound."""

_CONSTANT_BITS = 64
_LARGEST_ENTRY = 2.0**50
LEAST_WIDTH = 4  # So many entries of each row there are at least.


def independence_length(decay: Decay, window: int, bits: int = INDEPENDENCE_BITS) -> int:
    """The length from which on the ends of a run, entered and left in states within -W..W, collide
    with a probability of at most 2**-bits."""
    _, up = rounding_pair(64)
    rate, _ = decay.log_enclosure(64)
    cost = up.add(up.mul(bits, up.const_log2()), up.log(2 * max(window, 1)))
    distance = int(up.ceil(up.div(cost, rate)))
    return 2 * (window + distance) + 1


def parts_of(length: int) -> tuple[int, int]:
    """The lengths of the two runs that a run of more than one step is put together from."""
    first: int = 1 << ((length - 1).bit_length() - 1)
    return first, length - first


class FloatMatrix(NamedTuple):
    """T_n on a window: line i has the entries (i, i), (i, i + 1), ..., up to n moves.

    An entry lies within bounds[0] * (1 - error) and bounds[1] * (1 + error), times 2**exponents; it
    is 0 beyond the window. ``ends`` are the second states, at most W. ``rise[i]`` is at least
    T(i, j + 1) / T(i, j) for the window's last column j and all later ones. One for all long runs
    bounds from below only what begins at zero or below and ends at zero or above.
    """

    bounds: FloatArray
    exponents: IntArray
    ends: IntArray
    rise: FloatArray
    error: float


class FloatTransfer:
    """T_n on the window -W..W in scaled float64; state D has index D + W."""

    def __init__(self, decay: Decay, window: int):
        self.window = window
        self.size = 2 * window + 1
        self.long = independence_length(decay, window)
        """From this length on all runs share one matrix."""
        self._weights = Weights(decay, window + 2, _CONSTANT_BITS)
        self._matrices: dict[int, FloatMatrix] = {}

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
        w, size, weights = self.window, self.size, self._weights
        is_long = length == self.long
        stays, climbs, falls = (
            split(of(length)) for of in (weights.powers, weights.upward, weights.inward)
        )
        start = np.arange(size)[:, None]
        moves = np.arange(min(max(length, LEAST_WIDTH - 1), 2 * w) + 1)
        end = start + moves
        # What does not cross zero: q**(n d) times the weight of the moves.
        is_above, few = start >= w, np.minimum(moves, w + 1)
        distance = np.where(is_above, start - w, np.maximum(w - end, 0))
        lo = stays[0][distance] * np.where(is_above, climbs[0][few], falls[0][few])
        exponents = stays[1][distance] + np.where(is_above, climbs[1][few], falls[1][few])
        is_reached = (end < size) & (moves <= length)
        # Of a constant that is not kept its exponent is the upper bound.
        hi = np.where(lo > 0, lo, 1.0) * is_reached
        lo *= is_reached & ((start <= w) & (end >= w) if is_long else 1)
        # Entries on one side are products of two constants of two units each.
        error = 6 * UNIT_ROUNDOFF
        rows, moved = np.nonzero(~is_above & (end > w) & is_reached)
        columns = rows + moved
        if is_long:
            error += 2.0**-INDEPENDENCE_BITS
            # B(s) A(j): five units of error.
            entering, leaving = self.entering_last_run, self.leaving_first_run
            lo[rows, moved] = entering[0][w - rows] * leaving[0][columns - w]
            hi[rows, moved] = lo[rows, moved]
            exponents[rows, moved] = entering[1][w - rows] + leaving[1][columns - w]
        elif length > 1:
            near, far = (self.matrix(part) for part in parts_of(length))
            error += max(near.error, far.error) + (size + 4) * UNIT_ROUNDOFF
            for side, product in zip((lo, hi), self._product(near, far), strict=True):
                side[rows, moved] = product[rows, columns - w - 1]
            exponents[rows, moved] = self._units[rows] - self._units[columns]
        _, own = np.frexp(hi)
        exponents = np.where(hi > 0, exponents + own, -FAR)
        bounds, ends = np.ldexp([lo, hi], -own), np.minimum(end, size - 1)
        return FloatMatrix(bounds, exponents, ends, self._rise(climbs, length), error)

    @cached_property
    def _units(self) -> IntArray:
        """g(D) of each state."""
        _, leaving = self.leaving_first_run
        _, entering = self.entering_last_run
        return np.concatenate([entering[::-1], -leaving[1:]])

    def _product(self, near: FloatMatrix, far: FloatMatrix) -> FloatArray:
        """Lower and upper bounds of the entries across zero of a product, by state, in units."""
        first, second = self._in_units(near), self._in_units(far)
        if not max(first.max(), second.max()) < _LARGEST_ENTRY:
            raise FloatingPointError("transfer weights span too much for float64")
        bounds: FloatArray = first[:, : self.window] @ second[:, :, self.window + 1 :]
        bounds[0, bounds[0] < LOST] = 0
        bounds[1] += LOST
        return bounds

    def _in_units(self, matrix: FloatMatrix) -> FloatArray:
        """Lower and upper bounds of all entries, by state."""
        found = np.zeros((2, self.size, self.size))
        rows, moved = np.nonzero(matrix.bounds[1])
        columns = rows + moved
        shifts = clipped(matrix.exponents[rows, moved] + self._units[columns] - self._units[rows])
        found[:, rows, columns] = np.ldexp(matrix.bounds[:, rows, moved], shifts)
        return found

    def _rise(self, climbs: tuple[FloatArray, IntArray], length: int) -> FloatArray:
        """T is totally positive, so the ratio of row 0 serves for the rows below it."""
        mantissas, exponents = climbs
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.ldexp(mantissas[1:] / mantissas[:-1], np.diff(exponents))
        # A bound that underflows is no bound.
        ratios = np.maximum(ratios, 2.0**-1000)
        ratios = np.where(np.arange(len(ratios)) < length, ratios, 0.0)[self.window :: -1]
        return np.concatenate([np.full(self.window, ratios[0]), ratios]) * (1 + 2.0**-30)


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
