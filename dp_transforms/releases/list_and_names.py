"""Releases a frequency list and names from the same bounded records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_transforms.budget.ledger import Request
from dp_transforms.releases.frequency_list import ListSpec
from dp_transforms.releases.names import NamesSpec

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine


@dataclass(frozen=True)
class ListAndNamesSpec:
    """Specifies both releases, whose costs add up. Each has its own statement and tables.

    Raises:
      ValueError: the names come with a number of other users. That is of all users, and both
        releases are of bounded records, in which some have no other partition left.
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

    def release(self, engine: Engine) -> Collections:
        """Makes both releases, and returns the collections of the list, then those of the names."""
        return engine.list_and_names(self)
