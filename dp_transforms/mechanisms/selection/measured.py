"""Chooses rounds by a small private look at the records, for which a hundredth of epsilon pays.

The look (``population``) says about how many users have how many partitions, and about how many
partitions have how many users. From these noisy numbers it is predicted (``prediction``) how many
names each plan would find: ``optimal``, and rounds that differ in their number, in how the budget
grows from each to the next, in how many of a user's partitions count, and in how a user's weight
falls with that number. The plan of the most names is taken. The number of a user's partitions that
count is at most kappa, and so a kappa that nobody declares is chosen in the same way.

Counts. If noisy numbers of users are asked for, there are two ways to them. One strategy decides by
noisy counts and shows them: they cost nothing, and it names less. Or the best rounds run on a part
of the budget, and the partitions that they named are counted with the rest. Names are public by
then, so that only records of named partitions count against a bound on each user, which may be
smaller than kappa. Of all plans that should name at least ``NAMES_KEPT`` times as many partitions
as would be named without counts, the one of the least error is taken.

Privacy. The look is epsilon_1-differentially private. The choice is a function of its noisy
numbers and of public parameters. Every plan is (epsilon - epsilon_1, delta)-differentially private,
whatever the noisy numbers are, and so by adaptive sequential composition the whole is
(epsilon, delta)-differentially private. That the look counts all partitions of a user, and the
plans at most kappa, makes no difference: its sensitivity does not depend on their number.

Counts after rounds are one more release within a plan, see ``later_counts``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import ExactNumber, decimal_text, float_above
from dp_transforms.mechanisms.discrete_noise import LARGEST_SCALE, DiscreteLaplace
from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.selection.count_strategies import (
    GaussianSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.gaussian import relative_threshold
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.later_counts import LaterCounts
from dp_transforms.mechanisms.selection.population import (
    FOR_USERS,
    Look,
    Population,
    cells_text,
    degree_edges,
)
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
from dp_transforms.mechanisms.selection.rounds import (
    Calibration,
    RenyiRoundsSelection,
    RoundPlan,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.strategy import (
    CountStrategy,
    NoisyCountStrategy,
    StrategyRefusal,
)

LOOK_SHARE = Fraction(1, 100)
"""The part of epsilon for the look. Where it gains nothing it loses names: no more than about a
hundredth of them, since partitions of at least t users are about as many as 1 / t says (Zipf)."""
NAMES_KEPT = Fraction(4, 5)
"""What is asked for with counts: names first. Three quarters are promised, and predictions err."""
MOST_PARTITIONS = 256
"""The largest kappa that is chosen where none is declared. Records are kept for all that may be
chosen, and a user of more partitions hardly tells more of each."""
_SCHEDULES = ((2, 16), (3, 16), (3, 128), (6, 1), (6, 2))
"""Numbers of rounds, and growths, that are compared: from one last round that has nearly all of the
budget to many equal ones. Privacy holds for all."""
_ROOTS = (2, 3, 6)
_COUNT_SHARES = tuple(Fraction(i, 16) for i in range(1, 12))


class Compared(NamedTuple):
    """A plan with its prediction: the number of names and, with counts, the mean error of a count
    carried to all records, in users."""

    plan: RoundPlan
    names: float
    error: float | None = None


@dataclass(frozen=True)
class Choice:
    """What a look led to.

    Attributes:
      look: the noisy numbers.
      compared: all plans that were looked at, by falling numbers of names.
      chosen: the plan that was taken, with its prediction.
    """

    look: Look
    compared: tuple[Compared, ...]
    chosen: Compared

    @property
    def plan(self) -> RoundPlan:
        return self.chosen.plan

    def describe(self) -> dict[str, Any]:
        """Returns the public facts of the choice, as JSON-ready values."""
        best: dict[tuple[str, int], Compared] = {}
        for compared in self.compared:
            best.setdefault((compared.plan.by, compared.plan.rounds), compared)
        rows = {row.plan: row for row in (self.chosen, *best.values())}
        return {
            "users_by_partitions": {
                "at_most": list(self.look.edges),
                "users": list(self.look.degrees),
            },
            "tails": list(self.look.tails),
            "noise_scales": list(self.look.scales),
            "chosen": _described(self.chosen),
            "compared": [_described(row) for row in rows.values()],
        }


def _described(compared: Compared) -> dict[str, Any]:
    plan = compared.plan
    row: dict[str, Any] = {
        "strategy": plan.by or RenyiRoundsSelection.name,
        "partitions_per_user": plan.partitions,
        "predicted_names": round(compared.names),
    }
    if not plan.by:
        row |= {"rounds": plan.rounds, "growth": plan.growth, "root": plan.root}
    if compared.error is not None:
        row["predicted_count_error"] = float(f"{compared.error:.3g}")
    if plan.counted:
        row["counts_share_of_divergence"] = float(plan.counts_share)
        row["counted_partitions_per_user"] = plan.counted
    return row


@dataclass(frozen=True)
class MeasuredSelection(WeightedStrategy):
    """Runs the rounds of ``renyi_rounds``, or a single one, as a noisy look at the records predicts
    the most names; see the module.

    Args:
      counted: noisy numbers of users are wanted.
      declared: kappa was declared. Otherwise it is only the largest that may be chosen, and the
        statement of a release has the one of its plan.

    >>> strategy = MeasuredSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> users = (100_000,) + (0,) * len(strategy.edges)  # They have one partition each.
    >>> look = Look(users, (12_500,) * 8 + (0,) * 32, strategy.edges, (133.3, 400.0))
    >>> strategy.choice_of(look).plan.by
    'optimal'
    """

    stable_name: ClassVar[str] = "MeasuredSelection"

    counted: bool = False
    declared: bool = True

    name: ClassVar[str] = "measured"

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self._scales) > LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        # Its first round has the smallest share of all plans': where it is possible, all are.
        steepest = max(_SCHEDULES, key=lambda schedule: schedule[1])
        _ = self._calibration(*steepest, max(_COUNT_SHARES) * self.counted).candidates

    @property
    def most_rounds(self) -> int:
        return max(rounds for rounds, _ in _SCHEDULES)

    @property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        return self.usual.rounds

    def shared_order(self, index: int) -> bool:
        return index > 0

    def branch(self, choice: Choice | None) -> WeightedStrategy:
        assert choice is not None
        return self.planned(choice.plan)

    def planned(self, plan: RoundPlan) -> WeightedStrategy:
        """Returns the rounds of a plan, with the budget that the look leaves."""
        return _branch(self, plan)

    def choose(self, degrees: Sequence[int], tails: Sequence[int], tape: RandomTape) -> Choice:
        """Adds a tape's noise to the cells of a look; returns ``choice_of`` the noisy numbers."""
        # By the cells as well: others have noise of their own, even on one tape.
        of_cells = tape.branch(f"of {cells_text(degrees)}; {cells_text(tails)}")
        for_users, for_tails = self._scales
        look = Look(
            _with_noise(degrees, for_users, of_cells, "users"),
            _with_noise(tails, for_tails, of_cells, "tails"),
            self.edges,
            (float(for_users), float(for_tails)),
        )
        return self.choice_of(look)

    @property
    def edges(self) -> tuple[int, ...]:
        """Returns the largest number of partitions in each cell of users but the last."""
        return degree_edges(self.max_partitions_per_user)

    def choice_of(self, look: Look) -> Choice:
        """Returns the choice that follows from noisy numbers: a function of these alone."""
        return self.choice_for(Population.of(look), look)

    def choice_for(self, population: Population, look: Look) -> Choice:
        """Returns the choice for a population; ``look`` is only kept with it."""
        without = list(self._names_only(population))
        # Of equal predictions, as where everything is named, that of the fewest partitions.
        without.sort(key=lambda compared: (-float(f"{compared.names:.3g}"), compared.plan))
        if not self.counted:
            return Choice(look, tuple(without), without[0])
        best = without[0]
        with_counts = sorted(self._with_counts(population, best), key=lambda row: -row.names)
        enough = [row for row in with_counts if row.names >= NAMES_KEPT * best.names]
        chosen = min(enough, key=lambda row: row.error or 0.0) if enough else with_counts[0]
        return Choice(look, (*with_counts, *without), chosen)

    def _names_only(self, population: Population) -> Iterator[Compared]:
        found: dict[RoundPlan, float] = {}

        def names(plan: RoundPlan) -> float:
            if plan not in found:
                found[plan] = self._predicted(population, plan).names
            return found[plan]

        def best(plans: Iterator[RoundPlan]) -> RoundPlan:
            return max(plans, key=names)

        every = self._possible_partitions
        for partitions in every[:3]:
            names(RoundPlan(partitions, by=OptimalSelection.name))
        # One part of the plan after the other, twice: each changes little in the others.
        for start in {every[0], every[-1]}:
            plan = RoundPlan(start, 3, 16, _ROOTS[-1])
            for _ in range(2):
                plan = best(plan._replace(rounds=n, growth=g) for n, g in _SCHEDULES)
                plan = best(plan._replace(partitions=partitions) for partitions in every)
                if plan.partitions > 1:
                    plan = best(plan._replace(root=root) for root in _ROOTS)
        return (Compared(plan, number) for plan, number in found.items())

    def _with_counts(self, population: Population, best: Compared) -> Iterator[Compared]:
        named = population.partitions * self._predicted(population, best.plan).named
        everything = np.ones(len(population.sizes))
        # Errors are compared where noisy counts at kappa would show a partition too: plans that
        # name more do not lose by what they alone name.
        largest = self._possible_partitions[-1]
        by_counts = RoundPlan(largest, by=_noisy_strategy(largest).name)
        in_both = named * self._predicted(population, by_counts).named
        if in_both.sum() >= 1:
            named = in_both

        def error(variance: float, kept: float) -> float:
            """Returns the mean error of counts carried to all records: noise, and who counts."""
            squares = variance / kept**2 + population.sizes * (1 - kept) / kept
            return float(named @ np.sqrt(squares) / max(float(named.sum()), 1e-9))

        for partitions in self._possible_partitions:
            plan = RoundPlan(partitions, by=_noisy_strategy(partitions).name)
            strategy = _single(self, plan)
            kept = kept_share(population, everything, partitions)
            names = self._predicted(population, plan).names
            yield Compared(plan, names, error(_noise_variance(strategy), kept))
        if best.plan.by:
            return
        for share in _COUNT_SHARES:
            plan = best.plan._replace(counts_share=share)
            prediction = self._predicted(population, plan)
            for counted in self._possible_partitions:
                budget = _counts_budget(self._about_budgets(plan), share)
                variance = float(LaterCounts(budget, counted).sigma2)
                kept = kept_share(population, prediction.named, counted)
                yield Compared(
                    plan._replace(counted=counted), prediction.names, error(variance, kept)
                )

    @cached_property
    def _possible_partitions(self) -> tuple[int, ...]:
        kappa = self.max_partitions_per_user
        some = {1 << i for i in range(kappa.bit_length())} | {3 << i for i in range(20)} | {kappa}
        return tuple(sorted(partitions for partitions in some if partitions <= kappa))

    def _predicted(self, population: Population, plan: RoundPlan) -> Prediction:
        return predict(population, _about_rounds(self, plan))

    def _about_budgets(self, plan: RoundPlan) -> tuple[RenyiBudget, ...]:
        return _about_budgets(self, plan.rounds, plan.growth, plan.counts_share)

    def _calibration(self, rounds: int, growth: int, counts_share: Fraction) -> Calibration:
        # Budgets do not depend on the number of partitions that count.
        rest = (rounds, growth, self._users_changed, counts_share)
        return _calibration(self._left, Fraction(self.delta), self.max_partitions_per_user, *rest)

    @property
    def _left(self) -> Fraction:
        return Fraction(self.epsilon) - self.look_epsilon

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        return self.usual.keep_enclosure(users, precision)

    @property
    def usual(self) -> WeightedStrategy:
        """Returns the strategy of a usual plan: few rounds, in which kappa partitions of each user
        count, or ``optimal`` at kappa = 1."""
        kappa = self.max_partitions_per_user
        usual = RoundPlan(kappa, 3, 16) if kappa > 1 else RoundPlan(1, by=OptimalSelection.name)
        return _branch(self, usual)

    @property
    def _scales(self) -> tuple[Fraction, Fraction]:
        """Returns the scales of the noise of numbers of users, and of tails: one user moves each
        list by one."""
        each = self._users_changed / self.look_epsilon
        return each / FOR_USERS, each / (1 - FOR_USERS)

    @property
    def look_epsilon(self) -> Fraction:
        """Returns the part of epsilon that the look spends."""
        return LOOK_SHARE * Fraction(self.epsilon)

    def _parameters(self) -> dict[str, Any]:
        return {
            "look": "users by their number of partitions, and sums of numbers of partitions of at "
            "least so many users, where one partition of each user counts",
            "look_epsilon": float_above(self.look_epsilon),
            "look_epsilon_exact": decimal_text(self.look_epsilon),
        }


