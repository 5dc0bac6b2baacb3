"""Differentially private partition selection and frequency lists on Apache Beam."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_transforms.contributions import BoundContributions as BoundContributions
    from dp_transforms.contributions import DeclareBounded as DeclareBounded
    from dp_transforms.count_selection import SelectFromCounts as SelectFromCounts
    from dp_transforms.counting import CountDistinctUsers as CountDistinctUsers
    from dp_transforms.degrees import CountDegrees as CountDegrees
    from dp_transforms.degrees import CountProjectedDegrees as CountProjectedDegrees
    from dp_transforms.frequency_release import ReleaseFrequencyList as ReleaseFrequencyList
    from dp_transforms.grouped_lists import Attribute as Attribute
    from dp_transforms.grouped_lists import ReleaseGroupedLists as ReleaseGroupedLists
    from dp_transforms.job_secret import JobSecret as JobSecret
    from dp_transforms.job_secret import release_frequency_list as release_frequency_list
    from dp_transforms.private_releases import PrivateFrequencyList as PrivateFrequencyList
    from dp_transforms.private_releases import PrivatePartitions as PrivatePartitions
    from dp_transforms.runtime.records import ToRecords as ToRecords
    from dp_transforms.selection import SelectPartitions as SelectPartitions
    from dp_transforms.user_degrees import ReleaseUserDegrees as ReleaseUserDegrees
    from dp_transforms.windowed_lists import ReleaseListsByPeriod as ReleaseListsByPeriod
    from dp_transforms.windowed_lists import ReleaseWindowedLists as ReleaseWindowedLists
    from dp_transforms.windowed_lists import SelectPartitionsByPeriod as SelectPartitionsByPeriod
    from dp_transforms.windowed_lists import SelectWindowedPartitions as SelectWindowedPartitions

_HOMES = {
    "BoundContributions": "dp_transforms.contributions",
    "DeclareBounded": "dp_transforms.contributions",
    "CountDistinctUsers": "dp_transforms.counting",
    "CountDegrees": "dp_transforms.degrees",
    "CountProjectedDegrees": "dp_transforms.degrees",
    "ReleaseFrequencyList": "dp_transforms.frequency_release",
    "release_frequency_list": "dp_transforms.job_secret",
    "Attribute": "dp_transforms.grouped_lists",
    "ReleaseGroupedLists": "dp_transforms.grouped_lists",
    "JobSecret": "dp_transforms.job_secret",
    "PrivateFrequencyList": "dp_transforms.private_releases",
    "PrivatePartitions": "dp_transforms.private_releases",
    "ToRecords": "dp_transforms.runtime.records",
    "SelectFromCounts": "dp_transforms.count_selection",
    "SelectPartitions": "dp_transforms.selection",
    "ReleaseUserDegrees": "dp_transforms.user_degrees",
    "ReleaseListsByPeriod": "dp_transforms.windowed_lists",
    "ReleaseWindowedLists": "dp_transforms.windowed_lists",
    "SelectPartitionsByPeriod": "dp_transforms.windowed_lists",
    "SelectWindowedPartitions": "dp_transforms.windowed_lists",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that dp_transforms.mechanisms can be imported without Beam.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
