"""Lists the mechanisms for frequency lists by name, and chooses one from public parameters.

To add a mechanism, write a module with a subclass of ``WithinBounds``, a line in ``REGISTRY``,
tests and a paragraph of documentation. Lists of these mechanisms have intervals: pages, lists of
groups, and lists of periods show them. So a mechanism releases noisy coordinates (``decodes``), or
it has a ``distribution_type``.
"""

from __future__ import annotations

import dataclasses

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decay import Eta
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import MAX_VALUE
from dp_transforms.mechanisms.partition.exponential import (
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.mechanism import WithinBounds
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

AUTO = "auto"
GEOMETRIC, FROBENIUS, EXPONENTIAL = "geometric", "frobenius", "exponential"
REGISTRY: dict[str, type[WithinBounds]] = {
    GEOMETRIC: GeometricPartitionMechanism,
    FROBENIUS: FrobeniusMechanism,
    EXPONENTIAL: IntegerPartitionMechanism,
}
NAMED_MECHANISMS = tuple(REGISTRY)
MECHANISMS = (AUTO, *NAMED_MECHANISMS)
_MOST_COUNTS = 2**40
"""More counts than any list has that is released."""


def known_mechanism(mechanism: str) -> str:
    """Returns the name of a mechanism. Raises a ValueError if it is not one of ``MECHANISMS``."""
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise ValueError(
            f"mechanism must be one of {', '.join(MECHANISMS)}, got {shown(mechanism)}"
        )
    return mechanism


def partition_mechanism(
    epsilon: Number | None = None,
    sensitivity: int = 1,
    mechanism: str = AUTO,
    *,
    eta: Eta | None = None,
    bounds: PartitionBounds | None = None,
) -> WithinBounds:
    """Returns the mechanism of a name, or the most accurate one at these parameters.

    Args:
      epsilon: the privacy parameter, in natural units. Give this or eta.
      sensitivity: the most partitions that one user contributes to.
      mechanism: one of ``MECHANISMS``. "auto" takes the most accurate one, which is the geometric
        mechanism if epsilon / sensitivity >= ln 3 or eta >= log2(3), and otherwise the Frobenius
        mechanism.
      eta: the parameter of the weights in base 2.
      bounds: public bounds on the lists; none by default.

    Raises:
      ValueError: there is no such mechanism, or it refuses these parameters.

    >>> for epsilon in (1.1, 1):
    ...     print(type(partition_mechanism(epsilon)).__name__)
    GeometricPartitionMechanism
    FrobeniusMechanism
    """
    chosen = known_mechanism(mechanism)
    if chosen == AUTO:
        chosen = chosen_mechanism(epsilon, sensitivity, eta)
    return REGISTRY[chosen](epsilon, sensitivity, eta, bounds=bounds)


def with_largest_count(mechanism: WithinBounds, largest_count: int) -> WithinBounds:
    """Returns the mechanism for lists in which no frequency exceeds a public number. Its released
    lists keep to the number if they are decoded from noisy coordinates.

    A mechanism that draws a walk is returned as it is, since a walk has no room for so many ranks.
    So is any mechanism if the number is above 2**22, too large for bounds at so many ranks.

    >>> geometric, frobenius = partition_mechanism(2), partition_mechanism(1)
    >>> with_largest_count(geometric, 5) == geometric
    True
    >>> list(with_largest_count(frobenius, 5).bounds.upper)
    [(5, 1099511627776)]
    """
    if not mechanism.decodes or largest_count > MAX_VALUE // _MOST_COUNTS:
        return mechanism
    bounds = PartitionBounds.of_runs([0], [largest_count], [_MOST_COUNTS])
    return dataclasses.replace(mechanism, bounds=bounds)


def chosen_mechanism(
    epsilon: Number | None = None, sensitivity: int = 1, eta: Eta | None = None
) -> str:
    """Returns the name of the mechanism that "auto" takes; see ``partition_mechanism``."""
    decay = FrobeniusMechanism(epsilon, sensitivity, eta).decay
    return GEOMETRIC if decay.is_at_most_one_third() else FROBENIUS
