"""States the guarantee of a release, as the privacy.json beside it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dp_transforms import __version__, specs
from dp_transforms.budget import PrivacyUnit
from dp_transforms.files.filenames import COORDINATES_FILE
from dp_transforms.mechanisms.decimals import decimal_text, float_above
from dp_transforms.mechanisms.partition.distributions import (
    DISTRIBUTIONS,
    GeometricDistribution,
    ReleaseDistribution,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.selection.rounds import WeightedStrategy
from dp_transforms.mechanisms.selection.strategy import REPLACE
from dp_transforms.mechanisms.selection.threshold_distribution import CONFIDENCE
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.specs import price_of

if TYPE_CHECKING:
    import pyarrow as pa

NEIGHBOURS = PrivacyUnit.USER.neighbours
EDGE, NODE = PrivacyUnit.EDGE.value, PrivacyUnit.NODE.value

COORDINATES_KEY = "noisy_coordinates"
_LIBRARIES = ("apache-beam", "gmpy2", "numpy", "pyarrow")


def statement_of(
    spec: specs.Spec, fields: Sequence[pa.Field] | None, bounded_by_job: bool = True
) -> dict[str, Any]:
    """Returns the statement of one release, without its budget. Of the data it depends on the names
    and types of columns alone.

    Args:
      spec: of the release; for periods the statement is about all of them.
      fields: the columns of partitions; None for counts that were made elsewhere.
      bounded_by_job: the job itself keeps users to max_partitions_per_user; otherwise the caller
        declares that they are.
    """
    match spec:
        case specs.ListSpec(mechanism=mechanism) | specs.PeriodListsSpec(of_each=mechanism):
            bound = _bound(mechanism.sensitivity, bounded_by_job)
            statement = _list_statement(mechanism, NEIGHBOURS, bound)
        case specs.DegreesSpec():
            statement, fields = _degrees_statement(spec), None
        case specs.GroupsSpec():
            statement = _groups_statement(spec)
        case specs.UserDegreesSpec():
            statement = _user_degrees_statement(spec.mechanism)
        case (specs.NamesSpec() as names) | specs.PeriodNamesSpec(names=names):
            statement = _names_statement(names, bounded_by_job)
    statement["versions"] = library_versions()
    if fields is not None:
        statement["partition_columns"] = [field.name for field in fields]
        if "strategy" in statement:
            from dp_transforms.files.logical_types import stated_type

            statement["partition_types"] = [stated_type(field) for field in fields]
    if isinstance(spec, (specs.PeriodListsSpec, specs.PeriodNamesSpec)):
        statement["periods"] = spec.about
    return statement


def _degrees_statement(spec: specs.DegreesSpec) -> dict[str, Any]:
    about: dict[str, Any] = {
        "privacy_unit": spec.unit.value,
        "degree": spec.degree,
        "self_loops": "dropped",
        "repeated_edges": "counted once",
    }
    if spec.degree_bound is not None:
        about["degree_bound"] = spec.degree_bound
    return _list_statement(spec.mechanism, spec.unit.neighbours, about)


def _user_degrees_statement(mechanism: UserDegreeMechanism) -> dict[str, Any]:
    return {
        "mechanism": "histogram of users by their numbers of partitions, discrete Laplace noise",
        **_amount("epsilon", price_of(mechanism).epsilon),
        "delta": 0,
        "neighbours": NEIGHBOURS,
        "max_degree": mechanism.max_degree,
        "sensitivity": 1,
        "sensitivity_norm": "L1 distance of histograms",
    }


def _groups_statement(spec: specs.GroupsSpec) -> dict[str, Any]:
    bound = _bound(spec.for_all.sensitivity, bounded_by_job=True)
    bound["groups_per_user_and_attribute"] = 1
    statement = _list_statement(spec.for_all, NEIGHBOURS, bound)
    whole = spec.cost
    statement |= _amount("epsilon", whole.epsilon) | _amount("delta", whole.delta)
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
            **_amount("epsilon", spec.selection.epsilon),
            **_amount("delta", spec.selection.delta),
        }
    return statement


def _names_statement(spec: specs.NamesSpec, bounded_by_job: bool) -> dict[str, Any]:
    described = spec.strategy.describe()
    replaces = described.pop("neighbours") == REPLACE
    first = ("strategy", "epsilon", "epsilon_exact", "delta", "delta_exact")
    bound = _bound(described.pop("max_partitions_per_user"), bounded_by_job)
    if isinstance(spec.strategy, WeightedStrategy) and not (
        spec.already_bounded and bounded_by_job
    ):
        bound["max_partitions_per_user_is"] = "enforced in each round"
    statement: dict[str, Any] = {
        "mechanism": "partition selection",
        **{name: described.pop(name) for name in first},
        "neighbours": PrivacyUnit.REPLACED_USER.neighbours if replaces else NEIGHBOURS,
        **bound,
        "noisy_counts": spec.noisy_counts,
        **described,
    }
    if spec.noisy_counts:
        statement["noisy_counts_are_of"] = (
            "users, each in at most max_partitions_per_user partitions, chosen at random"
            if bounded_by_job
            else "users"
        )
        statement["count_intervals"] = {
            "confidence": float(CONFIDENCE),
            "of": "each count, given that its partition is named",
        }
    if len(spec.public_partitions):
        statement["public_partitions"] = len(spec.public_partitions)
        statement["public_threshold"] = spec.public_threshold or 0
    if spec.others_epsilon is not None:
        statement["other_partitions"] = {
            "mechanism": "discrete Laplace noise on the number of users",
            **_amount("epsilon", Fraction(spec.others_epsilon)),
            "sensitivity": 1,
        }
    return statement


def _list_statement(
    mechanism: PartitionMechanism, neighbours: str, about: dict[str, Any]
) -> dict[str, Any]:
    statement: dict[str, Any] = {
        "mechanism": mechanism.title,
        **_amount("epsilon", price_of(mechanism).epsilon),
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
    return statement


def _bound(max_partitions: int, bounded_by_job: bool) -> dict[str, Any]:
    how = "enforced" if bounded_by_job else "declared"
    return {"max_partitions_per_user": max_partitions, "max_partitions_per_user_is": how}


def _price(mechanism: PartitionMechanism) -> dict[str, Any]:
    cost = _amount("epsilon", price_of(mechanism).epsilon)
    return cost | {"mechanism": mechanism.title, **_rate(mechanism)}


def _amount(name: str, value: Fraction) -> dict[str, Any]:
    """Returns entries for a part of a budget: a float not below it, and the exact decimal text."""
    return {name: float_above(value), f"{name}_exact": decimal_text(value)}


def _rate(mechanism: PartitionMechanism) -> dict[str, Any]:
    rate = {"rate": mechanism.rate}
    if mechanism.decay.base is None:
        return rate | {"rate_exact": decimal_text(mechanism.decay.rate)}
    return rate


def distribution_of_statement(statement: dict[str, Any]) -> ReleaseDistribution:
    """Returns the distribution of the release that a privacy.json, or an entry of its lists,
    describes; a KeyError or ValueError if it describes none."""
    distribution = DISTRIBUTIONS[statement["mechanism"]](float(statement["rate"]))
    if "possible_lists" not in statement:
        return distribution
    if isinstance(distribution, GeometricDistribution):
        return dataclasses.replace(distribution, walled=True)
    raise ValueError("error bars are for releases that no public knowledge narrows")


def library_versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that a release depends on."""
    versions = {"dp-frequency-lists": __version__, "python": platform.python_version()}
    return versions | {name: metadata.version(name) for name in _LIBRARIES}
