"""Avro files as Arrow tables, one file per worker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.errors import InputError
from pipelines.files.logical_types import record_field, record_table
from pipelines.files.paths import FileRange, open_bytes
from pipelines.files.record_format import RecordFormat

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


@dataclass(frozen=True)
class AvroFiles(RecordFormat):
    """Records in the top-level fields of Avro files.

    Fields are strings, enums, bytes, integers, booleans, dates, timestamps, decimals or UUIDs, or
    null. They become what the same types of Parquet files become (see ``logical_types``).
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        with open_bytes(path) as file:
            types = _types(path, _opened(path, "reader", file).writer_schema, columns)
        return _schema(types)

    def estimated_rows(self, path: str, size: int) -> int:
        with open_bytes(path) as file:
            blocks = _opened(path, "block_reader", file)
            try:
                block = next(blocks, None)
            except Exception:
                raise InputError(_damaged(path)) from None
        return 0 if block is None else size * block.num_records // max(1, block.size)

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        yield FileRange.whole(path)

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        with open_bytes(part.path) as file:
            reader = _opened(part.path, "reader", file)
            types = _types(part.path, reader.writer_schema, columns)
            while True:
                try:
                    records = list(itertools.islice(reader, BATCH_ROWS))
                    table = _table(records, types)
                except Exception:
                    # Whatever bytes that are no records make fastavro, a codec or Arrow raise.
                    raise InputError(_damaged(part.path)) from None
                if not records:
                    return
                yield table


def _opened(path: str, reader: str, file: Any) -> Any:
    # Other formats do not wait for it.
    import fastavro

    try:
        return getattr(fastavro, reader)(file)
    except Exception:
        raise InputError(
            f"{path} is not an Avro file, is cut short, or is compressed by a codec that is not "
            "installed: check it and --input_format"
        ) from None


def _damaged(path: str) -> str:
    return (
        f"{path} cannot be read to its end: it is damaged, or holds values that its types do not "
        "allow"
    )


def _types(path: str, schema: Any, columns: Sequence[str]) -> dict[str, pa.DataType]:
    fields = schema.get("fields", []) if isinstance(schema, dict) else []
    kinds = {field["name"]: field["type"] for field in fields}
    types = {}
    for column in columns:
        if column not in kinds:
            some = ", ".join([*kinds][:10]) + (", ..." if len(kinds) > 10 else "")
            raise InputError(f"{path} has no field {column!r}: its fields are {some}")
        types[column] = _type(kinds[column])
        if types[column] is None or record_field(column, types[column]) is None:
            raise InputError(
                f"{path}: field {column!r} has a type in which it is not clear which values are "
                "equal: store it as a string or an integer"
            )
    return types


def _type(kind: Any) -> pa.DataType | None:
    """The Arrow type of an Avro type, or None if there is none.

    >>> _type(["null", {"type": "int", "logicalType": "date"}])
    DataType(date32[day])
    """
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        return _type(others[0]) if len(others) == 1 else None
    if isinstance(kind, str):
        return _TYPES.get(kind)
    logical = kind.get("logicalType")
    if logical == "decimal":
        precision, scale = kind.get("precision", 0), kind.get("scale", 0)
        return pa.decimal256(precision, scale) if 0 < precision <= 76 else None
    return _TYPES.get(kind["type"]) if logical is None else _LOGICAL_TYPES.get(logical)


def _table(records: list[Any], types: dict[str, pa.DataType]) -> pa.Table:
    columns = {}
    for name, kind in types.items():
        values = [record[name] for record in records]
        if kind == pa.string():
            # Of a UUID its text.
            values = [value if value is None else str(value) for value in values]
        columns[name] = pa.array(values, kind)
    return record_table(pa.table(columns), _schema(types))


def _schema(types: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema([record_field(name, kind) for name, kind in types.items()])
