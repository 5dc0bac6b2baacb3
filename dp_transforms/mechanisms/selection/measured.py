"""Chooses rounds by a small private look at the records, which costs no more than necessary.

The look (``population``) estimates how many users have how many partitions, and how many partitions
have how many users. From these noisy numbers the number of names that each plan would find is
predicted, and a plan is taken (``plan_search``). The plan also chooses how many of a user's
partitions count, at most kappa. So a kappa that nobody declares is chosen in the same way.

How much a look should cost depends on the data. For a million users a rough look is enough. For two
thousand users it would be little but noise, and a wrong plan may lose more than half of the names.
So the look begins with ``FIRST_LOOK`` of epsilon, and is refined, at twice the cost each time
(``gradual_noise``), as long as

* the number of users does not stand out from its noise by ``CLEAR`` standard deviations, or
* knowing the population would be worth more than the refinement costs. This is estimated from
  several readings of the look: the most likely one, and others that are drawn from their
  posterior distribution. A number far from zero may stand for users or for noise, and readings
  differ in this. Two populations explain each reading (``ASSOCIATIONS``), and no refinement
  distinguishes these two. The names that are lost by one plan for all readings are compared with
  the names that the refinement costs.

Privacy. Neighbours: add or remove all records of one user. The look of level j is
epsilon_j-differentially private: one user moves each of its two lists by one, and the noise of the
two lists is for parts of epsilon_j that sum to epsilon_j. Whether the look of level j is the last
one follows from the looks of levels up to j, which all together tell no more than that of level j
(``gradual_noise``). So for each look y of level j that may be the last one, the probabilities for
neighbours have a ratio of at most e**epsilon_j. The plan follows from y and public parameters, and
is (epsilon - epsilon_j, delta)-differentially private: M_y[S] <= e**(epsilon - epsilon_j) M_y'[S] +
delta, where M_y and M_y' are the distributions of its output for the two neighbours. Hence, with
S_y for the outputs in S that have the look y,

    P[S] = sum P[y] M_y[S_y] <= sum P[y] (min(1, e**(epsilon - epsilon_j) M_y'[S_y]) + delta)
        <= sum e**epsilon_j P'[y] e**(epsilon - epsilon_j) M_y'[S_y] + delta
         = e**epsilon P'[S] + delta

and the whole is (epsilon, delta)-differentially private. The look counts all partitions of a user,
and a plan at most kappa of them. This makes no difference, since the sensitivity of the look does
not depend on the number of a user's partitions. Counts after rounds are one more release within a
plan, see ``later_counts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.mechanisms.decimals import ExactNumber, decimal_text, float_above
from dp_transforms.mechanisms.discrete_noise import LARGEST_SCALE, DiscreteLaplace
from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.gradual_noise import gradual_noise
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.selection.count_strategies import OptimalSelection
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.plan_search import (
    COUNT_SHARES,
    SCHEDULES,
    Compared,
    PlanSearch,
)
from dp_transforms.mechanisms.selection.planned_rounds import PlanBudget
from dp_transforms.mechanisms.selection.population import (
    FOR_USERS,
    Look,
    Population,
    cells_text,
    degree_edges,
    populations_behind,
    users_in_deviations,
)
from dp_transforms.mechanisms.selection.rounds import (
    RenyiRoundsSelection,
    RoundPlan,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal

FIRST_LOOK = Fraction(1, 256)
"""The part of epsilon for the first look. If the look gains nothing, this costs less than a
hundredth of the names."""
LEVELS = 6
"""The look is refined at most five times: the last one costs an eighth of epsilon."""
MOST_PARTITIONS = 256
"""The largest kappa that is chosen if none is declared. Records are kept for every kappa that may
be chosen, and with a larger one a user adds hardly anything to each partition."""
CLEAR = 3
"""A number of users stands out from its noise by this many standard deviations, so that it is known
within a third. Where it is hardly known, a look tells nothing of how many partitions users have.
Readings then agree that they have few, and a refinement seems to be worth nothing."""


def stands_out(look: Look) -> bool:
    """Tells whether the number of users in a look stands out from its noise."""
    return users_in_deviations(look) >= CLEAR


@dataclass(frozen=True)
class Choice:
    """Holds a look and the plan to which it led.

    Attributes:
      look: the noisy numbers.
      compared: all plans that were compared, the best ones first.
      chosen: the plan that was taken, with its predictions.
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
    """Returns the public facts of a plan and its predictions, as JSON-ready values."""
    plan = compared.plan
    row: dict[str, Any] = {
        "strategy": plan.by or RenyiRoundsSelection.name,
        "partitions_per_user": plan.partitions,
        "predicted_names": round(compared.names),
    }
    if not plan.by:
        row |= {"rounds": plan.rounds, "growth": plan.growth, "root": plan.root}
    if compared.errors:
        row["predicted_count_error"] = float(f"{compared.error:.3g}")
    if plan.counted:
        row["counts_share_of_divergence"] = float(plan.counts_share)
        row["counted_partitions_per_user"] = plan.counted
    return row


