"""Defines names of version 0.2 that will be removed in the next minor version; ``public_names``
warns of them."""

from __future__ import annotations

from dp_transforms.mechanisms.decay import Eta
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism


def MaximumTotalMechanism(
    epsilon: Number | None = None, sensitivity: int = 1, eta: Eta | None = None, *, max_total: int
) -> FrobeniusMechanism:
    """Returns the ``FrobeniusMechanism`` of these arguments, whose lists have at most ``max_total``
    users. It errs less than the class of this name in version 0.2, which drew releases until one
    had such a total.

    >>> MaximumTotalMechanism(1, max_total=1100).max_total
    1100
    """
    return FrobeniusMechanism(epsilon, sensitivity, eta, max_total=max_total)
