"""The strategies that need only each partition's number of users.

No (epsilon, delta)-differentially private way of deciding about a partition by its number of users
n, where users have one partition each, keeps it more often, for any n, than the distribution of
Lemma 1 in Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially private partition selection",
arXiv 2006.03684):

    pi(0) = 0
    pi(n) = min(e**epsilon pi(n-1) + delta, 1 - e**-epsilon (1 - pi(n-1) - delta), 1)

Why it is private. Neighbours add or remove all records of one user, here one user of one partition,
so n changes by one. The two terms of the minimum are the largest pi(n) that P[kept | n] <=
e**epsilon P[kept | n-1] + delta and P[dropped | n-1] <= e**epsilon P[dropped | n] + delta allow;
the two inequalities of the other direction follow from pi(n-1) <= pi(n). And pi(0) = 0: a partition
that nobody has does not appear.

The closed form (Theorem 1): with q = e**-epsilon there are n1 and n2 such that

    pi(n) = delta (q**-n - 1) / (q**-1 - 1)                            for n <= n1
    1 - pi(n) = q**m (1 - pi(n1)) - delta q (1 - q**m) / (1 - q)       for n1 < n <= n2, m = n - n1
    pi(n) = 1                                                          for n > n2

    n1 = 1 + floor(log((e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta)) / epsilon)
    n2 = n1 + floor(log(1 + (e**epsilon - 1) (1 - pi(n1)) / delta) / epsilon)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import gmpy2

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    exactly,
    refine_until_decided,
    rounding_pair,
    same,
)
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.selection.composition import Share, best_share, naive_share
from dp_transforms.mechanisms.selection.gaussian import (
    GaussianBudget,
    RoundedGaussian,
    calibrate,
)
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.strategy import CountStrategy, NoisyCountStrategy
from dp_transforms.mechanisms.selection.threshold_distribution import (
    ThresholdDistribution,
    calibrated_distribution,
    public_distribution,
    truncated_geometric_distribution,
)

TIGHT = "tight"
NAIVE = "naive"

_GUARD_BITS = 32


@dataclass(frozen=True)
class OptimalDistribution(KeepDistribution):
    """pi of Theorem 1 for one (epsilon, delta), and users with one partition each.

    Args:
      epsilon: not negative; an exact rational number.
      delta: at least 0 and below 1; an exact rational number.
    """

    epsilon: Fraction
    delta: Fraction

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        n, delta = statistic, gmpy2.mpq(self.delta)
        if n <= 0 or delta == 0:
            return exactly(1)
        if n == 1:
            return exactly(1 - delta)
        if self.saturation is not None and n >= self.saturation:
            return exactly(0)
        if self.epsilon == 0:
            return exactly(1 - n * delta)
        if n <= self.crossover:
            return 1 - self._growing(n, precision)
        return self._shrinking(n - self.crossover, precision)

    @cached_property
    def crossover(self) -> int:
        """n1: up to here the first term of the minimum is the smallest."""
        if self.delta >= Fraction(1, 2) or self.epsilon == 0 or self.delta == 0:
            return 1
        return 1 + _floor_of_log_ratio(
            self.epsilon, partial(truncation_ratio, self.epsilon, self.delta)
        )

    @cached_property
    def saturation(self) -> int | None:
        """n2 + 1, the smallest count that is kept with certainty; None for delta = 0."""
        if self.delta == 0:
            return None
        if self.epsilon == 0:
            return -(-self.delta.denominator // self.delta.numerator)
        # For delta >= 1/2 the second term exceeds 1 from n = 2 on (and delta = 1/2 is the one value
        # for which the logarithms' ratio is a whole number, so that enclosures would not settle
        # it).
        if self.delta >= Fraction(1, 2):
            return 2
        return self.crossover + _floor_of_log_ratio(self.epsilon, self._saturation_ratio) + 1

    @property
    def never_keeps(self) -> bool:
        return self.delta == 0

    @cached_property
    def _decay(self) -> Decay:
        return Decay(self.epsilon)

    def _growing(self, n: int, precision: int) -> Enclosure:
        """pi(n) for n <= n1: delta q**(1-n) (1 - q**n) / (1 - q)."""
        working = precision + _GUARD_BITS
        power = self._decay.power(1 - n, working)
        above = self._decay.one_minus_power(n, working)
        return self.delta * power * above / self._decay.one_minus_power(1, working)

    def _shrinking(self, m: int, precision: int) -> Enclosure:
        """1 - pi(n1 + m) for n1 + m <= n2."""
        # The two terms are at most e**epsilon, so their difference keeps the absolute precision.
        working = precision + _GUARD_BITS + int(2 * self.epsilon)
        ratio, above = self._decay.power(1, working), self._decay.one_minus_power(m, working)
        spent = self.delta * ratio * above / self._decay.one_minus_power(1, working)
        kept = self._growing(self.crossover, working)
        return self._decay.power(m, working) * (1 - kept) - spent

    def _saturation_ratio(self, precision: int) -> Enclosure:
        kept = self._growing(self.crossover, precision)
        return 1 + _grown(self.epsilon, precision) * (1 - kept) / self.delta


def truncation_ratio(epsilon: Fraction, delta: Fraction, precision: int) -> Enclosure:
    """(lo, hi) around (e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta); epsilon, delta > 0."""
    # Divided through by e**epsilon - 1.
    grown = _grown(epsilon, precision)
    return (1 + 2 * delta / grown) / (delta * (1 + 2 / grown))


def _grown(epsilon: Fraction, precision: int) -> Enclosure:
    """(lo, hi) around e**epsilon - 1."""
    down, up = rounding_pair(precision)
    return Enclosure(down.expm1(gmpy2.mpq(epsilon)), up.expm1(gmpy2.mpq(epsilon)))


def _floor_of_log_ratio(epsilon: Fraction, ratio: Callable[[int], Enclosure]) -> int:
    """floor(log(ratio) / epsilon) for a ratio >= 1.

    The logarithm is never a whole multiple of epsilon: epsilon is rational and not 0, so e**epsilon
    is transcendental (Lindemann), and e**(j epsilon) equals neither ratio as a rational function of
    e**epsilon, for any j and any delta below 1 other than the 1/2 set apart above. So the
    enclosures settle the floor.
    """

    def floor(bits: int) -> int:
        return int(same(math.floor(gmpy2.mpq(end)) for end in ratio(bits).log() / epsilon))

    return refine_until_decided(floor, 128)


@dataclass(frozen=True)
class _SplitStrategy(CountStrategy):
    """Each partition spends its own (epsilon', delta'), see ``composition``.

    Args:
      composition: "tight" takes the (epsilon', delta') with the smallest threshold among those that
        optimal composition allows; "naive" takes (epsilon, delta) / kappa.
    """

    composition: str = TIGHT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.composition not in (TIGHT, NAIVE):
            raise ValueError(
                f"composition must be {TIGHT!r} or {NAIVE!r}, got {self.composition!r}"
            )

    @cached_property
    def share(self) -> Share:
        """(epsilon', delta') of one partition."""
        if self.composition == NAIVE:
            return naive_share(*self._budget, self._partitions_changed)
        return best_share(*self._budget, self._partitions_changed, self._cost)

    @staticmethod
    def _cost(epsilon: Fraction, delta: Fraction) -> float:
        """About the count that is kept half of the time, as a real number.

        Here k of truncated geometric noise before rounding up, which is about the median of pi too.
        """
        if epsilon == 0 or delta == 0:
            return math.inf
        down, _ = rounding_pair(64)
        return float(down.log(truncation_ratio(epsilon, delta, 64)[0])) / float(epsilon)

    def _parameters(self) -> dict[str, Any]:
        epsilon, delta = self.share
        return {
            "composition": self.composition,
            "epsilon_per_partition": float(epsilon),
            "delta_per_partition": float(delta),
        }


@dataclass(frozen=True)
class OptimalSelection(_SplitStrategy):
    """The optimal primitive: no strategy keeps more when users have one partition each.

    Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially private partition selection"),
    Theorem 1; the privacy argument is at the top of this module. epsilon and delta may be 0.

    >>> import numpy as np
    >>> from dp_transforms.mechanisms import RandomTape
    >>> strategy = OptimalSelection(epsilon=1, delta=1e-5)
    >>> strategy.median_users, strategy.saturation_count
    (12, 23)
    >>> strategy.select(np.array([1, 11, 12, 23]), RandomTape(bytes(32)))
    array([False,  True,  True,  True])
    """

    name: ClassVar[str] = "optimal"
    needs_positive_budget: ClassVar[bool] = False

    @cached_property
    def distribution(self) -> OptimalDistribution:
        return OptimalDistribution(*self.share)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"saturation_count": self.saturation_count}


@dataclass(frozen=True)
class TruncatedGeometricSelection(_SplitStrategy, NoisyCountStrategy):
    """Truncated symmetric geometric noise: nearly the optimal primitive, with noisy counts.

    Desfontaines, Voss, Gipson, Mandayam (2022), Definitions 6-8; the privacy argument is in
    ``threshold_distribution``. A partition is kept if its noisy count is strictly greater than k.

    >>> strategy = TruncatedGeometricSelection(epsilon=1, delta=1e-5)
    >>> strategy.distribution.threshold, strategy.median_users, strategy.saturation_count
    (11, 12, 23)
    """

    name: ClassVar[str] = "truncated_geometric"

    @cached_property
    def distribution(self) -> ThresholdDistribution:
        return truncated_geometric_distribution(*self.share)

    def public_distribution(self, threshold: int) -> ThresholdDistribution:
        """The distribution of partitions whose names are public, under the same budget, from 0
        users on.

        Args:
          threshold: from -k (every partition that has users is kept) to k (none without users is);
            a noisy count must be strictly greater.

        Raises:
          ValueError: the threshold is out of range.
        """
        return public_distribution(*self.share, threshold)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"threshold": self.distribution.threshold}


@dataclass(frozen=True)
class LaplaceSelection(_SplitStrategy, NoisyCountStrategy):
    """Discrete Laplace noise and a threshold, with noisy counts.

    A partition is kept if n + X > threshold, P[X = x] proportional to e**(-epsilon' |x|), or with
    some probability if they are equal. With n >= 1 users this is epsilon'-DP in the count; a
    partition's only user makes it appear with probability delta' at most. So each partition is
    (epsilon', delta')-DP, and they compose (Korolova, Kenthapadi, Mishra, Ntoulas 2009, with
    discrete noise).

    >>> LaplaceSelection(epsilon=1, delta=1e-5).distribution.threshold
    12
    """

    name: ClassVar[str] = "laplace"

    @cached_property
    def distribution(self) -> ThresholdDistribution:
        epsilon, delta = self.share
        return calibrated_distribution(DiscreteLaplace(1 / epsilon), delta)

    @staticmethod
    def _cost(epsilon: Fraction, delta: Fraction) -> float:
        # P[X > t - 1] = q**t / (1 + q).
        down, _ = rounding_pair(64)
        ratio = Decay(epsilon).power(1, 64)[0]
        return float(-down.log(down.mul(gmpy2.mpq(delta), down.add(1, ratio))) / float(epsilon))

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | _threshold_parameters(self.distribution)


@dataclass(frozen=True)
class GaussianSelection(NoisyCountStrategy):
    """Gaussian noise, rounded to integers, and a threshold, with noisy counts.

    The noise is calibrated analytically (Balle and Wang 2018) for a shift of kappa counts by one
    each, together with the threshold; ``gaussian`` has the argument. Rounding n plus
    normal noise is post-processing, so the continuous mechanism's guarantee holds exactly for any
    kappa.

    >>> strategy = GaussianSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> round(strategy.sigma, 3), strategy.distribution.threshold
    (11.797, 57)
    """

    name: ClassVar[str] = "gaussian"

    @cached_property
    def budget(self) -> GaussianBudget:
        """The change that one user may make, kappa counts by one each."""
        return calibrate(*self._budget, self.max_partitions_per_user, self._users_changed)

    @cached_property
    def distribution(self) -> ThresholdDistribution:
        max_partitions = self.max_partitions_per_user
        noise = RoundedGaussian(max_partitions / self.budget.mu2)
        return calibrated_distribution(noise, self.budget.new_partition_probability(max_partitions))

    @property
    def sigma(self) -> float:
        """The noise's standard deviation before rounding, in users."""
        return math.sqrt(self.max_partitions_per_user / self.budget.mu2)

    def _parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma, **_threshold_parameters(self.distribution)}


def _threshold_parameters(distribution: ThresholdDistribution) -> dict[str, Any]:
    return {"threshold": distribution.threshold, "kept_at_threshold": float(distribution.tie)}
