"""Defines the strategies that need only each partition's number of users.

Most of them decide about partitions independently. Each decision is (epsilon',
delta')-differentially private in the partition's own count. Let ``parts`` be the number of
partitions that one user can change. There are two rules for (epsilon', delta'):

* naive splitting: (epsilon / parts, delta / parts);
* optimal composition (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential
  privacy", Theorem 3.3). Every (epsilon', delta')-DP mechanism is post-processing of one pair of
  distributions: randomised response that discloses the truth with probability delta'. So the
  product of ``parts`` such pairs has the worst composed delta, which is

    1 - (1 - delta')**parts (1 - H)

    H = sum over l of C(parts, l) max(0, e**((parts-l) epsilon') - e**(epsilon + l epsilon'))
        / (1 + e**epsilon')**parts

  at every epsilon, not only at the multiples of epsilon' listed in the theorem. It always allows at
  least as much as naive splitting does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import gmpy2

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.discrete_noise import LARGEST_SCALE, DiscreteLaplace
from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.selection.gaussian import (
    GaussianBudget,
    RoundedGaussian,
    calibrate,
    largest_dyadic,
)
from dp_transforms.mechanisms.selection.keep_distribution import (
    OptimalDistribution,
    truncation_ratio,
)
from dp_transforms.mechanisms.selection.strategy import (
    CountStrategy,
    NoisyCountStrategy,
    StrategyRefusal,
)
from dp_transforms.mechanisms.selection.threshold_distribution import (
    ThresholdDistribution,
    calibrated_distribution,
    truncated_geometric_noise,
)

Share = tuple[Fraction, Fraction]  # (epsilon', delta') of one partition

TIGHT, NAIVE = "tight", "naive"
_PRECISION = 192
_NEGLIGIBLE_BITS = 64
_GRID = 24
_REFINEMENTS = 3


@dataclass(frozen=True)
class _SplitStrategy(CountStrategy):
    """Decides about each partition under an (epsilon', delta') of its own, see the module.

    Args:
      composition: "tight" takes the (epsilon', delta') with the smallest threshold among those that
        optimal composition allows; "naive" divides (epsilon, delta) by the number of partitions
        that one user can change.
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
        """Returns (epsilon', delta')."""
        if self.composition == NAIVE:
            return naive_share(*self._budget, self._partitions_changed)
        return best_share(*self._budget, self._partitions_changed, self._cost)

    @staticmethod
    def _cost(epsilon: Fraction, delta: Fraction) -> float:
        """Returns about the number of users of a partition that is kept half of the time. Here this
        is the k of truncated geometric noise before it is rounded up, which is also about the
        median of the optimal pi."""
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
    """Keeps as many partitions as possible if each user has one partition.

    This is the optimal primitive of Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially
    private partition selection"), Theorem 1. The privacy argument is in ``keep_distribution``.
    epsilon and delta may be 0.

    >>> import numpy as np
    >>> from dp_transforms.mechanisms import RandomTape
    >>> strategy = OptimalSelection(epsilon=1, delta=1e-5)
    >>> strategy.median_users, strategy.saturation_count
    (12, 23)
    >>> strategy.select(np.array([1, 11, 12, 23]), RandomTape(bytes(32)))
    array([False,  True,  True,  True])
    """

    stable_name: ClassVar[str] = "OptimalSelection"

    name: ClassVar[str] = "optimal"
    needs_positive_budget: ClassVar[bool] = False

    @cached_property
    def distribution(self) -> OptimalDistribution:
        return OptimalDistribution(*self.share)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"saturation_count": self.saturation_count}


