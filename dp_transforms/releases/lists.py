"""Holds what all kinds of lists share: the guarantee of their mechanism, tables and coordinates."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dp_transforms.budget import PrivacyBudget
from dp_transforms.files.filenames import (
    COORDINATES_FILE,
    COORDINATES_HEADER,
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import (
    SavedRelease,
    not_as_released,
    parse_rows,
)
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.decimals import decimal_text
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, NoisyCoordinates
from dp_transforms.mechanisms.partition.distributions import (
    GeometricDistribution,
    ReleaseDistribution,
)
from dp_transforms.mechanisms.partition.frobenius import EndingRule
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import REGISTRY
from dp_transforms.releases.base import Statement, Tables, amount_entries

ALL_USERS = ""
"""The attribute and the group of the list of all users."""
COORDINATES_KEY = "noisy_coordinates"
Arms = tuple[IntArray, IntArray]
"""The noisy coordinates of rows and of columns."""
_DECODED_TITLES = {mechanism.title for mechanism in REGISTRY.values() if mechanism.decodes}
_DISTRIBUTIONS = {
    mechanism.title: mechanism.distribution_type
    for mechanism in REGISTRY.values()
    if mechanism.distribution_type is not None
}


def price_of(mechanism: PartitionMechanism) -> PrivacyBudget:
    """Returns the cost of a release. Its epsilon is exactly the one that the mechanism was given; a
    mechanism that was given base-2 parameters states its epsilon as a float."""
    if mechanism.epsilon is None:
        return PrivacyBudget(mechanism.epsilon_cost, mechanism.failure_probability)
    return PrivacyBudget(mechanism.epsilon, mechanism.failure_probability)


def list_guarantee(mechanism: PartitionMechanism, neighbours: str, about: Statement) -> Statement:
    """Returns the entries of a statement about the guarantee of a list. They include ``about``: the
    entries about its records."""
    statement: Statement = {
        "mechanism": mechanism.title,
        **amount_entries("epsilon", price_of(mechanism).epsilon),
        "delta": mechanism.failure_probability or 0,
        "neighbours": neighbours,
        **about,
        "sensitivity": mechanism.sensitivity,
        "sensitivity_norm": "L1 distance of sorted lists",
        **_rate_entries(mechanism),
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


def price_entries(mechanism: PartitionMechanism) -> Statement:
    """Returns the cost and the mechanism of one of several lists."""
    cost = amount_entries("epsilon", price_of(mechanism).epsilon)
    return cost | {"mechanism": mechanism.title, **_rate_entries(mechanism)}


def _rate_entries(mechanism: PartitionMechanism) -> Statement:
    """Returns the rate of a mechanism's weights. An exact decimal text exists only for a mechanism
    without base-2 parameters."""
    rate = {"rate": mechanism.rate}
    if mechanism.decay.base is None:
        return rate | {"rate_exact": decimal_text(mechanism.decay.rate)}
    return rate


def distribution_of_statement(statement: Statement) -> ReleaseDistribution:
    """Returns the distribution of the release that a privacy.json, or an entry of its lists,
    describes.

    Raises:
      KeyError: the statement lacks an entry.
      ValueError: there is no formula for the mechanism, or none under its public bounds.
    """
    kind = _DISTRIBUTIONS.get(statement["mechanism"])
    if kind is None:
        raise ValueError("error bars need noisy coordinates, or a mechanism with a distribution")
    distribution = kind(float(statement["rate"]))
    if "possible_lists" not in statement:
        return distribution
    if isinstance(distribution, GeometricDistribution):
        return dataclasses.replace(distribution, walled=True)
    raise ValueError("error bars are for releases that are not narrowed by public knowledge")


def is_decoded(statement: Mapping[str, Any]) -> bool:
    """Returns whether any list of a statement was released with noisy coordinates. The statement is
    a privacy.json, or the entry in it about one list."""
    lists = statement.get("lists", [statement])
    return any(entry.get("mechanism") in _DECODED_TITLES for entry in lists)


def rows_of(released: FrequencyList) -> list[tuple[int, int]]:
    """Returns the rows of a list in a file of several lists. A list without partitions has the row
    0,0, so that the file names it."""
    return list(released) or [(0, 0)]


def list_tables(lists: Iterable[ReleasedList], statement: Mapping[str, Any]) -> Tables:
    """Returns the tables of the only list: itself, and its noisy coordinates if it has them."""
    (released,) = lists
    tables = {FREQUENCIES_FILE: CsvTable(FREQUENCIES_HEADER, list(released))}
    if is_decoded(statement):
        rows = list(released.coordinates or ())
        tables[COORDINATES_FILE] = CsvTable(COORDINATES_HEADER, rows)
    return tables


def parse_lists(content: bytes, header: Sequence[str]) -> dict[tuple[str, ...], FrequencyList]:
    """Returns the lists of a file, by (attribute, group). A file without these columns has one
    list, and its key is (). Other files have the row 0,0 for a list without partitions, see
    ``rows_of``. Errors are those of ``parse_rows``."""
    lists: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    if tuple(header) == FREQUENCIES_HEADER:
        lists[()] = []
    for *label, frequency, multiplicity in parse_rows(content, header):
        rows = lists.setdefault(tuple(label), [])
        if (frequency, multiplicity) != ("0", "0"):
            rows.append((int(frequency), int(multiplicity)))
    return {label: FrequencyList(*zip(*rows, strict=True)) for label, rows in lists.items()}


def parse_coordinates(content: bytes, header: Sequence[str]) -> dict[tuple[str, ...], Arms]:
    """Returns the noisy coordinates of each list of a file, with the keys of ``parse_lists``."""
    arms_of: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for *label, arm, index, value in parse_rows(content, header):
        if arm not in (ROWS, COLUMNS):
            raise ValueError("an arm is that of rows or of columns")
        values = arms_of.setdefault(tuple(label), {ROWS: [], COLUMNS: []})[arm]
        values.append(int(value))
        if int(index) != len(values):
            raise ValueError("the indices of an arm must be 1, 2, ...")
    return {
        label: (np.array(arms[ROWS], np.int64), np.array(arms[COLUMNS], np.int64))
        for label, arms in arms_of.items()
    }


def read_list_table(
    saved: SavedRelease, file_name: str, header: Sequence[str]
) -> dict[tuple[str, ...], FrequencyList]:
    """Reads the lists of a file: see ``parse_lists``."""
    return saved.table(file_name, functools.partial(parse_lists, header=header))


def read_coordinates(saved: SavedRelease, header: Sequence[str]) -> dict[tuple[str, ...], Arms]:
    """Reads the noisy coordinates of a release's lists: see ``parse_coordinates``."""
    parse = functools.partial(parse_coordinates, header=header)
    return saved.table(COORDINATES_FILE, parse)


