"""Shared by all release jobs: flags, and the way from checked flags to a published release."""

from __future__ import annotations

import argparse
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms.integer_partition.choice import AUTO, MECHANISMS
from pipelines import flag_types
from pipelines.budgeting import Part, add_ledger_flag, charged, price
from pipelines.command_line import Job, JobParser, Options, make_runner
from pipelines.errors import InputError
from pipelines.files.names import LISTS_FILE
from pipelines.files.output import ReleaseDirectory, add_output_flags
from pipelines.reports import page

if TYPE_CHECKING:
    import apache_beam as beam

    from dp_transforms.job_secret import JobSecret
    from pipelines.files.record_source import RecordSource
    from pipelines.progress import Watch

# Here and in the jobs Beam and the transforms are imported where they are applied: a second that
# help, a misspelt flag and a list of counts do not take.

Watching = Callable[..., "Watch"]
"""Makes a Watch from a stage and what its rows are; ``counters=False`` leaves them uncounted."""


@dataclass(frozen=True)
class Release:
    """What a job is about to release, after all checks that need no data.

    Attributes:
      build: adds the whole job to a pipeline; it is given what each privacy.json has to say of the
        budget beside its own statement.
      directories: receive the release.
      parts: what is spent.
      whole: what a ledger of this job alone may spend; without one, only a shared ledger is
        charged.
      done: says what was written; ``say_done`` by default.
    """

    build: Callable[[beam.Pipeline, dict[str, Any]], None]
    directories: Sequence[ReleaseDirectory]
    parts: Sequence[Part]
    whole: PrivacyBudget | None = None
    done: Callable[[], None] | None = None


def add_column_flags(group: Any) -> None:
    """The flags that say which columns hold users and partitions."""
    group.add_argument(
        "--user_column",
        metavar="COLUMN",
        help="whose record it is: the column's name, or its position from 1 with --no_header",
    )
    group.add_argument(
        "--partition_column",
        metavar="COLUMN",
        action="append",
        help="what is counted (a password, a page, a product), likewise; give it several times for "
        "partitions of several columns",
    )


def add_input_flags(
    parser: argparse.ArgumentParser, add_columns: Callable[[Any], None] = add_column_flags
) -> None:
    """The flags from which ``records_from_flags`` makes a reader.

    Args:
      parser: gets them, in groups.
      add_columns: adds the flags that name columns to a group.
    """
    group = parser.add_argument_group("records")
    group.add_argument(
        "--input",
        metavar="GLOB",
        help="files of records, of any Beam filesystem; or, with --query, a database: "
        "postgresql://USER@HOST/NAME or duckdb:FILE",
    )
    group.add_argument(
        "--query",
        metavar="SQL",
        help="read the records that this query gives, whose columns are then named by the flags "
        "below (extra: database)",
    )
    add_columns(group)
    group.add_argument(
        "--input_format",
        choices=("auto", "csv", "jsonl", "parquet", "avro"),
        default="auto",
        help="csv is any delimited text, jsonl an object on each line; auto goes by the first "
        "file's name (default)",
    )
    group.add_argument(
        "--drop_nulls",
        action="store_true",
        help="leave out records without a user or a partition; without this flag they are refused",
    )
    group.add_argument(
        "--num_buckets",
        type=_num_buckets,
        metavar="N",
        help="how many parts the records are shuffled in (default: by the files' sizes); more "
        "parts need less memory each",
    )
    text = parser.add_argument_group("records in delimited text (also .gz, .bz2 and .zst)")
    text.add_argument(
        "--delimiter",
        metavar="CHAR",
        help="between fields: one character, or 'tab' (default: comma, tab for .tsv)",
    )
    text.add_argument(
        "--no_header", action="store_true", help="the first line is a record; columns by position"
    )
    text.add_argument(
        "--no_quotes", action="store_true", help='the character " has no meaning of its own'
    )
    text.add_argument(
        "--multiline", action="store_true", help="quoted fields may contain line breaks (slower)"
    )
    text.add_argument("--encoding", metavar="CODEC", help="of the text (default: utf-8)")


def add_release_flags(
    parser: JobParser,
    *,
    epsilon: str | None = None,
    delta: str | None = None,
    kappa: str | None = None,
    lists: bool = True,
) -> Any:
    """Adds the flags of privacy and output that jobs share; returns their group.

    Args:
      parser: of the job.
      epsilon, kappa: what --epsilon and --max_partitions_per_user mean to this job, which has no
        such flag without.
      delta: the same of --delta: which part of the release may fail.
      lists: whether lists are released, for which there are a --mechanism and a --report.
    """
    group = parser.add_argument_group("privacy and output")
    if epsilon is not None:
        group.add_argument("--epsilon", type=flag_types.epsilon, help=epsilon)
    if delta is not None:
        group.add_argument(
            "--delta",
            type=flag_types.proportion,
            help=f"the probability with which epsilon may fail{delta}; far below 1 / number of "
            "users",
        )
    if kappa is not None:
        group.add_argument(
            "--max_partitions_per_user",
            type=flag_types.positive_integer,
            metavar="KAPPA",
            help=kappa,
        )
    add_ledger_flag(group)
    add_output_flags(group)
    if lists:
        group.add_argument(
            "--mechanism",
            choices=MECHANISMS,
            default=AUTO,
            help="what releases lists; auto is the most accurate one that epsilon and the bound "
            "allow",
        )
        page.add_report_flag(group)
    else:
        parser.set_defaults(report=False)
    return group


