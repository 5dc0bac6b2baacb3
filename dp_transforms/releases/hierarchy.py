"""Releases the lists of all groups of a public hierarchy. Each is the union of its children's.

Groups lie in levels, such as states and counties, below the list of everything. Each partition
counts in one group of each level. A partition that appears in two counties is two partitions, named
by the county and itself. So the list of a state has the partitions of the lists of its counties
together. The released lists add up in the same way, exactly.

Theorem. The release is epsilon-DP for adding or removing all records of one user, where epsilon is
the sum of the levels' epsilons. Proof, for any value of the secret that keys the bounding:

1. The groups are public: which lists are released does not depend on the records. A record outside
   of all groups is dropped, whatever the other records are.
2. Each user's own records alone decide which pairs of a leaf group and a partition, at most kappa,
   are kept. So the bounded inputs of neighbours, which all levels read, are equal except for that
   user's pairs.
3. At one level each pair counts in one list: that of the group that contains its leaf group. So
   adding the user adds one to at most kappa counts in all lists of the level together, however the
   counts are spread over groups. Sorting each list does not increase its L1 distance. Hence the sum
   over groups of |X_g - Y_g|_1 is at most kappa.
4. Each list's coordinates get independent noise (``mechanisms.partition.frobenius``) of one rate,
   c = epsilon_level / kappa. The probability of all drawn coordinates of the level is the product
   of the probabilities of its groups' coordinates. For neighbours the ratio of these products is at
   most the product of exp(c |X_g - Y_g|_1), and so at most exp(c kappa) = exp(epsilon_level).
5. Levels have independent noise, and their epsilons add up: sequential composition.
6. The lists are computed from the noisy coordinates and public numbers: post-processing. QED.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import (
    COORDINATES_FILE,
    COORDINATES_HEADER,
    FREQUENCIES_HEADER,
    HIERARCHY_FILE,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.arguments import listed, shown
from dp_transforms.mechanisms.decimals import Number, parts_by_shares
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, ReleasedList
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.releases import hierarchy_page
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
    checked_coordinates,
    list_guarantee,
    price_entries,
    price_of,
    read_coordinates,
    read_list_table,
    rows_of,
)
from dp_transforms.releases.series import Releases
from dp_transforms.releases.tables import publish
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import (
    NO_WORDS,
    Words,
    amount,
    bound_words,
    guarantee_words,
    mechanism_words,
)

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine

Path = tuple[str, ...]
"""A group's name, after those of the groups above it; () for the list of everything."""
EVERYTHING = "all"
MOST_GROUPS = 100_000


class PartitionGroups(NamedTuple):
    """A public table of the leaf group of each partition. Other partitions are in no group.

    Attributes:
      partitions: the partitions, as text.
      groups: for each partition the place of its group in ``HierarchySpec.groups``.
    """

    partitions: tuple[str, ...]
    groups: tuple[int, ...]


def in_order(lists: Iterable[tuple[Path, ReleasedList]]) -> list[tuple[Path, ReleasedList]]:
    """Returns (path, list) from the top down, and sorted by path within a level."""
    return sorted(lists, key=lambda labelled: (len(labelled[0]), labelled[0]))


def padded(path: Path, levels: int) -> Path:
    """Returns the names of a group at all levels, which are empty below its own."""
    return path + ("",) * (levels - len(path))


def hierarchy_tables(lists: Iterable[tuple[Path, ReleasedList]], statement: Statement) -> Tables:
    """Returns the tables of the lists and of their noisy coordinates, from the top down.

    A row begins with the names of its group at all levels; those below the group's own level are
    empty.
    """
    levels = _level_names(statement)

    lists = in_order(lists)
    rows = [
        (*padded(path, len(levels)), *row) for path, released in lists for row in rows_of(released)
    ]
    coordinates = [
        (*padded(path, len(levels)), *row)
        for path, released in lists
        for row in released.coordinates or ()
    ]
    return {
        HIERARCHY_FILE: CsvTable((*levels, *FREQUENCIES_HEADER), rows),
        COORDINATES_FILE: CsvTable((*levels, *COORDINATES_HEADER), coordinates),
    }


