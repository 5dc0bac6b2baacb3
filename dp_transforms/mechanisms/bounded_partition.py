"""The integer-partition mechanism over the lists within bounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.mechanisms.partition_mechanism import Draw, PartitionMechanism
from dp_transforms.mechanisms.sampler import Sampler
from dp_transforms.mechanisms.walls import walled_blocks


@dataclass(frozen=True)
class BoundedPartitionMechanism(PartitionMechanism):
    """Releases x with probability proportional to q**||x - f||_1, over the lists within bounds.

    Privacy. The bounds are public: they do not depend on the data, or have a budget of their own.
    Then the set of possible outputs is the same for neighbours, and the argument is that of
    ``IntegerPartitionMechanism``: pure epsilon-DP for adding or removing all records of one user,
    or (2 * eta * sensitivity)-DP in base 2. The private list may lie outside the bounds.

    Args:
      bounds: the public bounds.
      epsilon: the privacy parameter, in natural units. Give this or eta.
      sensitivity: the most partitions that one user contributes to.
      eta: the parameter of the weights in base 2.

    Raises:
      ValueError: see ``PartitionMechanism``.

    Source: Ilvento, "Implementing Differentially Private Integer Partitions via the Exponential
    Mechanism", Mechanism 2.

    >>> bounds = PartitionBounds.of_total(10_000)
    >>> mechanism = BoundedPartitionMechanism(bounds=bounds, epsilon=1.0)
    >>> bounds.contain(mechanism.release(FrequencyList([1000, 300, 1], [1, 2, 5000])))
    True
    """

    bounds: PartitionBounds = field(kw_only=True)

    def possible_lists(self) -> dict[str, Any]:
        return {"possible_lists": "between public bounds", "bounds_sha256": self.bounds.digest}

    def _draw(self, frequency_list: FrequencyList) -> Draw:
        return Sampler(walled_blocks(frequency_list, self.bounds), self.decay).release