@dataclass(frozen=True)
class TruncatedGeometricSelection(_SplitStrategy, NoisyCountStrategy):
    """Adds truncated symmetric geometric noise: nearly the optimal primitive, with noisy counts.

    A partition is kept if its noisy count is strictly greater than k, the largest noise
    (Desfontaines, Voss, Gipson, Mandayam 2022, Definitions 6-8). The privacy argument is in
    ``threshold_distribution``.

    >>> strategy = TruncatedGeometricSelection(epsilon=1, delta=1e-5)
    >>> strategy.distribution.threshold, strategy.median_users, strategy.saturation_count
    (11, 12, 23)
    """

    stable_name: ClassVar[str] = "TruncatedGeometricSelection"

    name: ClassVar[str] = "truncated_geometric"

    @cached_property
    def distribution(self) -> ThresholdDistribution:
        noise = truncated_geometric_noise(*self.share)
        return ThresholdDistribution(noise, noise.k, saturation=2 * noise.k + 1)

    def public_distribution(self, threshold: int) -> ThresholdDistribution:
        """Returns the distribution for partitions with public names, which may appear without
        users.

        The noise is that of ``distribution``, so that one release may contain partitions of both
        kinds. The count is private for any threshold.

        Args:
          threshold: an integer from -k - 1 to k, where k is the largest noise. A partition is kept
            if its noisy count exceeds the threshold. At -k - 1 every partition is kept. A partition
            without users is kept less than half of the time at 0, and never at k.

        Raises:
          ValueError: the threshold is out of range.
        """
        noise = truncated_geometric_noise(*self.share)
        if not isinstance(threshold, int) or not -noise.k - 1 <= threshold <= noise.k:
            raise ValueError(
                "the threshold of public partitions must be an integer in "
                f"[{-noise.k - 1}, {noise.k}], got {shown(threshold)}"
            )
        saturation = max(0, threshold + noise.k + 1)
        return ThresholdDistribution(noise, threshold, saturation=saturation, smallest=0)

    @property
    def lowest_public_threshold(self) -> int:
        """Returns the threshold at which every public partition is kept."""
        return -truncated_geometric_noise(*self.share).k - 1

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"threshold": self._threshold}


@dataclass(frozen=True)
class LaplaceSelection(_SplitStrategy, NoisyCountStrategy):
    """Adds discrete Laplace noise and compares with a threshold, with noisy counts.

    The noise has P[X = x] proportional to e**(-epsilon' |x|). The noisy count of a partition with n
    >= 1 users is epsilon'-DP. A partition with a single user appears with probability at most
    delta'. So the decision and the count of each partition are (epsilon', delta')-DP, and compose
    over partitions (Korolova, Kenthapadi, Mishra, Ntoulas 2009, with discrete noise).

    >>> LaplaceSelection(epsilon=1, delta=1e-5).distribution.threshold
    12
    """

    stable_name: ClassVar[str] = "LaplaceSelection"

    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if 1 / self.share[0] > LARGEST_SCALE:
            raise StrategyRefusal(
                "this strategy would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )

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
        return super()._parameters() | _threshold_parameters(self)


@dataclass(frozen=True)
class GaussianSelection(NoisyCountStrategy):
    """Adds Gaussian noise, rounded to integers, and compares with a threshold, with noisy counts.

    Noise and threshold are calibrated together and analytically (Balle and Wang 2018), for a shift
    of kappa counts by one each. The privacy argument is in ``gaussian``, for any kappa.

    >>> strategy = GaussianSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> round(strategy.sigma, 3), strategy.distribution.threshold
    (11.797, 57)
    """

    stable_name: ClassVar[str] = "GaussianSelection"

    name: ClassVar[str] = "gaussian"

    @cached_property
    def budget(self) -> GaussianBudget:
        """Returns the largest change that one user may make, kappa counts by one each."""
        return calibrate(*self._budget, self.max_partitions_per_user, self._users_changed)

    @cached_property
    def distribution(self) -> ThresholdDistribution:
        max_partitions = self.max_partitions_per_user
        noise = RoundedGaussian(max_partitions / self.budget.mu2)
        return calibrated_distribution(noise, self.budget.new_partition_probability(max_partitions))

    @property
    def sigma(self) -> float:
        """Returns the noise's standard deviation before rounding, in users."""
        return math.sqrt(self.max_partitions_per_user / self.budget.mu2)

    def _parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma, **_threshold_parameters(self)}


def _threshold_parameters(strategy: LaplaceSelection | GaussianSelection) -> dict[str, Any]:
    kept = float(strategy.distribution.tie)
    return {"threshold": strategy._threshold, "kept_at_threshold": kept}


def naive_share(epsilon: Fraction, delta: Fraction, parts: int) -> Share:
    """Returns (epsilon / parts, delta / parts)."""
    return epsilon / parts, delta / parts


def composed_delta(share: Share, epsilon: Fraction, parts: int) -> Any:
    """Returns the delta at ``epsilon`` of ``parts`` mechanisms, each of which is ``share``-DP. It
    is rounded up."""
    down, up = rounding_pair(_PRECISION)
    undisclosed = down.mul(down.log1p(-gmpy2.mpq(share[1])), parts)
    # 1 - e**undisclosed (1 - H), in a form that keeps the relative precision of a tiny delta.
    responses = up.mul(up.exp(undisclosed), response_delta(share[0], epsilon, parts))
    return up.sub(responses, down.expm1(undisclosed))


