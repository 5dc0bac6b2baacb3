"""Releases the list of all users and that of each group of them, under one budget."""

from __future__ import annotations

import abc
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import (
    COORDINATES_FILE,
    GROUPED_COORDINATES_HEADER,
    LISTS_FILE,
    LISTS_HEADER,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
    bound_entries,
    set_positive_integers,
)
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.lists import (
    is_decoded,
    list_guarantee,
    price_entries,
    read_lists,
    rows_of,
)
from dp_transforms.releases.names import NamesSpec
from dp_transforms.releases.series import Releases
from dp_transforms.releases.tables import publish
from dp_transforms.reports.entries import SURVEY
from dp_transforms.reports.phrases import amount, bound_words, guarantee_words, mechanism_words

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine

ALL_USERS_LIST = "list of all users"
SELECTION = "names of groups"


def grouped_tables(
    lists: Iterable[tuple[str, str, ReleasedList]], statement: Mapping[str, Any]
) -> Tables:
    """Returns the tables of lists, which come with their attribute and group and are sorted by
    them."""
    rows: list[tuple[Any, ...]] = []
    coordinates: list[tuple[Any, ...]] = []
    for attribute, group, released in sorted(lists, key=lambda labelled: labelled[:2]):
        rows += [(attribute, group, *row) for row in rows_of(released)]
        if released.coordinates is not None:
            coordinates += [(attribute, group, *row) for row in released.coordinates]
    tables = {LISTS_FILE: CsvTable(LISTS_HEADER, rows)}
    if is_decoded(statement):
        tables[COORDINATES_FILE] = CsvTable(GROUPED_COORDINATES_HEADER, coordinates)
    return tables


@dataclass(frozen=True)
class Attribute:
    """An attribute groups users by its values.

    A record without a value (a null, or an empty text) says nothing about the attribute, and a user
    without any value is in none of its groups.

    Attributes:
      name: the column or field of its values, which are text, integers, booleans or dates.
      groups: the public values, as text. Each gets a list, even if it has no users, and users with
        other values are in no group. None if groups are to be selected.

    Raises:
      ValueError: the name is taken; a group is given twice, is empty or is no text; or groups are a
        single text.
    """

    name: str
    groups: Sequence[str] | None = None

    def __post_init__(self) -> None:
        is_name = isinstance(self.name, str) and self.name != ""
        if not is_name or self.name in ("user", "partition"):
            raise ValueError(f"an attribute cannot be called {shown(self.name)}: rename the column")
        if self.groups is None:
            return
        # A single text would be taken for a sequence of letters.
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
class GroupedSpec(ReleaseSpec):
    """Specifies what is released about all users and about groups of them. Subclasses say what it
    is. Arguments and errors are those of ``ReleaseGroupedLists``."""

    attributes: Sequence[Attribute]
    epsilon_all: Number
    epsilon_groups: Number
    selection: PrivacyBudget | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, Iterable):
            raise TypeError(f"attributes must be several Attributes, got {shown(self.attributes)}")
        positive_rational("epsilon_all", self.epsilon_all)
        positive_rational("epsilon_groups", self.epsilon_groups)
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not all(isinstance(attribute, Attribute) for attribute in self.attributes):
            raise TypeError('attributes must be Attributes, such as Attribute("country")')
        names = [attribute.name for attribute in self.attributes]
        if not names or len(set(names)) < len(names):
            raise ValueError("attributes must have different names, one at least")
        if not isinstance(self.selection, PrivacyBudget | None):
            raise TypeError(
                f"selection must be a PrivacyBudget, got {type(self.selection).__name__}"
            )
        if (self.selection is None) != (not self.to_select):
            raise ValueError(
                "selection must be given if, and only if, an attribute has no public groups"
            )
        _ = self.names

    @property
    @abc.abstractmethod
    def partitions_per_user(self) -> int:
        """Returns how many partitions of each user are kept."""

    @property
    def to_select(self) -> list[int]:
        """Returns the positions of the attributes whose groups are selected."""
        return [i for i, attribute in enumerate(self.attributes) if attribute.groups is None]

    @functools.cached_property
    def names(self) -> NamesSpec | None:
        """Returns the selection of groups; None if all are public."""
        if self.selection is None:
            return None
        groups_per_user = len(self.to_select)  # one of each attribute
        return NamesSpec.of(
            AUTO,
            self.selection.epsilon,
            self.selection.delta,
            groups_per_user,
            already_bounded=True,
            context=SELECTION,
        )

    @property
    def public_groups(self) -> dict[str, Sequence[str]]:
        return {attribute.name: attribute.groups or () for attribute in self.attributes}

    @property
    def of_attribute(self) -> PrivacyBudget:
        """Returns the budget of all groups of one attribute, which is also that of each group."""
        return PrivacyBudget(self.epsilon_groups).split(len(self.attributes))

    def requests_at(self, of_all: Cost, of_attribute: Cost) -> tuple[Request, ...]:
        """Returns the parts of the budget, given the cost of all users and that of the groups of
        one attribute."""
        return (
            Request(ALL_USERS_LIST, of_all),
            *(
                Request(f"lists of groups by {attribute.name}", of_attribute)
                for attribute in self.attributes
            ),
            *(self.names.requests_for(SELECTION) if self.names else ()),
        )

    @property
    def joint_entries(self) -> Statement:
        """Returns the entries of the statement about all lists together."""
        whole = self.cost
        statement = {
            "groups_per_user_and_attribute": 1,
            **amount_entries("epsilon", whole.epsilon),
            **amount_entries("delta", whole.delta),
            "composition": "parallel within an attribute, sequential otherwise",
        }
        if self.selection is not None and self.names is not None:
            statement["selection_of_groups"] = {
                "strategy": self.names.strategy.name,
                **amount_entries("epsilon", self.selection.epsilon),
                **amount_entries("delta", self.selection.delta),
            }
        return statement


