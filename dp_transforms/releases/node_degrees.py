"""Releases how many nodes of a graph have each degree, with a bound on degrees that is chosen from
the graph.

Privacy. Neighbouring graphs differ by one node with all its edges, and it may have any number of
them. The choice of the bound D costs epsilon_1 (``mechanisms.degree_bound_choice``). For each D,
the list of degrees in the projection to D has sensitivity 2 D, or 3 D for in- and out-degrees
(``degree_projection``), and costs epsilon_2. Besides the graph, the list depends on D, which is the
output of the choice, and on public values alone. By adaptive sequential composition both together
cost epsilon_1 + epsilon_2.

The list is about the projected graph. A projection only takes edges away, so a node's projected
degree is at most its degree. So for every t, the whole graph has at least as many nodes with t or
more edges as the list says. No upper end can hold for the whole graph, since one node may have any
number of edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import FREQUENCIES_FILE
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.degree_bound_choice import DegreeBoundMechanism
from dp_transforms.mechanisms.degree_projection import (
    UNDIRECTED,
    kept_edges,
    known_degree,
    node_private_sensitivity,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.postprocessing.survey_plan import SQUARE, expected_noise
from dp_transforms.releases.base import (
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
)
from dp_transforms.releases.degrees import (
    NODES_ARE_FOR_EDGES,
    DegreesSpec,
    chooses_degree_bound,
    degree_entries,
    projected_mechanism,
)
from dp_transforms.releases.lists import list_guarantee, list_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine

CHOICE_SHARE = Fraction(1, 10)
"""The choice gets this part of epsilon. With a twentieth, its errors would cost more than the list
would gain."""
SMALLEST_BOUND, LARGEST_BOUND = 2, 2**20
LEAST_NODE_RATE = Fraction(1, 2048)
"""The least epsilon / (2 D) of a list. Below it, noise drowns every graph that one worker can
hold."""


class ProjectedList(NamedTuple):
    """A list of projected degrees, as an engine makes it.

    Attributes:
      released: the list.
      entries: the part of the statement that follows from the chosen bound.
    """

    released: ReleasedList
    entries: Statement


def projected_tables(released: Iterable[ProjectedList], statement: Statement) -> Tables:
    """Returns the tables of the only element: the list, and its noisy coordinates."""
    return list_tables([projected.released for projected in released], statement)


def projected_entries(released: Iterable[ProjectedList]) -> Statement:
    """Returns the part of the statement that follows from the chosen bound."""
    (projected,) = released
    return projected.entries


@dataclass(frozen=True)
class NodeDegreesSpec(ReleaseSpec):
    """Specifies a list of degrees that protects nodes, with a bound that is chosen from the graph.

    Attributes:
      epsilon: the cost of the choice and of the list together.
      degree: "undirected", "in" or "out".
      mechanism: of the list, see ``partition_mechanism``.

    Raises:
      ValueError: an argument is out of range, or the mechanism is unsuitable at a bound that may be
        chosen.
    """

    tables = ReleasedTables(FREQUENCIES_FILE, projected_tables, projected_entries)

    epsilon: Number
    degree: str = UNDIRECTED
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        known_degree(self.degree)
        positive_rational("epsilon", self.epsilon)
        for bound in self.candidates:
            self.list_mechanism(bound)
        _ = self.choice

    @cached_property
    def _parts(self) -> tuple[Fraction, Fraction]:
        """Returns the epsilons of the choice and of the list."""
        whole = positive_rational("epsilon", self.epsilon)
        return whole * CHOICE_SHARE, whole * (1 - CHOICE_SHARE)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Returns the bounds that may be chosen. They are powers of two, and public."""
        most = self._parts[1] / (2 * LEAST_NODE_RATE)
        largest = min(max(math.floor(most), SMALLEST_BOUND), LARGEST_BOUND)
        powers = range(1, largest.bit_length())
        return tuple(2**power for power in powers)

    @cached_property
    def choice(self) -> DegreeBoundMechanism:
        """Returns the mechanism that chooses the bound."""
        return DegreeBoundMechanism(
            self._parts[0],
            self.candidates,
            tuple(map(self._expected_noise, self.candidates)),
            self.degree != UNDIRECTED,
        )

    def _expected_noise(self, degree_bound: int) -> int:
        """Returns the error that noise is expected to make, in edges. The number of nodes is
        private and is not used: the Durfee square of a list of degrees up to D is at most D, and
        near D if D is a good choice."""
        rate = float(self._parts[1] / self._sensitivity(degree_bound))
        return math.ceil(expected_noise(rate, (degree_bound / SQUARE) ** 2))

    def _sensitivity(self, degree_bound: int) -> int:
        return node_private_sensitivity(degree_bound, self.degree != UNDIRECTED)

    def list_mechanism(self, degree_bound: int) -> PartitionMechanism:
        """Returns the mechanism of the list at a bound."""
        return projected_mechanism(self._parts[1], degree_bound, self.degree, self.mechanism)

    def kept(self, lists: Mapping[int, FrequencyList]) -> dict[int, int]:
        """Returns the number of edges in each projection, by the bound of the projection:
        PRIVATE."""
        return {bound: kept_edges(degrees, self.degree) for bound, degrees in lists.items()}

    def projected(self, degree_bound: int, released: ReleasedList) -> ProjectedList:
        """Returns what an engine has made, with the entries of the statement that follow."""
        about = degree_entries(PrivacyUnit.NODE, self.degree) | {
            "degree_bound": degree_bound,
            "degree_bound_is": "chosen from the graph, at a part of epsilon",
        }
        mechanism = self.list_mechanism(degree_bound)
        entries = list_guarantee(mechanism, PrivacyUnit.NODE.neighbours, about)
        whole = amount_entries("epsilon", PrivacyBudget(self.epsilon).epsilon)
        return ProjectedList(released, entries | whole)

    @property
    def requests(self) -> tuple[Request, ...]:
        choice, of_list = self._parts
        return (
            Request("bound on degrees", Cost(PrivacyBudget(choice)), PrivacyUnit.NODE),
            Request(
                f"{self.degree} degrees, node-private",
                Cost(PrivacyBudget(of_list)),
                PrivacyUnit.NODE,
            ),
        )

    def release(self, engine: Engine) -> Collections:
        return engine.node_degrees(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        """Returns the part of the statement that does not depend on the chosen bound."""
        choice, of_list = self._parts
        return {
            "choice_of_degree_bound": {
                **amount_entries("epsilon", choice),
                "candidates": list(self.candidates),
                "by": "edges kept and expected noise: the generalized exponential mechanism's "
                "scores, with discrete Laplace noise",
            },
            "list": amount_entries("epsilon", of_list),
        }

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        """Returns no entries, since the ends of edges are not partitions."""
        return {}


def degrees_spec(
    epsilon: Number,
    degree: str,
    privacy_unit: str | None,
    degree_bound: int | None,
    nodes: int | None,
    mechanism: str,
) -> DegreesSpec | NodeDegreesSpec:
    """Returns the specification of a list of degrees that protects edges or nodes. Arguments and
    errors are those of ``frames.graphs.degrees``."""
    if not chooses_degree_bound(privacy_unit, degree_bound):
        return DegreesSpec(epsilon, degree, degree_bound, nodes, mechanism)
    if nodes is not None:
        raise ValueError(NODES_ARE_FOR_EDGES)
    return NodeDegreesSpec(epsilon, degree, mechanism)
