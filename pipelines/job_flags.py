"""The flags that several jobs have, on records, periods, privacy and output."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import PERIODS, RECORD_FORMATS, REPORT_FILE
from dp_transforms.files.output import OUTPUT_FORMATS
from dp_transforms.mechanisms.partition.registry import AUTO, MECHANISMS
from pipelines import flag_values
from pipelines.command_line import JobParser, add_json_flag, refuse, warn

if TYPE_CHECKING:
    from dp_transforms.files.record_files import RecordSource

# Functions import readers themselves, since the help of a command needs neither Arrow nor Beam.

PERIOD_FLAGS = ("time_column", "periods", "max_periods_per_user")
"""The flags that can be given only with --period."""
_COLUMN_FLAGS = (
    "user_column",
    "partition_column",
    "source_column",
    "target_column",
    "time_column",
    "group_by",
    "attributes",
    "combination",
)
"""The flags whose values are a column of records, a list of columns, or a list of such lists."""
_TEXT_FLAGS = ("delimiter", "no_header", "no_quotes", "multiline", "encoding")
_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " "}

_COLUMNS = {
    "user_column": "the column of users: its name, or its position from 1 with --no_header",
    "partition_column": "the column of partitions, the things that are counted (such as pages), "
    "by name or position; repeat the flag for partitions of several columns",
}


def add_input_flags(parser: argparse.ArgumentParser, columns: Mapping[str, str] = _COLUMNS) -> None:
    """Adds the flags that ``records`` reads. ``columns`` has the flags that name columns, with
    their help."""
    records_group = parser.add_argument_group("records")
    records_group.add_argument(
        "--input",
        metavar="GLOB",
        action="append",
        help="files of records, on any filesystem of Beam; repeat the flag for several globs; or, "
        "with --query, a database: postgresql://USER@HOST/NAME, duckdb:FILE or sqlite:FILE",
    )
    records_group.add_argument(
        "--query",
        metavar="SQL",
        help="read the records from this query; the flags below name its columns (extra: database)",
    )
    for name, explanation in columns.items():
        action = "append" if name == "partition_column" else "store"
        records_group.add_argument(f"--{name}", metavar="COLUMN", action=action, help=explanation)
    records_group.add_argument(
        "--input_format",
        choices=("auto", *RECORD_FORMATS),
        default="auto",
        help="csv is any delimited text, jsonl has a JSON object on each line; auto (default) "
        "decides by the first file's name",
    )
    records_group.add_argument(
        "--drop_nulls",
        action="store_true",
        help="leave out records without a user, a partition or, with --period, a time; without "
        "this flag they are refused",
    )
    records_group.add_argument(
        "--num_buckets",
        type=flag_values.num_buckets,
        metavar="N",
        help="number of parts in which records are shuffled (default: by the files' sizes); more "
        "parts need less memory",
    )
    text_group = parser.add_argument_group("records in delimited text (also .gz, .bz2 and .zst)")
    text_group.add_argument(
        "--delimiter",
        metavar="CHAR",
        help="the character between fields, or 'tab' (default: comma, tab for .tsv)",
    )
    text_group.add_argument(
        "--no_header", action="store_true", help="the first line is a record; columns are positions"
    )
    text_group.add_argument(
        "--no_quotes", action="store_true", help='the character " is an ordinary character'
    )
    text_group.add_argument(
        "--multiline", action="store_true", help="quoted fields may contain line breaks (slower)"
    )
    text_group.add_argument(
        "--encoding", metavar="CODEC", help="encoding of the text (default: utf-8)"
    )


def refuse_flags_of_records(flags: argparse.Namespace, why: str) -> None:
    """Raises a ValueError, as ``refuse`` does, if a flag of ``add_input_flags`` other than --input
    was given: without records, it would be ignored."""
    names = ("user_column", "partition_column", "query", "drop_nulls", "num_buckets", *_TEXT_FLAGS)
    refuse(flags, why, *names)
    if flags.input_format != "auto":
        raise ValueError(f"--input_format {why}")


def refuse_flags_of_output(flags: argparse.Namespace, why: str) -> None:
    """Raises a ValueError, as ``refuse`` does, if a flag of ``add_release_flags`` on the output or
    the ledger was given: without a release, it would be ignored."""
    of_output = ("output", "overwrite", "output_format")
    refuse(flags, why, *of_output, "ledger", "workers_reach_ledger", "label", "job_id")
    if flags.if_exists != "fail":
        raise ValueError(f"--if_exists {why}")


def records(
    flags: argparse.Namespace,
    attribute_columns: Sequence[str] = (),
    columns: tuple[str, list[str]] | None = None,
) -> RecordSource:
    """Returns the source of the records that the flags of ``add_input_flags`` describe.

    Args:
      flags: the flags of a job.
      attribute_columns: columns of attributes of users.
      columns: the column of users and those of partitions; by default those of the flags.

    Raises:
      InputError, ValueError: see ``RecordFiles`` and ``RecordQuery``.
    """
    from dp_transforms.files.delimited_text import DelimitedText
    from dp_transforms.files.paths import local_path, match_files
    from dp_transforms.files.record_files import RecordFiles, format_name, format_of, reader_of

    columns = columns or (flags.user_column, flags.partition_column)
    options = {"drop_nulls": flags.drop_nulls, "attribute_columns": attribute_columns}
    if flags.query is not None:
        from dp_transforms.database_urls import has_password
        from dp_transforms.files.database import query_of

        refuse(flags, "is for delimited text, not for a --query: leave it out", *_TEXT_FLAGS)
        if flags.input_format != "auto":
            raise ValueError("--input_format is for files, not for a --query: leave it out")
        if len(flags.input) > 1:
            raise ValueError("--query goes with one --input: give one database")
        (database,) = flags.input
        if has_password(database):
            warn(
                "--input has a password in it, which lists of processes (ps) and the shell's "
                "history show: set PGPASSWORD, or PGPASSFILE to a file, and leave it out of --input"
            )
        return query_of(database, flags.query, *columns, **options)
    name = flags.input_format
    if name == "auto":
        first = match_files(*map(local_path, flags.input))[0].path
        name, file_format = format_name(first), format_of(first)
    else:
        file_format = reader_of(name)()
    if isinstance(file_format, DelimitedText):
        delimiter = flags.delimiter or file_format.delimiter
        file_format = DelimitedText(
            delimiter=_NAMED_DELIMITERS.get(delimiter, delimiter),
            header=not flags.no_header,
            quotes=not flags.no_quotes,
            multiline=flags.multiline,
            encoding=flags.encoding or file_format.encoding,
        )
    else:
        refuse(
            flags,
            f"is for delimited text, but these files are {RECORD_FORMATS[name].title}: leave it "
            "out, or give --input_format=csv",
            *_TEXT_FLAGS,
        )
    return RecordFiles(flags.input, *columns, file_format, **options)


def check_positions(
    flags: argparse.Namespace, names: Sequence[str] = _COLUMN_FLAGS, hint: str = ""
) -> None:
    """Raises a ValueError if a flag gives the name of a column of text without a header, whose
    columns have only positions.

    Args:
      flags: the flags of a job.
      names: the flags to check. By default --levels of a hierarchy is not among them, since levels
        may be columns of the file of groups alone.
      hint: a text at the end of the error.
    """
    if not flags.no_header or flags.input is None or flags.query is not None:
        return
    if "csv" not in (flags.input_format, *_formats_by_name(flags)):
        return
    from dp_transforms.files.delimited_text import check_positions as check

    for name in names:
        value = getattr(flags, name, None) or []
        values = [value] if isinstance(value, str) else value
        columns = [[entry] if isinstance(entry, str) else entry for entry in values]
        try:
            check([*itertools.chain(*columns)])
        except ValueError as error:
            raise ValueError(f"--{name}: {error}{hint}") from None


def reads_first_records(flags: argparse.Namespace) -> str:
    """Returns which step of ``records`` already reads values of records, such as "planning of a
    query"; an empty text if it reads only a header or the types that files state."""
    if flags.input is None:
        return ""
    if flags.query is not None:
        return "planning of a query"
    is_text = flags.input_format in ("auto", "csv") and flags.no_header
    if is_text or "jsonl" in (flags.input_format, *_formats_by_name(flags)):
        return "reading of the first lines"
    return ""


