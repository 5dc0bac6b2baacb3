"""The names of the files of releases and their columns, of formats of records, and of periods."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

from dp_transforms.mechanisms.arguments import shown

if TYPE_CHECKING:
    import pyarrow as pa

# The functions below import Arrow themselves, since the help of a command needs only the names.

PRIVACY_FILE = "privacy.json"
DIGESTS = "sha256"
"""The entry of a privacy.json with the SHA-256 digests of the files beside it, by their names."""

REPORT_FILE = "report.html"
RANKS_FILE = "rank_frequency.png"
CURVE_FILE = "guessing_curve.png"
GROUPS_FILE = "groups.png"
NAMES_PICTURE = "names.png"
ATTRIBUTES_PICTURE = "entropies.png"
UNIQUE_PICTURE = "unique.png"
COMPARISON_FILE = "comparison.html"
COMPARISON_PICTURE = "comparison.png"
REPORT_FILES = (
    REPORT_FILE,
    RANKS_FILE,
    CURVE_FILE,
    GROUPS_FILE,
    NAMES_PICTURE,
    ATTRIBUTES_PICTURE,
    UNIQUE_PICTURE,
    COMPARISON_FILE,
    COMPARISON_PICTURE,
)
"""The pages and pictures of a release, beside it."""

FREQUENCIES_FILE = "released_frequencies.csv"
FREQUENCIES_HEADER = ("frequency", "multiplicity")

LISTS_FILE = "released_lists.csv"
LISTS_HEADER = ("attribute", "group", *FREQUENCIES_HEADER)

HIERARCHY_FILE = "released_hierarchy.csv"
"""The lists of a hierarchy. Its columns are the levels and those of ``FREQUENCIES_HEADER``."""

ATTRIBUTES_FILE = "released_attributes.csv"
ATTRIBUTES_HEADER = ("attribute", *FREQUENCIES_HEADER)

SURVEY_FILE = "survey_of_degrees.csv"
"""The survey beside a list, in the format of ``DEGREES_FILE``."""
GROUP_SURVEYS_FILE = "surveys_of_degrees.csv"
"""The surveys of all users and of groups, beside their lists. Then the file of estimated lists has
the columns of ``LISTS_HEADER``."""
ALL_RECORDS_FILE = "all_records.csv"
"""The estimated list of all records, beside a bounded list and its survey."""

COORDINATES_FILE = "noisy_coordinates.csv"
COORDINATES_HEADER = ("arm", "index", "value")
GROUPED_COORDINATES_HEADER = ("attribute", "group", *COORDINATES_HEADER)
ATTRIBUTE_COORDINATES_HEADER = ("attribute", *COORDINATES_HEADER)
"""The noisy numbers from which lists are decoded, beside them."""

PARTITIONS_FILE = "released_partitions.csv"
COUNTS = ("noisy_count", "low", "high")
"""The last columns of ``PARTITIONS_FILE``, if noisy counts are asked for."""

NAMED_USERS_FILE = "named_users.csv"
"""Better estimates of the users of named partitions, beside ``PARTITIONS_FILE``, if there is a list
that they follow from."""

OTHER_TABLES = (
    COORDINATES_FILE,
    SURVEY_FILE,
    GROUP_SURVEYS_FILE,
    ALL_RECORDS_FILE,
    NAMED_USERS_FILE,
)
"""The tables that releases of any kind may have besides their main one. A release that replaces
another one removes those that it does not have itself."""

DEGREES_FILE = "released_user_degrees.csv"
DEGREES_HEADER = ("partitions_from", "users")
GROUP_SURVEYS_HEADER = ("attribute", "group", *DEGREES_HEADER)

ALL_PERIODS_FILE = "all_periods.csv"
"""The releases of all periods in one table, in the directory that holds their directories."""

LIST_DIRECTORY = "frequency_list"
PARTITIONS_DIRECTORY = "partitions"


class FileFormat(NamedTuple):
    """A file format of records: its title, suffixes of file names, and the module and class of its
    ``RecordFormat`` in ``dp_transforms.files``."""

    title: str
    suffixes: tuple[str, ...]
    reader: str


RECORD_FORMATS = {
    "csv": FileFormat("delimited text", (".csv", ".tsv"), "delimited_text.DelimitedText"),
    "jsonl": FileFormat("JSON lines", (".jsonl", ".ndjson"), "json_lines.JsonLines"),
    "parquet": FileFormat("Parquet", (".parquet", ".parq", ".pq"), "parquet_files.ParquetFiles"),
    "avro": FileFormat("Avro", (".avro",), "avro_files.AvroFiles"),
}
"""The formats by their names in --input_format. Files of other suffixes are delimited text."""

RELEASED_FILES = "released_*.csv"
"""Matches the main table of every kind of release, and no other file. A directory holds one of
them, since it has one privacy.json."""

PERIODS = ("hour", "day", "week", "month")
MOST_PERIODS = 10_000
# The name of a period consists of the first characters of its first hour, as in 2026-01-31T23.
_LENGTHS = {"hour": 13, "day": 10, "week": 10, "month": 7}

_TIME = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3])(:\d\d.*)?)?$"
_HOUR = r"^\d{4}-\d\d-\d\d[T ]([01]\d|2[0-3])(:\d\d.*)?$"


def period_names(period: str, span: str) -> list[str]:
    """Returns the names of all periods of a kind from the first to the last day of a span.

    Raises:
      ValueError: the kind is unknown, or the span is malformed or has too many periods.

    >>> period_names("week", "2026-01-01..2026-01-12")
    ['2025-12-29', '2026-01-05', '2026-01-12']
    """
    if not isinstance(period, str) or period not in PERIODS:
        raise ValueError(f"period must be one of {', '.join(PERIODS)}, got {shown(period)}")
    first, last = days_of(span)
    names: dict[str, None] = {}
    step = datetime.timedelta(hours=1) if period == "hour" else datetime.timedelta(days=1)
    # No time after the last day is computed, since that may be the last day of the calendar.
    for steps in range((last - first + datetime.timedelta(days=1)) // step):
        moment = first + steps * step
        monday = moment - datetime.timedelta(days=moment.weekday() if period == "week" else 0)
        names[monday.isoformat()[: _LENGTHS[period]]] = None
        if len(names) > MOST_PERIODS:
            raise ValueError(f"periods has more than {MOST_PERIODS:,} periods: give fewer")
    return list(names)


def days_of(span: str) -> tuple[datetime.datetime, datetime.datetime]:
    """Returns the first and the last day of a span, or raises a ValueError."""
    try:
        first, last = (datetime.datetime.strptime(day, "%Y-%m-%d") for day in span.split(".."))
        if first > last:
            raise ValueError
    except (AttributeError, ValueError):
        raise ValueError(
            "periods must be FIRST..LAST, two days such as 2026-01-01..2026-01-31, got "
            f"{shown(span)}"
        ) from None
    return first, last


def period_start(name: str) -> datetime.datetime:
    """Returns the beginning of a period of ``period_names``.

    >>> period_start("2026-02"), period_start("2026-01-31T23")
    (datetime.datetime(2026, 2, 1, 0, 0), datetime.datetime(2026, 1, 31, 23, 0))
    """
    return datetime.datetime.fromisoformat(f"{name}-01" if len(name) == _LENGTHS["month"] else name)


def periods_of(path: str, times: pa.ChunkedArray, period: str, span: str | None = None) -> pa.Array:
    """Returns the name of the period of each time, or "" if its day is not in the span.

    So the first and the last period have no records of days outside of the span.

    Args:
      path: the name of the source, for errors.
      times: text such as 2026-01-31, 2026-01-31 23:59 or 2026-01-31T23:59:59Z. Times are taken as
        written, whatever their time zone.
      period: the kind of the periods.
      span: the days, as ``days_of`` takes them; None takes all days.

    Raises:
      InputError: a time is null or written in another way.

    >>> import pyarrow as pa
    >>> times = pa.chunked_array([["2026-01-31", "2026-02-01 23:59"]])
    >>> periods_of("visits.csv", times, "week").to_pylist()
    ['2026-01-26', '2026-01-26']
    >>> periods_of("visits.csv", times, "week", "2026-02-01..2026-02-28").to_pylist()
    ['', '2026-01-26']
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from dp_transforms.columnar.columns import decoded_array, single
    from dp_transforms.errors import as_input_error

    # Encoded anew, since a given dictionary may have nulls, or values that no row has.
    values = decoded_array(single(times)).dictionary_encode()
    text = values.dictionary
    hour = period == "hour"
    pattern, example = (_HOUR, "") if hour else (_TIME, "2026-01-31 or ")
    with as_input_error(
        f"{path}: not all records have a time that is written like {example}2026-01-31 23:59: "
        "write it so",
        (pa.ArrowInvalid,),
    ):
        if values.null_count or False in pc.match_substring_regex(text, pattern).to_pylist():
            raise pa.ArrowInvalid
        days = pc.utf8_slice_codeunits(text, 0, 10).cast(pa.date32())
    if period == "week":
        text = pc.floor_temporal(days, unit=period).cast(pa.string())
    names = pc.replace_substring(pc.utf8_slice_codeunits(text, 0, _LENGTHS[period]), " ", "T")
    if span is not None:
        first, last = (pa.scalar(day.date(), pa.date32()) for day in days_of(span))
        is_in = pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last))
        names = pc.if_else(is_in, names, "")
    return names.take(values.indices)
