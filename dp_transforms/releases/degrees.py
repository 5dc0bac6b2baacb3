"""Releases how many nodes of a graph have each degree, as a ``ListRelease`` about nodes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import FREQUENCIES_FILE
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.degree_projection import (
    UNDIRECTED,
    edge_private_sensitivity,
    node_private_sensitivity,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import (
    AUTO,
    partition_mechanism,
    with_largest_count,
)
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.releases.base import (
    ReleasedTables,
    ReleaseSpec,
    Statement,
    set_positive_integers,
)
from dp_transforms.releases.lists import list_guarantee, list_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine


NODES_ARE_FOR_EDGES = "nodes is for the privacy of edges: a node more changes their number"


def chooses_degree_bound(privacy_unit: object, degree_bound: int | None) -> bool:
    """Returns whether a release of degrees chooses the bound on degrees from the graph.

    Args:
      privacy_unit: "edge" or "node"; None is "edge", or "node" with a bound.
      degree_bound: the declared bound, if there is one.

    Raises:
      ValueError: there is no such unit, or a bound is declared for the privacy of edges.
    """
    units = PrivacyUnit.EDGE.value, PrivacyUnit.NODE.value
    is_unit = isinstance(privacy_unit, str) and privacy_unit in units
    if privacy_unit is not None and not is_unit:
        raise ValueError(f"privacy_unit must be edge or node, got {shown(privacy_unit)}")
    if privacy_unit == PrivacyUnit.EDGE.value and degree_bound is not None:
        raise ValueError("degree_bound protects nodes: leave it out, or privacy_unit")
    return privacy_unit == PrivacyUnit.NODE.value and degree_bound is None


def degree_entries(unit: PrivacyUnit, degree: str) -> Statement:
    """Returns the entries of a statement about the degrees that are counted."""
    return {
        "privacy_unit": unit.value,
        "degree": degree,
        "self_loops": "dropped",
        "repeated_edges": "counted once",
    }


def projected_mechanism(
    epsilon: Number, degree_bound: int, degree: str, name: str
) -> PartitionMechanism:
    """Returns the mechanism of a list of projected degrees. Their bound, ``degree_bound``, is
    public once the graph is projected to it, and so the mechanism may use it."""
    sensitivity = node_private_sensitivity(degree_bound, degree != UNDIRECTED)
    return with_largest_count(partition_mechanism(epsilon, sensitivity, name), degree_bound)


@dataclass(frozen=True)
class DegreesSpec(ReleaseSpec):
    """Specifies a list of degrees: see ``CountDegrees`` and ``CountProjectedDegrees``.

    Attributes:
      epsilon: the cost.
      degree: "undirected", "in" or "out".
      degree_bound: if it is given, nodes are protected, and degrees are projected to it. Otherwise
        edges are protected.
      nodes: the number of nodes, if it is public. The released list then has no more, at no cost.
      mechanism_name: see ``partition_mechanism``.

    Raises:
      ValueError: an argument is out of range.
    """

    tables = ReleasedTables(FREQUENCIES_FILE, list_tables)

    epsilon: Number
    degree: str = UNDIRECTED
    degree_bound: int | None = None
    nodes: int | None = None
    mechanism_name: str = AUTO

    def __post_init__(self) -> None:
        set_positive_integers(self, "degree_bound", "nodes")
        if self.degree_bound is not None and self.nodes is not None:
            raise ValueError(NODES_ARE_FOR_EDGES)
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> PartitionMechanism:
        if self.degree_bound is not None:
            return projected_mechanism(
                self.epsilon, self.degree_bound, self.degree, self.mechanism_name
            )
        sensitivity, bounds = edge_private_sensitivity(self.degree), None
        if self.nodes is not None:
            # Without self-loops and repeated edges a degree is at most the number of other nodes.
            bounds = PartitionBounds.of_runs([0], [self.nodes - 1], [self.nodes])
        return partition_mechanism(self.epsilon, sensitivity, self.mechanism_name, bounds=bounds)

    @property
    def unit(self) -> PrivacyUnit:
        """Returns what is protected: nodes or edges."""
        return PrivacyUnit.EDGE if self.degree_bound is None else PrivacyUnit.NODE

    @property
    def requests(self) -> tuple[Request, ...]:
        cost = Cost(PrivacyBudget(self.epsilon), self.mechanism.loss_range)
        return (Request(f"{self.degree} degrees, {self.unit.value}-private", cost, self.unit),)

    def release(self, engine: Engine) -> Collections:
        return engine.degree_list(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        about = degree_entries(self.unit, self.degree)
        if self.degree_bound is not None:
            about["degree_bound"] = self.degree_bound
        if self.nodes is not None:
            about["nodes"] = self.nodes
        return list_guarantee(self.mechanism, self.unit.neighbours, about)

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        """Returns no entries, since the ends of edges are not partitions."""
        return {}
