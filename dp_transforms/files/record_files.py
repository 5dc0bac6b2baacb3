"""The base classes of sources of records and of file formats, and the source of files' records."""

from __future__ import annotations

import datetime
import functools
import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.attributes import LIST, attribute_text
from dp_transforms.columnar.columns import PARTITION, USER, plain_type, single, without_nulls
from dp_transforms.columnar.scattering import DEFAULT_BUCKETS, num_buckets_for
from dp_transforms.errors import ColumnError, InputError
from dp_transforms.files.filenames import RECORD_FORMATS, periods_of
from dp_transforms.files.logical_types import NO_VALUES, from_text, logical_name
from dp_transforms.files.paths import FileRange, FileVersion, file_version, local_path, match_files

FILES_CHECKED_AT_LAUNCH = 16
_FEW_PATHS = 3

_TIMES = ("string", "date", "timestamp", "timestamp of a time zone", NO_VALUES)
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")


class RecordFormat(ABC):
    """A file format of records, which reads columns of files into Arrow tables.

    Every method raises an InputError, which shows nothing of the records, if the file cannot be
    opened, is not of this format, or cannot be read to its end.
    """

    @abstractmethod
    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        """Returns the names and types of some columns, by reading a file's beginning or end. Raises
        an InputError if a column is missing or of an unfit type."""

    @abstractmethod
    def estimated_rows(self, path: str, size: int) -> int:
        """Returns the approximate number of records in a file of this many bytes."""

    @abstractmethod
    def split(self, path: str, size: int) -> Iterator[FileRange]:
        """Yields ranges that cover a file of this many bytes, to be read in any order."""

    @abstractmethod
    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields some columns of the records that begin in a range."""


def check_different(columns: Sequence[str]) -> None:
    """Raises a ColumnError if a column is given twice."""
    for column in columns:
        if columns.count(column) > 1:
            rule = "users, partitions, groups and times must be different columns"
            # The other columns are not shown: names in a list of columns may be private values.
            raise ColumnError.about(
                column, f"that is given twice: {rule}", f"{rule}, and {column!r} is given twice"
            )


class RecordSource(ABC):
    """A source of records, which yields tables with the columns user and partition.

    Args:
      pattern: the name of the source in errors.
      user_column: the column of users.
      partition_columns: the column of partitions. Several columns make a composite partition;
        without any, the tables have no column partition.
      drop_nulls: leave out records with a null in one of these columns, or in that of times. By
        default such records are an error.
      attribute_columns: further columns to keep, under their own names. They may hold nulls.
      drop_option: what the caller gives to set ``drop_nulls``, for errors.

    Attributes:
      opened: when the source was opened. The clock is read before any record, and reading some of
        them may take long: so this time depends on no record.

    Raises:
      ValueError: a column is given twice.
    """

    estimated_rows: int = 0
    """The approximate number of records; 0 if it is not known."""
    # Set by each source: the needed columns, with their types in the source.
    _schema: pa.Schema
    _public_error: type[InputError] = InputError
    # The columns whose type is unknown, since they have no values.
    _without_values: frozenset[str] = frozenset()
    _period: str | None = None
    _span: str | None = None

    def __init__(
        self,
        pattern: str,
        user_column: str,
        partition_columns: Sequence[str],
        drop_nulls: bool = False,
        attribute_columns: Sequence[str] = (),
        drop_option: str = "--drop_nulls",
    ):
        self.opened = datetime.datetime.now(datetime.timezone.utc)
        self.pattern = pattern
        self._columns = (user_column, *partition_columns, *attribute_columns)
        # The user's and the partition's columns come first; attributes follow.
        self._needed = 1 + len(partition_columns)
        self._drop_nulls, self._drop_option = drop_nulls, drop_option
        check_different(self._columns)

    @abstractmethod
    def tables(self) -> Iterator[pa.Table]:
        """Yields tables of the records, in this process. InputErrors show nothing of them."""

    def described(self) -> list[str]:
        """Returns lines that describe the source for a dry run; by default there are none."""
        return []

    @property
    def num_buckets(self) -> int:
        """Returns the number of buckets to shuffle the records into."""
        return num_buckets_for(self.estimated_rows) if self.estimated_rows else DEFAULT_BUCKETS

    @property
    def partition_fields(self) -> list[pa.Field]:
        """Returns the partition columns, with their types in the source."""
        return list(self._schema)[1 : self._needed]

    @property
    def attribute_fields(self) -> list[pa.Field]:
        """Returns the attribute columns, with their types in the source."""
        return list(self._schema)[self._needed :]

    def check_ends(self) -> None:
        """Raises an InputError if users and partitions, which are the ends of edges, have different
        types.

        Types that come from values do not count if there are none. So the error depends on the
        schema alone, and does not distinguish an empty table from one with a record.
        """
        source, *targets = list(self._schema)[: self._needed]
        for target in targets:
            has_types = not self._without_values.intersection((source.name, target.name))
            if has_types and source.type != target.type:
                raise InputError(
                    f"column {source.name!r} is read as {source.type}, but {target.name!r} as "
                    f"{target.type}: give both ends of an edge the same type"
                )

    def name_periods(self, period: str, span: str | None = None) -> None:
        """Makes ``tables`` replace the last column, of times, by the column ``list`` with the name
        of each record's period.

        Args:
          period: "hour", "day", "week" or "month".
          span: the first and the last day, such as "2026-01-01..2026-01-31". Records of other days
            have the period "". Whether a record has it depends on its own time and on public days
            alone.

        Raises:
          InputError: the last column cannot hold times.
        """
        field = self.attribute_fields[-1]
        if logical_name(field) not in _TIMES:
            raise InputError(
                f"{self.pattern}: column {field.name!r} is read as {logical_name(field)}, not as a "
                "time: store it as a date, a timestamp, or text such as 2026-01-31 23:59"
            )
        self._period, self._span = period, span

    def check_groups(self, groups: Mapping[str, Sequence[str]]) -> None:
        """Raises an InputError for a group that no record can be in, whose list would be empty.
        ``groups`` has names of groups for attribute columns."""
        fields = {field.name: field for field in self.attribute_fields}
        for column, names in groups.items():
            field = fields[column]
            for name in names:
                try:
                    value = from_text(name, field)
                except ValueError as error:
                    raise InputError(f"groups: {error}") from None
                text = attribute_text(pa.array([value]), field.name)[0].as_py()
                if text != name:
                    raise InputError(
                        f"groups: {name!r} has the text {text!r} in column {field.name!r} of the "
                        "records: name it so"
                    )

    def check_public_partitions(self, names: pa.Array) -> None:
        """Raises an InputError unless public names have the types of the partitions. The names are
        from ``runtime.python_values.public_names``.

        If the types of the partitions may come from values of records, it raises a ValuesError.
        Without a record there are no such types, and no error. So the error discloses that there is
        a record, and must not be free of charge (see ``budget.failures``).
        """
        columns = names.flatten() if pa.types.is_struct(names.type) else [names]
        for column, field in zip(columns, self.partition_fields, strict=True):
            kind = plain_type(column.type)
            if kind not in (None, field.type) and field.name not in self._without_values:
                raise self._public_error(
                    f"public_partitions are of the type {kind}, but column {field.name!r} of "
                    f"{self.pattern} is read as {field.type}: give names of this type"
                )

    def _records(self, path: str, table: pa.Table) -> pa.Table:
        """Returns the records of a table of a file, with the columns that engines read: ``user``,
        ``partition``, and those of groups or of the period.

        Args:
          path: the path of the file, for errors.
          table: the columns of the file that are needed for these.

        Raises:
          InputError: there are nulls, and they are not to be dropped.
        """
        needed, more = self._columns[: self._needed], self._columns[self._needed :]
        has_time = self._period is not None
        # A record is left out by its own fields alone, so that other users' records stay the same.
        whole = without_nulls(table, [*needed, *more[-1:]] if has_time else needed)
        if whole.num_rows < table.num_rows and not self._drop_nulls:
            missing = "user, a partition or a time" if has_time else "user or without a partition"
            raise InputError(
                f"{path} has records without a {missing}: fill these in, or leave them out with "
                f"{self._drop_option}"
            )
        user, *parts = whole.columns[: self._needed]
        if len(parts) > 1:
            parts = [pa.StructArray.from_arrays(list(map(single, parts)), names=needed[1:])]
        attributes = whole.columns[self._needed :]
        names = [USER, *([PARTITION] if parts else []), *more]
        if self._period is not None:
            named = periods_of(self.pattern, attributes[-1], self._period, self._span)
            names[-1], attributes[-1] = LIST, named
        return pa.table([user, *parts, *attributes], names)


class RecordFiles(RecordSource):
    """Reads the records of files that match globs into tables with the columns user and partition.

    The constructor opens the first files, so that a misspelt column fails at once. Files are read
    in ranges, which workers can share.

    Args:
      patterns: a path or glob of a filesystem that Beam knows, or several of them. ``tables`` reads
        each file once, also if several patterns match it.
      user_column, partition_columns, **options: see ``RecordSource``; in text without a header
        columns are positions from 1.
      file_format: the format of all files; by default the one that the first file's name shows.

    Raises:
      InputError: no file matches, or one of the first files does not have these columns.
      ValueError: a column is given twice, or not by position where there is no header.
    """

    def __init__(
        self,
        patterns: str | Sequence[str],
        user_column: str,
        partition_columns: Sequence[str],
        file_format: RecordFormat | None = None,
        **options: Any,
    ):
        several = [patterns] if isinstance(patterns, str) else patterns
        self.patterns = list(map(local_path, several))
        super().__init__(", ".join(self.patterns), user_column, partition_columns, **options)
        files = match_files(*self.patterns)
        # Workers get a copy of the source, so it does not hold the paths of all files.
        self._num_files = len(files)
        self._first_paths = [file.path for file in files[:_FEW_PATHS]]
        self._bytes = sum(file.size_in_bytes for file in files)
        self._largest = max(files, key=lambda file: file.size_in_bytes)
        self._format = file_format or format_of(files[0].path)
        self._first = files[0].path
        self._schema = self._format.schema(self._first, self._columns)
        for file in files[1:FILES_CHECKED_AT_LAUNCH]:
            schema = self._format.schema(file.path, self._columns)
            self._check_schema(file.path, schema)
            # If a file has no values that show a type, the next file's type counts.
            known = zip(self._schema, schema, strict=True)
            self._schema = pa.schema(
                [here if logical_name(first) == NO_VALUES else first for first, here in known]
            )

    @functools.cached_property
    def estimated_rows(self) -> int:  # type: ignore[override]
        """The approximate number of records, if all files have as many per byte as the largest."""
        size = self._largest.size_in_bytes
        rows = self._format.estimated_rows(self._largest.path, size)
        return rows * self._bytes // max(1, size)

    def described(self) -> list[str]:
        files = "1 file" if self._num_files == 1 else f"{self._num_files:,} files"
        more = ", ..." if self._num_files > _FEW_PATHS else ""
        return [f"records: {files}: {', '.join(self._first_paths)}{more}"]

    def tables(self) -> Iterator[pa.Table]:
        # This reads whole files. Nothing is read ahead beyond the end of a range, so threads would
        # wait there.
        for file in match_files(*self.patterns):
            yield from self.read((FileRange.whole(file.path), file_version(file.path)))

    def split(self, file: FileVersion) -> Iterator[tuple[FileRange, FileVersion]]:
        """Yields the ranges of a file, each to be read by one worker."""
        version = file_version(file.path)
        for part in self._format.split(file.path, version.size_in_bytes):
            yield part, version

    def read(self, element: tuple[FileRange, FileVersion]) -> Iterator[pa.Table]:
        """Yields the records of a range. Raises as ``tables``."""
        part, version = element
        for table in self._format.read(part, self._columns):
            self._check_schema(part.path, table.schema)
            if not table.num_rows:
                continue
            records = self._records(part.path, table)
            # If all records are left out for their nulls, the table shows no types.
            if records.num_rows:
                yield records
        # Workers must read the same version, or a record could be in none of their ranges.
        if file_version(part.path) != version:
            raise InputError(
                f"{part.path} has changed while it was read: give a copy that nobody writes to"
            )

    def _check_schema(self, path: str, schema: pa.Schema) -> None:
        for column, here, first in zip(self._columns, schema, self._schema, strict=True):
            names = {logical_name(here), logical_name(first)}
            if len(names - {NO_VALUES}) > 1:
                raise InputError(
                    f"{path}: column {column!r} is read as {logical_name(here)}, but as "
                    f"{logical_name(first)} in {self._first}: give both the same type"
                )


def format_name(path: str) -> str:
    """Returns the format, in ``RECORD_FORMATS``, that a file name shows; "csv" if its suffix is
    unknown. A suffix of compression is skipped. Raises an InputError for a spreadsheet.

    >>> format_name("users.ndjson.gz")
    'jsonl'
    """
    if path.lower().endswith(_SPREADSHEETS):
        raise InputError(f"{path} is a spreadsheet: save it as CSV")
    ends = (path.lower(), path.lower().rpartition(".")[0])
    for end in ends:
        for name, file_format in RECORD_FORMATS.items():
            if end.endswith(file_format.suffixes):
                return name
    return "csv"


def format_of(path: str) -> RecordFormat:
    """Returns the reader for a file name: see ``format_name``.

    >>> format_of("users.tsv.gz").delimiter
    '\\t'
    """
    reader = reader_of(name := format_name(path))
    tabs = name == "csv" and re.search(r"\.tsv(\.[^.]*)?$", path.lower())
    return reader(delimiter="\t") if tabs else reader()


def reader_of(name: str) -> Callable[..., RecordFormat]:
    """Imports and returns the reader class of a format."""
    module, _, reader = RECORD_FORMATS[name].reader.partition(".")
    made: Callable[..., RecordFormat] = getattr(
        importlib.import_module(f"dp_transforms.files.{module}"), reader
    )
    return made
