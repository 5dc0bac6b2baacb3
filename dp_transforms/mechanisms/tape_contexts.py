"""Makes contexts: a context is the text from which a random tape or a key is derived.

Tapes with different contexts are independent. So the noise of two releases under one secret is
independent iff the releases share no context. The contexts of lists, degrees, surveys and bounds
are made in this module only: a new kind of release calls ``context_of_list`` or
``context_of_numbers``. The context of a tape consists of

* the purpose, in words that no other release uses. If one release contains several lists, each has
  a purpose of its own, which names its group for example;
* a hash of the private content, so that noise on changed data cannot cancel. It never leaves the
  job, and reveals nothing without the secret;
* the mechanism with all its parameters (``identifier``).

The context of a key says what the key decides, such as which pairs of a user are kept. Both engines
take it from here if they both derive the key: then their releases are equal under one secret.

The texts never change between versions. Otherwise a job that a newer version restarts would draw
other noise around the same data, or keep other records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.randomness import RandomTape

FREQUENCY_LIST = "frequency list"
USER_DEGREES = "user degrees"
"""Surveys have this purpose too. Their contexts differ in the mechanism."""
DEGREE_BOUND = "degree bound"
USERS_BEYOND = "users beyond a bound"

BOUND_CONTRIBUTIONS = "bound contributions"
"""The context of the key by which the pairs of a user are kept."""
BOUND_IN_LOOK = f"{BOUND_CONTRIBUTIONS}, look"
BOUND_IN_COUNTS = f"{BOUND_CONTRIBUTIONS}, counts"
ORDER_OF_PARTITIONS = "order of partitions"


def context_of_list(purpose: str, frequency_list: FrequencyList, mechanism: Any) -> str:
    """Returns the context of the release of a list. It is as private as the list."""
    content = b"".join(
        array.astype("<i8").tobytes()
        for array in (frequency_list.frequencies, frequency_list.multiplicities)
    )
    return _context(purpose, content, mechanism)


def context_of_numbers(purpose: str, numbers: Sequence[int], mechanism: Any) -> str:
    """Returns the context of a release about a sequence of numbers, such as the cells of a
    histogram. It is as private as the numbers."""
    return _context(purpose, json.dumps(list(numbers)).encode(), mechanism)


def purpose_of_period(name: str) -> str:
    """Returns the purpose of the list of one period."""
    return f"list of period {name!r}"


def purpose_of_attribute(label: str) -> str:
    """Returns the purpose of the list of the values of one attribute."""
    return f"list of attribute {label!r}"


def purpose_of_users(attribute: str, group: str) -> str:
    """Returns the purpose of the list of users who have one value of an attribute."""
    return f"frequency list of {attribute!r} {group!r}"


def purpose_of_group(depth: int, path: Sequence[str]) -> str:
    """Returns the purpose of the list of one group of a hierarchy."""
    return f"{purpose_of_level(depth)} {tuple(path)!r}"


def purpose_of_level(depth: int) -> str:
    """Returns the purpose of all lists of one level of a hierarchy."""
    return f"lists of level {depth} of a hierarchy"


def bound_in_round(index: int) -> str:
    """Returns the context of the key by which the pairs of a user are kept in one round, if all
    users share an order of partitions there."""
    return f"{BOUND_CONTRIBUTIONS}, round {index}"


def value_of_attribute(label: str) -> str:
    """Returns the context of the key by which a user keeps one value of an attribute."""
    return f"value of attribute {label!r}"


def route_by(column: str) -> str:
    """Returns the context of the key that brings rows with equal values in a column together."""
    return f"route {column}s"


def tape_within(purpose: str, tape_of: Callable[[str], RandomTape], context: str) -> RandomTape:
    """Returns the tape of a context within a purpose. So releases that make the same contexts get
    independent tapes: the surveys of several lists, each within the purpose of its list."""
    return tape_of(f"{purpose}, {context}")


def _context(purpose: str, content: bytes, mechanism: Any) -> str:
    return f"{purpose} {hashlib.sha256(content).hexdigest()} by {identifier(mechanism)}"
