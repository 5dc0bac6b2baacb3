"""Composition: the cost of several mechanisms on the same users.

All bounds here hold for mechanisms that may be chosen after seeing earlier outputs, while their
privacy parameters are fixed in advance (for parameters that are chosen as one goes, see
``ledger``). Each is an upper bound on the same thing, and which of them is the smallest depends on
public numbers only, so the smallest holds too.

| method | theorem |
| --- | --- |
| basic | epsilons and deltas add up |
| zcdp | rhos add up: epsilon**2 / 8 for bounded range, epsilon**2 / 2 for pure DP |
| rdp | the exact Renyi divergence of the worst case adds up, order by order |
| pld | privacy-loss distributions of the worst case convolve |

A mechanism's own delta is the probability of a failure that hides nothing: an (epsilon, delta)-DP
mechanism is one that fails with probability delta and else loses at most epsilon (Kairouz, Oh and
Viswanath 2015). So the zcdp and rdp methods set the failures aside: with delta' for composition
the total is 1 - (1 - delta') * prod(1 - delta_i).

These are double-precision numbers. The library rounds privacy losses to the safe side, but
convolves them by Fourier transform, whose errors are near 1e-15 in delta: at delta = 0 it may
return an epsilon far too small. So its distributions are asked for delta - 1e-12 here, and not at
all below that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event, rdp
from dp_accounting.pld import common, privacy_loss_distribution
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from dp_transforms.budget.budget import PrivacyBudget
from dp_transforms.budget.events import ApproximateDpEvent, BoundedRangeDpEvent, list_event
from dp_transforms.mechanisms.arrays import FloatArray

_ORDERS = 1 + np.geomspace(0.02, 1e7, 600)
"""Renyi orders: dense enough that the best of them is within 0.1% of the infimum over all."""

_GRID_POINTS = 10_000  # Points of the privacy-loss grid per unit of basic composition.

_FOURIER_ERROR = 1e-12
"""More than the error in delta of a composition of privacy-loss distributions."""


@dataclass(frozen=True)
class Composition:
    """A bound on several mechanisms together, and how it was found.

    Attributes:
      epsilon: the smallest of ``by_method``.
      delta: as asked for.
      method: the name of the method that gives epsilon.
      by_method: the epsilon of each method that applies, infinite where it cannot reach this delta.
    """

    epsilon: float
    delta: float
    method: str
    by_method: Mapping[str, float]


def compose(events: Iterable[dp_event.DpEvent], delta: float = 0.0) -> Composition:
    """The tightest of the bounds in this module on all events together.

    Args:
      events: those of ``budget.events`` and the library's Gaussian, Laplace, discrete Laplace and
        zCDP events; also ComposedDpEvent and SelfComposedDpEvent of these.
      delta: of the whole composition, at least the mechanisms' own deltas together.

    Raises:
      ValueError: an event is of another kind, delta is not in [0, 1), or no method reaches delta.

    >>> lists = [dp_event.SelfComposedDpEvent(BoundedRangeDpEvent(0.1), 23)]
    >>> total = compose(lists, delta=1e-6)
    >>> total.method, round(total.epsilon, 3), round(total.by_method["basic"], 3)
    ('rdp', 1.06, 2.3)
    """
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    parts = [part for event in events for part in _parts(event, 1)]
    bounds = (_basic, _zcdp, _rdp, _pld)
    by_method = {
        bound.__name__.lstrip("_"): epsilon
        for bound in bounds
        if (epsilon := bound(parts, delta)) is not None
    }
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
    """The largest epsilon that each of ``count`` like mechanisms may have within one budget.

    Args:
      count: how many mechanisms run on the same users.
      budget: for all of them together.
      event: maps an epsilon to the event of an epsilon-DP mechanism; by default that of a frequency
        list by the default mechanism at sensitivity 1.

    Returns:
      An epsilon whose composition is at most ``budget.epsilon`` at ``budget.delta``, within a
      millionth of the largest one.

    >>> round(largest_epsilon(23, PrivacyBudget(1, 1e-6)), 3), round(1 / 23, 3)
    (0.053, 0.043)
    """
    if count < 1:
        raise ValueError(f"count must be positive, got {count}")
    total, delta = float(budget.epsilon), float(budget.delta)

    def fits(epsilon: float) -> bool:
        composed = compose([dp_event.SelfComposedDpEvent(event(epsilon), count)], delta)
        return composed.epsilon <= total

    # Basic composition allows low, and no mechanism alone may spend more than high.
    low, high = total / count * (1 - 1e-9), total
    if fits(high):
        return high
    while high - low > 1e-6 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class _Part:
    """``count`` applications of one mechanism, which may fail."""

    count: int
    epsilon: float | None  # it is epsilon-DP unless it fails; None if it is for no epsilon
    delta: float  # the probability of failure
    rho: float  # it is rho-zCDP unless it fails
    renyi: Callable[[FloatArray], FloatArray]  # its divergence at each order, unless it fails
    # Its privacy-loss distribution on a grid of an interval, failures included; None if unknown.
    loss: Callable[[float], PrivacyLossDistribution] | None


def _parts(event: dp_event.DpEvent, count: int) -> Iterator[_Part]:
    match event:
        case dp_event.NoOpDpEvent():
            return
        case dp_event.SelfComposedDpEvent():
            yield from _parts(event.event, count * event.count)
        case dp_event.ComposedDpEvent():
            for inner in event.events:
                yield from _parts(inner, count)
        case BoundedRangeDpEvent(epsilon=length, pure=pure):
            epsilon = min(pure, length)
            yield _Part(
                count,
                epsilon,
                0.0,
                min(length**2 / 8, epsilon**2 / 2),
                lambda orders: np.minimum(
                    bounded_range_divergence(length, orders), pure_divergence(epsilon, orders)
                ),
                lambda interval: _pure_loss(epsilon, 0.0, interval),
            )
        case ApproximateDpEvent(epsilon=epsilon, delta=delta):
            yield _pure_part(
                count, epsilon, lambda interval: _pure_loss(epsilon, delta, interval), delta
            )
        case dp_event.LaplaceDpEvent(noise_multiplier=noise):
            yield _pure_part(
                count,
                1 / noise,
                lambda interval: privacy_loss_distribution.from_laplace_mechanism(
                    noise, value_discretization_interval=interval
                ),
            )
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=decay, sensitivity=sensitivity):
            yield _pure_part(
                count,
                decay * sensitivity,
                lambda interval: privacy_loss_distribution.from_discrete_laplace_mechanism(
                    decay, sensitivity, value_discretization_interval=interval
                ),
            )
        case dp_event.GaussianDpEvent(noise_multiplier=noise):
            rho = noise**-2 / 2
            yield _Part(
                count,
                None,
                0.0,
                rho,
                lambda orders: rho * orders,
                lambda interval: privacy_loss_distribution.from_gaussian_mechanism(
                    noise, value_discretization_interval=interval
                ),
            )
        case dp_event.ZCDpEvent(rho=rho, xi=0.0):
            yield _Part(count, None, 0.0, rho, lambda orders: rho * orders, None)
        case _:
            raise ValueError(f"events must be of a kind in dp_transforms.budget, got {event}")


def _pure_part(
    count: int, epsilon: float, loss: Callable[[float], PrivacyLossDistribution], delta: float = 0.0
) -> _Part:
    """Returns the part of a mechanism that is epsilon-DP unless it fails."""
    renyi = functools.partial(pure_divergence, epsilon)
    return _Part(count, epsilon, delta, epsilon**2 / 2, renyi, loss)


def bounded_range_divergence(epsilon: float, orders: FloatArray) -> FloatArray:
    """The largest Renyi divergence of two distributions whose log ratio has range epsilon.

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
    one_minus_ra = -np.expm1(-a * epsilon)
    one_minus_r = -math.expm1(-epsilon)
    log_a = np.log(one_minus_ra / one_minus_r)
    # r A - r**a = (r - r**a) / (1 - r)
    log_gap = -epsilon + np.log(-np.expm1(-(a - 1) * epsilon) / one_minus_r)
    log_y = np.log((a - 1) / a) + log_a - log_gap
    exact = log_y + (log_a - np.log(a)) / (a - 1)
    # The terms are of order one or of order log(a), and cancel.
    rounding = 1e-14 * (1 + np.log(a)) / np.minimum(a - 1, 1)
    return np.minimum(exact + rounding, hoeffding)


