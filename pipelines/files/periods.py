"""The periods of records, by the times in one of their columns."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import PARTITION, USER, single
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.windowed_lists import SelectPartitionsByPeriod
from pipelines.errors import InputError
from pipelines.files.logical_types import logical_name
from pipelines.files.names import FREQUENCIES_HEADER
from pipelines.files.output import ReleaseDirectory, frequency_lines
from pipelines.files.partition_file import partition_lines
from pipelines.files.period_names import FORMS
from pipelines.files.publishing import in_order
from pipelines.files.reading import ReadRecords
from pipelines.files.record_files import records_from_flags
from pipelines.files.record_source import RecordSource

_TIME = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3])(:\d\d.*)?)?$"
_HOUR = r"^\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3])(:\d\d.*)?$"
_LOGICAL = ("string", "date", "timestamp", "timestamp of a time zone")


def check_times(path: str, field: pa.Field) -> None:
    """Checks that a column can hold times.

    Raises:
      InputError: it is of another type.
    """
    if logical_name(field) not in _LOGICAL:
        raise InputError(
            f"{path}: column {field.name!r} is read as {logical_name(field)}, not as a time: store "
            "it as a date, a timestamp, or text such as 2026-01-31 23:59"
        )


def build_periods(
    pipeline: beam.Pipeline,
    reader: RecordSource,
    period: str,
    release: beam.PTransform,
    publish: Callable[[str, Any], None],
    watch: beam.PTransform,
) -> None:
    """Adds the whole job of a release for each period to a pipeline.

    Args:
      pipeline: where to.
      reader: gives the records, with the time as the only attribute.
      period: see ``periods_of``.
      release: makes pairs of a period and its release, with a secret of its own. No two jobs share
        one.
      publish: receives each of these.
      watch: tells of the records that are read.
    """
    records = pipeline | "ReadRecords" >> ReadRecords(reader) | "Records" >> watch
    named = records | "Periods" >> beam.Map(in_periods, period, reader.pattern).with_output_types(
        pa.Table
    )
    _ = named | "Release" >> release | "Publish" >> beam.MapTuple(publish)


class NamesByPeriod(beam.PTransform):
    """The lines of names that are selected in each period: (period, lines), of every period.

    Args:
      periods: all of them.
      select: selects the names.
    """

    def __init__(self, periods: Sequence[str], select: SelectPartitionsByPeriod):
        super().__init__()
        self._periods = periods
        self._select = select

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        # A period without names has a file too.
        all_ = tables.pipeline | "Public" >> beam.Create(
            [(name, []) for name in self._periods], reshuffle=False
        )
        found = tables | "Select" >> self._select | "Lines" >> beam.FlatMap(_lines_of_periods)
        return (
            (all_, found)
            | beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "Join" >> beam.MapTuple(lambda name, parts: (name, [*chain.from_iterable(parts)]))
        )


def _lines_of_periods(selected: pa.Table) -> Iterator[tuple[str, list[bytes]]]:
    for name in pc.unique(selected[LIST]).to_pylist():
        yield name, list(partition_lines(selected.filter(pc.equal(selected[LIST], name))))


def about_periods(
    flags: argparse.Namespace, names: Sequence[str], periods_per_user: int
) -> dict[str, Any]:
    """What a privacy.json says of periods."""
    return {
        "of": flags.period,
        "first": names[0],
        "last": names[-1],
        "max_periods_per_user": periods_per_user,
    }


def timed_records(flags: argparse.Namespace) -> RecordSource:
    """The records that the flags describe, with their times as an attribute.

    Raises:
      InputError, ValueError: see ``records_from_flags`` and ``check_times``.
    """
    reader = records_from_flags(flags, [flags.time_column])
    check_times(reader.pattern, reader.attribute_fields[0])
    return reader


def publish_names(
    directories: dict[str, ReleaseDirectory],
    header: bytes,
    statement: dict[str, Any],
    by_count: bool,
    name: str,
    lines: list[bytes],
) -> None:
    """Writes the names of one period into its directory, with their statement."""
    content = [header, *in_order(lines, by_count)]
    directories[name].publish(content, statement | {"period": name})


def publish_list(
    directories: dict[str, ReleaseDirectory],
    statement: dict[str, Any],
    name: str,
    released: ReleasedList,
) -> None:
    """Writes the list of one period into its directory, with its statement."""
    lines = [FREQUENCIES_HEADER, frequency_lines(released)]
    directories[name].publish(lines, statement | {"period": name})


def in_periods(table: pa.Table, period: str, path: str) -> pa.Table:
    """Records with the period of each in the place of its time, which is their last column.

    Args:
      table: columns user, partition and the time.
      period: one of ``period_names.PERIODS``.
      path: what to name in an error.

    Raises:
      InputError: see ``periods_of``.
    """
    names = periods_of(path, table.columns[-1], period)
    return pa.table([table[USER], table[PARTITION], names], names=[USER, PARTITION, LIST])


def periods_of(path: str, times: pa.ChunkedArray, period: str) -> pa.Array:
    """The names of the periods in which times are, each as it is written.

    Args:
      path: what to name in an error.
      times: text such as 2026-01-31, 2026-01-31 23:59 or 2026-01-31T23:59:59Z.
      period: one of ``period_names.PERIODS``.

    Raises:
      InputError: a time is missing, or is written in another way.

    >>> times = pa.chunked_array([["2026-01-31", "2026-02-01 23:59"]])
    >>> periods_of("visits.csv", times, "week").to_pylist()
    ['2026-01-26', '2026-01-26']
    """
    values = single(times)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    text = values.dictionary
    hour = period == "hour"
    try:
        if (
            times.null_count
            or False in pc.match_substring_regex(text, _HOUR if hour else _TIME).to_pylist()
        ):
            raise pa.ArrowInvalid
        days = pc.utf8_slice_codeunits(text, 0, 10).cast(pa.date32())
    except pa.ArrowInvalid:
        example = "2026-01-31 23:59" if hour else "2026-01-31 or 2026-01-31 23:59"
        raise InputError(
            f"{path}: not all records have a time that is written like {example}: write it so"
        ) from None
    if hour:
        names = pc.replace_substring(pc.utf8_slice_codeunits(text, 0, 13), " ", "T")
    else:
        begin = pc.floor_temporal(days.cast(pa.timestamp("s")), unit=period)
        names = pc.strftime(begin, FORMS[period])
    return names.take(values.indices)
