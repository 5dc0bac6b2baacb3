"""Selects in rounds. In each round users of fewer partitions add larger weights to each of them."""

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
"""The Renyi orders to try, each less one, in eighths of log(1 / delta) / epsilon."""
_MIDDLE = 4
"""The place among the orders at which the search begins."""

_UNSPENT = Fraction(1, 1 << 32)
"""The share of delta that is not spent. Hardly anything is lost by it, and checks in floating point
find at most delta."""

_LAST_RESOLUTION = 8
_LONGEST = 1 << 9
_EARLY_BITS = 10
_MOST_ROUNDS = 64
_SEARCH_COARSER = 1


class RoundPlan(NamedTuple):
    """Holds the public choices of a plan of rounds, to which a look leads.

    Attributes:
      partitions: the most partitions of a user that count in a round.
      rounds, growth: see ``RenyiRoundsSelection``.
      root: in the last round, steps of users of d partitions are proportional to d**(-1 / root).
      by: the name of a strategy that decides in a single round, or "" for rounds.
      counted: the most named partitions in which a user counts in noisy numbers of users, which
        follow the rounds; 0 if none follow.
      counts_share: the part of the Renyi divergence that is spent on these numbers.
      look: how often the look that led to this plan was refined, see ``MeasuredSelection``.
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
    """Selects in rounds, each among the partitions that earlier rounds did not select.

    In every round a user has at most ``max_partitions_per_user`` partitions, which are chosen at
    random if more remain. The user adds a weight to each of them. The weight depends on how many
    they are.
    """

    @property
    @abstractmethod
    def rounds(self) -> tuple[KeepDistribution, ...]:
        """Returns the keep distribution of each round. Its statistic is a partition's sum of
        weights."""

    @property
    def most_rounds(self) -> int:
        """Returns the number of rounds, or the largest possible number if a look decides."""
        return len(self.rounds)

    def branch(self, choice: Choice | None) -> WeightedStrategy:
        """Returns the strategy that the choice by a look leads to, or this strategy if it makes no
        look."""
        return self

    @property
    def counting(self) -> NoisyCountStrategy | None:
        """Returns the strategy of a single round whose noisy counts are released; None if there is
        no such round."""
        return None

    @property
    def later_counts(self) -> LaterCounts | None:
        """Returns the mechanism that counts the users of named partitions after the last round;
        None if they are not counted."""
        return None

    def shared_order(self, index: int) -> bool:
        """Tells whether all users choose their partitions in a round by the same random order of
        partitions."""
        return False

    def round_after(self, index: int, named: int) -> KeepDistribution:
        """Returns the keep distribution of round ``index`` if earlier rounds named this many
        partitions."""
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
        """Returns whether round ``index`` selects each partition, as an array of n bools.

        Args:
          sums, users: int64 arrays of shape (n,): each partition's sum of ``weights``, and its
            number of users.
          words, extend: uniform numbers, new ones for every round; see ``KeepDistribution.decide``.
          named: see ``weights``.
        """
        distribution = self.round_after(index, named)
        beyond = np.maximum(sums - self.taken_off(distribution), 0)
        beyond[users < self.pre_threshold] = 0
        return distribution.decide(beyond, words, extend)

    def taken_off(self, distribution: KeepDistribution) -> int:
        """Returns the largest sum of weights of ``pre_threshold - 1`` users. It is subtracted from
        the sums, so that the user who completes the pre-threshold counts as the first user of a
        partition does without one."""
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
    share of the exposure is ``growth**2`` times that of the round before. Early rounds keep
    partitions of many users, and for these a small exposure is no loss. ``counts_share`` of the
    divergence is left for a release without exposure, such as noisy counts of named partitions.
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
        # Steps depend on a user's number of partitions only if there are several rounds, and kappa
        # is above 1.
        resolution = min(1, self.rounds - 1, self.partitions - 1)
        every = self.candidates

        def kept(place: int) -> float:
            if not 0 <= place < len(every):
                return -1.0
            last_round = RenyiDistribution(
                every[place][-1], self.partitions, resolution, coarser=_SEARCH_COARSER
            )
            return last_round.kept

        # From the best order on, fewer are kept in both directions. So the search can stop there.
        best = min(_MIDDLE, len(every) - 1)
        way = 1 if kept(best + 1) > kept(best) else -1
        while kept(best + way) > kept(best):
            best += way
        return every[best]

    @cached_property
    def candidates(self) -> list[tuple[RenyiBudget, ...]]:
        """Returns the rounds' budgets at every order that is possible, ascending; at least one.

        Raises:
          StrategyRefusal: no order is possible, or all of them need more users than there are.
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
        spent = delta * (1 - _UNSPENT)
        totals = [
            total_budget(order, epsilon, spent, of_rounds[-1], self.users_changed)
            for order in orders
        ]
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
    partitions left, and add a larger weight to each. From the second round on, users who have more
    partitions than count in a round all choose by the same random order of partitions. So some
    partitions keep all of their users, where otherwise each would keep few.

    If fewer than 2 kappa partitions were named, users have nearly as many left as at the beginning,
    and the last round's weights vary less with the number of a user's partitions. Weights may
    depend on earlier releases: the privacy argument in ``renyi_calibration`` fixes only each
    round's budget.

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
    """From this many times kappa names on, users are taken to have fewer partitions left than at
    the beginning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("number_of_rounds", "growth"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))
        if self.number_of_rounds > _MOST_ROUNDS:
            raise ValueError(
                f"number_of_rounds must be at most {_MOST_ROUNDS}, got {self.number_of_rounds}"
            )
        # Impossible parameters are refused here, and not at a release.
        _ = self._calibration.candidates

    @property
    def most_rounds(self) -> int:
        return self.number_of_rounds

    @cached_property
    def rounds(self) -> tuple[RenyiDistribution, ...]:
        # Early rounds need not keep large partitions with certainty: the next round decides about
        # those that they miss.
        kappa = self.max_partitions_per_user
        resolution = min(1, kappa - 1)
        early = [
            RenyiDistribution(budget, kappa, resolution, _EARLY_BITS, coarser=2)
            for budget in self.budgets[:-1]
        ]
        return (*early, self._last_rounds[0])

    def shared_order(self, index: int) -> bool:
        # In the first round each user's own sample finds the partitions that most users have.
        return index > 0

    def round_after(self, index: int, named: int) -> RenyiDistribution:
        few_names = named < self.many_names * self.max_partitions_per_user
        is_later_last_round = index > 0 and index == self.number_of_rounds - 1
        if is_later_last_round and few_names:
            return self._last_rounds[-1]
        return self.rounds[index]

    def _parameters(self) -> dict[str, Any]:
        return {"rounds": [round_.describe() for round_ in self.rounds]}

    @cached_property
    def _calibration(self) -> Calibration:
        return Calibration(
            *self._budget,
            self.max_partitions_per_user,
            self.number_of_rounds,
            self.growth,
            self._users_changed,
        )

    @property
    def _roots(self) -> tuple[int, int]:
        """Returns the roots of the steps in the last round: after many names, and after few."""
        return 3, 6

    @cached_property
    def budgets(self) -> tuple[RenyiBudget, ...]:
        return self._calibration.best

    @cached_property
    def _last_rounds(self) -> list[RenyiDistribution]:
        """Returns the distributions of the last round, one for each of ``_roots``."""
        budget, kappa = self.budgets[-1], self.max_partitions_per_user
        if kappa == 1:
            return [RenyiDistribution(budget, kappa)]
        # Steps are finer where the distribution stays short all the same.
        coarse = RenyiDistribution(budget, kappa, resolution=1, coarser=_SEARCH_COARSER)
        resolution = min(_LAST_RESOLUTION, max(1, int(_LONGEST * coarse.kept)))
        return [RenyiDistribution(budget, kappa, resolution, root=root) for root in self._roots]


def growing_shares(rounds: int, growth: int) -> tuple[Fraction, ...]:
    """Returns shares that sum to one, each ``growth`` times the one before.

    >>> growing_shares(2, 3)
    (Fraction(1, 4), Fraction(3, 4))
    """
    powers = [growth**i for i in range(rounds)]
    return tuple(Fraction(power, sum(powers)) for power in powers)
