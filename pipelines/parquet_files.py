"""Parquet files as Arrow tables, one range of row groups per worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.errors import InputError
from pipelines.files import FileRange, open_bytes

RANGE_BYTES = 64 << 20
BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class ParquetFiles:
    """Records in the top-level columns of Parquet files.

    Integers become int64. Text, dictionaries of text, dates, timestamps, booleans, decimals and
    uint64 become strings, and binary stays binary.
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        """The names and types of some of a file's columns, from its footer.

        Raises:
          InputError: the file has no such columns, they are of unfit types, or it is not Parquet.
        """
        with open_bytes(path) as file:
            return _record_schema(path, _parquet(path, file).schema_arrow, columns)

    def estimated_rows(self, path: str, size: int) -> int:
        """How many records a file has, from its footer.

        Raises:
          InputError: it is not a Parquet file.
        """
        with open_bytes(path) as file:
            rows: int = _parquet(path, file).metadata.num_rows
            return rows

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        """Ranges that cover the file, to be read in any order."""
        for start in range(0, size, RANGE_BYTES):
            yield FileRange(path, start, min(start + RANGE_BYTES, size))

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of the row groups that begin in the range.

        Raises:
          InputError: the records can not be read; the message says nothing of what they hold.
        """
        with open_bytes(part.path) as file:
            parquet = _parquet(part.path, file)
            schema = _record_schema(part.path, parquet.schema_arrow, columns)
            groups = [
                i
                for i in range(parquet.metadata.num_row_groups)
                if part.start <= _offset(parquet.metadata.row_group(i)) < part.stop
            ]
            try:
                for batch in parquet.iter_batches(BATCH_ROWS, groups, list(columns)):
                    # Arrow itself does not look whether text is UTF-8.
                    batch.validate(full=True)
                    yield pa.Table.from_batches([batch]).select(list(columns)).cast(schema)
            except (pa.ArrowException, OSError, UnicodeError):
                raise InputError(
                    f"{part.path} can not be read to its end: it is damaged, or holds values that "
                    f"its types do not allow, such as text that is not UTF-8"
                ) from None


def _parquet(path: str, file: Any) -> Any:
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError):
        raise InputError(
            f"{path} is not a Parquet file, or is cut short: check it, or give --input_format=csv"
        ) from None


def _offset(group: Any) -> int:
    # The first page of the first column: a file's row groups begin at different offsets.
    first = group.column(0)
    pages = (first.dictionary_page_offset, first.data_page_offset)
    return min(page for page in pages if page is not None)


def _record_schema(path: str, schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(column, _record_type(path, schema, column)) for column in columns])


def _record_type(path: str, schema: pa.Schema, column: str) -> pa.DataType:
    found = schema.get_all_field_indices(column)
    if not found:
        some = ", ".join(schema.names[:10]) + (", ..." if len(schema.names) > 10 else "")
        raise InputError(f"{path} has no column {column!r}: its columns are {some}")
    if len(found) > 1:
        raise InputError(f"{path} has more than one column {column!r}: rename all but one")
    kind = schema.field(found[0]).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    if _is_binary(kind):
        return pa.binary()
    if _has_exact_text(kind):
        return pa.string()
    raise InputError(
        f"{path}: column {column!r} has the type {kind}, in which it is not clear which values are "
        f"equal: store it as a string or an integer"
    )


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)


def _has_exact_text(kind: pa.DataType) -> bool:
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
        or types.is_uint64(kind)
    )