def read_lists(
    saved: SavedRelease, file_name: str, header: Sequence[str], coordinates_header: Sequence[str]
) -> tuple[dict[tuple[str, ...], ReleasedList], Statement]:
    """Reads the lists of a file, with their noisy coordinates if they have any. Returns them sorted
    by attribute and group, and the statement."""
    statement = saved.statement
    lists = read_list_table(saved, file_name, header)
    arms: dict[tuple[str, ...], Arms] = {}
    if is_decoded(statement):
        arms = read_coordinates(saved, coordinates_header)
    prices: dict[tuple[str | None, ...], Mapping[str, Any]] = {
        (entry.get("attribute", ALL_USERS), entry.get("group")): entry
        for entry in statement.get("lists", [statement])
    }
    released = {}
    for label, frequency_list in sorted(lists.items()):
        attribute = label[0] if label else ALL_USERS
        # An entry is about one group, or about all groups of an attribute.
        price = prices.get(label) or prices[attribute, None]
        coordinates = None
        if is_decoded(price):
            sensitivity = price.get("sensitivity", statement.get("sensitivity"))
            coordinates = checked_coordinates(saved.directory, arms.get(label), price, sensitivity)
        released[label] = ReleasedList(
            frequency_list.frequencies, frequency_list.multiplicities, None, coordinates
        )
    return released, statement


def checked_coordinates(
    directory: str, arms: Arms | None, price: Mapping[str, Any], sensitivity: int
) -> NoisyCoordinates:
    """Returns the noisy coordinates of a list, with the rate that its entry in a statement states.
    Raises an InputError if there are none, or if the rule by which drawing ends would have ended an
    arm elsewhere: then the file is not as it was released."""
    how = "rows are missing, or there are too many"
    if arms is None:
        raise not_as_released(directory, COORDINATES_FILE, how)
    coordinates = NoisyCoordinates(*arms, _decay(price), sensitivity)
    ends = EndingRule(coordinates.decay).end
    if any(ends(arm, 0) != len(arm) for arm in arms):
        raise not_as_released(directory, COORDINATES_FILE, how)
    return coordinates


def _decay(price: Mapping[str, Any]) -> Decay:
    base_2 = price.get("base_2")
    if base_2:
        return Decay(base=Eta(base_2["x"], base_2["y"], base_2["z"]))
    return Decay(Fraction(price.get("rate_exact", price["rate"])))
