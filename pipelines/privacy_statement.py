"""What a release promises, as the privacy.json beside it."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.grouped_lists import ReleaseGroupedLists
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition_mechanism import PartitionMechanism
from dp_transforms.version import VERSION

NEIGHBOURS = "add or remove all records of one user"
EDGE, NODE = "edge", "node"

_EDGE_NEIGHBOURS = "add or remove all records of one edge"
_NODE_NEIGHBOURS = "add or remove one node with all its edges"

_LIBRARIES = ("apache-beam", "gmpy2", "numpy", "pyarrow")


def frequency_list_statement(mechanism: PartitionMechanism, bounded_by_job: bool) -> dict[str, Any]:
    """The statement of one released frequency list. Nothing in it depends on the data.

    Args:
      mechanism: what released it.
      bounded_by_job: the job itself kept users to max_partitions_per_user; otherwise the caller
        declares that they are.
    """
    bound = {
        "max_partitions_per_user": mechanism.sensitivity,
        "max_partitions_per_user_is": "enforced" if bounded_by_job else "declared",
    }
    return _statement(mechanism, NEIGHBOURS, bound)


def degree_list_statement(
    mechanism: IntegerPartitionMechanism, degree: str, degree_bound: int | None
) -> dict[str, Any]:
    """The statement of one released list of degrees. Nothing in it depends on the graph.

    Args:
      mechanism: what released it.
      degree: which degree of a node.
      degree_bound: of the projection, where nodes are protected; None where edges are.
    """
    about: dict[str, Any] = {
        "privacy_unit": EDGE if degree_bound is None else NODE,
        "degree": degree,
        "self_loops": "dropped",
        "repeated_edges": "counted once",
    }
    if degree_bound is None:
        return _statement(mechanism, _EDGE_NEIGHBOURS, about)
    return _statement(mechanism, _NODE_NEIGHBOURS, about | {"degree_bound": degree_bound})


def grouped_lists_statement(release: ReleaseGroupedLists) -> dict[str, Any]:
    """The statement of the lists of all users and of groups. Nothing in it depends on the data."""
    bound = {
        "max_partitions_per_user": release.for_all.sensitivity,
        "max_partitions_per_user_is": "enforced",
        "groups_per_user_and_attribute": 1,
    }
    statement = _statement(release.for_all, NEIGHBOURS, bound)
    whole = sum(release.costs.values(), PrivacyBudget(0))
    statement |= {"epsilon": float(whole.epsilon), "delta": float(whole.delta)}
    statement["composition"] = "parallel within an attribute, sequential otherwise"
    statement["lists"] = [{"of": "all users", "epsilon": release.for_all.epsilon_cost}] + [
        {
            "of": "groups",
            "attribute": attribute.name,
            "epsilon": release.for_group.epsilon_cost,
            "groups": "selected" if attribute.groups is None else list(attribute.groups),
        }
        for attribute in release.attributes
    ]
    if release.selection is not None and release.strategy is not None:
        statement["selection_of_groups"] = {
            "strategy": release.strategy.name,
            "epsilon": float(release.selection.epsilon),
            "delta": float(release.selection.delta),
        }
    # What varies with the machine comes last.
    return statement | {"versions": statement.pop("versions")}


def _statement(
    mechanism: PartitionMechanism, neighbours: str, about: dict[str, Any]
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "mechanism": "exponential mechanism for integer partitions",
        "epsilon": mechanism.epsilon_cost,
        "delta": mechanism.failure_probability or 0,
        "neighbours": neighbours,
        **about,
        "sensitivity": mechanism.sensitivity,
        "sensitivity_norm": "L1 distance of sorted lists",
    }
    possible = mechanism.possible_lists()
    if possible["possible_lists"] != "all":
        statement |= possible
    eta = mechanism.eta
    if eta is not None:
        statement["base_2"] = {"x": eta.x, "y": eta.y, "z": eta.z}
    return statement | {"versions": library_versions()}


def library_versions() -> dict[str, str]:
    """The versions of Python and of the libraries that a release depends on."""
    versions = {"dp-frequency-lists": VERSION, "python": platform.python_version()}
    return versions | {name: metadata.version(name) for name in _LIBRARIES}