def _with_noise(
    cells: Sequence[int], scale: Fraction, tape: RandomTape, channel: str
) -> tuple[int, ...]:
    noise = DiscreteLaplace(scale).sample(tape, channel, len(cells)).tolist()
    return tuple(int(n) + int(x) for n, x in zip(cells, noise, strict=True))


# Calibrations keep their candidates.
_calibration = lru_cache(maxsize=256)(Calibration)


@lru_cache(maxsize=4096)
def _about_budgets(
    strategy: MeasuredSelection, rounds: int, growth: int, counts_share: Fraction
) -> tuple[RenyiBudget, ...]:
    """Returns about the budgets of a plan, which do not depend on how many partitions count."""
    every = strategy._calibration(rounds, growth, counts_share).candidates
    kappa = strategy.max_partitions_per_user
    return max(every[::2] or every, key=lambda budgets: kept_by(budgets[-1], kappa, 3))


@lru_cache(maxsize=4096)
def _about_rounds(strategy: MeasuredSelection, plan: RoundPlan) -> tuple[Round, ...]:
    """Returns about the rounds of a plan."""
    if plan.by == GaussianSelection.name:
        single = _single(strategy, plan)
        relative = relative_threshold(single.budget, plan.partitions)
        threshold = 1 + math.sqrt(plan.partitions) * relative
        return (of_normal(plan.partitions, single.sigma, threshold),)
    if plan.by:
        single = _single(strategy, plan)
        return (of_distribution(single.distribution, plan.partitions),)
    budgets = _about_budgets(strategy, plan.rounds, plan.growth, plan.counts_share)
    early = 3 if plan.partitions > 1 else 0
    roots = [early] * (plan.rounds - 1) + [plan.root if plan.partitions > 1 else 0]
    return tuple(
        of_budget(budget, plan.partitions, root, strategy.shared_order(index))
        for index, (budget, root) in enumerate(zip(budgets, roots, strict=True))
    )


