"""The backward pass of the walk in float64: enclosures of every block's messages.

beta_r(D) is the total weight of all completions of a walk that is in state D before block r. It is
log-concave in D (q**|D| is, and a convolution with (1, 1) keeps it).

Messages have lower and upper bounds, and their relative rounding errors are bounded apart, by one
number for each block: all terms are positive, so errors only add up. Each has an exponent of its
own, as at small rates they span more than float64's range.

Every message keeps its relative precision, or is not *known*: then it is bounded by log-concavity
from those that are,

    beta(b + k) <= beta(b) * (beta(b) / beta(b - 1))**k           b the last one known,

and in the same way downwards. What a path weighs that leaves the window upwards during a block is
bounded in each row by itself: T_n(D, .) and beta are both log-concave, and so is their product, so
beyond the last column W it falls at least as fast as a geometric series of ratio

    (T_n(D, W + 1) / T_n(D, W)) * (beta(W + 1) / beta(W)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.partition.walk.transfer import (
    LOST,
    UNIT_ROUNDOFF,
    FloatMatrix,
    FloatTransfer,
    clipped,
)
from dp_transforms.mechanisms.partition.walk.walk import Blocks

_KNOWN = 1 - 2.0**-10  # A message is known where its bounds are at least this close to each other.
_DEEP = 2**48  # No exponent is kept that is further below the largest.
_LEAST = 2**60


@dataclass(frozen=True)
class Messages:
    """Enclosures of beta_0..beta_R on the window; D has index D + W.

    beta_r(D) lies within lo[r, D] * (1 - errors[r]) and hi[r, D] * (1 + errors[r]), times
    2**exponents[r, D].
    """

    lo: FloatArray
    hi: FloatArray
    exponents: IntArray
    errors: FloatArray


@np.errstate(all="ignore")
def backward(blocks: Blocks, transfer: FloatTransfer) -> Messages:
    """The messages of all blocks.

    Raises:
      Undecided: the window is too narrow.
      FloatingPointError: float64's range is too small, or there are more blocks than fit in memory.
    """
    count = len(blocks)
    lowest, highest = blocks.lowest.tolist(), blocks.highest.tolist()
    bits, lengths = blocks.bits.tolist(), blocks.lengths.tolist()
    vector = _Vector(transfer, lowest[count], highest[count])
    values = np.empty((count + 1, 2, transfer.size))
    exponents = np.empty((count + 1, transfer.size), dtype=np.int64)
    errors = np.empty(count + 1)
    orientation = 0
    for index in range(count, -1, -1):
        if index < count:
            # Mirrored before a block of ones, so that all blocks are of zeros.
            if bits[index] != orientation:
                vector.mirror()
                orientation = bits[index]
            vector.pass_block(transfer, lengths[index], lowest[index], highest[index])
        turn = -1 if orientation else 1
        values[index] = vector.values[:, ::turn]
        exponents[index] = vector.exponents[::turn]
        errors[index] = vector.error
    if not errors[0] < 2.0**-20:
        raise FloatingPointError("too many blocks for float64")
    # A product of factors 1 + e is at most exp(sum e), below 1 + 1.01 sum e for small sums.
    return Messages(values[:, 0], values[:, 1], exponents, 1.01 * errors)


class _Vector:
    """Bounds values[0] <= beta <= values[1], times 2**exponents, in front of some block or behind
    the last, in the orientation in which it is one of zeros.

    Only some states are alive: those from which a walk can still end at zero, which lies as far
    below as there are zeros ahead of it, without leaving the walls. For the others beta is zero,
    and they have the lowest exponent that is kept.
    """

    def __init__(self, transfer: FloatTransfer, lowest: int, highest: int):
        mantissas, exponents = transfer.entering_last_run
        self._window = transfer.window
        self.values = np.zeros((2, transfer.size))
        self.values[:, self._window :] = mantissas
        self.exponents = np.zeros(transfer.size, dtype=np.int64)
        self.exponents[self._window :] = exponents
        self.error = 4 * UNIT_ROUNDOFF
        self._lowest, self._highest = max(lowest, 0), highest
        self._mirrored = False
        self._below: tuple[float, int] = 0.0, 0
        self._above: tuple[float, int] = 0.0, 0
        self._normalise()

    def mirror(self) -> None:
        """Turns ones into zeros."""
        self._mirrored = not self._mirrored
        self.values = self.values[:, ::-1]
        self.exponents = self.exponents[::-1]
        self._below, self._above = self._above, self._below

    def pass_block(self, transfer: FloatTransfer, length: int, lowest: int, highest: int) -> None:
        """Passes a block whose walls in front of it allow states from lowest to highest."""
        self._multiply(transfer.matrix(length), transfer.size)
        if self._mirrored:
            self._highest += length
        else:
            self._lowest -= length
        self._lowest, self._highest = max(self._lowest, lowest), min(self._highest, highest)
        self._normalise()

    def _multiply(self, matrix: FloatMatrix, size: int) -> None:
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
        """Gives every state its own exponent, and bounds those that are not known."""
        states = np.arange(-self._window, self._window + 1) * (-1 if self._mirrored else 1)
        alive = (states >= self._lowest) & (states <= self._highest)
        self.values[:, ~alive] = 0
        lo, hi = self.values
        known = alive & (lo > 0) & (lo >= _KNOWN * hi)
        # Upper mantissas in [1/2, 1), where they are finite.
        _, own = np.frexp(np.where(np.isfinite(hi), hi, 0))
        self.values, self.exponents = np.ldexp(self.values, -own), self.exponents + own
        if not known.any():
            raise Undecided
        deepest = self.exponents[known].max() - _DEEP
        known &= self.exponents > deepest
        end = len(alive) - 1
        lowest, highest = np.flatnonzero(alive)[[0, -1]].tolist()
        # No ratio is needed where nothing lives beyond the last known state.
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
        """A state far out in that direction, and a bound of its ratio to the one before it.

        The bound takes a lower bound of the one before. So this is a known state behind a known
        one, or the first one behind those that are known: whichever ratio is less.
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
        """A bound of beta(state) / beta(inner), as a mantissa and an exponent."""
        ratio = self.values.item(1, state) / self.values.item(0, inner)
        mantissa, exponent = math.frexp(ratio * (1 + 2.0**-18))
        return mantissa, exponent + int(self.exponents[state] - self.exponents[inner])

    def _extrapolate(self, states: IntArray, known: int, ratio: tuple[float, int]) -> None:
        """Bounds states that follow a known one, in that order, where that is better."""
        mantissa, exponent = ratio
        steps = np.arange(1, len(states) + 1)
        # A mantissa is at least 1/2; far out the bound stops following it.
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
