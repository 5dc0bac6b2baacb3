"""Names what the random tape of a release is for: its context, from which the tape is derived.

All numbers of a tape are independent of those of another tape if the contexts differ. So the noise
of two releases under one secret is independent iff no context is that of both. Here is the only
place where contexts of lists, degrees, surveys and bounds are made: a new kind of release calls
``context_of_list`` or ``context_of_numbers``. A context has

* the purpose, in words that no other release uses. Several lists of one release have a purpose
  each, such as the group;
* a hash of the private content, so that noise on changed data cannot cancel. It never leaves the
  job, and says nothing without the secret;
* the mechanism with all its parameters (``identifier``).

The texts never change between versions: a job that a newer version restarts would otherwise draw
other noise around the same data.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.identifier import identifier

FREQUENCY_LIST = "frequency list"
USER_DEGREES = "user degrees"
"""Of surveys too: their mechanism is another one."""
DEGREE_BOUND = "degree bound"
USERS_BEYOND = "users beyond a bound"


def context_of_list(purpose: str, frequency_list: FrequencyList, mechanism: Any) -> str:
    """Returns the context of the release of a list. It is as private as the list."""
    content = b"".join(
        array.astype("<i8").tobytes()
        for array in (frequency_list.frequencies, frequency_list.multiplicities)
    )
    return _context(purpose, content, mechanism)


def context_of_numbers(purpose: str, numbers: Sequence[int], mechanism: Any) -> str:
    """Returns the context of a release about several numbers in order, such as the cells of a
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


def _context(purpose: str, content: bytes, mechanism: Any) -> str:
    return f"{purpose} {hashlib.sha256(content).hexdigest()} by {identifier(mechanism)}"
