"""Reads files of public names of partitions."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.output import csv_rows
from dp_transforms.files.paths import as_filesystem_error, local_path, read_bytes


def read_public_partitions(path: str, fields: Sequence[pa.Field]) -> pa.Array:
    """Returns the partitions of a CSV file as a column with the types of the records' partitions.

    Raises:
      InputError: the file cannot be read, or has no partitions, a value of another type, or a first
        line that names the columns, which would be taken for a public partition.
    """
    path = local_path(path)
    with as_filesystem_error(f"{path} cannot be read"):
        content = read_bytes(path)
    columns: list[list[Any]] = [[] for _ in fields]
    with as_input_error(
        f"{path} cannot be read as CSV in UTF-8: convert it, or close quotes around whole fields",
        (csv.Error, UnicodeDecodeError),
    ):
        rows = csv_rows(content.decode("utf-8-sig"), strict=True)
        for place, row in enumerate(filter(None, rows)):
            if place == 0 and row == [field.name for field in fields]:
                raise InputError(
                    f"{path}: the first line names the columns, and would be a public partition: "
                    "delete it, or move it down if it is one"
                )
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
