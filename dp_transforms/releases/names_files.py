"""Writes names to files and tables, and reads them back.

Functions import Arrow when they are called: a command that prints its help needs the names of files
alone, and starts faster without Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.files.filenames import COUNTS, PARTITIONS_FILE
from dp_transforms.files.output import CsvTable, csv_lines, csv_rows
from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import MAX_VALUE
from dp_transforms.releases.base import Statement, Tables

if TYPE_CHECKING:
    import pyarrow as pa

NAMED_USERS = ("users", "low", "high")
"""The last columns of a table of names with estimates."""
_NO_END = MAX_VALUE // 2


def check_column_names(
    columns: Iterable[str],
    noisy_counts: bool,
    beside_list: bool = False,
    period: str | None = None,
) -> None:
    """Raises a ValueError if a column of partitions has the name of a column that the release adds:
    noisy counts, estimates beside a list, or periods such as "day"."""
    added = set(COUNTS if noisy_counts else ())
    if beside_list:
        added.update(NAMED_USERS)
    if period is not None:
        added |= {"period", period}
    if both := added.intersection(columns):
        raise ValueError(f"the release adds a column {min(both)!r}: rename that of the partitions")


def name_tables(selected: Iterable[pa.Table], statement: Mapping[str, Any]) -> Tables:
    """Returns the file of selected names, sorted by noisy count, if there are any, and by text. It
    is sorted since the order of rows must not tell how the data were laid out.

    >>> import pyarrow as pa
    >>> counts = {"noisy_count": [9, 12], "low": [4, 7], "high": [14, 17]}
    >>> selected = pa.table({"partition": ["a", "b, c"], **counts})
    >>> statement = {"noisy_counts": True, "partition_columns": ["page"]}
    >>> name_tables([selected], statement)["released_partitions.csv"].content()
    b'page,noisy_count,low,high\\n"b, c",12,7,17\\na,9,4,14\\n'
    """
    rows = [row for table in selected for row in _rows(_columns(table))]
    return {PARTITIONS_FILE: CsvTable(_header(statement), sorted(rows, key=_order(statement)))}


def names_table(tables: Sequence[pa.Table], statement: Mapping[str, Any]) -> pa.Table:
    """Returns a table of selected names, with the columns of ``read_names`` and in the order of the
    job's file."""
    import pyarrow as pa

    from dp_transforms.columnar.columns import concat

    selected = concat(list(tables))
    rows = list(_rows(_columns(selected)))
    names = _header(statement)
    if not rows:  # there is no type to keep
        return read_names(csv_lines([names]), statement)
    key = _order(statement)
    order = pa.array(sorted(range(len(rows)), key=lambda place: key(rows[place])), pa.int64())
    return pa.table(_columns(selected.take(order)), list(names))


def statement_with_types(names: pa.Table, statement: Mapping[str, Any]) -> Statement:
    """Returns the statement with the types of the names in a table of ``names_table``. Where the
    statement says "string" but the released names are integers or bytes, it now says so: then
    loading gives the same values. The new types depend on the released names alone: each name was
    selected as a value of its type, and without any name the types stay as they were."""
    import pyarrow as pa

    types = list(statement["partition_types"])
    for place, kind in enumerate(types):
        if names.num_rows and kind == "string":
            released = names.column(place).type
            types[place] = "integer" if pa.types.is_integer(released) else str(released)
    return {**statement, "partition_types": types}


def _count_columns(statement: Mapping[str, Any]) -> tuple[str, ...]:
    return COUNTS if statement["noisy_counts"] else ()


def _columns(selected: pa.Table) -> list[pa.Array]:
    import pyarrow as pa

    from dp_transforms.columnar.columns import PARTITION, single

    partitions = single(selected[PARTITION])
    parts = partitions.flatten() if pa.types.is_struct(partitions.type) else [partitions]
    return [*parts, *(single(selected[name]) for name in COUNTS if name in selected.column_names)]


