"""The strategies that need only each partition's number of users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import gmpy2

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.partition_selection.composition import Share, best_share, naive_share
from dp_transforms.mechanisms.partition_selection.gaussian_calibration import (
    GaussianBudget,
    calibrate,
)
from dp_transforms.mechanisms.partition_selection.normal import RoundedGaussian
from dp_transforms.mechanisms.partition_selection.optimal import OptimalLaw, truncation_ratio
from dp_transforms.mechanisms.partition_selection.strategy import CountStrategy, NoisyCountStrategy
from dp_transforms.mechanisms.partition_selection.threshold_law import ThresholdLaw, calibrated_law
from dp_transforms.mechanisms.partition_selection.truncated_geometric import (
    public_law,
    truncated_geometric_law,
)

TIGHT = "tight"
NAIVE = "naive"


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
    Theorem 1; the privacy argument is beside ``OptimalLaw``. epsilon and delta may be 0.

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
    def law(self) -> OptimalLaw:
        return OptimalLaw(*self.share)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"saturation_count": self.saturation_count}


@dataclass(frozen=True)
class TruncatedGeometricSelection(_SplitStrategy, NoisyCountStrategy):
    """Truncated symmetric geometric noise: nearly the optimal primitive, with noisy counts.

    Desfontaines, Voss, Gipson, Mandayam (2022), Definitions 6-8; the privacy argument is in
    ``truncated_geometric``. A partition is kept if its noisy count is strictly greater than k.

    >>> strategy = TruncatedGeometricSelection(epsilon=1, delta=1e-5)
    >>> strategy.law.threshold, strategy.median_users, strategy.saturation_count
    (11, 12, 23)
    """

    name: ClassVar[str] = "truncated_geometric"

    @cached_property
    def law(self) -> ThresholdLaw:
        return truncated_geometric_law(*self.share)

    def public_law(self, threshold: int) -> ThresholdLaw:
        """The law of partitions whose names are public, under the same budget, from 0 users on.

        Args:
          threshold: from -k (every partition that has users is kept) to k (none without users is);
            a noisy count must be strictly greater.

        Raises:
          ValueError: the threshold is out of range.
        """
        return public_law(*self.share, threshold)

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | {"threshold": self.law.threshold}


@dataclass(frozen=True)
class LaplaceSelection(_SplitStrategy, NoisyCountStrategy):
    """Discrete Laplace noise and a threshold, with noisy counts.

    A partition is kept if n + X > threshold, P[X = x] proportional to e**(-epsilon' |x|), or with
    some probability if they are equal. With n >= 1 users this is epsilon'-DP in the count; a
    partition's only user makes it appear with probability delta' at most. So each partition is
    (epsilon', delta')-DP, and they compose (Korolova, Kenthapadi, Mishra, Ntoulas 2009, with
    discrete noise).

    >>> LaplaceSelection(epsilon=1, delta=1e-5).law.threshold
    12
    """

    name: ClassVar[str] = "laplace"

    @cached_property
    def law(self) -> ThresholdLaw:
        epsilon, delta = self.share
        return calibrated_law(DiscreteLaplace(1 / epsilon), delta)

    @staticmethod
    def _cost(epsilon: Fraction, delta: Fraction) -> float:
        # P[X > t - 1] = q**t / (1 + q).
        down, _ = rounding_pair(64)
        ratio = Decay(epsilon).power(1, 64)[0]
        return float(-down.log(down.mul(gmpy2.mpq(delta), down.add(1, ratio))) / float(epsilon))

    def _parameters(self) -> dict[str, Any]:
        return super()._parameters() | _threshold_parameters(self.law)


@dataclass(frozen=True)
class GaussianSelection(NoisyCountStrategy):
    """Gaussian noise, rounded to integers, and a threshold, with noisy counts.

    The noise is calibrated analytically (Balle and Wang 2018) for a shift of kappa counts by one
    each, together with the threshold; ``gaussian_calibration`` has the argument. Rounding n plus
    normal noise is post-processing, so the continuous mechanism's guarantee holds exactly for any
    kappa.

    >>> strategy = GaussianSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> round(strategy.sigma, 3), strategy.law.threshold
    (11.797, 57)
    """

    name: ClassVar[str] = "gaussian"

    @cached_property
    def budget(self) -> GaussianBudget:
        """What one user may change, kappa counts by one each."""
        return calibrate(*self._budget, self.max_partitions_per_user, self._users_changed)

    @cached_property
    def law(self) -> ThresholdLaw:
        kappa = self.max_partitions_per_user
        noise = RoundedGaussian(kappa / self.budget.mu2)
        return calibrated_law(noise, self.budget.new_partition_probability(kappa))

    @property
    def sigma(self) -> float:
        """The noise's standard deviation before rounding, in users."""
        return math.sqrt(self.max_partitions_per_user / self.budget.mu2)

    def _parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma, **_threshold_parameters(self.law)}


def _threshold_parameters(law: ThresholdLaw) -> dict[str, Any]:
    return {"threshold": law.threshold, "kept_at_threshold": float(law.tie)}
