"""Selects in rounds, in which users of fewer partitions add larger weights to each."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.discrete_noise import Extend
from dp_transforms.mechanisms.enclosure import Enclosure, exactly, smallest_where
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget, total_budget
from dp_transforms.mechanisms.selection.renyi_distribution import RenyiDistribution
from dp_transforms.mechanisms.selection.strategy import (
    NoisyCountStrategy,
    SelectionStrategy,
    StrategyRefusal,
)

if TYPE_CHECKING:
    from dp_transforms.mechanisms.selection.later_counts import LaterCounts
    from dp_transforms.mechanisms.selection.measured import Choice

_ORDERS = (5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40)
"""Orders to try, less one, in eighths of log(1 / delta) / epsilon."""
_MIDDLE = 4
"""The place among the orders where the search begins."""

_UNSPENT = Fraction(1, 1 << 32)
"""The unspent share of delta: nothing is lost, and checks in floating point find at most delta."""

_LAST_RESOLUTION = 8
_LONGEST = 1 << 9
_EARLY_BITS = 10
_MOST_ROUNDS = 64
_SEARCH_COARSER = 1


class RoundPlan(NamedTuple):
    """A look leads to this plan.

    Attributes:
      partitions: the most partitions of a user that count in a round.
      rounds, growth: see ``RenyiRoundsSelection``.
      root: steps of the last round are as d**(-1 / root) for users of d partitions.
      by: a strategy of single rounds that decides in place of these.
      counted: after the rounds, so many of a user's named partitions count in noisy numbers of
        users; 0 if these do not follow.
      counts_share: the part of the Renyi divergence that the numbers of users get.
      look: how often the look was refined that led to this plan, see ``MeasuredSelection``.
    """

    partitions: int
    rounds: int = 1
    growth: int = 1
    root: int = 6
    by: str = ""
    counted: int = 0
    counts_share: Fraction = Fraction(0)
    look: int = 0


class WeightedStrategy(SelectionStrategy):
    """Selects in rounds, each among the partitions that earlier rounds did not select. In every
    round a user has at most ``max_partitions_per_user`` partitions, chosen at random if more
    remain. The user adds a weight to each, which follows from their number."""

    @property
    @abstractmethod
    def rounds(self) -> tuple[KeepDistribution, ...]:
        """Returns each round's keep distribution, by the sum of weights of a partition."""

    @property
    def most_rounds(self) -> int:
        """Returns the number of rounds, or the largest number if a measurement decides."""
        return len(self.rounds)

    def branch(self, choice: Choice | None) -> WeightedStrategy:
        """Returns the strategy to follow after a choice, if there is one."""
        return self

    @property
    def counting(self) -> NoisyCountStrategy | None:
        """Returns the strategy of a single round whose noisy counts are released, if it is one."""
        return None

    @property
    def later_counts(self) -> LaterCounts | None:
        """Returns the counts of named partitions that follow the last round, if they do."""
        return None

    def shared_order(self, index: int) -> bool:
        """Tells whether one random order of all partitions chooses for every user of a round."""
        return False

    def round_after(self, index: int, named: int) -> KeepDistribution:
        """Returns the keep distribution of round ``index``, after this many named partitions."""
        return self.rounds[index]

    def weights(self, index: int, partitions: npt.ArrayLike, named: int = 0) -> IntArray:
        """Returns the weights that users add to each of their partitions in a round.

        Args:
          index: the round, from 0.
          partitions: integer array: each user's number of partitions in the round.
          named: the number of partitions named by earlier rounds.

        Returns:
          An int64 array of the same shape.
        """
        counts = np.asarray(partitions)
        weight = self.round_after(index, named).step
        distinct, places = np.unique(counts, return_inverse=True)
        values = np.array([weight(int(d)) for d in distinct], dtype=np.int64)
        return values[places].reshape(counts.shape)

    def decide_round(
        self,
        index: int,
        sums: IntArray,
        users: IntArray,
        words: WordArray,
        extend: Extend,
        named: int = 0,
    ) -> BoolArray:
        """Decides which partitions round ``index`` selects: returns an array of n bools.

        Args:
          sums, users: int64 arrays of shape (n,): each partition's sum of ``weights``, and number
            of users.
          words, extend: uniform numbers, fresh for every round; see ``KeepDistribution.decide``.
          named: see ``weights``.
        """
        distribution = self.round_after(index, named)
        beyond = np.maximum(sums - self.taken_off(distribution), 0)
        beyond[users < self.pre_threshold] = 0
        return distribution.decide(beyond, words, extend)

    def taken_off(self, distribution: KeepDistribution) -> int:
        """Returns the most that the users before the pre-threshold could give: the user who
        completes it then decides as a partition's first user does without one."""
        return (self.pre_threshold - 1) * distribution.step(1)

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        if users < self.pre_threshold:
            return exactly(0)
        drop = exactly(1)
        for index in range(len(self.rounds)):
            distribution = self.round_after(index, 0)
            smallest_sum = users * distribution.step(self.max_partitions_per_user)
            beyond = max(0, smallest_sum - self.taken_off(distribution))
            drop *= distribution.drop_enclosure(beyond, precision + 8).rational()
        return 1 - drop

    @cached_property
    def median_users(self) -> int | None:
        half = gmpy2.mpq(1, 2)
        return smallest_where(lambda users: bool(self.keep_enclosure(users, 128)[0] >= half), 1)


