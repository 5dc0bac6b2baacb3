"""Defines the base classes of the mechanisms over integer partitions: they check parameters and
release lists."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.decimals import (
    ExactNumber,
    Number,
    float_above,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.enclosure import Enclosure, as_fraction
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.partition.distributions import (
    ExponentialDistribution,
    ReleaseDistribution,
)
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.mechanisms.randomness import RandomTape

MIN_RATE = Fraction(1, 1024)
"""The smallest c for which a walk is drawn. Near a large corner it goes as far as ln(2) / c from
zero, and time and memory grow with powers of that."""

MAX_RATE = 2**16
"""The largest c. It keeps c times a state within the exponents of MPFR numbers, which end at 2**30.
At far smaller c a release almost never differs from the list."""

MAX_TOTAL = 2**62
"""The largest total of a list. It leaves room for the noise of a release."""

_MAX_SIZE = 2**60
"""The largest size of bounds. With a private total of up to 2**62, every number stays within
2**63."""

_COST_PRECISION = 128


def check_total(name: str, total: object) -> None:
    """Raises a ValueError if no list can have this total, or this distance from another list."""
    if type(total) is not int or not 0 <= total <= MAX_TOTAL:
        raise ValueError(f"{name} must be an integer between 0 and 2**62, got {shown(total)}")


Draw = Callable[[RandomTape], Any]


@dataclass(frozen=True)
class PartitionMechanism(ABC):
    """Releases a list near the private list f. Weights of lists x that fall as q**||x - f||_1, or
    noise whose probabilities fall as powers of q, make it private.

    Neighbours: add or remove all records of one user, who contributes to at most ``sensitivity``
    partitions. That changes at most ``sensitivity`` counts by one each, all in one direction;
    sorting does not increase the L1 distance between the lists, so ||f - f'||_1 <= sensitivity, and
    the two Young diagrams are nested and differ in at most this many cells.

    Args:
      epsilon: the privacy parameter, in natural units; a float stands for the decimal that it
        prints as. Give this or eta.
      sensitivity: the most partitions that one user contributes to (max_partitions_per_user).
      eta: the parameter of the weights in base 2: q = 2**-eta.

    Attributes:
      decay: q, which is 2**-eta, or the smallest q at which the mechanism costs at most epsilon.
        Each mechanism states its own. It is at most e**(-epsilon / (2 * sensitivity)), since the
        weight of an outcome and the total of all weights each change by a factor of at most
        q**-sensitivity.

    Raises:
      ValueError: both or neither of epsilon and eta are given, a parameter is not positive, or c =
        -ln q is above 65,536 or below 1/1024, where a release of a list with large corners would
        take too long. (c is at least epsilon / (2 * sensitivity).)
    """

    epsilon: Number | None = None
    sensitivity: int = 1
    eta: Eta | None = None
    decay: Decay = field(init=False, repr=False, compare=False)

    title: ClassVar[str] = ExponentialDistribution.title  # in privacy statements
    min_rate: ClassVar[Fraction] = MIN_RATE  # the smallest c
    factors: ClassVar[int] = 2  # a release costs at most this many factors of q**-sensitivity
    # The class of ``distribution`` for releases without public bounds; the rate is its only
    # argument. If it is None and the mechanism does not decode, releases have no intervals.
    distribution_type: ClassVar[type[ReleaseDistribution] | None] = None
    decodes: ClassVar[bool] = False  # whether releases come with the noisy coordinates
    may_fail: ClassVar[bool] = False  # whether the list or the noise may prevent a release

    def __post_init__(self) -> None:
        sensitivity = positive_integer("sensitivity", self.sensitivity)
        object.__setattr__(self, "sensitivity", sensitivity)
        written = self.epsilon
        if self.eta is None:
            if written is None:
                raise ValueError("give epsilon or eta: what a release costs has no default")
            epsilon = positive_rational("epsilon", written)
            object.__setattr__(self, "epsilon", epsilon)
            decay = Decay(self._rate(epsilon))
        elif written is not None:
            raise ValueError("give epsilon or eta, not both")
        elif not isinstance(self.eta, Eta):
            raise ValueError(f"eta must be an Eta, got {shown(self.eta)}")
        else:
            decay = Decay(base=self.eta)
        self._check_rate(decay, written)
        object.__setattr__(self, "decay", decay)

    def _check_rate(self, decay: Decay, written: Number | None) -> None:
        """Raises a ValueError if c is out of range; ``written`` is the caller's own epsilon."""
        lowest, highest = decay.log_enclosure(64)
        given = f"got epsilon={written}, eta={self.eta}, sensitivity={self.sensitivity}"
        if lowest > MAX_RATE:
            raise ValueError(
                f"the rate of the weights must be at most {MAX_RATE}, {given}: lower epsilon"
            )
        if highest >= self.min_rate:
            return
        advice = "raise epsilon or bound each user to fewer partitions"
        if self.eta is not None:
            raise ValueError(
                f"the rate of the weights must be at least {self.min_rate}, {given}: {advice}"
            )
        assert isinstance(self.epsilon, ExactNumber)
        # A rate this small is proportional to epsilon.
        least = float(self.epsilon * self.min_rate / as_fraction(highest))
        raise ValueError(
            f"epsilon must be at least {1.001 * least:.3g} where a user counts in up to "
            f"{self.sensitivity} partitions, got {written}: {advice}"
        )

    @property
    def epsilon_cost(self) -> float:
        """Returns the epsilon of the release's (epsilon, delta)-DP, in natural units.

        It is ``epsilon``, or the cost of ``eta``, rounded up to 15 digits unless a float prints it
        exactly; ``PrivacyBudget`` reads it as printed.

        >>> from dp_transforms.mechanisms import ExactTotalMechanism, IntegerPartitionMechanism
        >>> ExactTotalMechanism(eta=Eta(1, 1, 1), sensitivity=3, total=9).epsilon_cost  # 6 ln 2
        4.15888308335968
        >>> IntegerPartitionMechanism(eta=Eta(1, 1, 1), sensitivity=3).epsilon_cost
        3.42658170196766
        """
        if self.eta is None:
            assert isinstance(self.epsilon, ExactNumber)
            return float_above(self.epsilon)
        return float_above(as_fraction((self._unit_cost() * self.sensitivity).upper))

    def _rate(self, epsilon: Fraction) -> Fraction:
        """Returns a c at which a release costs at most epsilon."""
        return epsilon / (self.factors * self.sensitivity)

    def _unit_cost(self) -> Enclosure:
        """Encloses the cost of a release per unit of sensitivity. The upper bound is proved."""
        return self.decay.log_enclosure(_COST_PRECISION) * self.factors

    @property
    def loss_range(self) -> float:
        """Returns 2 c * sensitivity, rounded up. If the set of possible lists is public, the
        privacy losses of all releases lie in an interval of this length (see
        ``budget.BoundedRangeDpEvent``)."""
        rate = self.decay.log_enclosure(_COST_PRECISION)
        return float_above(as_fraction((rate * (2 * self.sensitivity)).upper))

    @property
    def failure_probability(self) -> float:
        """Returns the delta of the release's (epsilon, delta)-DP: 0 for pure epsilon-DP."""
        return 0.0

    @property
    def distribution(self) -> ReleaseDistribution:
        """Returns the distribution of releases. Raises a ValueError if it has no formula."""
        raise ValueError(f"the distribution of releases of {type(self).__name__} has no formula")

    @property
    def rate(self) -> float:
        """Returns c = -ln q as a float."""
        return float(self.decay.log_enclosure(53)[0])

    def possible_lists(self) -> dict[str, Any]:
        """Returns the entries of a privacy statement that say which lists may be released. They
        are public."""
        return {"possible_lists": "all"}

    def release(
        self, frequency_list: FrequencyList, tape: RandomTape | None = None
    ) -> ReleasedList:
        """Returns one release of a private list.

        Args:
          frequency_list: the private list; empty is allowed.
          tape: the source of randomness; by default a fresh tape from the operating system. A tape
            serves one release only: the noise of two lists released by one tape would cancel.

        Raises:
          ValueError: the total is above 2**62, or a release has claimed the tape.
          TypeError: it is not a FrequencyList.
        """
        (released,) = self.release_many(frequency_list, 1, iter([tape or RandomTape.from_os()]))
        return released

    def release_many(
        self, frequency_list: FrequencyList, count: int, tapes: Iterator[RandomTape] | None = None
    ) -> list[ReleasedList]:
        """Returns independent releases, for evaluation: publishing them costs count * epsilon.

        Args:
          frequency_list: the private list.
          count: the number of releases.
          tapes: a tape for each; by default fresh ones from the operating system.

        Errors are those of ``release``, and a ValueError for a negative count.
        """
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        several = itertools.islice(tapes or iter(RandomTape.from_os, None), count)
        return [self._released(drawn) for drawn in self._drawn(frequency_list, several)]

    def _drawn(self, frequency_list: FrequencyList, tapes: Iterable[RandomTape]) -> Iterator[Any]:
        """Returns an iterator over the draws of all tapes, one of each. Raises as ``release``."""
        if not isinstance(frequency_list, FrequencyList):
            raise TypeError(
                "a mechanism releases a FrequencyList, got a "
                f"{type(frequency_list).__name__}: make one with FrequencyList.from_counts"
            )
        if frequency_list.total > MAX_TOTAL:
            raise ValueError("the total of a list to release must be at most 2**62")
        draw = self._draw(frequency_list)
        return (draw(tape.claim("frequency list")) for tape in tapes)

    def _released(self, drawn: Any) -> ReleasedList:
        """Returns the list of a draw. It depends on the draw and on public numbers alone."""
        return ReleasedList(drawn.frequencies, drawn.multiplicities, self)

    @abstractmethod
    def _draw(self, frequency_list: FrequencyList) -> Draw:
        """Returns a function that makes a draw from a tape: a list, or what ``_released`` makes the
        list from. The draws have the mechanism's distribution at this list."""


@dataclass(frozen=True)
class WithinBounds(PartitionMechanism):
    """Releases any list, or any list between public bounds. Such bounds are independent of the
    data, or were released under a budget of their own.

    A mechanism that draws a walk first moves the private list between the bounds, rank by rank.
    That brings no two lists farther apart. A mechanism that decodes noisy coordinates looks for
    lists between the bounds only, which is post-processing.
    """

    bounds: PartitionBounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bounds is None:
            return
        if not isinstance(self.bounds, PartitionBounds):
            raise ValueError(f"bounds must be PartitionBounds, got {shown(self.bounds)}")
        for name, size in (
            ("the total of lower", self.bounds.lower.total),
            ("the number of ranks of upper", self.bounds.upper.distinct),
            ("unbounded_ranks", self.bounds.unbounded_ranks),
            ("beyond", self.bounds.beyond),
        ):
            if size > _MAX_SIZE:
                raise ValueError(f"bounds: {name} must be at most 2**60, got {size}")

    def possible_lists(self) -> dict[str, Any]:
        if self.bounds is None:
            return super().possible_lists()
        return {"possible_lists": "between public bounds", "bounds_sha256": self.bounds.digest}
