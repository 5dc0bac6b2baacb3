"""Brings records into one form: tables of a user and a partition column, in plain types.

Users and partitions are strings, binary or integers; a partition may also be a struct of such
columns (a composite such as country and device). The plain types that kernels get are ``string``,
``binary``, ``int64`` and structs of these, without nulls. A column with repeated values holds codes
of its distinct values instead: an Arrow dictionary with int32 indices. So work on values is done
only once for each distinct value.
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
LOW, HIGH = "low", "high"
"""The columns with the ends of intervals for numbers of users."""

_BATCH_ROWS = 1 << 20
_FEW_VALUES = 1 / 32
# When memory is freed, glibc keeps pieces up to this size for later use.
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
    if isinstance(array, pa.ChunkedArray):
        # It has more bytes than one array can hold.
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
    """Returns an array or a chunked array cast to a type. It also casts view types, which Arrow
    itself does only from version 18 on.

    Raises:
      pa.ArrowInvalid: a value does not fit.
    """
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        plain = pa.array(column.to_pylist(), kind)
        return pa.chunked_array([plain]) if isinstance(column, pa.ChunkedArray) else plain


def described(kind: pa.DataType, with_names: bool = False) -> str:
    """Returns a description of a type, by default without names of its fields, which may be
    private.

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
    """Returns two descriptions of the types of a table: without and with the names of fields."""
    kinds = table.schema.types
    plain, named = ([described(kind, names) for kind in kinds] for names in (False, True))
    return ", ".join(plain), ", ".join(named)


def check_alike(kinds: Iterable[tuple[str, str]]) -> None:
    """Checks that all records have the same types, since equal values of different types have
    different hashes and would not be brought together.

    Args:
      kinds: for each part of the records, the types ``described`` without and with names of fields.

    Raises:
      TypeError: the types differ; the text names no field.
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
    """Returns the plain type for values of a type; None if there is none, and for structs."""
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
    """Returns the named columns of at least one table, joined into one table.

    The rows of the tables follow one another. A column holds codes of distinct values if it came as
    dictionaries or its values repeat, and plain values otherwise.

    Raises:
      ValueError: a column is missing; see also ``plain``.
      TypeError: the tables have different types; see also ``plain``.
    """
    for table in tables:
        check_columns(table, names)
    return pa.table({name: _coded([table[name] for table in tables], name) for name in names})


def is_full(rows: int, size: int, last: pa.Table) -> bool:
    """Returns whether tables with these numbers of rows and bytes together make a batch: with one
    more table like the last, the batch would be too large."""
    return rows + last.num_rows > _BATCH_ROWS or size + size_of(last) > _BATCH_BYTES


def size_of(table: pa.Table) -> int:
    """Returns the number of bytes of the rows of a table."""
    try:
        return int(table.nbytes)
    except pa.ArrowTypeError:  # before Arrow 18, view types have no such number
        return int(table.get_total_buffer_size())


def check_columns(table: pa.Table, names: Sequence[str]) -> None:
    """Raises a ValueError if a table lacks one of these columns."""
    for name in names:
        if name not in table.column_names:
            raise ValueError(
                f"the table has no column {name!r}: rename yours, for example with ToRecords"
            )


def _coded(columns: Sequence[pa.ChunkedArray], name: str) -> pa.Array | pa.ChunkedArray:
    """Returns the rows of columns in one column, as ``coded_table`` does."""
    arrays = [array for column in columns for array in column.chunks if len(array)]
    if not arrays:
        return plain(columns[0], name)
    parts: list[pa.Array] = []
    for array in arrays:
        if pa.types.is_dictionary(array.type) and not _has_nulls(array.dictionary):
            parts.append(_plain_codes(array, name))
        else:
            parts.append(plain(array, name))
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
        plain(array.indices, name)  # raises the error about nulls
    codes = to_numpy(array.indices).astype(np.int32, copy=False)
    values = plain(array.dictionary, name)
    return pa.DictionaryArray.from_arrays(to_arrow(codes), values, safe=False)


def _with_distinct_values(array: pa.DictionaryArray) -> pa.DictionaryArray:
    groups = group(array.dictionary)
    if len(groups.values) == len(array.dictionary):
        return array
    return groups.encoded(groups.codes[to_numpy(array.indices)])


def joined(arrays: Sequence[pa.Array]) -> pa.DictionaryArray | pa.ChunkedArray:
    """Returns the rows of arrays in one column: codes of distinct values if all arrays are codes,
    or plain values otherwise.

    If there are several arrays, the dictionary of each may have a value repeatedly.

    Raises:
      TypeError: the arrays' values have different types.
    """
    kinds = {array.type for array in arrays}
    check_alike((described(kind), described(kind, with_names=True)) for kind in kinds)
    if not all(pa.types.is_dictionary(array.type) for array in arrays):
        return pa.chunked_array([decoded_array(array) for array in arrays])
    if len(arrays) == 1:
        return arrays[0]
    # Unused values are removed only from large dictionaries. In small ones, grouping the unused
    # values takes less time than finding them, for which all codes are read.
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
    """Returns the rows of tables in one table; see ``joined``.

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
    """Returns a column without the values of its dictionary that no row has. If these are few, it
    returns the column as it is."""
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
        # The joined dictionary may have too many values for narrow codes, such as those of 8 bits.
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
    """Returns the rows of a table without nulls in the named columns, by default in all. A null may
    be a row, a field of a composite, or a value of a dictionary."""
    table = pa.table(list(map(_without_views, table.columns)), table.column_names)
    columns = [table[name] for name in table.column_names if names is None or name in names]
    valid = [validity for column in columns for validity in _validities(column)]
    return table.filter(functools.reduce(pc.and_, valid)) if valid else table


def _without_views(column: Any) -> Any:
    """Returns an array or chunked array with plain types in place of view types, also within
    composites and dictionaries: Arrow cannot take or filter rows of view types."""
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
    """Yields bools for each part of a column that has nulls: False in rows with a null."""
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
    """Returns the rows of a table in ascending order of a column. Composites are compared field by
    field.

    >>> table = pa.table({"partition": ["b", "a"], "count": [1, 2]})
    >>> sorted_by(table, "partition")["count"].to_pylist()
    [2, 1]
    """
    table = decoded(table)
    return table.take(in_order(single(table[name])))