@dataclass(frozen=True)
class MeasuredSelection(WeightedStrategy):
    """Runs the plan that is expected to name the most by a noisy look at the records: the rounds of
    ``renyi_rounds``, or a single round. See the module.

    Args:
      counted: whether noisy numbers of users are wanted.
      declared: whether kappa was declared. Otherwise it is only the largest that may be chosen, and
        the statement of a release has the kappa of its plan.

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
        boolean("counted", self.counted)
        boolean("declared", self.declared)
        if max(self.noise_scales(0)) > LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        # Of all plans, the steepest one has the first round with the smallest share, and the finest
        # look leaves the least to it. If this plan is possible, all plans are.
        steepest = max(SCHEDULES, key=lambda schedule: schedule[1])
        share = max(COUNT_SHARES) * self.counted
        _ = self.budget_after(LEVELS - 1).calibration(*steepest, share).candidates

    @property
    def most_rounds(self) -> int:
        return max(rounds for rounds, _ in SCHEDULES)

    @property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        return self.usual.rounds

    def shared_order(self, index: int) -> bool:
        return index > 0

    def branch(self, choice: Choice | None) -> WeightedStrategy:
        assert choice is not None
        return self.planned(choice.plan)

    def planned(self, plan: RoundPlan) -> WeightedStrategy:
        """Returns the strategy that runs a plan with the budget that its look leaves."""
        return self.budget_after(plan.look).strategy(plan)

    def choose(self, degrees: Sequence[int], tails: Sequence[int], tape: RandomTape) -> Choice:
        """Returns the choice by the first look that is enough, or by the last look.

        Args:
          degrees, tails: the PRIVATE numbers of a look without noise.
          tape: the source of the noise, of which each look has less than the one before.
        """
        for level, look in enumerate(self._looks(degrees, tails, tape)):
            is_last = level == LEVELS - 1
            if is_last or stands_out(look):
                search = self._search(look, level)
                if is_last or self._is_enough(search, level):
                    break
        return self._choice(look, search)

    def _looks(
        self, degrees: Sequence[int], tails: Sequence[int], tape: RandomTape
    ) -> Iterator[Look]:
        """Yields the looks of all levels. They are PRIVATE, as ``gradual_noise`` is."""
        # The cells are part of the context, so that other cells have other noise even by one tape.
        of_cells = tape.branch(f"of {cells_text(degrees)}; {cells_text(tails)}")
        scales = [self.noise_scales(level) for level in range(LEVELS)]
        noises = (
            [DiscreteLaplace(for_users) for for_users, _ in scales],
            [DiscreteLaplace(for_tails) for _, for_tails in scales],
        )
        of_users = gradual_noise(noises[0], of_cells, "users", len(degrees))
        of_tails = gradual_noise(noises[1], of_cells, "tails", len(tails))
        for of_level, more_users, more_tails in zip(scales, of_users, of_tails, strict=True):
            yield Look(
                tuple((more_users + np.array(degrees, np.int64)).tolist()),
                tuple((more_tails + np.array(tails, np.int64)).tolist()),
                self.edges,
                (float(of_level[0]), float(of_level[1])),
            )

    @property
    def edges(self) -> tuple[int, ...]:
        """Returns the largest number of partitions in each cell of users but the last one."""
        return degree_edges(self.max_partitions_per_user)

    def choice_of(self, look: Look, level: int = 0) -> Choice:
        """Returns the choice that follows from noisy numbers: a function of these alone."""
        return self._choice(look, self._search(look, level))

    def _search(self, look: Look, level: int) -> PlanSearch:
        """Returns the search of plans for a look, a function of the noisy numbers alone."""
        return PlanSearch(self.budget_after(level), populations_behind(look), self.declared)

    def _is_enough(self, search: PlanSearch, level: int) -> bool:
        """Tells whether a look is enough: whether knowing the population would be worth at most as
        much as a refinement costs (see the module). Plans without counts decide this."""
        comparison = search.compare()
        spent = self.look_epsilon(level) / Fraction(self.epsilon)
        spent_after_refinement = self.look_epsilon(level + 1) / Fraction(self.epsilon)
        lost_share = (spent_after_refinement - spent) / (1 - spent)
        cost = search.lost_with(float(lost_share), comparison.best.plan)
        return comparison.uncertainty <= cost

    def _choice(self, look: Look, search: PlanSearch) -> Choice:
        """Returns the look with the plan that the search takes, and the plans that it compared."""
        comparison = search.compare(self.counted)
        return Choice(look, comparison.compared, comparison.chosen)

    def choice_for(self, population: Population) -> Choice:
        """Returns the choice for a known population, with the budget that the first look leaves."""
        search = PlanSearch(self.budget_after(0), [[population]], self.declared)
        return self._choice(Look((), (), (), (0.0, 0.0)), search)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        return self.usual.keep_enclosure(users, precision)

    @property
    def usual(self) -> WeightedStrategy:
        """Returns the strategy of a usual plan: three rounds in which kappa partitions of each user
        count, or ``optimal`` if kappa is 1."""
        kappa = self.max_partitions_per_user
        if kappa == 1:
            return self.planned(RoundPlan(1, by=OptimalSelection.name))
        return self.planned(RoundPlan(kappa, 3, 16))

    def noise_scales(self, level: int) -> tuple[Fraction, Fraction]:
        """Returns the scale of the noise of numbers of users, and that of tails, in the look of a
        level. One user moves each of the two lists by one."""
        each = self._users_changed / self.look_epsilon(level)
        return each / FOR_USERS, each / (1 - FOR_USERS)

    def look_epsilon(self, level: int) -> Fraction:
        """Returns the part of epsilon that the look of a level spends."""
        return FIRST_LOOK * (1 << level) * Fraction(self.epsilon)

    def budget_after(self, level: int) -> PlanBudget:
        """Returns the budget that the look of a level leaves."""
        return PlanBudget(
            ExactNumber(Fraction(self.epsilon) - self.look_epsilon(level)),
            self.delta,
            self.max_partitions_per_user,
            self.pre_threshold,
            self.neighbours,
            level,
        )

    def choice_entries(self, choice: Choice) -> dict[str, Any]:
        """Returns the entries of a statement that state the cost of the look behind a choice."""
        epsilon = self.look_epsilon(choice.plan.look)
        return {
            "look_epsilon": float_above(epsilon),
            "look_epsilon_exact": decimal_text(epsilon),
        }

    def _parameters(self) -> dict[str, Any]:
        most = self.look_epsilon(LEVELS - 1)
        return {
            "look": "users by their number of partitions, and sums of numbers of partitions of at "
            "least so many users, where one partition of each user counts",
            "look_epsilon_at_most": float_above(most),
            "look_epsilon_at_most_exact": decimal_text(most),
        }