@dataclass(frozen=True)
class Calibration:
    """Computes the budgets of rounds from the parameters that determine them.

    Each round's share of the total divergence is ``growth`` times that of the round before, and its
    share of the exposure ``growth**2`` times: early rounds keep partitions of many users, for which
    a small exposure is no loss. ``counts_share`` of the divergence is left for a release without
    exposure, such as noisy counts of what was named.
    """

    epsilon: Fraction
    delta: Fraction
    partitions: int
    rounds: int = 1
    growth: int = 1
    users_changed: int = 1
    counts_share: Fraction = Fraction(0)

    @cached_property
    def best(self) -> tuple[RenyiBudget, ...]:
        """Returns the rounds' budgets, at the order whose last round keeps the most. Every order is
        private: the search decides only how much is kept."""
        # Steps depend on how many partitions a user has in rounds alone, and only if that varies.
        rest = self.partitions, min(1, self.rounds - 1, self.partitions - 1)
        every = self.candidates

        def kept(place: int) -> float:
            if not 0 <= place < len(every):
                return -1.0
            return RenyiDistribution(every[place][-1], *rest, coarser=_SEARCH_COARSER).kept

        # The further from the best order, the fewer are kept.
        best = min(_MIDDLE, len(every) - 1)
        way = 1 if kept(best + 1) > kept(best) else -1
        while kept(best + way) > kept(best):
            best += way
        return every[best]

    @cached_property
    def candidates(self) -> list[tuple[RenyiBudget, ...]]:
        """Returns the rounds' budgets at every order to try, ascending; at least one.

        Raises:
          StrategyRefusal: there is none, or they need more users than there are.
        """
        epsilon, delta = self.epsilon, self.delta
        divergences, exposures = (
            growing_shares(self.rounds, growth) for growth in (self.growth, self.growth**2)
        )
        for_rounds = 1 - self.counts_share
        of_rounds = [
            (for_rounds * share, exposure)
            for share, exposure in zip(divergences, exposures, strict=True)
        ]
        scale = (math.log(delta.denominator) - math.log(delta.numerator)) / float(epsilon)
        orders = sorted({max(2, 1 + round(scale * part / 8)) for part in _ORDERS})
        rest = (delta * (1 - _UNSPENT), of_rounds[-1], self.users_changed)
        totals = [total_budget(order, epsilon, *rest) for order in orders]
        private = [
            tuple(total.share(*share) for share in of_rounds)
            for total in totals
            if total.divergence > 0 and total.exposure > 0
        ]
        at = f"epsilon={float(epsilon):g}, delta={float(delta):g} and {self.partitions} partitions"
        if not private:
            raise StrategyRefusal(f"delta must be smaller for this strategy, got {at} a user")
        short = [
            budgets
            for budgets in private
            if not any(RenyiDistribution.is_long(budget, self.partitions, 1) for budget in budgets)
        ]
        if not short:
            raise StrategyRefusal(
                f"this strategy would need more than 2**48 users in a partition at {at} a user; "
                "take a larger epsilon"
            )
        return short


