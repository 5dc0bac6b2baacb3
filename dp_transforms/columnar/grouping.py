"""Grouping rows by value: codes that are equal exactly where the values are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.hashing import (
    Hashes,
    Int32Array,
    Int64Array,
    hash_rows,
    to_arrow,
    to_numpy,
)

_SAMPLE_ROWS = 1 << 12
_MOSTLY = 0.9
# To hash each integer takes less time than to group them, unless their hash table fits a cache.
_MOSTLY_OF_INTEGERS = 0.5
_DENSE = 8
# Equal hashes of different values only cost time here, so this need not be secret.
_KEY = bytes(range(32))


@dataclass(frozen=True)
class Groups:
    """Rows by value: row i has the value ``values[codes[i]]``.

    Attributes:
      codes: int32, one per row.
      values: the distinct values, in the order of their first rows or any other.
    """

    codes: Int32Array
    values: pa.Array

    def encoded(self, codes: Int32Array) -> pa.DictionaryArray:
        """The column of the values of these codes, dictionary-encoded."""
        return pa.DictionaryArray.from_arrays(to_arrow(codes), self.values, safe=False)


def group(array: pa.Array) -> Groups:
    """Groups the rows of a column by their true values.

    Args:
      array: plain values, or codes of distinct ones (see ``columns``).

    >>> groups = group(pa.array(["b", "a", "b"]))
    >>> groups.codes.tolist(), groups.values.to_pylist()
    ([0, 1, 0], ['b', 'a'])
    """
    if pa.types.is_dictionary(array.type):
        return Groups(to_numpy(array.indices), array.dictionary)
    if _all_distinct(array):
        return Groups(np.arange(len(array), dtype=np.int32), array)
    if pa.types.is_int64(array.type) and (groups := _dense_groups(array)) is not None:
        return groups
    if not pa.types.is_struct(array.type):
        encoded = array.dictionary_encode()
        return Groups(to_numpy(encoded.indices), encoded.dictionary)
    codes = np.zeros(len(array), np.int64)
    for field in array.flatten():
        groups = group(field)
        # Both factors are at most the number of rows, so the product fits 64 bits.
        pairs = codes * len(groups.values) + groups.codes
        _, first, codes = np.unique(pairs, return_index=True, return_inverse=True)
    return Groups(codes.astype(np.int32), array.take(to_arrow(first)))


def _dense_groups(array: pa.Array) -> Groups | None:
    """Groups integers that lie near each other, if they do: looked up without a hash table."""
    numbers = to_numpy(array)
    least = int(numbers.min())
    size = int(numbers.max()) - least + 1
    if size > _DENSE * len(numbers):
        return None
    numbers = numbers - least
    codes = np.zeros(size, np.int32)
    codes[numbers] = 1
    found = np.flatnonzero(codes)
    codes[found] = np.arange(len(found), dtype=np.int32)
    return Groups(codes[numbers], to_arrow(found + least))


def repeats(array: pa.Array) -> bool:
    """Tells whether codes of distinct values are likely to be smaller than a column's values."""
    sample = array.slice(0, _SAMPLE_ROWS)
    share = _MOSTLY_OF_INTEGERS if pa.types.is_integer(array.type) else _MOSTLY
    return len(group(sample).values) <= share * len(sample)


def _all_distinct(array: pa.Array) -> bool:
    """Tells whether no two rows have equal hashes, so that all values differ.

    Hashes take a fraction of the time of a hash table of many values.
    """
    if len(array) > 2 * _SAMPLE_ROWS:
        # From all over: of several dictionaries, one after the other, each has distinct values.
        rows = np.arange(0, len(array), len(array) // _SAMPLE_ROWS)
        if not _all_distinct(array.take(to_arrow(rows))):
            return False
    return _no_two_equal(hash_rows(array, _KEY))


def _no_two_equal(hashes: Hashes) -> bool:
    # Of the rows in a slot one wins it, and the others are compared with it: most rows have a slot
    # of their own, and need no sorting. Of two equal hashes one wins or both lose.
    while len(hashes):
        rows = np.arange(len(hashes), dtype=np.int32)
        bits = len(hashes).bit_length()
        slots = (hashes >> np.uint64(64 - bits)).view(np.int64)
        table = np.empty(1 << bits, np.int32)
        table[slots] = rows
        winners = table[slots]
        lost = np.flatnonzero(winners != rows)
        if (hashes[lost] == hashes[winners[lost]]).any():
            return False
        hashes = hashes[lost]
    return True


def order(values: pa.Array) -> Int64Array:
    """The rank of every distinct value among the values, a total order of its type."""
    ranks = np.empty(len(values), np.int64)
    ranks[to_numpy(in_order(values))] = np.arange(len(values))
    return ranks


def in_order(values: pa.Array) -> pa.Array:
    """The rows of a column in ascending order, a composite one field after the other."""
    fields = _leaves(values)
    table = pa.table(fields, names=[str(i) for i in range(len(fields))])
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])


def _leaves(array: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(array.type):
        return [array]
    return [leaf for field in array.flatten() for leaf in _leaves(field)]
