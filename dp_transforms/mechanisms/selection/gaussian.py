"""Calibrates Gaussian noise and a threshold such that each may use the whole delta.

Neighbours: D' consists of D and all records of one more user, who has t partitions. Some of them
others have too: these statistics shift. The others are the user's alone (the second kind): each is
selected with probability at most 1 - e**-(lambda / t) in D', and never in D. Let f be the share of
the second kind. The decisions are independent. Hence

    P'[S] <= 1 - e**(-f lambda) + P'[S, none of the second kind],
    P'[S, none of the second kind] = e**(-f lambda) P'_shifted[S].

Let G(mu2, epsilon) be the delta of normal noise for shifts of total squared norm mu2, where those
of the first kind have the squared norm (1 - f) mu2. Then, in either order of D and D',

    delta <= 1 - e**(-f lambda) (1 - G((1 - f) mu2, epsilon - f lambda))    for every f in [0, 1].

(The f lambda that is subtracted from epsilon pays for D against D'. There the factor e**(-f lambda)
is on the same side as e**epsilon.) At f = 0 this is the delta of the noise, and at f = 1 that of
the threshold. Usually the maximum over f is at one of these ends, so each of them may use the whole
delta. The common division of delta into two halves gives a larger threshold than needed. If the
maximum is inside (large delta, tiny epsilon), the division with the smallest threshold is searched
for.

If neighbours replace one user's records by those of another, two such sets of partitions change:
mu2 and lambda count twice.

All numbers are enclosed, or rounded with MPFR to the side that is more private. Only roundings of
the normal noise to integers are observed. So the guarantee of the continuous mechanism holds, by
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.discrete_noise import LARGEST_SCALE, IntegerNoise
from dp_transforms.mechanisms.enclosure import Enclosure, as_fraction, enclosed, rounding_pair
from dp_transforms.mechanisms.taylor import normal_tail as float_normal_tail

_PRECISION = 192
"""The precision of calibrations: enough for delta = 1e-30 at epsilon = 50."""

_GUARD_BITS = 32

_STEPS = 40
"""Calibrated parameters are within 2**-40 of their best values."""

_SLACK = Fraction(1, 1 << 12)
_EXPOSURE_BITS = 24
_NOISE_SHARES = (1 - _SLACK, *(Fraction(i, 8) for i in range(7, 0, -1)))
"""The shares of delta that are tried for the noise at f = 0. The first is nearly all of delta."""


@dataclass(frozen=True)
class GaussianBudget:
    """Limits the change that one user may make.

    Attributes:
      mu2: the squared L2 norm of the shift of all statistics, in units of the noise's variance.
      exposure: lambda. With probability at least e**-lambda none of the partitions that only this
        user has is selected.
    """

    mu2: Fraction
    exposure: Fraction

    def new_partition_probability(self, partitions: int) -> Fraction:
        """Returns the largest probability with which each of ``partitions`` partitions of only this
        user may be selected: 1 - e**-(exposure / partitions), rounded down."""
        down, up = rounding_pair(_PRECISION)
        probability = down.minus(up.expm1(up.minus(down.div(gmpy2.mpq(self.exposure), partitions))))
        return as_fraction(probability)


@lru_cache(maxsize=256)
def calibrate(
    epsilon: Fraction, delta: Fraction, partitions: int, users_changed: int = 1
) -> GaussianBudget:
    """Returns the budget within (epsilon, delta) with the smallest threshold, for users of at most
    this many partitions."""
    candidates = _candidates(epsilon, delta, users_changed)
    return min(candidates, key=lambda budget: relative_threshold(budget, partitions))


@lru_cache(maxsize=64)
def _candidates(
    epsilon: Fraction, delta: Fraction, users_changed: int
) -> tuple[GaussianBudget, ...]:
    """Returns the budgets to compare. They do not depend on the number of partitions."""
    candidates = []
    for share in _NOISE_SHARES:
        mu2 = largest_mu2(epsilon, share * delta) / users_changed

        def fits(exposure: Fraction, mu2: Fraction = mu2) -> bool:
            return is_private(GaussianBudget(mu2, exposure), epsilon, delta, users_changed)

        candidates.append(GaussianBudget(mu2, largest_dyadic(fits, _EXPOSURE_BITS)))
        # If all of delta is used at f = 1, a smaller share of it for the noise gains nothing.
        if delta * (1 - _SLACK) <= users_changed * candidates[-1].exposure:
            break
    return tuple(candidates)


def is_private(
    budget: GaussianBudget, epsilon: Fraction, delta: Fraction, users_changed: int = 1
) -> bool:
    """Tells whether the inequality of the module certainly holds for every f in [0,
    users_changed]."""
    target = gmpy2.mpq(delta)

    def holds_between(first: Fraction, last: Fraction) -> bool:
        """Tells whether it certainly holds for all f from first to last, by the worse end of each
        term."""
        down, up = rounding_pair(_PRECISION)
        exposed = gmpy2.mpq(last * budget.exposure)
        noise = gaussian_delta((users_changed - first) * budget.mu2, epsilon - exposed)
        # 1 - e**-exposed (1 - noise), in a form that keeps the relative precision of a tiny delta.
        return bool(up.sub(up.mul(up.exp(-exposed), noise), down.expm1(-exposed)) <= target)

    holds_at = cache(lambda f: holds_between(f, f))
    # The cheapest f comes first: no statistic is shifted there, so no tail is computed.
    if not holds_at(Fraction(users_changed)):
        return False
    pending = [(Fraction(0), Fraction(users_changed))]
    while pending:
        first, last = pending.pop()
        if holds_between(first, last):
            continue
        middle = (first + last) / 2
        narrow = last - first < max(first, _SLACK) / 16
        if narrow or not all(map(holds_at, (first, middle, last))):
            return False
        pending += [(first, middle), (middle, last)]
    return True


def relative_threshold(budget: GaussianBudget, partitions: int) -> float:
    """Returns the distance of the threshold above the weight of a user, if the user's weights in
    ``partitions`` partitions have the L2 norm one."""
    quantile = upper_quantile(budget.new_partition_probability(partitions))
    return float(quantile) / math.sqrt(budget.mu2)


def normal_tail(square: Any, precision: int) -> Enclosure:
    """Encloses Q(sqrt(square)) for an exact rational square >= 0, to about ``precision`` bits of
    relative precision."""
    return enclosed(gmpy2.mpq(square) / 2, precision + _GUARD_BITS).sqrt().erfc() / 2


@dataclass(frozen=True)
class RoundedGaussian(IntegerNoise):
    """Draws normal noise of variance sigma2, rounded to the nearest integer: P[X > x] = Q((x + 1/2)
    / sigma) for x >= 0. For an integer n, n + X is n plus normal noise, rounded."""

    sigma2: Fraction

    def __post_init__(self) -> None:
        if self.sigma2 > LARGEST_SCALE**2:
            raise ValueError("sigma must be at most 2**48: raise epsilon or delta")

    def tail(self, x: int, precision: int) -> Enclosure:
        return normal_tail(Fraction(2 * x + 1, 2) ** 2 / self.sigma2, precision)

    def _guess(self, levels: FloatArray) -> IntArray:
        grid = np.linspace(0, 9.5, 600)
        s = np.interp(-np.log(levels), -np.log(float_normal_tail(grid)), grid)
        slopes = -np.exp(-s * s / 2) / math.sqrt(2 * math.pi)
        # Halley's step for Q(s) = level: Q'' = -s Q'.
        steps = (float_normal_tail(s) - levels) / slopes
        s -= steps / (1 + steps * s / 2)
        magnitudes: IntArray = np.ceil(s / self._inverse - 0.5).astype(np.int64)
        return np.maximum(magnitudes, 0)

    def _float_tails(self, x: IntArray) -> FloatArray:
        return float_normal_tail((x + 0.5) * self._inverse)

    @cached_property
    def _inverse(self) -> float:
        return float(enclosed(1 / gmpy2.mpq(self.sigma2), _PRECISION).sqrt().lower)


def gaussian_delta(mu2: Any, epsilon: Any) -> Any:
    """Returns delta(epsilon) of normal noise for a shift by mu standard deviations, rounded up.

    Balle and Wang (2018), Theorem 8, for any real epsilon and mu2 = mu**2 >= 0:

        delta(epsilon) = Q(epsilon / mu - mu / 2) - e**epsilon Q(epsilon / mu + mu / 2)

    It is the supremum over events S of P'[S] - e**epsilon P[S] for two normal distributions whose
    means are mu standard deviations apart. This holds for any number of coordinates, and for
    adaptively chosen rounds whose mu2 sum to this one.
    """
    squared, exponent = gmpy2.mpq(mu2), gmpy2.mpq(epsilon)
    down, up = rounding_pair(_PRECISION)
    if squared == 0:
        return up.sub(1, down.exp(exponent)) if exponent < 0 else gmpy2.mpfr(0)
    # Q at (epsilon - mu2 / 2) / mu and at (epsilon + mu2 / 2) / mu, whose numerators are exact.
    _, near = _tail_of_ratio(exponent - squared / 2, squared)
    far, _ = _tail_of_ratio(exponent + squared / 2, squared)
    return up.sub(near, down.mul(down.exp(exponent), far))


def _tail_of_ratio(numerator: Any, squared: Any) -> Enclosure:
    """Encloses Q(numerator / sqrt(squared))."""
    tail = normal_tail(numerator**2 / squared, _PRECISION)
    return tail if numerator >= 0 else 1 - tail


@lru_cache(maxsize=1024)
def largest_mu2(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Returns the largest mu2 with gaussian_delta(mu2, epsilon) <= delta, rounded down by at most
    2**-40 of it."""

    def fits(mu2: Fraction) -> bool:
        return bool(gaussian_delta(mu2, epsilon) <= gmpy2.mpq(delta))

    return largest_dyadic(fits)


@lru_cache(maxsize=4096)
def upper_quantile(probability: Fraction) -> Fraction:
    """Returns the smallest z >= 0 with Q(z) <= probability, rounded up by at most 2**-40 of it."""
    target = gmpy2.mpq(probability)
    if target >= 0.5:
        return Fraction(0)

    def exceeds(z: Fraction) -> bool:
        return bool(normal_tail(z * z, _PRECISION)[1] > target)

    z = largest_dyadic(exceeds)
    # The next number of as many bits: 2**exponent <= z < 2**(exponent + 1).
    exponent = z.numerator.bit_length() - z.denominator.bit_length()
    return z + Fraction(2) ** (exponent - _STEPS + 1)


def largest_dyadic(fits: Callable[[Fraction], bool], bits: int = _STEPS) -> Fraction:
    """Returns the largest positive number of ``bits`` bits for which ``fits`` is true, by
    bisection.

    ``fits`` must be true near zero. It should be true up to some point and false from there on; if
    it is not, the result may not be the largest such number, but ``fits`` is true for it.
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
        if fits(middle * unit):
            low = middle
        else:
            high = middle
    return low * unit
