"""The strategies in which users with fewer partitions weigh more in each of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Protocol

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.bisection import smallest_where
from dp_transforms.mechanisms.enclosure import Enclosure, exactly
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.noise.discrete_noise import Extend
from dp_transforms.mechanisms.partition_selection.gaussian_calibration import calibrate
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw
from dp_transforms.mechanisms.partition_selection.sips_calibration import calibrate_rounds
from dp_transforms.mechanisms.partition_selection.strategy import SelectionStrategy
from dp_transforms.mechanisms.partition_selection.weighted_round import WeightedRound, weights
from dp_transforms.mechanisms.randomness import RandomTape


class Plan(NamedTuple):
    """What a measurement decides on.

    Attributes:
      partitions: how many of a user's count in a round.
      rounds, growth: see ``RenyiRoundsSelection``. A single round is ``optimal``.
      root: the last round's steps are in proportion to d**(-1 / root) for users of d partitions.
    """

    partitions: int
    rounds: int
    growth: int
    root: int = 6


class Round(Protocol):
    """Weights and keep-probabilities of one round."""

    @property
    def law(self) -> KeepLaw:
        """The probability of being kept, by the sum of weights."""

    def weight(self, partitions: int) -> int:
        """What a user of ``partitions`` partitions adds to each; falls as they grow."""

    def describe(self) -> dict[str, float]:
        """Public facts, as JSON-ready values."""


class WeightedStrategy(SelectionStrategy):
    """Rounds of weighted selection, each on the partitions that earlier rounds did not select.

    In every round a user has at most ``max_partitions_per_user`` partitions, chosen at random from
    what remains where there are more; their weights follow from how many those are.
    """

    uses_weights: ClassVar[bool] = True

    @property
    @abstractmethod
    def rounds(self) -> tuple[Round, ...]:
        """Weights and laws of every round, in order."""

    @property
    def most_rounds(self) -> int:
        """How many rounds there are, at most if a measurement decides."""
        return len(self.rounds)

    def branch(self, measured: Plan | None) -> WeightedStrategy:
        """What is done after a measurement, if there is one."""
        return self

    def one_order(self, index: int) -> bool:
        """Whether one random order of all partitions chooses for every user of a round, so that
        users who share more than that many partitions give to the same ones."""
        return False

    def round_after(self, index: int, named: int) -> Round:
        """Round ``index``, after so many partitions were named by earlier ones."""
        return self.rounds[index]

    def weights(self, index: int, partitions: npt.ArrayLike, named: int = 0) -> IntArray:
        """What users add to each of their partitions in round ``index``.

        Args:
          partitions: integer array: how many partitions each user has in the round.
          named: how many partitions earlier rounds named.

        Returns:
          An int64 array of the same shape.
        """
        return weights(partitions, self.round_after(index, named).weight)

    def decide_round(
        self,
        index: int,
        sums: IntArray,
        users: IntArray,
        words: WordArray,
        extend: Extend,
        named: int = 0,
    ) -> BoolArray:
        """Which partitions round ``index`` selects.

        Args:
          sums: int64 array of shape (n,): the sum of its users' ``weights`` per partition.
          users: int64 array of shape (n,): how many users those are.
          words, extend: uniform numbers, fresh for every round; see ``KeepLaw.decide``.
          named: how many partitions earlier rounds named.

        Returns:
          An array of n bools.
        """
        round_ = self.round_after(index, named)
        beyond = np.maximum(sums - self._taken_off(round_), 0)
        beyond[users < self.pre_threshold] = 0
        return round_.law.decide(beyond, words, extend)

    def _taken_off(self, round_: Round) -> int:
        """The most that the users before the pre-threshold could give.

        Without it the user who completes the pre-threshold decides as a partition's first user does
        without one.
        """
        return (self.pre_threshold - 1) * round_.weight(1)

    def select(
        self, users: npt.ArrayLike, partitions: npt.ArrayLike, tape: RandomTape
    ) -> npt.NDArray[np.int64]:
        """The selected partitions, ascending, of records (users[i], partitions[i]) in memory.

        Args:
          users, partitions: equally long integer arrays. Repeated records count once.
          tape: decides which partitions of a user with too many are used, and what is selected.
        """
        pairs = np.unique(np.column_stack([users, partitions]).astype(np.int64), axis=0)
        order = tape.words("bounding", len(pairs))
        selected: list[npt.NDArray[np.int64]] = []
        for index in range(len(self.rounds)):
            priorities = order
            if self.one_order(index):
                names, place = np.unique(pairs[:, 1], return_inverse=True)
                priorities = tape.words(f"bounding, round {index}", len(names))[place]
            bounded = _bounded(pairs[:, 0], priorities, self.max_partitions_per_user)
            named = sum(map(len, selected))
            names, sums, counts = _weighted_sums(
                pairs[bounded], partial(self.weights, index, named=named)
            )
            channel = f"selection, round {index}"
            words = tape.words(channel, len(names))
            extend = partial(tape.prefix, channel)
            keep = self.decide_round(index, sums, counts, words, extend, named)
            selected.append(names[keep])
            rest = ~np.isin(pairs[:, 1], names[keep])
            pairs, order = pairs[rest], order[rest]
        return np.sort(np.concatenate(selected))

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        if users < self.pre_threshold:
            return exactly(0)
        drop = exactly(1)
        for round_ in map(self.round_after, range(len(self.rounds)), repeat(0)):
            smallest_sum = users * round_.weight(self.max_partitions_per_user)
            beyond = max(0, smallest_sum - self._taken_off(round_))
            drop *= round_.law.drop_enclosure(beyond, precision + 8).rational()
        return 1 - drop

    def keep_probability(self, users: int) -> float:
        lo, hi = self.keep_enclosure(users, 256)
        return float((lo + hi) / 2)

    @cached_property
    def median_users(self) -> int | None:
        half = gmpy2.mpq(1, 2)
        return smallest_where(lambda users: bool(self.keep_enclosure(users, 128)[0] >= half), 1)

    def _parameters(self) -> dict[str, Any]:
        return {"rounds": [round_.describe() for round_ in self.rounds]}


@dataclass(frozen=True)
class WeightedGaussianSelection(WeightedStrategy):
    """The weighted Gaussian: weights of L2 norm one per user, Gaussian noise, one threshold.

    Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin (2020, "Differentially private set union");
    see ``weighted_round`` for weights and threshold and ``gaussian_calibration`` for the privacy
    argument.

    >>> strategy = WeightedGaussianSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> strategy.median_users, round(strategy.rounds[0].sigma, 3)
    (58, 3.731)
    """

    name: ClassVar[str] = "weighted_gaussian"

    @cached_property
    def rounds(self) -> tuple[WeightedRound, ...]:
        kappa = self.max_partitions_per_user
        budget = calibrate(*self._budget, kappa, self._users_changed)
        return (WeightedRound(budget, kappa),)


@dataclass(frozen=True)
class SipsSelection(WeightedStrategy):
    """DP-SIPS: several rounds of the weighted Gaussian, with less noise in each.

    Swanberg, Desfontaines, Haney (2023, "DP-SIPS: a simpler, more scalable mechanism for
    differentially private partition selection"). Early rounds, at little cost, select the
    partitions that many users have; those are taken out of the records, so that their users weigh
    more in what remains. Best where users have many partitions. The budget's composition is in
    ``sips_calibration``.

    Args:
      number_of_rounds: a positive integer.
      growth: each round's squared shift mu**2, and its part of the threshold's delta, is this many
        times that of the round before.

    >>> strategy = SipsSelection(epsilon=1, delta=1e-5, max_partitions_per_user=10)
    >>> [round(round_.sigma, 2) for round_ in strategy.rounds]
    [32.97, 11.66, 4.12]
    """

    number_of_rounds: int = 3
    growth: int = 8

    name: ClassVar[str] = "sips"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("number_of_rounds", "growth"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))

    @cached_property
    def rounds(self) -> tuple[WeightedRound, ...]:
        shares = growing_shares(self.number_of_rounds, self.growth)
        kappa = self.max_partitions_per_user
        budgets = calibrate_rounds(*self._budget, kappa, shares, self._users_changed)
        return tuple(WeightedRound(budget, kappa) for budget in budgets)


def growing_shares(rounds: int, growth: int) -> tuple[Fraction, ...]:
    """Shares that sum to one, each ``growth`` times the one before.

    >>> growing_shares(2, 3)
    (Fraction(1, 4), Fraction(3, 4))
    """
    powers = [growth**i for i in range(rounds)]
    return tuple(Fraction(power, sum(powers)) for power in powers)


def _bounded(users: IntArray, priorities: WordArray, most: int) -> IntArray:
    """Indices of at most ``most`` pairs of each user: those of the smallest priorities."""
    order = np.lexsort((priorities, users))
    _, starts, counts = np.unique(users[order], return_index=True, return_counts=True)
    ranks = np.arange(len(order)) - np.repeat(starts, counts)
    return order[ranks < most]


def _weighted_sums(
    pairs: npt.NDArray[np.int64], weights: Callable[[IntArray], IntArray]
) -> tuple[npt.NDArray[np.int64], IntArray, IntArray]:
    """(partitions, sums of weights, numbers of users) of distinct pairs."""
    _, user, has = np.unique(pairs[:, 0], return_inverse=True, return_counts=True)
    names, place, counts = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    sums = np.zeros(len(names), dtype=np.int64)
    np.add.at(sums, place, weights(has)[user])
    return names, sums, counts.astype(np.int64)