def _formats_by_name(flags: argparse.Namespace) -> list[str]:
    """Returns a list of the format that the first file's name shows; empty if the format is given
    by a flag, or there is no file."""
    if flags.input_format != "auto":
        return []
    from dp_transforms.files.paths import local_path, match_files
    from dp_transforms.files.record_files import format_name

    with contextlib.suppress(InputError):  # ``records`` will raise it
        return [format_name(match_files(*map(local_path, flags.input))[0].path)]
    return []


def add_survey_flags(privacy: argparse._ArgumentGroup) -> None:
    """Adds the flags about the survey of a release that needs no kappa."""
    privacy.add_argument(
        "--survey_share",
        type=flag_values.proportion,
        metavar="PART",
        help="the survey's part of epsilon (by default 1/20 to 2/5 of it, by its first rounds); "
        "with --max_partitions_per_user, a survey is made only if this is given",
    )
    privacy.add_argument(
        "--largest_degree",
        type=flag_values.positive_integer,
        metavar="N",
        help="a public number of partitions that no user is thought to exceed; intervals about all "
        "records then have an upper end. It is enforced. Needs a survey",
    )


def add_period_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a release for each period."""
    periods = parser.add_argument_group("a release for each period (optional)")
    periods.add_argument(
        "--period",
        choices=PERIODS,
        help="make a release for each period, in a directory of its name",
    )
    periods.add_argument(
        "--time_column",
        metavar="COLUMN",
        help="the column of times: 2026-01-31 or 2026-01-31 23:59, taken as written; in Parquet "
        "and Avro also dates and timestamps, in UTC if they have a zone",
    )
    periods.add_argument(
        "--periods",
        metavar="FIRST..LAST",
        help="the first and the last day; public: choose them without looking at the records. "
        "Records of other days are left out: a first or last week or month has only these days",
    )
    periods.add_argument(
        "--max_periods_per_user",
        type=flag_values.positive_integer,
        metavar="N",
        help="keep at most N periods of each user, chosen at random, and KAPPA partitions in each "
        "if KAPPA is given; names without KAPPA need no N; epsilon and delta are the cost of all "
        "periods together",
    )


def add_release_flags(
    parser: JobParser,
    *,
    cost: str | None = None,
    delta: str | None = None,
    max_partitions: str | None = None,
    lists: bool = True,
) -> Any:
    """Adds the flags of privacy and output that jobs share, and returns their group.

    Args:
      parser: the job's parser.
      cost: the help of --epsilon; None leaves the flag out.
      delta: the end of the help of --delta; None leaves the flag out.
      max_partitions: the help of --max_partitions_per_user; None leaves the flag out.
      lists: whether the job releases lists, and so has --mechanism and --report.
    """
    group = parser.add_argument_group("privacy and output")
    if cost is not None:
        group.add_argument("--epsilon", type=flag_values.epsilon, help=cost)
    if delta is not None:
        group.add_argument(
            "--delta",
            type=flag_values.proportion,
            help=f"roughly the probability that epsilon fails; keep it far below 1 / number of "
            f"users{delta}",
        )
    if max_partitions is not None:
        group.add_argument(
            "--max_partitions_per_user",
            type=flag_values.positive_integer,
            metavar="KAPPA",
            help=max_partitions,
        )
    group.add_argument(
        "--ledger",
        metavar="FILE",
        help="a privacy ledger that several jobs share (the command ledger makes one), a file or "
        "postgresql://USER@HOST/DATABASE: this job's cost is reserved there before data are read; "
        "if it does not fit, the job is refused",
    )
    group.add_argument(
        "--workers_reach_ledger",
        action="store_true",
        help="on an engine: the workers reach the ledger too, on a shared file system or in "
        "PostgreSQL, and note there when they begin to write. Then a job that fails before that "
        "costs nothing; without this flag its cost is spent as soon as the engine runs it. Workers "
        "of this machine (LOOPBACK) need no flag",
    )
    group.add_argument(
        "--label", metavar="WORDS", help="words for this job's rows in the ledger; not private"
    )
    group.add_argument(
        "--job_id",
        metavar="NAME",
        help="a name that only reruns of this job share: a rerun finds its release in the ledger, "
        "and ends with exit code 3, instead of paying twice",
    )
    group.add_argument(
        "--if_exists",
        choices=("fail", "skip"),
        default="fail",
        help="if the release exists already: fail, with exit code 3 (default), or do nothing, with "
        "exit code 0",
    )
    group.add_argument(
        "--output", metavar="DIR", help="directory for the release, on any filesystem"
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace an earlier release in the directory"
    )
    group.add_argument(
        "--output_format",
        choices=OUTPUT_FORMATS,
        action="append",
        default=[],
        help="write the release in this format too, beside the CSV file; may be given twice",
    )
    add_json_flag(group)
    if lists:
        group.add_argument(
            "--mechanism",
            choices=MECHANISMS,
            default=AUTO,
            help="the mechanism for lists; auto takes the most accurate one for epsilon and KAPPA",
        )
        group.add_argument(
            "--report",
            action="store_true",
            help=f"draw the release as well: {REPORT_FILE} and pictures (matplotlib, extra: "
            "report)",
        )
    else:
        parser.set_defaults(report=False)
    return group


def add_strategy_flag(group: Any) -> None:
    """Adds the flag of the strategy by which partitions are selected to a group of flags."""
    from dp_transforms.mechanisms.selection import STRATEGIES, choice

    group.add_argument(
        "--strategy",
        choices=(choice.AUTO, *STRATEGIES),
        default=choice.AUTO,
        help="how partitions are selected; auto takes the strategy that is expected to name the "
        "most",
    )
