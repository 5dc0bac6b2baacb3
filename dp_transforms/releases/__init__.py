"""Holds a module for each kind of release: specification, cost, statement, tables and value."""

from dp_transforms.releases.all_records import AllRecordsRelease as AllRecordsRelease
from dp_transforms.releases.all_records import AllRecordsSpec as AllRecordsSpec
from dp_transforms.releases.attributes import AttributeReleases as AttributeReleases
from dp_transforms.releases.attributes import AttributesSpec as AttributesSpec
from dp_transforms.releases.base import ReleaseSpec as ReleaseSpec
from dp_transforms.releases.degrees import DegreesSpec as DegreesSpec
from dp_transforms.releases.frequency_list import ListRelease as ListRelease
from dp_transforms.releases.frequency_list import ListSpec as ListSpec
from dp_transforms.releases.grouped_all_records import (
    GroupAllRecordsReleases as GroupAllRecordsReleases,
)
from dp_transforms.releases.grouped_all_records import GroupAllRecordsSpec as GroupAllRecordsSpec
from dp_transforms.releases.groups import Attribute as Attribute
from dp_transforms.releases.groups import GroupReleases as GroupReleases
from dp_transforms.releases.groups import GroupsSpec as GroupsSpec
from dp_transforms.releases.hierarchy import HierarchyReleases as HierarchyReleases
from dp_transforms.releases.hierarchy import HierarchySpec as HierarchySpec
from dp_transforms.releases.list_and_names import ListAndNames as ListAndNames
from dp_transforms.releases.list_and_names import ListAndNamesSpec as ListAndNamesSpec
from dp_transforms.releases.names import NamesRelease as NamesRelease
from dp_transforms.releases.names import NamesSpec as NamesSpec
from dp_transforms.releases.node_degrees import NodeDegreesSpec as NodeDegreesSpec
from dp_transforms.releases.periods import PeriodAllRecordsSpec as PeriodAllRecordsSpec
from dp_transforms.releases.periods import PeriodListsSpec as PeriodListsSpec
from dp_transforms.releases.periods import PeriodNamesSpec as PeriodNamesSpec
from dp_transforms.releases.series import Releases as Releases
from dp_transforms.releases.user_degrees import UserDegreesSpec as UserDegreesSpec
