"""Makes Arrow columns of the columns of data frames, and of other containers of values."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError, as_input_error
from dp_transforms.runtime.python_values import column_of, frame_column

CHUNK_RECORDS = 1 << 17
"""The number of records of which a table is made at once."""
SEVERAL_TYPES = (
    f"the table has values of several types (text, if the first {CHUNK_RECORDS:,} records have "
    "none), or of a type that Arrow does not have: give it one type"
)


def table_of(columns: Mapping[str, Any]) -> pa.Table:
    """Returns a table of columns. Raises an InputError that names a column of several types, or of
    a type that Arrow does not have."""
    arrays = {}
    for name, values in columns.items():
        with as_input_error(f"column {name!r} of {SEVERAL_TYPES}"):
            arrays[name] = pa.table({name: _column(values, name)})[name]
    return pa.table(arrays)


def _column(values: Any, name: str) -> Any:
    """Returns an Arrow column of the values of any container.

    Raises:
      InputError: values are integers beyond 64 bits.
      TypeError: Python values are of several types, or the container is no column.
    """
    try:
        return _column_of_container(values, name)
    except TypeError:
        if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Set, Mapping)):
            items = _without_missing(values)
            integers = [value for value in items if value is not None]
            all_integers = all(isinstance(value, numbers.Integral) for value in integers)
            if all_integers and any(not -(2**63) <= value < 2**63 for value in integers):
                raise InputError(
                    f"column {name!r} has integers beyond 64 bits: make all of its values text"
                ) from None
        raise


def _column_of_container(values: Any, name: str) -> Any:
    """Returns an Arrow column of the values of a container; raises a TypeError if it cannot be
    one."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if type(values).__module__.startswith("pandas"):
        return frame_column(sys.modules["pandas"].Series(values), name)
    if hasattr(values, "__arrow_c_stream__"):
        if str(getattr(values, "dtype", "")) == "Object":
            raise TypeError  # polars gives addresses in memory for objects of Python
        return pa.chunked_array(values)
    if str(getattr(values, "dtype", "object")) != "object":
        # NumPy makes floats of an empty list.
        return pa.array(values) if len(values) else pa.nulls(0)
    if isinstance(values, (str, bytes, Set, Mapping)):
        raise TypeError  # text is no column, and sets and mappings have no order
    values = _without_missing(values)
    return column_of(values, name) if values else pa.nulls(0)


def _without_missing(values: Iterable[Any]) -> list[Any]:
    """Returns the values, with None in place of the values by which pandas marks missing ones."""
    pandas = sys.modules.get("pandas")
    # Another thread may be importing pandas, which then lacks these: then no value is one of them.
    not_a_time, missing = getattr(pandas, "NaT", None), getattr(pandas, "NA", None)
    if not_a_time is None and missing is None:
        return list(values)
    return [None if value is not_a_time or value is missing else value for value in values]
