"""Releases a survey and a list of all users, and a survey and a list of each group of them.

So no kappa has to be declared: each list has its own, which its survey chooses, and answers are
about all records.

Privacy. Neighbours differ by all records of one user. A user's own records alone decide which value
of each attribute, at most one, the user has, so the user is in at most one group of an attribute.
``releases.all_records`` has the argument for one survey with its list, which cost epsilon together
for each outcome of the survey. The survey and list of all users cost ``epsilon_all``. The groups of
an attribute have different users, and random numbers of their own. So they cost together what one
of them costs: the attribute's part of ``epsilon_groups``. The kappa of a list follows from its own
survey. The rest of the argument (attributes, and names of groups) is that of ``beam.grouped``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import (
    ALL_RECORDS_FILE,
    GROUP_SURVEYS_FILE,
    GROUP_SURVEYS_HEADER,
    GROUPED_COORDINATES_HEADER,
    LISTS_FILE,
    LISTS_HEADER,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.releases.all_records import (
    AllRecordsRelease,
    AllRecordsSpec,
    SurveyOptions,
)
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    Statement,
    Tables,
    bound_entries,
)
from dp_transforms.releases.groups import (
    GroupedSpec,
    GroupReleases,
    grouped_tables,
    statement_of_each,
)
from dp_transforms.releases.lists import ALL_USERS, read_list_table, read_lists, rows_of
from dp_transforms.releases.surveys import (
    Survey,
    SurveyedList,
    estimate_of,
    read_degree_table,
    survey_of_rows,
)
from dp_transforms.reports.entries import CHOSEN_BY_SURVEY, SURVEY

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine

Label = tuple[str, str]
"""The attribute and the value of a group; both are empty for all users."""


def surveyed_group_tables(
    lists: Iterable[tuple[str, str, SurveyedList]], statement: Mapping[str, Any]
) -> Tables:
    """Returns the tables of surveys and lists, which come with their attribute and group."""
    entries = entries_of_lists(statement)
    surveyed = {(attribute, group): element for attribute, group, element in lists}
    estimates = {label: estimate_of(surveyed[label], entries[label]) for label in surveyed}
    return _tables_with(surveyed, estimates, statement)


def _tables_with(
    surveyed: Mapping[Label, SurveyedList],
    estimates: Mapping[Label, FrequencyList],
    statement: Mapping[str, Any],
) -> Tables:
    """Returns the tables, given the estimated lists of all records."""
    surveys: list[tuple[Any, ...]] = []
    all_records: list[tuple[Any, ...]] = []
    for label in sorted(surveyed):
        degrees = surveyed[label].survey.degrees
        surveys += [(*label, *row) for row in zip(degrees.lowest, degrees.users, strict=True)]
        all_records += [(*label, *row) for row in rows_of(estimates[label])]
    lists = ((*label, element.released) for label, element in surveyed.items())
    return {
        **grouped_tables(lists, statement),
        GROUP_SURVEYS_FILE: CsvTable(GROUP_SURVEYS_HEADER, surveys),
        ALL_RECORDS_FILE: CsvTable(LISTS_HEADER, all_records),
    }


def surveyed_group_entries(lists: Iterable[tuple[str, str, SurveyedList]]) -> Statement:
    """Returns the part of the statement that follows from the surveys: an entry for each list."""
    entries = []
    for attribute, group, surveyed in sorted(lists, key=lambda labelled: labelled[:2]):
        which = {"of": "all users"}
        if attribute != ALL_USERS:
            which = {"of": "group", "attribute": attribute, "group": group}
        entries.append(which | surveyed.entries)
    mechanisms = dict.fromkeys(entry["mechanism"] for entry in entries)
    return {"mechanism": " or the ".join(mechanisms), "lists": entries}


def entries_of_lists(statement: Mapping[str, Any]) -> dict[Label, Statement]:
    """Returns the entry of each list in a joint statement."""
    return {
        (entry.get("attribute", ALL_USERS), entry.get("group", ALL_USERS)): entry
        for entry in statement["lists"]
    }


@dataclass(frozen=True, kw_only=True)
class GroupAllRecordsSpec(GroupedSpec, SurveyOptions):
    """Specifies a survey and a list of all users, and of each group. Arguments besides those of
    ``ReleaseGroupedLists`` are those of ``SurveyOptions``, the same for each list."""

    tables = ReleasedTables(LISTS_FILE, surveyed_group_tables, surveyed_group_entries)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.for_all, self.for_group

    @functools.cached_property
    def for_all(self) -> AllRecordsSpec:
        """Returns the specification of the survey and list of all users."""
        return self.spec_at(PrivacyBudget(self.epsilon_all).epsilon)

    @functools.cached_property
    def for_group(self) -> AllRecordsSpec:
        """Returns the specification of the survey and list of each group."""
        return self.spec_at(self.of_attribute.epsilon)

    @property
    def partitions_per_user(self) -> int:
        return max(self.for_all.most_partitions, self.for_group.most_partitions)

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.requests_at(Cost(PrivacyBudget(self.epsilon_all)), Cost(self.of_attribute))

    def release(self, engine: Engine) -> Collections:
        return engine.all_records_by_group(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        """Returns the part of the statement that does not depend on the surveys."""
        bound: Statement = {"max_partitions_per_user_is": CHOSEN_BY_SURVEY}
        if self.max_partitions_per_user is not None:
            bound = bound_entries(self.max_partitions_per_user, bounded_by_job=True)
        groups = {
            attribute.name: "selected" if attribute.groups is None else list(attribute.groups)
            for attribute in self.attributes
        }
        of_each = self.for_all.guarantee(bounded_by_job)
        return {
            "neighbours": NEIGHBOURS,
            **bound,
            **self.joint_entries,
            **of_each,
            SURVEY: {"file": GROUP_SURVEYS_FILE, "largest_degree": self.largest_degree},
            "groups": groups,
        }


class GroupAllRecordsReleases(GroupReleases):
    """Maps (attribute, value) to the ``AllRecordsRelease`` of each group, and ("", "") to that of
    all users; ``statement`` is the joint guarantee, as in privacy.json."""

    @classmethod
    def of_surveyed(
        cls,
        surveyed: Mapping[Label, SurveyedList],
        statement: Mapping[str, Any],
        estimates: Mapping[Label, FrequencyList] | None = None,
    ) -> GroupAllRecordsReleases:
        """Returns the releases, from what an engine has made and the whole joint statement. Unless
        the estimated lists of all records are given, they are computed."""
        common, entries = statement_of_each(statement), entries_of_lists(statement)
        releases = {}
        for label in sorted(surveyed):
            of_list = {**common, **entries[label]}
            estimate = None if estimates is None else estimates[label]
            releases[label] = AllRecordsRelease.of(surveyed[label], of_list, estimate)
        return cls(releases, statement)

    def _tables(self) -> Tables:
        surveyed, estimates = {}, {}
        for label, release in self.items():
            survey = Survey(release.degrees, release.kappa, release.users_beyond)
            surveyed[label] = SurveyedList(survey, release.bounded.released, {})
            estimates[label] = release.released
        return _tables_with(surveyed, estimates, self.statement)


def read(saved: SavedRelease) -> GroupAllRecordsReleases:
    """Reads the lists, surveys and estimates of groups."""
    lists, statement = read_lists(saved, LISTS_FILE, LISTS_HEADER, GROUPED_COORDINATES_HEADER)
    rows_of = read_degree_table(saved, GROUP_SURVEYS_FILE, GROUP_SURVEYS_HEADER)
    estimated = read_list_table(saved, ALL_RECORDS_FILE, LISTS_HEADER)
    surveyed, estimates = {}, {}
    for label, entry in entries_of_lists(statement).items():
        survey = survey_of_rows(rows_of[label], entry)
        surveyed[label] = SurveyedList(survey, lists[label], {})
        estimates[label] = estimated[label]
    return GroupAllRecordsReleases.of_surveyed(surveyed, statement, estimates)


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of lists of groups with surveys."""
    return SURVEY in statement and "lists" in statement


READER = Reader(LISTS_FILE, _describes, read)
