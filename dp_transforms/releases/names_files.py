"""Writes names to files and tables, and reads them back.

Functions import Arrow themselves: a command's help needs only the names of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import COUNTS, PARTITIONS_FILE
from dp_transforms.files.output import csv_lines, csv_rows
from dp_transforms.releases.base import Statement, Tables

if TYPE_CHECKING:
    import pyarrow as pa

NAMED_USERS = ("users", "low", "high")
"""The last columns of a table of names with estimates."""
_PARTITION = "partition"
"""The header of a single column of names."""


def name_tables(selected: Iterable[pa.Table], statement: Mapping[str, Any]) -> Tables:
    """Returns the file of selected names, sorted by noisy count or by text, since their order must
    not tell how the data were laid out.

    >>> import pyarrow as pa
    >>> counts = {"noisy_count": [9, 12], "low": [4, 7], "high": [14, 17]}
    >>> selected = pa.table({"partition": ["a", "b, c"], **counts})
    >>> name_tables([selected], {"noisy_counts": True})
    {'released_partitions.csv': b'partition,noisy_count,low,high\\n"b, c",12,7,17\\na,9,4,14\\n'}
    """
    lines = [line for table in selected for line in _lines(_columns(table))]
    columns = statement.get("partition_columns", ())
    return {PARTITIONS_FILE: _content(columns, _in_order(lines, statement), statement)}


def names_table(tables: Sequence[pa.Table], statement: Mapping[str, Any]) -> pa.Table:
    """Returns selected names as ``read_names`` gives them, in the order of the job's file."""
    import pyarrow as pa

    from dp_transforms.columnar.columns import concat

    selected = concat(list(tables))
    rows = {line: row for row, line in enumerate(_lines(_columns(selected)))}
    names = [*statement["partition_columns"], *_count_columns(statement)]
    if not rows:  # there is no type to keep
        return read_names(csv_lines([names]), statement)
    order = pa.array([rows[line] for line in _in_order(rows, statement)], pa.int64())
    return pa.table(_columns(selected.take(order)), names)


def statement_with_types(names: pa.Table, statement: Mapping[str, Any]) -> Statement:
    """Returns a statement of ``names_table`` in which released integers and bytes are stated as
    such, so that the names can be loaded as they are. This depends on the names alone: each was
    selected as a value of its type, and without any the types are those of the statement."""
    import pyarrow as pa

    types = list(statement["partition_types"])
    for place, kind in enumerate(types):
        if names.num_rows and kind == "string":
            released = names.column(place).type
            types[place] = "integer" if pa.types.is_integer(released) else str(released)
    return {**statement, "partition_types": types}


def names_content(names: pa.Table, statement: Mapping[str, Any]) -> bytes:
    """Returns the bytes of the job's file for a table of ``read_names``."""
    width = names.num_columns - len(_count_columns(statement))
    return _content(names.column_names[:width], _lines(names.columns), statement)


def _count_columns(statement: Mapping[str, Any]) -> tuple[str, ...]:
    return COUNTS if statement["noisy_counts"] else ()


def _columns(selected: pa.Table) -> list[pa.Array]:
    import pyarrow as pa

    from dp_transforms.columnar.columns import PARTITION, single

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
    partition = list(names) if len(names) > 1 else [_PARTITION]
    header = [*partition, *_count_columns(statement)]
    return b"".join([csv_lines([header]), *lines])


def read_names(content: bytes, statement: Mapping[str, Any]) -> pa.Table:
    """Parses a file of names into a table: columns with the names and types of its privacy.json, or
    else those of the file, as text; then noisy counts with their intervals, if there are any. Bytes
    that are no such file raise a ValueError, KeyError or csv.Error."""
    import pyarrow as pa

    header, *rows = csv_rows(content.decode(), strict=True)
    width = len(header) - len(_count_columns(statement))
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


def _texts(values: Any) -> list[Any]:
    """Returns values for a text file. Bytes that are not UTF-8 become ``\\xff``, and so a backslash
    before an x in binary names becomes ``\\x5c``."""
    import pyarrow as pa

    texts: list[Any] = values.to_pylist()
    if not pa.types.is_binary(values.type):
        return texts
    return [name.replace(b"\\x", b"\\x5cx").decode("utf-8", "backslashreplace") for name in texts]


def _binary(texts: pa.Array) -> pa.Array:
    """Inverts ``_texts``."""
    import pyarrow as pa

    escaped = re.compile(rb"\\x([0-9a-f]{2})")
    names = [
        escaped.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())
        for text in texts.to_pylist()
    ]
    return pa.array(names, pa.binary())


def users_content(columns: Mapping[str, Any], width: int) -> bytes:
    """Returns the bytes of the file of estimates, from the columns of the partitions, which are so
    many, and those of their users."""
    names = [*columns][:width]
    header = [*(names if len(names) > 1 else [_PARTITION]), *NAMED_USERS]
    return b"".join([csv_lines([header]), *_lines([*columns.values()])])
