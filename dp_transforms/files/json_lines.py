"""JSON lines, one object to a line, as Arrow tables."""

from __future__ import annotations

import json
import operator
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError
from dp_transforms.files import text_lines
from dp_transforms.files.logical_types import record_schema, record_table, typed_column
from dp_transforms.files.paths import FileRange

_SAMPLE_LINES = 1000
_BYTE_ORDER_MARK = "\ufeff"
_MISSING = object()
_ANY = pa.null()


@dataclass(frozen=True)
class JsonLines(text_lines.TextFormat):
    """Records in the keys of objects, of which each has a line of its own: user.id is the key id of
    the object user, unless a record has the key user.id itself.

    Values are text, integers of 64 bits, or booleans, and of one type in a column: that of the
    first value in each file. A key that a record does not have is null. Each line is a record by
    itself: nothing in one changes how another is read.
    """

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        return record_schema(path, pa.schema(_kinds(path, columns)), columns)

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        kinds = _kinds(part.path, columns)
        with text_lines.text_bytes(part.path) as file:
            try:
                for block in text_lines.blocks(part, file, 0, b""):
                    yield _table(part.path, _records(part.path, block), kinds)
            except OSError:
                raise InputError(f"{part.path} {text_lines.CUT_SHORT}") from None


def _kinds(path: str, columns: Sequence[str]) -> dict[str, pa.DataType]:
    """The type of each column's first value; of text, if the first lines have none."""
    with text_lines.text_bytes(path) as file:
        try:
            lines = [text_lines.line(path, file) for _ in range(_SAMPLE_LINES)]
        except OSError:
            raise InputError(f"{path} {text_lines.CUT_SHORT}") from None
    records = _records(path, b"".join(lines))
    kinds: dict[str, pa.DataType] = {}
    for column in columns:
        values = _values(records, column)
        if records and all(value is _MISSING for value in _values(records, column, _MISSING)):
            # Which keys there are may be private.
            raise InputError(f"{path}: the first records have no key {column!r}: check the name")
        first = _column(path, column, [value for value in values if value is not None][:1], _ANY)
        kinds[column] = first.type if len(first) else pa.string()
    return kinds


def _values(records: list[dict[str, Any]], name: str, missing: Any = None) -> list[Any]:
    """The values of a key in records: of each by itself, whatever keys others have."""
    if "." not in name:
        try:
            return list(map(operator.itemgetter(name), records))
        except KeyError:
            return [record.get(name, missing) for record in records]
    return [_nested(record, name, missing) for record in records]


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
    try:
        text = block.decode()
        if _BYTE_ORDER_MARK in text:
            text = text.removeprefix(_BYTE_ORDER_MARK).replace(f"\n{_BYTE_ORDER_MARK}", "\n")
        # A line of white space is no record.
        lines = list(filter(str.strip, text.split("\n")))
        records = _together(lines)
        if records is None:
            records = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        records = [None]
    if set(map(type, records)) - {dict}:
        raise InputError(
            f"{path}: a line is not one JSON object in UTF-8: write each record on a line of its "
            "own, and end names of compressed files with .gz, .bz2 or .zst"
        )
    return records


def _together(lines: list[str]) -> list[Any] | None:
    """The values of all lines, parsed in one array: in a third of the time. None if a line may not
    be a value by itself; then it is parsed as such.

    Between two lines stands a text that no line can have guessed. Where each of these texts is an
    element of the array, no line began or ended inside a value; and where just one element is
    between two of them, it is all that the line holds. So nobody's line changes how another's is
    read.
    """
    mark = secrets.token_hex()
    try:
        values = json.loads("[" + f',"{mark}",'.join(lines) + "]")
    except (ValueError, RecursionError):
        return None
    marks = values[1::2]
    whole = len(values) == 2 * len(lines) - 1 and marks.count(mark) == len(marks)
    return values[::2] if whole else None


def _table(path: str, records: list[dict[str, Any]], kinds: dict[str, pa.DataType]) -> pa.Table:
    columns = {
        name: _column(path, name, _values(records, name), kind) for name, kind in kinds.items()
    }
    return record_table(pa.table(columns), record_schema(path, pa.schema(kinds), [*kinds]))


def _column(path: str, name: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return typed_column(values, name, kind)
    except (TypeError, ValueError):
        raise InputError(
            f"{path}: not all values of key {name!r} are of the type of the first one, text, "
            "booleans or integers of 64 bits: store them as strings"
        ) from None
