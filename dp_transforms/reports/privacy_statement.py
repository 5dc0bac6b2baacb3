"""The guarantee of a release, as the privacy.json beside it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyUnit
from dp_transforms.files.filenames import COORDINATES_FILE
from dp_transforms.mechanisms.decimals import Number, decimal_text, float_above
from dp_transforms.mechanisms.noise.user_degrees import UserDegreeMechanism
from dp_transforms.mechanisms.partition.distributions.release_distribution import (
    DISTRIBUTIONS,
    ExponentialDistribution,
    GeometricDistribution,
    ReleaseDistribution,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.specs import price_of
from dp_transforms.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.mechanisms.selection import SelectionStrategy
    from dp_transforms.specs import GroupsSpec

NEIGHBOURS = PrivacyUnit.USER.neighbours
EDGE, NODE = PrivacyUnit.EDGE.value, PrivacyUnit.NODE.value

COORDINATES_KEY = "noisy_coordinates"
_AMOUNTS, _FORMS = ("epsilon", "delta"), ("", "_exact")
_LIBRARIES = ("apache-beam", "gmpy2", "numpy", "pyarrow")


def frequency_list_statement(mechanism: PartitionMechanism, bounded_by_job: bool) -> dict[str, Any]:
    """The statement of one released frequency list. Nothing in it depends on the data. The job
    itself kept users to max_partitions_per_user, or else the caller declares that they are."""
    bound = {
        "max_partitions_per_user": mechanism.sensitivity,
        "max_partitions_per_user_is": "enforced" if bounded_by_job else "declared",
    }
    return _statement(mechanism, NEIGHBOURS, bound)


def degree_list_statement(
    mechanism: PartitionMechanism, degree: str, degree_bound: int | None
) -> dict[str, Any]:
    """The statement of one released list of degrees. Nothing in it depends on the graph. The bound
    is that of the projection, where nodes are protected; None where edges are."""
    unit = PrivacyUnit.EDGE if degree_bound is None else PrivacyUnit.NODE
    about: dict[str, Any] = {
        "privacy_unit": unit.value,
        "degree": degree,
        "self_loops": "dropped",
        "repeated_edges": "counted once",
    }
    if degree_bound is not None:
        about["degree_bound"] = degree_bound
    return _statement(mechanism, unit.neighbours, about)


def user_degrees_statement(mechanism: UserDegreeMechanism) -> dict[str, Any]:
    """The statement of how many partitions users have. Nothing in it depends on the data."""
    return {
        "mechanism": "histogram of users by their numbers of partitions, discrete Laplace noise",
        "epsilon": mechanism.epsilon_cost,
        "epsilon_exact": str(price_of(mechanism).epsilon),
        "delta": 0,
        "neighbours": NEIGHBOURS,
        "max_degree": mechanism.max_degree,
        "sensitivity": 1,
        "sensitivity_norm": "L1 distance of histograms",
        "versions": library_versions(),
    }


def grouped_lists_statement(spec: GroupsSpec) -> dict[str, Any]:
    """The statement of the lists of all users and of groups. Nothing in it depends on the data."""
    bound = {
        "max_partitions_per_user": spec.for_all.sensitivity,
        "max_partitions_per_user_is": "enforced",
        "groups_per_user_and_attribute": 1,
    }
    statement = _statement(spec.for_all, NEIGHBOURS, bound)
    whole = spec.cost
    statement |= {"epsilon": float_above(whole.epsilon), "epsilon_exact": str(whole.epsilon)}
    statement |= {"delta": float_above(whole.delta), "delta_exact": str(whole.delta)}
    statement["composition"] = "parallel within an attribute, sequential otherwise"
    statement["lists"] = [{"of": "all users", **_price(spec.for_all)}] + [
        {
            "of": "groups",
            "attribute": attribute.name,
            **_price(spec.for_group),
            "groups": "selected" if attribute.groups is None else list(attribute.groups),
        }
        for attribute in spec.attributes
    ]
    if spec.selection is not None and spec.names is not None:
        statement["selection_of_groups"] = {
            "strategy": spec.names.strategy.name,
            "epsilon": float_above(spec.selection.epsilon),
            "epsilon_exact": str(spec.selection.epsilon),
            "delta": float_above(spec.selection.delta),
            "delta_exact": str(spec.selection.delta),
        }
    # What varies with the machine comes last.
    return statement | {"versions": statement.pop("versions")}


def selection_statement(
    strategy: SelectionStrategy,
    *,
    noisy_counts: bool,
    bounded_by_job: bool,
    public_partitions: int = 0,
    public_threshold: int = 0,
    others_epsilon: Number | None = None,
) -> dict[str, Any]:
    """The statement of one selection. Nothing in it depends on the data.

    Args:
      strategy, noisy_counts: what selected the partitions, and whether they come with counts.
      bounded_by_job: see ``frequency_list_statement``.
      public_partitions, public_threshold: how many names were public before, and what their noisy
        counts had to exceed.
      others_epsilon: what the number of users of other partitions costs, if it is released.
    """
    from dp_transforms.mechanisms.selection.strategy import REPLACE
    from dp_transforms.mechanisms.selection.threshold_distribution import CONFIDENCE

    described = strategy.describe()
    replaces = described.pop("neighbours") == REPLACE
    statement: dict[str, Any] = {
        "mechanism": "partition selection",
        "strategy": described.pop("strategy"),
        **{f"{name}{form}": described.pop(f"{name}{form}") for name in _AMOUNTS for form in _FORMS},
        "neighbours": PrivacyUnit.REPLACED_USER.neighbours if replaces else NEIGHBOURS,
        "max_partitions_per_user": described.pop("max_partitions_per_user"),
        "max_partitions_per_user_is": "enforced" if bounded_by_job else "declared",
        "noisy_counts": noisy_counts,
        **described,
    }
    if noisy_counts:
        statement["noisy_counts_are_of"] = (
            "users, each in at most max_partitions_per_user partitions, chosen at random"
            if bounded_by_job
            else "users"
        )
        statement["count_intervals"] = {
            "confidence": float(CONFIDENCE),
            "of": "each count, given that its partition is named",
        }
    if public_partitions:
        statement |= {"public_partitions": public_partitions, "public_threshold": public_threshold}
    if others_epsilon is not None:
        statement["other_partitions"] = {
            "mechanism": "discrete Laplace noise on the number of users",
            "epsilon": float_above(Fraction(others_epsilon)),
            "epsilon_exact": decimal_text(Fraction(others_epsilon)),
            "sensitivity": 1,
        }
    return statement | {"versions": library_versions()}


def columns_of(fields: Sequence[pa.Field]) -> dict[str, list[str]]:
    """The names and types of the columns of partitions, as a part of the statement of names."""
    from dp_transforms.files.logical_types import logical_name

    return {
        "partition_columns": [field.name for field in fields],
        "partition_types": [logical_name(field) for field in fields],
    }


def _statement(
    mechanism: PartitionMechanism, neighbours: str, about: dict[str, Any]
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "mechanism": mechanism.title,
        "epsilon": mechanism.epsilon_cost,
        "epsilon_exact": str(price_of(mechanism).epsilon),
        "delta": mechanism.failure_probability or 0,
        "neighbours": neighbours,
        **about,
        "sensitivity": mechanism.sensitivity,
        "sensitivity_norm": "L1 distance of sorted lists",
        **_rate(mechanism),
    }
    possible = mechanism.possible_lists()
    if possible["possible_lists"] != "all":
        statement |= possible
    if mechanism.decodes:
        statement[COORDINATES_KEY] = {
            "file": COORDINATES_FILE,
            "noise": "independent in each coordinate, Pr[n] proportional to exp(-rate |n|)",
        }
    eta = mechanism.eta
    if eta is not None:
        statement["base_2"] = {"x": eta.x, "y": eta.y, "z": eta.z}
    return statement | {"versions": library_versions()}


def _price(mechanism: PartitionMechanism) -> dict[str, Any]:
    exact = str(price_of(mechanism).epsilon)
    cost = {"epsilon": mechanism.epsilon_cost, "epsilon_exact": exact}
    return cost | {"mechanism": mechanism.title, **_rate(mechanism)}


def _rate(mechanism: PartitionMechanism) -> dict[str, Any]:
    rate = {"rate": mechanism.rate}
    if mechanism.decay.base is None:
        return rate | {"rate_exact": decimal_text(mechanism.decay.rate)}
    return rate


def distribution_of_statement(statement: dict[str, Any]) -> ReleaseDistribution:
    """The distribution of the release that a privacy.json, or an entry of its lists, describes.

    A statement without a rate is of an earlier version, whose rate was epsilon / (2 sensitivity).

    Raises:
      KeyError, ValueError: it describes none.
    """
    rate = statement.get("rate", statement["epsilon"] / (2 * statement.get("sensitivity", 1)))
    distribution = DISTRIBUTIONS[statement.get("mechanism", ExponentialDistribution.title)](
        float(rate)
    )
    if "possible_lists" not in statement:
        return distribution
    if isinstance(distribution, GeometricDistribution):
        return dataclasses.replace(distribution, walled=True)
    raise ValueError("error bars are for releases that no public knowledge narrows")


def library_versions() -> dict[str, str]:
    """The versions of Python and of the libraries that a release depends on."""
    versions = {"dp-frequency-lists": VERSION, "python": platform.python_version()}
    return versions | {name: metadata.version(name) for name in _LIBRARIES}
