"""Degrees of nodes under a bound that is chosen from the graph, and graphs of libraries."""

import json

import igraph
import networkx as nx
import pytest

import dp_transforms as dp
from dp_transforms.budget import PrivacyUnit
from dp_transforms.releases import NodeDegreesSpec
from pipelines.release_degree_list import main

STAR = [("hub", f"leaf {i}") for i in range(40)]


def test_the_parts_add_up_and_candidates_are_public():
    spec = NodeDegreesSpec("0.5")
    assert [str(request.cost.budget.epsilon) for request in spec.requests] == ["0.05", "0.45"]
    assert all(request.unit is PrivacyUnit.NODE for request in spec.requests)
    assert spec.candidates == (2, 4, 8, 16, 32, 64, 128, 256)


def test_a_large_epsilon_drops_nothing_and_a_small_one_takes_a_small_bound():
    edges = [(f"n{i}", f"n{(i + step) % 300}") for i in range(300) for step in range(1, 6)]
    exact = dp.degrees(edges, epsilon=5_000, privacy_unit="node")
    assert list(exact.released) == [(10, 300)]
    assert exact.statement["degree_bound"] >= 16
    # The expected noise grows with the bound.
    costs = NodeDegreesSpec(1).choice.noise
    assert list(costs) == sorted(costs)
    assert dp.degrees(edges, epsilon="0.01", privacy_unit="node").statement["degree_bound"] <= 8


def test_the_bound_and_what_it_drops_is_said_where_the_list_is_shown():
    release = dp.degrees(STAR, epsilon=20, privacy_unit="node")
    bound = release.statement["degree_bound"]
    assert f"nodes at the bound of {bound} edges" in repr(release)
    assert "at least" in " ".join(release.statement_words())
    assert release.statement["epsilon"] == 20
    assert release.statement["list"]["epsilon"] == 18
    declared = dp.degrees(STAR, epsilon=20, degree_bound=3)
    assert "without looking at it" in " ".join(declared.statement_words())


def test_a_saved_release_is_read_again(tmp_path):
    release = dp.degrees(STAR, epsilon=20, privacy_unit="node")
    release.save(tmp_path / "degrees")
    again = dp.load(tmp_path / "degrees")
    assert repr(again) == repr(release)
    assert again.released == release.released


def test_a_session_of_nodes_pays_for_both_parts():
    session = dp.Session(1, unit="node")
    session.degrees(STAR, epsilon="0.75", privacy_unit="node")
    with pytest.raises(ValueError, match="left"):
        session.degrees(STAR, epsilon="0.5", privacy_unit="node")


def test_no_degree_comes_out_above_the_bound():
    release = dp.degrees(STAR, epsilon="0.5", degree_bound=4)
    assert release.released.frequencies.max(initial=0) <= 4


GRAPHS = [
    nx.Graph(STAR),
    nx.Graph(STAR).edges,
    nx.Graph(STAR).edges(data=True),
    nx.DiGraph(STAR),
    nx.MultiGraph([*STAR, *STAR]),
    nx.MultiDiGraph(STAR).edges(keys=True, data=True),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: type(graph).__name__)
def test_graphs_of_networkx_go_in_as_they_are(graph):
    assert list(dp.degrees(graph, epsilon=500).released) == [(40, 1), (1, 40)]


def test_directions_are_those_of_the_graph():
    assert list(dp.degrees(nx.DiGraph(STAR), epsilon=500, degree="out").released) == [(40, 1)]
    with pytest.raises(ValueError, match="no directions"):
        dp.degrees(nx.Graph(STAR), epsilon=500, degree="out")
    with pytest.raises(ValueError, match="a graph has none"):
        dp.degrees(nx.Graph(STAR), source="a", target="b", epsilon=500)


def test_graphs_of_igraph_go_in_as_they_are():
    edges = [(0, leaf) for leaf in range(1, 6)]
    assert list(dp.degrees(igraph.Graph(edges=edges), epsilon=500).released) == [(5, 1), (1, 5)]
    directed = igraph.Graph(edges=edges, directed=True)
    assert list(dp.degrees(directed, epsilon=500, degree="out").released) == [(5, 1)]
    with pytest.raises(ValueError, match="no directions"):
        dp.degrees(igraph.Graph(edges=edges), epsilon=500, degree="in")


def test_the_job_chooses_the_bound(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in STAR))
    flags = [f"--input={path}", "--source_column=a", "--target_column=b", "--epsilon=20"]
    out = tmp_path / "out"
    assert main([*flags, "--privacy_unit=node", f"--output={out}"]) == 0
    statement = json.loads((out / "privacy.json").read_text())
    assert statement["degree_bound"] in statement["choice_of_degree_bound"]["candidates"]
    assert statement["degree_bound_is"] == "chosen from the graph, at a part of epsilon"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"privacy_unit": "person"}, "edge or node"),
        ({"privacy_unit": "edge", "degree_bound": 3}, "degree_bound protects nodes"),
        ({"privacy_unit": "node", "nodes": 9}, "privacy of edges"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        dp.degrees(STAR, epsilon=1, **arguments)
