"""Counts the users of partitions that are not named, with noise, for both engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dp_transforms.columnar.counting import distinct_users
from dp_transforms.engines.selection_kernels import of_other_partitions
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.releases.name_statements import USERS_OF_OTHERS

if TYPE_CHECKING:
    from dp_transforms.releases import NamesSpec
    from dp_transforms.runtime.job_secret import JobSecret


def entries_of_others(users: int) -> dict[str, Any]:
    """Returns the entry of a statement for a noisy number of users."""
    return {USERS_OF_OTHERS: users}


def users_of_others(records: pa.Table, named: Sequence[pa.Table]) -> pa.Table:
    """Returns the distinct users of partitions that are in none of the tables ``named``."""
    return distinct_users(of_other_partitions(records, named))


def noisy_users(users: int, spec: NamesSpec, secret: JobSecret) -> int:
    """Returns the number of users whose partitions are not all named, with noise; at least 0."""
    noise = spec.noise_of_others
    assert noise is not None
    by = f"{identifier(spec.strategy)}, {identifier(noise)}"
    context = f"users of other partitions than of {spec.context} by {by}"
    # The noise depends on the number. If two numbers had the same noise under one secret, it would
    # cancel in their difference.
    (drawn,) = noise.sample(secret.tape(context).branch(f"of {users}"), "users", 1).tolist()
    return max(0, users + int(drawn))
