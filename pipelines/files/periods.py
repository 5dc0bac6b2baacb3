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
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.windowed_lists import SelectPartitionsByPeriod
from pipelines.command_line import Job, Options
from pipelines.files.frequency_files import Tables
from pipelines.files.names import COORDINATES_FILE
from pipelines.files.output import directory_from_flags
from pipelines.files.partition_file import partition_lines
from pipelines.files.paths import filesystem
from pipelines.files.period_names import check_times, period_names, periods_of
from pipelines.files.record_source import RecordSource
from pipelines.release_job import Release, Work, release_job
from pipelines.reports.privacy_statement import COORDINATES_KEY
from pipelines.spending import Part


def period_job(
    flags: argparse.Namespace,
    options: Options,
    part: Part,
    file_name: str,
    make: Callable[..., Any],
    describe: Callable[[Any, RecordSource], tuple[dict[str, Any], Callable[[Any], Tables]]],
    numbers: int = 2,
) -> Job:
    """The job that makes a release for each period.

    Args:
      flags, options: as parsed.
      part: what is spent.
      file_name, numbers: of the file of each period, see ``ReleaseDirectory``.
      make: of the names of periods and ``num_buckets``, a transform that gives pairs of a period
        and its release, with a secret of its own. No two jobs share one.
      describe: of that transform and the records, the privacy.json, in which ``periods`` is what it
        says of these beside the usual; and what makes the tables of a period's release.

    Raises:
      ValueError, InputError: see ``period_names``, ``Work.from_flags`` and ``check_times``.
    """
    names = period_names(flags.period, flags.periods)
    # The parameters are heard of before the files are.
    make(names, num_buckets=None)
    work = Work.from_flags(flags, [flags.time_column])
    path = work.reader.pattern
    check_times(path, work.reader.attribute_fields[0])
    release = make(names, num_buckets=work.num_buckets)
    join = filesystem(flags.output).join
    statement, content = describe(release, work.reader)
    beside = (COORDINATES_FILE,) if COORDINATES_KEY in statement else ()
    directories = {
        name: directory_from_flags(flags, file_name, join(flags.output, name), numbers, beside)
        for name in names
    }
    periods = {
        "of": flags.period,
        "first": names[0],
        "last": names[-1],
        "max_periods_per_user": release.periods_per_user,
    }
    statement["periods"] = periods | statement["periods"]

    def build(pipeline: beam.Pipeline, budget: dict[str, Any]) -> None:
        def publish(name: str, released: Any) -> None:
            of_period = statement | budget | {"period": name}
            directories[name].publish(content(released), of_period)

        name_periods = beam.Map(_in_periods, flags.period, path).with_output_types(pa.Table)
        named = work.records(pipeline) | "Periods" >> name_periods
        _ = named | "Release" >> release | "Publish" >> beam.MapTuple(publish)

    return release_job(flags, options, Release([part], [*directories.values()], build))


class NamesByPeriod(beam.PTransform):
    """The lines of names that are selected in each period by ``SelectPartitionsByPeriod``, which is
    the attribute ``select``: (period, lines), of every period."""

    def __init__(self, periods: Sequence[str], **options: Any):
        super().__init__()
        self._periods = periods
        self.select = SelectPartitionsByPeriod(periods, **options)
        self.periods_per_user = self.select.periods_per_user

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        # A period without names has a file too.
        all_ = tables.pipeline | "Public" >> beam.Create(
            [(name, []) for name in self._periods], reshuffle=False
        )
        found = tables | "Select" >> self.select | "Lines" >> beam.FlatMap(_lines_of_periods)
        return (
            (all_, found)
            | beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "Join" >> beam.MapTuple(lambda name, parts: (name, [*chain.from_iterable(parts)]))
        )


def _lines_of_periods(selected: pa.Table) -> Iterator[tuple[str, list[bytes]]]:
    for name in pc.unique(selected[LIST]).to_pylist():
        yield name, list(partition_lines(selected.filter(pc.equal(selected[LIST], name))))


def _in_periods(table: pa.Table, period: str, path: str) -> pa.Table:
    """Records with the period of each in the place of its time, which is their last column."""
    names = periods_of(path, table.columns[-1], period)
    return pa.table([table[USER], table[PARTITION], names], names=[USER, PARTITION, LIST])
