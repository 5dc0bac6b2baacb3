"""Names of files: those of a release, with the headers of their tables, and those of records."""

from __future__ import annotations

from typing import NamedTuple

PRIVACY_FILE = "privacy.json"

REPORT_FILE = "report.html"
RANKS_FILE = "rank_frequency.png"
CURVE_FILE = "guessing_curve.png"
GROUPS_FILE = "groups.png"
NAMES_PICTURE = "names.png"
COMPARISON_FILE = "comparison.html"
COMPARISON_PICTURE = "comparison.png"
REPORT_FILES = (
    REPORT_FILE,
    RANKS_FILE,
    CURVE_FILE,
    GROUPS_FILE,
    NAMES_PICTURE,
    COMPARISON_FILE,
    COMPARISON_PICTURE,
)
"""The pages and pictures of a release, beside it."""

FREQUENCIES_FILE = "released_frequencies.csv"
FREQUENCIES_HEADER = b"frequency,multiplicity\n"

LISTS_FILE = "released_lists.csv"
LISTS_HEADER = b"attribute,group,frequency,multiplicity\n"

COORDINATES_FILE = "noisy_coordinates.csv"
COORDINATES_HEADER = b"arm,index,value\n"
GROUPED_COORDINATES_HEADER = b"attribute,group,arm,index,value\n"
"""The noisy numbers from which lists are decoded, beside them."""

PARTITIONS_FILE = "released_partitions.csv"
COUNTS = ("noisy_count", "low", "high")
"""The last columns of ``PARTITIONS_FILE``, if noisy counts are asked for."""

DEGREES_FILE = "released_user_degrees.csv"
DEGREES_HEADER = b"partitions_from,users\n"

ALL_PERIODS_FILE = "all_periods.csv"
"""The releases of all periods in one table, in the directory that holds their directories."""

LIST_DIRECTORY = "frequency_list"
PARTITIONS_DIRECTORY = "partitions"


class FileFormat(NamedTuple):
    """A format of files of records: to add one, write its ``RecordFormat`` and a line here."""

    title: str
    suffixes: tuple[str, ...]
    reader: str  # module of dp_transforms.files, and class


FORMATS = {
    "csv": FileFormat("delimited text", (".csv", ".tsv"), "delimited_text.DelimitedText"),
    "jsonl": FileFormat("JSON lines", (".jsonl", ".ndjson"), "json_lines.JsonLines"),
    "parquet": FileFormat("Parquet", (".parquet", ".parq", ".pq"), "parquet_files.ParquetFiles"),
    "avro": FileFormat("Avro", (".avro",), "avro_files.AvroFiles"),
}
"""By what --input_format calls them; a file of another name is delimited text."""

RELEASED_FILES = (FREQUENCIES_FILE, PARTITIONS_FILE, LISTS_FILE, DEGREES_FILE)
"""The releases of all jobs. A directory holds one of them, since it has one privacy.json."""
