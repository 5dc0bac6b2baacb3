"""Rounds that are chosen by what the data say of users, for a small part of the budget.

How many rounds name the most, and how many partitions of a user should count in one, depends on how
many users have. Where most have many more than kappa, many rounds do: in each of them users give to
partitions that they have not given to before. Where they have fewer, the last round should have
most of the budget; how many partitions then count, and how much longer the steps are of users who
have fewer, is a trade that ``_last_round`` makes. Where all have about as many, and users are so
many that early rounds name most of what these have, fewer should count. Public parameters tell none
of this. The statistic is a histogram: how many users have a number of distinct partitions in each
of the classes between ``edges``, each count with discrete Laplace noise of rate epsilon_1. A fixed
function of the noisy counts, ``plan_of``, says what is done.

Privacy. All records of one user more or less change one of the counts, by one. Records exchanged
for another user's change one or two of them, and their sum by two at most; then the noise has twice
the scale. So the noisy counts are epsilon_1-differentially private, and what follows depends on
them and on the data as ``renyi_calibration`` allows: epsilon_1 = epsilon / 64, order and sum of
divergences are fixed beforehand, and each plan has the exposure that is left for any plan.

kappa = 1 has two classes only, and the statistic

    S = users of more than one partition - other users

which one user changes by one, and another user's records in exchange by two. Its noise has rate
epsilon_1 = epsilon / 200. Many rounds are taken if the noisy S is positive, and ``optimal`` if not,
which no strategy exceeds where users have one partition. Either is (epsilon - epsilon_1,
delta)-differentially private, and by adaptive composition all is (epsilon, delta)-differentially
private.

The constants were set on the data that docs/selection.md names. Which rounds name the most depends
on how popular partitions are too, which the counts do not tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.noise.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.partition_selection.count_strategies import OptimalSelection
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw
from dp_transforms.mechanisms.partition_selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.partition_selection.renyi_strategies import (
    RenyiRoundsSelection,
    calibrate,
    candidates,
)
from dp_transforms.mechanisms.partition_selection.strategy import StrategyRefusal
from dp_transforms.mechanisms.partition_selection.weighted_strategies import (
    Plan,
    Round,
    WeightedStrategy,
)
from dp_transforms.mechanisms.randomness import RandomTape

_SHARE = Fraction(1, 64)
"""Of epsilon, the noise of the counts: of scale 64 at epsilon 1. It counts as a divergence, and
costs what about 0.3% of epsilon and an eighth of the exposure would, one name in a hundred."""
_ONE_SHARE = Fraction(1, 200)
"""The same of the difference, where kappa is 1: noise of about 280 users at epsilon 1."""
_LARGEST_SCALE = 1 << 48
_ROUNDS = 6
"""Where users have many partitions."""
_FEW_ROUNDS = 3
_GROWTHS = (16, 32)
"""Where they do not, for small kappa, where early rounds find more, and otherwise."""
_SMALL = 5
_EDGES = tuple(
    Fraction(*edge)
    for edge in ((1, 8), (3, 16), (1, 4), (3, 8), (1, 2), (3, 4), (1, 1), (7, 4), (5, 2), (4, 1))
)
"""In units of kappa, the most that users of a class have. Beyond the seventh, one round is short
for some users, beyond the eighth for most of them."""
_MANY = Fraction(7, 4)
_VERY_MANY = Fraction(4)
"""From here on all rounds share the budget equally."""
_ALIKE = Fraction(3, 4)
"""The share of users in one class, from which on all have about equally many."""
_ENOUGH = 6300
"""Times sqrt(order / divergence), users times sqrt(partitions) from which on early rounds name much
of what users have: about 3,000 / 12 partitions, by Zipf's law, in the last round."""
_POWERS = {6: 7, 3: 8}
"""In twentieths, by the root of the steps, the power of the number of partitions that the median of
a law is in proportion to: about, for epsilon from 1/5 to 4."""
_POWER_UNIT = 20
_STEP = 16
"""The step of a user of all partitions that count, for such comparisons."""


