"""Computes errors, and audits promises, from the private list. PRIVATE: never publish a result.

Let P and Q be the distributions of a mechanism's output on two neighbouring inputs. If the
mechanism is (epsilon, delta)-DP, then P[S] <= e**epsilon * Q[S] + delta for every event S, for all
neighbours and in both directions. So every event gives a lower bound,

    epsilon >= ln((P[S] - delta) / Q[S]),

and the largest of these bounds is the exact epsilon of the pair at this delta. ``exact_epsilon``
finds it if both distributions can be enumerated. If they can only be sampled,
``epsilon_lower_bound`` certifies a lower bound. One half of the draws chooses the event, and the
other half bounds the two probabilities of the event by the intervals of Clopper and Pearson. The
error rate holds however the event is chosen, since the event does not depend on the draws that test
it.

An audit can show that a promise is broken, but not that it is kept: other neighbours and other
events may be worse.

Sources: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
the binomial" (1934); Ding, Wang, Wang, Zhang and Kifer, "Detecting violations of differential
privacy" (CCS 2018), for choosing an event on draws of its own.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np
from scipy.special import betainccinv, betaincinv

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.distributions import pairs, window_for
from dp_transforms.mechanisms.partition.exponential import (
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism, WithinBounds
from dp_transforms.mechanisms.partition.walk.precise import PreciseTransfer
from dp_transforms.mechanisms.partition.walk.walk import Blocks

Statistic = Callable[[Any], Hashable]
"""Any function of an output. Events are sets of its values."""

_LEAST_SEEN = 10
_BITS = 128
# Intervals are widened by this relative error, for the rounding of scipy's functions.
_ROUNDING = 2.0**-40


def expected_l1(mechanism: PartitionMechanism, frequency_list: FrequencyList) -> float:
    """Returns the exact mean of ||x - f||_1 over a mechanism's releases x of the list f.

    The result is as private as f. Nothing is drawn. ``dist`` of Blocki et al. (2016) is half of it.

    Raises:
      ValueError: the mechanism's distribution has no formula.

    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> round(expected_l1(IntegerPartitionMechanism(epsilon=1), FrequencyList([9, 1], [1, 20])), 1)
    7.3
    """
    return mechanism.distribution.expected_l1(frequency_list)


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on epsilon, with the counts that it follows from.

    Attributes:
      epsilon: the bound. With probability at least 1 - error_rate it does not exceed the exact
        epsilon. It is 0 if the draws show nothing.
      delta: the delta at which epsilon is bounded.
      error_rate: the largest probability that a bound is too large.
      hits, other_hits: the numbers of testing draws in the event, for the input under which the
        event is more likely and for the other input.
      draws: the number of testing draws for each input.
    """

    epsilon: float
    delta: float
    error_rate: float
    hits: int
    other_hits: int
    draws: int


def identity(output: Any) -> Hashable:
    """Returns the output itself, as a statistic."""
    hashable: Hashable = output
    return hashable