@dataclass(frozen=True, kw_only=True)
class HierarchySpec(ReleaseSpec):
    """Specifies the lists of a hierarchy: see ``release_hierarchy`` for arguments and errors.

    Attributes:
      levels: names of the levels below the list of everything, from the top down.
      groups: the public leaf groups. Each is a tuple of the names of the group that contains it at
        each level, its own name last.
      epsilon: the cost of all lists together.
      max_partitions_per_user: kappa.
      shares: how epsilon is divided among the list of everything and each level; equally by
        default.
      partition_groups: the leaf group of each partition, if records have no columns of levels.
      most_partitions: public upper bounds on the numbers of partitions of the leaf groups.
    """

    tables = ReleasedTables(HIERARCHY_FILE, hierarchy_tables)

    levels: Sequence[str]
    groups: Sequence[Path]
    epsilon: Number
    max_partitions_per_user: int
    shares: Sequence[Number] | None = None
    partition_groups: PartitionGroups | None = None
    most_partitions: Sequence[int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _checked_levels(self.levels))
        object.__setattr__(self, "groups", _paths(self.groups, len(self.levels)))
        set_positive_integers(self, "max_partitions_per_user")
        if self.shares is not None:
            object.__setattr__(self, "shares", tuple(listed("shares", self.shares)))
        _ = self.mechanisms  # Refuses a budget or shares out of range now.
        if self.partition_groups is not None:
            _check_partitions(self.partition_groups, len(self.groups))
            if self.most_partitions is None:
                counts = Counter(self.partition_groups.groups)
                most = tuple(counts[place] for place in range(len(self.groups)))
                object.__setattr__(self, "most_partitions", most)
        if self.most_partitions is not None:
            most = _checked_most(self.most_partitions, len(self.groups))
            object.__setattr__(self, "most_partitions", most)

    @functools.cached_property
    def level_epsilons(self) -> tuple[Fraction, ...]:
        """Returns the cost of the list of everything, and that of the lists of each level."""
        whole, levels = PrivacyBudget(self.epsilon).epsilon, len(self.levels)
        try:
            return parts_by_shares(whole, self.shares, levels + 1)
        except ValueError as error:
            raise ValueError(
                f"{error}: one for the list of everything, and one for each of the {levels} levels"
            ) from None

    @functools.cached_property
    def mechanisms(self) -> tuple[FrobeniusMechanism, ...]:
        """Returns the mechanism of each level, which releases all its lists; everything first."""
        return tuple(
            FrobeniusMechanism(epsilon, self.max_partitions_per_user)
            for epsilon in self.level_epsilons
        )

    @functools.cached_property
    def paths(self) -> tuple[tuple[Path, ...], ...]:
        """Returns the sorted groups of each level, everything first."""
        return tuple(
            tuple(sorted({group[:depth] for group in self.groups}))
            for depth in range(len(self.levels) + 1)
        )

    @functools.cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Returns for each level below everything the place of each group's parent in ``paths``."""
        places = [{path: place for place, path in enumerate(level)} for level in self.paths]
        return tuple(
            tuple(above[path[:-1]] for path in level)
            for above, level in zip(places, self.paths[1:], strict=False)
        )

    @property
    def public_groups(self) -> dict[str, Sequence[str]]:
        if self.partition_groups is not None:
            return {}
        names = (tuple({path[-1] for path in level}) for level in self.paths[1:])
        return dict(zip(self.levels, names, strict=True))

    @property
    def requests(self) -> tuple[Request, ...]:
        # All lists of a level together have the loss range of one list (step 4 of the proof).
        return tuple(
            Request(title, Cost(price_of(mechanism), mechanism.loss_range))
            for title, mechanism in zip(self._titles, self.mechanisms, strict=True)
        )

    @property
    def _titles(self) -> list[str]:
        return ["list of everything", *(f"lists by {level}" for level in self.levels)]

    def release(self, engine: Engine) -> Collections:
        return engine.hierarchy(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        bound = bound_entries(self.max_partitions_per_user, bounded_by_job=True)
        statement = list_guarantee(self.mechanisms[0], NEIGHBOURS, bound)
        statement |= amount_entries("epsilon", self.cost.epsilon)
        statement["composition"] = "parallel within a level, sequential otherwise"
        statement["adds_up"] = "each list is the union of those of the groups below it"
        if self.most_partitions is not None:
            statement[_PUBLIC_BOUNDS] = "public"
        statement["levels"] = [
            {"level": level, "groups": len(paths), **price_entries(mechanism)}
            for level, paths, mechanism in zip(
                [EVERYTHING, *self.levels], self.paths, self.mechanisms, strict=True
            )
        ]
        return statement


_TAKEN_NAMES = {
    *("user", "partition", "list"),  # Columns of tables of records.
    *FREQUENCIES_HEADER,  # Columns of the released tables, as are the next ones.
    *COORDINATES_HEADER,
    EVERYTHING,  # The level of the list of everything.
    *("partitions", "total"),  # Columns of the table of all groups.
}
"""No level can have these names: tables would have two columns, or levels, of one name."""


def _checked_levels(levels: Any) -> Path:
    """Returns the names of levels as a tuple; a ValueError if they cannot be such names."""
    if isinstance(levels, str) or not isinstance(levels, Iterable):
        raise ValueError(f"levels must be several names, got {shown(levels)}")
    names = tuple(levels)
    are_names = all(isinstance(name, str) and name != "" for name in names)
    if not names or not are_names or len(set(names)) < len(names):
        raise ValueError("levels must be different names, as text, one at least")
    for name in names:
        if name in _TAKEN_NAMES:
            raise ValueError(f"levels cannot have the name {name!r}: rename the column")
    return names


def _paths(groups: Any, depth: int) -> tuple[Path, ...]:
    """Returns the leaf groups as tuples of ``depth`` names; a ValueError if they are not such."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise ValueError(f"groups must be several tuples of names, got {shown(groups)}")
    wrong = (
        f"each of groups must have a name, as text that is not empty, at each of the {depth} levels"
    )
    groups = tuple((group,) if isinstance(group, str) else group for group in groups)
    if not all(isinstance(group, Iterable) for group in groups):
        raise ValueError(wrong)
    paths = tuple(map(tuple, groups))
    if not 1 <= len(paths) <= MOST_GROUPS:
        raise ValueError(f"groups must be 1 to {MOST_GROUPS:,}, got {len(paths):,}")
    if not all(
        len(path) == depth and all(isinstance(name, str) and name for name in path)
        for path in paths
    ):
        raise ValueError(wrong)
    if len(set(paths)) < len(paths):
        raise ValueError("groups must be different: one is given twice")
    return paths


def _checked_most(given: Any, groups: int) -> tuple[int, ...]:
    """Returns upper bounds on numbers of partitions as a tuple; a ValueError if they are not
    integers from 0, one for each of so many groups."""
    most: tuple[int, ...] = ()
    with contextlib.suppress(TypeError):  # A bound is no integer. The error is raised below.
        most = tuple(map(operator.index, listed("most_partitions", given)))
    if len(most) != groups or not all(0 <= number <= MAX_VALUE for number in most):
        raise ValueError(
            f"most_partitions must be integers from 0, one for each of the {groups:,} groups, "
            "in their order"
        )
    return most


def _check_partitions(table: PartitionGroups, groups: int) -> None:
    """Raises a ValueError if the table does not put each partition into one of so many groups, or a
    TypeError if it is no such table."""
    if not isinstance(table, PartitionGroups):
        raise TypeError(
            f"partition_groups must be a releases.hierarchy.PartitionGroups, got {shown(table)}"
        )
    if len(set(table.partitions)) < len(table.partitions):
        raise ValueError("each partition must be in one group: a partition is given twice")
    if len(table.partitions) != len(table.groups) or not all(
        0 <= group < groups for group in table.groups
    ):
        raise ValueError("partition_groups must give each partition the place of a group")


class _AddedUp(ListRelease):
    """A list that adds up with others. Its estimates are the list's own numbers, and an interval is
    widened if it does not contain its estimate."""

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        low, high = super()._ends(name, index, value, confidence)
        return min(low, value), max(high, value)


class HierarchyReleases(Releases):
    """Maps the path of each group, such as ("Texas", "Harris"), to its list; () is everything.

    Lists add up exactly: the list of a group has the partitions of its ``children`` together. The
    intervals of each group are proved, from the noise of its own coordinates.

    Attributes:
      statement: the joint guarantee, as in privacy.json.
    """

    _file_name = HIERARCHY_FILE

    def __init__(self, lists: Mapping[Path, ReleasedList], statement: Mapping[str, Any]):
        prices = statement["levels"]
        common = {name: value for name, value in statement.items() if name not in _OF_ALL}
        releases = {
            path: _AddedUp(released, {**common, **prices[len(path)], "group": " / ".join(path)})
            for path, released in in_order(lists.items())
        }
        super().__init__(releases, "group")
        self.statement = dict(statement)

    @property
    def levels(self) -> tuple[str, ...]:
        """Returns the names of the levels below everything."""
        return tuple(_level_names(self.statement))

    def children(self, path: Path) -> list[Path]:
        """Returns the paths of the groups one level below a group."""
        path = tuple(path)
        return [other for other in self if len(other) == len(path) + 1 and other[:-1] == path]

    def level(self, name: str) -> dict[Path, ListRelease]:
        """Returns the lists of a level, such as "county"; "all" is the level of everything.

        Raises:
          ValueError: there is no such level.
        """
        names = [EVERYTHING, *self.levels]
        if name not in names:
            raise ValueError(f"level must be one of {', '.join(names)}, got {shown(name)}")
        depth = names.index(name)
        return {path: release for path, release in self.items() if len(path) == depth}

    def labels_with(self, users: str) -> list[str]:
        return [" / ".join(path) or "everything" for path in self]

    def _label_columns(self, name: Path) -> dict[str, str]:
        return dict(zip(self.levels, padded(name, len(self.levels)), strict=True))

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the lists into a directory, as a job does: see ``ListRelease.save``."""
        publish(directory, self, overwrite)

    def page(self, words: Words = NO_WORDS) -> Page:
        return hierarchy_page.hierarchy_page(self, words)

    def _figure(self) -> Any:
        return hierarchy_page.hierarchy_figure(self, NO_WORDS)

    def _columns(self) -> dict[str, Any]:
        names = [self._label_columns(path) for path in self]
        columns: dict[str, Any] = {level: [name[level] for name in names] for level in self.levels}
        for number, method in _NUMBERS.items():
            estimates = [method(release) for release in self.values()]
            columns[number] = [estimate.value for estimate in estimates]
            columns[f"{number}, low"] = [estimate.low for estimate in estimates]
            columns[f"{number}, high"] = [estimate.high for estimate in estimates]
        return columns

    @property
    def _words(self) -> int:  # type: ignore[override]
        return len(self.levels)

    def statement_words(self) -> list[str]:
        return statement_words(self.statement)

    def _tables(self) -> Tables:
        lists = ((path, release.released) for path, release in self.items())
        return hierarchy_tables(lists, dict(self.statement))


_PUBLIC_BOUNDS = "most_partitions_of_groups"
"""The entry of a statement that says that such bounds were taken as public."""
_OF_ALL = ("levels", "composition", "adds_up", _PUBLIC_BOUNDS)
"""These fields of a statement concern several groups together."""


def statement_words(statement: Mapping[str, Any]) -> list[str]:
    """Puts the privacy.json of a hierarchy into paragraphs that a publisher can paste."""
    whole, *levels = statement["levels"]
    parts = [f"{amount(whole['epsilon'])} for the list of everything"]
    parts += [f"{amount(entry['epsilon'])} for the lists by {entry['level']}" for entry in levels]
    public = "The groups are public"
    if _PUBLIC_BOUNDS in statement:
        public += ", and so are upper bounds on their numbers of partitions, which were given"
    return [
        guarantee_words("These lists were released together", statement["epsilon"], statement),
        f"Epsilon adds up from: {', '.join(parts)}. A partition counts in one group of each level, "
        f"so a user changes all lists of a level together by no more than a single list. {public}. "
        "What is outside of all groups is in no list. The list of each group has the partitions "
        "of the groups below it together.",
        bound_words(statement),
        mechanism_words((entry["mechanism"] for entry in statement["levels"]), "users"),
    ]


_NUMBERS: dict[str, Callable[[ListRelease], Estimate]] = {
    "partitions": ListRelease.number_of_partitions,
    "total": ListRelease.total,
}


def _level_names(statement: Mapping[str, Any]) -> list[str]:
    """Returns the names of the levels below everything."""
    return [entry["level"] for entry in statement["levels"][1:]]


def read(saved: SavedRelease) -> HierarchyReleases:
    """Reads the lists of a hierarchy."""
    statement = saved.statement
    levels = _level_names(statement)
    lists = read_list_table(saved, HIERARCHY_FILE, (*levels, *FREQUENCIES_HEADER))
    arms = read_coordinates(saved, (*levels, *COORDINATES_HEADER))
    released = {}
    for label, frequency_list in lists.items():
        path = tuple(name for name in label if name)
        coordinates = checked_coordinates(
            saved.directory,
            arms.get(label),
            statement["levels"][len(path)],
            statement["sensitivity"],
        )
        columns_of_list = frequency_list.frequencies, frequency_list.multiplicities
        released[path] = ReleasedList(*columns_of_list, None, coordinates)
    return HierarchyReleases(released, statement)


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of a hierarchy."""
    return "levels" in statement


READER = Reader(HIERARCHY_FILE, _describes, read)
