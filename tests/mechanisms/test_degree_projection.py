"""The L1 sensitivity of projected degree lists, over all small graphs and all their nodes."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.degree_projection import (
    in_fixed_order,
    node_private_sensitivity,
    project_degrees,
    project_directed_degrees,
)
from tests.cases import refused, slow_unless, thorough_unless


def largest_change(pairs, nodes, degree_lists):
    """Max L1 distance between the lists of a graph and of the same graph without one node, over all
    graphs with these nodes: graph g has the edge pairs[i] iff bit i of g is set."""
    graphs, ranks = np.arange(2 ** len(pairs)), np.arange(1, nodes + 1)
    edges = ([pair for i, pair in enumerate(pairs) if g >> i & 1] for g in graphs.tolist())
    tables = np.array(
        [[degrees.at_ranks(ranks) for degrees in degree_lists(some)] for some in edges]
    )
    of_nodes = [sum(1 << i for i, pair in enumerate(pairs) if n in pair) for n in range(nodes)]
    return max(np.abs(tables - tables[graphs & ~own]).sum(axis=2).max() for own in of_nodes)


edges_of_30 = st.sets(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=120)
SMALL = [(n, d, key) for n in range(2, 6) for d in range(1, n) for key in (b"", b"another order")]
OF_SIX = [(6, d, b"%d" % i) for d in range(1, 6) for i in range(6)]


@pytest.mark.parametrize(("nodes", "bound", "key"), slow_unless(SMALL + OF_SIX, SMALL))
def test_sensitivity_on_all_graphs(nodes, bound, key):
    pairs = list(itertools.combinations(range(nodes), 2))
    worst = largest_change(pairs, nodes, lambda edges: [project_degrees(edges, bound, key)])
    # A node joined to ``bound`` isolated nodes attains it, so the bound is the exact maximum.
    assert worst == node_private_sensitivity(bound) == 2 * bound


@pytest.mark.parametrize("nodes", thorough_unless([2, 3, 4], [2, 3]))
def test_sensitivity_on_all_directed_graphs(nodes):
    pairs = list(itertools.permutations(range(nodes), 2))
    for bound in range(1, nodes):
        worst = largest_change(pairs, nodes, lambda x, d=bound: project_directed_degrees(x, d))
        assert 2 * bound <= worst <= node_private_sensitivity(bound, directed=True)


@given(edges_of_30, st.integers(0, 30), st.integers(1, 8), st.binary(max_size=8))
def test_sensitivity_on_larger_graphs(edges, node, bound, key):
    remaining = [edge for edge in edges if node not in edge]
    ours, theirs = (
        [project_degrees(some, bound, key), *project_directed_degrees(some, bound, key)]
        for some in (edges, remaining)
    )
    undirected, *directed = map(FrequencyList.l1_distance, ours, theirs)
    assert undirected <= node_private_sensitivity(bound)
    assert max(directed) <= node_private_sensitivity(bound, directed=True)


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(1, 5))
def test_the_projection_is_maximal_and_bounded(edges, bound):
    degrees = project_degrees(edges, bound)
    assert degrees.frequencies.max(initial=0) <= bound
    assert degrees.total % 2 == 0
    # With a bound that no degree reaches, nothing is dropped.
    simple = {frozenset(edge) for edge in edges if len(set(edge)) == 2}
    everything = Counter(itertools.chain(*simple)).values()
    assert project_degrees(edges, 10) == FrequencyList.from_counts(everything)


def test_input_order_direction_repeats_self_loops_and_types_do_not_matter():
    edges = [(10, 2), (2, 3), (3, 10), (3, 4)]
    messy = [(b, a) for a, b in reversed(edges)] + edges + [(5, 5), (10, 10)]
    typed = [np.array(edges).astype(kind) for kind in (int, str, bytes)]
    for bound, same in itertools.product((1, 2, 3), (messy, *typed)):
        assert project_degrees(same, bound) == project_degrees(edges, bound)
    one_way, other_way = project_directed_degrees(edges, 9)
    assert project_directed_degrees([*edges, *edges, (4, 4)], 9) == (one_way, other_way)
    assert project_directed_degrees([(b, a) for a, b in edges], 9) == (other_way, one_way)


def test_the_order_of_two_edges_does_not_depend_on_the_others():
    pairs = list(itertools.combinations([b"%d" % node for node in range(8)], 2))
    full, few = (in_fixed_order(some, b"key") for some in (pairs, pairs[::3]))
    assert few == [pair for pair in full if pair in few]
    assert full not in (sorted(pairs), in_fixed_order(pairs, b"another key"))


test_bad_arguments_are_refused = refused(
    project_degrees,
    ([(1, 2)], 0, "degree_bound must be a positive integer, got 0"),
    ([(1, None)], 2, "type NoneType"),
    ([(1, 1.5)], 2, "type float"),
)