def epsilon_lower_bound(
    outputs: Sequence[Any],
    other_outputs: Sequence[Any],
    delta: float = 0.0,
    error_rate: float = 1e-6,
    statistics: Sequence[Statistic] = (identity,),
) -> EpsilonBound:
    """Certifies a lower bound on the epsilon of a pair of neighbours, from independent draws.

    Args:
      outputs: draws of the mechanism on one input.
      other_outputs: as many draws on its neighbour.
      delta: the delta at which epsilon is bounded.
      error_rate: the largest probability that the bound is too large.
      statistics: functions of an output; events are sets of their values. The better a statistic
        determines the ratio of an output's two probabilities, the closer the bound is to the exact
        epsilon. Values seen fewer than ten times are in no event.

    Raises:
      ValueError: the numbers of outputs differ or are below two; a number is out of range.

    >>> bound = epsilon_lower_bound([1, 2, 2] * 999, [1, 1, 2] * 999)
    >>> 0 < bound.epsilon < math.log(2)
    True
    """
    if len(outputs) != len(other_outputs) or len(outputs) < 2:
        raise ValueError(
            "outputs and other_outputs must be equally many, and at least two, got "
            f"{len(outputs)} and {len(other_outputs)}"
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be at least 0 and below 1, got {delta}")
    if not 0 < error_rate < 1:
        raise ValueError(f"error_rate must be above 0 and below 1, got {error_rate}")
    # Draws at even places choose the event and those at odd places test it. The first and second
    # half would be worse, since draws may come in an order.
    events = []
    for statistic in statistics:
        counts = [Counter(map(statistic, side[::2])) for side in (outputs, other_outputs)]
        for order in (1, -1):
            here, there = counts[::order]
            best = _best_event(here, there, delta, error_rate)
            events.append((*best, statistic, order))
    _, event, statistic, order = max(events, key=operator.itemgetter(0))
    hits, other_hits = (
        sum(statistic(output) in event for output in side[1::2])
        for side in (outputs, other_outputs)[::order]
    )
    draws = len(outputs) // 2
    epsilon = float(_certified(hits, other_hits, draws, delta, error_rate))
    return EpsilonBound(max(0.0, epsilon), delta, error_rate, hits, other_hits, draws)


def exact_epsilon(
    distribution: Mapping[Any, Any], other: Mapping[Any, Any], delta: float | Any = 0
) -> float:
    """Returns the smallest epsilon for which two distributions are (epsilon, delta)-close.

    The best event has all outcomes whose ratio of probabilities is above some value, so only such
    events are tried.

    Args:
      distribution, other: probabilities by outcome, for an input and for its neighbour. They are
        rationals, or floats that are taken to be exact. Missing outcomes have probability 0.
      delta: the delta at which epsilon is computed.

    >>> exact_epsilon({"yes": 0.75, "no": 0.25}, {"yes": 0.25, "no": 0.75}) == math.log(3)
    True
    """
    largest: Any = gmpy2.mpq(1)
    for here, there in ((distribution, other), (other, distribution)):
        pairs = [
            (gmpy2.mpq(p), gmpy2.mpq(there.get(outcome, 0))) for outcome, p in here.items() if p
        ]
        pairs.sort(key=lambda pair: math.inf if not pair[1] else pair[0] / pair[1], reverse=True)
        p = q = gmpy2.mpq(0)
        for more_p, more_q in pairs:
            p, q = p + more_p, q + more_q
            if p > delta:
                if not q:
                    return math.inf
                largest = max(largest, (p - gmpy2.mpq(delta)) / q)
    return float(gmpy2.log(gmpy2.mpfr(largest, _BITS)))


def exact_partition_epsilon(
    mechanism: PartitionMechanism, frequency_list: FrequencyList, neighbour: FrequencyList
) -> float:
    """Returns the exact epsilon, at delta = 0, of a mechanism over all lists for a pair of lists.

    For a list f and its neighbour f', with total weights Z and Z', a release x has

        Pr[x] / Pr'[x] = q**(||x - f||_1 - ||x - f'||_1) Z' / Z.

    The exponent is at least -||f - f'||_1, which x = f attains. With both directions,

        epsilon = ||f - f'||_1 ln(1/q) + |ln(Z' / Z)|.

    The total weights of the geometric mechanism are 1. So are those of noisy coordinates, and every
    decoded list is a function of noisy coordinates.

    Raises:
      TypeError: the mechanism is of another kind, or has bounds and is not the Frobenius mechanism.

    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> lists = FrequencyList([3, 1], [1, 2]), FrequencyList([4, 1], [1, 2])
    >>> 0.5 < exact_partition_epsilon(IntegerPartitionMechanism(epsilon=1.0), *lists) <= 1
    True
    """
    rate = mechanism.decay.log_enclosure(_BITS)[0]
    with gmpy2.context(precision=_BITS):
        here, there = (_log_total(mechanism, f) for f in (frequency_list, neighbour))
        return float(frequency_list.l1_distance(neighbour) * rate + abs(there - here))


def _log_total(mechanism: PartitionMechanism, frequency_list: FrequencyList) -> Any:
    """Returns ln Z of a list; raises a TypeError if it is not known for this mechanism."""
    if mechanism.decodes:
        return 0
    if isinstance(mechanism, WithinBounds) and mechanism.bounds is None:
        if isinstance(mechanism, GeometricPartitionMechanism):
            return 0
        if isinstance(mechanism, IntegerPartitionMechanism):
            return gmpy2.log(_total_weight(frequency_list, mechanism.decay))
    raise TypeError(
        f"what a pair costs is known exactly of mechanisms over all lists, not of "
        f"{type(mechanism).__name__}: bound it with epsilon_lower_bound"
    )


def proportion_bounds(hits: Any, draws: int, error_rate: float) -> tuple[Any, Any]:
    """Returns the Clopper-Pearson bounds (lo, hi) on a probability, given hits among draws; arrays
    if ``hits`` is one. Each bound is wrong with a probability of at most half of error_rate."""
    half = error_rate / 2
    # The formulas hold only if there are hits and misses. Without hits lo is 0, and without misses
    # hi is 1.
    some, rest = np.maximum(hits, 1), np.maximum(draws - hits, 1)
    lo = betaincinv(some, draws - some + 1, half) * (1 - _ROUNDING)
    hi = betainccinv(draws - rest + 1, rest, half) * (1 + _ROUNDING)
    return np.where(hits > 0, lo, 0.0), np.where(hits < draws, hi, 1.0)


def _best_event(
    here: Counter[Hashable], there: Counter[Hashable], delta: float, error_rate: float
) -> tuple[float, frozenset[Hashable]]:
    """Returns the epsilon that the best event would certify if these draws tested it, and the
    event."""
    seen = [value for value in here | there if here[value] + there[value] >= _LEAST_SEEN]
    if not seen:
        return -math.inf, frozenset()
    seen.sort(key=lambda value: (here[value] + 1) / (there[value] + 1), reverse=True)
    hits, other_hits = (np.cumsum([side[value] for value in seen]) for side in (here, there))
    certified = _certified(hits, other_hits, here.total(), delta, error_rate)
    cut = int(np.argmax(certified))
    return float(certified[cut]), frozenset(seen[: cut + 1])


def _certified(hits: Any, other_hits: Any, draws: int, delta: float, error_rate: float) -> Any:
    """Returns the lower bound on epsilon that hits of an event show, -inf if they show none."""
    lo, _ = proportion_bounds(hits, draws, error_rate)
    _, hi = proportion_bounds(other_hits, draws, error_rate)
    return np.log(np.maximum(lo - delta, 0) / hi, out=np.full(lo.shape, -np.inf), where=lo > delta)


def _total_weight(frequency_list: FrequencyList, decay: Decay) -> Any:
    """Returns the total weight Z of a list, to more digits than a float has."""
    window = window_for(float(decay.log_enclosure(_BITS)[0]))
    transfer = PreciseTransfer(decay, window, _BITS)
    weights = np.full(transfer.size, gmpy2.mpfr(0))
    weights[window:] = [lo for lo, _ in transfer.weights.leaving_first_run()]
    for bit, length in pairs(Blocks.of(frequency_list)):
        turn = slice(None, None, -1 if bit else 1)
        weights = transfer.forward(length, weights[turn], 0)[turn]
    return sum(weights[window:] * [lo for lo, _ in transfer.weights.entering_last_run()])
