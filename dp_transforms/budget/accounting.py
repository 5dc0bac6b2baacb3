"""Describes a mechanism's cost as a DpEvent of Google's dp-accounting library, and composes costs.

All bounds hold for mechanisms that may be chosen after seeing earlier outputs, while their privacy
parameters are fixed in advance (if not, see ``ledger``). The smallest bound holds too, since public
numbers alone decide which one it is.

| method | theorem |
| --- | --- |
| basic | epsilons and deltas add up |
| rdp | the exact Renyi divergences of the worst case add up, order by order |
| pld | privacy-loss distributions of the worst case convolve |

Neighbours of every event add or remove all records of one user. The events are

* ``partition_event`` for a frequency or degree list;
* ``BoundedRangeDpEvent`` for ``ExponentialMechanism``;
* ``ApproximateDpEvent`` for partition selection, with or without noisy counts;
* the library's ``DiscreteLaplaceDpEvent`` for discrete Laplace (two-sided geometric) noise;
* ``gaussian_threshold_event`` for thresholded Gaussian noise.

dp-accounting 0.6 has no events for bounded range nor for a plain (epsilon, delta). Our own two are
refused, rather than misread, by other accountants.

An (epsilon, delta)-DP mechanism is one that fails, and hides nothing, with probability delta and
else loses at most epsilon (Kairouz, Oh and Viswanath 2015). So the rdp method sets the failures
aside: with delta' for composition the total is 1 - (1 - delta') * prod(1 - delta_i). A divergence
is at most the order times the rho of zCDP, so that this is never above the bound of zCDP.

Bounds are double-precision numbers. The library rounds privacy losses to the safe side, but
convolves them by Fourier transform, with errors near 1e-15 in delta: so its distributions are asked
for delta - 1e-12, and not at all below that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event, rdp
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from dp_transforms.budget.budget import PrivacyBudget
from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import partition_mechanism

_ORDERS = 1 + np.geomspace(0.02, 1e7, 600)
"""Renyi orders are dense enough that the best is within 0.1% of the infimum over all orders."""

_GRID_POINTS = 10_000  # Points of the privacy-loss grid in the sum of all losses, or more.
_MOST_POINTS = 1 << 20  # Composition takes about a second.

_FOURIER_ERROR = 1e-12
"""This exceeds the error in delta of a composition of privacy-loss distributions."""

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
    contains 0, so that such a mechanism is epsilon-DP; an epsilon-DP mechanism may need one of
    twice the length. It satisfies epsilon**2 / 8-zCDP (Cesar and Rogers 2021, "Bounding,
    Concentrating, and Truncating: Unifying Privacy Loss Composition for Data Analytics"), a quarter
    of what epsilon-DP alone gives.

    Attributes:
      epsilon: the length of the interval.
      pure: the epsilon of pure epsilon-DP, where it is known to be less.

    Mechanisms for integer partitions have a bounded range. Proof. Let ||f - f'||_1 <= kappa for
    neighbours and q = e**-c. A list x has a weight of q**||x - f||_1 w(x), where w does not depend
    on f (and is 1 for the exponential mechanism), so that

        ln(Pr_f[x] / Pr_f'[x]) = c (||x - f'||_1 - ||x - f||_1) + ln(Z_f' / Z_f),

    whose first term lies in [-c kappa, c kappa] for all x by the triangle inequality, and whose
    second does not depend on x: an interval of length 2 c kappa. The set of possible x must not
    depend on f; f may be moved between public bounds first, which brings no two lists farther
    apart. In base 2, c = eta ln 2. QED. An epsilon-DP mechanism has a range of 2 epsilon at most,
    so 2 c kappa says more where c kappa < epsilon: for the exponential mechanism alone.
    """

    epsilon: float = attr.ib(validator=_check)
    pure: float = attr.ib(default=math.inf, validator=_check)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ApproximateDpEvent(dp_event.DpEvent):
    """Represents an (epsilon, delta)-DP mechanism without further known properties."""

    epsilon: float = attr.ib(validator=_check)
    delta: float = attr.ib(default=0.0, validator=_check)