@dataclass(frozen=True, kw_only=True)
class GroupsSpec(GroupedSpec):
    """Specifies the list of all users and the lists of groups. Arguments and errors are those of
    ``ReleaseGroupedLists``; ``beam.grouped`` has the guarantee and its proof."""

    tables = ReleasedTables(LISTS_FILE, grouped_tables)

    max_partitions_per_user: int
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        set_positive_integers(self, "max_partitions_per_user")
        _ = self.for_all, self.for_group

    @property
    def partitions_per_user(self) -> int:
        return self.max_partitions_per_user

    @functools.cached_property
    def for_all(self) -> PartitionMechanism:
        """Returns the mechanism of the list of all users."""
        return self._mechanism(PrivacyBudget(self.epsilon_all))

    @functools.cached_property
    def for_group(self) -> PartitionMechanism:
        """Returns the mechanism of each group's list."""
        return self._mechanism(self.of_attribute)

    @property
    def requests(self) -> tuple[Request, ...]:
        # A user is in one group of an attribute, so only one of its lists changes: all of them
        # together have the loss range of one.
        return self.requests_at(
            Cost(PrivacyBudget(self.epsilon_all), self.for_all.loss_range),
            Cost(self.of_attribute, self.for_group.loss_range),
        )

    def _mechanism(self, budget: PrivacyBudget) -> PartitionMechanism:
        return partition_mechanism(budget.epsilon, self.max_partitions_per_user, self.mechanism)

    def release(self, engine: Engine) -> Collections:
        return engine.grouped_lists(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        bound = bound_entries(self.for_all.sensitivity, bounded_by_job=True)
        statement = list_guarantee(self.for_all, NEIGHBOURS, bound) | self.joint_entries
        statement["lists"] = [{"of": "all users", **price_entries(self.for_all)}] + [
            {
                "of": "groups",
                "attribute": attribute.name,
                **price_entries(self.for_group),
                "groups": "selected" if attribute.groups is None else list(attribute.groups),
            }
            for attribute in self.attributes
        ]
        return statement


class GroupReleases(Releases):
    """Maps (attribute, value) to the list of each group, and ("", "") to that of all users;
    ``statement`` is the joint guarantee, as in privacy.json."""

    _file_name = LISTS_FILE

    def __init__(
        self, releases: Mapping[tuple[str, str], ListRelease], statement: Mapping[str, Any]
    ):
        super().__init__(releases, "group")
        self.statement = dict(statement)

    @classmethod
    def of(
        cls, lists: Mapping[tuple[str, str], ReleasedList], statement: Mapping[str, Any]
    ) -> GroupReleases:
        """Returns the releases of lists, given their joint statement."""
        prices = {entry.get("attribute", ""): entry for entry in statement["lists"]}
        common = statement_of_each(statement)
        releases = {}
        for (attribute, group), released in lists.items():
            of_list = {**common, **prices[attribute], "group": group}
            releases[attribute, group] = ListRelease(released, of_list)
        return cls(releases, statement)

    def labels_with(self, users: str) -> list[str]:
        of_all = f"all {users}"
        return [f"{attribute}: {group}" if attribute else of_all for attribute, group in self]

    @property
    def _names(self) -> list[str]:
        return self.labels

    def _label_columns(self, name: tuple[str, str]) -> dict[str, str]:
        return dict(zip(("attribute", "group"), name, strict=True))

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the lists into a directory, as a job does: see ``ListRelease.save``."""
        publish(directory, self, overwrite)

    def statement_words(self) -> list[str]:
        return statement_words(self.statement)

    def _tables(self) -> Tables:
        lists = ((*name, release.released) for name, release in self.items())
        return grouped_tables(lists, self.statement)


_OF_ALL = (
    "delta_exact",
    "lists",
    "selection_of_groups",
    "composition",
    "groups_per_user_and_attribute",
)
"""The fields of a statement about all lists together: the statement of one list has none of
them."""


def statement_of_each(statement: Mapping[str, Any]) -> Statement:
    """Returns the entries of a joint statement that hold for each list by itself."""
    common = {name: value for name, value in statement.items() if name not in _OF_ALL}
    # The lists are under pure differential privacy, even if the names of groups are not.
    return common | {"delta": 0}


def statement_words(statement: Mapping[str, Any]) -> list[str]:
    """Returns the privacy.json of lists of groups in words: paragraphs that a publisher can
    paste."""
    what = "These lists were released together"
    guarantee = guarantee_words(what, statement["epsilon"], statement)
    if statement["delta"]:
        epsilon, delta = amount(statement["epsilon"]), amount(statement["delta"])
        guarantee = (
            f"{what} under ({epsilon}, {delta})-differential privacy. The privacy unit is one "
            f"user; neighbouring data sets: {statement['neighbours']}."
        )
    # If each group has an entry, those of one attribute say the same here.
    parts_of_lists: dict[str, None] = {}
    for entry in statement["lists"]:
        lists = "the list of all users"
        if "attribute" in entry:
            lists = f"the groups by {entry['attribute']}"
        parts_of_lists[f"{amount(entry['epsilon'])} for {lists}"] = None
    parts = list(parts_of_lists)
    selection = statement.get("selection_of_groups")
    if selection:
        parts.append(f"{amount(selection['epsilon'])} for the names of groups that were not public")
    return [
        guarantee,
        f"Epsilon adds up from: {', '.join(parts)}. A user counts in at most one group of each "
        "attribute, so its groups together cost no more than one of them.",
        bound_words(statement),
        mechanism_words((entry["mechanism"] for entry in statement["lists"]), "users"),
    ]


def read(saved: SavedRelease) -> GroupReleases:
    """Reads the lists of groups."""
    lists, statement = read_lists(saved, LISTS_FILE, LISTS_HEADER, GROUPED_COORDINATES_HEADER)
    return GroupReleases.of(
        {(label[0], label[1]): released for label, released in lists.items()}, statement
    )


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of lists of groups without surveys."""
    if "lists" not in statement or SURVEY in statement:
        return False
    # Lists of attributes have columns.
    return not any("columns" in entry for entry in statement["lists"])


READER = Reader(LISTS_FILE, _describes, read)
