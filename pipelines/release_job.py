"""Shared by all release jobs: flags, and the way from checked flags to a published release."""

from __future__ import annotations

import argparse
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.integer_partition.choice import AUTO, MECHANISMS
from pipelines import flag_types
from pipelines.command_line import DEFAULT_RUNNER, Job, JobParser, Options, make_runner
from pipelines.errors import DoneError, InputError
from pipelines.files.frequency_files import list_tables
from pipelines.files.names import COORDINATES_FILE, FORMATS, FREQUENCIES_FILE
from pipelines.files.output import ReleaseDirectory, add_output_flags, directory_from_flags
from pipelines.reports import page
from pipelines.spending import Part, add_ledger_flags, check_job, origin_of, price, spending

if TYPE_CHECKING:
    import apache_beam as beam

    from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
    from pipelines.files.publishing import PublishLists, PublishRelease
    from pipelines.files.record_source import RecordSource
    from pipelines.progress import Watch

# Here and in the jobs Beam and the transforms are imported where they are applied: a second that
# help, a misspelt flag and a list of counts do not take.

FEW_RECORDS = 500_000
"""One worker is done with so many before Flink has started the parts of each stage."""


class Work:
    """Records, and how a job works on them whatever it releases.

    Args:
      reader: gives the records.
      secret: where all random decisions come from; a fresh one by default. No two jobs share one.
      num_buckets: how many parts records are shuffled in; by default, what the reader says.
      progress, counters: what ``watch`` tells of stages.
    """

    def __init__(
        self,
        reader: RecordSource,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
        progress: bool = False,
        counters: bool = False,
    ):
        self.reader = reader
        self.secret = secret or JobSecret.from_os()
        self.num_buckets = num_buckets or reader.num_buckets
        self._progress, self._counters = progress, counters

    @classmethod
    def from_flags(cls, flags: argparse.Namespace, attribute_columns: Sequence[str] = ()) -> Work:
        """Returns the work on the records of ``records_from_flags``, which raises its errors."""
        from pipelines.files.record_files import records_from_flags

        reader = records_from_flags(flags, attribute_columns)
        return cls(reader, None, flags.num_buckets, flags.progress, flags.show_private_counters)

    def watch(self, stage: str, rows: str, counters: bool = True, total: int = 0) -> Watch:
        """A ``Watch`` of a stage, whose rows may be left uncounted."""
        from pipelines.progress import Watch

        return Watch(stage, rows, self._progress, counters and self._counters, total)

    def records(self, pipeline: beam.Pipeline, rows: str = "records") -> beam.PCollection:
        """The records in the job's pipeline, where ``rows`` is what they are called while they are
        read. Where Flink would divide the job's work into parts, few records are one part."""
        from apache_beam.options.pipeline_options import FlinkRunnerOptions

        from pipelines.files.reading import ReadRecords

        parts = pipeline.options.view_as(FlinkRunnerOptions)
        if 0 < self.reader.estimated_rows < FEW_RECORDS:
            parts.parallelism = min(parts.parallelism, 1)
        watch = self.watch(f"reading {rows}", "records", total=self.reader.estimated_rows)
        return pipeline | "ReadRecords" >> ReadRecords(self.reader) | "Records" >> watch

    def counted_here(self, count: Callable[..., Counter[int]], at_most: int) -> Counter[int]:
        """Counts by a function of ``runtime.local``, in this process and without Beam.

        Raises:
          InputError: the records cannot be read, or do not fit into memory and disk.
        """
        from dp_transforms.runtime.spilling import SpillError
        from pipelines.workers.allocation import keep_freed_memory

        keep_freed_memory()
        try:
            return count(self.reader.tables(), at_most, self.secret, self.num_buckets)
        except SpillError as error:
            raise InputError(str(error)) from None


