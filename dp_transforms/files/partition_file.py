"""The text of partitions: the file of a selection, and a file of names that are public anyway."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.columns import PARTITION, concat, single
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import COUNTS
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.output import csv_lines
from dp_transforms.files.paths import faults, filesystem, local_path

_TYPES = {"integer": pa.int64(), "binary": pa.binary()}


def partition_lines(table: pa.Table) -> Iterator[bytes]:
    """The lines of selected partitions, of which a composite one has several fields.

    >>> counts = {"noisy_count": [9, 12], "low": [4, 7], "high": [14, 17]}
    >>> list(partition_lines(pa.table({"partition": ["a", "b, c"], **counts})))
    [b'a,9,4,14\\n', b'"b, c",12,7,17\\n']
    """
    partitions = table[PARTITION].combine_chunks()
    composite = pa.types.is_struct(partitions.type)
    columns = [_texts(field) for field in (partitions.flatten() if composite else [partitions])]
    columns += [table[name].to_pylist() for name in COUNTS if name in table.column_names]
    for values in zip(*columns, strict=True):
        yield csv_lines([values])


def in_order(lines: Iterable[bytes], by_count: bool) -> list[bytes]:
    """Sorts lines, by noisy count or by text: the order tells nothing of where they come from."""
    if not by_count:
        return sorted(lines)
    return sorted(lines, key=lambda line: (-int(line.rsplit(b",", 3)[1]), line))


def header_line(fields: Sequence[pa.Field], noisy_counts: bool) -> bytes:
    """The first line of a release: a composite partition's columns keep their names."""
    names = [field.name for field in fields] if len(fields) > 1 else [PARTITION]
    return csv_lines([names + list(COUNTS) * noisy_counts])


def names_table(found: Sequence[pa.Table], statement: Mapping[str, Any]) -> pa.Table:
    """Selected names as ``read_names`` gives them, in the order of the job's file."""
    selected = concat(list(found))
    counts = [name for name in COUNTS if name in selected.column_names]
    rows = {line: row for row, line in enumerate(partition_lines(selected))}
    order = pa.array([rows[line] for line in in_order(rows, bool(counts))], pa.int64())
    selected = selected.take(order)
    names = single(selected[PARTITION])
    parts = names.flatten() if pa.types.is_struct(names.type) else [names]
    if not len(names):  # of no type
        types = statement["partition_types"]
        parts = [pa.array([], _TYPES.get(kind, pa.string())) for kind in types]
    columns = dict(zip(statement["partition_columns"], parts, strict=True))
    return pa.table(columns | {name: selected[name] for name in counts})


def names_lines(names: pa.Table, noisy_counts: bool) -> list[bytes]:
    """The lines of the job's file for a table that ``read_names`` has read."""
    fields = list(names.schema)[: names.num_columns - len(COUNTS) * noisy_counts]
    parts = [single(names[field.name]) for field in fields]
    partition = parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, fields=fields)
    counts = {name: names[name] for name in COUNTS[: len(COUNTS) * noisy_counts]}
    lines = partition_lines(pa.table({PARTITION: partition} | counts))
    return [header_line(fields, noisy_counts), *lines]


def read_names(content: bytes, statement: Mapping[str, Any]) -> pa.Table:
    """The table of a file of names: columns with the names and types that its privacy.json says, or
    else those of the file, and text; then noisy counts with their intervals, if it has them.

    Raises:
      ValueError, KeyError, csv.Error: these are not the bytes of such a file.
    """
    header, *rows = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    width = len(header) - len(COUNTS) * bool(statement["noisy_counts"])
    names = statement.get("partition_columns", header[:width])
    types = statement.get("partition_types", ["string"] * width)
    if width < 1 or {len(names), len(types)} != {width} or any(len(r) != len(header) for r in rows):
        raise ValueError("the columns must be those of the statement")
    table = {}
    kinds = [*types, *["integer"] * (len(header) - width)]
    for place, (name, kind) in enumerate(zip([*names, *header[width:]], kinds, strict=True)):
        text = pa.array([row[place] for row in rows], pa.string())
        table[name] = text.cast(_TYPES.get(kind, pa.string()))
    return pa.table(table)


def read_public_partitions(path: str, fields: Sequence[pa.Field]) -> pa.Array:
    """The partitions of a file, as a column of the types that the records' partitions have."""
    path = local_path(path)
    with faults(f"{path} cannot be read"), filesystem(path).open(path) as file:
        text = file.read().decode("utf-8-sig")
    columns: list[list[Any]] = [[] for _ in fields]
    rows = csv.reader(io.StringIO(text))
    for row in rows:
        if not row:
            continue
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


def _texts(values: pa.Array) -> list[Any]:
    try:
        return (values.cast(pa.string()) if pa.types.is_binary(values.type) else values).to_pylist()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        raise InputError(
            "partitions are bytes that are not UTF-8, which text cannot hold: cast the column"
        ) from None
