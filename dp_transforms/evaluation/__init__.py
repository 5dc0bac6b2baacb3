"""PRIVATE: what is computed from the private list. For experiments and audits; never publish it."""

from __future__ import annotations

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism


def expected_l1(mechanism: PartitionMechanism, frequency_list: FrequencyList) -> float:
    """Returns the exact mean of ||x - f||_1 over a mechanism's releases x of f; as private as f.

    ``dist`` of Blocki et al. (2016) is half of it. Nothing is drawn.

    Raises:
      ValueError: the mechanism's distribution has no formula.

    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> round(expected_l1(IntegerPartitionMechanism(epsilon=1), FrequencyList([9, 1], [1, 20])), 1)
    7.3
    """
    return mechanism.distribution.expected_l1(frequency_list)
