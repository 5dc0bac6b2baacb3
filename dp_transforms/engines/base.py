"""States what an engine does: one method for each kind of release.

There are two engines: ``engines.in_process`` works in this process, and ``beam.engine`` by steps of
a Beam pipeline. Under one secret both make the same release. ``ReleaseSpec.release`` calls the
engine's method for the specification.
"""

from __future__ import annotations

import abc
from typing import Any

from dp_transforms.releases.all_records import AllRecordsSpec
from dp_transforms.releases.attributes import AttributesSpec
from dp_transforms.releases.degrees import DegreesSpec
from dp_transforms.releases.frequency_list import ListSpec
from dp_transforms.releases.grouped_all_records import GroupAllRecordsSpec
from dp_transforms.releases.groups import GroupsSpec
from dp_transforms.releases.hierarchy import HierarchySpec
from dp_transforms.releases.list_and_names import ListAndNamesSpec
from dp_transforms.releases.names import NamesSpec
from dp_transforms.releases.node_degrees import NodeDegreesSpec
from dp_transforms.releases.periods import (
    PeriodAllRecordsSpec,
    PeriodListsSpec,
    PeriodNamesSpec,
)
from dp_transforms.releases.user_degrees import UserDegreesSpec

Collections = tuple[Any, ...]
"""The collections of a release. In process they are lists of elements; on Beam they are
PCollections, which have no types. ``ReleaseSpec.tables`` makes the tables from the elements of the
first collection. The elements of further collections are dictionaries, and become entries of the
statement. The methods of ``Engine`` say what the elements are, and where a collection means
something else."""


class Engine(abc.ABC):
    """An engine makes releases of one source of records under one secret.

    Each kind of release has one method, and its only argument is the specification, called
    ``spec``. Random numbers are drawn from ``secret.tape(context)``, with a context that
    ``mechanisms.tape_contexts`` makes. So both engines make the same release, and a retry repeats
    it.

    Every method raises, when it is called or when the pipeline runs:
      ValueError, TypeError: the records cannot be used, see ``BoundContributions``.
    """

    @abc.abstractmethod
    def frequency_list(self, spec: ListSpec) -> Collections:
        """Releases the list of the records that bounding keeps: one ``ReleasedList``."""

    @abc.abstractmethod
    def all_records(self, spec: AllRecordsSpec) -> Collections:
        """Releases a survey of degrees, and a list at the kappa that follows from it: one
        ``SurveyedList``."""

    @abc.abstractmethod
    def names(self, spec: NamesSpec) -> Collections:
        """Releases names: tables of names, at least one. If ``spec.has_entries``, a second
        collection has the entries of the statement that follow from what was released."""

    @abc.abstractmethod
    def list_and_names(self, spec: ListAndNamesSpec) -> Collections:
        """Releases a list and names of the same records. The first collection is that of
        ``frequency_list``, or of ``all_records`` if the list comes with a survey. Those of
        ``names`` follow."""

    @abc.abstractmethod
    def lists_by_period(self, spec: PeriodListsSpec) -> Collections:
        """Releases lists by period: pairs of a period's name and its ``ReleasedList``."""

    @abc.abstractmethod
    def all_records_by_period(self, spec: PeriodAllRecordsSpec) -> Collections:
        """Releases a survey and a list by period: pairs of a period's name and its
        ``SurveyedList``."""

    @abc.abstractmethod
    def names_by_period(self, spec: PeriodNamesSpec) -> Collections:
        """Releases names by period: tables of names with the period in the column ``list``. If
        ``spec.names.has_entries``, a second collection is that of ``names``; its entries are about
        all periods together."""

    @abc.abstractmethod
    def grouped_lists(self, spec: GroupsSpec) -> Collections:
        """Releases the list of all users, and lists of groups: triples of an attribute, a group and
        its ``ReleasedList``. For all users, attribute and group are both ``ALL_USERS``."""

    @abc.abstractmethod
    def all_records_by_group(self, spec: GroupAllRecordsSpec) -> Collections:
        """Releases a survey and a list of all users and of groups: triples of an attribute, a group
        and its ``SurveyedList``."""

    @abc.abstractmethod
    def hierarchy(self, spec: HierarchySpec) -> Collections:
        """Releases the lists of a hierarchy: pairs of a group's path and its ``ReleasedList``."""

    @abc.abstractmethod
    def attribute_lists(self, spec: AttributesSpec) -> Collections:
        """Releases a list for each attribute of users: pairs of its label and its
        ``ReleasedList``."""

    @abc.abstractmethod
    def degree_list(self, spec: DegreesSpec) -> Collections:
        """Releases the degrees of a graph: one ``ReleasedList``. The unit of privacy is an edge, or
        a node if ``spec`` has a degree bound."""

    @abc.abstractmethod
    def node_degrees(self, spec: NodeDegreesSpec) -> Collections:
        """Releases the degrees of a graph under a bound that is chosen from the graph: one
        ``ProjectedList``."""

    @abc.abstractmethod
    def user_degrees(self, spec: UserDegreesSpec) -> Collections:
        """Releases how many users have how many partitions: one ``ReleasedDegrees``."""
