"""Turns the values of users' attributes into text, which are the names of groups."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import described, plain_type, single

LIST = "list"
"""The name of the column that says to which list, such as that of a period, a row belongs."""
NO_VALUE = ""


def attribute_text(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Returns the values of an attribute as text, and ``NO_VALUE`` for nulls.

    Args:
      column: strings, UTF-8 binary, integers, booleans or dates.
      name: the attribute's name, for errors.

    Raises:
      TypeError: the values have another type.
      ValueError: binary values are not UTF-8.

    >>> attribute_text(pa.array([1, None]), "age").to_pylist()
    ['1', '']
    """
    array = single(column) if isinstance(column, pa.ChunkedArray) else column
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    has_text = plain_type(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    if not has_text and not pa.types.is_null(kind):
        raise TypeError(
            f"attribute {name!r} has type {described(kind)}, in which it is not clear which values "
            "are equal: store it as strings or integers"
        )
    try:
        if pa.types.is_date(kind):
            array = array.cast(pa.date32())
        text = array.cast(pa.string())
        if pa.types.is_date(kind) and pc.any(pc.match_substring(text, "out of range")).as_py():
            raise pa.ArrowInvalid
        return pc.fill_null(text, NO_VALUE)
    except pa.ArrowInvalid:
        # Arrow's own message may show the value.
        raise ValueError(
            f"attribute {name!r} holds bytes that are not UTF-8, or dates that have no text"
        ) from None
