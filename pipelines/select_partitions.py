"""Selects the partitions that may be named: user records in, differentially private names out.

Each user counts in at most a number of partitions, and a partition is released if enough users
have it, decided at random so that no user's presence shows: (epsilon, delta)-DP for adding or
removing all records of one user.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.columns import PARTITION
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.partition_selection import STRATEGIES, explain
from dp_transforms.mechanisms.partition_selection.choice import AUTO
from dp_transforms.mechanisms.partition_selection.strategy import ADD_OR_REMOVE, REPLACE
from dp_transforms.records import NOISY_COUNT
from dp_transforms.selection import SelectPartitions
from dp_transforms.selection_plot import plot_explanation
from pipelines import flag_types
from pipelines.budgeting import Part, add_ledger_flag, spending_if_shared
from pipelines.command_line import Job, JobParser, make_runner, require, run
from pipelines.errors import InputError
from pipelines.files import local_path, reason
from pipelines.output import PublishRelease, ReleaseDirectory, add_output_flags
from pipelines.progress import Watch, run_to_end
from pipelines.reading import ReadRecords, add_input_flags, records_from_flags
from pipelines.selection_statement import selection_statement

PARTITIONS_FILE = "released_partitions.csv"

_EPILOG = f"""\
The output directory receives {PARTITIONS_FILE} (the selected partitions and, with
--noisy_counts, about how many users they have) and privacy.json, which says what was promised.
There is no --report: the names are all there is to show. How many users a partition needs is known
before there are any: --explain prints it, and --plot draws it.

examples:
  python -m pipelines.select_partitions --input='logs/*.csv' --user_column=account
      --partition_column=page --epsilon=1 --delta=1e-5 --max_partitions_per_user=10
      --output=release
  python -m pipelines.select_partitions --explain --epsilon=1 --delta=1e-5
      --max_partitions_per_user=10
