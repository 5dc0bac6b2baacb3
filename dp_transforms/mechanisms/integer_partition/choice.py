"""Which mechanism releases a list: chosen by public numbers alone."""

from __future__ import annotations

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.eta import Eta, positive_integer
from dp_transforms.mechanisms.integer_partition.bounded import BoundedPartitionMechanism
from dp_transforms.mechanisms.integer_partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.integer_partition.geometric import GeometricPartitionMechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

AUTO = "auto"
GEOMETRIC, EXPONENTIAL = "geometric", "exponential"
NAMED_MECHANISMS = (GEOMETRIC, EXPONENTIAL)
MECHANISMS = (AUTO, *NAMED_MECHANISMS)


def partition_mechanism(
    epsilon: Number | None = None,
    sensitivity: int = 1,
    mechanism: str = AUTO,
    *,
    eta: Eta | None = None,
    bounds: PartitionBounds | None = None,
) -> PartitionMechanism:
    """The mechanism of this name, or the most accurate one at these parameters.

    Args:
      epsilon: the privacy parameter, in natural units. Give this or eta.
      sensitivity: the most partitions that one user contributes to.
      mechanism: one of ``MECHANISMS``. "auto" is the most accurate: the geometric one from
        epsilon / sensitivity = ln 3 on, and below it, or with an eta below log2(3), the
        exponential one.
      eta: the parameter of the weights in base 2.
      bounds: public bounds on the lists; none by default.

    Raises:
      ValueError: there is no such mechanism, or not at these parameters.

    >>> for epsilon in (1.1, 1):
    ...     print(type(partition_mechanism(epsilon)).__name__)
    GeometricPartitionMechanism
    IntegerPartitionMechanism
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    chosen = chosen_mechanism(epsilon, sensitivity, eta) if mechanism == AUTO else mechanism
    if chosen == GEOMETRIC:
        return GeometricPartitionMechanism(epsilon, sensitivity, eta, bounds=bounds)
    if bounds is not None:
        return BoundedPartitionMechanism(epsilon, sensitivity, eta, bounds=bounds)
    return IntegerPartitionMechanism(epsilon, sensitivity, eta)


def chosen_mechanism(
    epsilon: Number | None = None, sensitivity: int = 1, eta: Eta | None = None
) -> str:
    """The name of what "auto" takes, see ``partition_mechanism``."""
    if eta is not None:
        # The weights are given: the geometric mechanism has the same ones at a lower price.
        return GEOMETRIC if Decay(base=eta).is_at_most_one_third() else EXPONENTIAL
    if epsilon is None:
        raise ValueError("give epsilon or eta: what a release costs has no default")
    ratio = positive_rational("epsilon", epsilon) / positive_integer("sensitivity", sensitivity)
    return GEOMETRIC if Decay(ratio).is_at_most_one_third() else EXPONENTIAL
