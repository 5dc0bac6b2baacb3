"""Searches the plan of rounds that should name the most; decides nothing about privacy.

Plans differ in the number of rounds, in how the budget grows from each to the next, in how many of
a user's partitions count, and in how a user's weight falls with that number. ``optimal`` is a plan
as well. What each names is predicted (``prediction``) in several populations, all of which may be
the one that a look saw: there are some for each way to read its noise. A plan's worth is the mean
part that it names of what the best plan names in the same population: plans that do well in all of
them are taken before plans that are the best in some and fail in others. Where little is named in
any case, little is at stake: one name more is added to the denominator.

Counts. If noisy numbers of users are asked for, there are two ways to them. One strategy decides by
noisy counts and shows them: they cost nothing, and it names less. Or rounds run on a part of the
budget, and the partitions that they named are counted with the rest. Names are public by then, so
that only records of named partitions count against a bound on each user, which may be smaller than
kappa. Names come first: of the plans whose counts should err no more than noisy counts at kappa
would, in whichever population, the one that is worth the most is taken. (If nobody declared kappa,
these are noisy counts at the kappa where they should err the least.) If that is less than
``NAMES_KEPT`` times what the best plan without counts is worth, it is the one of the least error
among the plans that are worth as much. Errors are about all records. One factor carries counts to
these, and it is wrong for partitions whose users have fewer partitions than others: the fewer
partitions of each user count, the more.
"""

