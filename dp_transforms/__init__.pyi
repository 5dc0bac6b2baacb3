# The names of the API and their homes, for type checkers; at run time __init__.py loads them from
# here when they are first used.

from .beam.all_records import ReleaseAllRecords as ReleaseAllRecords
from .beam.attributes import ReleaseAttributes as ReleaseAttributes
from .beam.contributions import BoundContributions as BoundContributions
from .beam.contributions import CountDistinctUsers as CountDistinctUsers
from .beam.contributions import DeclareBounded as DeclareBounded
from .beam.degrees import CountDegrees as CountDegrees
from .beam.degrees import CountProjectedDegrees as CountProjectedDegrees
from .beam.degrees import ReleaseNodeDegrees as ReleaseNodeDegrees
from .beam.grouped import ReleaseGroupedLists as ReleaseGroupedLists
from .beam.hierarchy import ReleaseHierarchy as ReleaseHierarchy
from .beam.reading import FromFrame as FromFrame
from .beam.reading import ReadRecords as ReadRecords
from .beam.records import ToRecords as ToRecords
from .beam.release import ReleaseFrequencyList as ReleaseFrequencyList
from .beam.release import ReleaseUserDegrees as ReleaseUserDegrees
from .beam.selection import SelectFromCounts as SelectFromCounts
from .beam.selection import SelectPartitions as SelectPartitions
from .beam.windowed import ReleaseAllRecordsByPeriod as ReleaseAllRecordsByPeriod
from .beam.windowed import ReleaseListsByPeriod as ReleaseListsByPeriod
from .beam.windowed import ReleaseWindowedAllRecords as ReleaseWindowedAllRecords
from .beam.windowed import ReleaseWindowedLists as ReleaseWindowedLists
from .beam.windowed import SelectPartitionsByPeriod as SelectPartitionsByPeriod
from .beam.windowed import SelectWindowedPartitions as SelectWindowedPartitions
from .frames.graphs import degrees as degrees
from .frames.groups import release_attributes as release_attributes
from .frames.groups import release_groups as release_groups
from .frames.groups import release_hierarchy as release_hierarchy
from .frames.kappa import choose_kappa as choose_kappa
from .frames.lists import release as release
from .frames.lists import release_by_period as release_by_period
from .frames.lists import release_counts as release_counts
from .frames.names import release_and_select as release_and_select
from .frames.names import select as select
from .frames.names import select_by_period as select_by_period
from .frames.planning import plan as plan
from .frames.session import Session as Session
from .releases.all_records import AllRecordsRelease as AllRecordsRelease
from .releases.attributes import AttributeReleases as AttributeReleases
from .releases.comparison import Comparison as Comparison
from .releases.comparison import compare as compare
from .releases.directory import load as load
from .releases.frequency_list import ListRelease as ListRelease
from .releases.groups import Attribute as Attribute
from .releases.groups import GroupReleases as GroupReleases
from .releases.hierarchy import HierarchyReleases as HierarchyReleases
from .releases.list_and_names import ListAndNames as ListAndNames
from .releases.name_answers import NameCount as NameCount
from .releases.names import NamesRelease as NamesRelease
from .releases.series import Releases as Releases
from .releases.series import Series as Series
from .releases.user_degrees import DegreesOfUsers as DegreesOfUsers
from .runtime.job_secret import JobSecret as JobSecret
from .runtime.job_secret import release_frequency_list as release_frequency_list

__version__: str
