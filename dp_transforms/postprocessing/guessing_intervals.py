"""Error bars for guessing metrics, from the release alone: how far the noise may have moved them.

A released list x is not the private list f. Whatever f is, x is close to it with high probability,
and how close can be said from x and the public parameters: computing these intervals is
post-processing and costs no privacy. They are about the noise only, not about how the sample of
users was drawn.

Let q = e**-c be the ratio of the mechanism's weights, and ``law`` its ``ReleaseLaw``: the
probability of x is at most q**||x - f||_1 e**(law.log_weight(x)), for every f. Two bounds hold for
every f.

Lemma 1. Let w be any probability distribution over lists. Except with probability gamma, c ||x -
f||_1 < ln(1 / w(x)) + law.log_weight(x) + ln(1 / gamma). Proof. The contrary says that the
probability of x is at most gamma w(x), and these sum to at most gamma. QED. Here w is
half uniform over the lists of one total n, of which there are at most e**(pi sqrt(2n/3)), n having
the probability 1 / ((n+1)(n+2)); and half a code for runs, in which each difference and each
multiplicity k, and one more than the number of runs, have the probability 1 / (k (k+1)).

Lemma 2. Let W_b be the sum of |x_i - f_i| over the ranks i <= b, 0 < t < c, u = q e**t. Then
E_f[e**(t W_b)] <= ((1+u) / (1-u))**b e**(law.log_head), which is proved there. By Markov's
inequality W_b is bounded for every b, and for all b at once with probabilities that fall
geometrically in b.

The bounds are for the unrestricted mechanism, whose outcomes are all lists. For a variant with
bounded outcomes give a bound on the L1 distance yourself: ``ReleaseError(l1)``.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import Real
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.release_law import ReleaseLaw
from dp_transforms.postprocessing.frequency_intervals import failure_probability
from dp_transforms.postprocessing.guessing_metrics import (
    check_alpha,
    check_guesses,
    guesswork_key_space,
    rank_sums,
)

_RANK_DECAY = 0.9  # Rank b is given this share of the failure probability of rank b - 1.


class Interval(NamedTuple):
    """A metric of the private list lies between these, if the ``ReleaseError`` holds."""

    lower: float
    upper: float


@dataclass(frozen=True)
class ReleaseError:
    """Bounds on the distance between a released list x and the private list f.

    Attributes:
      l1: the sum of |x_i - f_i| over all ranks i is at most this.
      head_base: over the ranks i <= b it is at most head_base + head_slope * b, for every b.
      head_slope: see head_base.
    """

    l1: int
    head_base: float = math.inf
    head_slope: float = 0.0

    def __post_init__(self) -> None:
        if self.l1 < 0:
            raise ValueError(f"l1 must not be negative, got {self.l1}")

    @classmethod
    def of_release(
        cls, released: FrequencyList, law: ReleaseLaw, confidence: float = 0.99
    ) -> ReleaseError:
        """Bounds that hold with probability ``confidence``, for every private list (see the
        module).

        Args:
          released: what the mechanism returned; not further processed.
          law: the mechanism's ``law``.
          confidence: the probability, over the mechanism's randomness, that all bounds hold.

        Raises:
          ValueError: a parameter is out of its range.

        >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
        >>> law = IntegerPartitionMechanism(epsilon=1).law
        >>> error = ReleaseError.of_release(FrequencyList([1000, 10, 1], [1, 50, 10**6]), law)
        >>> error.up_to(1), error.l1
        (30, 113)
        """
        # Each lemma may fail half of the time.
        log_failure = math.log(2 / failure_probability(confidence))
        code_length = min(_log_uniform(released), _log_runs(released)) + math.log(2)
        base, slope = min(
            (
                _head_bound(law, share * law.rate, log_failure)
                for share in np.linspace(0.02, 0.98, 49).tolist()
            ),
            key=lambda bound: bound[0] + 10 * bound[1],
        )
        nats = code_length + law.log_weight(released) + log_failure
        return cls(math.ceil(nats / law.rate), base, slope)

    def up_to(self, rank: int) -> int:
        """A bound on the sum of |x_i - f_i| over the ranks i <= rank."""
        head = self.head_base + self.head_slope * rank
        return self.l1 if head >= self.l1 else math.ceil(head)


def success_rate_interval(released: FrequencyList, guesses: int, error: ReleaseError) -> Interval:
    """Bounds on lambda_beta of the private list (see ``guessing_metrics.success_rate``).

    >>> released = FrequencyList([500, 20, 1], [1, 10, 300])
    >>> success_rate_interval(released, 1, ReleaseError(l1=10))
    Interval(lower=0.494949..., upper=0.50505...)
    """
    band = _Band(released, error)
    check_guesses(guesses)
    covered, moved = band.ranks.sum_to(guesses), error.up_to(guesses)
    return Interval(*(float(band.rate(covered, moved, side)) for side in (-1, 1)))


def success_rate_bits_interval(
    released: FrequencyList, guesses: int, error: ReleaseError
) -> Interval:
    """Bounds on lambda_beta in bits; for one guess, on the min-entropy. The upper one may be
    inf."""
    lower, upper = success_rate_interval(released, guesses, error)
    return Interval(math.log2(guesses / upper), math.log2(guesses / lower) if lower else math.inf)


def alpha_guesswork_bits_interval(
    released: FrequencyList, alpha: Real, error: ReleaseError
) -> Interval:
    """Bounds on G-tilde_alpha of the private list (see ``guessing_metrics.alpha_guesswork_bits``).

    The metric grows with G_alpha and falls with lambda_mu. G_alpha is the sum of 1 - lambda_j over
    j < mu, and mu is the first j with lambda_j >= alpha: both are bounded through the bounds on all
    lambda_j. And alpha <= lambda_mu < alpha + p_mu, where p_mu <= 1 / mu.
    """
    level = float(check_alpha(alpha))
    band = _Band(released, error)
    # The private list has no more than ``last`` items, so lambda_last = 1.
    ranks = range(band.last)
    fewest = bisect.bisect_left(ranks, level, 1, key=lambda rank: band.rate_at(rank, 1))
    most = bisect.bisect_left(ranks, level, fewest, key=lambda rank: band.rate_at(rank, -1))
    reached = min(band.rate_at(most, 1), level + 1 / fewest)
    smallest = guesswork_key_space(band.spent(fewest, -1), reached)
    largest = guesswork_key_space(band.spent(most, 1), level)
    return Interval(math.log2(max(1.0, smallest)), math.log2(largest))


class _Band:
    """Bounds on every lambda_j of the private list, and on sums of 1 - lambda_j.

    Let the first b ranks of the released list hold S of its N users. On the private list a more or
    fewer are at these ranks, a <= w = up_to(b), and the rest changes by at most d - a, d = l1. So
    lambda_b is at most (S + a) / (N + a - (d - a)) for some a in [0, w], and this is monotone in a:
    the extremes are a = 0 and a = w. The same with signs changed from below.

    In a run of the released list w is taken at its last rank, so that both bounds are piecewise
    linear in the rank. Runs are cut into pieces on which they are linear. Beyond the released list
    the private one may have d more items.
    """

    def __init__(self, released: FrequencyList, error: ReleaseError):
        self.ranks = rank_sums(released)
        self._error = error
        total, l1 = self.ranks.total, error.l1
        self._total, self._l1 = float(total), float(l1)
        self.last = self.ranks.ends[-1] + l1
        pieces = []
        runs = zip(
            self.ranks.ends,
            [*self.ranks.ends[1:], self.last],
            self.ranks.sums,
            [*self.ranks.frequencies, 0],
            strict=True,
        )
        for start, end, covered, frequency in runs:
            moved = error.up_to(end)
            cuts = {start, start + 1, end} if end > start else {start}
            for users in ((total - l1) // 2, (total + l1) // 2, total - l1, moved):
                if frequency and covered <= users < covered + (end - start) * frequency:
                    rank = start + (users - covered) // frequency
                    cuts.update(r for r in (rank, rank + 1) if r < end)
            for low, high in itertools.pairwise(sorted(cuts)):
                pieces.append((low, high, covered + (low - start) * frequency, frequency, moved))
        self._starts, ends, self._covered, self._frequencies, self._moved = np.array(
            pieces, dtype=np.float64
        ).T
        self._widths = ends - self._starts

    def rate(self, covered: Any, moved: Any, side: int) -> Any:
        """A bound on lambda_b, for S and w of the class: side is 1 for one from above, -1 for one
        from below."""
        if self._total <= self._l1:
            return max(side, 0) + 0.0 * covered
        extreme = np.maximum if side > 0 else np.minimum
        rest = self._total - side * self._l1
        ends = covered / rest, (covered + side * moved) / (rest + 2 * side * moved)
        return np.clip(extreme(*ends), 0, 1)

    def rate_at(self, rank: int, side: int) -> float:
        """The same on lambda_rank."""
        if not rank:
            return 0.0
        piece = np.searchsorted(self._starts, rank) - 1
        covered = self._covered[piece] + (rank - self._starts[piece]) * self._frequencies[piece]
        return float(self.rate(covered, self._moved[piece], side))

    def spent(self, rank: int, side: int) -> float:
        """The same on the sum of 1 - lambda_j over 0 <= j < rank."""
        widths = np.clip(rank - self._starts, 0, self._widths)
        last = self._covered + (widths - 1) * self._frequencies
        rates = (self.rate(covered, self._moved, -side) for covered in (self._covered, last))
        return float(widths @ (2 - sum(rates)) / 2)


def _head_bound(law: ReleaseLaw, t: float, log_failure: float) -> tuple[float, float]:
    """head_base and head_slope of Lemma 2 for one t between 0 and c.

    Rank b may fail with probability failure * (1 - r) * r**(b-1).
    """
    log_power = math.log1p(math.exp(t - law.rate)) - math.log(-math.expm1(t - law.rate))
    log_base = law.log_head + log_failure - math.log(1 - _RANK_DECAY)
    return (log_base + math.log(_RANK_DECAY)) / t, (log_power - math.log(_RANK_DECAY)) / t


def _log_uniform(frequency_list: FrequencyList) -> float:
    """ln(1 / w) for the lists of one total, as in Lemma 1."""
    total = frequency_list.total
    return float(math.pi * math.sqrt(2 * total / 3) + _log_code(total + 1))


def _log_runs(frequency_list: FrequencyList) -> float:
    """ln(1 / w) for the code of runs, as in Lemma 1."""
    differences = -np.diff(frequency_list.frequencies, append=0)
    lengths = sum(
        float(_log_code(values.astype(np.float64)).sum())
        for values in (differences, frequency_list.multiplicities)
    )
    return float(lengths + _log_code(len(frequency_list) + 1))


def _log_code(k: Any) -> Any:
    """ln(1 / probability) of k = 1, 2, ... under 1 / (k (k+1))."""
    return np.log(k) + np.log1p(k)