def partition_event(mechanism: PartitionMechanism) -> dp_event.DpEvent:
    """Returns the cost of a release of a frequency or degree list.

    Noise on Frobenius coordinates costs as much as discrete Laplace noise of q = e**-c on one
    number that changes by kappa, which from kappa = 2 on is less than the cost of (kappa c)-DP.

    Proof. The release is a function of the noisy coordinates (``frobenius``), whose true values
    differ between neighbours by m_1, m_2, ..., at most kappa in sum. A shift by m has the loss
    c (|n - m| - |n|), at most c m, for noise n. So with u = t - c m its delta at t is, for
    -c m <= t <= c m,

        g(u) = (1 - e**u) / (1 + q) + sum of (1 - q) / (1 + q) q**n (1 - e**(u + 2 c n))
               over 0 < n < -u / (2 c),

    which no longer contains m; above c m it is 0. Let m <= m' be two shifts and t >= 0. The loss of
    the first is at most c m, and delta falls in t, so that both together have at most the delta of
    the second at t - c m >= -c m': this is g(t - c m - c m'), the delta of one shift by m + m'. For
    t < 0 the same follows since both pairs of distributions are symmetric. A pair that dominates
    one factor of a product dominates the product in its place, and pairs that dominate each step of
    an adaptive composition dominate the composition (Zhu, Dong and Wang 2022, "Optimal accounting
    of differential privacy via characteristic function", Theorem 10). So all shifts join into one;
    and g falls, so that a shift by kappa has the largest delta. QED.

    The bound is reached by kappa new partitions of one user each, which move one coordinate. At
    kappa = 1 the loss is c or -c, as for randomised response: no accounting is tighter than that of
    pure epsilon-DP.
    """
    if mechanism.failure_probability:
        return ApproximateDpEvent(mechanism.epsilon_cost, mechanism.failure_probability)
    if isinstance(mechanism, FrobeniusMechanism):
        sensitivity = mechanism.sensitivity
        decay = mechanism.epsilon_cost / sensitivity
        # Less noise costs more: noise of a larger q is that of a smaller q plus independent noise.
        if Fraction(decay) * sensitivity < Fraction(mechanism.epsilon_cost):
            decay = math.nextafter(decay, math.inf)
        return dp_event.DiscreteLaplaceDpEvent(decay, sensitivity)
    return BoundedRangeDpEvent(mechanism.loss_range, mechanism.epsilon_cost)


def list_event(epsilon: float) -> dp_event.DpEvent:
    """Returns the cost of a release by ``partition_mechanism(epsilon)``."""
    if epsilon < FrobeniusMechanism.min_rate:
        return ApproximateDpEvent(epsilon)  # no mechanism takes less
    return partition_event(partition_mechanism(epsilon))


def gaussian_threshold_event(
    noise_multiplier: float, threshold_delta: float
) -> dp_event.ComposedDpEvent:
    """Returns the cost of publishing counts with Gaussian noise, if they exceed a threshold.

    Args:
      noise_multiplier: the noise's standard deviation, divided by the L2 sensitivity of the counts.
      threshold_delta: the largest probability that a partition of only one user exceeds the
        threshold. Otherwise the output depends on partitions of both neighbours alone.
    """
    return dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(noise_multiplier), ApproximateDpEvent(0.0, threshold_delta)]
    )


@dataclass(frozen=True)
class Composition:
    """A composition bounds the epsilon of several mechanisms together.

    Attributes:
      epsilon: the smallest of ``by_method``.
      delta: as asked for.
      method: the name of the method that gives epsilon.
      by_method: the epsilon of each method that applies, infinite if it cannot reach this delta.
    """

    epsilon: float
    delta: float
    method: str
    by_method: Mapping[str, float]