@dataclass(frozen=True)
class MeasuredSelection(WeightedStrategy):
    """Rounds as of ``renyi_rounds``, by how many partitions users have, or ``optimal`` at
    kappa = 1.

    >>> strategy = MeasuredSelection(epsilon=1, delta=1e-5, max_partitions_per_user=100)
    >>> strategy.edges
    (12, 18, 25, 37, 50, 75, 100, 175, 250, 400)
    >>> strategy.plan_of([0, 0, 0, 2000, 0, 0, 0, 0, 0, 0, 0])
    Plan(partitions=37, rounds=3, growth=32, root=6)
    """

    name: ClassVar[str] = "measured"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._scale > _LARGEST_SCALE:
            raise StrategyRefusal(
                "the statistic of users would need more noise than there are users at "
                f"epsilon={float(self.epsilon):g}; take a larger epsilon"
            )
        # Its first round has the smallest share of all plans': where it is possible, all are.
        self.branch(self._usual_plan)

    @property
    def most_rounds(self) -> int:
        return _ROUNDS

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Those of the usual plan."""
        return self.usual.rounds

    def one_order(self, index: int) -> bool:
        return index > 0

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The most partitions that users of each class have, but for the last one."""
        kappa = self.max_partitions_per_user
        if kappa == 1:
            return (1,)
        return tuple(sorted({int(edge * kappa) for edge in _EDGES if edge * kappa >= 1}))

    def branch(self, measured: Plan | None) -> WeightedStrategy:
        assert measured is not None
        return _branch(self, measured)

    def plan(self, counts: Sequence[int], tape: RandomTape) -> Plan:
        """What noisy counts say is to be done.

        Args:
          counts: how many users are in each of the classes.
          tape: gives the noise.
        """
        # By the counts as well: other counts have noise of their own, even on one tape.
        of_counts = tape.branch(f"of {', '.join(map(str, counts))}")
        if self.max_partitions_per_user == 1:
            few, several = counts
            (noise,) = self._noise.sample(of_counts, "statistic of users", 1).tolist()
            several_rounds = several - few + int(noise) > 0
            return Plan(1, _ROUNDS if several_rounds else 1, 1)
        noise = self._noise.sample(of_counts, "statistic of users", len(counts)).tolist()
        return self.plan_of([n + int(x) for n, x in zip(counts, noise, strict=True)])

    def plan_of(self, noisy: Sequence[int]) -> Plan:
        """The plan by noisy numbers of users in each class, for kappa from 2 on."""
        kappa = self.max_partitions_per_user
        users = np.maximum(noisy, 0)
        total = int(users.sum())
        beyond = dict(zip(self.edges, (total - users.cumsum()).tolist(), strict=False))

        def most_have_more(times: Fraction) -> bool:
            return bool(2 * beyond[int(times * kappa)] > total)

        if most_have_more(_MANY):
            return Plan(kappa, _ROUNDS, 1 if most_have_more(_VERY_MANY) else 2, 6)
        largest = int(users.argmax())
        # The first class is wide, unless it is of users of one partition.
        if (largest or self.edges[0] == 1) and users[largest] > _ALIKE * total:
            has = self.edges[largest]
            usual = self.usual
            assert isinstance(usual, RenyiRoundsSelection)
            divergence = sum(budget.divergence for budget in usual.budgets)
            if total**2 * has * divergence >= _ENOUGH**2 * self.order:
                return Plan(min(kappa, -(-3 * has // 5)), *self._few_rounds, 3)
        return self._last_round([int(n) for n in users])

    def _last_round(self, users: Sequence[int]) -> Plan:
        """The plan of few rounds that needs the fewest users of a partition in the last one.

        It compares the medians of laws in units of the mean, over all pairs of a user and a
        partition, of what the user adds to it. Classes stand for their middles.
        """
        bounds = [0, *self.edges, 2 * self.edges[-1]]
        middles = [(low + high + 1) // 2 for low, high in itertools.pairwise(bounds)]

        def needed(partitions: int, root: int) -> Fraction:
            added = 1
            for number, middle in zip(users, middles, strict=True):
                count = min(middle, partitions)
                step = gmpy2.iroot(gmpy2.mpz(_STEP**root * partitions // count), root)[0]
                added += number * count * int(step)
            return Fraction(partitions ** _POWERS[root], added**_POWER_UNIT)

        every = [edge for edge in self.edges if edge <= self.max_partitions_per_user]
        return min(
            (Plan(edge, *self._few_rounds, root) for edge in every for root in _POWERS),
            key=lambda plan: needed(plan.partitions, plan.root),
        )

    def select(
        self, users: npt.ArrayLike, partitions: npt.ArrayLike, tape: RandomTape
    ) -> npt.NDArray[np.int64]:
        pairs = np.unique(np.column_stack([users, partitions]).astype(np.int64), axis=0)
        _, has = np.unique(pairs[:, 0], return_counts=True)
        plan = self.plan(users_in_classes(has, self.edges), tape)
        return self.branch(plan).select(users, partitions, tape)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        """That of the usual plan."""
        return self.usual.keep_enclosure(users, precision)

    @property
    def usual(self) -> WeightedStrategy:
        """The plan in which all of kappa partitions count, in few rounds."""
        return self.branch(self._usual_plan)

    @property
    def _usual_plan(self) -> Plan:
        kappa = self.max_partitions_per_user
        return Plan(1, 1, 1) if kappa == 1 else Plan(kappa, *self._few_rounds, 6)

    @property
    def _few_rounds(self) -> tuple[int, int]:
        """How many, and their growth."""
        return _FEW_ROUNDS, _GROWTHS[self.max_partitions_per_user > _SMALL]

    @cached_property
    def _noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self._scale)

    @property
    def _scale(self) -> Fraction:
        return self._users_changed / self.statistic_epsilon

    @property
    def statistic_epsilon(self) -> Fraction:
        """Of epsilon, what the statistic spends."""
        share = _ONE_SHARE if self.max_partitions_per_user == 1 else _SHARE
        return share * Fraction(self.epsilon)

    @cached_property
    def order(self) -> int:
        """The Renyi order of all plans for kappa from 2 on: that of the usual plan, if nothing had
        been measured before, or the nearest."""
        kappa = self.max_partitions_per_user
        usual = (*self._budget, kappa, *self._few_rounds, self._users_changed)
        best = calibrate(*usual)[0].order
        every = candidates(*usual, self.statistic_epsilon)
        return min((budget.order for budget, *_ in every), key=lambda order: abs(order - best))

    def _parameters(self) -> dict[str, Any]:
        return {
            "statistic": "users by their number of partitions, at most each of these, or more",
            "statistic_edges": list(self.edges),
            "statistic_epsilon": float(self.statistic_epsilon),
            "usual_plan": self.usual.describe(),
        }


@lru_cache(maxsize=64)
def _branch(strategy: MeasuredSelection, plan: Plan) -> WeightedStrategy:
    """The rounds of a plan, with what the statistic left of the budget."""
    epsilon, delta = Fraction(strategy.epsilon), Fraction(strategy.delta)
    statistic = strategy.statistic_epsilon
    rest = (plan.partitions, strategy.pre_threshold, strategy.neighbours)
    if strategy.max_partitions_per_user > 1:
        return _PlannedRounds(epsilon, delta, *rest, *plan[1:], statistic, strategy.order)
    if plan.rounds == 1:
        return _ByCounts(epsilon - statistic, delta, *rest)
    return RenyiRoundsSelection(epsilon - statistic, delta, *rest, plan.rounds, plan.growth)


@dataclass(frozen=True)
class _PlannedRounds(RenyiRoundsSelection):
    """Rounds after a private statistic, on which all but their order may depend.

    Args:
      root: the last round's steps are in proportion to d**(-1 / root), if earlier ones named few.
      statistic: its epsilon, a part of ``epsilon``.
      order: the one that all plans have.
    """

    many_names: ClassVar[int] = 10

    root: int = 6
    statistic: Fraction = Fraction(0)
    order: int = 0

    @cached_property
    def budgets(self) -> tuple[RenyiBudget, ...]:
        return next(one for one in self._candidates if one[0].order == self.order)

    @cached_property
    def _candidates(self) -> tuple[tuple[RenyiBudget, ...], ...]:
        return candidates(*self._calibrated, self.statistic)

    @property
    def _roots(self) -> tuple[int, int]:
        return min(_POWERS), self.root


def users_in_classes(has: IntArray, edges: Sequence[int]) -> list[int]:
    """How many users are in each of the classes between edges.

    Args:
      has: positive integer array: how many distinct partitions each user has.
      edges: ascending; the most that a user of each class has, but for the last one.
    """
    classes = np.searchsorted(edges, has)
    return [int(n) for n in np.bincount(classes, minlength=len(edges) + 1)]


@dataclass(frozen=True)
class _CountRound:
    """A round in which every user weighs the same."""

    law: KeepLaw

    def weight(self, partitions: int) -> int:
        return 1

    def describe(self) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class _ByCounts(WeightedStrategy):
    """``optimal`` as a single round."""

    name: ClassVar[str] = OptimalSelection.name

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        kappa, neighbours = self.max_partitions_per_user, self.neighbours
        of_counts = OptimalSelection(*self._budget, kappa, neighbours=neighbours)
        return (_CountRound(of_counts.law),)

    def _parameters(self) -> dict[str, Any]:
        return {}
