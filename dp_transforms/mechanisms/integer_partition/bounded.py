"""The integer-partition mechanism over the lists within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition import exponential_price
from dp_transforms.mechanisms.integer_partition.mechanism import Draw, PartitionMechanism
from dp_transforms.mechanisms.laws.release_law import ReleaseLaw
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from dp_transforms.mechanisms.sampler.walls import walled_blocks

_MAX_SIZE = 2**60
"""Beside a private total of up to 2**62, bounds of this size leave every number within 2**63."""


@dataclass(frozen=True)
class WithinBounds(PartitionMechanism):
    """A mechanism over all lists, or over those between public bounds.

    Bounds are public if they do not depend on the data, or have a budget of their own. A list
    outside them is moved between them rank by rank, which brings no two lists farther apart.
    """

    bounds: PartitionBounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bounds is not None:
            check_sizes(self.bounds)

    def possible_lists(self) -> dict[str, Any]:
        if self.bounds is None:
            return super().possible_lists()
        return {"possible_lists": "between public bounds", "bounds_sha256": self.bounds.digest}

    def _blocks(self, frequency_list: FrequencyList) -> Blocks:
        """The list's runs, between the walls that the bounds are."""
        if self.bounds is None:
            return Blocks.of(frequency_list)
        return walled_blocks(frequency_list, self.bounds)


@dataclass(frozen=True)
class BoundedPartitionMechanism(WithinBounds):
    """Releases x with probability proportional to q**||x - f||_1, over the lists within bounds.

    Privacy. The bounds are public (see ``WithinBounds``). Then the set of possible outputs is the
    same for neighbours, it is closed under union and intersection of Young diagrams, and the
    argument is that of ``IntegerPartitionMechanism``: pure epsilon-DP for adding or removing all
    records of one user.

    Args:
      bounds: the public bounds.
      epsilon, sensitivity, eta: see ``PartitionMechanism``.

    Raises:
      ValueError: see ``PartitionMechanism``; or the bounds are larger than lists can be.

    Source: Ilvento, "Implementing Differentially Private Integer Partitions via the Exponential
    Mechanism", Mechanism 2.

    >>> bounds = PartitionBounds.of_total(10_000)
    >>> mechanism = BoundedPartitionMechanism(bounds=bounds, epsilon=1.0)
    >>> bounds.contain(mechanism.release(FrequencyList([1000, 300, 1], [1, 2, 5000])))
    True
    """

    bounds: PartitionBounds = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self.bounds)

    @property
    def law(self) -> ReleaseLaw:
        raise ValueError(
            "the exponential mechanism has no error bars between public bounds: leave the bounds "
            "out, or take the geometric mechanism, from epsilon / sensitivity = ln 3 on"
        )

    def _rate(self, epsilon: Fraction) -> Fraction:
        return exponential_price.rate_of(epsilon / self.sensitivity)

    def _unit_cost(self) -> Any:
        return exponential_price.unit_cost(self.decay)

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return Sampler(self._blocks(frequency_list), self.decay).release


def check_sizes(bounds: PartitionBounds) -> None:
    """Makes sure that no list between public bounds is larger than lists can be.

    Raises:
      ValueError: one could be, or these are no bounds.
    """
    if not isinstance(bounds, PartitionBounds):
        raise ValueError(f"bounds must be PartitionBounds, got {bounds!r}")
    for name, size in (
        ("the total of lower", bounds.lower.total),
        ("the number of ranks of upper", bounds.upper.distinct),
        ("unbounded_ranks", bounds.unbounded_ranks),
        ("beyond", bounds.beyond),
    ):
        if size > _MAX_SIZE:
            raise ValueError(f"bounds: {name} must be at most 2**60, got {size}")
