"""The format JSON lines, one object to a line: reads files as Arrow tables."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dp_transforms.errors import InputError, UnfitColumnError
from dp_transforms.files import text_lines
from dp_transforms.files.logical_types import (
    as_text,
    record_schema,
    record_table,
    schema_as_text,
    typed_column,
    unstated,
)
from dp_transforms.files.paths import FileRange
from dp_transforms.threads import map_ahead

_SAMPLE_LINES, _MOST_SAMPLES = 1000, 100
_BYTE_ORDER_MARK = "\ufeff"
_MISSING = object()
_KINDS = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), type(None): None}
# Python can read every integer and every nesting of a line within these limits on the numbers of
# its bytes and of its brackets.
_SHORT_LINE, _FEW_BRACKETS = 4096, 500


@dataclass(frozen=True)
class JsonLines(text_lines.TextFormat):
    """Reads keys of JSON objects, one object per line. "user.id" is the key "id" of the object that
    is the value of "user", unless a record has the key "user.id" itself.

    Values are text, 64-bit integers or booleans, and become text. In each file, all values of a
    column must have the type of the first one. A missing key is null. No line changes how another
    one is read.
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        return schema_as_text(_schema(path, _kinds(path, columns)))

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        inferred_types = _kinds(part.path, columns)
        schema = _schema(part.path, inferred_types)
        types = {column: inferred or pa.string() for column, inferred in inferred_types.items()}

        def table_of(block: bytes) -> pa.Table:
            table = _read_by_arrow(block, types)
            if table is None:
                table = _read_by_python(part.path, block, types)
            return as_text(record_table(table, schema))

        with text_lines.text_bytes(part.path) as file:
            yield from map_ahead(table_of, text_lines.blocks(part, file, 0, b""))


def _schema(path: str, kinds: dict[str, pa.DataType | None]) -> pa.Schema:
    """Returns the schema of columns, which are text if their type is not known."""
    fields = [(column, kind or pa.string()) for column, kind in kinds.items()]
    valueless = [column for column, kind in kinds.items() if kind is None]
    return unstated(record_schema(path, pa.schema(fields), list(kinds)), valueless)


def _kinds(path: str, columns: Sequence[str]) -> dict[str, pa.DataType | None]:
    """Returns the type of each column's first value, or None if the first lines have none."""
    kinds: dict[str, pa.DataType | None] = {}
    some = False
    with text_lines.text_bytes(path) as file:
        for _ in range(_MOST_SAMPLES):
            lines = [text_lines.line(path, file) for _ in range(_SAMPLE_LINES)]
            records = _records(path, b"".join(lines))
            some |= bool(records)
            for column in columns:
                values = [
                    value for value in _values(records, column, _MISSING) if value is not _MISSING
                ]
                if values and kinds.get(column) is None:
                    kinds[column] = _kind(path, column, values)
            if not lines[-1] or None not in map(kinds.get, columns):
                break
    for column in columns:
        if some and column not in kinds:
            # The names of the keys may be private.
            raise UnfitColumnError.missing(
                column, f"{path}: the first records have no key {column!r}: check the name"
            )
    return {column: kinds.get(column) for column in columns}


def _kind(path: str, column: str, values: list[Any]) -> pa.DataType | None:
    """Returns the type of the first value that is not null; None if there is none."""
    first = next((value for value in values if value is not None), None)
    # Arrow's own conversion of Python values would import pandas, which takes as long as a job.
    if type(first) not in _KINDS or (type(first) is int and not -(2**63) <= first < 2**63):
        raise _mixed_types(path, column)
    return _KINDS[type(first)]


def _values(records: list[dict[str, Any]], name: str, missing: Any = None) -> list[Any]:
    """Returns the value of a key in each record, and ``missing`` for a record without the key."""
    if "." in name:
        return [_nested(record, name, missing) for record in records]
    return [record.get(name, missing) for record in records]


def _nested(record: dict[str, Any], name: str, missing: Any) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for key in name.split("."):
        if type(value) is not dict or key not in value:
            return missing
        value = value[key]
    return value


