"""The parts that the functions share with the jobs: records, statements, and files of releases.

They are imported in functions, so that importing ``dp_transforms`` loads none of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
    from dp_transforms.mechanisms.released_list import ReleasedList
    from dp_transforms.mechanisms.selection import SelectionStrategy
    from dp_transforms.postprocessing.estimates import ReleaseIntervals
    from dp_transforms.specs import DegreesSpec, GroupsSpec

Names = str | int | Sequence[str | int]


def several(names: Names) -> list[str | int]:
    """One name, or several, as a list."""
    return [names] if isinstance(names, (str, int)) else list(names)


def records_of(
    data: Any, user: str | int, partition: Names, drop_nulls: bool, more: Sequence[str] = ()
) -> Any:
    """The records of data as a job reads them: a ``RecordSource``. See ``api.release``."""
    from dp_transforms.files.frame_records import FrameRecords

    partitions = several(partition)
    if not partitions:
        raise ValueError("partition must name at least one column")
    options: dict[str, Any] = {"drop_nulls": drop_nulls, "attribute_columns": tuple(more)}
    if isinstance(data, (str, os.PathLike)):
        # With the readers of all formats, which frames do not need.
        from dp_transforms.files.record_files import RecordFiles

        names = [str(name) for name in partitions]
        return RecordFiles(os.fspath(data), str(user), names, **options)
    return FrameRecords(data, user, partitions, **options)


def list_statement(mechanism: PartitionMechanism, columns: Sequence[str] | None) -> dict[str, Any]:
    """The privacy.json of a list, of counts that were made elsewhere if there are no columns."""
    from dp_transforms.reports.privacy_statement import frequency_list_statement

    statement = frequency_list_statement(mechanism, bounded_by_job=columns is not None)
    return statement if columns is None else statement | {"partition_columns": list(columns)}


def groups_statement(spec: GroupsSpec, columns: Sequence[str]) -> dict[str, Any]:
    """The privacy.json of lists of groups."""
    from dp_transforms.reports.privacy_statement import grouped_lists_statement

    return grouped_lists_statement(spec) | {"partition_columns": list(columns)}


def statements_of_groups(statement: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The privacy.json of a list of each attribute by itself, of which "" is that of all users."""
    of_all = ("lists", "selection_of_groups", "composition", "groups_per_user_and_attribute")
    common = {name: value for name, value in statement.items() if name not in of_all}
    # Every list is under pure differential privacy; names of groups may not be.
    return {one.get("attribute", ""): common | {"delta": 0} | one for one in statement["lists"]}


def degrees_statement(spec: DegreesSpec) -> dict[str, Any]:
    """The privacy.json of a list of degrees."""
    from dp_transforms.reports.privacy_statement import degree_list_statement

    return degree_list_statement(spec.mechanism, spec.degree, spec.degree_bound)


def records_by_period(
    data: Any, user: str | int, partition: Names, drop_nulls: bool, time: str, period: str
) -> Any:
    """The records of data, with the period of each."""
    source = records_of(data, user, partition, drop_nulls, [time])
    source.name_periods(period)
    return source


def names_of_periods(period: str, span: str) -> list[str]:
    """The names of the periods from one day to another."""
    from dp_transforms.files.period_names import PERIODS, period_names

    if period not in PERIODS:
        raise ValueError(f"period must be one of {', '.join(PERIODS)}, got {period!r}")
    return period_names(period, span)


def names_statement(
    strategy: SelectionStrategy, noisy_counts: bool, fields: Sequence[pa.Field]
) -> dict[str, Any]:
    """The privacy.json of names, with the types of the columns that they had."""
    from dp_transforms.reports.privacy_statement import columns_of, selection_statement

    statement = selection_statement(strategy, noisy_counts=noisy_counts, bounded_by_job=True)
    return statement | columns_of(fields)


def words_of(statement: Mapping[str, Any]) -> list[str]:
    """A statement in paragraphs."""
    from dp_transforms.reports.phrases import statement_words

    return statement_words(dict(statement))


def intervals(released: ReleasedList, statement: Mapping[str, Any]) -> ReleaseIntervals:
    """The intervals of a list, of its noisy coordinates or else by the stated distribution."""
    from dp_transforms.postprocessing.intervals import intervals_of
    from dp_transforms.postprocessing.walk_intervals import WalkIntervals
    from dp_transforms.reports.privacy_statement import distribution_of_statement

    if released.coordinates is not None:
        return intervals_of(released)
    return WalkIntervals(released, distribution_of_statement(dict(statement)))


