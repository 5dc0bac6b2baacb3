"""Searches for the plan of rounds that is expected to name the most; privacy does not depend on it.

Plans differ in the number of rounds, in the growth of the budget from round to round, in how many
of a user's partitions count, and in how a user's weight falls with that number. The single round of
``optimal`` is a plan too. The number of names is predicted (``prediction``) in several populations,
each of which may lie behind the look: there is a group of them for each reading of the look's
noise. In each population, the number that a plan names is divided by the number that the best plan
names, plus one. A plan's worth is the mean of these parts. So a plan that does well in all
populations is preferred to one that is the best in some and fails in others. The one is added
because little is at stake where any plan names little.

Counts. If noisy numbers of users are wanted, there are two ways to get them. Either a strategy
decides by noisy counts and releases them: they cost nothing more, but the strategy names less. Or
rounds run on a part of the budget, and the partitions that they named are counted with the rest. At
that point names are public, so a user's bound applies to named partitions only, and may be smaller
than kappa.

Names come first. Consider the plans whose counts are expected to err no more, in every population,
than noisy counts at kappa. (If nobody declared kappa, these are noisy counts at the kappa where
they are expected to err the least.) Of these plans the one of the largest worth is taken. If its
worth is less than ``NAMES_KEPT`` times that of the best plan without counts, then the plan of the
least error is taken among all plans of at least this worth. Errors are errors of numbers about all
records. One factor scales counts up to all records. It is wrong for partitions whose users have
fewer partitions than others, and the more so the fewer partitions of each user count.
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
"""The part of the best plan's worth that a plan with counts should have. Users are promised three
quarters only, since predictions err."""
SCHEDULES = ((2, 16), (3, 16), (3, 128), (6, 1), (6, 2))
"""The pairs (rounds, growth) that are compared: from a last round that has nearly all of the budget
to many equal rounds. Privacy holds for all."""
COUNT_SHARES = tuple(Fraction(i, 16) for i in range(1, 12))
_ROOTS = (2, 3, 6)
_SEARCHED, _BEST = 3, 5
"""The number of populations in which plans are searched for, and the number of the best plans of
each that are compared in all populations."""


class Compared(NamedTuple):
    """Holds a plan and the predictions for it.

    Attributes:
      plan: the plan.
      names: the expected number of names, averaged over populations.
      worth: see the module.
      errors: for a plan with counts, the mean error in each population of a count that is scaled up
        to all records, in users.
    """

    plan: RoundPlan
    names: float
    worth: float = 0.0
    errors: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        """Returns the error of counts, averaged over populations."""
        return float(np.mean(self.errors))


@dataclass(frozen=True)
class Comparison:
    """Holds the results of a search.

    Attributes:
      compared: the plans, the best ones first.
      chosen: the plan to take.
      best: the plan to take if no counts are wanted.
      uncertainty: the worth that is lost because the right reading of the look is not known. It is
        the mean worth of the best plan of each reading, less the worth of ``best``.
    """

    compared: tuple[Compared, ...]
    chosen: Compared
    best: Compared
    uncertainty: float


class PlanSearch:
    """Compares plans within a budget, by what they name in several populations.

    Args:
      budget: the budget of each plan.
      populations: a group of populations for each reading of a look; all groups are equally large.
      declared: whether kappa was declared; otherwise it is only the largest that may be chosen.
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
        """Returns the comparison of plans. If ``counted``, the chosen plan has counts of the named
        partitions."""
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
        # Among plans of equal worth, as where everything is named, that of the fewest partitions is
        # the first.
        without.sort(key=lambda row: (-float(f"{row.worth:.3g}"), row.plan))
        best = without[0]
        # A better look would distinguish readings, but not the populations of one reading.
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
        """Returns the plan to take of those with counts, see the module.

        Args:
          with_counts: the plans with counts, in the order of their worth.
          by_counts: the plan of noisy counts whose errors are the limit.
          enough: the worth that the plan should have.
        """
        (limits,) = (row.errors for row in with_counts if row.plan == by_counts)
        precise = next(
            row
            for row in with_counts
            if all(error <= limit for error, limit in zip(row.errors, limits, strict=True))
        )
        if precise.worth >= enough:
            return precise
        worth_enough = [row for row in with_counts if row.worth >= enough]
        if worth_enough:
            return min(worth_enough, key=lambda row: row.error)
        return with_counts[0]

    def lost_with(self, share: float, plan: RoundPlan) -> float:
        """Returns about the worth that a plan loses if it loses a share of its epsilon. It is taken
        to be the same as the loss of this share of each partition's users."""
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
        """Returns the expected number of names of a plan in each population."""
        places = range(len(self._populations))
        return np.array([self._prediction(place, plan).names for place in places])

    def _searched(self, place: int) -> list[RoundPlan]:
        """Returns the best plans that a search in one population finds, and the best plan of each
        strategy and number of rounds."""
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
        # The parts of a plan are improved one after the other, twice: the best value of one depends
        # little on the others.
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
        """Returns the plan of noisy counts with which others are compared. If kappa was not
        declared, it is the plan of the kappa where counts err the least, for the partitions that
        the best plan names."""
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
        # Errors are compared for partitions that noisy counts would name too, so that a plan does
        # not lose by naming more.
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
        """Yields, for each population, the mean error of a plan's counts when they are scaled up to
        all records.

        Args:
          plan: the plan.
          best: the plan that names the partitions which are counted after rounds.
          shown: for each population, the number of partitions of each group that errors are
            averaged over.
        """
        if plan.by:
            variance = noise_variance(self._budget.single(plan))
        else:
            budgets = _about_budgets(self._budget, plan._replace(counted=0))
            later = LaterCounts(counts_budget(budgets, plan.counts_share), plan.counted)
            variance = float(later.sigma2)
        if plan.counted:
            most, among = plan.counted, best
        else:
            most, among = plan.partitions, None
        for place, (population, of_place) in enumerate(zip(self._populations, shown, strict=True)):
            kept, of_all = self._kept(place, most, among)
            yield count_error(population, of_place, kept, of_all, variance)

    def _kept(self, place: int, most: int, among: RoundPlan | None) -> tuple[FloatArray, float]:
        """Returns the part of a partition's users who count in it, for each group of partitions,
        and the same part of the users of all partitions together.

        Args:
          place: the index of the population.
          most: the most partitions in which a user counts.
          among: the plan that names these partitions; None for all partitions.
        """
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
        """Returns the numbers of a user's partitions that are tried: powers of two, 3 times powers
        of two, and kappa."""
        kappa = self._budget.max_partitions_per_user
        tried = {1 << i for i in range(kappa.bit_length())} | {3 << i for i in range(20)} | {kappa}
        return tuple(sorted(partitions for partitions in tried if partitions <= kappa))


