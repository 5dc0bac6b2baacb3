"""Releases a frequency list and names from the same bounded records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import LIST_DIRECTORY, PARTITIONS_DIRECTORY
from dp_transforms.releases.base import Statement, Tables
from dp_transforms.releases.frequency_list import ListRelease, ListSpec
from dp_transforms.releases.names import NamesRelease, NamesSpec
from dp_transforms.releases.names_files import name_tables, names_table
from dp_transforms.releases.tables import publish

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine


@dataclass(frozen=True)
class ListAndNamesSpec:
    """Specifies both releases, whose costs add up. Each has its own statement and tables.

    Raises:
      ValueError: the names come with the number of users of other partitions. That number is about
        all records. Both releases here are about bounded records, in which some of these users have
        no other partition left.
    """

    frequency_list: ListSpec
    names: NamesSpec

    def __post_init__(self) -> None:
        if self.names.others_epsilon is not None:
            raise ValueError(
                "others_epsilon is for names alone, from all records: release them without a list"
            )

    @property
    def requests(self) -> tuple[Request, ...]:
        """Returns the parts of the budget that both releases need."""
        return (*self.frequency_list.requests, *self.names.requests)

    @property
    def public_groups(self) -> dict[str, Sequence[str]]:
        """Returns no names, since these releases have no groups."""
        return {}

    def release(self, engine: Engine) -> Collections:
        """Makes both releases, and returns the collections of the list, then those of the names."""
        return engine.list_and_names(self)


class ListAndNames(NamedTuple):
    """A list and names of the same records, which do not contradict each other; their costs add up.

    Attributes:
      frequency_list: how many users partitions have. Where names prove that the released list is
        too low, it is raised; ``names.frequency_list`` is the list as it was released.
      names: the partitions that enough users have, with estimates of their users by the list.
    """

    frequency_list: ListRelease
    names: NamesRelease

    @classmethod
    def of(cls, frequency_list: ListRelease, names: NamesRelease) -> ListAndNames:
        """Returns the list and the names, with the list raised where the names prove it too low.
        Raises a ValueError if they are not of the same records."""
        names = names.beside(frequency_list)
        agreeing = names.list_that_agrees
        assert agreeing is not None
        return cls(agreeing, names)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes each into a subdirectory, as the job does: see ``ListRelease.save``."""
        parts = {
            LIST_DIRECTORY: self.names.frequency_list or self.frequency_list,
            PARTITIONS_DIRECTORY: self.names,
        }
        publish({os.path.join(directory, name): part for name, part in parts.items()}, overwrite)

    def __repr__(self) -> str:
        return f"{self.frequency_list!r}\n\n{self.names!r}"


def name_tables_beside(
    frequency_list: ListRelease, selected: Iterable[pa.Table], statement: Statement
) -> Tables:
    """Returns the file of selected names, and that of their estimated users, which follow from the
    list."""
    tables = list(selected)
    names = NamesRelease(names_table(tables, statement), statement, frequency_list)
    # Both sides have the file of names. The right one stays: its bytes are the same for all ways to
    # make the release.
    return names._tables() | name_tables(tables, statement)
