"""Encloses the weights of the walk in float64: transfer weights, and the messages of every block.

**Transfer weights** T_n(D, D') are the total weights of the paths through a run of n equal bits,
from state D to state D'. In a run of zeros the state stays or goes up by one at each step, and
every position has the weight q**|D| (see ``walk``). A run of ones is the mirror image (D to -D), so
only runs of zeros appear here.

If D and D' do not lie on different sides of zero, T_n has a closed form in Gaussian binomials
[n, k] = prod_{i=1..k} (1 - q**(n-k+i)) / (1 - q**i):

    T_n(0, k)       = q**(k(k+1)/2) [n, k]                       k >= 0
    T_n(D, D+k)     = q**(n D) T_n(0, k)                         D >= 0
    T_n(-s, 0)      = q**(-s) T_n(0, s)                          s >= 0, by reversal
    T_n(-s, -t)     = q**(n t) T_n(-(s-t), 0)                    s >= t >= 0

Across zero, T_n = T_h T_{n-h} where h is a power of two and at least n / 2. In T_n(-s, j) =
sum_m T_h(-s, m) T_{n-h}(m, j) at most one of the two factors crosses zero. So a relative error
grows with log n, not with n. A window keeps the states -W..W. Since D is monotone within a run, the
window does not change the entries inside it.

In a long run the two ends are nearly independent. The s early moves from -s to zero and the j late
moves from zero to j may be drawn separately, as if the run had no other end. Their total weights
are those of the infinite runs, B(s) and A(j). With r for the probability that the moves collide:

    T_n(-s, j) = B(s) A(j) (1 - r)      0 <= r <= (s + j) q**(n // 2 - max(s, j))
    T_n(D, D+k) <= q**(n D) A(k)        T_n(-s, -t) <= q**(n t) B(s - t)

So all lengths from ``independence_length`` on share one enclosure. Its lower bounds are 0 for
states on the wrong side: above zero in front of the run, or below zero behind it.

In float64 every entry has lower and upper bounds and an exponent of its own, since A(k) alone grows
to e**(pi**2 / 12 c). Row i of a table holds T_n(i, i), T_n(i, i + 1), ..., up to n moves, so short
runs have small tables. The product of two tables is computed in units of 2**(g(D) - g(D')), where
2**g(D) is about B(-D) below zero and 1 / A(D) above it. In these units a step from D <= 0 has a
weight of about q**|D| if D stays and of 1 - q**|D| if it moves, and no entry is much above 1. For
MPFR numbers see ``precise``.

**Messages.** beta_r(D) is the total weight of all completions of a walk that is in state D in front
of block r. It is log-concave in D, since q**|D| is, and a convolution with (1, 1) keeps it so.

Messages have lower and upper bounds. Their relative rounding errors are bounded separately, by one
number for each block: all terms are positive, so errors only add up. Each message has an exponent
of its own, since at small rates messages exceed float64's range.

A message is *known* if it has kept its relative precision. Others are bounded from the known ones,
by log-concavity. If b is the last state whose message is known,

    beta(b + k) <= beta(b) * (beta(b) / beta(b - 1))**k,

and in the same way downwards. The weight of paths that leave the window upwards during a block is
bounded for each row. T_n(D, .) and beta are both log-concave, and so is their product. So beyond
the last column W it falls at least as fast as a geometric series of ratio

    (T_n(D, W + 1) / T_n(D, W)) * (beta(W + 1) / beta(W)).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay, Weights
from dp_transforms.mechanisms.enclosure import Enclosure, Undecided, rounding_pair
from dp_transforms.mechanisms.partition.walk.walk import Blocks

UNIT_ROUNDOFF = 2.0**-53

FAR = 2**40  # Constants below 2**-FAR are not kept.

# The ends of a run count as independent if they collide with a probability of at most
# 2**-INDEPENDENCE_BITS.
INDEPENDENCE_BITS = 70

# In units in which entries are of order one, underflow loses less than this. Lower bounds below it
# become 0, and it is added to upper bounds.
LOST = 2.0**-900

_CONSTANT_BITS = 64
_KNOWN = 1 - 2.0**-10  # A message is known where its bounds are at least this close to each other.
_DEEP = 2**48  # No exponent is kept that is further than this below the largest one.
_LEAST = 2**60
_LARGEST_ENTRY = 2.0**50
LEAST_WIDTH = 4  # Every row of a matrix has room for at least this many entries.


def independence_length(decay: Decay, window: int, bits: int = INDEPENDENCE_BITS) -> int:
    """Returns a length from which on a run's ends, in states -W..W, collide with a probability of
    at most 2**-bits."""
    _, up = rounding_pair(64)
    rate, _ = decay.log_enclosure(64)
    cost = up.add(up.mul(bits, up.const_log2()), up.log(2 * max(window, 1)))
    distance = int(up.ceil(up.div(cost, rate)))
    return 2 * (window + distance) + 1


def parts_of(length: int) -> tuple[int, int]:
    """Returns the lengths of the two parts into which a run of more than one step is split. The
    first is a power of two."""
    first: int = 1 << ((length - 1).bit_length() - 1)
    return first, length - first


class FloatMatrix(NamedTuple):
    """Holds T_n on a window: row i has the entries (i, i), (i, i + 1), ..., up to n moves.

    Attributes:
      bounds, exponents: entries lie between bounds[0] * (1 - error) and bounds[1] * (1 + error),
        times 2**exponents; beyond the window they are 0.
      ends: the second states of entries, as indices, at most that of W.
      rise: ``rise[i]`` is at least T(i, j + 1) / T(i, j) for the window's last column j and all
        later ones.
      error: the relative rounding error.
    """

    bounds: FloatArray
    exponents: IntArray
    ends: IntArray
    rise: FloatArray
    error: float


class FloatTransfer:
    """Computes T_n on the window -W..W in scaled float64; state D has index D + W."""

    def __init__(self, decay: Decay, window: int):
        self.window = window
        self.size = 2 * window + 1
        self.long = independence_length(decay, window)
        """From this length on all runs share one matrix."""
        self._weights = Weights(decay, window + 2, _CONSTANT_BITS)
        self._matrices: dict[int, FloatMatrix] = {}

    def matrix(self, length: int) -> FloatMatrix:
        """Returns T_length, which is computed once. Raises a FloatingPointError if it exceeds the
        range of float64."""
        length = min(length, self.long)
        if length not in self._matrices:
            self._matrices[length] = self._make(length)
        return self._matrices[length]

    @cached_property
    def leaving_first_run(self) -> tuple[FloatArray, IntArray]:
        """Returns A(a) for a = 0..W, as mantissas and exponents: see ``split``."""
        return split(self._weights.leaving_first_run()[: self.window + 1])

    @cached_property
    def entering_last_run(self) -> tuple[FloatArray, IntArray]:
        """Returns B(e) for e = 0..W, as mantissas and exponents: see ``split``."""
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
        # Entries that do not cross zero: q**(n d) times the weight of the moves.
        is_above, few = start >= w, np.minimum(moves, w + 1)
        distance = np.where(is_above, start - w, np.maximum(w - end, 0))
        lo = stays[0][distance] * np.where(is_above, climbs[0][few], falls[0][few])
        exponents = stays[1][distance] + np.where(is_above, climbs[1][few], falls[1][few])
        is_reached = (end < size) & (moves <= length)
        # A constant that is not kept has the mantissa 0; 2**exponent bounds it from above.
        hi = np.where(lo > 0, lo, 1.0) * is_reached
        lo *= is_reached & ((start <= w) & (end >= w) if is_long else 1)
        # Entries on one side are products of two constants, which err by two units each.
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
        """Returns g(D) of each state: in units of 2**(g(D) - g(D')) entries are of order one."""
        _, leaving = self.leaving_first_run
        _, entering = self.entering_last_run
        return np.concatenate([entering[::-1], -leaving[1:]])

    def _product(self, near: FloatMatrix, far: FloatMatrix) -> FloatArray:
        """Returns lower and upper bounds on the entries across zero of a product, in ``_units``.
        The shape is 2 x states below zero x states above it."""
        first, second = self._in_units(near), self._in_units(far)
        if not max(first.max(), second.max()) < _LARGEST_ENTRY:
            raise FloatingPointError("transfer weights span too much for float64")
        bounds: FloatArray = first[:, : self.window] @ second[:, :, self.window + 1 :]
        bounds[0, bounds[0] < LOST] = 0
        bounds[1] += LOST
        return bounds

    def _in_units(self, matrix: FloatMatrix) -> FloatArray:
        """Returns lower and upper bounds on all entries, in ``_units``, of shape 2 x states x
        states."""
        bounds = np.zeros((2, self.size, self.size))
        rows, moved = np.nonzero(matrix.bounds[1])
        columns = rows + moved
        shifts = clipped(matrix.exponents[rows, moved] + self._units[columns] - self._units[rows])
        bounds[:, rows, columns] = np.ldexp(matrix.bounds[:, rows, moved], shifts)
        return bounds

    def _rise(self, climbs: tuple[FloatArray, IntArray], length: int) -> FloatArray:
        """Returns ``FloatMatrix.rise``. Rows are bounded by the row of state 0, since T is totally
        positive."""
        mantissas, exponents = climbs
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.ldexp(mantissas[1:] / mantissas[:-1], np.diff(exponents))
        # A ratio that underflows would be no upper bound.
        ratios = np.maximum(ratios, 2.0**-1000)
        ratios = np.where(np.arange(len(ratios)) < length, ratios, 0.0)[self.window :: -1]
        return np.concatenate([np.full(self.window, ratios[0]), ratios]) * (1 + 2.0**-30)


def split(enclosures: list[Enclosure]) -> tuple[FloatArray, IntArray]:
    """Returns mantissas in [1/2, 1) with an error of at most two units in the last place, and
    exponents. Numbers below 2**-FAR have the mantissa 0 and the exponent -FAR."""
    parts = [gmpy2.frexp(enclosure.lower) for enclosure in enclosures]
    kept = [
        (float(mantissa), int(exponent)) if mantissa and exponent > -FAR else (0.0, -FAR)
        for exponent, mantissa in parts
    ]
    mantissas, exponents = zip(*kept, strict=True)
    return np.array(mantissas), np.array(exponents)


def clipped(exponents: IntArray) -> npt.NDArray[np.int32]:
    """Returns exponents clipped to the 32 bits that ldexp takes, which does not change its
    results."""
    return np.clip(exponents, -5000, 5000).astype(np.int32)


class Messages(NamedTuple):
    """Holds beta_0..beta_R on the window: beta_r(D) lies within lo[r, D + W] * (1 - errors[r]) and
    hi[r, D + W] * (1 + errors[r]), times 2**exponents[r, D + W]."""

    lo: FloatArray
    hi: FloatArray
    exponents: IntArray
    errors: FloatArray


@np.errstate(all="ignore")
def backward(blocks: Blocks, transfer: FloatTransfer) -> Messages:
    """Returns the messages in front of all blocks, and behind the last one.

    Raises:
      Undecided: the window is too narrow.
      FloatingPointError: float64's range is too small, or there are so many blocks that rounding
        errors add up to more than 2**-20.
    """
    count = len(blocks)
    vector = _Vector(blocks, transfer)
    values = np.empty((count + 1, 2, transfer.size))
    exponents = np.empty((count + 1, transfer.size), dtype=np.int64)
    errors = np.empty(count + 1)
    for index in range(count, -1, -1):
        if index < count:
            vector.pass_block(index)
        turn = -1 if vector.mirrored else 1
        values[index] = vector.values[:, ::turn]
        exponents[index] = vector.exponents[::turn]
        errors[index] = vector.error
    if not errors[0] < 2.0**-20:
        raise FloatingPointError("too many blocks for float64")
    # A product of factors 1 + e is at most exp(sum e), below 1 + 1.01 sum e for small sums.
    return Messages(values[:, 0], values[:, 1], exponents, 1.01 * errors)


class _Vector:
    """Bounds beta by values times 2**exponents, in front of a block or behind the last one.

    It is mirrored (state D to -D) if the block is one of ones. A state is alive if a walk can still
    end at zero from it within the walls: below zero, it is no further away than there are zeros
    ahead. For other states beta is zero, with the lowest exponent kept.
    """

    def __init__(self, blocks: Blocks, transfer: FloatTransfer):
        self._blocks, self._transfer, window = blocks, transfer, transfer.window
        self.values = np.zeros((2, transfer.size))
        self.exponents = np.zeros(transfer.size, dtype=np.int64)
        self.values[:, window:], self.exponents[window:] = transfer.entering_last_run
        self.error = 4 * UNIT_ROUNDOFF
        self._lowest, self._highest = max(blocks.lowest.item(-1), 0), blocks.highest.item(-1)
        self.mirrored = False
        self._below: tuple[float, int] = 0.0, 0
        self._above: tuple[float, int] = 0.0, 0
        self._normalise()

    def pass_block(self, index: int) -> None:
        """Replaces beta behind a block by beta in front of it."""
        bit, length = self._blocks.bits.item(index), self._blocks.lengths.item(index)
        if bit != self.mirrored:
            self.mirrored = not self.mirrored
            self.values, self.exponents = self.values[:, ::-1], self.exponents[::-1]
            self._below, self._above = self._above, self._below
        self._multiply(self._transfer.matrix(length))
        if bit:
            self._highest += length
        else:
            self._lowest -= length
        self._lowest = max(self._lowest, self._blocks.lowest.item(index))
        self._highest = min(self._highest, self._blocks.highest.item(index))
        self._normalise()

    def _multiply(self, matrix: FloatMatrix) -> None:
        """Multiplies beta by T_n, and bounds the paths that leave the window upwards."""
        size = self._transfer.size
        ratio, scale = self._above
        fall = np.ldexp(matrix.rise * ratio, min(scale, 2000))
        # Rows whose products still grow at the window's edge are left unbounded.
        beyond = np.where(fall < 1, fall / (1 - fall), math.inf)
        terms = self.values[:, matrix.ends] * matrix.bounds
        exponents = self.exponents[matrix.ends] + matrix.exponents
        # 0 times an unbounded message is 0.
        counts = terms[1] > 0
        top = exponents.max(axis=1, where=counts, initial=-_LEAST)
        terms = np.ldexp(np.where(counts, terms, 0), clipped(exponents - top[:, None]))
        self.values, self.exponents = terms.sum(axis=2), top
        self.values[1] += LOST
        edge = np.arange(max(size - terms.shape[2], 0), size)
        self.values[1, edge] += (terms[1, edge, size - 1 - edge] + LOST) * beyond[edge]
        self.values[0, self.values[0] < LOST] = 0
        self.error += matrix.error + (size + 4) * UNIT_ROUNDOFF

    def _normalise(self) -> None:
        """Gives every state its own exponent, and bounds the messages that are not known."""
        window = self._transfer.window
        states = np.arange(-window, window + 1) * (-1 if self.mirrored else 1)
        alive = (states >= self._lowest) & (states <= self._highest)
        self.values[:, ~alive] = 0
        lo, hi = self.values
        known = alive & (lo > 0) & (lo >= _KNOWN * hi)
        # Upper bounds get mantissas in [1/2, 1) where they are finite.
        _, own = np.frexp(np.where(np.isfinite(hi), hi, 0))
        self.values, self.exponents = np.ldexp(self.values, -own), self.exponents + own
        if not known.any():
            raise Undecided
        deepest = self.exponents[known].max() - _DEEP
        known &= self.exponents > deepest
        end = len(alive) - 1
        lowest, highest = np.flatnonzero(alive)[[0, -1]].tolist()
        # No ratio is needed if no state is alive beyond the last known one.
        if lowest == 0 or not known[lowest]:
            first, self._below = self._edge(known, -1)
            self._extrapolate(np.arange(first - 1, -1, -1), first, self._below)
        if highest == end or not known[highest]:
            last, self._above = self._edge(known, 1)
            self._extrapolate(np.arange(last + 1, len(alive)), last, self._above)
        low = self.exponents <= deepest
        self.values[0, low] = 0
        self.exponents[low] = deepest
        if lowest > 0:
            self._below = 0.0, 0
        if highest < end:
            self._above = 0.0, 0
        self.values[:, ~alive] = 0
        self.exponents[~alive] = deepest

    def _edge(self, known: BoolArray, direction: int) -> tuple[int, tuple[float, int]]:
        """Returns a state far out in that direction, and an upper bound on the ratio of its message
        to that of the state before it, as a mantissa and an exponent.

        There are two candidates: the last known state that follows a known one, and the first state
        behind all known ones. The one with the smaller ratio is returned.
        """
        states = np.flatnonzero(known)[::direction]
        pairs = states[1:][np.diff(states) == direction]
        edges = [*pairs[-1:].tolist(), states.item(-1) + direction]
        edges = [state for state in edges if 0 <= state < len(known)]
        if not edges:
            raise Undecided
        ratios = [self._ratio(state, state - direction) for state in edges]
        # An unbounded state has an infinite mantissa, whatever its exponent is.
        least = min(ratios, key=lambda ratio: math.log2(ratio[0]) + ratio[1])
        return edges[ratios.index(least)], least

    def _ratio(self, state: int, inner: int) -> tuple[float, int]:
        """Returns an upper bound on beta(state) / beta(inner), as a mantissa and an exponent."""
        ratio = self.values.item(1, state) / self.values.item(0, inner)
        mantissa, exponent = math.frexp(ratio * (1 + 2.0**-18))
        return mantissa, exponent + int(self.exponents[state] - self.exponents[inner])

    def _extrapolate(self, states: IntArray, known: int, ratio: tuple[float, int]) -> None:
        """Bounds the messages of the states that follow ``known``, by powers of the ratio. A bound
        that is better already is kept."""
        mantissa, exponent = ratio
        steps = np.arange(1, len(states) + 1)
        # A mantissa is at least 1/2. Where its powers would underflow, a larger bound takes over.
        bounds = np.maximum(mantissa**steps, 2.0**-1000) * (1 + 2.0**-40) * self.values[1, known]
        shifts = steps * exponent + self.exponents[known]
        lo, hi = self.values[:, states]
        own = self.exponents[states]
        with np.errstate(divide="ignore"):
            better = np.log2(bounds) + shifts < np.log2(hi) + own
        shifts = np.where(better, shifts, own)
        self.values[0, states] = np.ldexp(lo, clipped(own - shifts))
        self.values[1, states] = np.where(better, bounds, hi)
        self.exponents[states] = shifts