def pure_divergence(epsilon: float, orders: FloatArray) -> FloatArray:
    """The largest Renyi divergence under epsilon-DP: that of randomised response."""
    log_moment = np.logaddexp(orders * epsilon, (1 - orders) * epsilon) - np.logaddexp(0, epsilon)
    rounding = 1e-14 * (1 + orders * epsilon)
    concentrated = np.minimum(orders * epsilon / 2, 1) * epsilon
    return np.minimum((log_moment + rounding) / (orders - 1), concentrated)


def _pure_loss(epsilon: float, delta: float, interval: float) -> PrivacyLossDistribution:
    return privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), interval
    )


def _left_for_composition(parts: list[_Part], delta: float) -> float:
    """The delta' with 1 - (1 - delta') * prod(1 - delta_i) = delta; negative if there is none."""
    return -math.expm1(
        math.log1p(-delta) - sum(part.count * math.log1p(-part.delta) for part in parts)
    )


def _basic(parts: list[_Part], delta: float) -> float | None:
    if any(part.epsilon is None for part in parts):
        return None
    if math.fsum(part.count * part.delta for part in parts) > delta:
        return math.inf
    return math.fsum(part.count * (part.epsilon or 0.0) for part in parts)


def _zcdp(parts: list[_Part], delta: float) -> float | None:
    rho = math.fsum(part.count * part.rho for part in parts)
    return _from_divergence(rho * _ORDERS, parts, delta)


def _rdp(parts: list[_Part], delta: float) -> float | None:
    divergence = sum((part.count * part.renyi(_ORDERS) for part in parts), np.zeros_like(_ORDERS))
    return _from_divergence(divergence, parts, delta)


def _from_divergence(divergence: FloatArray, parts: list[_Part], delta: float) -> float:
    left = _left_for_composition(parts, delta)
    if left <= 0:
        return math.inf
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
        interval = min(pure) / 2 ** max(0, math.ceil(math.log2(min(pure) / interval)))
    if delta <= _FOURIER_ERROR:
        return math.inf
    total = privacy_loss_distribution.identity(interval)
    for part in parts:
        if part.loss is None:
            return None
        total = total.compose(part.loss(interval).self_compose(part.count))
    return float(total.get_epsilon_for_delta(delta - _FOURIER_ERROR))
