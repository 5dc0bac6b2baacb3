"""The one form that records have inside: tables of a user and a partition column, in plain types.

Users and partitions are strings, binary, or integers; a partition may also be a struct of such
columns (a composite such as country and device). Whatever came in, kernels see ``string``,
``binary``, ``int64`` or a struct of these, in one contiguous chunk and without nulls.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

USER = "user"
PARTITION = "partition"
COUNT = "count"


def plain(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """The column in one of the plain types, as one array.

    Dictionaries are decoded, large and view types narrowed, integers widened to int64.

    Args:
      column: any Arrow column.
      name: what to call it in an error.

    Raises:
      ValueError: there are nulls, or an integer does not fit 64 bits with a sign.
      TypeError: the type is none that can be a user or a partition.

    >>> plain(pa.chunked_array([["a"], ["b", "a"]]).dictionary_encode(), "user").to_pylist()
    ['a', 'b', 'a']
    """
    array = single(column) if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # so many bytes that one chunk can not hold them
        raise ValueError(f"column {name!r} has more than 2 GiB in one table: use smaller tables")
    if array.null_count:
        raise ValueError(
            f"column {name!r} has nulls: drop these records first, for example with "
            "ToRecords(drop_nulls=True) or --drop_nulls"
        )
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode(), name)
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [plain(child, name) for child in array.flatten()]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in kind])
    if pa.types.is_integer(kind):
        target = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        target = pa.string()
    elif (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    ):
        target = pa.binary()
    else:
        raise TypeError(
            f"column {name!r} has type {kind}, but users and partitions must be strings, binary or "
            "integers (a partition may be a struct of these): cast the column first"
        )
    if kind == target:
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        # Arrow's own message shows the value.
        raise ValueError(f"column {name!r} of type {kind} does not fit {target}") from None


def plain_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of the table, each in plain form.

    Raises:
      ValueError: a column is missing, or see ``plain``.
      TypeError: see ``plain``.
    """
    for name in names:
        if name not in table.column_names:
            raise ValueError(
                f"the table has no column {name!r}: rename yours, for example with ToRecords"
            )
    return pa.table({name: plain(table[name], name) for name in names})


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables' rows in one table of plain columns, which has the tables' chunks.

    Raises:
      TypeError: two tables have different types in the same column.
    """
    tables = [decoded(table) for table in tables]
    schema = tables[0].schema
    for table in tables[1:]:
        if table.schema != schema:
            here, there = (", ".join(map(str, s.types)) for s in (schema, table.schema))
            raise TypeError(
                f"records differ in type ({here} and {there}): give all users one type, and all "
                "partitions one type"
            )
    return pa.concat_tables(tables)


def decoded(table: pa.Table) -> pa.Table:
    """The table with its dictionary-encoded columns written out."""
    if not any(pa.types.is_dictionary(kind) for kind in table.schema.types):
        return table
    return pa.table({name: decoded_column(table[name]) for name in table.column_names})


def decoded_column(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column, written out if it is dictionary-encoded."""
    if not pa.types.is_dictionary(column.type):
        return column
    array = single(column)
    return array.dictionary.take(array.indices)


def single(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array, copied only if it is several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_plain_dictionary(column: pa.ChunkedArray) -> bool:
    """Whether the column is int32 codes of plain values, in one chunk and without nulls."""
    kind = column.type
    if not pa.types.is_dictionary(kind) or column.num_chunks != 1 or column.null_count:
        return False
    is_plain = kind.index_type == pa.int32() and _is_plain(kind.value_type)
    return is_plain and not column.chunk(0).dictionary.null_count


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_is_plain(field.type) for field in kind)
    return kind in (pa.string(), pa.binary(), pa.int64())


def without_nulls(table: pa.Table) -> pa.Table:
    """The rows in which no column, and no field of a composite, is null."""
    columns = [field for column in table.columns for field in _with_fields(column)]
    if not any(column.null_count for column in columns):
        return table
    valid = columns[0].is_valid()
    for column in columns[1:]:
        valid = pc.and_(valid, column.is_valid())
    return table.filter(valid)


def _with_fields(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    if not pa.types.is_struct(column.type):
        return [column]
    return [column, *(leaf for field in column.flatten() for leaf in _with_fields(field))]
