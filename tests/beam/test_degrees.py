from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.beam.degrees import CountDegrees, CountProjectedDegrees
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.degree_projection import (
    edge_private_sensitivity,
    project_degrees,
    project_directed_degrees,
)
from dp_transforms.runtime.job_secret import JobSecret
from tests.beam_runs import few_pipelines, of_kind, rows_of, run

SECRET = JobSecret.insecure_for_testing(11)
NODES = st.sampled_from(["ann", "bob", "cy", "dee", ""])
EDGES = st.lists(st.tuples(NODES, NODES), max_size=15)
DEGREES = st.sampled_from(["undirected", "in", "out"])


def degrees_of(edges, degree):
    directed = {(a, b) for a, b in edges if a != b}
    if degree == "undirected":
        return dict(Counter(node for edge in set(map(frozenset, directed)) for node in edge))
    return dict(Counter(edge[degree == "in"] for edge in directed))


@pytest.mark.parametrize("kind", ["tuples", "rows", "tables"])
@few_pipelines
@given(edges=EDGES, degree=DEGREES)
def test_degrees_agree_with_the_definition(kind, edges, degree):
    given_ = of_kind(kind, edges, ("source", "target"))
    degrees = rows_of(run(given_, CountDegrees(degree, secret=SECRET, num_buckets=3)))
    assert len(degrees) == len(dict(degrees))
    assert dict(degrees) == degrees_of(edges, degree)


@few_pipelines
@given(edges=EDGES, bound=st.integers(1, 4), degree=DEGREES)
def test_projected_degrees_are_those_of_the_mechanism(edges, bound, degree):
    tables = run(edges, CountProjectedDegrees(bound, degree, secret=SECRET, num_buckets=3))
    key = SECRET.key("order of edges")
    into, out_of = project_directed_degrees(edges, bound, key)
    expected = {"undirected": project_degrees(edges, bound, key), "in": into, "out": out_of}
    assert FrequencyList.from_counts(count for (count,) in rows_of(tables)) == expected[degree]


def test_arguments_are_checked_when_the_pipeline_is_built():
    for make in (CountDegrees, lambda degree: CountProjectedDegrees(2, degree)):
        with pytest.raises(ValueError, match="degree must be one of undirected, in, out, got 'up'"):
            make("up")
    with pytest.raises(ValueError, match="degree must be one of"):
        edge_private_sensitivity("both")
