"""Sums of users' weights per partition; a weight follows from how many partitions a user has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import COUNT, PARTITION, USER, decoded, single
from dp_transforms.columnar.grouping import Groups, group
from dp_transforms.columnar.named_uniforms import name_bytes
from dp_transforms.columnar.numbers import Int64Array, to_arrow

WEIGHT = "weight"

Weights = Callable[[Int64Array], Int64Array]
"""Maps numbers of partitions to the integer weight of their user in each."""


def weigh_pairs(pairs: pa.Table, weights: Weights) -> pa.Table:
    """Weights and users of each partition.

    Args:
      pairs: distinct rows of ``user`` and ``partition``, plain or dictionary-encoded, with all rows
        of each of its users.
      weights: gives a user's weight.

    Returns:
      Columns ``partition`` (plain), ``weight`` and ``count`` (int64): the sum of the weights of its
      users, and how many these are. See ``sum_weights`` for adding several such tables.
    """
    users, partitions = (group(single(pairs[name])) for name in (USER, PARTITION))
    has = np.bincount(users.codes, minlength=len(users.values))
    each = weights(has.clip(1))[users.codes]
    return _summed(partitions, each, np.ones(len(each), np.int64))


def sum_weights(table: pa.Table) -> pa.Table:
    """Adds weights and counts of each partition. Idempotent and mergeable.

    Args and returns: the columns that ``weigh_pairs`` gives; here one row for each partition.
    """
    table = decoded(table)
    weights, counts = (table[name].to_numpy() for name in (WEIGHT, COUNT))
    return _summed(group(single(table[PARTITION])), weights, counts)


def without_partitions(pairs: pa.Table, removed: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The pairs whose partition is not among the removed ones.

    Args:
      pairs: a column ``partition``, plain or dictionary-encoded.
      removed: plain values of the same type.
    """
    if not len(removed):
        return pairs
    groups = group(single(pairs[PARTITION]))
    gone = is_in(groups.values, removed).to_numpy(zero_copy_only=False)
    rows = to_arrow(np.flatnonzero(~gone[groups.codes]))
    # Column by column: the result has one chunk each, also where no row is left.
    return pa.table({name: single(pairs[name]).take(rows) for name in pairs.column_names})


def is_in(values: pa.Array, among: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Tells which of the values are among others: bools, as many as there are values.

    Args:
      values, among: plain columns of one type.
    """
    if isinstance(among, pa.ChunkedArray):
        among = single(among)
    if pa.types.is_struct(values.type):
        # Arrow does not look up structs.
        values, among = (pa.array(name_bytes(array), pa.binary()) for array in (values, among))
    return pc.is_in(values, value_set=among)


def _summed(groups: Groups, weights: Int64Array, counts: Int64Array) -> pa.Table:
    sums = np.zeros((2, len(groups.values)), np.int64)
    np.add.at(sums[0], groups.codes, weights)
    np.add.at(sums[1], groups.codes, counts)
    # A dictionary may have values that no row has.
    present = np.flatnonzero(sums[1])
    values = groups.values
    if len(present) < len(values):
        values, sums = values.take(to_arrow(present)), sums[:, present]
    return pa.table({PARTITION: values, WEIGHT: pa.array(sums[0]), COUNT: pa.array(sums[1])})