"""


def make_parser() -> JobParser:
    """The flags of this job."""
    parser = JobParser(
        "pipelines.select_partitions",
        "Release the names of partitions that enough users have, under (epsilon, delta)-\n"
        "differential privacy for adding or removing all records of one user.",
        _EPILOG,
    )
    add_input_flags(parser)
    privacy = parser.add_argument_group("privacy and output")
    privacy.add_argument(
        "--epsilon", type=flag_types.epsilon, help="what the release costs; smaller is more private"
    )
    privacy.add_argument(
        "--delta",
        type=flag_types.proportion,
        help="the probability with which epsilon may fail; far below 1 / number of users",
    )
    privacy.add_argument(
        "--max_partitions_per_user",
        type=flag_types.positive_integer,
        metavar="KAPPA",
        help="count each user in at most so many partitions, chosen at random",
    )
    privacy.add_argument(
        "--already_bounded",
        action="store_true",
        help="declare that no user has more than KAPPA partitions, instead of seeing to it",
    )
    privacy.add_argument(
        "--neighbours",
        choices=(ADD_OR_REMOVE, REPLACE),
        help="what is protected: that a user's records are there (default), or what they are",
    )
    add_ledger_flag(privacy)
    add_output_flags(privacy)
    selection = parser.add_argument_group("selection")
    selection.add_argument(
        "--strategy",
        choices=(AUTO, *STRATEGIES),
        default=AUTO,
        help="how partitions are decided on; auto takes the one that needs the fewest users, sips "
        "is often better still where users have many partitions",
    )
    selection.add_argument(
        "--noisy_counts",
        action="store_true",
        help="release noisy numbers of users with the names, at no further cost",
    )
    selection.add_argument(
        "--pre_threshold",
        type=flag_types.positive_integer,
        metavar="USERS",
        help="never release a partition with fewer users than this",
    )
    selection.add_argument(
        "--public_partitions",
        metavar="FILE.csv",
        help="names that are public anyway, one on each line without a header; they may be "
        "released without having users",
    )
    selection.add_argument(
        "--public_threshold",
        type=int,
        metavar="T",
        help="public partitions are released if their noisy count exceeds this (default: 0); the "
        "lower, the fewer are missed and the more without users are released",
    )
    planning = parser.add_argument_group("planning, without any data")
    planning.add_argument(
        "--explain",
        action="store_true",
        help="print how likely each strategy keeps a partition, by its number of users, and exit",
    )
    planning.add_argument(
        "--plot", metavar="FILE.png", help="with --explain, draw the same as curves (matplotlib)"
    )
    parser.add_common_flags()
    return parser


def build(
    pipeline: beam.Pipeline,
    reader: ReadRecords,
    select: SelectPartitions,
    publish: PublishRelease,
    progress: bool = False,
    private_counters: bool = False,
) -> None:
    """Adds the whole job to a pipeline.

    Args:
      pipeline: where to.
      reader: gives the records.
      select: selects partitions, with a secret of its own. No two jobs share one.
      publish: receives the lines of the release.
      progress: tell of stages on stderr.
      private_counters: count elements exactly, in Beam counters.
    """
    watch = Watch("reading records", "records", progress, private_counters)
    records = pipeline | "ReadRecords" >> reader | "Records" >> watch
    _ = records | "Partitions" >> ReleasePartitions(select, publish, progress)


@beam.ptransform_fn
def ReleasePartitions(
    records: beam.PCollection,
    select: SelectPartitions,
    publish: PublishRelease,
    progress: bool = False,
) -> beam.PCollection[None]:
    """Selects partitions from tables of records, and publishes them."""
    selected = records | "Select" >> select
    watched = selected | "WatchSelected" >> Watch(
        "selecting partitions", "selected", progress, False
    )
    lines = watched | "Lines" >> beam.FlatMap(partition_lines).with_output_types(bytes)
    return lines | "Publish" >> publish


def partition_lines(table: pa.Table) -> Iterator[bytes]:
    """The lines of selected partitions, of which a composite one has several fields.

    >>> list(partition_lines(pa.table({"partition": ["a", "b, c"], "noisy_count": [9, 12]})))
    [b'a,9\\n', b'"b, c",12\\n']
    """
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    columns = [_texts(field) for field in _fields(table[PARTITION].combine_chunks())]
    if NOISY_COUNT in table.column_names:
        columns.append(table[NOISY_COUNT].to_pylist())
    for values in zip(*columns, strict=True):
        writer.writerow(values)
        yield line.getvalue().encode()
        line.seek(0)
        line.truncate()


def header_line(reader: ReadRecords, noisy_counts: bool) -> bytes:
    """The first line of a release: a composite partition's columns keep their names."""
    names = [field.name for field in reader.partition_fields]
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(
        (names if len(names) > 1 else [PARTITION]) + [NOISY_COUNT] * noisy_counts
    )
    return line.getvalue().encode()


def prepare(flags: argparse.Namespace, options: PipelineOptions) -> Job:
    """Checks everything that can be checked before data are read, and returns the job."""
    if flags.explain:
        return _prepare_explanation(flags)
    if flags.plot is not None:
        raise ValueError("--plot is for --explain, which needs no data")
    require(flags, "input", "user_column", "partition_column")
    require(flags, "epsilon", "delta", "max_partitions_per_user", "output")
    directory = ReleaseDirectory(flags.output, PARTITIONS_FILE, flags.overwrite)
    if flags.ledger is not None:
        # The ledger takes them for decimal numbers, and so must the strategy.
        budget = PrivacyBudget(flags.epsilon, flags.delta)
        flags.epsilon, flags.delta = budget.epsilon, budget.delta
    # The parameters are heard of before the files are.
    _select(flags, ())
    reader = records_from_flags(flags)
    public = _read_public(flags.public_partitions, reader) if flags.public_partitions else ()
    select = _select(flags, public, flags.num_buckets or reader.num_buckets)
    directory.check()
    statement = selection_statement(
        select.strategy,
        noisy_counts=flags.noisy_counts,
        bounded_by_job=select.strategy.uses_weights or not flags.already_bounded,
        public_partitions=len(public),
        public_threshold=flags.public_threshold or 0,
    )
    runner = make_runner(flags, options)
    part = Part("names of partitions", PrivacyBudget(flags.epsilon, flags.delta))

    def job() -> None:
        with spending_if_shared(flags.ledger, [part]) as budget:
            pipeline = beam.Pipeline(runner, options=options)
            header = header_line(reader, flags.noisy_counts)
            publish = PublishRelease(directory, header, statement | budget)
            build(pipeline, reader, select, publish, flags.progress, flags.show_private_counters)
            run_to_end(pipeline, flags.show_private_counters)
        print(directory.file(PARTITIONS_FILE))

    return job