from __future__ import annotations

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
    count_error,
    kept_by,
    kept_shares,
    of_budget,
    of_distribution,
    of_normal,
    predict,
)
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.rounds import RoundPlan

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
      worth: see the module.
      errors: with counts, the mean error of a count carried to all records, in users, in each
        population.
    """

    plan: RoundPlan
    names: float
    worth: float = 0.0
    errors: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        """Returns the error of counts in the mean over populations."""
        return float(np.mean(self.errors))


@dataclass(frozen=True)
class Comparison:
    """What a search found.

    Attributes:
      compared: the plans, the best ones first.
      chosen: the plan to take.
      best: the plan to take without counts.
      uncertainty: the worth that the best plan of each reading has beyond that of ``best``: what is
        lost by not knowing how to read the look.
    """

    compared: tuple[Compared, ...]
    chosen: Compared
    best: Compared
    uncertainty: float


class PlanSearch:
    """Compares plans within a budget, by what they name in several populations.

    Args:
      budget: what the plans may spend.
      populations: at least one for each way to read a look, and as many for every one.
      declared: kappa was declared; otherwise it is only the largest that may be chosen.
    """

    def __init__(
        self,
        budget: PlanBudget,
        populations: Sequence[Sequence[Population]],
        declared: bool = True,
    ):
        self._budget = budget
        self._declared = declared
        self._populations = [population for of_reading in populations for population in of_reading]
        self._of_each = len(populations[0])
        self._predicted: dict[tuple[int, RoundPlan], Prediction] = {}
        self._kept_shares: dict[tuple[int, int, RoundPlan | None], tuple[FloatArray, float]] = {}

    def compare(self, counted: bool = False) -> Comparison:
        """Returns the comparison of plans, with counts of what is named if these are wanted."""
        plans: dict[RoundPlan, None] = {}
        for place in range(min(len(self._populations), _SEARCHED)):
            plans |= dict.fromkeys(self._searched(place))
        names = np.array([self._names(plan) for plan in plans])
        best_names = names.max(0)
        worth = names / (best_names + 1)
        without = [
            Compared(plan, float(of_plan.mean()), float(worth_of_plan.mean()))
            for plan, of_plan, worth_of_plan in zip(plans, names, worth, strict=True)
        ]
        # Of equal predictions, as where everything is named, that of the fewest partitions.
        without.sort(key=lambda row: (-float(f"{row.worth:.3g}"), row.plan))
        best = without[0]
        # A better look would tell readings apart, and not the populations of one.
        of_readings = worth.reshape(len(worth), -1, self._of_each).mean(2)
        uncertainty = float(of_readings.max(0).mean()) - best.worth
        if not counted:
            return Comparison(tuple(without), best, best, uncertainty)
        rounds = next(row.plan for row in without if not row.plan.by)
        shown = [
            population.partitions * self._prediction(place, best.plan).named
            for place, population in enumerate(self._populations)
        ]
        by_counts = self._noisy_counts(best.plan, shown)
        with_counts = sorted(
            self._with_counts(best.plan, rounds, by_counts, best_names, shown),
            key=lambda row: (-row.worth, row.error),
        )
        chosen = self._taken(with_counts, by_counts, float(NAMES_KEPT) * best.worth)
        return Comparison((*with_counts, *without), chosen, best, uncertainty)

    def _taken(
        self, with_counts: Sequence[Compared], by_counts: RoundPlan, enough: float
    ) -> Compared:
        """Returns the plan to take of those with counts, which come in the order of their worth and
        should err no more than ``by_counts``."""
        (most,) = (row.errors for row in with_counts if row.plan == by_counts)
        precise = next(
            row
            for row in with_counts
            if all(error <= limit for error, limit in zip(row.errors, most, strict=True))
        )
        if precise.worth >= enough:
            return precise
        named = [row for row in with_counts if row.worth >= enough]
        return min(named, key=lambda row: row.error) if named else with_counts[0]

    def lost_with(self, share: float, plan: RoundPlan) -> float:
        """Returns about the worth that a plan loses with a share of its epsilon: with less of it, a
        partition needs more users in proportion."""
        lost = []
        for place, population in enumerate(self._populations):
            names = self._prediction(place, plan).names
            smaller = population.thinned(1 - share)
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

    def _noisy_counts(self, best: RoundPlan, shown: Sequence[FloatArray]) -> RoundPlan:
        """Returns the plan of noisy counts that others are compared with: at kappa, or at the kappa
        where they err the least on what the best plan names."""
        if self._declared:
            return plan_by_counts(self._budget)
        plans = [plan_by_counts(self._budget, most) for most in self._possible_partitions]
        return min(plans, key=lambda plan: sum(self._count_errors(plan, best, shown)))

    def _with_counts(
        self,
        best: RoundPlan,
        rounds: RoundPlan,
        by_counts: RoundPlan,
        best_names: FloatArray,
        shown: Sequence[FloatArray],
    ) -> Iterator[Compared]:
        """Yields plans that decide by noisy counts, and plans that count after rounds."""
        # Errors are compared where noisy counts would show a partition too: plans that name more do
        # not lose by what they alone name.
        in_both = [
            of_best * self._prediction(place, by_counts).named
            for place, of_best in enumerate(shown)
        ]
        compared_on = [
            both if both.sum() >= 1 else of_best
            for both, of_best in zip(in_both, shown, strict=True)
        ]

        def row(plan: RoundPlan, names: FloatArray) -> Compared:
            errors = tuple(self._count_errors(plan, best, compared_on))
            worth = float((names / (best_names + 1)).mean())
            return Compared(plan, float(names.mean()), worth, errors)

        for partitions in self._possible_partitions:
            plan = plan_by_counts(self._budget, partitions)
            yield row(plan, self._names(plan))
        for share in COUNT_SHARES:
            plan = rounds._replace(counts_share=share)
            names = self._names(plan)
            for counted in self._possible_partitions:
                yield row(plan._replace(counted=counted), names)

    def _count_errors(
        self, plan: RoundPlan, best: RoundPlan, shown: Sequence[FloatArray]
    ) -> Iterator[float]:
        """Yields the mean error of a plan's counts, carried to all records, in each population,
        over so many partitions of each kind."""
        if plan.by:
            variance = noise_variance(self._budget.single(plan))
        else:
            budgets = _about_budgets(self._budget, plan._replace(counted=0))
            later = LaterCounts(counts_budget(budgets, plan.counts_share), plan.counted)
            variance = float(later.sigma2)
        most, among = plan.counted or plan.partitions, best if plan.counted else None
        for place, (population, of_place) in enumerate(zip(self._populations, shown, strict=True)):
            kept, of_all = self._kept(place, most, among)
            yield count_error(population, of_place, kept, of_all, variance)

    def _kept(self, place: int, most: int, among: RoundPlan | None) -> tuple[FloatArray, float]:
        """Returns the part of each partition's users that count, and that of all together, if so
        many partitions of a user do, among those that a plan names or among all."""
        if (place, most, among) not in self._kept_shares:
            population = self._populations[place]
            named = np.ones(len(population.sizes))
            if among is not None:
                named = self._prediction(place, among).named
            kept = kept_shares(population, named, most)
            pairs = population.partitions * named * population.sizes
            of_all = float(pairs @ kept) / max(float(pairs.sum()), 1e-9)
            self._kept_shares[place, most, among] = kept, of_all
        return self._kept_shares[place, most, among]

    @cached_property
    def _possible_partitions(self) -> tuple[int, ...]:
        kappa = self._budget.max_partitions_per_user
        some = {1 << i for i in range(kappa.bit_length())} | {3 << i for i in range(20)} | {kappa}
        return tuple(sorted(partitions for partitions in some if partitions <= kappa))


@lru_cache(maxsize=4096)
def _about_budgets(budget: PlanBudget, plan: RoundPlan) -> tuple[RenyiBudget, ...]:
    """Returns about the budgets of a plan's rounds: those of the order that keeps the most, as
    ``Calibration.best`` does."""
    every = budget.calibration(plan.rounds, plan.growth, plan.counts_share).candidates
    root = 3 if plan.partitions > 1 else 0
    return max(every[::2] or every, key=lambda budgets: kept_by(budgets[-1], plan.partitions, root))


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
    budgets = _about_budgets(budget, plan)
    early = 3 if plan.partitions > 1 else 0
    roots = [early] * (plan.rounds - 1) + [plan.root if plan.partitions > 1 else 0]
    return tuple(
        of_budget(of_round, plan.partitions, root, shared_order=index > 0)
        for index, (of_round, root) in enumerate(zip(budgets, roots, strict=True))
    )


def plan_by_counts(budget: PlanBudget, partitions: int = 0) -> RoundPlan:
    """Returns the plan of noisy counts, at the lowest threshold, of so many partitions of each user
    or of kappa."""
    partitions = partitions or budget.max_partitions_per_user
    strategy = TruncatedGeometricSelection if partitions == 1 else GaussianSelection
    return RoundPlan(partitions, by=strategy.name, look=budget.look)