def _records(path: str, block: bytes) -> list[dict[str, Any]]:
    """Returns the objects of the lines of a block; raises an InputError for any other line."""
    records = _parsed_lines(block)
    if records is None or any(type(record) is not dict for record in records):
        raise InputError(
            f"{path}: a line is not one JSON object in UTF-8: write each record on a line of its "
            "own, and end names of compressed files with .gz, .bz2 or .zst"
        )
    return records


def _parsed_lines(block: bytes) -> list[Any] | None:
    """Returns the values of the lines of a block; None if one is not JSON in UTF-8."""
    try:
        text = block.decode().removeprefix(_BYTE_ORDER_MARK)
        text = text.replace(f"\n{_BYTE_ORDER_MARK}", "\n")
        # A line of white space is no record.
        lines = list(filter(str.strip, text.split("\n")))
        values = _together(lines)
        if values is None:
            values = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return None
    return values


def _together(lines: list[str]) -> list[Any] | None:
    """Returns the values of all lines, or None if a line may not be one value by itself: then each
    line has to be parsed alone.

    Parsing all lines as one array takes a third of the time of parsing them one by one. Between two
    lines stands a string that no line can have guessed. If each of these strings is an element of
    the array, no line began or ended inside a value. If exactly one element is between two of them,
    it is the whole line. So no line changes how others are read.
    """
    mark = secrets.token_hex()
    try:
        values = json.loads("[" + f',"{mark}",'.join(lines) + "]")
    except (ValueError, RecursionError):
        return None
    marks = values[1::2]
    whole = len(values) == 2 * len(lines) - 1 and marks.count(mark) == len(marks)
    return values[::2] if whole else None


def _read_by_python(path: str, block: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    """Returns the columns of all lines of a block, by Python's parser."""
    records = _records(path, block)
    columns = {
        name: _column(path, name, _values(records, name), column_type)
        for name, column_type in types.items()
    }
    return pa.table(columns)


def _read_by_arrow(block: bytes, kinds: dict[str, pa.DataType]) -> pa.Table | None:
    """Returns the columns of all lines, by Arrow's parser. Returns None if Python's parser might
    read a line differently, or find an error in it: then that has to read the block.

    Arrow takes a tenth of Python's time, but does not require that a line is one object. The
    argument that each is one: every line begins with an opening brace and ends with a closing one.
    So no value continues over a line end, where a closing and an opening brace would stand with
    nothing between them, which no object, array or string allows. So each line has at least one
    object, and exactly one if there are as many objects as lines.
    """
    import pyarrow.json

    if not block.endswith(b"\n"):
        block += b"\n"
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    starts = np.append(0, ends[:-1] + 1)
    last = ends - 1 - (data[ends - 1] == ord("\r"))
    if (data[starts] != ord("{")).any() or (data[last] != ord("}")).any():
        return None
    # A long integer is an error in Python, and so is a deep nesting. A line of few bytes has few
    # brackets; of longer lines, the brackets of all together are counted, without each line's own.
    longest = int((ends - starts).max())
    inner_brackets = block.count(b"{") + block.count(b"[") - len(ends)
    if longest > _SHORT_LINE or (longest > _FEW_BRACKETS and inner_brackets > _FEW_BRACKETS):
        return None
    if any("." in name for name in kinds):
        return None
    parse = pyarrow.json.ParseOptions(pa.schema(kinds), unexpected_field_behavior="ignore")
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block))
    try:
        if not block.isascii():
            block.decode()
        table = pyarrow.json.read_json(io.BytesIO(block), read, parse)
        # An escape such as \ud800 may be half of a character, which is not valid text.
        table.validate(full=True)
    except (pa.ArrowException, UnicodeError):
        return None
    return table if table.num_rows == len(ends) else None


def _column(path: str, name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return typed_column(values, name, kind)
    except (TypeError, ValueError):
        raise _mixed_types(path, name) from None


def _mixed_types(path: str, name: str) -> InputError:
    return InputError(
        f"{path}: not all values of key {name!r} are of the type of the first one (text, if the "
        "first 100,000 lines have none), text, booleans or integers of 64 bits: store them as "
        "strings"
    )
