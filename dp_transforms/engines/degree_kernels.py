"""Projects graphs, and releases the degrees in projections. Both engines call these kernels.

Edges are tables of distinct pairs, in one direction or in both. The column ``partition`` has their
sources, and ``user`` their targets. One worker holds all edges, since it depends on earlier edges
whether an edge is kept: see ``mechanisms.degree_projection``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pyarrow as pa

from dp_transforms.columnar.columns import PARTITION, USER, decoded
from dp_transforms.mechanisms.degree_projection import projections
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.releases import NodeDegreesSpec
from dp_transforms.releases.node_degrees import ProjectedList
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list


def order_key(secret: JobSecret) -> bytes:
    """Returns the key that fixes the order in which edges are taken."""
    return secret.key("order of edges")


def projected_degrees(
    edges: Iterable[pa.Table], degree_bounds: Iterable[int], degree: str, key: bytes
) -> dict[int, FrequencyList]:
    """Returns the degrees in projections of a graph, by the bound of each projection: PRIVATE.

    Args:
      edges: all distinct edges.
      degree_bounds: see ``degree_projection.projections``.
      degree: the kind of degree; with "undirected", an edge may be there in both directions.
      key: see ``order_key``.
    """
    pairs = itertools.chain.from_iterable(
        zip(table[PARTITION].to_pylist(), table[USER].to_pylist(), strict=True)
        for table in map(decoded, edges)
    )
    return projections(pairs, degree_bounds, degree, key)


def release_node_degrees(
    edges: Iterable[pa.Table], spec: NodeDegreesSpec, secret: JobSecret
) -> ProjectedList:
    """Chooses a bound on degrees, and releases the list of degrees in the projection to it. The
    tables have all distinct edges."""
    lists = projected_degrees(edges, spec.candidates, spec.degree, order_key(secret))
    bound = spec.choice.choose_under(spec.kept(lists), secret.tape)
    released = release_frequency_list(lists[bound], spec.list_mechanism(bound), secret)
    return spec.projected(bound, released)