def _noisy_strategy(partitions: int) -> type[NoisyCountStrategy]:
    """Returns the strategy that decides by noisy counts at the lowest threshold."""
    return TruncatedGeometricSelection if partitions == 1 else GaussianSelection


@lru_cache(maxsize=256)
def _single(strategy: MeasuredSelection, plan: RoundPlan) -> Any:
    """Makes the strategy of a plan of a single round, with the budget that the look left."""
    kinds = (OptimalSelection, TruncatedGeometricSelection, GaussianSelection)
    (kind,) = (kind for kind in kinds if kind.name == plan.by)
    return kind(
        ExactNumber(strategy._left),
        strategy.delta,
        plan.partitions,
        strategy.pre_threshold,
        strategy.neighbours,
    )


@lru_cache(maxsize=64)
def _branch(strategy: MeasuredSelection, plan: RoundPlan) -> WeightedStrategy:
    """Makes the rounds of a plan, with the budget that the look left."""
    left = ExactNumber(strategy._left)
    rest = (plan.partitions, strategy.pre_threshold, strategy.neighbours)
    if plan.by:
        return SingleRound(left, strategy.delta, *rest, single=_single(strategy, plan))
    return PlannedRounds(
        left,
        strategy.delta,
        *rest,
        plan.rounds,
        plan.growth,
        root=plan.root,
        counted=plan.counted,
        counts_share=plan.counts_share,
    )


