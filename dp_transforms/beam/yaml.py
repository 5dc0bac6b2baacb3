"""Defines the transforms of Beam YAML: their parameters are plain values, and their elements rows.

``beam_yaml_providers.yaml`` names them for the ``providers`` of a pipeline. Each job draws its own
secret.
"""

# Annotations are not deferred, since Beam YAML reads the types of these signatures.

import datetime
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from dp_transforms.beam.all_records import ReleaseAllRecords
from dp_transforms.beam.attributes import ReleaseAttributes
from dp_transforms.beam.batching import objects
from dp_transforms.beam.contributions import (
    BoundContributions,
    CountDistinctUsers,
    DeclareBounded,
)
from dp_transforms.beam.degrees import CountDegrees, CountProjectedDegrees, ReleaseNodeDegrees
from dp_transforms.beam.grouped import ReleaseGroupedAllRecords, ReleaseGroupedLists
from dp_transforms.beam.hierarchy import ReleaseHierarchy
from dp_transforms.beam.records import RecordKind, ToRecords, field_types
from dp_transforms.beam.release import ReleaseFrequencyList
from dp_transforms.beam.selection import SelectPartitions
from dp_transforms.beam.windowed import (
    ReleaseWindowedAllRecords,
    ReleaseWindowedLists,
    SelectWindowedPartitions,
)
from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.columns import NOISY_COUNT, PARTITION
from dp_transforms.mechanisms.degree_projection import UNDIRECTED
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.releases import Attribute
from dp_transforms.releases.attributes import attribute_label
from dp_transforms.releases.degrees import chooses_degree_bound
from dp_transforms.releases.hierarchy import padded
from dp_transforms.releases.node_degrees import ProjectedList
from dp_transforms.releases.surveys import SurveyedList, estimate_of


def to_records(user: str, partition: list[str], drop_nulls: bool = False) -> beam.PTransform:
    """Renames the fields of rows to user and partition.

    Args:
      user: the field that identifies the user of a record.
      partition: the fields, one or several, by which users are counted.
      drop_nulls: leave out records without a user or without a partition.
    """
    return ToRecords(user, partition, drop_nulls=drop_nulls)


def bound_contributions(
    max_partitions_per_user: int, num_buckets: int | None = None
) -> beam.PTransform:
    """Keeps at most kappa distinct partitions of each user, at random.

    Args:
      max_partitions_per_user: kappa.
      num_buckets: how many parts users are split into.
    """
    return BoundContributions(max_partitions_per_user, num_buckets=num_buckets)


def declare_bounded(max_partitions_per_user: int, counted: bool | None = None) -> beam.PTransform:
    """Declares that users have, or are counted in, at most kappa partitions already.

    Args:
      max_partitions_per_user: kappa.
      counted: whether rows are counts (true) or records (false); by default as the steps before
        say.
    """
    return DeclareBounded(max_partitions_per_user, counted=counted)


def count_distinct_users(cap: int | None = None, num_buckets: int | None = None) -> beam.PTransform:
    """Counts the distinct users of each partition; gives private rows of partition and count.

    Args:
      cap: the number at which a count stops.
      num_buckets: how many parts users, or partitions, are split into.
    """
    return CountDistinctUsers(cap, num_buckets=num_buckets)


