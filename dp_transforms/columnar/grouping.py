"""Groups rows by value: rows get integer codes, which are equal exactly where values are equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.hashing import (
    Hashes,
    hash_rows,
    to_arrow,
    to_numpy,
)
from dp_transforms.mechanisms.arrays import Int32Array, IntArray

_SAMPLE_ROWS = 1 << 12
_SAMPLE_BITS = 14
_LEAST_STEP = 16
_MOSTLY = 0.9
_MOSTLY_OF_INTEGERS = 0.5
# Values are grouped by sorting rather than by Arrow's hash table in these cases. Integers: if the
# table would not fit the cache. Text, which is sorted by hashes: if few values seem equal, since
# equal ones have to be compared. Composites: always, since Arrow has no hash table for them.
_OUT_OF_CACHE = 40_000
_HARDLY_REPEATED = 8
_DENSE = 8
# This key need not be secret, since equal hashes of different values cost only time here.
_KEY = bytes(range(32))


@dataclass(frozen=True)
class Groups:
    """Rows grouped by value: row i has the value ``values[codes[i]]``.

    Attributes:
      codes: int32, one for each row.
      values: the distinct values, in any order.
    """

    codes: Int32Array
    values: pa.Array

    def encoded(self, codes: Int32Array) -> pa.DictionaryArray:
        """Returns the values of these codes as a dictionary-encoded column."""
        return pa.DictionaryArray.from_arrays(to_arrow(codes), self.values, safe=False)


def group(array: pa.Array) -> Groups:
    """Returns the rows of a column grouped by value. Values are compared, not only their hashes.

    Args:
      array: plain values, or codes of distinct values (see ``columns``).

    >>> groups = group(pa.array(["b", "a", "b"]))
    >>> groups.codes.tolist(), groups.values.to_pylist()
    ([0, 1, 0], ['b', 'a'])
    """
    if pa.types.is_dictionary(array.type):
        return Groups(to_numpy(array.indices), array.dictionary)
    groups = None
    if pa.types.is_int64(array.type) and len(array):
        groups = _dense_groups(array)
    if groups is None and len(array) > _SAMPLE_ROWS and _is_worth_sorting(array):
        groups = _sorted_groups(array)
    if groups is not None:
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
    """Returns integers grouped without a hash table; None if their range is too large for that."""
    numbers = to_numpy(array)
    least = int(numbers.min())
    size = int(numbers.max()) - least + 1
    if size > _DENSE * len(numbers):
        return None
    numbers = numbers - least
    codes = np.zeros(size, np.int32)
    codes[numbers] = 1
    present = np.flatnonzero(codes)
    if len(present) == len(numbers):
        return _each_of_its_own(array)
    codes[present] = np.arange(len(present), dtype=np.int32)
    return Groups(codes[numbers], to_arrow(present + least))


def _sorted_groups(array: pa.Array) -> Groups | None:
    """Returns values grouped by sorting; None if, by chance, different values have the same key.

    It sorts words that consist of a value's key and its row, which is fast even if they do not fit
    the cache.
    """
    bits = np.uint64(len(array).bit_length())
    words, exact = _keys(array, int(bits))
    words <<= bits
    words |= np.arange(len(array), dtype=np.uint64)
    words.sort()
    rows = (words & (np.uint64(1) << bits) - np.uint64(1)).view(np.int64)
    words >>= bits
    first = np.append(True, words[1:] != words[:-1])
    again = np.flatnonzero(~first)
    if not len(again):
        return _each_of_its_own(array)
    if not exact:
        others = array.take(to_arrow(rows[again - 1]))
        if not array.take(to_arrow(rows[again])).equals(others):
            return None
    codes = np.empty(len(array), np.int32)
    codes[rows] = np.cumsum(first, dtype=np.int32) - 1
    return Groups(codes, array.take(to_arrow(rows[first])))


def _keys(array: pa.Array, spare_bits: int) -> tuple[Hashes, bool]:
    """Returns a key of each value, whose leading ``spare_bits`` are 0, and whether keys are exact.

    Exact keys are equal only where values are: those of integers in a narrow range. Other keys are
    hashes.
    """
    if pa.types.is_integer(array.type):
        numbers = to_numpy(array)
        least, most = int(numbers.min()), int(numbers.max())
        if (most - least).bit_length() + spare_bits <= 64:
            return (numbers - least).view(np.uint64), True
    return hash_rows(array, _KEY) >> np.uint64(spare_bits), False


def _each_of_its_own(array: pa.Array) -> Groups:
    """Returns the groups of rows that all have different values."""
    return Groups(np.arange(len(array), dtype=np.int32), array)


def repeats(array: pa.Array) -> bool:
    """Returns whether a column of codes is likely to be smaller than the column itself, since
    values repeat: by the first rows."""
    sample = array.slice(0, _SAMPLE_ROWS)
    share = _MOSTLY_OF_INTEGERS if pa.types.is_integer(array.type) else _MOSTLY
    return len(group(sample).values) <= share * len(sample)


def _is_worth_sorting(array: pa.Array) -> bool:
    """Returns whether sorting is likely to be faster than a hash table, by a sample of values."""
    if pa.types.is_struct(array.type):
        return True
    # The sample is spread over the column. If the column was joined from several dictionaries, each
    # of distinct values, then equal values are far apart.
    rows = np.arange(0, len(array), max(_LEAST_STEP, len(array) >> _SAMPLE_BITS))
    sample = hash_rows(array.take(to_arrow(rows)), _KEY)
    times = np.bincount(np.unique(sample, return_counts=True)[1], minlength=3)
    # A lower bound on the number of distinct values (A. Chao, "Nonparametric estimation of the
    # number of classes in a population", 1984).
    distinct = times.sum() + times[1] ** 2 / (2 * times[2] + 1)
    if pa.types.is_integer(array.type):
        return bool(min(distinct, len(array)) > _OUT_OF_CACHE)
    return bool(distinct > _HARDLY_REPEATED * len(array))


def order(values: pa.Array) -> IntArray:
    """Returns the rank of each of distinct values, in ascending order from 0."""
    ranks = np.empty(len(values), np.int64)
    ranks[to_numpy(in_order(values))] = np.arange(len(values))
    return ranks


def in_order(values: pa.Array) -> pa.Array:
    """Returns the rows of a column in ascending order; composites are compared field by field."""
    fields = _leaves(values)
    table = pa.table(fields, names=[str(i) for i in range(len(fields))])
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])


def _leaves(array: pa.Array) -> list[pa.Array]:
    if not pa.types.is_struct(array.type):
        return [array]
    return [leaf for field in array.flatten() for leaf in _leaves(field)]
