"""Differentially private partition selection and frequency lists: functions on data frames, and
transforms of Apache Beam."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_transforms.contributions import BoundContributions as BoundContributions
    from dp_transforms.contributions import DeclareBounded as DeclareBounded
    from dp_transforms.counting import CountDistinctUsers as CountDistinctUsers
    from dp_transforms.degrees import CountDegrees as CountDegrees
    from dp_transforms.degrees import CountProjectedDegrees as CountProjectedDegrees
    from dp_transforms.frames.answers import Comparison as Comparison
    from dp_transforms.frames.answers import GroupReleases as GroupReleases
    from dp_transforms.frames.answers import ListRelease as ListRelease
    from dp_transforms.frames.answers import NamesRelease as NamesRelease
    from dp_transforms.frames.answers import Releases as Releases
    from dp_transforms.frames.answers import Series as Series
    from dp_transforms.frames.answers import compare as compare
    from dp_transforms.frames.answers import load as load
    from dp_transforms.frames.api import choose_kappa as choose_kappa
    from dp_transforms.frames.api import plan as plan
    from dp_transforms.frames.api import release as release
    from dp_transforms.frames.api import release_by_period as release_by_period
    from dp_transforms.frames.api import release_counts as release_counts
    from dp_transforms.frames.api import release_degrees as release_degrees
    from dp_transforms.frames.api import release_groups as release_groups
    from dp_transforms.frames.api import select as select
    from dp_transforms.frames.from_frame import FromFrame as FromFrame
    from dp_transforms.frames.session import Session as Session
    from dp_transforms.frequency_release import ReleaseFrequencyList as ReleaseFrequencyList
    from dp_transforms.frequency_release import ReleaseUserDegrees as ReleaseUserDegrees
    from dp_transforms.grouped_lists import ReleaseGroupedLists as ReleaseGroupedLists
    from dp_transforms.job_secret import JobSecret as JobSecret
    from dp_transforms.job_secret import release_frequency_list as release_frequency_list
    from dp_transforms.runtime.records import ToRecords as ToRecords
    from dp_transforms.selection import SelectFromCounts as SelectFromCounts
    from dp_transforms.selection import SelectPartitions as SelectPartitions
    from dp_transforms.specs import Attribute as Attribute
    from dp_transforms.windowed_lists import ReleaseListsByPeriod as ReleaseListsByPeriod
    from dp_transforms.windowed_lists import ReleaseWindowedLists as ReleaseWindowedLists
    from dp_transforms.windowed_lists import SelectPartitionsByPeriod as SelectPartitionsByPeriod
    from dp_transforms.windowed_lists import SelectWindowedPartitions as SelectWindowedPartitions

_HOMES = {
    "contributions": ("BoundContributions", "DeclareBounded"),
    "counting": ("CountDistinctUsers",),
    "degrees": ("CountDegrees", "CountProjectedDegrees"),
    "frames.answers": (
        "Comparison",
        "GroupReleases",
        "ListRelease",
        "NamesRelease",
        "Releases",
        "Series",
        "compare",
        "load",
    ),
    "frames.api": (
        "choose_kappa",
        "plan",
        "release",
        "release_by_period",
        "release_counts",
        "release_degrees",
        "release_groups",
        "select",
    ),
    "frames.from_frame": ("FromFrame",),
    "frames.session": ("Session",),
    "frequency_release": ("ReleaseFrequencyList", "ReleaseUserDegrees"),
    "grouped_lists": ("ReleaseGroupedLists",),
    "job_secret": ("JobSecret", "release_frequency_list"),
    "runtime.records": ("ToRecords",),
    "selection": ("SelectFromCounts", "SelectPartitions"),
    "specs": ("Attribute",),
    "windowed_lists": (
        "ReleaseListsByPeriod",
        "ReleaseWindowedLists",
        "SelectPartitionsByPeriod",
        "SelectWindowedPartitions",
    ),
    "version": ("VERSION",),
}
__all__ = sorted(name for names in _HOMES.values() for name in names if name != "VERSION")


def __getattr__(name: str) -> Any:
    # Loaded when first used, so that dp_transforms.mechanisms can be imported without Beam.
    if name == "__version__":
        name = "VERSION"
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]
