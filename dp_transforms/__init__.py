"""Differentially private partition selection and frequency lists: functions on data frames, and
transforms of Apache Beam."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dp_transforms.frames.answers import Comparison as Comparison
    from dp_transforms.frames.answers import GroupReleases as GroupReleases
    from dp_transforms.frames.answers import ListRelease as ListRelease
    from dp_transforms.frames.answers import NamesRelease as NamesRelease
    from dp_transforms.frames.answers import Releases as Releases
    from dp_transforms.frames.answers import Series as Series
    from dp_transforms.frames.answers import compare as compare
    from dp_transforms.frames.answers import load as load
    from dp_transforms.frames.api import choose_kappa as choose_kappa
    from dp_transforms.frames.api import degrees as degrees
    from dp_transforms.frames.api import plan as plan
    from dp_transforms.frames.api import release as release
    from dp_transforms.frames.api import release_by_period as release_by_period
    from dp_transforms.frames.api import release_counts as release_counts
    from dp_transforms.frames.api import release_groups as release_groups
    from dp_transforms.frames.api import select as select
    from dp_transforms.frames.from_frame import FromFrame as FromFrame
    from dp_transforms.frames.session import Session as Session
    from dp_transforms.runtime.job_secret import JobSecret as JobSecret
    from dp_transforms.runtime.job_secret import release_frequency_list as release_frequency_list
    from dp_transforms.runtime.records import ToRecords as ToRecords
    from dp_transforms.specs import Attribute as Attribute
    from dp_transforms.transforms.contributions import BoundContributions as BoundContributions
    from dp_transforms.transforms.contributions import DeclareBounded as DeclareBounded
    from dp_transforms.transforms.counting import CountDistinctUsers as CountDistinctUsers
    from dp_transforms.transforms.degrees import CountDegrees as CountDegrees
    from dp_transforms.transforms.degrees import CountProjectedDegrees as CountProjectedDegrees
    from dp_transforms.transforms.grouped import ReleaseGroupedLists as ReleaseGroupedLists
    from dp_transforms.transforms.reading import ReadRecords as ReadRecords
    from dp_transforms.transforms.release import ReleaseFrequencyList as ReleaseFrequencyList
    from dp_transforms.transforms.release import ReleaseUserDegrees as ReleaseUserDegrees
    from dp_transforms.transforms.selection import SelectFromCounts as SelectFromCounts
    from dp_transforms.transforms.selection import SelectPartitions as SelectPartitions
    from dp_transforms.transforms.windowed import ReleaseListsByPeriod as ReleaseListsByPeriod
    from dp_transforms.transforms.windowed import ReleaseWindowedLists as ReleaseWindowedLists
    from dp_transforms.transforms.windowed import (
        SelectPartitionsByPeriod as SelectPartitionsByPeriod,
    )
    from dp_transforms.transforms.windowed import (
        SelectWindowedPartitions as SelectWindowedPartitions,
    )

_HOMES = {
    "transforms.contributions": ("BoundContributions", "DeclareBounded"),
    "transforms.counting": ("CountDistinctUsers",),
    "transforms.degrees": ("CountDegrees", "CountProjectedDegrees"),
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
        "degrees",
        "release_groups",
        "select",
    ),
    "frames.from_frame": ("FromFrame",),
    "frames.session": ("Session",),
    "transforms.release": ("ReleaseFrequencyList", "ReleaseUserDegrees"),
    "transforms.grouped": ("ReleaseGroupedLists",),
    "runtime.job_secret": ("JobSecret", "release_frequency_list"),
    "runtime.records": ("ToRecords",),
    "transforms.selection": ("SelectFromCounts", "SelectPartitions"),
    "specs": ("Attribute",),
    "transforms.windowed": (
        "ReleaseListsByPeriod",
        "ReleaseWindowedLists",
        "SelectPartitionsByPeriod",
        "SelectWindowedPartitions",
    ),
    "transforms.reading": ("ReadRecords",),
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