@lru_cache(maxsize=4096)
def _about_budgets(budget: PlanBudget, plan: RoundPlan) -> tuple[RenyiBudget, ...]:
    """Returns about the budgets of a plan's rounds. They are those of the order that keeps the
    most, as in ``Calibration.best``, but only every second order is tried."""
    every = budget.calibration(plan.rounds, plan.growth, plan.counts_share).candidates
    root = 3 if plan.partitions > 1 else 0
    return max(every[::2] or every, key=lambda budgets: kept_by(budgets[-1], plan.partitions, root))


@lru_cache(maxsize=4096)
def _about_rounds(budget: PlanBudget, plan: RoundPlan) -> tuple[Round, ...]:
    """Returns about the rounds of a plan, as predictions need them."""
    hidden = budget.pre_threshold - 1
    return tuple(of_round.beyond(hidden) for of_round in _about_all_users(budget, plan))


def _about_all_users(budget: PlanBudget, plan: RoundPlan) -> tuple[Round, ...]:
    """Returns about the rounds of a plan without a pre-threshold."""
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
    """Returns the plan that names by noisy counts, for this many partitions of each user, or kappa
    if 0. Of the strategies with noisy counts it takes the one that usually has the lowest
    threshold."""
    partitions = partitions or budget.max_partitions_per_user
    strategy = TruncatedGeometricSelection if partitions == 1 else GaussianSelection
    return RoundPlan(partitions, by=strategy.name, look=budget.look)
