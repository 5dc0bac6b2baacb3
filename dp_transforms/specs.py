"""Specifies releases: their kinds, mechanisms and costs.

Specifications are checked when they are made, without data, Beam or Arrow. Jobs, functions and
transforms make a release from the same specification, on either engine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.mechanisms import DiscreteLaplace
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number, positive_integer, positive_rational
from dp_transforms.mechanisms.degree_projection import (
    UNDIRECTED,
    edge_private_sensitivity,
    node_private_sensitivity,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    NoisyCountStrategy,
    SelectionStrategy,
    TruncatedGeometricSelection,
    make_strategy,
)
from dp_transforms.mechanisms.selection.strategy import REPLACE
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, UserDegreeMechanism

MOST_PERIODS = 10_000
ALL_USERS = ""
"""The list of all users has this attribute and group."""
ALL_USERS_LIST = "list of all users"
SELECTION = "names of groups"


def price_of(mechanism: PartitionMechanism | UserDegreeMechanism) -> PrivacyBudget:
    """Returns the cost of a release, with the exact epsilon that the mechanism was given."""
    given = mechanism.epsilon
    delta = getattr(mechanism, "failure_probability", 0)
    return PrivacyBudget(mechanism.epsilon_cost if given is None else given, delta)


def arguments(spec: Any) -> dict[str, Any]:
    """Returns the arguments of the transform that makes a specified release."""
    return {field.name: getattr(spec, field.name) for field in fields(spec) if field.init}


class Spec:
    """A specification is a frozen dataclass."""

    verb: ClassVar[str]
    """This method of an engine makes the release, see ``runtime.in_process``."""

    @property
    def requests(self) -> tuple[Request, ...]:
        """Returns the parts of the budget that the release needs."""
        raise NotImplementedError

    @property
    def cost(self) -> PrivacyBudget:
        """Returns the cost of all parts together, by basic composition."""
        return sum((one.cost.budget for one in self.requests), PrivacyBudget(0))


@dataclass(frozen=True)
class ListSpec(Spec):
    """Specifies a frequency list, with at most ``mechanism.sensitivity`` partitions per user."""

    verb = "frequency_list"
    mechanism: PartitionMechanism

    @property
    def requests(self) -> tuple[Request, ...]:
        cost = Cost(price_of(self.mechanism), self.mechanism.loss_range)
        return (Request("frequency list", cost),)


@dataclass(frozen=True)
class UserDegreesSpec(Spec):
    """Specifies numbers of users by how many partitions they have: see ``ReleaseUserDegrees``."""

    verb = "user_degrees"
    epsilon: Number
    max_degree: int = MAX_DEGREE

    def __post_init__(self) -> None:
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> UserDegreeMechanism:
        return UserDegreeMechanism(self.epsilon, self.max_degree)

    @property
    def requests(self) -> tuple[Request, ...]:
        return (Request("partitions per user", Cost(PrivacyBudget(self.epsilon))),)


@dataclass(frozen=True)
class DegreesSpec(Spec):
    """Specifies a list of degrees: see ``CountDegrees`` and ``CountProjectedDegrees``.

    With a ``degree_bound`` nodes are protected, and otherwise edges. ``nodes`` is their number, if
    it is public: no more come out, at no cost. See ``partition_mechanism`` for ``mechanism_name``.
    A ValueError names a value that is out of range.
    """

    verb = "degree_list"
    epsilon: Number
    degree: str = UNDIRECTED
    degree_bound: int | None = None
    nodes: int | None = None
    mechanism_name: str = AUTO

    def __post_init__(self) -> None:
        if self.degree_bound is not None and self.nodes is not None:
            raise ValueError("nodes is for the privacy of edges: a node more changes their number")
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> PartitionMechanism:
        sensitivity, bounds = edge_private_sensitivity(self.degree), None
        if self.degree_bound is not None:
            sensitivity = node_private_sensitivity(self.degree_bound, self.degree != UNDIRECTED)
        elif self.nodes is not None:
            # Without self-loops and repeated edges a degree is at most the number of other nodes.
            others = positive_integer("nodes", self.nodes) - 1
            bounds = PartitionBounds.of_runs([0], [others], [self.nodes])
        return partition_mechanism(self.epsilon, sensitivity, self.mechanism_name, bounds=bounds)

    @property
    def unit(self) -> PrivacyUnit:
        return PrivacyUnit.EDGE if self.degree_bound is None else PrivacyUnit.NODE

    @property
    def requests(self) -> tuple[Request, ...]:
        cost = Cost(PrivacyBudget(self.epsilon), self.mechanism.loss_range)
        return (Request(f"{self.degree} degrees, {self.unit.value}-private", cost, self.unit),)


@dataclass(frozen=True)
class NamesSpec(Spec):
    """Specifies names to select: see ``SelectPartitions`` for the arguments and errors."""

    verb = "names"
    strategy: SelectionStrategy
    _: KW_ONLY
    noisy_counts: bool = False
    already_bounded: bool = False
    intervals: bool = False
    others_epsilon: Number | None = None
    public_partitions: Sequence[Any] = ()  # or an Arrow array
    public_threshold: int | None = None
    context: str = "selection"

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, SelectionStrategy):
            raise TypeError(
                "strategy must be a SelectionStrategy, such as OptimalSelection(1, 1e-9), "
                f"got {type(self.strategy).__name__}"
            )
        name, public = self.strategy.name, bool(len(self.public_partitions))
        if self.public_threshold is not None and not public:
            raise ValueError("public_threshold is for public_partitions, and none are given")
        if self.noisy_counts or self.intervals or public:
            self.require_counts()
        if self.noisy_counts and not isinstance(self.strategy, NoisyCountStrategy):
            raise ValueError(f"strategy {name!r} has no noisy counts")
        if self.intervals and not self.noisy_counts:
            raise ValueError("intervals are those of noisy_counts, which are not asked for")
        if public:
            if not isinstance(self.strategy, TruncatedGeometricSelection):
                raise ValueError(
                    f"public_partitions are for the strategy {TruncatedGeometricSelection.name!r}, "
                    f"got {name!r}"
                )
            if self.strategy.pre_threshold > 1:
                raise ValueError(
                    "pre_threshold and public_partitions exclude each other: one hides small "
                    "partitions, the other shows even empty ones"
                )
        _ = self.public_distribution, self.noise_of_others

    @classmethod
    def of(
        cls,
        strategy: str,
        epsilon: Number,
        delta: Number,
        max_partitions_per_user: int,
        *,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        **options: Any,
    ) -> NamesSpec:
        """Makes a specification from the arguments of ``make_strategy``, and fields as options;
        "auto" takes the strategy for public partitions, if there are any."""
        if strategy == AUTO and len(options.get("public_partitions", ())):
            strategy = TruncatedGeometricSelection.name
        given = {"pre_threshold": pre_threshold, "neighbours": neighbours}
        made = make_strategy(
            strategy,
            epsilon,
            delta,
            options.get("noisy_counts", False),
            options.get("already_bounded", False),
            max_partitions_per_user=max_partitions_per_user,
            **{name: value for name, value in given.items() if value is not None},
        )
        return cls(made, **options)

    def require_counts(self) -> None:
        """Raises a ValueError unless the strategy decides by counts of users alone."""
        if not isinstance(self.strategy, CountStrategy):
            raise ValueError(
                f"strategy {self.strategy.name!r} needs users' records: counts, noisy counts and "
                "public partitions are not for it"
            )

    @functools.cached_property
    def public_distribution(self) -> ThresholdDistribution | None:
        """Returns the rule for public partitions, if there are any."""
        if not len(self.public_partitions):
            return None
        assert isinstance(self.strategy, TruncatedGeometricSelection)
        return self.strategy.public_distribution(self.public_threshold or 0)

    @functools.cached_property
    def noise_of_others(self) -> DiscreteLaplace | None:
        """Returns the noise of the number of other users, if that is released."""
        if self.others_epsilon is None:
            return None
        return DiscreteLaplace(1 / positive_rational("others_epsilon", self.others_epsilon))

    @property
    def cap(self) -> int | None:
        """Returns the count, if any, from which on partitions are certain to be selected."""
        all_are_wanted = self.noisy_counts or self.public_distribution
        if all_are_wanted or not isinstance(self.strategy, CountStrategy):
            return None
        return self.strategy.saturation_count

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.requests_for("names of partitions")

    def requests_for(self, purpose: str) -> tuple[Request, ...]:
        """Returns the parts of the budget, of which that of names has this purpose."""
        strategy = self.strategy
        replaced = strategy.neighbours == REPLACE
        unit = PrivacyUnit.REPLACED_USER if replaced else PrivacyUnit.USER
        names = Request(purpose, Cost(PrivacyBudget(strategy.epsilon, strategy.delta)), unit)
        if self.others_epsilon is None:
            return (names,)
        others = Cost(PrivacyBudget(self.others_epsilon))
        return names, Request("users of other partitions", others, unit)


@dataclass(frozen=True, kw_only=True)
class _PeriodSpec(Spec):
    periods: Sequence[str]
    max_periods_per_user: int
    max_partitions_per_user: int
    epsilon: Number
    kind: str = "period"

    def __post_init__(self) -> None:
        object.__setattr__(self, "periods", tuple(self.periods))
        number = len(self.periods)
        named = all(isinstance(period, str) for period in self.periods)
        if not named or not 1 <= number <= MOST_PERIODS or len(set(self.periods)) < number:
            raise ValueError(
                f"there must be 1 to {MOST_PERIODS:,} different periods, as text, got {number:,}"
            )
        positive_integer("max_periods_per_user", self.max_periods_per_user)
        positive_integer("max_partitions_per_user", self.max_partitions_per_user)

    @property
    def periods_per_user(self) -> int:
        return min(self.max_periods_per_user, len(self.periods))

    @property
    def about(self) -> dict[str, Any]:
        """Returns the part of a privacy.json about the periods, of a ``kind`` such as "day"."""
        return {
            "of": self.kind,
            "first": self.periods[0],
            "last": self.periods[-1],
            "max_periods_per_user": self.periods_per_user,
        }


@dataclass(frozen=True, kw_only=True)
class PeriodListsSpec(_PeriodSpec):
    """Specifies a list for each public period: see ``ReleaseListsByPeriod`` for the arguments."""

    verb = "lists_by_period"
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.of_each

    @functools.cached_property
    def of_each(self) -> PartitionMechanism:
        each = PrivacyBudget(self.epsilon).epsilon / self.periods_per_user
        return partition_mechanism(each, self.max_partitions_per_user, self.mechanism)

    @property
    def requests(self) -> tuple[Request, ...]:
        return (Request(f"frequency list of each {self.kind}", Cost(PrivacyBudget(self.epsilon))),)

    @property
    def about(self) -> dict[str, Any]:
        whole = PrivacyBudget(self.epsilon).epsilon
        of_all = {"epsilon_of_all": float(whole), "epsilon_of_all_exact": str(whole)}
        return super().about | of_all


@dataclass(frozen=True, kw_only=True)
class PeriodNamesSpec(_PeriodSpec):
    """Specifies names in each public period: see ``SelectPartitionsByPeriod`` for the arguments."""

    verb = "names_by_period"
    delta: Number
    strategy: str = AUTO
    noisy_counts: bool = False
    intervals: bool = False
    pre_threshold: int | None = None
    neighbours: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.names

    @functools.cached_property
    def names(self) -> NamesSpec:
        """Returns the selection of pairs of a period and a partition, in all periods at once."""
        return NamesSpec.of(
            self.strategy,
            self.epsilon,
            self.delta,
            self.periods_per_user * self.max_partitions_per_user,
            pre_threshold=self.pre_threshold,
            neighbours=self.neighbours,
            noisy_counts=self.noisy_counts,
            already_bounded=True,
            intervals=self.intervals,
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.names.requests_for(f"names of partitions in each {self.kind}")

    @property
    def about(self) -> dict[str, Any]:
        bound = {"max_partitions_per_user_and_period": self.max_partitions_per_user}
        return super().about | bound


@dataclass(frozen=True)
class Attribute:
    """An attribute groups users by its values.

    A record without a value (a null, or an empty text) tells nothing about the attribute, and a
    user without any value is in none of its groups.

    Attributes:
      name: the column or field of its values, which are text, integers, booleans or dates.
      groups: the public values, as text; each gets a list, with or without users, and users with
        other values are in no group. None if groups are to be selected.

    Raises:
      ValueError: the name is taken, or a group is given twice, is empty or is no text, or groups
        are one text.
    """

    name: str
    groups: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name in ("user", "partition"):
            raise ValueError(f"an attribute cannot be called {shown(self.name)}: rename the column")
        if self.groups is None:
            return
        # The letters of a text are not groups.
        if isinstance(self.groups, str) or not isinstance(self.groups, Iterable):
            raise ValueError(
                f"groups of {self.name!r} must be several names, got {shown(self.groups)}"
            )
        object.__setattr__(self, "groups", tuple(self.groups))
        named = all(isinstance(group, str) and group for group in self.groups)
        if not self.groups or not named or len(set(self.groups)) < len(self.groups):
            raise ValueError(
                f"groups of {self.name!r} must be different names, as text, one at least"
            )


@dataclass(frozen=True, kw_only=True)
class GroupsSpec(Spec):
    """Specifies the list of all users and those of groups: see ``ReleaseGroupedLists`` for
    arguments and errors, and ``transforms.grouped`` for the guarantee and its proof."""

    verb = "grouped_lists"
    attributes: Sequence[Attribute]
    epsilon_all: Number
    epsilon_groups: Number
    max_partitions_per_user: int
    selection: PrivacyBudget | None = None
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not all(isinstance(attribute, Attribute) for attribute in self.attributes):
            raise TypeError('attributes must be Attributes, such as Attribute("country")')
        names = [attribute.name for attribute in self.attributes]
        if not names or len(set(names)) < len(names):
            raise ValueError("attributes must have different names, one at least")
        positive_integer("max_partitions_per_user", self.max_partitions_per_user)
        _ = self.for_all, self.for_group
        if not isinstance(self.selection, PrivacyBudget | None):
            raise TypeError(
                f"selection must be a PrivacyBudget, got {type(self.selection).__name__}"
            )
        if (self.selection is None) != (not self.to_select):
            raise ValueError(
                "selection must be given if, and only if, an attribute has no public groups"
            )
        _ = self.names

    @functools.cached_property
    def for_all(self) -> PartitionMechanism:
        return self._mechanism(PrivacyBudget(self.epsilon_all))

    @functools.cached_property
    def for_group(self) -> PartitionMechanism:
        return self._mechanism(self._of_attribute)

    @property
    def to_select(self) -> list[int]:
        """Returns the positions of the attributes whose groups are selected."""
        return [i for i, attribute in enumerate(self.attributes) if attribute.groups is None]

    @functools.cached_property
    def names(self) -> NamesSpec | None:
        """Returns the selection of groups; None if all are public."""
        if self.selection is None:
            return None
        budget, each = self.selection, len(self.to_select)
        return NamesSpec.of(
            AUTO, budget.epsilon, budget.delta, each, already_bounded=True, context=SELECTION
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        # Only one of an attribute's lists moves, so all have the range of one.
        of_all = Cost(PrivacyBudget(self.epsilon_all), self.for_all.loss_range)
        of_attribute = Cost(self._of_attribute, self.for_group.loss_range)
        return (
            Request(ALL_USERS_LIST, of_all),
            *(Request(f"lists of groups by {one.name}", of_attribute) for one in self.attributes),
            *(self.names.requests_for(SELECTION) if self.names else ()),
        )

    @property
    def _of_attribute(self) -> PrivacyBudget:
        return PrivacyBudget(self.epsilon_groups).split(len(self.attributes))

    def _mechanism(self, budget: PrivacyBudget) -> PartitionMechanism:
        return partition_mechanism(budget.epsilon, self.max_partitions_per_user, self.mechanism)
