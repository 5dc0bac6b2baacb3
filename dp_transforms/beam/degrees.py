"""Transforms that count, or release, the degrees of a graph's nodes from its edges."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.batching import FromTables, ToTables
from dp_transforms.beam.bounds import Bound, BoundAware, ReleaseTransform, refuse_counts
from dp_transforms.beam.contributions import CountDistinctUsers
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.release import ON_ONE_WORKER
from dp_transforms.beam.shuffle import ReduceByHash, on_threads
from dp_transforms.budget.budget import PrivacyUnit
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.columnar.counting import SOURCE, TARGET, neighbours
from dp_transforms.engines import degree_kernels
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.degree_projection import (
    OUT,
    UNDIRECTED,
    edge_private_sensitivity,
    known_degree,
    node_private_sensitivity,
)
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.releases.node_degrees import NodeDegreesSpec, ProjectedList
from dp_transforms.runtime.job_secret import JobSecret


class CountDegrees(BoundAware, beam.PTransform):
    """Counts the degree of each node: takes edges (source, target), returns (node, degree).

    The degrees are exact, so they are private. Self-loops and repeated edges are dropped. For the
    undirected degree (a, b) and (b, a) are the same edge. A node without an edge is left out.

    Privacy is per edge: adding or removing all records of one edge moves the sorted list of degrees
    by at most ``edge_private_sensitivity(degree)`` in L1. ``ReleaseFrequencyList`` takes this
    sensitivity from the pipeline. For the privacy of nodes see ``CountProjectedDegrees``.

    Takes tuples (source, target), rows with these fields or Arrow tables with these columns.
    Returns the same kind, with the fields partition (the node) and count.

    Args:
      degree: "undirected", "in" or "out".
      secret, num_buckets: see ``CountDistinctUsers``, with nodes for users and partitions.

    Raises:
      ValueError, TypeError: as ``BoundContributions``; or the edges have been bounded.

    >>> with beam.Pipeline() as pipeline:
    ...     edges = pipeline | beam.Create([("a", "b"), ("b", "a"), ("a", "a"), ("c", "a")])
    ...     degrees = edges | CountDegrees() | beam.combiners.ToList()
    ...     _ = degrees | beam.Map(sorted) | beam.Map(print)
    [('a', 2), ('b', 1), ('c', 1)]
    """

    def __init__(
        self,
        degree: str = UNDIRECTED,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._degree = known_degree(degree)
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, edges: beam.PCollection) -> beam.PCollection:
        refuse_windows(edges)
        _refuse_part(edges, "CountDegrees")
        return (
            edges
            | "ToTables" >> ToTables((SOURCE, TARGET))
            | "Neighbours" >> on_threads(functools.partial(neighbours, degree=self._degree))
            | "Count"
            >> CountDistinctUsers(
                already_distinct=False, secret=self._secret, num_buckets=self._num_buckets
            )
            | "FromTables" >> FromTables(edges, (PARTITION, COUNT), (SOURCE, PARTITION))
        )

    def bound(self, before: Bound) -> Bound:
        sensitivity = edge_private_sensitivity(self._degree)
        return Bound(sensitivity, counted=True, distinct=True, unit=PrivacyUnit.EDGE)

    def display_data(self) -> dict[str, Any]:
        return {"degree": self._degree}


class CountProjectedDegrees(BoundAware, beam.PTransform):
    """Counts degrees in a projection of the graph to a bounded degree, for the privacy of nodes.

    Adding or removing one node with all its edges moves the sorted list of these degrees by at most
    ``node_private_sensitivity(degree_bound, directed)`` in L1. The projection and the proof are in
    ``mechanisms.degree_projection``. One worker holds all distinct edges, in some 300 bytes each.

    Takes edges, self-loops and repeats as ``CountDegrees`` does. Returns Arrow tables for
    ``ReleaseFrequencyList``, with the column ``count`` and a row for each node that keeps an edge.
    A list that is decoded from noisy coordinates keeps to the bound too.

    Args:
      degree_bound: D, the largest degree in the projection. Public: choose it without looking at
        the graph.
      degree, num_buckets: see ``CountDegrees``, also for errors.
      secret: decides the order in which edges are taken; a fresh one by default.

    >>> with beam.Pipeline() as pipeline:
    ...     edges = pipeline | beam.Create([("hub", leaf) for leaf in "abcde"])
    ...     degrees = edges | CountProjectedDegrees(degree_bound=3)
    ...     _ = degrees | beam.Map(lambda table: print(table["count"].to_pylist()))
    [3, 1, 1, 1]
    """

    def __init__(
        self,
        degree_bound: int,
        degree: str = UNDIRECTED,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._degree = known_degree(degree)
        node_private_sensitivity(degree_bound)  # checks the bound
        self._degree_bound = degree_bound
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, edges: beam.PCollection) -> beam.PCollection:
        refuse_windows(edges)
        _refuse_part(edges, "CountProjectedDegrees")
        secret = secret_for(edges.pipeline, self._secret)
        project = functools.partial(
            _projected,
            degree_bound=self._degree_bound,
            degree=self._degree,
            key=degree_kernels.order_key(secret),
        )
        return _from_all_edges(edges, "Project", project, pa.Table, secret, self._num_buckets)

    def bound(self, before: Bound) -> Bound:
        sensitivity = node_private_sensitivity(self._degree_bound, self._degree != UNDIRECTED)
        # A degree may move by more than one, which a selection of partitions does not expect.
        return Bound(
            sensitivity,
            counted=True,
            distinct=False,
            unit=PrivacyUnit.NODE,
            largest_count=self._degree_bound,
        )

    def display_data(self) -> dict[str, Any]:
        return {"degree": self._degree, "degree_bound": self._degree_bound}


class ReleaseNodeDegrees(ReleaseTransform, beam.PTransform):
    """Releases the degrees of a graph, and protects nodes: takes edges, returns a ProjectedList.

    A part of epsilon pays for the choice of a bound on degrees from the graph.
    ``releases.node_degrees`` has the argument. One worker holds all distinct edges, in some 300
    bytes each. If you know a bound without looking at the graph, use ``CountProjectedDegrees``.

    Takes edges, self-loops and repeats as ``CountDegrees`` does.

    Args:
      epsilon: the cost of the choice and of the list together.
      degree, secret, num_buckets: see ``CountProjectedDegrees``, also for errors.
      mechanism: the mechanism of the list, see ``partition_mechanism``.

    >>> with beam.Pipeline() as pipeline:
    ...     edges = pipeline | beam.Create([("hub", leaf) for leaf in "abcde"])
    ...     projected = edges | ReleaseNodeDegrees(epsilon=2_000)
    ...     _ = projected | beam.Map(lambda made: print(list(made.released)))
    [(5, 1), (1, 5)]
    """

    def __init__(
        self,
        epsilon: Number,
        degree: str = UNDIRECTED,
        *,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._spec = NodeDegreesSpec(epsilon, degree, mechanism)
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, edges: beam.PCollection) -> beam.PCollection:
        refuse_windows(edges)
        _refuse_part(edges, "ReleaseNodeDegrees")
        secret = secret_for(edges.pipeline, self._secret)
        secret.claim(edges, "node degrees")
        release = functools.partial(_released, spec=self._spec, secret=secret)
        return _from_all_edges(edges, "Release", release, ProjectedList, secret, self._num_buckets)

    def display_data(self) -> dict[str, Any]:
        return {"epsilon": float(self._spec.cost.epsilon), "degree": self._spec.degree}


def _from_all_edges(
    edges: beam.PCollection,
    label: str,
    function: Callable[[Iterable[pa.Table]], Any],
    result_type: type,
    secret: JobSecret,
    num_buckets: int | None,
) -> beam.PCollection:
    """Returns one element: the result of a function for the tables of all distinct edges, in which
    the source of an edge is in the column ``partition``. One worker calls the function."""
    tables = (
        edges
        | "ToTables" >> ToTables((SOURCE, TARGET))
        | "Directed" >> on_threads(functools.partial(neighbours, degree=OUT))
        | "Distinct"
        >> ReduceByHash(distinct_pairs, (USER, PARTITION), secret.key("route edges"), num_buckets)
    )
    return (
        edges.pipeline
        | "Once" >> beam.Create([None], reshuffle=False)
        | label
        >> beam.Map(_result_for_all, function, beam.pvalue.AsIter(tables))
        .with_output_types(result_type)
        .with_resource_hints(**ON_ONE_WORKER)
        # Without a shuffle, later steps could be fused with this one and get its hints.
        | "Bracket" >> beam.Reshuffle()
    )


def _result_for_all(
    _: None, function: Callable[[Iterable[pa.Table]], Any], tables: Iterable[pa.Table]
) -> Any:
    # Beam passes the only element, then the function, and then the side input with the tables.
    return function(tables)


def _refuse_part(edges: beam.PCollection, transform: str) -> None:
    """Raises a ValueError for counts, and for bounded edges.

    Neighbours add or remove an edge, or a node. If each node's edges were bounded before, an edge
    that is removed would let another edge of its node in, and a node that is removed would let
    another edge in at each of its neighbours. So more would change than the sensitivity says.
    """
    if refuse_counts(edges, transform).partitions is not None:
        raise ValueError(
            f"{transform} takes all edges, but these were bounded, so that which edges are left "
            "depends on other edges: leave BoundContributions or DeclareBounded out"
        )


def _projected(edges: Iterable[pa.Table], degree_bound: int, degree: str, key: bytes) -> pa.Table:
    lists = degree_kernels.projected_degrees(edges, [degree_bound], degree, key)
    projected = lists[degree_bound]
    return pa.table({COUNT: projected.frequencies.repeat(projected.multiplicities)})


def _released(edges: Iterable[pa.Table], spec: NodeDegreesSpec, secret: JobSecret) -> ProjectedList:
    return degree_kernels.release_node_degrees(edges, spec, secret)
