import itertools

import numpy as np
import pyarrow as pa
import pytest

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.counting import count_pairs, neighbours
from dp_transforms.mechanisms.degree_projection import edge_private_sensitivity


def edge_table(edges):
    sources, targets = zip(*edges, strict=True) if edges else ((), ())
    return pa.table({"source": pa.array(sources, pa.int64()), "target": pa.array(targets, "int64")})


def degree_list(edges, degree, nodes):
    counts = count_pairs(distinct_pairs(neighbours(edge_table(edges), degree)))["count"]
    row = np.zeros(nodes, np.int64)
    row[: len(counts)] = sorted(counts.to_pylist(), reverse=True)
    return row


@pytest.mark.parametrize("degree", ["undirected", "in", "out"])
def test_one_edge_moves_no_list_further_than_the_sensitivity(degree):
    """Every graph with three nodes, self-loops included, with and without each of its edges."""
    nodes = 3
    edges = list(itertools.product(range(nodes), repeat=2))
    graphs = map(
        frozenset,
        itertools.chain.from_iterable(itertools.combinations(edges, n) for n in range(10)),
    )
    rows = {graph: degree_list(sorted(graph), degree, nodes) for graph in graphs}
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
    edges = edge_table([(1, 2), (2, 2), (3, 1), (1, 2)])
    for name in coded:
        at = edges.column_names.index(name)
        edges = edges.set_column(at, name, edges[name].dictionary_encode())
    found = count_pairs(distinct_pairs(neighbours(edges, "undirected")))
    assert sorted(found["count"].to_pylist()) == [1, 1, 2]