def _prepare_explanation(flags: argparse.Namespace) -> Job:
    require(flags, "epsilon", "delta", "max_partitions_per_user")
    explanation = explain(
        flags.epsilon,
        flags.delta,
        noisy_counts=flags.noisy_counts,
        max_partitions_per_user=flags.max_partitions_per_user,
        **_given(flags, "pre_threshold", "neighbours"),
    )

    def job() -> None:
        print(explanation)
        if flags.plot is not None:
            try:
                plot_explanation(explanation, flags.plot)
            except (ImportError, OSError, ValueError) as error:
                raise InputError(f"{flags.plot} can not be drawn: {error}") from None
            print(flags.plot)

    return job


def _select(
    flags: argparse.Namespace, public: Sequence[Any], num_buckets: int | None = None
) -> SelectPartitions:
    return SelectPartitions(
        flags.epsilon,
        flags.delta,
        flags.max_partitions_per_user,
        flags.strategy,
        flags.noisy_counts,
        flags.already_bounded,
        public_partitions=public,
        secret=JobSecret.from_os(),
        num_buckets=num_buckets,
        **_given(flags, "pre_threshold", "neighbours"),
        **(_given(flags, "public_threshold") if public or not flags.public_partitions else {}),
    )


def _given(flags: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(flags, name)) is not None}


def _read_public(path: str, reader: ReadRecords) -> list[Any]:
    """The partitions of a file, as values of the types that the records' partitions have."""
    path = local_path(path)
    try:
        with FileSystems.open(path) as file:
            text = file.read().decode("utf-8-sig")
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"{path} can not be read: {reason(error)}") from None
    fields = reader.partition_fields
    partitions = []
    rows = csv.reader(io.StringIO(text))
    for row in rows:
        if not row:
            continue
        if len(row) != len(fields):
            raise InputError(
                f"{path}, line {rows.line_num}: expected {len(fields)} fields, one for each "
                f"partition column, got {len(row)}"
            )
        values = [_typed(value, field, path) for value, field in zip(row, fields, strict=True)]
        names = [field.name for field in fields]
        composite = len(values) > 1
        partitions.append(
            beam.Row(**dict(zip(names, values, strict=True))) if composite else values[0]
        )
    if not partitions:
        raise InputError(f"{path} has no public partitions: write one on each line")
    return partitions


def _typed(value: str, field: pa.Field, path: str) -> Any:
    if pa.types.is_dictionary(field.type):
        field = pa.field(field.name, field.type.value_type)
    if not pa.types.is_integer(field.type):
        return value.encode() if _is_binary(field.type) else value
    try:
        return int(value)
    except ValueError:
        raise InputError(
            f"{path}: {value!r} is not an integer, but column {field.name!r} of the records is"
        ) from None


def _is_binary(kind: pa.DataType) -> bool:
    return not (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _fields(partitions: pa.Array) -> list[pa.Array]:
    return partitions.flatten() if pa.types.is_struct(partitions.type) else [partitions]


def _texts(values: pa.Array) -> list[Any]:
    try:
        return (values.cast(pa.string()) if pa.types.is_binary(values.type) else values).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise InputError(
            "partitions are bytes that are not UTF-8, which text can not hold: cast the column"
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    return run(prepare, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
