"""Releases a frequency list and names from the same records.

If kappa is declared, users are bounded once, and both releases are of the same bounded records.
Otherwise a survey of degrees chooses kappa for the list, and a look chooses how many partitions of
a user count for names, each for its own purpose.

Privacy. Neighbours differ by all records of one user. Each of the two releases has its argument
where it is specified (``frequency_list`` or ``all_records``, and ``names``), for records of any
users. Their random numbers are drawn from different tapes, so the costs add up. Which partitions
of a user are kept is decided by one key for both: it is drawn independently of the records, and
both arguments hold for each value of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import LIST_DIRECTORY, PARTITIONS_DIRECTORY
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number, exact_fraction, positive_integer
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.releases.all_records import AllRecordsRelease, AllRecordsSpec
from dp_transforms.releases.base import CREATED, Statement, Tables
from dp_transforms.releases.frequency_list import ListRelease, ListSpec
from dp_transforms.releases.names import NamesRelease, NamesSpec
from dp_transforms.releases.names_files import name_tables, names_table
from dp_transforms.releases.surveys import SurveyedList
from dp_transforms.releases.tables import publish_several

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine


@dataclass(frozen=True)
class ListAndNamesSpec:
    """Specifies both releases, whose costs add up. Each has its own statement and tables.

    Attributes:
      frequency_list: the list of bounded records; or a survey and a list, to answer about all.
      names: from the records that the list is of; beside a survey, from all records.

    Raises:
      ValueError: the names come with the number of users of other partitions. That number is about
        all records, but the list may be about bounded records, in which some of these users have no
        other partition left. Or the list comes with a survey, and the names are ``already_bounded``
        or the survey has a ``largest_degree``: both would bound the records of one release alone.
    """

    frequency_list: ListSpec | AllRecordsSpec
    names: NamesSpec

    @classmethod
    def of(
        cls,
        whole: PrivacyBudget,
        selection_share: Number,
        max_partitions_per_user: int | None,
        *,
        mechanism: str,
        strategy: str,
        noisy_counts: bool,
    ) -> ListAndNamesSpec:
        """Returns the specification of both releases under one budget.

        Args:
          whole: the cost of both; all of delta is for the names.
          selection_share: the part of epsilon for the names, between 0 and 1.
          max_partitions_per_user: kappa of both releases. If it is None, a survey chooses kappa for
            the list, and a look chooses it for the names.
          mechanism: see ``partition_mechanism``.
          strategy: see ``NamesSpec.of``.
          noisy_counts: whether names have noisy counts, with intervals.

        Raises:
          ValueError: an argument is out of range, or there is no such mechanism or strategy.
        """
        share = exact_fraction("selection_share", selection_share)
        if not 0 < share < 1:
            raise ValueError(
                f"selection_share must be between 0 and 1, got {shown(selection_share)}"
            )
        for_names = PrivacyBudget(whole.epsilon * share, whole.delta)
        for_list = whole - for_names
        frequency_list: ListSpec | AllRecordsSpec
        if max_partitions_per_user is None:
            frequency_list = AllRecordsSpec(epsilon=for_list.epsilon, mechanism=mechanism)
        else:
            kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
            frequency_list = ListSpec(partition_mechanism(for_list.epsilon, kappa, mechanism))
        names = NamesSpec.of(
            strategy,
            for_names.epsilon,
            for_names.delta,
            max_partitions_per_user,
            noisy_counts=noisy_counts,
            intervals=noisy_counts,
            already_bounded=max_partitions_per_user is not None,
        )
        return cls(frequency_list, names)

    def __post_init__(self) -> None:
        if self.names.others_epsilon is not None:
            raise ValueError(
                "others_epsilon is for names alone, from all records: release them without a list"
            )
        if isinstance(self.frequency_list, ListSpec):
            # Both come from the same bounded records. If these were bounded to more than the names
            # are made for, the names would be less private than their statement says.
            kappa = self.frequency_list.mechanism.sensitivity
            bound = self.names.strategy.max_partitions_per_user
            if bound != kappa:
                raise ValueError(
                    "names beside a list must have its max_partitions_per_user, which is "
                    f"{kappa}, got {bound}"
                )
        else:
            if self.names.already_bounded:
                raise ValueError("names beside a survey must not be already_bounded")
            if self.frequency_list.largest_degree is not None:
                raise ValueError("largest_degree is for a list alone: names are from all records")

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
      frequency_list: how many users partitions have; an ``AllRecordsRelease`` if kappa was not
        declared. Where names prove that the released list is too low, it is raised;
        ``names.frequency_list`` is the list as it was released.
      names: the partitions that enough users have, with estimates of their users by the list.
    """

    frequency_list: ListRelease
    names: NamesRelease

    @classmethod
    def of(cls, frequency_list: ListRelease, names: NamesRelease) -> ListAndNames:
        """Returns the list and the names, with the list raised where the names prove it too low.
        Raises a ValueError if they are not of the same records, or of two jobs.

        The time of a release shows its job. Names must state nothing that follows from the list:
        they would cost as much as both, even if they were published alone.
        """
        times = {release.statement.get(CREATED) for release in (frequency_list, names)}
        if len(times - {None}) > 1:
            raise ValueError(
                "the list and the names were released at different times, so by two jobs: if they "
                "are of the same records, combine them by names.beside(frequency_list)"
            )
        names = names.beside(frequency_list, of_one_job=True)
        agreeing = names.list_that_agrees
        assert agreeing is not None
        return cls(agreeing, names)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the list as it was released, before names raised it, and the names into the
        subdirectories ``frequency_list`` and ``partitions``: see ``ListRelease.save``."""
        parts = {
            LIST_DIRECTORY: self.names.frequency_list or self.frequency_list,
            PARTITIONS_DIRECTORY: self.names,
        }
        publish_several(directory, parts, overwrite)

    def __repr__(self) -> str:
        return f"{self.frequency_list!r}\n\n{self.names!r}"


def list_release(element: ReleasedList | SurveyedList, statement: Statement) -> ListRelease:
    """Returns the list of an engine's only element, and its statement, as a release."""
    if isinstance(element, SurveyedList):
        return AllRecordsRelease.of(element, statement | element.entries)
    return ListRelease(element, statement)


def name_tables_beside(
    frequency_list: ListRelease, selected: Iterable[pa.Table], statement: Statement
) -> Tables:
    """Returns the file of selected names, and that of their estimated users, which follow from the
    list."""
    tables = list(selected)
    names = NamesRelease(
        names_table(tables, statement), statement, frequency_list, is_of_one_job=True
    )
    # Both sides have the file of names. The right one stays: its bytes are the same for all ways to
    # make the release.
    return names._tables() | name_tables(tables, statement)