def check_outputs(flags: argparse.Namespace, directories: Sequence[ReleaseDirectory]) -> None:
    """Makes sure, before anything is read or spent, that what is asked for can be written.

    Raises:
      ValueError: a report cannot be drawn.
      InputError: a directory cannot be written.
    """
    if flags.report:
        page.check_available()
    for directory in directories:
        directory.check()


def unwatched(stage: str, rows: str, counters: bool = False, total: int = 0) -> Watch:
    """Tells nothing of a stage."""
    from pipelines.progress import Watch

    return Watch(stage, rows, progress=False, counters=counters)


def watching(flags: argparse.Namespace) -> Watching:
    """What tells of stages, as the flags ask for it."""
    from pipelines.progress import Watch

    return functools.partial(Watch, progress=flags.progress, counters=flags.show_private_counters)


def release_job(flags: argparse.Namespace, options: Options, release: Release) -> Job:
    """The job that charges the budget, runs the pipeline and says what was written.

    Raises:
      ValueError, InputError: see ``check_outputs`` and ``make_runner``.
    """
    check_outputs(flags, release.directories)
    if flags.dry_run:
        return dry_run(flags, release.parts)
    runner = make_runner(flags, options())

    def job() -> None:
        import apache_beam as beam

        from pipelines.progress import run_to_end

        with charged(flags.ledger, release.parts, release.whole) as budget:
            pipeline = beam.Pipeline(runner, options=options())
            release.build(pipeline, budget)
            run_to_end(pipeline, flags.show_private_counters)
        (release.done or functools.partial(say_done, flags, release.directories))()

    return job


def job_here(
    flags: argparse.Namespace,
    directory: ReleaseDirectory,
    part: Part,
    release: Callable[[], Sequence[bytes]],
    statement: dict[str, Any],
    done: Callable[[], None] | None = None,
) -> Job:
    """The job that charges the budget and releases in this process, without Beam.

    Args:
      flags: as parsed.
      directory: receives the release.
      part: what is spent.
      release: gives the content of the file.
      statement: the privacy.json, but for the budget.
      done: says what was written; ``say_done`` by default.

    Raises:
      ValueError, InputError: see ``check_outputs``.
    """
    check_outputs(flags, [directory])
    if flags.dry_run:
        return dry_run(flags, [part])

    def job() -> None:
        with charged(flags.ledger, [part]) as budget:
            directory.publish(release(), statement | budget)
        (done or functools.partial(say_done, flags, [directory]))()

    return job


def counted_here(
    count: Callable[..., Counter[int]],
    reader: RecordSource,
    at_most: int,
    secret: JobSecret,
    num_buckets: int | None,
) -> Counter[int]:
    """What a function of ``runtime.local`` counts, in this process and without Beam.

    Raises:
      InputError: the records cannot be read, or need more memory than there is.
    """
    import pyarrow as pa

    # Arrow's own allocator returns memory to the system and asks for it again: a fifth of the time.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        return count(reader.tables(), at_most, secret, num_buckets or reader.num_buckets)
    except MemoryError:
        raise InputError(
            "the records need more memory than there is: give it more, or a runner that keeps what "
            "it shuffles on disks, such as Flink"
        ) from None


def dry_run(flags: argparse.Namespace, parts: Sequence[Part]) -> Job:
    """The job that says what it would spend, and does nothing else."""
    lines = price(flags.ledger, parts)

    def job() -> None:
        print("\n".join([*lines, "dry run: no record was read, and nothing spent or written"]))

    return job


def say_done(flags: argparse.Namespace, directories: Sequence[ReleaseDirectory]) -> None:
    """Prints what was written, after drawing the report of the first directory if it is wanted."""
    for directory in directories:
        for name in directory.files:
            print(directory.file(name))
    if flags.report:
        from pipelines.report import write_groups_report, write_report

        first = directories[0]
        write = write_groups_report if first.file_name == LISTS_FILE else write_report
        print(write(first.path))


def _num_buckets(text: str) -> int:
    from dp_transforms.columnar.routing import MAX_BUCKETS

    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_BUCKETS):
        raise argparse.ArgumentTypeError(f"must be between 1 and {MAX_BUCKETS}, got {text!r}")
    return int(text)
