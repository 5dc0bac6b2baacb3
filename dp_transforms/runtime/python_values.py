"""Makes Arrow columns of Python values, such that no value changes how another one is read.

Arrow itself chooses one type for all values of a batch. A single ``bytes`` turns all strings into
binary, and each dictionary gets the keys of all others. So here all values must be of one kind, and
composites must have the same fields.
"""

from __future__ import annotations

import functools
import itertools
import numbers
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dp_transforms.mechanisms.arguments import shown

_KINDS: dict[Any, str] = {
    str: "strings",
    (bytes, bytearray, memoryview): "bytes",
    (bool, np.bool_): "booleans",
    numbers.Integral: "integers",
}
_MOST_NAMES, _LONGEST_NAME = 100, 1000
_DICTIONARIES = "dictionaries"
_ROWS = "rows"
_TUPLES = "tuples"


def is_row(kind: type) -> bool:
    """Returns whether a type's values are rows: ``beam.Row`` or a NamedTuple."""
    return _is_beam_row(kind) or hasattr(kind, "_fields")


def _is_beam_row(kind: type) -> bool:
    # There are no such rows unless Beam is imported.
    return kind is getattr(sys.modules.get("apache_beam"), "Row", object)


def several_names(partition: Any, argument: str = "partition") -> list[Any]:
    """Returns a list of the columns of a partition, given one or several. Raises a ValueError that
    names the argument if there is none."""
    if isinstance(partition, (list, tuple)):
        names = [column_name(argument, name) for name in partition]
        if 0 < len(names) <= _MOST_NAMES:
            return names
        raise ValueError(
            f"{argument} must name at least one column, and {_MOST_NAMES} at most: give the name "
            "of one, or a list of names"
        )
    return [column_name(argument, partition)]


def column_name(argument: str, name: Any) -> str | int:
    """Returns the name or position of a column, and raises a ValueError for anything else.

    Anything else may be the column itself, so the error names the argument and shows no content.
    """
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME:
        return name
    is_integer = isinstance(name, numbers.Integral) and not isinstance(name, (bool, np.bool_))
    if is_integer and name >= 0:
        return int(name)
    raise ValueError(
        f"{argument} must name a column, by a text of 1 to {_LONGEST_NAME} characters, or by a "
        f"position from 0, got {shown(name)}"
    )


def has_null(value: Any) -> bool:
    """Returns whether a value is None, or is a composite with a null field."""
    if _is_beam_row(type(value)):
        value = value.as_dict()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return value is None
    return any(map(has_null, value))


