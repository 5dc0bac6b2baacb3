"""What all mechanisms over integer partitions share: their parameters, and one release or many."""

from __future__ import annotations

import decimal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_transforms.mechanisms.base2 import Eta, positive_integer, positive_rational
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape

MIN_RATE = Fraction(1, 1024)
"""The smallest c = epsilon / (2 * sensitivity). Next to a large corner the walk goes as far as
ln(2) / c from zero, and time and memory grow with powers of that."""

MAX_TOTAL = 2**62
"""Lists up to this total leave room for what a release adds."""

_COST_DIGITS = 15
"""A float prints these as they are: rounded up to them, both the number and its text are."""


def check_total(name: str, total: object) -> None:
    """Makes sure that a number of users, or a distance, is one that lists can have.

    Raises:
      ValueError: it is not; the message names it.
    """
    if type(total) is not int or not 0 <= total <= MAX_TOTAL:
        raise ValueError(f"{name} must be an integer between 0 and 2**62, got {total!r}")


class UnsuitableListError(ValueError):
    """The private list contradicts what a mechanism was told about it.

    That it does depends on the data. The message does not: it has no numbers of the list.
    """


Draw = Callable[[RandomTape], FrequencyList]


@dataclass(frozen=True)
class PartitionMechanism(ABC):
    """A mechanism that releases x with a weight of q**||x - f||_1, over some set of lists.

    Args:
      epsilon: the privacy parameter, in natural units; a float stands for exactly the number it is.
        Give this or eta; neither means epsilon = 1.
      sensitivity: the most partitions that one user contributes to (max_partitions_per_user).
      eta: the parameter of the weights in base 2: q = 2**-eta.

    Attributes:
      decay: q, which is e**(-epsilon / (2 * sensitivity)) or 2**-eta.

    Raises:
      ValueError: both epsilon and eta are given, a parameter is not positive, or
        epsilon / (2 * sensitivity) is below 1 / 1024, where a release of a list with large corners
        would take too long.
    """

    epsilon: float | None = None
    sensitivity: int = 1
    eta: Eta | None = None
    decay: Decay = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sensitivity = positive_integer("sensitivity", self.sensitivity)
        object.__setattr__(self, "sensitivity", sensitivity)
        if self.eta is not None:
            if self.epsilon is not None:
                raise ValueError("give epsilon or eta, not both")
            if not isinstance(self.eta, Eta):
                raise ValueError(f"eta must be an Eta, got {self.eta!r}")
            decay = Decay(base=self.eta)
        else:
            epsilon = positive_rational("epsilon", 1.0 if self.epsilon is None else self.epsilon)
            object.__setattr__(self, "epsilon", float(epsilon))
            decay = Decay(epsilon / (2 * sensitivity))
        if decay.log_enclosure(64)[1] < MIN_RATE:
            raise ValueError(
                "epsilon / (2 * sensitivity) must be at least 1/1024, got "
                f"epsilon={self.epsilon}, eta={self.eta}, sensitivity={self.sensitivity}: "
                "raise epsilon or bound each user to fewer partitions"
            )
        object.__setattr__(self, "decay", decay)

    @property
    def epsilon_cost(self) -> float:
        """The epsilon of the release's (epsilon, delta)-DP, in natural units.

        It is ``epsilon``, or what ``eta`` comes to, rounded up to 15 digits: an outcome's weight
        and the total of all weights change by a factor of at most q**-sensitivity each.

        >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
        >>> IntegerPartitionMechanism(eta=Eta(1, 1, 1), sensitivity=3).epsilon_cost  # 6 ln 2
        4.15888308335968
        """
        if self.epsilon is not None:
            return self.epsilon
        assert self.eta is not None
        exponent = 2 * self.sensitivity * self.eta.z
        cost = decimal.Decimal(Eta(self.eta.x, self.eta.y, exponent).epsilon)
        context = decimal.Context(prec=_COST_DIGITS, rounding=decimal.ROUND_CEILING)
        return float(context.plus(cost))

    @property
    def failure_probability(self) -> float:
        """The delta of the release's (epsilon, delta)-DP: 0 where it is pure epsilon-DP."""
        return 0.0

    def possible_lists(self) -> dict[str, Any]:
        """Which lists can be released, as public words and numbers for a privacy statement."""
        return {"possible_lists": "all"}

    def release(
        self, frequency_list: FrequencyList, tape: RandomTape | None = None
    ) -> FrequencyList:
        """One private list.

        Args:
          frequency_list: the private list; empty is allowed.
          tape: where the randomness comes from; by default a fresh tape from the operating system.
            A tape must serve one release only: the same tape with another list cancels the noise.

        Raises:
          ValueError: the total is above 2**62.
        """
        return self._checked_draw(frequency_list)(tape or RandomTape.from_os())

    def release_many(
        self, frequency_list: FrequencyList, count: int, tapes: Iterator[RandomTape] | None = None
    ) -> list[FrequencyList]:
        """``count`` independent lists, for evaluation: publishing them costs count * epsilon.

        Args:
          frequency_list: the private list.
          count: how many.
          tapes: a tape for each; by default fresh ones from the operating system.
        """
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        draw = self._checked_draw(frequency_list)
        source = tapes or iter(RandomTape.from_os, None)
        return [draw(next(source)) for _ in range(count)]

    def _checked_draw(self, frequency_list: FrequencyList) -> Draw:
        if frequency_list.total > MAX_TOTAL:
            raise ValueError("the total of a list to release must be at most 2**62")
        return self._draw(frequency_list)

    @abstractmethod
    def _draw(self, frequency_list: FrequencyList) -> Draw:
        """The function from tapes to lists whose law is the mechanism's at f."""
