"""Counts of users per partition, and histograms of counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import COUNT, PARTITION, USER, decoded, single
from dp_transforms.columnar.grouping import group
from dp_transforms.columnar.numbers import to_arrow, to_numpy


def count_pairs(table: pa.Table, cap: int | None = None) -> pa.Table:
    """Counts the rows of each partition.

    On distinct (user, partition) pairs these are numbers of users.

    Args:
      table: a column ``partition``, plain or dictionary-encoded.
      cap: a count stops at this.

    Returns:
      Columns ``partition`` (plain) and ``count`` (int64, positive). A partition has one row, or a
      few rows whose counts add if the table's dictionary repeats it.
    """
    groups = group(single(table[PARTITION]))
    counts = np.bincount(groups.codes, minlength=len(groups.values))
    present = np.flatnonzero(counts)
    values = groups.values
    if len(present) < len(counts):
        values, counts = values.take(to_arrow(present)), counts[present]
    return _counts_table(values, counts, cap)


def sum_counts(table: pa.Table, cap: int | None = None) -> pa.Table:
    """Adds the counts of each partition. Idempotent and mergeable.

    Args:
      table: plain columns ``partition`` and ``count``.
      cap: a sum stops at this.

    Returns:
      The same columns, one row for each partition.
    """
    table = decoded(table)
    groups = group(single(table[PARTITION]))
    sums = np.zeros(len(groups.values), np.int64)
    np.add.at(sums, groups.codes, to_numpy(single(table[COUNT])))
    return _counts_table(groups.values, sums, cap)


def user_degrees(pairs: pa.Table) -> Mapping[int, int]:
    """Counts the users with each number of pairs: {pairs: users}.

    Args:
      pairs: what ``bounding.distinct_pairs`` gave: columns ``user`` and ``partition``.
    """
    return histogram(count_pairs(pa.table({PARTITION: pairs[USER]})))


def histogram(counts: pa.Table) -> Mapping[int, int]:
    """Counts the partitions with each count: {count: number of partitions}."""
    values = pc.value_counts(single(counts[COUNT]))
    return dict(
        zip(values.field("values").to_pylist(), values.field("counts").to_pylist(), strict=True)
    )


def _counts_table(values: pa.Array, counts: np.ndarray, cap: int | None) -> pa.Table:
    if cap is not None:
        counts = np.minimum(counts, cap)
    return pa.table({PARTITION: values, COUNT: to_arrow(counts)})
