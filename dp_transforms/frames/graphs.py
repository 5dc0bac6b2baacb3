"""Takes the edges out of graphs of networkx and igraph, as pairs of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dp_transforms.mechanisms.degree_projection import UNDIRECTED


def edges_of_graph(graph: Any, degree: str) -> Iterable[tuple[Any, Any]] | None:
    """Returns the edges of a graph, or None for anything else.

    Args:
      graph: a ``networkx`` graph of any kind, its view of edges, or an ``igraph.Graph``, whose
      nodes
        are the numbers of its vertices.
      degree: the degree that is asked for.

    Raises:
      ValueError: edges into or out of nodes are asked of a graph without directions.
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