def nested_value(record: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a key in a record.

    Unless the record has the key "user.id" itself, "user.id" is the key "id" of the object that is
    the value of "user". If that object is None, so is the value.

    Raises:
      KeyError: a key is missing.
      TypeError: a value is no object, but a key in it is asked for.
    """
    keys = [name] if name in record else name.split(".")
    return functools.reduce(lambda value, key: None if value is None else value[key], keys, record)


def column_of(values: Sequence[Any], name: str) -> pa.Array:
    """Returns a column of strings, bytes or integers, or a column of structs for tuples, rows or
    dictionaries.

    The fields of a struct have the order of the tuple or row, or of the dictionary's sorted keys.
    None becomes null.

    Args:
      values: at least one value.
      name: the column's name, for errors.

    Raises:
      TypeError: values are of several kinds, have different fields, or do not fit 64 bits.
    """
    kinds = {_kind(kind) for kind in set(map(type, values)) - {type(None)}}
    try:
        if len(kinds) > 1:
            raise TypeError
        kind = kinds.pop() if kinds else None
        if kind not in (_DICTIONARIES, _ROWS, _TUPLES):
            if kind is _KINDS[numbers.Integral]:
                return pa.array(values, pa.int64())
            if kind not in _KINDS.values():
                _check_times(values)
            return pa.array(values)
        composites = [value for value in values if value is not None]
        if len(composites) == len(values):
            return _struct(values, kind, name)
        # A null takes no row of the struct, which gives a null.
        places = itertools.count()
        rows = [None if value is None else next(places) for value in values]
        return _struct(composites, kind, name).take(pa.array(rows, pa.int64()))
    except (OverflowError, TypeError, ValueError, pa.ArrowException):
        # The original message may show a value.
        raise TypeError(
            f"the values of {name!r} must be of one type, strings, bytes or 64-bit integers, or be "
            "composite: tuples of these, or rows or dictionaries, all with the same fields"
        ) from None


def public_names(values: Any, columns: Sequence[str | int]) -> pa.Array:
    """Returns a column of public names of partitions, as ``public_column`` does.

    Args:
      values: the names; tuples if partitions have several columns.
      columns: the columns of partitions.

    Raises:
      TypeError: see ``public_column``.
      ValueError: the same; or tuples do not have one part for each column.
    """
    column = public_column(values)
    fields = column.flatten() if pa.types.is_struct(column.type) else [column]
    if len(fields) != len(columns):
        raise ValueError(
            f"public_partitions must be {'tuples' if len(columns) > 1 else 'names'} of "
            f"{len(columns)} columns, as partition is"
        )
    if len(fields) == 1:
        return column
    return pa.StructArray.from_arrays(fields, names=list(map(str, columns)))


def public_column(values: Any) -> pa.Array:
    """Returns a column of public names of partitions; an Arrow array of names is returned as it
    is. Errors show no name.

    Raises:
      TypeError: the names are no iterable, or not of one type.
      ValueError: there are no names, or a name is None.
    """
    if isinstance(values, pa.Array) and len(values):
        return values
    is_frame = hasattr(type(values), "columns")  # Its items are the names of its columns.
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
    if is_frame or not is_list:
        raise TypeError(
            "public_partitions must be several names, such as a list or one column, got "
            f"{type(values).__name__}"
        )
    try:
        names = list(values)
    except Exception as error:
        raise TypeError(
            f"public_partitions raised {type(error).__name__} while they were read"
        ) from None
    if not names:
        raise ValueError("public_partitions has no names: give one at least, or leave it out")
    if any(map(has_null, names)):
        raise ValueError("public_partitions has a name that is None: leave it out")
    return column_of(names, "public_partitions")


def frame_column(series: Any, name: str) -> pa.Array:
    """Returns an Arrow column of a column of a pandas data frame. Python objects are converted by
    ``column_of``. Raises a TypeError if Arrow cannot read the column."""
    try:
        if hasattr(series.dtype, "categories"):
            if not len(series.cat.categories):
                return pa.nulls(len(series))
            categories = frame_column(series.cat.categories.to_series(), name)
            codes = series.cat.codes.to_numpy()
            return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories)
        if not len(series) and series.dtype == float:
            return pa.nulls(0)  # pandas makes floats of an empty list
        if series.dtype == object:
            values = zip(series.tolist(), series.isna(), strict=True)
            return column_of([None if null else value for value, null in values], name)
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, OverflowError, ValueError):
        # The original message shows a value.
        raise TypeError(
            f"column {name!r} of a data frame cannot be read as an Arrow column: cast it to "
            "strings or integers"
        ) from None


def _kind(kind: type) -> Any:
    """Returns the kind of a type's values: one of the names above, or else the type itself."""
    if is_row(kind):
        return _ROWS
    if issubclass(kind, (tuple, list)):
        return _TUPLES
    if issubclass(kind, dict):
        return _DICTIONARIES
    return next((name for types, name in _KINDS.items() if issubclass(kind, types)), kind)


def _check_times(values: Sequence[Any]) -> None:
    """Raises a TypeError for times with and without a time zone together, since Arrow would use the
    zone of the first one for all; and for times finer than microseconds."""
    zoned = {getattr(value, "tzinfo", None) is not None for value in values if value is not None}
    if len(zoned) > 1 or any(getattr(value, "nanosecond", 0) for value in values):
        raise TypeError


def _struct(values: Sequence[Any], kind: str, name: str) -> pa.Array:
    """Returns a column of structs, given composites without None."""
    names: set[tuple[Any, ...]]
    if kind == _TUPLES:
        names = {tuple(range(width)) for width in set(map(len, values))}
    else:
        names = set(map(_fields, values))
    if len(names) > 1 or names == {()}:
        raise TypeError
    (fields,) = names
    if kind == _DICTIONARIES:
        values = [[value[field] for field in fields] for value in values]
    elif kind == _ROWS:
        values = [
            value.as_dict().values() if _is_beam_row(type(value)) else value for value in values
        ]
    # Arrow reads lists twice as fast as tuples.
    parts = [column_of(list(part), name) for part in zip(*values, strict=True)]
    return pa.StructArray.from_arrays(parts, names=list(map(str, fields)))


def _fields(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(sorted(value))
    if _is_beam_row(type(value)):
        return tuple(value.as_dict())
    # Fields keep their order, so that rows in a pipeline come back as equal tuples.
    return value._fields
