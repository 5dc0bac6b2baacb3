"""Groups rows by value: codes are equal exactly where values are."""

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
# Integers are sorted if a hash table of their values would not fit the cache; text, by hashes, if
# few values seem equal and have to be compared; composites always: Arrow has no table of them.
_OUT_OF_CACHE = 40_000
_HARDLY_REPEATED = 8
_DENSE = 8
# Equal hashes of different values only cost time here, so this need not be secret.
_KEY = bytes(range(32))


@dataclass(frozen=True)
class Groups:
    """Groups rows by value: row i has the value ``values[codes[i]]``.

    Attributes:
      codes: int32, one per row.
      values: the distinct values, in any order.
    """

    codes: Int32Array
    values: pa.Array

    def encoded(self, codes: Int32Array) -> pa.DictionaryArray:
        """Returns the values of these codes as a dictionary-encoded column."""
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
    """Groups integers without a hash table if they lie near each other; None if they do not."""
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
    """Groups values by sorting words made of a key and a row, which is fast even out of the cache.
    Returns None if, by chance, different values have one key."""
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
    """Returns a key of each value, with some leading bits to spare, and whether keys are exact.
    Keys of integers in a narrow range are equal only where values are; other keys are hashes."""
    if pa.types.is_integer(array.type):
        numbers = to_numpy(array)
        least, most = int(numbers.min()), int(numbers.max())
        if (most - least).bit_length() + spare_bits <= 64:
            return (numbers - least).view(np.uint64), True
    return hash_rows(array, _KEY) >> np.uint64(spare_bits), False


def _each_of_its_own(array: pa.Array) -> Groups:
    return Groups(np.arange(len(array), dtype=np.int32), array)


def repeats(array: pa.Array) -> bool:
    """Tells whether codes of a column's distinct values are likely to be smaller than its
    values."""
    sample = array.slice(0, _SAMPLE_ROWS)
    share = _MOSTLY_OF_INTEGERS if pa.types.is_integer(array.type) else _MOSTLY
    return len(group(sample).values) <= share * len(sample)


def _is_worth_sorting(array: pa.Array) -> bool:
    """Tells whether sorting is faster than a hash table, by a sample of values."""
    if pa.types.is_struct(array.type):
        return True
    # The sample comes from all over: a column may be several dictionaries, each of distinct values.
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
    """Returns the rank of every distinct value in ascending order."""
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
