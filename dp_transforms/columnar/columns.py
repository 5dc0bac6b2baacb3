"""Brings records into one form: tables of a user and a partition column, in plain types.

Users and partitions are strings, binary or integers; a partition may also be a struct of such
columns (a composite such as country and device). Kernels see ``string``, ``binary``, ``int64`` or a
struct of these, without nulls. A column with repeated values holds codes of its distinct values
instead, an Arrow dictionary with int32 indices, so that work on values is done once for each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.grouping import group, in_order, repeats
from dp_transforms.columnar.hashing import to_arrow, to_numpy

USER = "user"
PARTITION = "partition"
COUNT = "count"
NOISY_COUNT = "noisy_count"
LOW, HIGH = "low", "high"  # ends of an interval that holds the number of users

_BATCH_ROWS = 1 << 20
_FEW_VALUES = 1 / 32
# The largest piece of memory that glibc keeps when it is freed.
_BATCH_BYTES = 1 << 25


def plain(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Returns a column in one of the plain types, as one array.

    Dictionaries are decoded, large and view types narrowed, integers widened to int64.

    Args:
      column: any Arrow column.
      name: the column's name in errors.

    Raises:
      ValueError: there are nulls, or an integer does not fit 64 bits with a sign.
      TypeError: users and partitions cannot have the column's type.

    >>> plain(pa.chunked_array([["a"], ["b", "a"]]).dictionary_encode(), "user").to_pylist()
    ['a', 'b', 'a']
    """
    array = single(column) if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # more bytes than one chunk holds
        raise ValueError(f"column {name!r} has more than 2 GiB in one table: use smaller tables")
    if array.null_count:
        raise ValueError(
            f"column {name!r} has nulls: drop these records first, for example with "
            "ToRecords(drop_nulls=True) or --drop_nulls"
        )
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(_without_views(array).dictionary_decode(), name)
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [plain(child, name) for child in array.flatten()]
        return pa.StructArray.from_arrays(fields, names=[field.name for field in kind])
    target = plain_type(kind)
    if target is None:
        raise TypeError(
            f"column {name!r} has type {described(kind)}, but users and partitions must be "
            "strings, binary or integers (a partition may be a struct of these): cast the column "
            "first"
        )
    if kind == target:
        return array
    try:
        return cast(array, target)
    except pa.ArrowInvalid:
        # Arrow's own message shows the value.
        raise ValueError(f"column {name!r} of type {kind} does not fit {target}") from None


def cast(column: Any, kind: pa.DataType) -> Any:
    """Casts an array or a chunked array, also of views, which Arrow can cast from version 18 on.

    Raises:
      pa.ArrowInvalid: a value does not fit.
    """
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        plain = pa.array(column.to_pylist(), kind)
        return pa.chunked_array([plain]) if isinstance(column, pa.ChunkedArray) else plain


def described(kind: pa.DataType, with_names: bool = False) -> str:
    """Describes a type in words, by default without names of its fields, which may be private.

    >>> described(pa.struct([("secret", pa.string()), ("n", pa.int64())]))
    '(string, int64)'
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        fields = (repr(f.name) * with_names + described(f.type, with_names) for f in kind)
        return f"({', '.join(fields)})"
    return "list or map" if pa.types.is_nested(kind) else str(kind)


def types_of(table: pa.Table) -> tuple[str, str]:
    """Describes the types of a table's values: without names of fields, and with them."""
    kinds = table.schema.types
    plain, named = ([described(kind, names) for kind in kinds] for names in (False, True))
    return ", ".join(plain), ", ".join(named)


def check_alike(kinds: Iterable[tuple[str, str]]) -> None:
    """Checks that all records have the same types: equal values of different types would not meet.

    Args:
      kinds: the types of each part of the records, ``described`` without names and with them.

    Raises:
      TypeError: they differ; the text names no field.
    """
    exact = set(kinds)
    if len(exact) > 1:
        types = sorted({described for described, _ in exact})
        how = f"in type ({' and '.join(types)})" if len(types) > 1 else "in names of fields"
        raise TypeError(
            f"records differ {how}: give all users one type, and all partitions one type, with "
            "the same fields in the same order"
        )


def plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns the plain type for values of a type other than a struct; None if there is none."""
    types = pa.types
    if types.is_integer(kind):
        return pa.int64()
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.binary()
    return pa.binary() if kind == pa.binary_view() else None


def plain_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Returns the named columns of the table, each in plain form.

    Raises:
      ValueError: a column is missing; see also ``plain``.
      TypeError: see ``plain``.
    """
    check_columns(table, names)
    return pa.table({name: plain(table[name], name) for name in names})


def coded_table(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Returns the named columns of at least one table, one table after the other.

    A column holds codes of distinct values if it came as dictionaries or its values repeat, and
    plain values otherwise.

    Raises:
      ValueError: a column is missing; see also ``plain``.
      TypeError: the tables have different types; see also ``plain``.
    """
    for table in tables:
        check_columns(table, names)
    return pa.table({name: _coded([table[name] for table in tables], name) for name in names})


def is_full(rows: int, size: int, last: pa.Table) -> bool:
    """Tells whether tables of this many rows and bytes make a batch: one more like the last would
    be too much."""
    return rows + last.num_rows > _BATCH_ROWS or size + size_of(last) > _BATCH_BYTES


def size_of(table: pa.Table) -> int:
    """Counts the bytes of the rows of a table."""
    try:
        return int(table.nbytes)
    except pa.ArrowTypeError:  # of views, before Arrow 18
        return int(table.get_total_buffer_size())


def check_columns(table: pa.Table, names: Sequence[str]) -> None:
    """Checks that a table has columns of these names.

    Raises:
      ValueError: it lacks one.
    """
    for name in names:
        if name not in table.column_names:
            raise ValueError(
                f"the table has no column {name!r}: rename yours, for example with ToRecords"
            )


def _coded(columns: Sequence[pa.ChunkedArray], name: str) -> pa.Array | pa.ChunkedArray:
    arrays = [array for column in columns for array in column.chunks if len(array)]
    if not arrays:
        return plain(columns[0], name)
    parts = [
        _plain_codes(array, name)
        if pa.types.is_dictionary(array.type) and not _has_nulls(array.dictionary)
        else plain(array, name)
        for array in arrays
    ]
    if len(parts) == 1 and pa.types.is_dictionary(parts[0].type):
        parts = [_with_distinct_values(parts[0])]
    column = joined(parts)
    if pa.types.is_dictionary(column.type):
        return column if 2 * len(column.dictionary) <= len(column) else decoded_array(column)
    first = column.chunk(0)
    if not repeats(first):
        return column
    groups = group(single(column))
    return groups.encoded(groups.codes)


def _plain_codes(array: pa.DictionaryArray, name: str) -> pa.DictionaryArray:
    if array.null_count:
        plain(array.indices, name)  # raises the error that says so
    codes = to_numpy(array.indices).astype(np.int32, copy=False)
    values = plain(array.dictionary, name)
    return pa.DictionaryArray.from_arrays(to_arrow(codes), values, safe=False)


def _with_distinct_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    groups = group(array.dictionary)
    if len(groups.values) == len(array.dictionary):
        return array
    return groups.encoded(groups.codes[to_numpy(array.indices)])


def joined(arrays: Sequence[pa.Array]) -> pa.DictionaryArray | pa.ChunkedArray:
    """Joins the arrays' rows in one column: codes of distinct values if all are codes, or plain.

    If there are several arrays, values in the dictionary of one may repeat.

    Raises:
      TypeError: their values have different types.
    """
    kinds = {array.type for array in arrays}
    check_alike((described(kind), described(kind, with_names=True)) for kind in kinds)
    if not all(pa.types.is_dictionary(array.type) for array in arrays):
        return pa.chunked_array([decoded_array(array) for array in arrays])
    if len(arrays) == 1:
        return arrays[0]
    # To look at all codes takes longer than to group a few values that none has.
    arrays = [
        compacted_array(array) if 2 * len(array.dictionary) > len(array) else array
        for array in arrays
    ]
    groups = group(pa.concat_arrays([array.dictionary for array in arrays]))
    codes, start = [], 0
    for array in arrays:
        codes.append(groups.codes[start:][to_numpy(array.indices)])
        start += len(array.dictionary)
    return groups.encoded(np.concatenate(codes))


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Joins the tables' rows in one table; see ``joined``.

    Raises:
      TypeError: two tables have different types in the same column.
    """
    if len(tables) == 1:
        return tables[0]
    columns = {}
    for name in tables[0].column_names:
        chunks = [chunk for table in tables for chunk in table[name].chunks]
        columns[name] = joined(chunks) if chunks else tables[0][name]
    return pa.table(columns)


def compacted(table: pa.Table) -> pa.Table:
    """Returns the table after ``compacted_array`` of each column."""
    if not any(pa.types.is_dictionary(kind) for kind in table.schema.types):
        return table
    return pa.table({name: compacted_array(single(table[name])) for name in table.column_names})


def compacted_array(array: pa.Array) -> pa.Array:
    """Drops values of a column's dictionary that no row has, if they are many."""
    if not pa.types.is_dictionary(array.type):
        return array
    values, codes = array.dictionary, to_numpy(array.indices)
    if len(values) <= _FEW_VALUES * len(codes):
        return array
    used = np.zeros(len(values), bool)
    used[codes] = True
    used_codes = np.flatnonzero(used)
    if 2 * len(used_codes) > len(values):
        return array
    renamed = np.empty(len(values), np.int32)
    renamed[used_codes] = np.arange(len(used_codes), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(
        to_arrow(renamed[codes]), values.take(to_arrow(used_codes)), safe=False
    )


def decoded(table: pa.Table) -> pa.Table:
    """Returns the table with its dictionary-encoded columns written out."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            values = decoded_array(single(table.column(place)))
            table = table.set_column(place, field.name, values)
    return table


def decoded_array(array: pa.Array) -> pa.Array:
    """Returns the column, written out if it is dictionary-encoded."""
    return array.dictionary.take(array.indices) if pa.types.is_dictionary(array.type) else array


def single(column: pa.ChunkedArray) -> pa.Array:
    """Returns the column as one array, copied only if it has several chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        # Codes of 8 bits may not be enough for the values of all chunks.
        kind = pa.dictionary(pa.int32(), column.type.value_type)
        chunks = [
            pa.DictionaryArray.from_arrays(
                chunk.indices.cast(pa.int32()), chunk.dictionary, safe=False
            )
            for chunk in column.chunks
        ]
        column = pa.chunked_array(chunks, kind)
    return column.combine_chunks()


def without_nulls(table: pa.Table, names: Sequence[str] | None = None) -> pa.Table:
    """Returns the rows in which none of these columns (by default, all) has a null. A null may be a
    row, a field of a composite, or a value of a dictionary."""
    table = pa.table(list(map(_without_views, table.columns)), table.column_names)
    columns = [table[name] for name in table.column_names if names is None or name in names]
    valid = [validity for column in columns for validity in _validities(column)]
    return table.filter(functools.reduce(pc.and_, valid)) if valid else table


def _without_views(column: Any) -> Any:
    """The array or chunked array with plain values in the place of views, of which Arrow takes and
    filters none, also within it."""
    kind = _viewless(column.type)
    return column if kind == column.type else cast(column, kind)


def _viewless(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_viewless(field.type)) for field in kind])
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _viewless(kind.value_type))
    return plain_type(kind) if kind in (pa.string_view(), pa.binary_view()) else kind


def _has_nulls(array: pa.Array) -> bool:
    return next(_validities(pa.chunked_array([array])), None) is not None


def _validities(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yields bools by row for each part of a column with nulls: True where it has none."""
    kind = column.type
    if column.null_count:
        yield column.is_valid()
    if pa.types.is_struct(kind):
        for field in column.flatten():
            yield from _validities(field)
    elif pa.types.is_dictionary(kind):
        if any(_has_nulls(chunk.dictionary) for chunk in column.chunks):
            chunks = [decoded_array(chunk) for chunk in column.chunks]
            yield from _validities(pa.chunked_array(chunks))


def sorted_by(table: pa.Table, name: str) -> pa.Table:
    """Returns the rows in ascending order of a plain column; composites are compared field by
    field.

    >>> table = pa.table({"partition": ["b", "a"], "count": [1, 2]})
    >>> sorted_by(table, "partition")["count"].to_pylist()
    [2, 1]
    """
    table = decoded(table)
    return table.take(in_order(single(table[name])))