@dataclass(frozen=True)
class RenyiRoundsSelection(WeightedStrategy):
    """Selects in rounds as DP-SIPS does, by ``renyi_distribution`` instead of noise.

    Early rounds select, at little cost, the partitions of many users. These users then have fewer
    partitions left, and add a larger weight to each. From the second round on, users of more
    partitions than count in a round choose by one random order of all partitions: some partitions
    then have all of their users, where otherwise each would have few.

    After fewer than 2 kappa named partitions users have nearly as many left as at the beginning,
    and the last round's weights vary less with that number. Weights may depend on earlier releases:
    the privacy argument in ``renyi_calibration`` fixes only each round's budget.

    Args:
      epsilon, delta, max_partitions_per_user, pre_threshold, neighbours: see ``SelectionStrategy``.
      number_of_rounds: an integer from 1 to 64.
      growth: each round's divergence is this many times that of the round before.

    >>> RenyiRoundsSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10).median_users
    43
    """

    stable_name: ClassVar[str] = "RenyiRoundsSelection"

    number_of_rounds: int = 3
    growth: int = 16

    name: ClassVar[str] = "renyi_rounds"
    many_names: ClassVar[int] = 2
    """Times kappa: from so many names on, users have fewer partitions left than they had."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("number_of_rounds", "growth"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))
        if self.number_of_rounds > _MOST_ROUNDS:
            raise ValueError(
                f"number_of_rounds must be at most {_MOST_ROUNDS}, got {self.number_of_rounds}"
            )
        # This refuses impossible parameters now.
        _ = self._calibration.candidates

    @property
    def most_rounds(self) -> int:
        return self.number_of_rounds

    @cached_property
    def rounds(self) -> tuple[RenyiDistribution, ...]:
        # Partitions that early rounds hardly ever miss are left to the next round.
        max_partitions = self.max_partitions_per_user
        rest = max_partitions, min(1, max_partitions - 1), _EARLY_BITS
        early = [RenyiDistribution(budget, *rest, coarser=2) for budget in self.budgets[:-1]]
        return (*early, self._last_rounds[0])

    def shared_order(self, index: int) -> bool:
        # A sample of each user's own finds what most users have.
        return index > 0

    def round_after(self, index: int, named: int) -> RenyiDistribution:
        few = named < self.many_names * self.max_partitions_per_user
        is_last = 0 < index == self.number_of_rounds - 1
        return self._last_rounds[-1] if is_last and few else self.rounds[index]

    def _parameters(self) -> dict[str, Any]:
        return {"rounds": [round_.describe() for round_ in self.rounds]}

    @cached_property
    def _calibration(self) -> Calibration:
        rounds = self.max_partitions_per_user, self.number_of_rounds, self.growth
        return Calibration(*self._budget, *rounds, self._users_changed)

    @property
    def _roots(self) -> tuple[int, int]:
        """Returns the roots of the steps in the last round: after many names, and after few."""
        return 3, 6

    @cached_property
    def budgets(self) -> tuple[RenyiBudget, ...]:
        return self._calibration.best

    @cached_property
    def _last_rounds(self) -> list[RenyiDistribution]:
        last = self.budgets[-1], self.max_partitions_per_user
        if self.max_partitions_per_user == 1:
            return [RenyiDistribution(*last)]
        # Finer steps where that keeps the distribution short.
        longest = int(_LONGEST * RenyiDistribution(*last, 1, coarser=_SEARCH_COARSER).kept)
        resolution = min(_LAST_RESOLUTION, max(1, longest))
        return [RenyiDistribution(*last, resolution, root=root) for root in self._roots]


def growing_shares(rounds: int, growth: int) -> tuple[Fraction, ...]:
    """Returns shares that sum to one, each ``growth`` times the one before.

    >>> growing_shares(2, 3)
    (Fraction(1, 4), Fraction(3, 4))
    """
    powers = [growth**i for i in range(rounds)]
    return tuple(Fraction(power, sum(powers)) for power in powers)
