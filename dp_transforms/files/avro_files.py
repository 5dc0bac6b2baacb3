"""The format Avro: reads files as Arrow tables, one file per worker."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.logical_types import fields_at, record_schema, record_table
from dp_transforms.files.paths import FileRange, open_bytes
from dp_transforms.files.record_files import RecordFormat

BATCH_ROWS = 1 << 17

_TYPES = {
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "int": pa.int64(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
}
_LOGICAL_TYPES = {
    "uuid": pa.string(),
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}

# The modules of codecs that fastavro does not install itself. Any of them will do; the first one
# has the name of the package to install.
_CODECS = {
    "snappy": ("cramjam", "snappy"),
    "lz4": ("lz4",),
    "zstandard": ("zstandard", "backports.zstd", "compression.zstd"),
}


@dataclass(frozen=True)
class AvroFiles(RecordFormat):
    """Reads fields of Avro files, or fields of nested records such as user.id.

    Their values may be strings, enums, bytes, integers, booleans, dates, timestamps, decimals,
    UUIDs or nulls. They become what the same types of Parquet files become (see ``logical_types``).
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        with open_bytes(path) as file:
            return record_schema(path, _fields(_opened(path, "reader", file)), columns)

    def estimated_rows(self, path: str, size: int) -> int:
        with open_bytes(path) as file:
            blocks = _opened(path, "block_reader", file)
            with _undamaged(path):
                block = next(blocks, None)
        # A negative number is damage, about which reading the file raises an error.
        if block is None or block.num_records < 0:
            return 0
        return int(size * block.num_records // max(1, block.size))

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        yield FileRange.whole(path)

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        with open_bytes(part.path) as file:
            reader = _opened(part.path, "reader", file)
            fields = _fields(reader)
            schema = record_schema(part.path, fields, columns)
            with _undamaged(part.path):
                while batch := list(itertools.islice(reader, BATCH_ROWS)):
                    yield record_table(_table(batch, fields, columns), schema)


def _opened(path: str, reader: str, file: Any) -> Any:
    """Returns one of fastavro's readers of a file, given by its name."""
    # Imported here so that other formats do not wait for it.
    import fastavro

    with _as_damaged(
        f"{path} is not an Avro file, is cut short, or is compressed by an unknown codec: check it "
        "and --input_format"
    ):
        opened = getattr(fastavro, reader)(file)
        modules = _CODECS.get(opened.codec, ())
        if modules and not any(map(_is_installed, modules)):
            raise InputError(
                f"{path} is compressed by {opened.codec}, whose codec is not installed: pip "
                f"install {modules[0]}"
            )
        return opened


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # the package around the module is missing
        return False


def _undamaged(path: str) -> contextlib.AbstractContextManager[None]:
    return _as_damaged(
        f"{path} cannot be read to its end: it is damaged, or holds values that its types do not "
        "allow"
    )


def _as_damaged(fault: str) -> contextlib.AbstractContextManager[None]:
    """Raises an InputError in place of any error of fastavro, a codec or Arrow.

    On damaged bytes they raise errors of any type, also MemoryError, if the bytes state a length
    that exceeds the memory.
    """
    return as_input_error(fault, keep=(InputError,))


def _fields(reader: Any) -> pa.Schema:
    """Returns the fields of a file's records. A field whose type Arrow lacks has the type null."""
    import fastavro.schema

    # After its first use, a named type may be given by its name alone: this expands all names.
    whole = _type(fastavro.schema.expand_schema(reader.writer_schema))
    return pa.schema(list(whole) if whole is not None and pa.types.is_struct(whole) else [])


def _type(kind: Any) -> pa.DataType | None:
    """Returns the Arrow type of an Avro type, or None if Arrow has none.

    >>> _type(["null", {"type": "int", "logicalType": "date"}])
    DataType(date32[day])
    """
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        return _type(others[0]) if len(others) == 1 else None
    if isinstance(kind, str):
        return _TYPES.get(kind)
    if kind["type"] == "record":
        fields = [(field["name"], _type(field["type"]) or pa.null()) for field in kind["fields"]]
        return pa.struct(fields)
    logical = kind.get("logicalType")
    if logical == "decimal":
        precision, scale = kind.get("precision", 0), kind.get("scale", 0)
        return pa.decimal256(precision, scale) if 0 < precision <= 76 else None
    return _TYPES.get(kind["type"]) if logical is None else _LOGICAL_TYPES.get(logical)


def _table(records: list[Any], fields: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """Returns a table of some columns of fastavro's records."""
    arrays = {}
    for name in columns:
        values, kind = records, fields_at(fields, name)[0].type
        for key in name.split("."):
            values = [None if value is None else value[key] for value in values]
        if kind == pa.string():
            # fastavro gives UUIDs as objects, and those of fixed size as bytes.
            values = [
                uuid.UUID(bytes=value) if isinstance(value, bytes) else value for value in values
            ]
            values = [value if value is None else str(value) for value in values]
        arrays[name] = pa.array(values, kind)
    return pa.table(arrays)
