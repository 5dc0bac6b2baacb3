"""Defines the strategies that follow a look: they run a plan within the budget that it left."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from dp_transforms.mechanisms.decimals import ExactNumber, Number
from dp_transforms.mechanisms.selection.count_strategies import (
    GaussianSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.later_counts import LaterCounts
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.rounds import (
    Calibration,
    RenyiRoundsSelection,
    RoundPlan,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.strategy import (
    REPLACE,
    CountStrategy,
    NoisyCountStrategy,
)

# Equal calibrations are one object, since a calibration keeps the candidates that it has computed.
_calibration = lru_cache(maxsize=256)(Calibration)


@dataclass(frozen=True)
class PlanBudget:
    """Holds the budget and the parameters that all plans after a look have in common.

    Attributes:
      epsilon: the part of epsilon that the look has left.
      delta, max_partitions_per_user, pre_threshold, neighbours: see ``SelectionStrategy``.
      look: the number of times that the look was refined.
    """

    epsilon: ExactNumber
    delta: Number
    max_partitions_per_user: int
    pre_threshold: int
    neighbours: str
    look: int = 0

    def single(self, plan: RoundPlan) -> Any:
        """Returns the strategy that decides in a plan of a single round."""
        return _single(self, plan)

    def strategy(self, plan: RoundPlan) -> WeightedStrategy:
        """Returns the strategy that runs a plan."""
        return _strategy(self, plan)

    def calibration(self, rounds: int, growth: int, counts_share: Fraction) -> Calibration:
        """Returns the calibration of rounds. It is the same for all numbers of a user's partitions
        that count in them."""
        return _calibration(
            Fraction(self.epsilon),
            Fraction(self.delta),
            self.max_partitions_per_user,
            rounds,
            growth,
            2 if self.neighbours == REPLACE else 1,
            counts_share,
        )


@lru_cache(maxsize=256)
def _single(budget: PlanBudget, plan: RoundPlan) -> Any:
    kinds = (OptimalSelection, TruncatedGeometricSelection, GaussianSelection)
    (kind,) = (kind for kind in kinds if kind.name == plan.by)
    return kind(
        budget.epsilon, budget.delta, plan.partitions, budget.pre_threshold, budget.neighbours
    )


@lru_cache(maxsize=64)
def _strategy(budget: PlanBudget, plan: RoundPlan) -> WeightedStrategy:
    if plan.by:
        return SingleRound(
            budget.epsilon,
            budget.delta,
            plan.partitions,
            budget.pre_threshold,
            budget.neighbours,
            single=budget.single(plan),
        )
    return PlannedRounds(
        budget.epsilon,
        budget.delta,
        plan.partitions,
        budget.pre_threshold,
        budget.neighbours,
        plan.rounds,
        plan.growth,
        root=plan.root,
        counted=plan.counted,
        counts_share=plan.counts_share,
    )


@dataclass(frozen=True)
class PlannedRounds(RenyiRoundsSelection):
    """Runs the rounds of a plan, which counts of named partitions may follow.

    Args:
      root: in the last round, steps of users of d partitions are proportional to d**(-1 / root).
      counted, counts_share: see ``RoundPlan``.
    """

    root: int = 6
    counted: int = 0
    counts_share: Fraction = Fraction(0)

    @property
    def later_counts(self) -> LaterCounts | None:
        if not self.counted:
            return None
        return LaterCounts(counts_budget(self.budgets, self.counts_share), self.counted)

    @cached_property
    def _calibration(self) -> Calibration:
        return dataclasses.replace(super()._calibration, counts_share=self.counts_share)

    @property
    def _roots(self) -> tuple[int, int]:
        return self.root, self.root


@dataclass(frozen=True)
class SingleRound(WeightedStrategy):
    """Decides in one round by numbers of users, as the strategy ``single`` does."""

    single: CountStrategy | None = None

    name: ClassVar[str] = "single round"

    @cached_property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        assert self.single is not None
        return (self.single.distribution,)

    @property
    def counting(self) -> NoisyCountStrategy | None:
        return self.single if isinstance(self.single, NoisyCountStrategy) else None


def counts_budget(budgets: Sequence[RenyiBudget], share: Fraction) -> RenyiBudget:
    """Returns the budget of counts that follow rounds of these budgets. The counts have the given
    share of the whole divergence."""
    of_rounds = sum((budget.divergence for budget in budgets), Fraction(0))
    return RenyiBudget(budgets[0].order, of_rounds * share / (1 - share), Fraction(0))


def noise_variance(strategy: NoisyCountStrategy) -> float:
    """Returns about the variance of a strategy's noise."""
    if isinstance(strategy, GaussianSelection):
        return strategy.sigma**2
    # 1 / (cosh(epsilon) - 1), where this is neither too large nor too small for a float.
    half = min(float(strategy.epsilon) / 2, 300.0)
    return 0.5 / math.sinh(half) ** 2
