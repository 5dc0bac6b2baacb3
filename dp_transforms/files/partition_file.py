"""Reads and writes files of selected names, and reads files of public names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.columns import PARTITION, concat, single
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import COUNTS, PARTITIONS_FILE
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.output import csv_lines, csv_rows
from dp_transforms.files.paths import discreet, faults, local_path, read_bytes


def name_tables(statement: Mapping[str, Any], found: Iterable[pa.Table]) -> dict[str, bytes]:
    """Returns the file of selected names, sorted by noisy count or by text, since their order must
    not tell how the data were laid out.

    >>> counts = {"noisy_count": [9, 12], "low": [4, 7], "high": [14, 17]}
    >>> name_tables({"noisy_counts": True}, [pa.table({"partition": ["a", "b, c"], **counts})])
    {'released_partitions.csv': b'partition,noisy_count,low,high\\n"b, c",12,7,17\\na,9,4,14\\n'}
    """
    lines = [line for table in found for line in _lines(_columns(table))]
    columns = statement.get("partition_columns", ())
    return {PARTITIONS_FILE: _content(columns, _in_order(lines, statement), statement)}


def names_table(found: Sequence[pa.Table], statement: Mapping[str, Any]) -> pa.Table:
    """Returns selected names as ``read_names`` gives them, in the order of the job's file."""
    selected = concat(list(found))
    rows = {line: row for row, line in enumerate(_lines(_columns(selected)))}
    names = [*statement["partition_columns"], *COUNTS * statement["noisy_counts"]]
    if not rows:  # there is no type to keep
        return read_names(csv_lines([names]), statement)
    order = pa.array([rows[line] for line in _in_order(rows, statement)], pa.int64())
    return pa.table(_columns(selected.take(order)), names)


def statement_with_types(names: pa.Table, statement: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a statement of ``names_table`` in which released integers and bytes are stated as
    such, so that the names can be loaded as they are. This depends on the names alone: each was
    selected as a value of its type, and without any the types are those of the statement."""
    types = list(statement["partition_types"])
    for place, kind in enumerate(types):
        if names.num_rows and kind == "string":
            found = names.column(place).type
            types[place] = "integer" if pa.types.is_integer(found) else str(found)
    return {**statement, "partition_types": types}


def names_content(names: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """Returns the bytes of the job's file for a table of ``read_names``."""
    width = names.num_columns - len(COUNTS) * statement["noisy_counts"]
    return _content(names.column_names[:width], _lines(names.columns), statement)


def _columns(selected: pa.Table) -> list[pa.Array]:
    partitions = single(selected[PARTITION])
    parts = partitions.flatten() if pa.types.is_struct(partitions.type) else [partitions]
    return [*parts, *(single(selected[name]) for name in COUNTS if name in selected.column_names)]


def _lines(columns: Sequence[Any]) -> Iterator[bytes]:
    for values in zip(*map(_texts, columns), strict=True):
        yield csv_lines([values])


def _in_order(lines: Iterable[bytes], statement: Mapping[str, Any]) -> list[bytes]:
    if not statement["noisy_counts"]:
        return sorted(lines)
    return sorted(lines, key=lambda line: (-int(line.rsplit(b",", 3)[1]), line))


def _content(names: Sequence[str], lines: Iterable[bytes], statement: Mapping[str, Any]) -> bytes:
    # A composite partition's columns keep their names.
    header = [*(names if len(names) > 1 else [PARTITION]), *COUNTS * statement["noisy_counts"]]
    return b"".join([csv_lines([header]), *lines])


def read_names(content: bytes, statement: Mapping[str, Any]) -> pa.Table:
    """Parses a file of names into a table: columns with the names and types of its privacy.json, or
    else those of the file, as text; then noisy counts with their intervals, if there are any. Bytes
    that are no such file raise a ValueError, KeyError or csv.Error."""
    header, *rows = csv_rows(content.decode(), strict=True)
    width = len(header) - len(COUNTS) * bool(statement["noisy_counts"])
    names = statement.get("partition_columns", header[:width])
    types = statement.get("partition_types", ["string"] * width)
    if width < 1 or {len(names), len(types)} != {width} or any(len(r) != len(header) for r in rows):
        raise ValueError("the columns must be those of the statement")
    table = {}
    kinds = [*types, *["integer"] * (len(header) - width)]
    for place, (name, kind) in enumerate(zip([*names, *header[width:]], kinds, strict=True)):
        text = pa.array([row[place] for row in rows], pa.string())
        if kind == "integer":
            text = text.cast(pa.int64())
        table[name] = _binary(text) if kind == "binary" else text
    return pa.table(table)


def read_public_partitions(path: str, fields: Sequence[pa.Field]) -> pa.Array:
    """Reads the partitions of a file into a column with the types of the records' partitions."""
    path = local_path(path)
    with faults(f"{path} cannot be read"):
        content = read_bytes(path)
    columns: list[list[Any]] = [[] for _ in fields]
    with discreet(
        f"{path} cannot be read as CSV in UTF-8: convert it, or close quotes around whole fields",
        (csv.Error, UnicodeDecodeError),
    ):
        rows = csv_rows(content.decode("utf-8-sig"), strict=True)
        for row in filter(None, rows):
            if len(row) != len(fields):
                raise InputError(
                    f"{path}, line {rows.line_num}: expected {len(fields)} fields, one for each "
                    f"partition column, got {len(row)}"
                )
            for column, value, field in zip(columns, row, fields, strict=True):
                try:
                    column.append(from_text(value, field))
                except ValueError as error:
                    raise InputError(f"{path}, line {rows.line_num}: {error}") from None
    if not columns[0]:
        raise InputError(f"{path} has no public partitions: write one on each line")
    arrays = [pa.array(column) for column in columns]
    if len(arrays) == 1:
        return arrays[0]
    return pa.StructArray.from_arrays(arrays, names=[field.name for field in fields])


def _texts(values: Any) -> list[Any]:
    """Returns values for a text file. Bytes that are not UTF-8 become ``\\xff``, and so a backslash
    before an x in binary names becomes ``\\x5c``."""
    found: list[Any] = values.to_pylist()
    if not pa.types.is_binary(values.type):
        return found
    return [one.replace(b"\\x", b"\\x5cx").decode("utf-8", "backslashreplace") for one in found]


def _binary(texts: pa.Array) -> pa.Array:
    """Inverts ``_texts``."""
    escaped, byte = re.compile(rb"\\x([0-9a-f]{2})"), lambda found: bytes.fromhex(found[1].decode())
    return pa.array([escaped.sub(byte, one.encode()) for one in texts.to_pylist()], pa.binary())
