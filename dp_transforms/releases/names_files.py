"""Writes names to files and tables, and reads them back.

Functions import Arrow themselves: a command's help needs only the names of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import COUNTS, PARTITIONS_FILE
from dp_transforms.files.output import CsvTable, csv_lines, csv_rows
from dp_transforms.releases.base import Statement, Tables

if TYPE_CHECKING:
    import pyarrow as pa

NAMED_USERS = ("users", "low", "high")
"""The last columns of a table of names with estimates."""


def check_column_names(
    columns: Iterable[str],
    noisy_counts: bool,
    beside_list: bool = False,
    period: str | None = None,
) -> None:
    """Raises a ValueError if a column of partitions has the name of one that tables of names have
    too: of noisy counts, of estimates beside a list, or of periods such as "day"."""
    added = set(COUNTS if noisy_counts else ())
    if beside_list:
        added.update(NAMED_USERS)
    if period is not None:
        added |= {"period", period}
    if both := added.intersection(columns):
        raise ValueError(f"the release adds a column {min(both)!r}: rename that of the partitions")


def name_tables(selected: Iterable[pa.Table], statement: Mapping[str, Any]) -> Tables:
    """Returns the file of selected names, sorted by noisy count or by text, since their order must
    not tell how the data were laid out.

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
    """Returns selected names as ``read_names`` gives them, in the order of the job's file."""
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
    """Returns a key by which rows are sorted: by noisy count, if there are any, and by text."""
    if not statement["noisy_counts"]:
        return lambda row: (0, csv_lines([row]))
    place = len(statement["partition_columns"])
    return lambda row: (-row[place], csv_lines([row]))


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


def columns_table(columns: Mapping[str, Any]) -> CsvTable:
    """Returns the content of a file with these columns, of one length each."""
    return CsvTable(tuple(columns), list(_rows([*columns.values()])))