def compose(events: Iterable[dp_event.DpEvent], delta: float = 0.0) -> Composition:
    """Bounds the cost of all events together, by the method of this module that proves the smallest
    epsilon for them.

    Args:
      events: of this module, or the library's Gaussian, Laplace, discrete Laplace and zCDP events;
        also its ComposedDpEvent and SelfComposedDpEvent of such events.
      delta: of the whole composition, at least the mechanisms' own deltas together.

    Raises:
      ValueError: an event is of another kind or has a parameter out of range, delta is not in
        [0, 1), or no method reaches delta.

    >>> lists = [dp_event.SelfComposedDpEvent(BoundedRangeDpEvent(0.1), 23)]
    >>> total = compose(lists, delta=1e-6)
    >>> total.method, round(total.epsilon, 3), round(total.by_method["basic"], 3)
    ('rdp', 1.06, 2.3)
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    parts = [part for event in events for part in _parts(event, 1)]
    bounds = {"basic": _basic(parts, delta), "rdp": _rdp(parts, delta), "pld": _pld(parts, delta)}
    by_method = {name: epsilon for name, epsilon in bounds.items() if epsilon is not None}
    method = min(by_method, key=by_method.__getitem__)
    if by_method[method] == math.inf:
        own = -math.expm1(sum(part.count * math.log1p(-part.delta) for part in parts))
        raise ValueError(
            f"delta={delta} cannot be reached: the mechanisms' own deltas come to {own:.6g}, and "
            "mechanisms that are not pure need some of their own"
        )
    return Composition(by_method[method], delta, method, by_method)


def largest_epsilon(
    count: int, budget: PrivacyBudget, event: Callable[[float], dp_event.DpEvent] = list_event
) -> float:
    """Returns the largest epsilon, within a millionth, of ``count`` equal mechanisms in a budget.

    Args:
      count: the number of mechanisms on the same users.
      budget: for all of them together.
      event: maps an epsilon to the event of an epsilon-DP mechanism; by default that of a frequency
        list by the default mechanism at sensitivity 1.

    Raises:
      ValueError: count is not positive.

    >>> round(largest_epsilon(23, PrivacyBudget(1, 1e-6)), 3), round(1 / 23, 3)
    (0.053, 0.043)
    """
    if count < 1:
        raise ValueError(f"count must be positive, got {count}")
    total, delta = float(budget.epsilon), float(budget.delta)

    def fits(epsilon: float) -> bool:
        composed = compose([dp_event.SelfComposedDpEvent(event(epsilon), count)], delta)
        return composed.epsilon <= total

    # Basic composition admits low, and one mechanism may not spend more than high.
    low, high = total / count * (1 - 1e-9), total
    if fits(high):
        return high
    while high - low > 1e-6 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Part:
    """A part is ``count`` applications of a mechanism that fails with probability delta."""

    count: int
    # Unless it fails, it is rho-zCDP, has this divergence at each order, and is epsilon-DP.
    rho: float
    renyi: Callable[[FloatArray], FloatArray]
    # Its privacy-loss distribution on a grid of an interval, failures included; None if unknown.
    loss: Callable[..., PrivacyLossDistribution] | None = None
    epsilon: float | None = None
    delta: float = 0.0


def _parts(event: dp_event.DpEvent, count: int) -> Iterator[_Part]:
    match event:
        case dp_event.NoOpDpEvent() | dp_event.SelfComposedDpEvent(count=0):
            return
        case dp_event.SelfComposedDpEvent():
            yield from _parts(event.event, count * positive_integer("count", event.count))
        case dp_event.ComposedDpEvent():
            for inner in event.events:
                yield from _parts(inner, count)
        case BoundedRangeDpEvent(epsilon=length, pure=pure):
            part = _pure_part(count, min(pure, length))
            yield replace(
                part,
                rho=min(length**2 / 8, part.rho),
                renyi=lambda orders: np.minimum(
                    bounded_range_divergence(length, orders), part.renyi(orders)
                ),
            )
        case ApproximateDpEvent(epsilon=epsilon, delta=delta):
            yield _pure_part(count, epsilon, delta)
        case dp_event.LaplaceDpEvent(noise_multiplier=noise) if 0 < noise < math.inf:
            loss = functools.partial(losses.from_laplace_mechanism, noise)
            yield replace(_pure_part(count, 1 / noise), loss=loss)
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=decay, sensitivity=sensitivity) if (
            0 < decay < math.inf and sensitivity % 1 == 0 <= sensitivity
        ):
            loss = functools.partial(losses.from_discrete_laplace_mechanism, decay, sensitivity)
            yield replace(_pure_part(count, decay * sensitivity), loss=loss)
        case dp_event.GaussianDpEvent(noise_multiplier=noise) if 0 < noise < math.inf:
            rho = noise**-2 / 2
            loss = functools.partial(losses.from_gaussian_mechanism, noise)
            yield _Part(count, rho, functools.partial(np.multiply, rho), loss)
        case dp_event.ZCDpEvent(rho=rho, xi=0.0) if rho >= 0:
            yield _Part(count, rho, functools.partial(np.multiply, rho))
        case _:
            raise ValueError(
                "events must be of a kind in dp_transforms.budget, with noise that is positive and "
                f"finite, got {event}"
            )


def _pure_part(count: int, epsilon: float, delta: float = 0.0) -> _Part:
    """Returns the part of a mechanism that is known to be epsilon-DP unless it fails."""
    renyi = functools.partial(pure_divergence, epsilon)
    parameters = common.DifferentialPrivacyParameters(epsilon, delta)
    # The library computes e**epsilon in floats.
    loss = functools.partial(losses.from_privacy_parameters, parameters) if epsilon < 700 else None
    return _Part(count, epsilon**2 / 2, renyi, loss, epsilon, delta)


def bounded_range_divergence(epsilon: float, orders: FloatArray) -> FloatArray:
    """Returns the largest Renyi divergence of distributions whose log ratio has range epsilon.

    Among log ratios in [t - epsilon, t] the extreme one takes only the two ends (their mean under
    the second distribution is fixed at ratio 1, and x**a is convex). With r = e**-epsilon, y = e**t
    and A = (1 - r**a) / (1 - r), E[ratio**a] = y**(a-1) A - y**a (r A - r**a), which is largest at
    y = (a-1) / a * A / (r A - r**a), where it is y**(a-1) A / a. By Hoeffding's lemma it is at most
    exp(a (a-1) epsilon**2 / 8), and the ratio itself is at most e**epsilon.
    """
    a = orders
    hoeffding = np.minimum(a * epsilon**2 / 8, epsilon)
    if epsilon < 1e-6:
        return hoeffding  # the closed form would cancel
    log_a = np.log(np.expm1(-a * epsilon) / math.expm1(-epsilon))
    # r A - r**a = (r - r**a) / (1 - r)
    log_gap = -epsilon + np.log(np.expm1(-(a - 1) * epsilon) / math.expm1(-epsilon))
    log_y = np.log((a - 1) / a) + log_a - log_gap
    exact = log_y + (log_a - np.log(a)) / (a - 1)
    # The terms are of order one or of order log(a), and cancel.
    rounding = 1e-14 * (1 + np.log(a)) / np.minimum(a - 1, 1)
    return np.minimum(exact + rounding, hoeffding)


def pure_divergence(epsilon: float, orders: FloatArray) -> FloatArray:
    """Returns the largest Renyi divergence under epsilon-DP, that of randomised response."""
    log_moment = np.logaddexp(orders * epsilon, (1 - orders) * epsilon) - np.logaddexp(0, epsilon)
    rounding = 1e-14 * (1 + orders * epsilon)
    concentrated = np.minimum(orders * epsilon / 2, 1) * epsilon
    return np.minimum((log_moment + rounding) / (orders - 1), concentrated)


def _basic(parts: list[_Part], delta: float) -> float | None:
    epsilons = [part.count * part.epsilon for part in parts if part.epsilon is not None]
    if len(epsilons) < len(parts):
        return None
    failures = math.fsum(part.count * part.delta for part in parts)
    return math.inf if failures > delta else math.fsum(epsilons)


def _rdp(parts: list[_Part], delta: float) -> float | None:
    # This part of delta is left for composition.
    failures = sum(part.count * math.log1p(-part.delta) for part in parts)
    left = -math.expm1(math.log1p(-delta) - failures)
    if left <= 0:
        return math.inf
    divergence = sum((part.count * part.renyi(_ORDERS) for part in parts), np.zeros_like(_ORDERS))
    epsilon, _ = rdp.compute_epsilon(_ORDERS, divergence, left)
    return float(epsilon)


def _pld(parts: list[_Part], delta: float) -> float | None:
    spread = sum(part.count * math.sqrt(2 * part.rho) for part in parts)
    if not spread:
        return None
    interval = spread / _GRID_POINTS
    pure = [part.epsilon for part in parts if part.epsilon]
    if pure:
        # Losses that fall on the grid are not rounded, and division by a power of two is exact.
        aligned = min(pure) / 2 ** max(0, math.ceil(math.log2(min(pure) / interval)))
        interval = max(aligned, spread / _MOST_POINTS)
    if delta <= _FOURIER_ERROR:
        return math.inf
    total = losses.identity(interval)
    for part in parts:
        if part.loss is None:
            return None
        loss = part.loss(value_discretization_interval=interval)
        total = total.compose(loss.self_compose(part.count))
    return float(total.get_epsilon_for_delta(delta - _FOURIER_ERROR))
