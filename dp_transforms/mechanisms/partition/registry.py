"""The registry of mechanisms for frequency lists, and the choice among them by public numbers.

To add a mechanism: a module with a subclass of ``WithinBounds``, a line in ``REGISTRY``,
tests and a paragraph of documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.decimals import Number, positive_integer, positive_rational
from dp_transforms.mechanisms.partition.exponential import (
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.mechanism import WithinBounds
from dp_transforms.mechanisms.partition_bounds import PartitionBounds

AUTO = "auto"
GEOMETRIC, FROBENIUS, EXPONENTIAL = "geometric", "frobenius", "exponential"


class Registered(NamedTuple):
    """A mechanism for frequency lists.

    Attributes:
      name: chooses it, as an argument and on the command line.
      mechanism: its class, whose ``title`` names it in statements.
      is_best: whether it is the most accurate at q = e**(-epsilon / sensitivity), if none of the
        mechanisms before it is.
    """

    name: str
    mechanism: type[WithinBounds]
    is_best: Callable[[Decay], bool]


REGISTRY = (
    Registered(GEOMETRIC, GeometricPartitionMechanism, Decay.is_at_most_one_third),
    Registered(FROBENIUS, FrobeniusMechanism, lambda _: True),
    Registered(EXPONENTIAL, IntegerPartitionMechanism, lambda _: False),
)
_BY_NAME = {one.name: one for one in REGISTRY}
NAMED_MECHANISMS = tuple(_BY_NAME)
MECHANISMS = (AUTO, *NAMED_MECHANISMS)


def partition_mechanism(
    epsilon: Number | None = None,
    sensitivity: int = 1,
    mechanism: str = AUTO,
    *,
    eta: Eta | None = None,
    bounds: PartitionBounds | None = None,
) -> WithinBounds:
    """Makes the mechanism of a name, or the most accurate one at these parameters.

    Args:
      epsilon: the privacy parameter, in natural units. Give this or eta.
      sensitivity: the most partitions that one user contributes to.
      mechanism: one of ``MECHANISMS``. "auto" is the most accurate: the geometric one from
        epsilon / sensitivity = ln 3 on, or an eta of log2(3), and the Frobenius one below.
      eta: the parameter of the weights in base 2.
      bounds: public bounds on the lists; none by default.

    Raises:
      ValueError: there is no such mechanism, or not at these parameters.

    >>> for epsilon in (1.1, 1):
    ...     print(type(partition_mechanism(epsilon)).__name__)
    GeometricPartitionMechanism
    FrobeniusMechanism
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    chosen = chosen_mechanism(epsilon, sensitivity, eta) if mechanism == AUTO else mechanism
    return _BY_NAME[chosen].mechanism(epsilon, sensitivity, eta, bounds=bounds)


def chosen_mechanism(
    epsilon: Number | None = None, sensitivity: int = 1, eta: Eta | None = None
) -> str:
    """The name of the mechanism that "auto" takes, see ``partition_mechanism``."""
    if eta is not None:
        decay = Decay(base=eta)
    elif epsilon is None:
        raise ValueError("give epsilon or eta: what a release costs has no default")
    else:
        ratio = positive_rational("epsilon", epsilon) / positive_integer("sensitivity", sensitivity)
        decay = Decay(Fraction(ratio))
    return next(one.name for one in REGISTRY if one.is_best(decay))
