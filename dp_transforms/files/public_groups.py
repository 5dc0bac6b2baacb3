"""Reads the public groups of a hierarchy, and perhaps the partitions in each, from a table."""

from __future__ import annotations

import datetime
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from dp_transforms.columnar.attributes import attribute_text
from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.paths import as_filesystem_error, local_path, read_bytes
from dp_transforms.mechanisms.arguments import listed

Path = tuple[str, ...]


def read_groups(
    groups: Any, levels: Sequence[str], partition: Sequence[str | int], user: str | int
) -> tuple[list[Path], tuple[tuple[str, ...], tuple[int, ...]] | None]:
    """Returns the paths of leaf groups, in order; and the partitions of groups, or None.

    The partitions are returned if records have one column of partitions, and the table has this
    column. They are a tuple of names and a tuple with the place of each one's group among the
    paths.

    Args:
      groups: an iterable of tuples; or the path of a CSV file with a header, a dictionary of
        columns, or an object with ``__arrow_c_stream__``.
      levels: the columns of a table.
      partition: the records' columns of partitions.
      user: the records' column of users.

    Raises:
      InputError: the table has no such columns, or cannot be read; or it has the column of users,
        so that it seems to be records, whose numbers of partitions are not public.
      TypeError: there are no groups of these kinds.

    >>> counties = {"state": ["TX", "UT"], "county": ["Harris", "Utah"]}
    >>> read_groups(counties, ["state", "county"], ["home"], "person")
    ([('TX', 'Harris'), ('UT', 'Utah')], None)
    """
    if not _is_table(groups):
        if isinstance(groups, bytes) or not isinstance(groups, Iterable):
            raise TypeError(
                "groups must be a list of tuples with a name for each level, or a table with the "
                f"columns of levels, got {type(groups).__name__}"
            )
        return [_path(group) for group in listed("groups", groups)], None
    table = _table(groups)
    if str(user) in table.column_names:
        raise InputError(
            f"groups has the column {str(user)!r} of users, as records have: give a public table, "
            "made without looking at the records"
        )
    named = [name for name in map(str, partition) if name in table.column_names]
    for name in levels:
        if name not in table.column_names:
            raise InputError(f"groups has no column {name!r}: name its columns as in levels")
    columns = [attribute_text(table[name], name).to_pylist() for name in levels]
    rows = list(zip(*columns, strict=True))
    paths = list(dict.fromkeys(rows))
    if not named:
        return paths, None
    if len(partition) > 1:
        raise InputError(
            "groups can name the partitions only if these have one column: leave the columns "
            f"{', '.join(named)} out of groups, and give records columns of levels"
        )
    places = {path: place for place, path in enumerate(paths)}
    names = attribute_text(table[named[0]], named[0]).to_pylist()
    of_partition = dict(zip(names, rows, strict=True))
    if len(of_partition) < len(set(zip(names, rows, strict=True))):
        raise InputError("groups has a partition in two groups: each must be in one")
    return paths, (tuple(of_partition), tuple(places[path] for path in of_partition.values()))


def _is_table(groups: Any) -> bool:
    is_path = isinstance(groups, (str, os.PathLike))
    return is_path or isinstance(groups, Mapping) or hasattr(groups, "__arrow_c_stream__")


def _table(groups: Any) -> pa.Table:
    """Returns a CSV file, a dictionary of columns or an Arrow stream as a table."""
    if isinstance(groups, (str, os.PathLike)):
        path = local_path(os.fspath(groups))
        with as_filesystem_error(f"{path} cannot be read"):
            content = read_bytes(path)
        with as_input_error(
            f"{path} cannot be read as CSV in UTF-8 with a header: convert it",
            (pa.ArrowInvalid, UnicodeDecodeError),
        ):
            header = csv.open_csv(pa.BufferReader(content)).schema.names
            as_text = csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()))
            return csv.read_csv(pa.BufferReader(content), convert_options=as_text)
    with as_input_error("groups must be a table with columns of text or integers", (Exception,)):
        return pa.table(dict(groups) if isinstance(groups, Mapping) else groups)


def _path(group: Any) -> Any:
    """Returns the path of a group. Its names are the texts that records have for such values."""
    of_one_level = text_of_name(group)
    if isinstance(of_one_level, str):
        return (of_one_level,)
    if not isinstance(group, Iterable):
        raise TypeError("each of groups must be a tuple with a name for each level")
    return tuple(map(text_of_name, group))


def text_of_name(value: Any) -> Any:
    """Returns the text that ``attribute_text`` gives to a value, if the value is a text, an
    integer, a boolean or a date. Anything else is returned as it is, and is no name of a group.

    >>> text_of_name(True), text_of_name(7), text_of_name(datetime.date(2026, 1, 2))
    ('true', '7', '2026-01-02')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    is_date = isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if is_date or isinstance(value, numbers.Integral):
        return str(value)
    return value
