"""The records of a job's files, as Arrow tables with the columns user and partition."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.scattering import num_buckets_for
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import FORMATS
from dp_transforms.files.logical_types import logical_name
from dp_transforms.files.paths import FileRange, FileVersion, file_version, local_path, match_files
from dp_transforms.files.record_source import RecordFormat, RecordSource

FILES_CHECKED_AT_LAUNCH = 16

_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")


class RecordFiles(RecordSource):
    """The records of files that match a glob, in tables with the columns user and partition.

    The first files are opened when this is made, so that a misspelt column fails at once.
    Files are read in ranges, which workers can share.

    Args:
      pattern: a path or glob of a filesystem that Beam knows.
      user_column: the column of users: a name, or a position from 1 in text without a header.
      partition_columns: the column of partitions likewise; several make a composite partition.
      file_format: by default what `format_of` says of the first file.
      **options: drop_nulls and attribute_columns of ``RecordSource``.

    Raises:
      InputError: no file matches, or one of the first files does not have these columns.
      ValueError: a column is given twice, or not by position where there is no header.
    """

    def __init__(
        self,
        pattern: str,
        user_column: str,
        partition_columns: Sequence[str],
        file_format: RecordFormat | None = None,
        **options: Any,
    ):
        super().__init__(local_path(pattern), user_column, partition_columns, **options)
        files = match_files(self.pattern)
        self._bytes = sum(file.size_in_bytes for file in files)
        self._largest = max(files, key=lambda file: file.size_in_bytes)
        self._format = file_format or format_of(files[0].path)
        if not getattr(self._format, "header", True):
            _check_positions(self._columns)
        schemas = {
            file.path: self._format.schema(file.path, self._columns)
            for file in files[:FILES_CHECKED_AT_LAUNCH]
        }
        self._first, self._schema = next(iter(schemas.items()))
        for path, schema in schemas.items():
            self._check_schema(path, schema)

    @functools.cached_property
    def estimated_rows(self) -> int:  # type: ignore[override]
        """The approximate number of records: the largest file says how many to a byte."""
        size = self._largest.size_in_bytes
        rows = self._format.estimated_rows(self._largest.path, size)
        return rows * self._bytes // max(1, size)

    @property
    def num_buckets(self) -> int:  # type: ignore[override]
        """The number of buckets to shuffle the records into, by the sizes of the files."""
        return num_buckets_for(self.estimated_rows)

    def tables(self) -> Iterator[pa.Table]:
        # Whole files: at the end of a range nothing is read ahead, and threads wait.
        for file in match_files(self.pattern):
            yield from self.read((FileRange.whole(file.path), file_version(file.path)))

    def split(self, file: FileVersion) -> Iterator[tuple[FileRange, FileVersion]]:
        """The ranges of a file, each to be read by one worker."""
        version = file_version(file.path)
        for part in self._format.split(file.path, version.size_in_bytes):
            yield part, version

    def read(self, element: tuple[FileRange, FileVersion]) -> Iterator[pa.Table]:
        """The records of a range. Raises as ``tables``."""
        part, version = element
        for table in self._format.read(part, self._columns):
            self._check_schema(part.path, table.schema)
            if table.num_rows:
                yield self._records(part.path, table)
        # Ranges of different versions of a file do not fit together: records would be lost.
        if file_version(part.path) != version:
            raise InputError(
                f"{part.path} has changed while it was read: give a copy that nobody writes to"
            )

    def _check_schema(self, path: str, schema: pa.Schema) -> None:
        for column, here, first in zip(self._columns, schema, self._schema, strict=True):
            if logical_name(here) != logical_name(first):
                raise InputError(
                    f"{path}: column {column!r} is read as {logical_name(here)}, but as "
                    f"{logical_name(first)} in {self._first}: give both the same type"
                )


def format_name(path: str) -> str:
    """The name in ``FORMATS`` of the format that a file's name tells, compressed or not; "csv" if
    it tells none.

    Raises:
      InputError: it is that of a spreadsheet.

    >>> format_name("users.ndjson.gz")
    'jsonl'
    """
    if path.lower().endswith(_SPREADSHEETS):
        raise InputError(f"{path} is a spreadsheet: save it as CSV")
    ends = (path.lower(), path.lower().rpartition(".")[0])
    return next(
        (name for end in ends for name, one in FORMATS.items() if end.endswith(one.suffixes)), "csv"
    )


def format_of(path: str) -> Any:
    """The format that a file's name tells. Raises as ``format_name``.

    >>> format_of("users.tsv.gz").delimiter
    '\\t'
    """
    tabs = path.lower().endswith(".tsv") or path.lower().rpartition(".")[0].endswith(".tsv")
    return reader_of(format_name(path))(**({"delimiter": "\t"} if tabs else {}))


def reader_of(name: str) -> Any:
    """The class of a format; others are not imported."""
    module, _, reader = FORMATS[name].reader.partition(".")
    return getattr(importlib.import_module(f"dp_transforms.files.{module}"), reader)


def _check_positions(columns: Sequence[str]) -> None:
    for column in columns:
        if not (column.isascii() and column.isdigit() and 1 <= int(column) <= 1_000_000):
            raise ValueError(
                f"columns must be positions counted from 1 when there is no header, got {column!r}"
            )