def select_partitions(
    epsilon: float,
    delta: float,
    max_partitions_per_user: int | None = None,
    strategy: str = "auto",
    noisy_counts: bool = False,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Selects the partitions that may be named; gives rows of partition (and noisy_count).

    Args:
      epsilon: the privacy loss, for adding or removing all records of one user.
      delta: the delta of the guarantee.
      max_partitions_per_user: the most partitions in which one user counts; by default the bound of
        a step before. If there is none, a noisy look at the records chooses how many count.
      strategy: the name of a strategy; auto takes the best for these parameters.
      noisy_counts: release noisy counts with the names.
      num_buckets: how many parts users and partitions are split into.
    """
    return SelectPartitions(
        epsilon,
        delta,
        max_partitions_per_user,
        strategy=strategy,
        noisy_counts=noisy_counts,
        num_buckets=num_buckets,
    )


def release_frequency_list(
    epsilon: float, max_partitions_per_user: int | None = None
) -> beam.PTransform:
    """Releases how many partitions have how many users; gives rows of frequency and multiplicity.

    Args:
      epsilon: the privacy loss, for adding or removing all records of one user.
      max_partitions_per_user: the most partitions in which one user counts; by default the bound of
        a step before.
    """
    return _as_rows(ReleaseFrequencyList(epsilon, max_partitions_per_user))


def release_all_records(
    epsilon: float, largest_degree: int | None = None, num_buckets: int | None = None
) -> beam.PTransform:
    """Estimates how many partitions have how many users in all records; needs no kappa.

    A survey of how many partitions users have chooses kappa. Takes rows with the fields user and
    partition that were not bounded before. Gives rows of frequency and multiplicity.

    Args:
      epsilon: the privacy loss of survey and list together, for adding or removing all records of
        one user.
      largest_degree: a public number of partitions that no user is thought to exceed. It is
        enforced.
      num_buckets: how many parts users, or partitions, are split into.
    """
    release = ReleaseAllRecords(epsilon, largest_degree=largest_degree, num_buckets=num_buckets)
    return _as_rows(release)


def release_grouped_lists(
    attributes: list[str],
    epsilon_all: float,
    epsilon_groups: float,
    max_partitions_per_user: int | None = None,
    groups: dict[str, list[str]] | None = None,
    epsilon_selection: float | None = None,
    delta: float | None = None,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Releases the list of all users and that of each group.

    Takes rows with the fields user, partition and the attributes. Gives rows of attribute, group,
    frequency and multiplicity, in which attribute and group are empty for all users.

    Args:
      attributes: the fields whose values are the groups.
      epsilon_all: the privacy loss of the list of all users.
      epsilon_groups: the privacy loss of all groups; each attribute gets an equal part.
      max_partitions_per_user: the most partitions in which one user counts. By default a survey of
        each list chooses it, and lists are estimates of all records.
      groups: maps attributes to the public names of their groups. For other attributes, names are
        selected.
      epsilon_selection: the privacy loss of the selection of names.
      delta: the delta of the selection of names.
      num_buckets: how many parts users, or partitions, are split into.
    """
    public = groups or {}
    for name in public:
        if name not in attributes:
            raise ValueError(f"groups are given for {name!r}, which is not one of attributes")
    given = [value for value in (epsilon_selection, delta) if value is not None]
    if len(given) == 1:
        raise ValueError("epsilon_selection and delta are given together, or neither is")
    named = [
        Attribute(name, tuple(public[name]) if name in public else None) for name in attributes
    ]
    options: dict[str, Any] = {
        "epsilon_all": epsilon_all,
        "epsilon_groups": epsilon_groups,
        "selection": PrivacyBudget(*given) if given else None,
        "num_buckets": num_buckets,
    }
    if max_partitions_per_user is None:
        release: beam.PTransform = ReleaseGroupedAllRecords(named, **options)
    else:
        release = ReleaseGroupedLists(
            named, max_partitions_per_user=max_partitions_per_user, **options
        )
    return release | "Rows" >> beam.FlatMapTuple(_grouped_rows).with_output_types(_GROUPED)


def release_attributes(
    attributes: list[str],
    epsilon: float,
    combinations: list[list[str]] | None = None,
    shares: dict[str, float] | None = None,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Releases how many users the values of each attribute have, without the values.

    Takes rows with the fields user and those of the attributes. Gives rows of attribute, frequency
    and multiplicity. An attribute whose released list is empty has no rows. The name of a
    combination is the names of its fields, joined by " + ".

    Args:
      attributes: the fields that get a list each.
      epsilon: the privacy loss of all lists together, for adding or removing all records of one
        user.
      combinations: several fields each, whose values together get a list.
      shares: maps the names of attributes and combinations to their shares of epsilon; those that
        it leaves out have the share 1. Shares, attributes and combinations are public.
      num_buckets: how many parts users are split into.
    """
    columns: list[tuple[str, ...]] = [(name,) for name in attributes]
    columns += map(tuple, combinations or [])
    by_label = {attribute_label(fields): fields for fields in columns}
    shares_by_fields = {}
    for label, share in (shares or {}).items():
        if label not in by_label:
            raise ValueError(f"shares are given for {label!r}, which is not released")
        shares_by_fields[by_label[label]] = share
    release = ReleaseAttributes(
        columns, epsilon=epsilon, shares=shares_by_fields, num_buckets=num_buckets
    )
    return release | "Rows" >> beam.FlatMapTuple(_attribute_rows).with_output_types(_ATTRIBUTES)


def release_hierarchy(
    levels: list[str],
    groups: list[list[str]],
    epsilon: float,
    max_partitions_per_user: int,
    shares: list[float] | None = None,
    most_partitions: list[int] | None = None,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Releases the lists of all groups of a public hierarchy, which add up.

    Takes rows with the fields user, partition and the levels. Gives rows of the levels, frequency
    and multiplicity. The fields of levels below a group's own are empty; for the list of everything
    all of them are. A group whose released list is empty has no rows.

    Args:
      levels: the fields that name groups, from the highest level to the lowest.
      groups: the public groups of the lowest level, each with a name for each level. Records of
        other groups are left out.
      epsilon: the privacy loss of all lists together, for adding or removing all records of one
        user.
      max_partitions_per_user: the most partitions in which one user counts, in all groups together.
      shares: how epsilon is divided among everything and each level; equally by default.
      most_partitions: public upper bounds on the numbers of partitions of the lowest groups.
      num_buckets: how many parts users, or partitions, are split into.
    """
    release = ReleaseHierarchy(
        levels=levels,
        groups=[tuple(group) for group in groups],
        epsilon=epsilon,
        max_partitions_per_user=max_partitions_per_user,
        shares=shares,
        most_partitions=most_partitions,
        num_buckets=num_buckets,
    )
    fields = RowTypeConstraint.from_fields([*((level, str) for level in levels), *_LIST])
    rows = beam.FlatMap(_hierarchy_rows, levels=levels)
    return release | "Rows" >> rows.with_output_types(fields)


def release_degree_list(
    epsilon: float,
    degree: str = UNDIRECTED,
    degree_bound: int | None = None,
    num_buckets: int | None = None,
    privacy_unit: str | None = None,
) -> beam.PTransform:
    """Releases how many nodes have each degree.

    Takes rows with the fields source and target, one for each edge. Gives rows of frequency (a
    degree) and multiplicity (its number of nodes).

    Args:
      epsilon: the privacy loss, for adding or removing one edge, or one node with all its edges.
      degree: undirected, in or out.
      degree_bound: the most edges that are kept at a node, if nodes are protected. It is public:
        choose it without looking at the graph. By default it is chosen from the graph, at a tenth
        of epsilon.
      num_buckets: how many parts edges and nodes are split into.
      privacy_unit: edge or node; by default edge, or node with a degree_bound.
    """
    if chooses_degree_bound(privacy_unit, degree_bound):
        release = ReleaseNodeDegrees(epsilon, degree, num_buckets=num_buckets)
        return release | "Rows" >> beam.FlatMap(_projected_rows).with_output_types(_FREQUENCIES)
    count: beam.PTransform = CountDegrees(degree, num_buckets=num_buckets)
    if degree_bound is not None:
        count = CountProjectedDegrees(degree_bound, degree, num_buckets=num_buckets)
    return count | "Release" >> release_frequency_list(epsilon)


def release_windowed_lists(
    epsilon: float,
    start: str,
    stop: str,
    max_windows_per_user: int,
    max_partitions_per_user: int | None = None,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Releases a list for each fixed window; gives rows of window, frequency and multiplicity.

    Takes rows with the fields user and partition, in windows of WindowInto. The name of a window is
    its start, such as 2026-01-31T00:00:00Z. A window whose released list is empty has no rows.

    Args:
      epsilon: the privacy loss of all lists together.
      start: a day or time, such as "2026-01-31". The windows that begin from then on are released.
      stop: the windows that begin before this day or time are released. Start and stop are public:
        choose both without looking at the records.
      max_windows_per_user: the most windows in which one user counts.
      max_partitions_per_user: the most partitions in which one user counts in each window. By
        default a survey of each window chooses it, and lists are estimates of all records of the
        windows in which a user counts.
      num_buckets: how many parts users, or partitions, are split into.
    """
    declares = max_partitions_per_user is not None
    transform: Any = ReleaseWindowedLists if declares else ReleaseWindowedAllRecords
    release = transform(
        epsilon=epsilon,
        start=_time("start", start),
        stop=_time("stop", stop),
        max_windows_per_user=max_windows_per_user,
        max_partitions_per_user=max_partitions_per_user,
        num_buckets=num_buckets,
    )
    return release | "Rows" >> beam.FlatMapTuple(_windowed_rows).with_output_types(_WINDOWED)


def select_windowed_partitions(
    epsilon: float,
    delta: float,
    start: str,
    stop: str,
    max_windows_per_user: int | None = None,
    max_partitions_per_user: int | None = None,
    noisy_counts: bool = False,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Selects the partitions that may be named in each fixed window.

    Takes rows with the fields user and partition, in windows of WindowInto. Gives rows of window,
    partition and, if asked for, noisy_count.

    Args:
      epsilon: the privacy loss of all windows together.
      delta: the delta of all windows together.
      start: a day or time, such as "2026-01-31". The windows that begin from then on are released.
      stop: the windows that begin before this day or time are released. Start and stop are public:
        choose both without looking at the records.
      max_windows_per_user: the most windows in which one user counts. By default a user counts in
        all windows; this needs no max_partitions_per_user.
      max_partitions_per_user: the most partitions in which one user counts in each window. By
        default a look at the records chooses how many count in all windows together.
      noisy_counts: release noisy counts with the names.
      num_buckets: how many parts users, or partitions, are split into.
    """
    return _NamesOfWindows(
        epsilon=epsilon,
        delta=delta,
        start=_time("start", start),
        stop=_time("stop", stop),
        max_windows_per_user=max_windows_per_user,
        max_partitions_per_user=max_partitions_per_user,
        noisy_counts=noisy_counts,
        num_buckets=num_buckets,
    )


class _NamesOfWindows(SelectWindowedPartitions):
    """Returns names in rows, whose partitions have the type that records declare."""

    def __init__(self, *, noisy_counts: bool, **options: Any):
        super().__init__(noisy_counts=noisy_counts, **options)
        self._counts = [(NOISY_COUNT, int)] if noisy_counts else []

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        partition = field_types(records.element_type).get(PARTITION, Any)
        fields = [("window", str), (PARTITION, partition), *self._counts]
        rows = beam.FlatMap(_rows_of_table, names=[name for name, _ in fields])
        return self.tables(records) | "Rows" >> rows.with_output_types(
            RowTypeConstraint.from_fields(fields)
        )


def _rows_of_table(table: pa.Table, names: list[str]) -> Iterable[beam.Row]:
    return objects(table.rename_columns(names), RecordKind.ROWS, names)


_LIST = [("frequency", int), ("multiplicity", int)]
_FREQUENCIES = RowTypeConstraint.from_fields(_LIST)
_GROUPED = RowTypeConstraint.from_fields([("attribute", str), ("group", str), *_LIST])
_ATTRIBUTES = RowTypeConstraint.from_fields([("attribute", str), *_LIST])
_WINDOWED = RowTypeConstraint.from_fields([("window", str), *_LIST])


def _time(name: str, text: str) -> Timestamp:
    """Returns the time of a text with a day or a time, which is in UTC unless it has a zone."""
    try:
        time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, TypeError, ValueError):
        # YAML reads 2026-01-31 without quotes as a date.
        raise ValueError(
            f"{name} must be a text such as '2026-01-31' or '2026-01-31T12:00:00Z', in quotes"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=datetime.timezone.utc)
    return Timestamp.from_utc_datetime(time.astimezone(datetime.timezone.utc))


def _rows(released: FrequencyList | SurveyedList, **labels: str) -> list[beam.Row]:
    """Returns the rows of a list, each of which begins with the labels. If the list has a survey,
    they are those of the estimated list of all records."""
    if isinstance(released, SurveyedList):
        released = estimate_of(released, released.entries)
    return [beam.Row(**labels, frequency=f, multiplicity=m) for f, m in released]


# Beam 2.65 reads types wrongly from a function with **labels, so lists have one without.
def _list_rows(released: FrequencyList | SurveyedList) -> list[beam.Row]:
    return _rows(released)


def _as_rows(release: beam.PTransform) -> beam.PTransform:
    """Returns a release of a list, with a step after it that makes rows of the list."""
    return release | "Rows" >> beam.FlatMap(_list_rows).with_output_types(_FREQUENCIES)


def _projected_rows(projected: ProjectedList) -> list[beam.Row]:
    return _rows(projected.released)


def _attribute_rows(attribute: str, released: FrequencyList) -> list[beam.Row]:
    return _rows(released, attribute=attribute)


def _hierarchy_rows(
    labelled: tuple[tuple[str, ...], FrequencyList], levels: list[str]
) -> list[beam.Row]:
    path, released = labelled
    names = padded(path, len(levels))
    return _rows(released, **dict(zip(levels, names, strict=True)))


def _windowed_rows(window: str, released: FrequencyList | SurveyedList) -> list[beam.Row]:
    return _rows(released, window=window)


def _grouped_rows(
    attribute: str, group: str, released: FrequencyList | SurveyedList
) -> list[beam.Row]:
    return _rows(released, attribute=attribute, group=group)