def _rows(columns: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a text file with these columns."""
    return zip(*map(_texts, columns), strict=True)


def _header(statement: Mapping[str, Any]) -> tuple[str, ...]:
    return (*statement["partition_columns"], *_count_columns(statement))


def _order(statement: Mapping[str, Any]) -> Callable[[Sequence[Any]], tuple[int, bytes]]:
    """Returns the key that sorts rows: the largest noisy count comes first, if there are any, and
    rows are then sorted by their text."""
    if not statement["noisy_counts"]:
        return lambda row: (0, csv_lines([row]))
    place = len(statement["partition_columns"])
    return lambda row: (-row[place], csv_lines([row]))


def read_names(content: bytes, statement: Mapping[str, Any]) -> pa.Table:
    """Parses a file of names into a table. Columns of partitions have the names and types that the
    statement gives; if it gives none, they have the names in the file and hold text. Noisy counts
    with their intervals follow, if there are any. Raises a ValueError, KeyError or csv.Error if
    the bytes are no such file."""
    import pyarrow as pa

    header, *rows = csv_rows(content.decode(), strict=True)
    width = len(header) - len(_count_columns(statement))
    names = statement.get("partition_columns", header[:width])
    types = statement.get("partition_types", ["string"] * width)
    rows_are_full = all(len(row) == len(header) for row in rows)
    if width < 1 or len(names) != width or len(types) != width or not rows_are_full:
        raise ValueError("the columns must be those of the statement")
    table = {}
    kinds = [*types, *["integer"] * (len(header) - width)]
    for place, (name, kind) in enumerate(zip([*names, *header[width:]], kinds, strict=True)):
        text = pa.array([row[place] for row in rows], pa.string())
        if kind == "integer":
            text = text.cast(pa.int64())
        table[name] = _binary(text) if kind == "binary" else text
    return pa.table(table)


def estimates_table(users: IntArray, low: IntArray, high: FloatArray) -> dict[str, Any]:
    """Returns the columns ``NAMED_USERS`` of estimates and both ends of their intervals. An upper
    end that is not known is a number that no count reaches."""
    import pyarrow as pa

    ends = np.minimum(high, float(_NO_END)).astype(np.int64)
    return dict(zip(NAMED_USERS, map(pa.array, (users, low, ends)), strict=True))


def estimates_of_table(table: pa.Table) -> tuple[IntArray, IntArray, FloatArray]:
    """Returns the estimates and both ends of their intervals, from the columns that
    ``estimates_table`` made."""
    users, low, ends = (np.array(table[name].to_pylist(), np.int64) for name in NAMED_USERS)
    return users, low, np.where(ends >= _NO_END, np.inf, ends.astype(float))


def read_estimates(content: bytes, statement: Mapping[str, Any], names: pa.Table) -> pa.Table:
    """Parses a file of estimated users into a table with the columns ``NAMED_USERS``, whose rows
    are in the order of the names. Raises as ``read_names``, and a ValueError if the file is not
    about these names."""
    import pyarrow as pa

    read = read_names(content, statement)
    width = len(statement["partition_columns"])
    if tuple(read.column_names[width:]) != NAMED_USERS:
        raise ValueError(f"the last columns must be {', '.join(NAMED_USERS)}")
    estimated, selected = (
        list(zip(*(table.column(place).to_pylist() for place in range(width)), strict=True))
        for table in (read, names)
    )
    places = {name: place for place, name in enumerate(estimated)}
    if len(places) != len(estimated) or places.keys() != set(selected):
        raise ValueError("the names must be those that were selected")
    order = pa.array([places[name] for name in selected], pa.int64())
    return read.select(NAMED_USERS).take(order)


def _texts(values: Any) -> list[Any]:
    """Returns values as they are written to a text file. In binary names, a byte that is not UTF-8
    is escaped, as ``\\xff`` for example. A backslash before an x is escaped as ``\\x5c``, so that
    it cannot be taken for such an escape."""
    import pyarrow as pa

    texts: list[Any] = values.to_pylist()
    if not pa.types.is_binary(values.type):
        return texts
    return [name.replace(b"\\x", b"\\x5cx").decode("utf-8", "backslashreplace") for name in texts]


def _binary(texts: pa.Array) -> pa.Array:
    """Returns the binary names from which ``_texts`` made these texts."""
    import pyarrow as pa

    escaped = re.compile(rb"\\x([0-9a-f]{2})")
    names = [
        escaped.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())
        for text in texts.to_pylist()
    ]
    return pa.array(names, pa.binary())


def columns_table(columns: Mapping[str, Any]) -> CsvTable:
    """Returns the content of a file with these columns, which have equal lengths."""
    return CsvTable(tuple(columns), list(_rows([*columns.values()])))
