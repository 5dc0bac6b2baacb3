"""Sums of weights against rows of plain Python."""

import collections

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.counting import is_in, sum_counts, weigh_pairs, without_partitions

NAMES = st.sampled_from(["a", "b", "c", "", "ü"])
PAIRS = st.lists(st.tuples(st.integers(0, 6), NAMES), max_size=40)


def square(counts):
    return counts * counts


def table_of(pairs):
    users, partitions = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.table(
        {"user": pa.array(users, pa.int64()), "partition": pa.array(partitions, pa.string())}
    )


def as_dict(table):
    return {row["partition"]: (row["weight"], row["count"]) for row in table.to_pylist()}


def expected(pairs):
    has = collections.Counter(user for user, _ in set(pairs))
    sums = collections.defaultdict(lambda: (0, 0))
    for user, partition in set(pairs):
        weight, count = sums[partition]
        sums[partition] = weight + has[user] ** 2, count + 1
    return dict(sums)


@given(PAIRS)
def test_weights_are_summed_by_partition(pairs):
    distinct = distinct_pairs(table_of(pairs))
    for table in (distinct, table_of(sorted(set(pairs)))):
        weighed = weigh_pairs(table, square)
        assert as_dict(weighed) == expected(pairs)
        assert weighed.num_rows == len(expected(pairs))


@given(PAIRS, st.integers(0, 6))
def test_sums_of_parts_are_the_whole(pairs, cut):
    parts = [[p for p in pairs if p[0] < cut], [p for p in pairs if p[0] >= cut]]
    tables = [weigh_pairs(distinct_pairs(table_of(part)), square) for part in parts]
    merged = sum_counts(pa.concat_tables(tables).combine_chunks())
    assert as_dict(merged) == expected(pairs)
    assert as_dict(sum_counts(merged)) == as_dict(merged)


@given(PAIRS, st.sets(NAMES))
def test_removed_partitions_leave_the_others(pairs, removed):
    names = pa.array(sorted(removed), pa.string())
    left = {pair for pair in pairs if pair[1] not in removed}
    for table in (table_of(pairs), distinct_pairs(table_of(pairs))):
        rest = without_partitions(table, names)
        assert {tuple(row.values()) for row in rest.to_pylist()} == left


@pytest.mark.parametrize("kind", [pa.int64(), pa.binary(), pa.string()])
def test_membership_of_plain_values(kind):
    values = pa.array([1, 2, 3]) if kind == pa.int64() else pa.array(["1", "2", "3"]).cast(kind)
    assert is_in(values, values.take(pa.array([1]))).to_pylist() == [False, True, False]


def test_membership_of_pairs():
    def pairs(x, y):
        return pa.StructArray.from_arrays([pa.array(x), pa.array(y)], ["x", "y"])

    found = is_in(pairs(["a", "ab", "a"], ["bc", "c", "b"]), pairs(["ab", "z"], ["c", "z"]))
    assert found.to_pylist() == [False, True, False]


def test_large_sums_are_exact():
    users = pa.array(np.arange(1000))
    table = pa.table({"user": users, "partition": pa.array(np.zeros(1000, np.int64))})
    weighed = weigh_pairs(table, lambda counts: counts * (2**53 + 1))
    assert as_dict(weighed) == {0: (1000 * (2**53 + 1), 1000)}