def _ways(parts: int, some: int) -> Any:
    """Returns parts! / (some! (parts - some)!), rounded up."""
    # The logarithms have at most about 60 bits in front of the point.
    down, up = rounding_pair(_PRECISION + 64)
    others = down.add(down.lngamma(some + 1), down.lngamma(parts - some + 1))
    return up.exp(up.sub(up.lngamma(parts + 1), others))


@lru_cache(maxsize=4096)
def response_delta(epsilon0: Fraction, epsilon: Fraction, parts: int) -> Any:
    """Returns H, the delta of ``parts`` randomised responses of epsilon0 each, rounded up."""
    if epsilon0 * parts <= epsilon:
        return gmpy2.mpfr(0)
    down, up = rounding_pair(_PRECISION)
    # The last l with (parts - l) epsilon0 > epsilon + l epsilon0.
    last = math.ceil((parts - epsilon / epsilon0) / 2) - 1
    rate = gmpy2.mpq(epsilon0)
    # Running products: those that are added are rounded up, those that are subtracted down.
    grown, shrunk = up.exp(rate), down.exp(-rate)
    ways = _ways(parts, last)
    large, small = up.exp((parts - last) * rate), down.exp(gmpy2.mpq(epsilon) + last * rate)
    total = gmpy2.mpfr(0)
    for left in range(last, -1, -1):
        total = up.add(total, up.mul(ways, up.sub(large, small)))
        # The ratio of the first part of the next term to that of this one. Later ratios are
        # smaller.
        ratio = up.mul(up.div(left, parts - left + 1), grown)
        if ratio < 1:
            rest = up.div(up.mul(up.mul(ways, large), ratio), down.sub(1, ratio))
            if rest < up.mul(total, gmpy2.mpfr(2) ** -_NEGLIGIBLE_BITS):
                total = up.add(total, rest)
                break
        ways = up.div(up.mul(ways, left), parts - left + 1)
        large, small = up.mul(large, grown), down.mul(small, shrunk)
    return up.div(total, down.pow(down.add(1, down.exp(rate)), parts))


def largest_delta_share(
    epsilon0: Fraction, epsilon: Fraction, delta: Fraction, parts: int
) -> Fraction | None:
    """Returns the largest delta' within the budget, rounded down by at most 2**-40 of it; None if
    there is none."""
    allowed = gmpy2.mpq(delta)
    if response_delta(epsilon0, epsilon, parts) >= allowed:
        return None

    def fits(share: Fraction) -> bool:
        return share < 1 and bool(composed_delta((epsilon0, share), epsilon, parts) <= allowed)

    return largest_dyadic(fits)


@lru_cache(maxsize=256)
def best_share(
    epsilon: Fraction, delta: Fraction, parts: int, cost: Callable[[Fraction, Fraction], float]
) -> Share:
    """Returns the (epsilon', delta') within the budget that has the smallest ``cost(epsilon',
    delta')``. The search is over epsilon' from epsilon / parts to epsilon. Every share that is
    considered is certainly within the budget; that of naive splitting is one of them."""
    naive = naive_share(epsilon, delta, parts)
    if parts == 1 or epsilon == 0 or delta == 0:
        return naive
    best, best_cost = naive, cost(*naive)
    # epsilon' = epsilon / parts**power.
    low, high = 0.0, 1.0
    for _ in range(_REFINEMENTS):
        step = (high - low) / _GRID
        best_power = None
        for i in range(_GRID + 1):
            power = low + i * step
            # At power 1 epsilon' is exactly that of naive splitting, so that H is 0.
            epsilon0 = naive[0] if power >= 1 else _dyadic(epsilon, parts**power)
            delta0 = largest_delta_share(epsilon0, epsilon, delta, parts)
            if delta0 is not None and cost(epsilon0, delta0) < best_cost:
                best, best_cost, best_power = (epsilon0, delta0), cost(epsilon0, delta0), power
        if best_power is None:
            break
        low, high = max(0.0, best_power - step), min(1.0, best_power + step)
    return best


def _dyadic(epsilon: Fraction, divisor: float) -> Fraction:
    """Returns epsilon / divisor, rounded to about 40 bits."""
    value = float(epsilon) / divisor
    unit = Fraction(2) ** (math.frexp(value)[1] - 40)
    return round(Fraction(value) / unit) * unit
