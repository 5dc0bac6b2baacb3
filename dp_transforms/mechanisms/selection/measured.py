"""Chooses rounds by a statistic of users that costs a small part of the budget.

If most users have many more than kappa partitions, many rounds name the most: in each of them users
give to partitions that they have not given to before. If users have fewer, the last round should
have most of the budget; ``_last_round`` trades the number of partitions that then count against the
longer steps of users who have fewer. If all have about as many, and early rounds name most of them,
fewer should count. The statistic is a histogram of users by their number of distinct partitions,
with classes between ``edges`` and discrete Laplace noise of rate epsilon_1 on each count.
``plan_of`` is a fixed function of the noisy counts.

Privacy. All records of one user more or less change one of the counts, by one. Records exchanged
for another user's change one or two counts, and their sum by two at most; then the noise has twice
the scale. So the noisy counts are epsilon_1-differentially private. Every plan is (epsilon -
epsilon_1, delta)-differentially private, for any counts, and by adaptive composition the whole is
(epsilon, delta)-differentially private.

At kappa = 1 the classes are users of one partition, of few and of more. The plan follows most
users: ``optimal``, which no strategy exceeds for one partition, few rounds for few, and many for
more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.discrete_noise import LARGEST_SCALE, DiscreteLaplace
from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.selection.count_strategies import OptimalSelection
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.rounds import (
    RenyiRoundsSelection,
    RoundPlan,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal

_STEP = 16
"""The step of a user of all partitions that count, where plans are compared."""


@dataclass(frozen=True)
class Tuning:
    """Holds the constants that lead from noisy counts of users to a plan. Privacy holds for all.

    Attributes:
      data: the records on which the other constants were set, at epsilon 1 and delta 1e-5.
      statistic_share: the part of epsilon for the noise of the counts: of scale 100 at epsilon 1.
      many_rounds: the number of rounds for users of many partitions.
      few_rounds: the number for others.
      growths: of few rounds: at kappa = 1, for users of few partitions; for kappa up to
        ``small_kappa``; and for a larger kappa, where early rounds find less.
      single_few: the most partitions that are few at kappa = 1.
      edges: in units of kappa, the most partitions of users in a class; before them come powers of
        two. Beyond the seventh, one round is short for some users, beyond the eighth for most of
        them.
      noise_sds: standard deviations of the noise by which sums of counts are taken to be too large.
      many, very_many: in units of kappa, most users must have more for ``many_rounds``, and for
        rounds that share the budget equally.
      same_class_share: the share of users in one class from which on all have about equally many.
      min_evidence: times sqrt(order / divergence), users times sqrt(partitions) from which on early
        rounds name much of what users have: by Zipf's law, about 3,000 / 12 partitions in the last.
      counted: the part of such users' partitions that counts in a round.
      medians: by the root of the steps, about how the median grows with the number of partitions,
        for epsilon from 1/4 to 4: its power in units of 1 / ``power_unit``, and its size at one
        partition, beside that of root 6.
      many_names: times kappa: after this many names, users have fewer partitions left.
    """

    data: str = (
        "steam-200k, ml-100k, enron, lastfm, Zipf universes, words and files of authors (Rails, "
        "tldr), parts of citeulike-a, gowalla, yelp2018, amazon-book and last-fm; for kappa = 1 "
        "also Book-Crossing and words and files of authors (Jekyll, Oh My Zsh)"
    )
    statistic_share: Fraction = Fraction(1, 100)
    many_rounds: int = 6
    few_rounds: int = 3
    growths: tuple[int, int, int] = (128, 16, 32)
    small_kappa: int = 5
    single_few: int = 4
    edges: tuple[Fraction, ...] = tuple(
        Fraction(part, 16) for part in (2, 3, 4, 6, 8, 12, 16, 28, 40, 64)
    )
    many: Fraction = Fraction(7, 4)
    very_many: Fraction = Fraction(4)
    same_class_share: Fraction = Fraction(3, 4)
    min_evidence: int = 6300
    counted: Fraction = Fraction(3, 5)
    noise_sds: int = 2
    medians: tuple[tuple[int, int, Fraction], ...] = (
        (6, 7, Fraction(1)),
        (3, 8, Fraction(1)),
        (2, 11, Fraction(6, 7)),
    )
    power_unit: int = 20
    many_names: int = 10


@dataclass(frozen=True)
class MeasuredSelection(WeightedStrategy):
    """Runs the rounds of ``renyi_rounds``, or ``optimal``, as a noisy histogram of users by their
    number of partitions decides; see the module.

    >>> strategy = MeasuredSelection(epsilon=1, delta=1e-5, max_partitions_per_user=100)
    >>> strategy.edges
    (1, 2, 4, 8, 12, 18, 25, 37, 50, 75, 100, 175, 250, 400)
    >>> strategy.plan_of([0, 0, 0, 0, 0, 0, 0, 2000, 0, 0, 0, 0, 0, 0, 0])
    RoundPlan(partitions=25, rounds=3, growth=32, root=6)
    """

    stable_name: ClassVar[str] = "MeasuredSelection"

    name: ClassVar[str] = "measured"
    tuning: ClassVar[Tuning] = Tuning()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._scale > LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        # Its first round has the smallest share of all plans': where it is possible, all are.
        self.branch(RoundPlan(self.max_partitions_per_user, *self._few_rounds))

    @property
    def most_rounds(self) -> int:
        return self.tuning.many_rounds

    @property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        return self.usual.rounds

    def shared_order(self, index: int) -> bool:
        return index > 0

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Returns the largest number of partitions in each class of users but the last."""
        max_partitions = self.max_partitions_per_user
        if max_partitions == 1:
            return 1, self.tuning.single_few
        edges = {int(edge * max_partitions) for edge in self.tuning.edges}
        powers = {1 << i for i in range(max_partitions.bit_length())}
        return tuple(sorted({edge for edge in powers if edge < min(edges)} | edges - {0}))

    def branch(self, measured: RoundPlan | None) -> WeightedStrategy:
        assert measured is not None
        return _branch(self, measured)

    def plan(self, counts: Sequence[int], tape: RandomTape) -> RoundPlan:
        """Adds a tape's noise to the numbers of users in each class; returns ``plan_of`` them."""
        # By the counts as well: other counts have noise of their own, even on one tape.
        of_counts = tape.branch(f"of {', '.join(map(str, counts))}")
        laplace = DiscreteLaplace(self._scale)
        noise = laplace.sample(of_counts, "statistic of users", len(counts)).tolist()
        return self.plan_of([n + int(x) for n, x in zip(counts, noise, strict=True)])

    def plan_of(self, noisy: Sequence[int]) -> RoundPlan:
        """Returns the plan for these noisy numbers of users in each class."""
        tuning, max_partitions = self.tuning, self.max_partitions_per_user
        users = np.asarray(noisy)
        total = int(users.sum())
        beyond = dict(zip(self.edges, (total - users.cumsum()).tolist(), strict=False))

        def most_have_more(edge: int) -> bool:
            return bool(2 * beyond[edge] > total > 0)

        if max_partitions == 1:
            if most_have_more(tuning.single_few):
                return RoundPlan(1, tuning.many_rounds, 1)
            if most_have_more(1):
                return RoundPlan(1, *self._few_rounds)
            return self._usual_plan
        if most_have_more(int(tuning.many * max_partitions)):
            growth = 1 if most_have_more(int(tuning.very_many * max_partitions)) else 2
            return RoundPlan(max_partitions, tuning.many_rounds, growth, 6)
        largest = int(users.argmax())
        # The first class is of users of one partition, the last has no end.
        alike = users[largest] > tuning.same_class_share * int(users.clip(0).sum())
        if 0 < largest < len(self.edges) and alike:
            has = self.edges[largest]
            usual = self.usual
            assert isinstance(usual, RenyiRoundsSelection)
            divergence = sum(budget.divergence for budget in usual.budgets)
            if total**2 * has * divergence >= tuning.min_evidence**2 * usual.budgets[0].order:
                return RoundPlan(
                    min(max_partitions, math.ceil(has * tuning.counted)), *self._few_rounds, 3
                )
        return self._last_round(users.tolist())

    def _last_round(self, users: Sequence[int]) -> RoundPlan:
        """Returns the plan of few rounds that needs the fewest users of a partition in the last
        one, or ``optimal`` on one partition of each user. Compares medians in units of a user's
        average addition to a partition, less its possible noise."""
        # Classes stand for their middles.
        bounds = [0, *self.edges, 2 * self.edges[-1]]
        middles = [(low + high + 1) // 2 for low, high in itertools.pairwise(bounds)]
        tuning, kappa, usual = self.tuning, self.max_partitions_per_user, self._usual_plan
        medians = {root: (power, size) for root, power, size in tuning.medians}
        unit = tuning.power_unit

        def needed(plan: RoundPlan) -> Fraction | float:
            partitions, root = plan.partitions, plan.root
            counts = [min(middle, partitions) for middle in middles]
            steps = (gmpy2.mpz(_STEP**root * partitions // count) for count in counts)
            adds = [n * int(gmpy2.iroot(x, root)[0]) for n, x in zip(counts, steps, strict=True)]
            noise = tuning.noise_sds * self._scale * math.isqrt(2 * sum(x * x for x in adds))
            added = sum(n * x for n, x in zip(users, adds, strict=True)) - noise
            if added <= 0:
                return math.inf
            if plan.rounds == 1:
                return Fraction(self.branch(plan).median_users or 0, added) ** unit
            power, size = medians[root]
            of_usual = Fraction(partitions**power, kappa ** medians[usual.root][0])
            return of_usual * (size * (self.median_users or 0) / added) ** unit

        every = [edge for edge in self.edges if edge <= kappa]
        rounds = [RoundPlan(edge, *self._few_rounds, root) for edge in every for root in medians]
        return min([usual, RoundPlan(1, 1, 1), *rounds], key=needed)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        return self.usual.keep_enclosure(users, precision)

    @property
    def usual(self) -> WeightedStrategy:
        """Returns the strategy of the usual plan: few rounds, in which kappa partitions of each
        user count, or ``optimal`` at kappa = 1."""
        return self.branch(self._usual_plan)

    @property
    def _usual_plan(self) -> RoundPlan:
        max_partitions = self.max_partitions_per_user
        return RoundPlan(max_partitions, *((1, 1) if max_partitions == 1 else self._few_rounds))

    @property
    def _few_rounds(self) -> tuple[int, int]:
        tuning, max_partitions = self.tuning, self.max_partitions_per_user
        large = (max_partitions > 1) + (max_partitions > tuning.small_kappa)
        return tuning.few_rounds, tuning.growths[large]

    @property
    def _scale(self) -> Fraction:
        return self._users_changed / self.statistic_epsilon

    @property
    def statistic_epsilon(self) -> Fraction:
        """Returns the part of epsilon that the statistic spends."""
        return self.tuning.statistic_share * Fraction(self.epsilon)

    def _parameters(self) -> dict[str, Any]:
        return {
            "statistic": "users by their number of partitions, at most each of these, or more",
            "statistic_edges": list(self.edges),
            "statistic_epsilon": float(self.statistic_epsilon),
            "usual_plan": self.usual.describe(),
        }


@lru_cache(maxsize=64)
def _branch(strategy: MeasuredSelection, plan: RoundPlan) -> WeightedStrategy:
    """Makes the rounds of a plan, with the budget that the statistic left."""
    left = Fraction(strategy.epsilon) - strategy.statistic_epsilon
    rest = (plan.partitions, strategy.pre_threshold, strategy.neighbours)
    if plan.rounds == 1:
        return _ByCounts(left, strategy.delta, *rest)
    return _PlannedRounds(left, strategy.delta, *rest, *plan[1:])


@dataclass(frozen=True)
class _PlannedRounds(RenyiRoundsSelection):
    """Uses another root for the steps of the last round if earlier rounds named few."""

    many_names: ClassVar[int] = MeasuredSelection.tuning.many_names

    root: int = 6

    @property
    def _roots(self) -> tuple[int, int]:
        return min(3, self.root), self.root


def users_in_classes(has: IntArray, edges: Sequence[int]) -> list[int]:
    """Counts the users in each class by their number of distinct partitions; edges are the largest
    numbers in all classes but the last."""
    counts: list[int] = np.bincount(np.searchsorted(edges, has), minlength=len(edges) + 1).tolist()
    return counts


@dataclass(frozen=True)
class _ByCounts(WeightedStrategy):
    name: ClassVar[str] = OptimalSelection.name

    @cached_property
    def rounds(self) -> tuple[KeepDistribution, ...]:
        max_partitions, neighbours = self.max_partitions_per_user, self.neighbours
        optimal = OptimalSelection(*self._budget, max_partitions, neighbours=neighbours)
        return (optimal.distribution,)
