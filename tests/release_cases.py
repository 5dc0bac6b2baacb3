"""Examples of every kind of release, on records with the columns user, page, sex and day.

A kind that is added needs an example here: then the conformance suite runs it on every engine.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.releases import (
    AllRecordsSpec,
    Attribute,
    AttributesSpec,
    DegreesSpec,
    GroupAllRecordsSpec,
    GroupsSpec,
    HierarchySpec,
    ListAndNamesSpec,
    ListSpec,
    NamesSpec,
    NodeDegreesSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
    PeriodNamesSpec,
    UserDegreesSpec,
)
from dp_transforms.releases.hierarchy import PartitionGroups


def whole(spec, collections):
    """The parts of a release that is written by itself: its specification, elements, and what the
    engine adds to its statement."""
    elements, *additions = collections
    entries = {}
    for collection in additions:
        for more in collection:
            entries |= more
    yield spec, elements, entries


def list_and_names(spec, collections):
    """The parts of a release that is written into two directories."""
    released, *names = collections
    yield from whole(spec.frequency_list, (released,))
    yield from whole(spec.names, names)


def each_period(spec, collections):
    """The parts of lists of periods, in the order in which they come."""
    for period, released in collections[0]:
        yield spec, [released], {"period": period}


@dataclass(frozen=True)
class ReleaseCase:
    """An example: the specification, the attribute columns that its records have, the period that
    replaces the times of the last of these, a function that gives the written parts, and how many
    rows the largest table of many records has at least."""

    spec: Any
    columns: tuple[str, ...] = ()
    period: str | None = None
    parts: Callable[..., Any] = whole
    least_rows: int = 3


NAMES = functools.partial(NamesSpec.of, epsilon=2, delta=1e-2, max_partitions_per_user=3)
LIST = ListSpec(partition_mechanism(1, 3))
DAYS = {"periods": [f"2026-01-0{day}" for day in range(1, 4)], "epsilon": 3, "kind": "day"}
UNBOUNDED_PERIODS = DAYS | {"max_periods_per_user": 2}
PERIODS = UNBOUNDED_PERIODS | {"max_partitions_per_user": 3}
UNBOUNDED_GROUPS = {
    "attributes": [Attribute("sex", ("f", "m", "x")), Attribute("day")],
    "epsilon_all": 1,
    "epsilon_groups": 2,
    "selection": PrivacyBudget(1, 1e-2),
}

HIERARCHY = HierarchySpec(
    levels=["sex", "day"],
    groups=[(sex, f"2026-01-0{day}") for sex in "mfx" for day in (1, 3, 2)],
    epsilon=2,
    max_partitions_per_user=3,
    shares=[1, 1, "2.5"],
)

CASES = {
    "list": ReleaseCase(LIST),
    "list by a walk": ReleaseCase(ListSpec(partition_mechanism(9, 3))),
    "all records": ReleaseCase(AllRecordsSpec(epsilon=2, max_degree=40)),
    "all records at a declared kappa": ReleaseCase(
        AllRecordsSpec(epsilon=2, max_partitions_per_user=3, survey_share="0.3")
    ),
    "names": ReleaseCase(NAMES("optimal")),
    "counts and others": ReleaseCase(
        NAMES("auto", noisy_counts=True, intervals=True, pre_threshold=3, others_epsilon=1)
    ),
    "names and counts at a chosen kappa": ReleaseCase(
        NAMES("auto", max_partitions_per_user=None, noisy_counts=True, intervals=True)
    ),
    "names in rounds": ReleaseCase(NAMES("measured", others_epsilon=1)),
    "public names": ReleaseCase(
        NAMES("auto", noisy_counts=True, public_partitions=pa.array(["1", "2", "1234567"]))
    ),
    "list and names": ReleaseCase(ListAndNamesSpec(LIST, NAMES("optimal")), parts=list_and_names),
    "list of all records and names": ReleaseCase(
        ListAndNamesSpec(
            AllRecordsSpec(epsilon=2, max_degree=40),
            NAMES("auto", max_partitions_per_user=None, noisy_counts=True, intervals=True),
        ),
        parts=list_and_names,
    ),
    "list and names in rounds": ReleaseCase(
        ListAndNamesSpec(LIST, NAMES("renyi_rounds")), parts=list_and_names
    ),
    "lists by period": ReleaseCase(PeriodListsSpec(**PERIODS), ("day",), "day", each_period),
    "all records by period": ReleaseCase(
        PeriodAllRecordsSpec(**UNBOUNDED_PERIODS, max_degree=40), ("day",), "day", each_period
    ),
    "names by period": ReleaseCase(
        PeriodNamesSpec(**PERIODS, delta=1e-2, noisy_counts=True), ("day",), "day"
    ),
    "names by period at a chosen kappa": ReleaseCase(
        PeriodNamesSpec(**DAYS, delta=1e-2, noisy_counts=True, intervals=True),
        ("day",),
        "day",
    ),
    "groups": ReleaseCase(
        GroupsSpec(**UNBOUNDED_GROUPS, max_partitions_per_user=3), ("sex", "day")
    ),
    "all records of groups": ReleaseCase(
        GroupAllRecordsSpec(**UNBOUNDED_GROUPS, max_degree=40), ("sex", "day")
    ),
    "hierarchy": ReleaseCase(HIERARCHY, ("sex", "day")),
    "hierarchy of named partitions": ReleaseCase(
        HierarchySpec(
            levels=["kind"],
            groups=["few", "many"],
            epsilon=2,
            max_partitions_per_user=3,
            partition_groups=PartitionGroups(("1", "2", "3", "5"), (0, 1, 1, 0)),
        )
    ),
    "attributes": ReleaseCase(
        AttributesSpec(
            attributes=["sex", "day", ("day", "sex")], epsilon=4, shares={("day", "sex"): 2}
        ),
        ("sex", "day"),
    ),
    "degrees": ReleaseCase(DegreesSpec(2)),
    "projected degrees": ReleaseCase(DegreesSpec(4, "in", degree_bound=3)),
    "node degrees": ReleaseCase(NodeDegreesSpec(4)),
    "node degrees, into nodes": ReleaseCase(NodeDegreesSpec(40, "in")),
    "partitions of users": ReleaseCase(UserDegreesSpec(1, max_degree=8)),
}
