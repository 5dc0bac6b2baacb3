"""The cost of each mechanism, as a DpEvent of Google's dp-accounting library.

Neighbours of every event: add or remove all records of one user.

* a frequency or degree list: ``partition_event``;
* ``ExponentialMechanism``: ``BoundedRangeDpEvent``;
* partition selection, with or without noisy counts: ``ApproximateDpEvent``;
* discrete Laplace (two-sided geometric) noise: the library's ``DiscreteLaplaceDpEvent``;
* thresholded Gaussian noise: ``gaussian_threshold_event``.

dp-accounting 0.6 has no events for bounded range nor for a plain (epsilon, delta); as its contract
asks for, they are events of their own, which other accountants refuse rather than misread.
``accounting`` composes all of them.
"""

from __future__ import annotations

import math
from typing import Any

import attr
from dp_accounting import dp_event

from dp_transforms.mechanisms.integer_partition.choice import partition_mechanism
from dp_transforms.mechanisms.integer_partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism

_RANGES = {
    "epsilon": ("a finite number and not negative", lambda value: 0 <= value < math.inf),
    "pure": ("at least 0", lambda value: value >= 0),
    "delta": ("at least 0 and below 1", lambda value: 0 <= value < 1),
}


def _check(event: dp_event.DpEvent, attribute: Any, value: float) -> None:
    words, holds = _RANGES[attribute.name]
    if math.isnan(value) or not holds(value):
        raise ValueError(f"{attribute.name} must be {words}, got {value}")


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(dp_event.DpEvent):
    """Represents an epsilon-bounded-range mechanism, such as the exponential mechanism.

    For any two neighbours there is an interval of length epsilon in which the privacy loss
    ln(Pr[M(x) = o] / Pr[M(x') = o]) of every output o lies (Durfee and Rogers 2019). The interval
    contains 0, since both are probability distributions, so that such a mechanism is epsilon-DP;
    but an epsilon-DP mechanism may need an interval of twice the length. It satisfies epsilon**2 /
    8-zCDP (Cesar and Rogers 2021, "Bounding, Concentrating, and Truncating: Unifying Privacy Loss
    Composition for Data Analytics"), a quarter of what epsilon-DP alone gives.

    The mechanisms for integer partitions are. Let ||f - f'||_1 <= kappa for neighbours and q =
    e**-c. A list x has a weight of q**||x - f||_1 w(x), w not depending on f (and 1 for the
    exponential mechanism), so that

        ln(Pr_f[x] / Pr_f'[x]) = c (||x - f'||_1 - ||x - f||_1) + ln(Z_f' / Z_f),

    whose first term lies in [-c kappa, c kappa] for all x by the triangle inequality, and whose
    second does not depend on x: an interval of length 2 c kappa. The set of possible x must not
    depend on f; f may be moved between public bounds first, which brings no two lists farther
    apart. In base 2, c = eta ln 2. An epsilon-DP mechanism has a range of 2 epsilon at most, so
    2 c kappa says more where c kappa < epsilon: for the exponential mechanism alone.

    Attributes:
      epsilon: the length of the interval.
      pure: the epsilon of pure epsilon-DP, where it is known to be less. Composition uses whichever
        gives less.
    """

    epsilon: float = attr.ib(validator=_check)
    pure: float = attr.ib(default=math.inf, validator=_check)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ApproximateDpEvent(dp_event.DpEvent):
    """Represents an (epsilon, delta)-DP mechanism of which nothing else is known.

    Attributes:
      epsilon: not negative.
      delta: in [0, 1).
    """

    epsilon: float = attr.ib(validator=_check)
    delta: float = attr.ib(default=0.0, validator=_check)


def partition_event(mechanism: PartitionMechanism) -> BoundedRangeDpEvent | ApproximateDpEvent:
    """Returns the cost of a release of a frequency or degree list, and its range if it is pure."""
    if mechanism.failure_probability:
        return ApproximateDpEvent(mechanism.epsilon_cost, mechanism.failure_probability)
    return BoundedRangeDpEvent(mechanism.loss_range, mechanism.epsilon_cost)


def list_event(epsilon: float) -> BoundedRangeDpEvent | ApproximateDpEvent:
    """The cost of a release by ``partition_mechanism(epsilon)``, and its range."""
    if epsilon < FrobeniusMechanism.min_rate:
        return ApproximateDpEvent(epsilon)  # no mechanism is for less
    return partition_event(partition_mechanism(epsilon))


def gaussian_threshold_event(
    noise_multiplier: float, threshold_delta: float
) -> dp_event.ComposedDpEvent:
    """Gaussian noise on counts, of which only those above a threshold are published.

    Args:
      noise_multiplier: the standard deviation over the L2 sensitivity of the counts.
      threshold_delta: the largest probability with which one user's own partitions, in which nobody
        else is, get past the threshold. But for that event, the output depends on the noisy counts
        of partitions that both neighbours have.
    """
    return dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(noise_multiplier), ApproximateDpEvent(0.0, threshold_delta)]
    )
