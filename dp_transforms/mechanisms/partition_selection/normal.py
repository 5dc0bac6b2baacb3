"""The normal law's upper tail Q, its quantiles, and the exact privacy of adding normal noise.

Everything is enclosed or rounded to the private side with MPFR. The Gaussian strategies are defined
by continuous normal noise of which only integer thresholds or roundings are observed, so that the
guarantees of the continuous mechanism (which compose exactly) hold for what is released, by
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, exactly, rounding_pair
from dp_transforms.mechanisms.noise.discrete_noise import IntegerNoise
from dp_transforms.mechanisms.noise.float_tails import FloatTail, GaussianFloatTail
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw

_GUARD_BITS = 32
_PRECISION = 192
"""Of calibrations: enough for delta = 1e-30 at epsilon = 50."""

_TABLE_SIGMA2 = 512**2
"""Up to this variance noise comes from a table."""

_STEPS = 40
"""Calibrated parameters are within 2**-40 of their best values."""


def normal_tail(square: Any, precision: int) -> Enclosure:
    """(lo, hi) around Q(sqrt(square)) for an exact rational square >= 0, of relative precision."""
    return enclosed(gmpy2.mpq(square) / 2, precision + _GUARD_BITS).sqrt().erfc() / 2


@dataclass(frozen=True)
class RoundedGaussian(IntegerNoise):
    """Normal noise rounded to the nearest integer: P[X > x] = Q((x + 1/2) / sigma) for x >= 0.

    An integer n plus X is n plus normal noise, rounded: post-processing of the Gaussian mechanism.

    Args:
      sigma2: positive, the variance before rounding; an exact rational number.
    """

    sigma2: Fraction

    def tail(self, x: int, precision: int) -> Enclosure:
        return normal_tail(Fraction(2 * x + 1, 2) ** 2 / self.sigma2, precision)

    @cached_property
    def _float_tail(self) -> FloatTail | None:
        return _RoundedFloatTail(self.sigma2) if self.sigma2 > _TABLE_SIGMA2 else None


class _RoundedFloatTail(GaussianFloatTail):
    """Q((x + 1/2) / sigma): what the discrete Gaussian's tail is but for its corrections."""

    def __init__(self, sigma2: Fraction):
        super().__init__(sigma2)
        # The corrections are divided by the variance, so that they vanish.
        self._variance = math.inf


@dataclass(frozen=True)
class NormalLaw(KeepLaw):
    """pi(s) = P[s + sigma N > threshold] = Q((threshold - s) / sigma) for s >= 1, N normal.

    Args:
      sigma2: positive; an exact rational number.
      threshold: an integer, in the units of s.
    """

    sigma2: Fraction
    threshold: int

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < self.smallest:
            return exactly(1)
        gap = self.threshold - statistic
        tail = normal_tail(gap * gap / self.sigma2, precision)
        return tail if gap <= 0 else 1 - tail.rational()


def gaussian_delta(mu2: Any, epsilon: Any) -> Any:
    """delta(epsilon) of normal noise for a shift of L2 norm mu, in standard deviations; rounded up.

    Balle and Wang (2018), Theorem 8, for any real epsilon and mu2 = mu**2 >= 0:

        delta(epsilon) = Q(epsilon / mu - mu / 2) - e**epsilon Q(epsilon / mu + mu / 2)

    The sup over events S of P'[S] - e**epsilon P[S] for two normal laws that mean shifts by mu: of
    any number of coordinates, and of rounds that are chosen adaptively and whose mu2 add up to this
    one.
    """
    squared, exponent = gmpy2.mpq(mu2), gmpy2.mpq(epsilon)
    down, up = rounding_pair(_PRECISION)
    if squared == 0:
        return up.sub(1, down.exp(exponent)) if exponent < 0 else gmpy2.mpfr(0)
    # (epsilon -+ mu2 / 2) / mu, whose numerator is exact.
    _, near = _tail_of_ratio(exponent - squared / 2, squared)
    far, _ = _tail_of_ratio(exponent + squared / 2, squared)
    return up.sub(near, down.mul(down.exp(exponent), far))


def _tail_of_ratio(numerator: Any, squared: Any) -> Enclosure:
    """(lo, hi) around Q(numerator / sqrt(squared))."""
    tail = normal_tail(numerator * numerator / squared, _PRECISION)
    return tail if numerator >= 0 else 1 - tail


@lru_cache(maxsize=1024)
def largest_mu2(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu2 (a multiple of a power of two, within 2**-40 of the best) that certainly has
    gaussian_delta(mu2, epsilon) <= delta."""

    def fits(mu2: Fraction) -> bool:
        return bool(gaussian_delta(mu2, epsilon) <= gmpy2.mpq(delta))

    return largest_dyadic(fits)


@lru_cache(maxsize=4096)
def upper_quantile(probability: Fraction) -> Fraction:
    """The smallest z >= 0 (within 2**-40 of the best) that certainly has Q(z) <= probability."""
    target = gmpy2.mpq(probability)
    if target >= gmpy2.mpq(1, 2):
        return Fraction(0)

    def exceeds(z: Fraction) -> bool:
        return bool(normal_tail(z * z, _PRECISION)[1] > target)

    z = largest_dyadic(exceeds)
    # The next number of as many bits: 2**exponent <= z < 2**(exponent + 1).
    exponent = z.numerator.bit_length() - z.denominator.bit_length()
    return z + Fraction(2) ** (exponent - _STEPS + 1)


def largest_dyadic(fits: Callable[[Fraction], bool], bits: int = _STEPS) -> Fraction:
    """The largest positive number of ``bits`` bits where ``fits`` is true, as it is near zero.

    Found by bisection: ``fits`` should be true up to some point and false beyond it, and is
    certainly true of the result.
    """
    exponent = 0
    while fits(Fraction(2) ** exponent):
        exponent += 1
    while not fits(Fraction(2) ** (exponent - 1)):
        exponent -= 1
    low = 1 << (bits - 1)
    unit = Fraction(2) ** (exponent - bits)
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * unit) else (low, middle)
    return low * unit
