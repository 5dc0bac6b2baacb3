"""Releases the degrees of graphs of networkx and igraph, or of records of edges."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from dp_transforms.errors import hiding_originals
from dp_transforms.files.frame_records import ArgumentNames, RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import callers_level, run_spec
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.degree_projection import UNDIRECTED
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.releases import ListRelease
from dp_transforms.releases.node_degrees import ProjectedList, degrees_spec
from dp_transforms.runtime.job_secret import JobSecret


@hiding_originals
def degrees(
    edges: Any,
    source: str | int = 0,
    target: str | int = 1,
    *,
    epsilon: Number,
    degree: str = "undirected",
    privacy_unit: str | None = None,
    degree_bound: int | None = None,
    nodes: int | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many nodes of a graph have each degree.

    The release is epsilon-DP for adding or removing an edge, or a node with all its edges
    (``privacy_unit``).

    Args:
      edges: a graph of networkx or igraph, or data as ``release`` takes them, with a record for
        each edge.
      source, target: the columns of an edge's two ends; by default the first two. A graph has none.
      epsilon: the cost of the release.
      degree: "undirected", "in" or "out".
      privacy_unit: "edge" or "node"; by default "edge", or "node" with a ``degree_bound``.
      degree_bound: the most edges that are kept at a node; further ones are dropped. It is public:
        choose it without looking at the graph. By default, if nodes are protected, it is chosen
        from the graph at a tenth of epsilon.
      nodes: the number of nodes, if it is public and edges are protected. A warning says if the
        release shows that there are more.
      mechanism, drop_nulls, session, secret: see ``release``, also for errors. The session's unit
        is "edge" or "node".

    >>> import dp_transforms as dp
    >>> edges = [("hub", leaf) for leaf in "abcd"]
    >>> list(dp.degrees(edges, epsilon=150).released)
    [(4, 1), (1, 4)]
    """
    spec = degrees_spec(epsilon, degree, privacy_unit, degree_bound, nodes, mechanism)
    pairs = edges_of_graph(edges, degree)
    if pairs is None:
        pairs = edges
    elif (source, target) != (0, 1):
        raise ValueError("source and target are columns of records, and a graph has none")
    called = ArgumentNames("edges", "source", "target")
    records = RecordArguments(pairs, source, target, drop_nulls, called=called)
    ((element,),), statement = run_spec(spec, session, secret, records, given=edges)
    if isinstance(element, ProjectedList):
        return ListRelease(element.released, statement | element.entries)
    release = ListRelease(element, statement)
    if nodes is not None and release.contradiction:
        warnings.warn(release.contradiction, stacklevel=callers_level())
    return release


def edges_of_graph(graph: Any, degree: str) -> Iterable[tuple[Any, Any]] | None:
    """Returns the edges of a graph as pairs of nodes; None if it is no graph of these libraries.

    Args:
      graph: a ``networkx`` graph of any kind, a view of its edges, or an ``igraph.Graph``. The
        nodes of the last one are the numbers of its vertices.
      degree: the degree to release, "undirected", "in" or "out".

    Raises:
      ValueError: the degree is "in" or "out", and the edges of the graph have no directions.
    """
    library = type(graph).__module__.partition(".")[0]
    if library not in ("networkx", "igraph") or isinstance(graph, type):
        return None
    if library == "igraph":
        directed = graph.is_directed()
        edges = graph.get_edgelist()
    elif hasattr(graph, "is_directed"):
        directed = graph.is_directed()
        edges = ((ends[0], ends[1]) for ends in graph.edges())
    else:
        # A view of edges, whose entries may have keys or data behind the two ends.
        directed = type(graph).__name__.startswith(("Out", "In"))
        edges = ((ends[0], ends[1]) for ends in graph)
    if degree != UNDIRECTED and not directed:
        raise ValueError(f"degree {degree!r} needs a directed graph: this one has no directions")
    return edges
