import collections
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import coded_table, concat, decoded
from dp_transforms.columnar.counting import (
    count_pairs,
    histogram,
    is_in,
    neighbours,
    sum_counts,
    weigh_pairs,
    without_partitions,
)
from dp_transforms.mechanisms.degree_projection import edge_private_sensitivity

PARTITIONS = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1)
CAPS = st.none() | st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "c", "", "ü"])
PAIRS = st.lists(st.tuples(st.integers(0, 6), NAMES), max_size=40)
RECORD = {"user": pa.int64(), "partition": pa.string()}
EDGE = {"source": pa.int64(), "target": pa.int64()}


def capped(counts, cap):
    return {p: min(n, cap or n) for p, n in counts.items()}


def counts_of(table):
    partitions = table["partition"].to_pylist()
    assert len(partitions) == len(set(partitions))
    return dict(zip(partitions, table["count"].to_pylist(), strict=True))


@given(st.lists(PARTITIONS, min_size=1), CAPS)
def test_rows_are_counted_and_parts_add_up_whatever_the_cap(parts, cap):
    tables = []
    for part in parts:
        for column in (pa.array(part).dictionary_encode(), pa.array(part)):
            counted = count_pairs(pa.table({"partition": column}), cap)
            assert counts_of(counted) == capped(collections.Counter(part), cap)
        tables.append(counted)
    whole = collections.Counter(itertools.chain(*parts))
    assert counts_of(sum_counts(concat(tables), cap)) == capped(whole, cap)


def test_a_value_of_the_dictionary_alone_has_no_count():
    column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int32()), pa.array(list("abc")))
    assert counts_of(count_pairs(pa.table({"partition": column}))) == {"c": 2, "a": 1}


@pytest.mark.parametrize("large", [2, 2**60 + 1])
def test_public_partitions_without_users_keep_their_count_of_zero(large):
    """Without it those with a single user alone would be named, which tells of the user."""
    table = pa.table({"partition": ["a", "b", "a", "a"], "count": [0, 0, large - 1, 1]})
    assert counts_of(sum_counts(table)) == {"a": large, "b": 0}


def test_histogram():
    assert histogram(pa.table({"count": pa.array([3, 1, 3, 1, 1])})) == {3: 2, 1: 3}
    assert histogram(pa.table({"count": pa.array([], pa.int64())})) == {}


def table_of(rows, columns=RECORD):
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, pa.schema(columns))


def as_dict(table):
    return {row["partition"]: (row["weight"], row["count"]) for row in table.to_pylist()}


def expected(pairs):
    has = collections.Counter(user for user, _ in set(pairs))
    sums = collections.defaultdict(lambda: (0, 0))
    for user, partition in set(pairs):
        weight, count = sums[partition]
        sums[partition] = weight + has[user] ** 2, count + 1
    return dict(sums)


@given(PAIRS, st.integers(0, 6))
def test_weights_are_summed_by_partition_also_in_parts(pairs, cut):
    for table in (distinct_pairs(table_of(pairs)), table_of(sorted(set(pairs)))):
        weighed = weigh_pairs(table, np.square)
        assert as_dict(weighed) == expected(pairs)
        assert weighed.num_rows == len(expected(pairs))
    parts = [[p for p in pairs if p[0] < cut], [p for p in pairs if p[0] >= cut]]
    tables = [weigh_pairs(distinct_pairs(table_of(part)), np.square) for part in parts]
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


@pytest.mark.parametrize(
    ("values", "among"),
    [
        (pa.array([1, 2, 3]), pa.array([2])),
        (pa.array([b"1", b"2", b"3"]), pa.array([b"2"])),
        (pa.array(["1", "2", "3"]), pa.array(["2"])),
        (
            pa.array([{"x": "a", "y": "bc"}, {"x": "ab", "y": "c"}, {"x": "a", "y": "b"}]),
            pa.array([{"x": "ab", "y": "c"}, {"x": "z", "y": "z"}]),
        ),
    ],
)
def test_membership(values, among):
    assert is_in(values, among).to_pylist() == [False, True, False]


def test_large_sums_are_exact():
    users = pa.array(np.arange(1000))
    table = pa.table({"user": users, "partition": pa.array(np.zeros(1000, np.int64))})
    weighed = weigh_pairs(table, lambda counts: counts * (2**53 + 1))
    assert as_dict(weighed) == {0: (1000 * (2**53 + 1), 1000)}


def degree_list(edges, degree, nodes):
    counts = count_pairs(distinct_pairs(neighbours(table_of(edges, EDGE), degree)))["count"]
    row = np.zeros(nodes, np.int64)
    row[: len(counts)] = sorted(counts.to_pylist(), reverse=True)
    return row


@pytest.mark.parametrize("degree", ["undirected", "in", "out"])
def test_one_edge_moves_no_list_further_than_the_sensitivity(degree):
    """Every graph with three nodes, self-loops included, with and without each of its edges."""
    edges = list(itertools.product(range(3), repeat=2))
    graphs = [graph for n in range(10) for graph in itertools.combinations(edges, n)]
    rows = {frozenset(graph): degree_list(graph, degree, nodes=3) for graph in graphs}
    assert len(rows) == 2**9
    worst = 0
    for graph, row in rows.items():
        for edge in graph:
            # An undirected edge is there in both directions: all of its records go.
            gone = {edge, edge[::-1]} if degree == "undirected" else {edge}
            worst = max(worst, int(np.abs(row - rows[graph - gone]).sum()))
    assert worst == edge_private_sensitivity(degree)


def test_nodes_of_two_types_never_meet():
    with pytest.raises(TypeError, match="one type, got string and int64"):
        neighbours(pa.table({"source": ["1"], "target": [1]}), "in")


@pytest.mark.parametrize("coded", [("source",), ("target",), ("source", "target")])
def test_dictionaries_of_the_same_values_are_of_one_type(coded):
    edges = table_of([(1, 2), (2, 2), (3, 1), (1, 2)], EDGE)
    columns = [edges[name].dictionary_encode() if name in coded else edges[name] for name in EDGE]
    counts = count_pairs(distinct_pairs(neighbours(pa.table(columns, list(EDGE)), "undirected")))
    assert sorted(counts["count"].to_pylist()) == [1, 1, 2]


@pytest.mark.parametrize("times", [1, 10])
def test_nodes_may_be_composite(times):
    ends = [[{"layer": 1, "name": n} for n in nodes] for nodes in ("abc" * times, "bba" * times)]
    edges = coded_table([pa.table(ends, ["source", "target"])], ["source", "target"])
    assert pa.types.is_dictionary(edges["source"].type) == (times > 1)
    pairs = distinct_pairs(neighbours(edges, "in"))
    assert sorted(row["partition"]["name"] for row in decoded(pairs).to_pylist()) == ["a", "b"]
