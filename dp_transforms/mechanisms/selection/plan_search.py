"""Searches the plan of rounds that should name the most; decides nothing about privacy.

Plans differ in the number of rounds, in how the budget grows from each to the next, in how many of
a user's partitions count, and in how a user's weight falls with that number. ``optimal`` is a plan
as well. What each names is predicted (``prediction``) in several populations, all of which may be
the one that a look saw. A plan's worth is the mean part that it names of what the best plan names
in the same population: plans that do well in all of them are taken before plans that are the best
in some and fail in others. Where little is named in any case, little is at stake: one name more is
added to the denominator.

Counts. If noisy numbers of users are asked for, there are two ways to them. One strategy decides by
noisy counts and shows them: they cost nothing, and it names less. Or rounds run on a part of the
budget, and the partitions that they named are counted with the rest. Names are public by then, so
that only records of named partitions count against a bound on each user, which may be smaller than
kappa. Names come first: of the plans whose counts should err no more than noisy counts at kappa
would, the one that is worth the most is taken. If that is less than ``NAMES_KEPT`` times what the
best plan without counts is worth, it is the one of the least error among the plans that are worth
as much.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.selection.count_strategies import (
    GaussianSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.gaussian import relative_threshold
from dp_transforms.mechanisms.selection.later_counts import LaterCounts
from dp_transforms.mechanisms.selection.planned_rounds import (
    PlanBudget,
    counts_budget,
    noise_variance,
)
from dp_transforms.mechanisms.selection.population import Population
from dp_transforms.mechanisms.selection.prediction import (
    Prediction,
    Round,
    kept_by,
    kept_share,
    of_budget,
    of_distribution,
    of_normal,
    predict,
)
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.strategy import NoisyCountStrategy

NAMES_KEPT = Fraction(4, 5)
"""What is asked for with counts: names first. Three quarters are promised, and predictions err."""
SCHEDULES = ((2, 16), (3, 16), (3, 128), (6, 1), (6, 2))
"""Numbers of rounds, and growths, that are compared: from one last round that has nearly all of the
budget to many equal ones. Privacy holds for all."""
COUNT_SHARES = tuple(Fraction(i, 16) for i in range(1, 12))
_ROOTS = (2, 3, 6)
_SEARCHED, _BEST = 3, 5
"""In so many populations the best plans are searched, and so many of each are compared."""


class Compared(NamedTuple):
    """A plan with its prediction.

    Attributes:
      plan: the plan.
      names: the number of names, in the mean over populations.
      error: with counts, the mean error of a count carried to all records, in users.
      worth: see the module.
    """

    plan: RoundPlan
    names: float
    error: float | None = None
    worth: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """What a search found.

    Attributes:
      compared: the plans, the best ones first.
      chosen: the plan to take.
      best: the plan to take without counts.
      uncertainty: the worth that the best plan of each population has beyond that of ``best``: what
        is lost by not knowing the population.
    """

    compared: tuple[Compared, ...]
    chosen: Compared
    best: Compared
    uncertainty: float


class PlanSearch:
    """Compares plans within a budget, by what they name in several populations.

    Args:
      budget: what the plans may spend.
      populations: at least one.
    """

    def __init__(self, budget: PlanBudget, populations: Sequence[Population]):
        self._budget, self._populations = budget, populations
        self._predicted: dict[tuple[int, RoundPlan], Prediction] = {}

    def compare(self, counted: bool = False) -> Comparison:
        """Returns the comparison of plans, with counts of what is named if these are wanted."""
        plans: dict[RoundPlan, None] = {}
        for place in range(min(len(self._populations), _SEARCHED)):
            plans |= dict.fromkeys(self._searched(place))
        names = np.array([self._names(plan) for plan in plans])
        best_names = names.max(0)
        without = [
            Compared(plan, float(of_plan.mean()), None, float((of_plan / (best_names + 1)).mean()))
            for plan, of_plan in zip(plans, names, strict=True)
        ]
        # Of equal predictions, as where everything is named, that of the fewest partitions.
        without.sort(key=lambda row: (-float(f"{row.worth:.3g}"), row.plan))
        best = without[0]
        uncertainty = float((best_names / (best_names + 1)).mean()) - best.worth
        if not counted:
            return Comparison(tuple(without), best, best, uncertainty)
        with_counts = sorted(
            self._with_counts(best, best_names), key=lambda row: (-row.worth, _error(row))
        )
        chosen = self._taken(with_counts, float(NAMES_KEPT) * best.worth)
        return Comparison((*with_counts, *without), chosen, best, uncertainty)

    def _taken(self, with_counts: Sequence[Compared], enough: float) -> Compared:
        """Returns the plan to take of those with counts, which come in the order of their worth."""
        (most,) = (_error(row) for row in with_counts if row.plan == plan_by_counts(self._budget))
        precise = next(row for row in with_counts if _error(row) <= most)
        if precise.worth >= enough:
            return precise
        named = [row for row in with_counts if row.worth >= enough]
        return min(named, key=_error) if named else with_counts[0]

    def lost_with(self, share: float, plan: RoundPlan) -> float:
        """Returns about the worth that a plan loses with a share of its epsilon: with less of it, a
        partition needs more users in proportion."""
        lost = []
        for place, population in enumerate(self._populations):
            names = self._prediction(place, plan).names
            smaller = dataclasses.replace(population, sizes=population.sizes * (1 - share))
            fewer = predict(smaller, _about_rounds(self._budget, plan)).names
            lost.append((names - fewer) / (names + 1))
        return float(np.mean(lost))

    def _prediction(self, place: int, plan: RoundPlan) -> Prediction:
        if (place, plan) not in self._predicted:
            rounds = _about_rounds(self._budget, plan)
            self._predicted[place, plan] = predict(self._populations[place], rounds)
        return self._predicted[place, plan]

    def _names(self, plan: RoundPlan) -> FloatArray:
        """Returns what a plan names in each population."""
        places = range(len(self._populations))
        return np.array([self._prediction(place, plan).names for place in places])

    def _searched(self, place: int) -> list[RoundPlan]:
        """Returns the best plans that a search in one population came by, and the best with each
        number of rounds."""
        tried: dict[RoundPlan, float] = {}
        look = self._budget.look

        def names(plan: RoundPlan) -> float:
            if plan not in tried:
                tried[plan] = self._prediction(place, plan).names
            return tried[plan]

        def best(plans: Iterator[RoundPlan]) -> RoundPlan:
            return max(plans, key=names)

        every = self._possible_partitions
        for partitions in every[:3]:
            names(RoundPlan(partitions, by=OptimalSelection.name, look=look))
        # One part of the plan after the other, twice: each changes little in the others.
        for start in dict.fromkeys((every[0], every[-1])):
            plan = RoundPlan(start, 3, 16, _ROOTS[-1], look=look)
            for _ in range(2):
                plan = best(plan._replace(rounds=n, growth=g) for n, g in SCHEDULES)
                plan = best(plan._replace(partitions=partitions) for partitions in every)
                if plan.partitions > 1:
                    plan = best(plan._replace(root=root) for root in _ROOTS)
        plans = sorted(tried, key=lambda plan: -tried[plan])
        of_kinds: dict[tuple[str, int], RoundPlan] = {}
        for plan in plans:
            of_kinds.setdefault((plan.by, plan.rounds), plan)
        return [*plans[:_BEST], *of_kinds.values()]

    def _with_counts(self, best: Compared, best_names: FloatArray) -> Iterator[Compared]:
        population = self._populations[0]
        named = population.partitions * self._prediction(0, best.plan).named
        everything = np.ones(len(population.sizes))
        # Errors are compared where noisy counts at kappa would show a partition too: plans that
        # name more do not lose by what they alone name.
        by_counts = plan_by_counts(self._budget)
        in_both = named * self._prediction(0, by_counts).named
        if in_both.sum() >= 1:
            named = in_both

        def error(variance: float, kept: float) -> float:
            """Returns the mean error of counts carried to all records: noise, and who counts."""
            kept = max(kept, 1e-9)
            squares = variance / kept**2 + population.sizes * (1 - kept) / kept
            return float(named @ np.sqrt(squares) / max(float(named.sum()), 1e-9))

        def row(plan: RoundPlan, names: FloatArray, error: float) -> Compared:
            return Compared(
                plan, float(names.mean()), error, float((names / (best_names + 1)).mean())
            )

        for partitions in self._possible_partitions:
            plan = by_counts._replace(partitions=partitions, by=_noisy_strategy(partitions).name)
            kept = kept_share(population, everything, partitions)
            variance = noise_variance(self._budget.single(plan))
            yield row(plan, self._names(plan), error(variance, kept))
        if best.plan.by:
            return
        for share in COUNT_SHARES:
            plan = best.plan._replace(counts_share=share)
            names = self._names(plan)
            budgets = _about_budgets(self._budget, plan.rounds, plan.growth, share)
            for counted in self._possible_partitions:
                variance = float(LaterCounts(counts_budget(budgets, share), counted).sigma2)
                kept = kept_share(population, self._prediction(0, plan).named, counted)
                yield row(plan._replace(counted=counted), names, error(variance, kept))

    @cached_property
    def _possible_partitions(self) -> tuple[int, ...]:
        kappa = self._budget.max_partitions_per_user
        some = {1 << i for i in range(kappa.bit_length())} | {3 << i for i in range(20)} | {kappa}
        return tuple(sorted(partitions for partitions in some if partitions <= kappa))


def _error(row: Compared) -> float:
    assert row.error is not None
    return row.error


@lru_cache(maxsize=4096)
def _about_budgets(
    budget: PlanBudget, rounds: int, growth: int, counts_share: Fraction
) -> tuple[RenyiBudget, ...]:
    """Returns about the budgets of a plan, which do not depend on how many partitions count."""
    every = budget.calibration(rounds, growth, counts_share).candidates
    kappa = budget.max_partitions_per_user
    return max(every[::2] or every, key=lambda budgets: kept_by(budgets[-1], kappa, 3))


@lru_cache(maxsize=4096)
def _about_rounds(budget: PlanBudget, plan: RoundPlan) -> tuple[Round, ...]:
    """Returns about the rounds of a plan."""
    if plan.by == GaussianSelection.name:
        single = budget.single(plan)
        relative = relative_threshold(single.budget, plan.partitions)
        threshold = 1 + math.sqrt(plan.partitions) * relative
        return (of_normal(plan.partitions, single.sigma, threshold),)
    if plan.by:
        single = budget.single(plan)
        return (of_distribution(single.distribution, plan.partitions),)
    budgets = _about_budgets(budget, plan.rounds, plan.growth, plan.counts_share)
    early = 3 if plan.partitions > 1 else 0
    roots = [early] * (plan.rounds - 1) + [plan.root if plan.partitions > 1 else 0]
    return tuple(
        of_budget(of_round, plan.partitions, root, shared_order=index > 0)
        for index, (of_round, root) in enumerate(zip(budgets, roots, strict=True))
    )


def plan_by_counts(budget: PlanBudget) -> RoundPlan:
    """Returns the plan of noisy counts at kappa."""
    kappa = budget.max_partitions_per_user
    return RoundPlan(kappa, by=_noisy_strategy(kappa).name, look=budget.look)


def _noisy_strategy(partitions: int) -> type[NoisyCountStrategy]:
    """Returns the strategy that decides by noisy counts at the lowest threshold."""
    return TruncatedGeometricSelection if partitions == 1 else GaussianSelection
