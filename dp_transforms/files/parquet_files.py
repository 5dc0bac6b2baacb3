"""The format Parquet: reads files as Arrow tables, one range of row groups per worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_transforms.errors import as_input_error
from dp_transforms.files.logical_types import fields_at, record_schema, record_table
from dp_transforms.files.paths import FileRange, open_bytes
from dp_transforms.files.record_files import RecordFormat
from dp_transforms.threads import map_ahead

RANGE_BYTES = 32 << 20
BATCH_ROWS = 1 << 20
BATCH_BYTES = 128 << 20
_BUFFER_BYTES = 1 << 20
_UNIT_OF_INT96 = "us"
_FAULTS = (pa.ArrowException, OSError, UnicodeError)


@dataclass(frozen=True)
class ParquetFiles(RecordFormat):
    """Reads columns of Parquet files, or fields of structs, such as user.id.

    Integers become int64. Text, dates, timestamps, booleans, decimals and uint64 become strings,
    and binary stays binary; see ``logical_types``. Timestamps of 96 bits are read to the
    microsecond, since 64 bits cannot hold nanoseconds after the year 2262. Columns with a
    dictionary in the file are read as dictionary codes.
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        with open_bytes(path) as file:
            return record_schema(path, _parquet(path, file).schema_arrow, columns)

    def estimated_rows(self, path: str, size: int) -> int:
        with open_bytes(path) as file:
            return int(_parquet(path, file).metadata.num_rows)

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        return FileRange.alike(path, size, RANGE_BYTES)

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        # A range has the row groups that begin in it; a few of them are read ahead.
        with open_bytes(part.path) as file:
            parquet = _parquet(part.path, file)
            schema = record_schema(part.path, parquet.schema_arrow, columns)
            groups = [
                i
                for i in range(parquet.metadata.num_row_groups)
                if part.start <= _offset(parquet.metadata.row_group(i)) < part.stop
            ]
            nested = [name for name in schema.names if name not in parquet.schema_arrow.names]
            fields = [field for name in nested for field in fields_at(parquet.schema_arrow, name)]
            # In structs, Arrow cannot join the codes of several row groups. So row groups are read
            # one by one if there are codes, as in files that polars writes.
            has_nested_codes = any(pa.types.is_dictionary(field.type) for field in fields)
            together = [[group] for group in groups] if has_nested_codes else [groups]
            parts = itertools.chain.from_iterable(
                _parts(part.path, parquet.metadata, schema, some) for some in together
            )
            with as_input_error(
                f"{part.path} cannot be read to its end: it is damaged, or holds values that its "
                "types do not allow, such as text that is not UTF-8",
                _FAULTS,
            ):
                yield from itertools.chain.from_iterable(map_ahead(list, parts))


def _parts(
    path: str, metadata: Any, schema: pa.Schema, groups: list[int]
) -> Iterator[Iterable[pa.Table]]:
    """Yields iterables of tables, each with about one batch of rows. Other threads go through them.

    Row groups that fit in a batch are read by the thread that goes through their iterable. A larger
    row group is read here, a batch at a time, and each batch is an iterable of its own. So no
    thread holds more than a batch, however large the row groups of a file are.
    """
    for chunks, batches in _batches(groups, metadata, schema):
        tables = _read_groups(path, metadata, schema, chunks, batches)
        if batches > 1:
            yield from ([table] for table in tables)
        else:
            yield tables


def _batches(
    groups: list[int], metadata: Any, schema: pa.Schema
) -> Iterator[tuple[dict[int, list[Any]], float]]:
    """Yields pairs: row groups that fit in a batch together, or a larger one alone; and their size
    in batches. The row groups are given by number, with the metadata of their needed columns."""
    held: dict[int, list[Any]] = {}
    batches = 0.0
    for group in groups:
        chunks = _chunks(metadata, group, schema)
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        more = max(metadata.row_group(group).num_rows / BATCH_ROWS, size / BATCH_BYTES)
        if held and batches + more > 1:
            yield held, batches
            held, batches = {}, 0.0
        held[group] = chunks
        batches += more
    if held:
        yield held, batches


def _read_groups(
    path: str, metadata: Any, schema: pa.Schema, chunks: dict[int, list[Any]], batches: float
) -> Iterator[pa.Table]:
    """Yields the records of row groups: in one table, or in several if they exceed a batch."""
    groups, large = list(chunks), batches > 1
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    batch_rows = max(1, int(rows / batches)) if large else BATCH_ROWS
    # Each thread opens the file again, since a file has only one position to read from.
    with open_bytes(path) as file:
        parquet = pq.ParquetFile(
            file,
            metadata=metadata,
            coerce_int96_timestamp_unit=_UNIT_OF_INT96,
            read_dictionary=_dictionaries(metadata, list(chunks.values())),
            # Without a buffer, Arrow holds all pages of a column.
            buffer_size=_BUFFER_BYTES if large else 0,
        )
        record_batches = parquet.iter_batches(batch_rows, groups, schema.names, use_threads=large)
        tables: Iterable[list[Any]]
        if large:
            tables = ([batch] for batch in record_batches)
        else:
            # Small row groups are one table: each table costs as much as thousands of records.
            tables = [list(record_batches)]
        for batches_of_table in tables:
            if not batches_of_table:
                continue
            table = pa.Table.from_batches(batches_of_table)
            # Arrow itself does not check that text is UTF-8, nor that codes have values.
            table.validate(full=True)
            yield record_table(table, schema)


def _dictionaries(metadata: Any, chunks: list[list[Any]]) -> list[str]:
    """Returns the columns to read as dictionary codes: those that have a dictionary in the first
    row group, of at most half of the column's bytes.

    Fields of structs and columns with delta encodings are left out, since Arrow cannot read codes
    of several row groups of them.
    """
    columns = map(metadata.schema.column, range(metadata.num_columns))
    top = {column.path for column in columns if column.path == column.name}
    deltas = {
        chunk.path_in_schema
        for chunk in itertools.chain(*chunks)
        if any(encoding.startswith("DELTA") for encoding in chunk.encodings)
    }
    return [
        chunk.path_in_schema
        for chunk in chunks[0]
        if chunk.path_in_schema in top - deltas
        and chunk.has_dictionary_page
        and 2 * (chunk.data_page_offset - chunk.dictionary_page_offset)
        <= chunk.total_compressed_size
    ]


def _chunks(metadata: Any, group: int, schema: pa.Schema) -> list[Any]:
    names, row_group = set(schema.names), metadata.row_group(group)
    paths = (metadata.schema.column(i).path for i in range(metadata.num_columns))
    return [row_group.column(i) for i, path in enumerate(paths) if path in names]


def _parquet(path: str, file: Any) -> Any:
    fault = f"{path} is not a Parquet file, or is cut short: check it, or give --input_format=csv"
    with as_input_error(fault, _FAULTS):
        return pq.ParquetFile(file, coerce_int96_timestamp_unit=_UNIT_OF_INT96)


def _offset(group: Any) -> int:
    # A row group begins with the first page of its first column, so each has another offset.
    pages = group.column(0).dictionary_page_offset, group.column(0).data_page_offset
    return min(page for page in pages if page is not None)
