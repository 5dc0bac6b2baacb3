"""The cost of each mechanism, as a DpEvent of Google's dp-accounting library.

Neighbours of every event: add or remove all records of one user.

* a frequency or degree list: ``partition_event``, for noise on Frobenius coordinates the library's
  ``DiscreteLaplaceDpEvent``;
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
from fractions import Fraction
from typing import Any

import attr
from dp_accounting import dp_event

from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import partition_mechanism

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


def partition_event(mechanism: PartitionMechanism) -> dp_event.DpEvent:
    """Returns the cost of a release of a frequency or degree list.

    Noise on Frobenius coordinates costs what discrete Laplace noise of q = e**-c costs on one
    number that changes by kappa, which is less than kappa c-DP alone says from kappa = 2 on.

    Proof. What is released is a function of the noisy coordinates (``frobenius``), of which
    neighbours move any by m_1 + m_2 + ... <= kappa. A shift by m has the loss c (|n - m| - |n|), at
    most c m, for noise n. So with u = t - c m its delta at t is, for -c m <= t <= c m,

        g(u) = (1 - e**u) / (1 + q) + sum of (1 - q) / (1 + q) q**n (1 - e**(u + 2 c n))
               over 0 < n < -u / (2 c),

    in which m stands no more; above c m it is 0. Let m <= m' be two of the shifts and t >= 0. The
    loss of the first is at most c m, and delta falls in t, so that both together have at most the
    delta of the second at t - c m >= -c m': this is g(t - c m - c m'), the delta of one shift by
    m + m'. For t < 0 the same follows since both pairs of distributions are symmetric. What
    dominates one part of a product dominates the whole with it, and what dominates each step of
    an adaptive composition the composition (Zhu, Dong and Wang 2022, "Optimal accounting of
    differential privacy via characteristic function", Theorem 10), so that all shifts come
    together; and g falls, so that a shift by kappa has the largest delta. QED. It is reached by
    kappa new partitions of one user each, which move one coordinate. At kappa = 1 the loss is c or
    -c, as that of randomised response: no accounting can say less than for any epsilon-DP.
    """
    if mechanism.failure_probability:
        return ApproximateDpEvent(mechanism.epsilon_cost, mechanism.failure_probability)
    if isinstance(mechanism, FrobeniusMechanism):
        sensitivity = mechanism.sensitivity
        decay = mechanism.epsilon_cost / sensitivity
        # Less noise costs more: geometric noise of a larger q is that of a smaller q, and some.
        if Fraction(decay) * sensitivity < Fraction(mechanism.epsilon_cost):
            decay = math.nextafter(decay, math.inf)
        return dp_event.DiscreteLaplaceDpEvent(decay, sensitivity)
    return BoundedRangeDpEvent(mechanism.loss_range, mechanism.epsilon_cost)


def list_event(epsilon: float) -> dp_event.DpEvent:
    """Returns the cost of a release by ``partition_mechanism(epsilon)``."""
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
