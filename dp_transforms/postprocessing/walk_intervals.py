"""Computes proved intervals from releases of the geometric and exponential mechanisms.

Let x be the released list, f the private one and q = e**-c the ratio of the mechanism's weights.
For every f, the mechanism's ``distribution`` bounds the tails of x_i - f_i, and it bounds the
probability of x by q**||x - f||_1 e**(distribution.log_weight(x)). Conjugation of lists keeps L1
distances and corners. So the tails of the number of partitions with at least t users are those of
the frequency at rank t.

Lemma 1. Let w be any probability distribution over lists. Except with probability gamma, c ||x -
f||_1 < ln(1 / w(x)) + distribution.log_weight(x) + ln(1 / gamma). Proof. For a list x that does not
satisfy this, the probability of x is at most gamma w(x), and these sum to at most gamma. QED.

Here w is an equal mixture of two distributions. The first draws the total n with the probability
1 / ((n+1)(n+2)), and then one of the lists of this total uniformly; there are at most
e**(pi sqrt(2n/3)) of them. The second is a code for runs: each difference, each multiplicity, and
one more than the number of runs, is a k = 1, 2, ... with the probability 1 / (k (k+1)).

Lemma 2. Let W_b be the sum of |x_i - f_i| over the ranks i <= b, 0 < t < c, u = q e**t. Then
E_f[e**(t W_b)] <= ((1+u) / (1-u))**b e**(distribution.log_head); the proof is beside the
distribution. By Markov's inequality this bounds W_b for every b, and for all b at once if their
probabilities of failure fall geometrically in b.

Small partitions. Let c_j be the number of partitions with at least j users. Then the partitions
with fewer than k users have c_1 + ... + c_(k-1) - (k - 1) c_k users in all. By conjugation, Lemma 2
bounds the error of the first k - 1 of these numbers together, and a tail bounds that of c_k. Each
gets half of the failure probability.

The lemmas are for unrestricted mechanisms, and for the geometric mechanism between walls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList, RankSums
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, list_of_coordinates
from dp_transforms.mechanisms.partition.distributions import ReleaseDistribution
from dp_transforms.postprocessing.entropies import users_in_small_partitions
from dp_transforms.postprocessing.estimates import (
    COLLISIONS,
    CONFIDENCE,
    ENTROPY,
    GRID,
    SHARE,
    SMALL,
    SMALL_SHARE,
    TOTAL,
    RateCurve,
    ReleaseIntervals,
    curve_ends,
    failure_probability,
)

_RANK_DECAY = 0.9  # r: rank b is given this share of the failure probability of rank b - 1.
_LOG_DECAY = math.log(_RANK_DECAY)


class WalkIntervals(ReleaseIntervals):
    """Computes proved intervals from a list as it was released and the ``distribution`` of its
    mechanism, see the module.

    >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
    >>> released = FrequencyList([500, 20, 1], [1, 10, 300])
    >>> facts = WalkIntervals(released, IntegerPartitionMechanism(epsilon=1).distribution)
    >>> print(facts.number_of_partitions())
    311 (304 to 317, 95% confidence)
    """

    def __init__(self, released: FrequencyList, distribution: ReleaseDistribution):
        self.released = released
        self._distribution = distribution

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        if name in (ENTROPY, COLLISIONS):
            return curve_ends(name, self._rate_curve(confidence))
        if name == SMALL:
            return self._small(index, confidence)
        if name == SMALL_SHARE:
            return self._small_share(index, confidence)
        if name in (ROWS, COLUMNS):
            each = failure_probability(confidence) / 2
            (below,) = self._distribution.largest_shortfalls(each, [index])
            return max(value - self._distribution.largest_excess(each), 0), value + below
        error = ReleaseError.of(self.released, self._distribution, confidence)
        if name == SHARE:
            low, high = self._rates(np.array([index]), error)
            return float(low[0]), float(high[0])
        moved = error.l1 if name == TOTAL else error.up_to(index)
        return max(value - moved, 0), value + moved

    def _small(self, limit: int, confidence: float) -> tuple[float, float]:
        """Returns bounds on the users of partitions with fewer users than a limit."""
        users = users_in_small_partitions(self.released, limit)
        if limit == 1:
            return 0, 0
        half = failure_probability(confidence) / 2
        error = ReleaseError.of(self.released, self._distribution, 1 - half)
        (below,) = self._distribution.largest_shortfalls(half / 2, [limit])
        excess = self._distribution.largest_excess(half / 2)
        moved, weight = error.up_to(limit - 1), limit - 1
        # A c_k that was released too large makes the difference too small.
        return max(users - moved - weight * below, 0), users + moved + weight * excess

    def _small_share(self, limit: int, confidence: float) -> tuple[float, float]:
        """Returns bounds on the share of these users in the total. Half of the failure probability
        is for them, and half for the total."""
        half = 1 - failure_probability(confidence) / 2
        low, high = self._small(limit, half)
        total, error = self.released.total, ReleaseError.of(self.released, self._distribution, half)
        least, most = max(total - error.l1, 0), total + error.l1
        return min(low / most, 1.0) if most else 0.0, min(high / least, 1.0) if least else 1.0

    def bands(self, confidence: float = CONFIDENCE) -> tuple[FrequencyList, FrequencyList]:
        """Returns two lists, below and above the private one. For b = 0, 1, ..., each row and each
        column from 2**b to 2**(b+1) - 1 gets 1 / ((b+1)(b+2) 2**(b+2)) of the failure probability
        above, and as much below. These parts sum to one."""
        failure = failure_probability(confidence)
        lowers, uppers, begin, reach = [], [], 1, 1
        while reach > 0:
            power = begin.bit_length() - 1
            index = np.arange(begin, 2 * begin)
            each = failure / ((power + 1) * (power + 2) * 4 * begin)
            above = self._distribution.largest_excess(each)
            below = np.array(self._distribution.largest_shortfalls(each, index[[-1]].tolist()))
            # Coordinates of the list, which are negative beyond the diagonal and not cut off at 0.
            lines = [
                self.released.at_ranks(index) - index + 1,
                self.released.at_least(index) - index,
            ]
            lowers.append([line - above for line in lines])
            uppers.append([line + below for line in lines])
            reach = max(int(line[-1]) for line in uppers[-1])
            begin *= 2
        lower = [np.concatenate(parts) for parts in zip(*lowers, strict=True)]
        upper = [np.concatenate(parts) for parts in zip(*uppers, strict=True)]
        return closed(lower, upper, 0, begin)

    def _rate_curve(self, confidence: float) -> RateCurve:
        error = ReleaseError.of(self.released, self._distribution, confidence)
        last = self.released.distinct + error.l1
        ranks = np.concatenate([[0], GRID[GRID < last], [last]])
        return RateCurve(ranks, *self._rates(ranks, error))

    def _rates(self, guesses: IntArray, error: ReleaseError) -> tuple[FloatArray, FloatArray]:
        """Returns bounds on lambda_b, for each number b of guesses.

        Let the first b ranks of the released list hold S of its N users. In the private list, these
        ranks hold at most a more, and the other ranks at most d - a fewer, for an a of at most w =
        up_to(b) and d = l1. So lambda_b is at most (S + a) / (N + a - (d - a)) for some a in
        [0, w]. This is monotone in a, and so it is largest at a = 0 or a = w. The lower bound is
        the same with the signs of a and d changed.
        """
        sums, l1 = RankSums(self.released), float(error.l1)
        total = float(sums.total)
        covered = np.array([sums.sum_to(rank) for rank in guesses.tolist()], np.float64)
        moved = np.minimum(l1, np.ceil(error.head_base + error.head_slope * guesses))
        if total <= l1:
            return 0 * covered, 1 + 0 * covered
        bounds = []
        for side, extreme in ((-1, np.minimum), (1, np.maximum)):
            rest = total - side * l1
            ends = covered / rest, (covered + side * moved) / (rest + 2 * side * moved)
            bounds.append(np.clip(extreme(*ends), 0, 1))
        return bounds[0], bounds[1]


@dataclass(frozen=True)
class ReleaseError:
    """Bounds on the error of a released list.

    Attributes:
      l1: a bound on the sum of |x_i - f_i| over all ranks i.
      head_base, head_slope: ``head_base + head_slope * b`` bounds the sum over the ranks i <= b,
        for every b.
    """

    l1: int
    head_base: float
    head_slope: float

    @classmethod
    def of(
        cls, released: FrequencyList, distribution: ReleaseDistribution, confidence: float
    ) -> ReleaseError:
        """Returns bounds that hold together with this probability, for every private list.

        >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
        >>> distribution = IntegerPartitionMechanism(epsilon=1).distribution
        >>> released = FrequencyList([1000, 10, 1], [1, 50, 10**6])
        >>> error = ReleaseError.of(released, distribution, 0.99)
        >>> error.up_to(1), error.l1
        (30, 113)
        """
        # Each lemma gets half of the failure probability.
        log_failure, rate = math.log(2 / failure_probability(confidence)), distribution.rate
        code_length = min(_log_uniform(released), _log_runs(released)) + math.log(2)
        nats = code_length + distribution.log_weight(released) + log_failure
        # Rank b gets failure * (1 - r) * r**(b-1).
        t = np.linspace(0.02, 0.98, 49) * rate
        log_power = np.log1p(np.exp(t - rate)) - np.log(-np.expm1(t - rate))
        log_base = distribution.log_head + log_failure - math.log(1 - _RANK_DECAY)
        bases, slopes = (log_base + _LOG_DECAY) / t, (log_power - _LOG_DECAY) / t
        best = np.argmin(bases + 10 * slopes)
        return cls(math.ceil(nats / rate), float(bases[best]), float(slopes[best]))

    def up_to(self, rank: int) -> int:
        """Returns a bound on the sum of |x_i - f_i| over the ranks i <= rank."""
        return math.ceil(min(self.l1, self.head_base + self.head_slope * rank))


def closed(
    lower: Sequence[IntArray], upper: Sequence[IntArray], least: int, most: int
) -> tuple[FrequencyList, FrequencyList]:
    """Returns two lists, below and above every list whose coordinates are within bounds.

    Rows and columns of a list fall strictly until they are 0. D rows are positive, and D or D - 1
    columns. Lists are ordered as their coordinates are.

    Args:
      lower, upper: bounds on the rows, and on equally many columns; all coordinates after these
        are 0.
      least, most: bounds on D.
    """
    index = np.arange(len(lower[0]))
    lowers, uppers = [], []
    for below, above in zip(lower, upper, strict=True):
        slopes = np.where(below > 0, below + index, -1)
        below = np.maximum.accumulate(slopes[::-1])[::-1] - index
        above = np.minimum.accumulate(above + index) - index
        lowers.append(np.maximum(below, 0))
        uppers.append(np.where(index < most, np.maximum(above, 0), 0))
    rows, columns = (int(np.count_nonzero(arm)) for arm in uppers)
    most = min(rows, columns + 1)
    least = max(least, *(int(np.count_nonzero(arm)) for arm in lowers))
    for arm in (0, 1):
        lowers[arm] = np.maximum(lowers[arm], np.maximum(least - arm - index, 0))
        # If bounds contradict each other, they have failed, which is rare. Then any list will do.
        uppers[arm] = np.maximum(np.where(index < most, uppers[arm], 0), lowers[arm])
    return list_of_coordinates(*lowers), list_of_coordinates(*uppers)


def _log_uniform(frequency_list: FrequencyList) -> float:
    """Returns ln(1 / w) for the first distribution of Lemma 1: a total, and then a list of it."""
    total = frequency_list.total
    return float(math.pi * math.sqrt(2 * total / 3) + _log_code(total + 1))


def _log_runs(frequency_list: FrequencyList) -> float:
    """Returns ln(1 / w) for the second distribution of Lemma 1: the code for runs."""
    differences = -np.diff(frequency_list.frequencies, append=0)
    of_differences = _log_code(differences.astype(float)).sum()
    of_multiplicities = _log_code(frequency_list.multiplicities.astype(float)).sum()
    return float(of_differences + of_multiplicities + _log_code(len(frequency_list) + 1))


def _log_code(k: Any) -> Any:
    """Returns ln(1 / probability) of k = 1, 2, ... under 1 / (k (k+1))."""
    return np.log(k) + np.log1p(k)
