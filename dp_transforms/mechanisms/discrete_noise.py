"""Draws exact integer noise, many draws at once: discrete Laplace and two-sided geometric.

Each draw is the inverse distribution function at one uniform number U. This number comes from a
tape or from elsewhere, such as a keyed function of a partition's name.

The distributions are symmetric. If U < 1/2, the draw is negative or 0 and V = U; otherwise it is
positive or 0 and V = 1 - U. Its magnitude is the number of x >= 0 with V < P[X > x]. For nearly
every draw this is decided by 64 bits of V and floats with a proved bound on their error. An
undecided draw compares more bits with equally precise enclosures until the answer is certain. So
the distribution is exactly the one stated.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    exactly,
    refine_until_decided,
    smallest_where,
)
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, known_from
from dp_transforms.mechanisms.taylor import exp_minus, one_minus_exp_minus

Extend = Callable[[int, int], int]
"""(element, bits) -> floor(U * 2**bits) for the uniform number U of that element."""

LARGEST_SCALE = 2**48
RELATIVE_ERROR = 2.0**-43
"""An upper bound on the relative error of float tails. A tail is a product of at most two functions
of ``taylor``, which err by 2**-46 each. Their argument s = x / scale has a relative error of at
most 2**-51. That moves e**-s by 46 * 2**-51 for s <= 46, 1 - e**-s by 2**-51, and the normal tail
by (s**2 + 1) * 2**-51 < 92 * 2**-51 for s <= 9.5."""
_GUARD_BITS = 32
_REACH_PRECISION = 96
_LEAST_BITS = 1 << 20
_LEAST_TAIL = gmpy2.exp2(-_LEAST_BITS)
"""The upper bound of tails that underflow in MPFR. The least MPFR number would be a bound too, but
as a rational number it has a billion bits."""


class IntegerNoise(ABC):
    """Draws from a symmetric distribution on the integers by exact inversion."""

    def sample(self, tape: RandomTape, channel: str, count: int, start: int = 0) -> IntArray:
        """Returns ``count`` independent draws, int64. Draw i depends only on the tape's uniform
        number at (channel, start + i). Give every use a channel of its own."""
        words = tape.words(channel, count, start)
        return self.from_words(words, lambda i, bits: tape.prefix(channel, start + i, bits))

    def from_words(self, words: WordArray, extend: Extend) -> IntArray:
        """Returns the draws of uniform numbers U_0, U_1, ..., an int64 array as long as ``words``.

        Args:
          words: uint64 array of shape (n,): element i is floor(U_i * 2**64).
          extend: ``extend(i, bits)`` returns floor(U_i * 2**bits), for the few elements that 64
            bits do not decide. It must agree with ``words``.

        Raises:
          ValueError: words are not a one-dimensional uint64 array.
        """
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
            raise ValueError("words must be a one-dimensional array of dtype uint64")
        positive = words >= np.uint64(1 << 63)
        # The leading 64 bits of V. Their conversion to a float rounds them by at most 2**-53 of it.
        lower = np.where(positive, ~words, words).astype(np.float64) * 2.0**-WORD_BITS
        upper = (lower + 2.0**-WORD_BITS) * (1 + 2 * RELATIVE_ERROR)
        lower *= 1 - 2 * RELATIVE_ERROR
        magnitudes = self._guess(np.maximum(lower, 2.0**-WORD_BITS))
        certain = self._float_tails(magnitudes) < lower
        certain &= (magnitudes == 0) | (self._float_tails(np.maximum(magnitudes, 1) - 1) > upper)
        draws = np.where(positive, magnitudes, -magnitudes)
        for i in np.flatnonzero(~certain).tolist():
            draws[i] = self._exact_draw(partial(extend, i))
        return draws

    @abstractmethod
    def tail(self, x: int, precision: int) -> Enclosure:
        """Encloses P[X > x] for x >= 0, within about 2**-precision."""

    def above(self, x: int, precision: int) -> Enclosure:
        """Encloses P[X > x] for any x between exact rational numbers."""
        # The noise is symmetric: P[X > -x] = P[X <= x - 1].
        tail = self.tail(x if x >= 0 else -x - 1, precision)
        if precision < _LEAST_BITS and tail.lower == 0 < tail.upper < _LEAST_TAIL:
            # This enclosure of the tail is wider, but still narrower than 2**-precision.
            tail = Enclosure(0, _LEAST_TAIL)
        tail = tail.rational()
        return tail if x >= 0 else 1 - tail

    def probability(self, x: int, precision: int = 64) -> Enclosure:
        """Encloses P[X = x], within about 2**-precision."""
        x = abs(x)
        return self.above(x - 1, precision + 2) - self.above(x, precision + 2)

    def reach(self, failure: Fraction) -> int:
        """Returns the smallest x >= 0 with P[X > x] <= failure. By symmetry P[X < -x] is the
        same."""
        return smallest_where(lambda x: bool(self.tail(x, _REACH_PRECISION).upper <= failure), 0)

    @abstractmethod
    def _guess(self, levels: FloatArray) -> IntArray:
        """Returns guesses of the smallest x >= 0 with P[X > x] <= level. Callers check them."""

    @abstractmethod
    def _float_tails(self, x: IntArray) -> FloatArray:
        """Returns P[X > x] with a relative error of at most ``RELATIVE_ERROR``. If P[X > x] is
        below 2**-65, any number below 2**-65 may be returned instead."""

    def _exact_draw(self, prefix: Callable[[int], int]) -> int:
        """Returns the draw of the uniform number U with floor(U * 2**bits) = prefix(bits), decided
        by as many bits as it needs."""

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
    """Draws X with P[X = x] proportional to q**|x|, on all integers or on -k, ..., k.

    P[X > x] = q**(x + 1) (1 - q**(k - x)) / (1 + q - 2 q**(k + 1)) for x from 0 to k. On all
    integers k is infinite, so q**(k + 1) and q**(k - x) are 0.
    """

    @property
    @abstractmethod
    def _decay(self) -> Decay:
        """Returns q, the ratio of neighbouring probabilities."""

    @property
    def _largest(self) -> int | None:
        """Returns k, or None for noise on all integers."""
        return None

    def tail(self, x: int, precision: int) -> Enclosure:
        precision += _GUARD_BITS
        if self._largest is None:
            return self._decay.power(x + 1, precision) / self._total(precision)
        if x >= self._largest:
            return exactly(0)
        rest = self._decay.one_minus_power(self._largest - x, precision)
        return self._decay.power(x + 1, precision) * rest / self._total(precision)

    def _total(self, precision: int) -> Enclosure:
        """Encloses 1 + q - 2 q**(k + 1), as a sum of positive terms only."""
        decay, k = self._decay, self._largest
        ratio = decay.power(1, precision)
        if k is None:
            return 1 + ratio
        # (1 + q) (1 - q**k) + (1 - q) q**k
        inner = (1 + ratio) * decay.one_minus_power(k, precision)
        return inner + decay.one_minus_power(1, precision) * decay.power(k, precision)

    def _guess(self, levels: FloatArray) -> IntArray:
        rate, total, end = self._floats
        magnitudes = np.ceil(-np.log(levels * total + end) / rate).astype(np.int64) - 1
        return np.clip(magnitudes, 0, self._largest)

    def _float_tails(self, x: IntArray) -> FloatArray:
        rate, total, _ = self._floats
        tails = exp_minus(rate * (x + 1)) / total
        if self._largest is not None:
            tails *= one_minus_exp_minus(rate * (self._largest - x))
        return tails

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        """Returns floats near -ln q, 1 + q - 2 q**(k + 1), and q**(k + 1)."""
        rate = float(self._decay.log_enclosure(WORD_BITS).lower)
        end = 0.0 if self._largest is None else math.exp(-rate * (self._largest + 1))
        return rate, float(self._total(WORD_BITS).lower), end


@dataclass(frozen=True)
class DiscreteLaplace(GeometricNoise):
    """Draws discrete Laplace noise: P[X = x] is proportional to e**(-|x| / scale) on all integers.

    Let a count change by at most s between neighbours (add or remove all records of one user). The
    count plus this noise is (s / scale)-differentially private.

    Args:
      scale: a positive rational number up to 2**48; a float stands for the decimal that it prints
        as.

    Raises:
      ValueError: scale is out of range.

    Source: Ghosh, Roughgarden, Sundararajan (2009), the geometric mechanism.

    >>> DiscreteLaplace(2).sample(RandomTape(bytes(32)), "example", 8)
    array([ 0,  1,  2,  3, -1,  0, -1,  1])
    """

    stable_name: ClassVar[str] = "DiscreteLaplace"

    scale: Number

    def __post_init__(self) -> None:
        exact = positive_rational("scale", self.scale)
        if exact > LARGEST_SCALE:
            raise ValueError("scale must be at most 2**48: raise epsilon, if it is 1 / epsilon")
        object.__setattr__(self, "scale", exact)

    @cached_property
    def _decay(self) -> Decay:
        return Decay(1 / Fraction(self.scale))


@dataclass(frozen=True)
class TwoSidedGeometric(GeometricNoise):
    """Draws two-sided geometric noise: P[X = x] is proportional to 2**(-eta * |x|) on all integers.

    The ratio 2**-eta is exactly ``eta.base``. Let a count change by at most s between neighbours
    (add or remove all records of one user). The count plus this noise is (s * eta)-DP in base 2.

    Raises:
      ValueError: eta is not an Eta, or eta * ln 2 is below 2**-48.

    >>> TwoSidedGeometric(Eta(1, 1, 1)).sample(RandomTape(bytes(32)), "example", 8)
    array([ 0,  1,  1,  2, -1,  0,  0,  1])
    """

    stable_name: ClassVar[str] = "TwoSidedGeometric"

    eta: Eta

    def __post_init__(self) -> None:
        if not isinstance(self.eta, Eta):
            raise ValueError(f"eta must be an Eta, got {self.eta!r}")
        if self.eta.epsilon * LARGEST_SCALE < 1:
            raise ValueError("eta * ln 2 must be at least 2**-48: take a larger eta")

    @cached_property
    def _decay(self) -> Decay:
        return Decay(base=self.eta)


def noise_of_decay(decay: Decay) -> IntegerNoise:
    """Returns noise on all integers with P[X = x] proportional to q**|x|, for the q of a decay."""
    if decay.base is None:
        return DiscreteLaplace(1 / decay.rate)
    return TwoSidedGeometric(decay.base)
