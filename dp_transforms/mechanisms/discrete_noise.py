"""Exact integer noise, many draws at once: discrete Laplace and two-sided geometric.

Each draw is the inverse distribution function at one uniform number U: a function of U alone. Draw
i of ``sample`` depends on (tape, channel, i) only, so that a retried bundle repeats it;
``from_words`` takes uniform numbers that come from elsewhere, such as a keyed function of a
partition's name.

The distributions are symmetric. With V = U and a negative sign if U < 1/2, else V = 1 - U and a
positive sign, the magnitude is the number of x >= 0 with V < P[X > x]. Sixty-four bits of V decide
this for nearly every draw, against thresholds that are computed with directed rounding and rounded
down to 64 bits, or against floats and a bound on their error. A draw that these leave open reads
more bits, and compares them with enclosures of as many, until the answer is certain. So the
distribution is exactly the one stated.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    exactly,
    refine_until_decided,
    same,
    smallest_where,
)
from dp_transforms.mechanisms.eta import Eta
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, known_from

Extend = Callable[[int, int], int]
"""(element, bits) -> floor(U * 2**bits) for the uniform number U of that element."""

_LARGEST_SCALE = 2**48
RELATIVE_ERROR = 2.0**-43
"""Of float tails. numpy's exp and expm1 are within 4 units in the last place, and an argument of at
most 46 is off by 2**-51 of itself at most, which comes to less than 2**-45."""
_LEAST_TAIL = gmpy2.mpq(1, 1 << WORD_BITS)
_GUARD_BITS = 32


class IntegerNoise(ABC):
    """A symmetric distribution on the integers, sampled by exact inversion."""

    def sample(self, tape: RandomTape, channel: str, count: int, start: int = 0) -> IntArray:
        """``count`` independent draws, as an int64 array of shape (count,).

        Draw i is a function of the uniform number at (channel, start + i) of the tape. Give every
        use a channel of its own.
        """
        words = tape.words(channel, count, start)
        return self.from_words(words, lambda i, bits: tape.prefix(channel, start + i, bits))

    def from_words(self, words: WordArray, extend: Extend) -> IntArray:
        """The draws of uniform numbers U_0, U_1, ..., an int64 array as long as ``words``.

        Args:
          words: uint64 array of shape (n,): element i is floor(U_i * 2**64).
          extend: ``extend(i, bits)`` is floor(U_i * 2**bits). Called for the few elements that 64
            bits do not decide, with growing numbers of bits; must agree with ``words``.

        Raises:
          ValueError: words are not a one-dimensional uint64 array.
        """
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
            raise ValueError("words must be a one-dimensional array of dtype uint64")
        positive = words >= np.uint64(1 << 63)
        # The leading 64 bits of V.
        folded = np.where(positive, ~words, words)
        magnitudes, certain = self._magnitudes(folded)
        draws = np.where(positive, magnitudes, -magnitudes)
        for i in np.flatnonzero(~certain).tolist():
            draws[i] = self._exact_draw(partial(extend, i))
        return draws

    @abstractmethod
    def tail(self, x: int, precision: int) -> Enclosure:
        """(lo, hi) around P[X > x] for x >= 0, about 2**-precision apart."""

    def probability(self, x: int, precision: int = 64) -> Enclosure:
        """(lo, hi) around P[X = x], at most about 2**-precision apart."""
        tail = self.tail(abs(x), precision + 2)
        return self.tail(abs(x) - 1, precision + 2) - tail if x else 1 - 2 * tail

    def _tails(self, precision: int) -> list[Enclosure]:
        """``tail(x, precision)`` for x = 0, 1, ... until it is certainly below 2**-64."""
        tails: list[Enclosure] = []
        while not tails or tails[-1].upper >= _LEAST_TAIL:
            tails.append(self.tail(len(tails), precision))
        return tails

    def _magnitudes(self, folded: WordArray) -> tuple[IntArray, BoolArray]:
        """Magnitudes for the leading words of V, and whether those 64 bits decide them."""
        thresholds = self._thresholds
        ends = np.searchsorted(thresholds, folded, side="right")
        return len(thresholds) - ends, thresholds[ends - 1] != folded

    @cached_property
    def _thresholds(self) -> WordArray:
        """floor(P[X > x] * 2**64), ascending, that is for x = n, ..., 1, 0; the first is zero."""

        def floors(precision: int) -> list[int]:
            bounds = zip(*self._tails(precision), strict=True)
            return same([scaled_floor(end, WORD_BITS) for end in ends] for ends in bounds)

        found = refine_until_decided(floors, 2 * WORD_BITS)
        return np.array(found[found.index(0) :: -1], dtype=np.uint64)

    def _exact_draw(self, prefix: Callable[[int], int]) -> int:
        def draw(bits: int) -> int:
            leading = prefix(bits)
            positive = leading >> (bits - 1) == 1
            folded = (1 << bits) - 1 - leading if positive else leading
            number = known_from(folded, bits)
            # The smallest x >= 0 with P[X > x] <= V.
            magnitude = smallest_where(
                lambda x: not number.is_below(self.tail(x, bits + _GUARD_BITS)), 0
            )
            return magnitude if positive else -magnitude

        return refine_until_decided(draw, 2 * WORD_BITS)


class GeometricNoise(IntegerNoise):
    """P[X = x] proportional to q**|x|, on all integers or on those from -k to k.

    P[X > x] = q**(x + 1) (1 - q**(k - x)) / (1 + q - 2 q**(k + 1)) for x from 0 to k; on all
    integers q**k and q**(k - x) are 0.
    """

    @property
    @abstractmethod
    def _decay(self) -> Decay:
        """q, the ratio of neighbouring probabilities."""

    @property
    def _largest(self) -> int | None:
        """k; None on all integers."""
        return None

    def tail(self, x: int, precision: int) -> Enclosure:
        precision += _GUARD_BITS
        decay, k = self._decay, self._largest
        if k is not None and x >= k:
            return exactly(0)
        power, total = decay.power(x + 1, precision), 1 + decay.power(1, precision)
        if k is None:
            return power / total
        # 1 + q - 2 q**(k + 1), by terms that are all positive.
        gap, inner, rest = (decay.one_minus_power(i, precision) for i in (1, k, k - x))
        return power * rest / (total * inner + gap * decay.power(k, precision))

    def _magnitudes(self, folded: WordArray) -> tuple[IntArray, BoolArray]:
        # A word is rounded once on the way to a float, by at most 2**-53 of itself.
        lower = folded.astype(np.float64) * 2.0**-WORD_BITS
        upper = (lower + 2.0**-WORD_BITS) * (1 + 2 * RELATIVE_ERROR)
        lower *= 1 - 2 * RELATIVE_ERROR
        rate, total, end = self._floats
        steps = -np.log(np.maximum(lower, 2.0**-WORD_BITS) * total + end) / rate
        found = np.maximum(np.ceil(steps).astype(np.int64) - 1, 0)
        certain = self._float_tails(found) < lower
        certain &= (found == 0) | (self._float_tails(found - 1) > upper)
        return found, certain

    def _float_tails(self, x: IntArray) -> FloatArray:
        """P[X > x], within ``RELATIVE_ERROR`` where it is at least 2**-65, and else below that."""
        rate, total, _ = self._floats
        tails: FloatArray = np.exp(-rate * (x + 1)) / total
        if self._largest is not None:
            tails *= -np.expm1(-rate * (self._largest - x))
        return tails

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        """-ln q, 1 + q - 2 q**(k + 1), and q**(k + 1)."""
        rate = float(self._decay.log_enclosure(WORD_BITS)[0])
        total, k = 1 + math.exp(-rate), self._largest
        if k is None:
            return rate, total, 0.0
        total = -total * math.expm1(-rate * k) - math.expm1(-rate) * math.exp(-rate * k)
        return rate, total, math.exp(-rate * (k + 1))


@dataclass(frozen=True)
class DiscreteLaplace(GeometricNoise):
    """Discrete Laplace noise: P[X = x] proportional to e**(-|x| / scale) on all integers.

    A count that changes by at most s between neighbours (add or remove all records of one user)
    plus this noise is (s / scale)-differentially private.

    Args:
      scale: a positive rational number up to 2**48; a float stands for the decimal that it prints.

    Raises:
      ValueError: scale is out of range.

    Source: Ghosh, Roughgarden, Sundararajan (2009), the geometric mechanism.

    >>> DiscreteLaplace(2).sample(RandomTape(bytes(32)), "example", 8)
    array([ 0,  1,  2,  3, -1,  0, -1,  1])
    """

    scale: Number

    def __post_init__(self) -> None:
        exact = positive_rational("scale", self.scale)
        if exact > _LARGEST_SCALE:
            raise ValueError(f"scale must be at most 2**48, got {self.scale!r}")
        object.__setattr__(self, "scale", exact)

    @cached_property
    def _decay(self) -> Decay:
        return Decay(1 / Fraction(self.scale))


@dataclass(frozen=True)
class TwoSidedGeometric(GeometricNoise):
    """Two-sided geometric noise: P[X = x] proportional to 2**(-eta * |x|) on all integers.

    The ratio 2**-eta is ``eta.base`` exactly. A count that changes by at most s between neighbours
    (add or remove all records of one user) plus this noise is (s * eta)-DP in base 2.

    >>> TwoSidedGeometric(Eta(1, 1, 1)).sample(RandomTape(bytes(32)), "example", 8)
    array([ 0,  1,  1,  2, -1,  0,  0,  1])
    """

    eta: Eta

    def __post_init__(self) -> None:
        if not isinstance(self.eta, Eta):
            raise ValueError(f"eta must be an Eta, got {self.eta!r}")

    @cached_property
    def _decay(self) -> Decay:
        return Decay(base=self.eta)


def scaled_floor(value: Any, bits: int) -> int:
    """floor(value * 2**bits)."""
    numerator, denominator = value.as_integer_ratio()
    return int((numerator << bits) // denominator)
