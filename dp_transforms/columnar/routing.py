"""The hash and the number of buckets by which rows travel, so that rows meet where they must."""

from __future__ import annotations

import functools

import pyarrow as pa

from dp_transforms.columnar.columns import described, single, value_types
from dp_transforms.columnar.hashing import Hashes, hash_rows, prf
from dp_transforms.columnar.numbers import to_numpy
from dp_transforms.columnar.scattering import Route

DEFAULT_BUCKETS = 64
MAX_BUCKETS = 1 << 16
_FEWEST = 16
_BUCKET_ROWS = 600_000
MAX_HELD_BYTES = 32 << 20
"""About how much of a bucket a thread holds at a time; a larger one is gone through in parts.

With the columns of intermediate results, a thread needs up to twelve times this. So the memory of a
worker depends on its threads, and not on how many records a user or a partition has, except where
all distinct partitions of one user are needed at once: for a ``max_partitions_per_user`` as large
as that, and in selection by several rounds.
"""


def num_buckets_for(rows: int) -> int:
    """A number of buckets for about this many rows: each is a few tables as large as one batch.

    >>> num_buckets_for(1_000), num_buckets_for(20_000_000), num_buckets_for(10**12)
    (16, 33, 4096)
    """
    return min(max(rows // _BUCKET_ROWS, _FEWEST), 4096)


def num_buckets_by_size(num_buckets: int, rows: int, size: int) -> int:
    """Lowers the number of ``num_buckets_for`` where records are small: a bucket is half of the
    bytes that a thread holds at a time. Each batch has a piece for each bucket, and each piece its
    dictionaries.

    Args:
      num_buckets: at most so many.
      rows, size: how many bytes some of the records take.

    >>> num_buckets_by_size(160, rows=1_000, size=12_000), num_buckets_by_size(8, 1_000, 12_000)
    (68, 8)
    """
    needed = 2 * num_buckets * _BUCKET_ROWS * size // (max(rows, 1) * MAX_HELD_BYTES)
    return min(num_buckets, max(needed, _FEWEST))


def by_hash(names: tuple[str, ...], key: bytes) -> Route:
    """The route by the values of these columns; see ``hash_columns``."""
    return functools.partial(hash_columns, names=names, key=key)


def hash_columns(table: pa.Table, names: tuple[str, ...], key: bytes) -> Hashes:
    """A route (see ``scattering``): the hash of one or more columns of a row."""
    hashes = _hash_column(single(table[names[0]]), key)
    for name in names[1:]:
        hashes = prf(key, hashes, _hash_column(single(table[name]), key))
    return hashes


def _hash_column(array: pa.Array, key: bytes) -> Hashes:
    if pa.types.is_dictionary(array.type):
        return hash_rows(array.dictionary, key)[to_numpy(array.indices)]
    return hash_rows(array, key)


def types_of(table: pa.Table) -> tuple[str, str]:
    """The types of a table's values as ``described``: without names of fields, and with them."""
    kinds = value_types(table)
    plain, named = ([described(kind, names) for kind in kinds] for names in (False, True))
    return ", ".join(plain), ", ".join(named)
