"""The strategies whose keep-probabilities are as large as Renyi divergences allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.partition_selection.renyi_calibration import (
    RenyiBudget,
    total_budget,
)
from dp_transforms.mechanisms.partition_selection.renyi_law import RenyiLaw
from dp_transforms.mechanisms.partition_selection.strategy import CountStrategy
from dp_transforms.mechanisms.partition_selection.weighted_strategies import (
    WeightedStrategy,
    growing_shares,
)

_ORDERS = (5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40)
"""Orders to try, less one, in eighths of log(1 / delta) / epsilon."""

_LAST_RESOLUTION = 4
_LONGEST = 1 << 9


@lru_cache(maxsize=256)
def calibrate(
    epsilon: Fraction,
    delta: Fraction,
    partitions: int,
    shares: tuple[Fraction, ...],
    users_changed: int = 1,
) -> tuple[RenyiBudget, ...]:
    """The rounds' budgets, at the order whose last round needs the fewest users.

    Every order is private: the search decides only how much is kept.

    Args:
      epsilon, delta: positive, and delta below 1.
      partitions: the most that one user has in a round.
      shares: of the total divergence and exposure, one per round; they sum to 1.
      users_changed: 1 for neighbours that add or remove one user, 2 for those that replace one.
    """
    scale = math.log(delta.denominator / delta.numerator) / float(epsilon)
    best, fewest = None, math.inf
    for order in sorted({max(2, 1 + round(scale * part / 8)) for part in _ORDERS}):
        total = total_budget(order, epsilon, delta, len(shares) == 1, users_changed)
        if total.divergence <= 0 or total.exposure <= 0:
            continue
        half = RenyiLaw(total.share(shares[-1]), partitions).half
        if half >= fewest:
            # Beyond the best order, the larger it is the more users are needed.
            break
        best, fewest = total, half
    if best is None:
        raise ValueError(
            f"delta must be smaller for this strategy at epsilon={float(epsilon):g}, "
            f"got {float(delta):g}"
        )
    return tuple(best.share(share) for share in shares)


@dataclass(frozen=True)
class RenyiSelection(CountStrategy):
    """Keep-probabilities by the number of users, as large as one Renyi order allows.

    ``renyi_law`` defines them, ``renyi_calibration`` has the privacy argument.

    >>> RenyiSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10).median_users
    41
    """

    name: ClassVar[str] = "renyi"

    @cached_property
    def law(self) -> RenyiLaw:
        kappa = self.max_partitions_per_user
        (budget,) = calibrate(*self._budget, kappa, (Fraction(1),), self._users_changed)
        return RenyiLaw(budget, kappa)

    def _parameters(self) -> dict[str, Any]:
        return {"order": self.law.budget.order}


@dataclass(frozen=True)
class RenyiRound:
    """One round: steps and keep-probabilities.

    Attributes:
      law: the keep-probabilities by the sum of steps.
    """

    law: RenyiLaw

    def weight(self, partitions: int) -> int:
        return self.law.step(partitions)

    def describe(self) -> dict[str, float]:
        budget = self.law.budget
        return {
            "order": budget.order,
            "divergence": float(budget.divergence),
            "exposure": float(budget.exposure),
        }


@dataclass(frozen=True)
class RenyiRoundsSelection(WeightedStrategy):
    """Rounds as in DP-SIPS, with the keep-probabilities of ``renyi_law`` instead of noise.

    Early rounds, at little cost, select the partitions that many users have, so that their users'
    steps in what remains are longer. See ``renyi_calibration`` for the privacy argument.

    Args:
      number_of_rounds: a positive integer.
      growth: each round's divergence and exposure are this many times those of the round before.

    >>> RenyiRoundsSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10).median_users
    47
    """

    number_of_rounds: int = 3
    growth: int = 16

    name: ClassVar[str] = "renyi_rounds"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("number_of_rounds", "growth"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))

    @cached_property
    def rounds(self) -> tuple[RenyiRound, ...]:
        kappa = self.max_partitions_per_user
        shares = growing_shares(self.number_of_rounds, self.growth)
        budgets = calibrate(*self._budget, kappa, shares, self._users_changed)
        laws = [RenyiLaw(budget, kappa, 1) for budget in budgets]
        # Finer steps where that keeps the law short.
        resolution = min(_LAST_RESOLUTION, max(1, int(_LONGEST / laws[-1].half)))
        laws[-1] = RenyiLaw(budgets[-1], kappa, resolution)
        return tuple(RenyiRound(law) for law in laws)
