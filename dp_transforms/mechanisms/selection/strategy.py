"""Defines the base classes of all selection strategies, with their public parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.decimals import (
    ExactNumber,
    Number,
    decimal_text,
    exact_fraction,
    float_above,
    positive_integer,
)
from dp_transforms.mechanisms.discrete_noise import Extend
from dp_transforms.mechanisms.enclosure import Enclosure
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution, as_float
from dp_transforms.mechanisms.selection.threshold_distribution import (
    CONFIDENCE,
    ThresholdDistribution,
)

ADD_OR_REMOVE = "add_or_remove"
REPLACE = "replace"
_MOST_PARTITIONS = 10**6
"""The largest kappa: for a larger one the cost takes minutes to compute."""
_MOST_USERS = 10**12
"""The largest number of users. The sum of as many steps fits into a machine number."""
_LEAST_EPSILON, _LARGEST_EPSILON = ExactNumber(1e-18), 10**6
"""In between, machine numbers can represent every e**epsilon, and its difference from one."""


class StrategyRefusal(ValueError):
    """Says that a strategy refuses parameters which other strategies may accept."""


@dataclass(frozen=True)
class SelectionStrategy(ABC):
    """Selects partitions by their users under (epsilon, delta)-differential privacy.

    Neighbouring inputs differ by ALL records of one user, who has at most
    ``max_partitions_per_user`` partitions. Whoever counts the users must ensure this bound.

    Args:
      epsilon, delta: the budget of the whole selection. A float stands for the decimal that it
        prints as.
      max_partitions_per_user: kappa, a positive integer up to 10**6.
      pre_threshold: partitions with fewer users than this are never selected, even if privacy would
        allow it; a positive integer up to 10**12.
      neighbours: "add_or_remove" one user's records, or "replace" one user's records by those of
        another (bounded differential privacy), which counts as a change by two users.

    Raises:
      ValueError: an argument is out of range; the message names it.
    """

    epsilon: Number
    delta: Number
    max_partitions_per_user: int = 1
    pre_threshold: int = 1
    neighbours: str = ADD_OR_REMOVE

    name: ClassVar[str]
    """The name of the strategy in options and reports."""
    has_noisy_counts: ClassVar[bool] = False
    """True if noisy counts come with the selected partitions."""
    needs_positive_budget: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, below in (("epsilon", None), ("delta", 1)):
            exact = _budget_part(name, getattr(self, name), below, self.needs_positive_budget)
            object.__setattr__(self, name, exact)
        for field in ("max_partitions_per_user", "pre_threshold"):
            object.__setattr__(self, field, positive_integer(field, getattr(self, field)))
        if self.max_partitions_per_user > _MOST_PARTITIONS:
            raise ValueError(
                f"max_partitions_per_user must be at most {_MOST_PARTITIONS:,} in a selection, "
                f"got {self.max_partitions_per_user}: bound users to fewer"
            )
        if self.pre_threshold > _MOST_USERS:
            raise ValueError(
                f"pre_threshold must be at most {_MOST_USERS:,}, got {self.pre_threshold}: no "
                "partition has more users"
            )
        if self.neighbours not in (ADD_OR_REMOVE, REPLACE):
            raise ValueError(
                f"neighbours must be {ADD_OR_REMOVE!r} or {REPLACE!r}, got {shown(self.neighbours)}"
            )

    @abstractmethod
    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        """Encloses the probability that a partition with this many users is kept. For strategies
        with weights this is the worst case: every user of the partition has
        ``max_partitions_per_user`` partitions, and none of the others is ever selected."""

    def keep_probability(self, users: int) -> float:
        """Returns the probability that ``keep_enclosure`` encloses, as a float of full relative
        precision."""
        return as_float(lambda precision: self.keep_enclosure(users, precision))

    @cached_property
    @abstractmethod
    def median_users(self) -> int | None:
        """Returns the smallest number of users with a keep-probability of at least 1/2; None if
        there is none. It depends on public parameters alone, so strategies may be compared by
        it."""

    def describe(self) -> dict[str, Any]:
        """Returns the public facts of a release by this strategy, as JSON-ready values."""
        epsilon, delta = self._budget
        return {
            "strategy": self.name,
            "epsilon": float_above(epsilon),
            "epsilon_exact": decimal_text(epsilon),
            "delta": float_above(delta),
            "delta_exact": decimal_text(delta),
            "max_partitions_per_user": self.max_partitions_per_user,
            "pre_threshold": self.pre_threshold,
            "neighbours": self.neighbours,
            **self._parameters(),
        }

    def parameters(self) -> dict[str, Any]:
        """Returns the entries of ``describe`` that are specific to this kind of strategy."""
        return self._parameters()

    def _parameters(self) -> dict[str, Any]:
        return {}

    @property
    def _users_changed(self) -> int:
        return 2 if self.neighbours == REPLACE else 1

    @property
    def _partitions_changed(self) -> int:
        return self.max_partitions_per_user * self._users_changed

    @property
    def _budget(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.epsilon), Fraction(self.delta)


class CountStrategy(SelectionStrategy):
    """Decides about a partition by its number of distinct users alone."""

    @property
    @abstractmethod
    def distribution(self) -> KeepDistribution:
        """Returns keep-probabilities by the number of users beyond ``pre_threshold - 1``."""

    @property
    def saturation_count(self) -> int | None:
        """Returns the number of users from which on a partition is certainly kept; None if there is
        none. Counting may stop there if no noisy counts are released."""
        saturation = self.distribution.saturation
        return None if saturation is None else saturation + self.pre_threshold - 1

    @cached_property
    def median_users(self) -> int | None:
        median = self.distribution.median
        return None if median is None else median + self.pre_threshold - 1

    def keep_enclosure(self, users: int, precision: int) -> Enclosure:
        return self.distribution.keep_enclosure(max(0, users - self.pre_threshold + 1), precision)

    def decide(self, users: IntArray, words: WordArray, extend: Extend) -> BoolArray:
        """Returns whether each partition is kept, as an array of n bools. The decisions are made
        by uniform numbers that the caller derives.

        Args:
          users: int64 array of shape (n,): distinct users per partition, not negative.
          words, extend: the uniform numbers, see ``IntegerNoise.from_words``.
        """
        return self.distribution.decide(self._beyond(users), words, extend)

    def select(self, users: IntArray, tape: RandomTape, channel: str = "selection") -> BoolArray:
        """Returns whether each partition is kept, by ``decide`` with the numbers of a tape's
        channel. Raises a ValueError if the tape is claimed for this channel."""
        words = tape.claim(channel).words(channel, len(users))
        return self.decide(users, words, lambda i, bits: tape.prefix(channel, i, bits))

    def _beyond(self, users: IntArray) -> IntArray:
        """Returns the numbers of users beyond ``pre_threshold - 1``, or 0."""
        if self.pre_threshold == 1:
            return users
        return np.maximum(np.asarray(users, dtype=np.int64) - (self.pre_threshold - 1), 0)


class NoisyCountStrategy(CountStrategy):
    """Compares noisy counts of users with a threshold. The noisy counts may be released too."""

    has_noisy_counts: ClassVar[bool] = True

    @property
    @abstractmethod
    def distribution(self) -> ThresholdDistribution: ...

    def decide_with_counts(
        self, users: IntArray, words: WordArray, extend: Extend
    ) -> tuple[BoolArray, IntArray]:
        """Returns whether each partition is kept, as ``decide`` does, and the noisy counts of kept
        partitions: see ``ThresholdDistribution.decide_with_counts``."""
        keep, noisy = self.distribution.decide_with_counts(self._beyond(users), words, extend)
        noisy[keep] += self.pre_threshold - 1
        return keep, noisy

    @property
    def _threshold(self) -> int:
        """Returns the threshold with which released noisy counts were compared."""
        return self.distribution.threshold + self.pre_threshold - 1

    def count_intervals(
        self, noisy: IntArray, confidence: Number = CONFIDENCE
    ) -> tuple[IntArray, IntArray]:
        """Returns the lower and the upper ends of intervals for numbers of users, from noisy counts
        alone: see ``ThresholdDistribution.count_intervals``."""
        hidden = self.pre_threshold - 1
        low, high = self.distribution.count_intervals(np.asarray(noisy) - hidden, confidence)
        return low + hidden, high + hidden


def _budget_part(name: str, value: Any, below: int | None, positive: bool) -> ExactNumber:
    """Returns epsilon or delta as an exact number. Raises a ValueError if it is negative, not below
    ``below``, 0 although it must be ``positive``, or an epsilon out of range."""
    try:
        exact = exact_fraction(name, value)
    except ValueError:
        exact = ExactNumber(-1)
    if exact < 0 or (below is not None and exact >= below):
        bounds = "a finite number at or above 0" if below is None else "in [0, 1)"
        raise ValueError(f"{name} must be {bounds}, got {shown(value)}")
    if positive and exact == 0:
        raise ValueError(
            f"{name} must be positive for this strategy, got {shown(value)}; "
            'the strategy "optimal" has no noise and allows 0'
        )
    if name == "epsilon" and exact and not _LEAST_EPSILON <= exact <= _LARGEST_EPSILON:
        raise ValueError(
            f"epsilon must be from {_LEAST_EPSILON!r} to {_LARGEST_EPSILON:,}, got {shown(value)}"
        )
    return exact
