"""Names the entries of a privacy.json that both pages and releases read, and what some of them
say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ENFORCED = "enforced"
"""What a statement says of a kappa to which the job bounded users."""
DECLARED = "declared"
"""What a statement says of a kappa that the publisher declares of the data."""
ENFORCED_IN_ROUNDS = "enforced in each round"
"""What a statement says of a declared kappa if records were not bounded before the selection."""
CHOSEN_BY_LOOK = f"chosen by the look, and {ENFORCED_IN_ROUNDS}"
CHOSEN_BY_SURVEY = "chosen by the survey, and enforced"

KAPPA_IS_OF = "max_partitions_per_user_is_of"
"""The entry of a statement about periods which says that kappa is for all periods together."""
SURVEY = "survey"
"""The entry of a statement about the survey."""
OTHER_PARTITIONS = "other_partitions"
"""The entry of a statement about the cost of the number of users of partitions that are not
named."""

ESTIMATES = "estimates"
"""The entry of a statement about names with a list beside them: what is estimated from both, and
what both cost together."""


def is_enforced_in_rounds(statement: Mapping[str, Any]) -> bool:
    """Returns whether users were bounded in each round of a selection anew."""
    return ENFORCED_IN_ROUNDS in statement["max_partitions_per_user_is"]
