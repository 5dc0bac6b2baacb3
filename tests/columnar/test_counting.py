import collections

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.columns import concat
from dp_transforms.columnar.counting import count_pairs, histogram, sum_counts

PARTITIONS = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1)
CAPS = st.none() | st.integers(1, 4)


def capped(counts, cap):
    return {p: min(n, cap or n) for p, n in counts.items()}


def counts_of(table):
    partitions = table["partition"].to_pylist()
    assert len(partitions) == len(set(partitions))
    return dict(zip(partitions, table["count"].to_pylist(), strict=True))


@given(PARTITIONS, CAPS)
def test_rows_are_counted(partitions, cap):
    expected = capped(collections.Counter(partitions), cap)
    for column in (pa.array(partitions), pa.array(partitions).dictionary_encode()):
        assert counts_of(count_pairs(pa.table({"partition": column}), cap)) == expected


def test_a_value_of_the_dictionary_alone_has_no_count():
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int32()), pa.array(list("abc")))
    assert counts_of(count_pairs(pa.table({"partition": column}))) == {"c": 2, "a": 1}


@given(st.lists(PARTITIONS, min_size=1), CAPS)
def test_parts_add_up_whatever_the_cap(parts, cap):
    tables = [count_pairs(pa.table({"partition": part}), cap) for part in parts]
    whole = collections.Counter(partition for part in parts for partition in part)
    assert counts_of(sum_counts(concat(tables), cap)) == capped(whole, cap)


def test_large_counts_are_exact():
    table = pa.table({"partition": ["a", "a"], "count": pa.array([2**60, 1])})
    assert counts_of(sum_counts(table)) == {"a": 2**60 + 1}


def test_public_partitions_without_users_keep_their_count_of_zero():
    """Without it those with a single user alone would be named, which tells of the user."""
    table = pa.table({"partition": ["a", "b", "a"], "count": [0, 0, 2]})
    assert counts_of(sum_counts(table)) == {"a": 2, "b": 0}


def test_histogram():
    assert histogram(pa.table({"count": pa.array([3, 1, 3, 1, 1])})) == {3: 2, 1: 3}
    assert histogram(pa.table({"count": pa.array([], pa.int64())})) == {}
