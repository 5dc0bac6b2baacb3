"""Chooses rounds by a small private look at the records, which costs no more than it must.

The look (``population``) says about how many users have how many partitions, and about how many
partitions have how many users. From these noisy numbers it is predicted how many names each plan
would find, and a plan is taken (``plan_search``). The number of a user's partitions that count is
at most kappa, and so a kappa that nobody declares is chosen in the same way.

How much a look should cost depends on what it sees. Of a million users a rough one tells enough; of
two thousand it would say nothing but noise, and a wrong plan may lose more than half of the names.
So it begins with ``FIRST_LOOK`` of epsilon, and is refined, at twice the cost each time
(``gradual_noise``), as long as

* the number of users does not stand out from its noise by two standard deviations, or
* knowing the population would be worth more than the refinement costs. The populations that may
  lie behind a look are taken to be those that explain it with noise added once more, in two ways
  each (``ASSOCIATIONS``), which no refinement tells apart; the names that are lost by taking one
  plan for all of them are compared with those that the refinement costs.

Privacy. The look of level j is epsilon_j-differentially private: of its two lists one user moves
each by one, and the noise of both is for parts of epsilon_j that sum to it. That it is of level j
follows from looks of levels up to j, all of which tell no more than that of level j
(``gradual_noise``). So for each look y that may be the last one, of level j, the probabilities of
neighbours have a ratio of at most e**epsilon_j. The plan follows from y and public parameters, and
is (epsilon - epsilon_j, delta)-differentially private: M_y[S] <= e**(epsilon - epsilon_j) M_y'[S] +
delta for the probabilities of outputs in a set S. Hence

    P[S] = sum P[y] M_y[S_y] <= sum P[y] (min(1, e**(epsilon - epsilon_j) M_y'[S_y]) + delta)
        <= sum e**epsilon_j P'[y] e**(epsilon - epsilon_j) M_y'[S_y] + delta
         = e**epsilon P'[S] + delta

and the whole is (epsilon, delta)-differentially private. That the look counts all partitions of a
user, and the plans at most kappa, makes no difference: its sensitivity does not depend on their
number. Counts after rounds are one more release within a plan, see ``later_counts``.
"""

from __future__ import annotations

import math
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
)
from dp_transforms.mechanisms.selection.rounds import (
    RenyiRoundsSelection,
    RoundPlan,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal

FIRST_LOOK = Fraction(1, 256)
"""The part of epsilon for the first look. Where it gains nothing it loses less than a hundredth of
the names."""
LEVELS = 6
"""The look is refined at most five times: the last one costs an eighth of epsilon."""
MOST_PARTITIONS = 256
"""The largest kappa that is chosen where none is declared. Records are kept for all that may be
chosen, and a user of more partitions hardly tells more of each."""
_CLEAR = 2
"""Standard deviations of noise by which a number stands out: 2% of looks at nobody do."""


def stands_out(look: Look) -> bool:
    """Tells whether the number of users in a look stands out from its noise."""
    deviation = look.scales[0] * math.sqrt(2 * len(look.degrees))
    return sum(look.degrees) >= _CLEAR * deviation


@dataclass(frozen=True)
class Choice:
    """What a look led to.

    Attributes:
      look: the noisy numbers.
      compared: all plans that were looked at, the best ones first.
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
    if compared.errors:
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
        boolean("counted", self.counted)
        boolean("declared", self.declared)
        if max(self.noise_scales(0)) > LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        # Its first round has the smallest share of all plans', and the finest look leaves the least
        # to it: where it is possible, all are.
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
        """Returns the rounds of a plan, with the budget that its look leaves."""
        return self.budget_after(plan.look).strategy(plan)

    def choose(self, degrees: Sequence[int], tails: Sequence[int], tape: RandomTape) -> Choice:
        """Adds a tape's noise to the cells of a look, less and less of it until ``considered`` says
        that it is enough; returns the choice by it."""
        for level, look in enumerate(self._looks(degrees, tails, tape)):
            is_last = level == LEVELS - 1
            if is_last or stands_out(look):
                choice, is_enough = self.considered(look, level)
                if is_last or is_enough:
                    break
        return choice

    def _looks(
        self, degrees: Sequence[int], tails: Sequence[int], tape: RandomTape
    ) -> Iterator[Look]:
        """Yields the looks of all levels: PRIVATE, as ``gradual_noise`` is."""
        # By the cells as well: others have noise of their own, even on one tape.
        of_cells = tape.branch(f"of {cells_text(degrees)}; {cells_text(tails)}")
        scales = [self.noise_scales(level) for level in range(LEVELS)]
        noises = [
            [DiscreteLaplace(scale) for scale in of_list] for of_list in zip(*scales, strict=True)
        ]
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
        """Returns the largest number of partitions in each cell of users but the last."""
        return degree_edges(self.max_partitions_per_user)

    def choice_of(self, look: Look, level: int = 0) -> Choice:
        """Returns the choice that follows from noisy numbers: a function of these alone."""
        return self.considered(look, level)[0]

    def considered(self, look: Look, level: int) -> tuple[Choice, bool]:
        """Returns the choice that follows from noisy numbers, and whether knowing the population is
        worth less than a refinement, see the module: functions of these alone."""
        search = PlanSearch(self.budget_after(level), populations_behind(look), self.declared)
        comparison = search.compare(self.counted)
        choice = Choice(look, comparison.compared, comparison.chosen)
        now, then = (self.look_epsilon(at) / Fraction(self.epsilon) for at in (level, level + 1))
        cost = search.lost_with(float((then - now) / (1 - now)), comparison.best.plan)
        return choice, comparison.uncertainty <= cost

    def choice_for(self, population: Population) -> Choice:
        """Returns the choice for a population that is known."""
        search = PlanSearch(self.budget_after(0), [[population]], self.declared)
        comparison = search.compare(self.counted)
        return Choice(Look((), (), (), (0.0, 0.0)), comparison.compared, comparison.chosen)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        return self.usual.keep_enclosure(users, precision)

    @property
    def usual(self) -> WeightedStrategy:
        """Returns the strategy of a usual plan: few rounds, in which kappa partitions of each user
        count, or ``optimal`` at kappa = 1."""
        kappa = self.max_partitions_per_user
        return self.planned(
            RoundPlan(kappa, 3, 16) if kappa > 1 else RoundPlan(1, by=OptimalSelection.name)
        )

    def noise_scales(self, level: int) -> tuple[Fraction, Fraction]:
        """Returns the scales of the noise of numbers of users, and of tails, in the look of a
        level: one user moves each list by one."""
        each = self._users_changed / self.look_epsilon(level)
        return each / FOR_USERS, each / (1 - FOR_USERS)

    def look_epsilon(self, level: int) -> Fraction:
        """Returns the part of epsilon that the look of a level spends."""
        return FIRST_LOOK * (1 << level) * Fraction(self.epsilon)

    def budget_after(self, level: int) -> PlanBudget:
        """Returns the budget that the look of a level leaves."""
        left = ExactNumber(Fraction(self.epsilon) - self.look_epsilon(level))
        rest = self.max_partitions_per_user, self.pre_threshold, self.neighbours
        return PlanBudget(left, self.delta, *rest, level)

    def choice_entries(self, choice: Choice) -> dict[str, Any]:
        """Returns the entries of a statement that say what the look behind a choice has cost."""
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