@dataclass(frozen=True)
class PlannedRounds(RenyiRoundsSelection):
    """Runs the rounds of a plan, after which counts may follow.

    Args:
      root: the last round's steps are as d**(-1 / root) for users of d partitions.
      counted, counts_share: see ``RoundPlan``.
    """

    root: int = 6
    counted: int = 0
    counts_share: Fraction = Fraction(0)

    @property
    def later_counts(self) -> LaterCounts | None:
        if not self.counted:
            return None
        return LaterCounts(_counts_budget(self.budgets, self.counts_share), self.counted)

    @cached_property
    def _calibration(self) -> Calibration:
        return dataclasses.replace(super()._calibration, counts_share=self.counts_share)

    @property
    def _roots(self) -> tuple[int, int]:
        return self.root, self.root


@dataclass(frozen=True)
class SingleRound(WeightedStrategy):
    """Decides in one round by numbers of users, as ``single`` does."""

    single: CountStrategy | None = None

    name: ClassVar[str] = "single round"

    @cached_property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        assert self.single is not None
        return (self.single.distribution,)

    @property
    def counting(self) -> NoisyCountStrategy | None:
        return self.single if isinstance(self.single, NoisyCountStrategy) else None


def _counts_budget(budgets: Sequence[RenyiBudget], share: Fraction) -> RenyiBudget:
    """Returns the budget of counts, beside which rounds have these."""
    of_rounds = sum((budget.divergence for budget in budgets), Fraction(0))
    return RenyiBudget(budgets[0].order, of_rounds * share / (1 - share), Fraction(0))


def _noise_variance(strategy: NoisyCountStrategy) -> float:
    """Returns about the variance of a strategy's noise."""
    if isinstance(strategy, GaussianSelection):
        return strategy.sigma**2
    return 1 / (math.cosh(float(strategy.epsilon)) - 1)
