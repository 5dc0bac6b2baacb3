"""Kernels that count and weigh the users of partitions, make histograms of counts, and turn the
edges of a graph into records."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import (
    COUNT,
    PARTITION,
    USER,
    concat,
    decoded,
    decoded_array,
    described,
    plain_table,
    single,
)
from dp_transforms.columnar.grouping import Groups, group
from dp_transforms.columnar.hashing import bools_to_numpy, name_bytes, to_arrow, to_numpy
from dp_transforms.mechanisms.arrays import BoolArray, IntArray

_Key = TypeVar("_Key", bound=Hashable)

WEIGHT = "weight"
SOURCE = "source"
TARGET = "target"


def count_pairs(table: pa.Table, cap: int | None = None) -> pa.Table:
    """Counts the rows of each partition. If (user, partition) pairs are distinct, these are its
    users.

    Args:
      table: a column ``partition``, plain or dictionary-encoded.
      cap: larger counts are returned as this number.

    Returns:
      Columns ``partition`` (plain) and ``count`` (int64, positive). A partition has one row. If the
      table's dictionary repeats it, it has several rows, whose counts have to be added.
    """
    groups = group(single(table[PARTITION]))
    counts = np.bincount(groups.codes, minlength=len(groups.values))
    return _present(groups, {COUNT: _capped(counts, cap)})


def sum_counts(table: pa.Table, cap: int | None = None) -> pa.Table:
    """Returns the sum of the counts, and of the weights if there are any, of each partition.

    The function is idempotent and mergeable. A sum of 0 stays: it is that of a public name without
    users. If it were dropped, the result would show whether the name has 0 users or 1.

    Args:
      table: plain columns ``partition``, ``count`` and perhaps ``weight``, as in the result.
      cap: larger sums are returned as this number.
    """
    table = decoded(table)
    groups = group(single(table[PARTITION]))
    sums = {}
    for name in table.column_names:
        if name != PARTITION:
            sums[name] = np.zeros(len(groups.values), np.int64)
            np.add.at(sums[name], groups.codes, to_numpy(single(table[name])))
    return _of_partitions(groups, {name: _capped(column, cap) for name, column in sums.items()})


def weigh_pairs(pairs: pa.Table, weights: Callable[[IntArray], IntArray]) -> pa.Table:
    """Returns the sum of the weights of each partition's users, and the number of these users.

    Args:
      pairs: distinct rows of ``user`` and ``partition``, plain or dictionary-encoded. Of each user,
        all rows are in this table.
      weights: maps users' numbers of partitions to the integer weight that a user has in each of
        them.

    Returns:
      Columns ``partition`` (plain), ``weight`` (the sum) and ``count`` (the number of users), both
      int64. ``sum_counts`` adds several such tables.
    """
    users, partitions = (group(single(pairs[name])) for name in (USER, PARTITION))
    degrees = np.bincount(users.codes, minlength=len(users.values))
    sums = np.zeros(len(partitions.values), np.int64)
    # A user who is only in the dictionary has the degree 0, for which there is no weight.
    np.add.at(sums, partitions.codes, weights(degrees.clip(1))[users.codes])
    counts = np.bincount(partitions.codes, minlength=len(sums))
    return _present(partitions, {WEIGHT: sums, COUNT: counts})


def _capped(counts: IntArray, cap: int | None) -> IntArray:
    return counts if cap is None else np.minimum(counts, cap)


def _of_partitions(groups: Groups, numbers: Mapping[str, IntArray]) -> pa.Table:
    columns = {name: to_arrow(column) for name, column in numbers.items()}
    return pa.table({PARTITION: groups.values} | columns)


def _present(groups: Groups, numbers: Mapping[str, IntArray]) -> pa.Table:
    """Returns a table of the partitions that occur in rows, and their numbers. A dictionary may
    have values that do not occur."""
    present = np.flatnonzero(np.bincount(groups.codes, minlength=len(groups.values)))
    if len(present) < len(groups.values):
        groups = Groups(groups.codes, groups.values.take(to_arrow(present)))
        numbers = {name: column[present] for name, column in numbers.items()}
    return _of_partitions(groups, numbers)


def without_partitions(pairs: pa.Table, removed: pa.Array) -> pa.Table:
    """Returns the pairs whose partition, plain or dictionary-encoded, is not among the plain values
    ``removed``."""
    if not len(removed):
        return pairs
    groups = group(single(pairs[PARTITION]))
    is_removed = bools_to_numpy(is_in(groups.values, removed))
    return rows_where(pairs, ~is_removed[groups.codes])


def of_partitions(pairs: pa.Table, wanted: pa.Array) -> pa.Table:
    """Returns the pairs whose partition, plain or dictionary-encoded, is among the plain values
    ``wanted``."""
    groups = group(single(pairs[PARTITION]))
    kept = np.zeros(len(groups.values), np.bool_)
    if len(wanted) and len(groups.values):
        kept = bools_to_numpy(is_in(groups.values, wanted))
    return rows_where(pairs, kept[groups.codes])


def rows_where(table: pa.Table, keep: BoolArray) -> pa.Table:
    """Returns the rows of a table for which ``keep`` is true, a bool for each row."""
    rows = to_arrow(np.flatnonzero(keep))
    # Taken column by column, so that each has exactly one chunk, even without rows.
    return pa.table({name: single(table[name]).take(rows) for name in table.column_names})


def is_in(values: pa.Array, among: pa.Array) -> pa.Array:
    """Returns bools: whether each value is among others. Both columns are plain and of one type."""
    return pc.is_in(_comparable(values), value_set=_comparable(among))


def _comparable(values: pa.Array) -> pa.Array:
    """Returns the plain values themselves, or the bytes of structs, which Arrow cannot compare."""
    return pa.array(name_bytes(values), pa.binary()) if pa.types.is_struct(values.type) else values


def distinct_users(records: pa.Table) -> pa.Table:
    """Returns the distinct users of a table. The function is idempotent and mergeable."""
    return pa.table({USER: group(single(plain_table(records, (USER,))[USER])).values})


def user_degrees(pairs: pa.Table) -> Mapping[int, int]:
    """Returns the number of users for each number of distinct pairs: {number of pairs: users}."""
    return histogram(count_pairs(pa.table({PARTITION: pairs[USER]})))


def histogram(counts: pa.Table) -> Mapping[int, int]:
    """Returns the number of partitions with each count: {count: number of partitions}."""
    values = pc.value_counts(single(counts[COUNT]))
    return dict(
        zip(values.field("values").to_pylist(), values.field("counts").to_pylist(), strict=True)
    )


def numbers_of_rows(table: pa.Table) -> dict[tuple[Any, ...], int]:
    """Returns {row: number} of the different rows of a table.

    >>> sorted(numbers_of_rows(pa.table({"list": ["a", "a", "b"], "count": [1, 1, 7]})).items())
    [(('a', 1), 2), (('b', 7), 1)]
    """
    numbers = table.group_by(table.column_names).aggregate([([], "count_all")])
    columns = (numbers[name].to_pylist() for name in (*table.column_names, "count_all"))
    return {tuple(row): number for *row, number in zip(*columns, strict=True)}


def add_histograms(histograms: Iterable[Mapping[_Key, int]]) -> dict[_Key, int]:
    """Returns the sum of histograms, such as {count: number of partitions}."""
    total: collections.Counter[_Key] = collections.Counter()
    for histogram in histograms:
        total.update(histogram)
    return dict(total)


def neighbours(edges: pa.Table, degree: str) -> pa.Table:
    """Returns the records of a graph's edges: a node is the partition, and a neighbour of it the
    user.

    Args:
      edges: columns ``source`` and ``target``, plain or dictionaries of plain values.
      degree: with "in", sources are neighbours of their targets; with "out", targets are neighbours
        of their sources; with "undirected" both.

    Returns:
      Columns ``user`` (the neighbour) and ``partition`` (the node), without self-loops.

    Raises:
      TypeError: sources and targets have different types, so that no node could be both.

    >>> edges = pa.table({"source": ["a", "b", "c"], "target": ["b", "a", "c"]})
    >>> neighbours(edges, "in").to_pydict()
    {'user': ['a', 'b'], 'partition': ['b', 'a']}
    """
    source, target = (decoded_array(single(edges[name])) for name in (SOURCE, TARGET))
    if source.type != target.type:
        raise TypeError(
            f"both ends of an edge must have one type, got {described(source.type)} and "
            f"{described(target.type)}: cast one of the columns"
        )
    edges = edges.filter(pc.not_equal(_comparable(source), _comparable(target)))
    into = edges.rename_columns([USER, PARTITION])
    out_of = edges.rename_columns([PARTITION, USER]).select([USER, PARTITION])
    if degree == "undirected":
        return concat([into, out_of])
    return into if degree == "in" else out_of