def report(release: Any, *words: Any) -> str:
    """The page of a report, pictures included; ``words`` are those of ``reports.phrases.Words``."""
    from dp_transforms.reports.pages import page_of
    from dp_transforms.reports.phrases import Words

    return page_of(release, Words(*words))[0]


def plot(release: Any, path: str | os.PathLike[str] | None) -> Any:
    """The picture of several lists, or of two that are compared: see ``ListRelease.plot``."""
    from dp_transforms.reports.pages import figure_of

    figure = figure_of(release)
    if path is not None:
        figure.savefig(path)
    return figure


def save_list(
    directory: str, released: ReleasedList, statement: Mapping[str, Any], overwrite: bool
) -> None:
    """Writes what the job of a list writes."""
    from dp_transforms.files.filenames import COORDINATES_FILE, FREQUENCIES_FILE
    from dp_transforms.files.frequency_files import list_tables
    from dp_transforms.files.output import ReleaseDirectory

    beside = () if released.coordinates is None else (COORDINATES_FILE,)
    place = ReleaseDirectory(directory, FREQUENCIES_FILE, overwrite, beside=beside)
    _publish(place, list_tables([released]), statement)


def save_groups(
    directory: str,
    lists: Mapping[tuple[str, str], ReleasedList],
    statement: Mapping[str, Any],
    overwrite: bool,
) -> None:
    """Writes what the job of grouped lists writes."""
    from dp_transforms.files.filenames import COORDINATES_FILE, LISTS_FILE
    from dp_transforms.files.frequency_files import grouped_tables
    from dp_transforms.files.output import ReleaseDirectory

    decoded = any(one.coordinates is not None for one in lists.values())
    beside = (COORDINATES_FILE,) if decoded else ()
    place = ReleaseDirectory(directory, LISTS_FILE, overwrite, beside=beside)
    _publish(place, grouped_tables((*label, one) for label, one in lists.items()), statement)


def names_table(found: Sequence[pa.Table], fields: Sequence[pa.Field]) -> pa.Table:
    """Selected names in columns as they were called, in the order of the job's file."""
    import pyarrow as pa

    from dp_transforms.columnar.columns import PARTITION, concat, single
    from dp_transforms.files.filenames import COUNTS
    from dp_transforms.files.partition_file import in_order, partition_lines

    selected = concat(list(found))
    counts = {name: selected[name] for name in COUNTS if name in selected.column_names}
    rows = {line: row for row, line in enumerate(partition_lines(selected))}
    order = pa.array([rows[line] for line in in_order(rows, bool(counts))], pa.int64())
    selected = selected.take(order)
    names = single(selected[PARTITION])
    parts = names.flatten() if pa.types.is_struct(names.type) else [names]
    if not len(names):  # of no type
        parts = [pa.array([], field.type) for field in fields]
    columns = {field.name: part for field, part in zip(fields, parts, strict=True)}
    return pa.table(columns | {name: selected[name] for name in counts})


def names_of_columns(names: pa.Table, statement: Mapping[str, Any]) -> list[str]:
    """Returns the names of the columns that have the partitions, in such a table."""
    from dp_transforms.files.filenames import COUNTS

    counts = len(COUNTS) if statement["noisy_counts"] else 0
    return list(names.column_names[: names.num_columns - counts])


def save_names(
    directory: str, names: pa.Table, statement: Mapping[str, Any], overwrite: bool
) -> None:
    """Writes what the job of names writes."""
    import pyarrow as pa

    from dp_transforms.columnar.columns import PARTITION, single
    from dp_transforms.files.filenames import PARTITIONS_FILE
    from dp_transforms.files.output import ReleaseDirectory
    from dp_transforms.files.partition_file import header_line, partition_lines

    fields = list(names.schema)[: len(names_of_columns(names, statement))]
    counts = {name: names[name] for name in names.column_names[len(fields) :]}
    parts = [single(names[field.name]) for field in fields]
    partition = parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, fields=fields)
    lines = partition_lines(pa.table({PARTITION: partition} | counts))
    place = ReleaseDirectory(directory, PARTITIONS_FILE, overwrite, numbers=len(counts))
    header = header_line(fields, bool(counts))
    _publish(place, {PARTITIONS_FILE: [header, *lines]}, statement)


def _publish(place: Any, tables: Any, statement: Mapping[str, Any]) -> None:
    """Writes the tables, or raises the writer's error in words of Python."""
    try:
        place.check()
        place.publish(tables, dict(statement))
    except ValueError as error:
        told = str(error).replace("--overwrite", "overwrite=True").replace("--output", "directory")
        raise ValueError(told) from None


def read_release(directory: str) -> Any:
    """What a job has written into a directory: see ``dp_transforms.files.release_files``."""
    from dp_transforms.files.release_files import read_release as read

    return read(directory)