@dataclass(frozen=True)
class Release:
    """A release about to be made, after all checks that need no data.

    Either ``build`` adds the whole job to a pipeline, given what each privacy.json has to say of
    the budget beside its own statement, or ``here`` does it in this process, without Beam.
    """

    parts: Sequence[Part]  # what is spent
    directories: Sequence[ReleaseDirectory]  # receive the release
    build: Callable[[beam.Pipeline, dict[str, Any]], None] | None = None
    here: Callable[[dict[str, Any]], None] | None = None
    whole: PrivacyBudget | None = None  # for a ledger of this job alone, if there is to be one
    done: Callable[[], None] | None = None  # says what was written; ``say_done`` by default

    @classmethod
    def of_file(
        cls,
        parts: Sequence[Part],
        directory: ReleaseDirectory,
        header: bytes,
        statement: dict[str, Any],
        build: Callable[[beam.Pipeline, PublishRelease], None] | None = None,
        here: Callable[[], Sequence[bytes]] | None = None,
        by_count: bool = False,
        **options: Any,
    ) -> Release:
        """Returns a release of one file.

        Args:
          parts, options: see the class.
          directory, header, statement, by_count: see ``PublishRelease``; without the budget.
          build: adds the job to a pipeline, with this last step.
          here: gives the lines after the header, in this process.
        """

        def on_beam(pipeline: beam.Pipeline, budget: dict[str, Any]) -> None:
            from pipelines.files.publishing import PublishRelease

            assert build is not None
            build(pipeline, PublishRelease(directory, header, statement | budget, by_count))

        def in_process(budget: dict[str, Any]) -> None:
            assert here is not None
            directory.publish({directory.file_name: [header, *here()]}, statement | budget)

        return cls(parts, [directory], build and on_beam, here and in_process, **options)

    @classmethod
    def of_lists(
        cls,
        parts: Sequence[Part],
        directory: ReleaseDirectory,
        statement: dict[str, Any],
        tables: Callable[[list[Any]], Mapping[str, Iterable[bytes]]] = list_tables,
        build: Callable[[beam.Pipeline, PublishLists], None] | None = None,
        here: Callable[[], list[Any]] | None = None,
        **options: Any,
    ) -> Release:
        """Returns a release of lists, by default of one.

        Args:
          parts, options: see the class.
          directory, statement, tables: see ``PublishLists``; without the budget.
          build: adds the job to a pipeline, with this last step.
          here: gives the lists, in this process.
        """

        def on_beam(pipeline: beam.Pipeline, budget: dict[str, Any]) -> None:
            from pipelines.files.publishing import PublishLists

            assert build is not None
            build(pipeline, PublishLists(directory, statement | budget, tables))

        def in_process(budget: dict[str, Any]) -> None:
            assert here is not None
            directory.publish(tables(here()), statement | budget)

        return cls(parts, [directory], build and on_beam, here and in_process, **options)


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
    """The flags from which ``records_from_flags`` makes a reader; ``add_columns`` adds those that
    name columns to a group."""
    group = parser.add_argument_group("records")
    group.add_argument(
        "--input",
        metavar="GLOB",
        help="files of records, of any Beam filesystem; or, with --query, a database: "
        "postgresql://USER@HOST/NAME, duckdb:FILE or sqlite:FILE",
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
        choices=("auto", *FORMATS),
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

    The texts say what --epsilon and --max_partitions_per_user mean to this job, and which part of
    the release --delta is for: without a text there is no such flag. Where lists are released there
    are a --mechanism and a --report.
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
    add_ledger_flags(group)
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


def release_job(flags: argparse.Namespace, options: Options, release: Release) -> Job:
    """The job that charges the budget, makes the release and says what was written. If that cannot
    be written, there is an error before anything is read or spent.

    Raises:
      ValueError: a report cannot be drawn, or see ``make_runner``.
      InputError: a directory cannot be written, or see ``make_runner``.
    """
    if flags.report:
        page.check_available()
    origin = origin_of(flags)
    try:
        statements = [directory.statement() for directory in release.directories]
        if origin.job_id:
            check_job(flags.ledger, release.parts, origin, statements)
        if None not in statements and not flags.overwrite:
            raise DoneError(
                f"{release.directories[0].file(release.directories[0].file_name)} exists: give "
                "another --output, --overwrite to replace it, or --if_exists=skip"
            )
    except DoneError:
        if flags.if_exists == "skip":
            return lambda: print("the release is there already: nothing was done")
        raise
    for directory in release.directories:
        directory.check()
    if flags.dry_run:
        lines = price(flags.ledger, release.parts)
        return lambda: print(
            *lines, "dry run: no record was read, and nothing spent or written", sep="\n"
        )
    build, here = release.build, release.here
    if build and here and not (flags.on_beam or flags.progress or flags.show_private_counters):
        build = None
    runner = build and make_runner(flags, options())
    # Other runners may go on after this process, or where the ledger is not.
    announces = runner is None or options().get_all_options()["runner"] == DEFAULT_RUNNER

    def make(budget: dict[str, Any]) -> None:
        if build is None:
            assert here is not None
            return here(budget)
        import apache_beam as beam

        from pipelines.progress import run_to_end

        pipeline = beam.Pipeline(runner, options=options())
        build(pipeline, budget)
        run_to_end(pipeline, flags.show_private_counters)

    def job() -> None:
        with spending(flags.ledger, release.whole, release.parts, origin, announces) as budget:
            make(budget)
        (release.done or functools.partial(say_done, flags, release.directories))()

    return job


def list_directory(
    flags: argparse.Namespace,
    mechanisms: Sequence[PartitionMechanism],
    file_name: str = FREQUENCIES_FILE,
    path: str | None = None,
) -> ReleaseDirectory:
    """The directory for lists of some mechanisms, which the flags name, or the one at a path."""
    beside = (COORDINATES_FILE,) if any(one.decodes for one in mechanisms) else ()
    return directory_from_flags(flags, file_name, path, beside=beside)


def say_done(flags: argparse.Namespace, directories: Sequence[ReleaseDirectory]) -> None:
    """Prints what was written, after drawing the report of the first directory if it is wanted."""
    for directory in directories:
        for name in directory.files:
            print(directory.file(name))
    if flags.report:
        from pipelines.report import write_report

        print(write_report(directories[0].path))


def _num_buckets(text: str) -> int:
    from dp_transforms.columnar.scattering import MAX_BUCKETS

    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_BUCKETS):
        raise argparse.ArgumentTypeError(f"must be between 1 and {MAX_BUCKETS}, got {text!r}")
    return int(text)
