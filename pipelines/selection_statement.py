"""What a released selection of partitions promises, as the privacy.json beside it."""

from __future__ import annotations

from typing import Any

from dp_transforms.mechanisms.partition_selection import SelectionStrategy
from dp_transforms.mechanisms.partition_selection.strategy import REPLACE
from pipelines.privacy_statement import NEIGHBOURS, library_versions

_REPLACE_NEIGHBOURS = "replace all records of one user by another's"


def selection_statement(
    strategy: SelectionStrategy,
    *,
    noisy_counts: bool,
    bounded_by_job: bool,
    public_partitions: int = 0,
    public_threshold: int = 0,
) -> dict[str, Any]:
    """The statement of one selection. Nothing in it depends on the data.

    Args:
      strategy: what selected the partitions.
      noisy_counts: whether they come with noisy counts.
      bounded_by_job: the job itself kept users to max_partitions_per_user; otherwise the caller
        declares that they are.
      public_partitions: how many names were public before.
      public_threshold: what their noisy counts had to exceed.
    """
    described = strategy.describe()
    replaces = described.pop("neighbours") == REPLACE
    statement: dict[str, Any] = {
        "mechanism": "partition selection",
        "strategy": described.pop("strategy"),
        "epsilon": described.pop("epsilon"),
        "delta": described.pop("delta"),
        "neighbours": _REPLACE_NEIGHBOURS if replaces else NEIGHBOURS,
        "max_partitions_per_user": described.pop("max_partitions_per_user"),
        "max_partitions_per_user_is": "enforced" if bounded_by_job else "declared",
        "noisy_counts": noisy_counts,
        **described,
    }
    if public_partitions:
        statement |= {
            "public_partitions": public_partitions,
            "public_threshold": public_threshold,
        }
    return statement | {"versions": library_versions()}
