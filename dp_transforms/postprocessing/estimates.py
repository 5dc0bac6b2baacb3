"""Estimates numbers of a private list with intervals: the common interface of all releases.

``intervals.intervals_of`` returns the right kind for a release. An interval of kind "proved" holds
with its confidence for every private list, over the noise alone. An interval of kind "model" is
only as good as the decoder's model of lists. All are about the list that was released, in which
each user counts in at most kappa partitions. If records were dropped for this, numbers of all
records are larger. Choose your questions without looking at the release, or use ``bands``, which
hold together.
"""

from __future__ import annotations

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList, RankSums
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.postprocessing import entropies, guessing_metrics
from dp_transforms.postprocessing.entropies import Points
from dp_transforms.postprocessing.guessing_metrics import check_alpha, guesswork_key_space

PROVED, MODEL = "proved", "model"
CONFIDENCE = 0.95  # Of every interval that does not say otherwise.
TOTAL, SUM, SHARE = "total", "sum", "share"
SMALL, SMALL_SHARE = "small", "share of small"
ENTROPY, COLLISIONS = "entropy", "collisions"
"""Names of numbers of a list, besides the lengths of ``ROWS`` and ``COLUMNS``: see
``number_of``."""
GRID: IntArray = np.unique(np.round(1.09 ** np.arange(500)).astype(np.int64))
"""Ranks at which success rates are bounded, up to more than any list has."""


@dataclass(frozen=True)
class Estimate:
    """An estimate of a number of the private list, with an interval.

    Attributes:
      value: the estimate, within the interval.
      low, high: the ends of the interval, which belong to it.
      confidence: the probability with which the interval holds the true number.
      kind: ``PROVED`` if this is so for every list, or ``MODEL`` if it is so under the decoder's
        model.

    >>> print(Estimate(169, 160, 177))
    169 (160 to 177, 95% confidence)
    >>> print(Estimate(0.55555, 0.44446, 0.66664))  # ends are rounded outwards
    0.5556 (0.4444 to 0.6667, 95% confidence)
    """

    value: float
    low: float
    high: float
    confidence: float = CONFIDENCE
    kind: str = PROVED

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", float(self.confidence))

    def __str__(self) -> str:
        def text(number: float, rounding: str | None = None) -> str:
            if isinstance(number, int):
                return f"{number:,}"
            return f"{rounded(float(number), 4, rounding):,.4g}"

        value, low = text(self.value), text(self.low, ROUND_FLOOR)
        high = text(self.high, ROUND_CEILING)
        words = "confidence" if self.kind == PROVED else "under the model"
        span = span_words(self, low, high)
        return f"{value} ({span}, {100 * self.confidence:.15g}% {words})"


def span_words(estimate: Estimate, low: str, high: str) -> str:
    """Returns an interval in words. The texts of its ends are left out where they are infinite.

    >>> span_words(Estimate(7, -math.inf, 9), "", "9")
    '9 or less'
    """
    if math.isinf(estimate.low) and math.isinf(estimate.high):
        return "no bound is proved"
    if math.isinf(estimate.high):
        return f"{low} or more"
    if math.isinf(estimate.low):
        return f"{high} or less"
    return f"{low} to {high}"


class Answers(ABC):
    """Estimates numbers from one release. Values are those of its list, moved into intervals.

    Attributes:
      released: the released list.

    Every method raises a ValueError if the confidence is not between 0 and 1, or if a rank, a
    number of users or a number of partitions is below 1. Methods about shares raise it if the
    released list is empty.
    """

    released: FrequencyList
    _kind = PROVED

    def number_of_partitions(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions."""
        return self.partitions_with_at_least(1, confidence)

    def partitions_with_at_least(self, users: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions with at least so many users."""
        return self._estimate(COLUMNS, confidence, positive_integer("users", users))

    def frequency_at(self, rank: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the users of the partition of a rank, counted from 1. After the last partition
        it is 0."""
        return self._estimate(ROWS, confidence, positive_integer("rank", rank))

    def total(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the sum of all frequencies."""
        return self._estimate(TOTAL, confidence)

    def sum_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the sum of the ``partitions`` largest frequencies."""
        return self._estimate(SUM, confidence, positive_integer("partitions", partitions))

    def share_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the share of the total (0 to 1) of the ``partitions`` largest frequencies."""
        return self._estimate(SHARE, confidence, positive_integer("partitions", partitions))

    def success_rate_bits(self, guesses: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates ``guessing_metrics.success_rate_bits``; the upper end may be infinite."""
        rate = self.share_of_top(guesses, confidence)

        def bits(share: float) -> float:
            return math.log2(guesses / share) if share else math.inf

        return Estimate(bits(rate.value), bits(rate.high), bits(rate.low), confidence, rate.kind)

    @abstractmethod
    def alpha_guesswork_bits(self, alpha: Number, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates ``guessing_metrics.alpha_guesswork_bits``."""

    def shannon_entropy(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the Shannon entropy of the partition of a random contribution, in bits. Every
        entropy of an empty list is 0."""
        return self._estimate(ENTROPY, confidence)

    def min_entropy(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates ``guessing_metrics.min_entropy``, in bits; the upper end may be infinite."""
        return self.success_rate_bits(1, confidence)

    def normalized_entropy(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the Shannon entropy divided by the logarithm of the total (0 to 1)."""
        half = 1 - failure_probability(confidence) / 2
        entropy, total = self.shannon_entropy(half), self.total(half)

        def normalized(bits: float, users: float) -> float:
            return min(bits / math.log2(max(users, 2)), 1.0)

        return clamped_estimate(
            normalized(entropy.value, self.released.total),
            normalized(entropy.low, total.high),
            normalized(entropy.high, total.low),
            confidence,
            self._kind,
        )

    def collision_probability(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the probability that two random contributions are to the same partition."""
        return self._estimate(COLLISIONS, confidence)

    def tsallis_entropy(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the Tsallis entropy of order 2: one minus ``collision_probability``."""
        same = self.collision_probability(confidence)
        value, low, high = (1 - end for end in (same.value, same.high, same.low))
        return Estimate(value, low, high, confidence, same.kind)

    def users_in_small_partitions(
        self, fewer_than: int, confidence: float = CONFIDENCE
    ) -> Estimate:
        """Estimates the number of users whose partition has fewer users than this. If users have
        several partitions, it is the number of contributions to such partitions."""
        return self._estimate(SMALL, confidence, positive_integer("fewer_than", fewer_than))

    def share_in_small_partitions(
        self, fewer_than: int, confidence: float = CONFIDENCE
    ) -> Estimate:
        """Estimates the share of ``users_in_small_partitions`` in the total (0 to 1)."""
        return self._estimate(SMALL_SHARE, confidence, positive_integer("fewer_than", fewer_than))

    def unique_users(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of users who share their partition with nobody. If users have
        several partitions, it is the number of partitions with a single user."""
        return self.users_in_small_partitions(2, confidence)

    def share_unique(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the share of ``unique_users`` in the total (0 to 1)."""
        return self.share_in_small_partitions(2, confidence)

    def _estimate(self, name: str, confidence: float, index: int = 0) -> Estimate:
        index = min(index, MAX_VALUE)
        value = number_of(self.released, name, index)
        return clamped_estimate(
            value, *self._ends(name, index, value, confidence), confidence, self._kind
        )

    @abstractmethod
    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        """Returns bounds on a number of the private list, given its value in the released list."""


class ReleaseIntervals(Answers):
    """Adds bounds that hold together to estimates with proved intervals."""

    @abstractmethod
    def bands(self, confidence: float = CONFIDENCE) -> tuple[FrequencyList, FrequencyList]:
        """Returns two lists, below and above the private one at all ranks together."""

    def success_rates(
        self, guesses: Sequence[int], confidence: float = CONFIDENCE
    ) -> tuple[FloatArray, FloatArray]:
        """Returns lower and upper bounds on ``share_of_top`` for several numbers of guesses. All
        bounds hold together. Both arrays have the shape of ``guesses``."""
        curve = self._rate_curve(confidence)
        ranks = np.minimum(np.asarray(guesses, np.int64), curve.last)
        return curve.low(ranks), curve.high(ranks)

    @abstractmethod
    def _rate_curve(self, confidence: float) -> RateCurve:
        """Returns bounds on the success rates of all numbers of guesses together."""

    def alpha_guesswork_bits(self, alpha: Number, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates G-tilde_alpha, see ``guessing_metrics``.

        Proof. The metric grows with G_alpha and falls with lambda_mu. G_alpha is the sum of 1 -
        lambda_j over j < mu, and mu is the first j with lambda_j >= alpha: both are bounded through
        the bounds on all lambda_j. And alpha <= lambda_mu < alpha + p_mu, p_mu <= 1 / mu. QED.
        """
        level = float(check_alpha(alpha))
        value = guessing_metrics.alpha_guesswork_bits(self.released, alpha)
        curve = self._rate_curve(confidence)
        ranks = range(curve.last)
        fewest = max(1, bisect.bisect_left(ranks, level, key=lambda j: float(curve.high(j))))
        most = max(fewest, bisect.bisect_left(ranks, level, key=lambda j: float(curve.low(j))))
        reached = max(level, min(float(curve.high(most)), level + 1 / fewest))
        least_spent = max(fewest - curve.high_sum(fewest), 1.0)  # lambda_0 = 0
        smallest = guesswork_key_space(least_spent, reached)
        largest = guesswork_key_space(most - curve.low_sum(most), level)
        low, high = math.log2(max(1.0, smallest)), math.log2(max(1.0, largest))
        return clamped_estimate(value, low, high, confidence)


class RateCurve:
    """Bounds lambda_0, lambda_1, ..., from bounds at some ranks. The first rank is 0, and at the
    last one lambda is 1.

    lambda rises, and it is concave, since frequencies fall. So between two of the ranks it is at
    least the chord between its values there, and at most its value at the later one. It is also
    below each line through its values at two ranks before, and at two ranks after. Since all bounds
    hold together, the line is taken that bounds it best.
    """

    def __init__(self, ranks: IntArray, low: FloatArray, high: FloatArray):
        self.last = int(ranks[-1])
        self._ranks = ranks.astype(np.float64)
        self._low = np.maximum.accumulate(np.concatenate([[0.0], low[1:-1], [1.0]]))
        self._high = np.minimum.accumulate(np.concatenate([[0.0], high[1:-1], [1.0]])[::-1])[::-1]
        self._high = np.maximum(self._high, self._low)
        # For each piece: the best bound from above on the slope of a line through a point before
        # the piece and its start, and the best bound from below on the slope of a line through its
        # end and a point after. No slope is above 1, since no p_i is.
        widths = self._ranks[:, None] - self._ranks
        is_later = widths > 0
        widths[~is_later] = 1
        rises = np.where(is_later, (self._high[:, None] - self._low) / widths, 1)
        self._before = rises.min(axis=1)[:-1]
        falls = np.where(is_later, (self._low[:, None] - self._high) / widths, 0)
        self._after = falls.max(axis=0)[1:]

    def low(self, ranks: float | IntArray | FloatArray) -> FloatArray:
        """Returns lower bounds at some ranks, up to the last."""
        bounds: FloatArray = np.interp(np.asarray(ranks), self._ranks, self._low)
        return bounds

    def high(self, ranks: float | IntArray | FloatArray) -> FloatArray:
        """Returns upper bounds at some ranks, up to the last."""
        ranks = np.asarray(ranks, np.float64)
        piece = np.clip(np.searchsorted(self._ranks, ranks) - 1, 0, len(self._ranks) - 2)
        return self._below_lines(piece, ranks)

    def low_sum(self, end: int) -> float:
        """Returns a lower bound on the sum of lambda_j over j < end."""
        starts, ends = self._pieces(end)
        return float((ends - starts) @ self.low((starts + ends - 1) / 2))

    def high_sum(self, end: int) -> float:
        """Returns an upper bound on the sum of lambda_j over j < end."""
        starts, ends = self._pieces(end)
        # The mean of a line is its value in the middle. The first piece leaves out lambda_0, which
        # is 0.
        starts[0] = 1
        middles = self._below_lines(np.arange(len(starts)), (starts + ends - 1) / 2)
        return float((ends - starts) @ middles)

    def _pieces(self, end: int) -> tuple[FloatArray, FloatArray]:
        starts = self._ranks[:-1][self._ranks[:-1] < end]
        return starts, np.minimum(self._ranks[1 : len(starts) + 1], end)

    @property
    def corners(self) -> tuple[Points, Points]:
        """Returns the corners of a function below lambda, and of one above it, at all real ranks.

        A piece of the function above has a corner where its two lines cross. Between neighbouring
        integers lambda itself is a line, so that no corner is needed.
        """
        widths, rises = np.diff(self._ranks), np.diff(self._high)
        slopes = self._before - self._after
        bent = (widths > 1) & (slopes > 0)
        ahead = np.clip((rises - self._after * widths)[bent] / slopes[bent], 0, widths[bent])
        ranks = np.concatenate([self._ranks, self._ranks[:-1][bent] + ahead])
        shares = np.concatenate([self._high, self._high[:-1][bent] + self._before[bent] * ahead])
        in_order = np.argsort(ranks, kind="stable")
        above = ranks[in_order], np.minimum(shares[in_order], 1.0)
        return (self._ranks, self._low), above

    def _below_lines(self, piece: Any, ranks: FloatArray) -> FloatArray:
        before = self._before[piece] * (ranks - self._ranks[piece])
        after = self._after[piece] * (self._ranks[piece + 1] - ranks)
        bounds: FloatArray = np.minimum(self._high[piece] + before, self._high[piece + 1] - after)
        return bounds


def clamped_estimate(
    value: float, low: float, high: float, confidence: float, kind: str = PROVED
) -> Estimate:
    """Returns an estimate with its value moved into its interval."""
    return Estimate(min(max(value, low), high), low, high, confidence, kind)


def number_of(frequency_list: FrequencyList, name: str, index: int) -> float:
    """Returns a number of a list. Shares and entropies of an empty list are 0, and its collision
    probability is 1.

    Args:
      frequency_list: the list.
      name: which number: ``ROWS`` and ``COLUMNS`` for the frequency at a rank and the number of
        partitions with at least so many users; ``SUM`` and ``SHARE`` for the sum of so many largest
        frequencies and its share; ``SMALL`` and ``SMALL_SHARE`` for those below a limit; or a
        number without an index.
      index: the rank, number or limit.
    """
    if name == TOTAL:
        return frequency_list.total
    if name == SMALL:
        return entropies.users_in_small_partitions(frequency_list, index)
    if name == SMALL_SHARE:
        small = entropies.users_in_small_partitions(frequency_list, index)
        return small / max(frequency_list.total, 1)
    is_empty = not len(frequency_list)
    if name == ENTROPY:
        return 0.0 if is_empty else entropies.shannon_entropy(frequency_list)
    if name == COLLISIONS:
        # No user of an empty list differs from another one.
        return 1.0 if is_empty else entropies.collision_probability(frequency_list)
    if name == SHARE:
        return 0.0 if is_empty else guessing_metrics.success_rate(frequency_list, index)
    if name == SUM:
        return RankSums(frequency_list).sum_to(index)
    lengths = frequency_list.at_ranks if name == ROWS else frequency_list.at_least
    return int(lengths([index])[0])


def curve_ends(name: str, curve: RateCurve) -> tuple[float, float]:
    """Returns bounds on the number ``ENTROPY`` or ``COLLISIONS`` of the private list, from bounds
    on its success rates: see ``entropies``."""
    bounds = entropies.entropy_bounds if name == ENTROPY else entropies.collision_bounds
    return bounds(*curve.corners)


def rounded(value: float, digits: int, rounding: str | None = None) -> float:
    """Returns a number with so many significant digits. It is rounded to the nearest one, or by a
    rounding of ``decimal``."""
    return float(Context(digits, rounding).create_decimal(repr(value)))


def percents(low: float, high: float, digits: int) -> tuple[str, str]:
    """Returns the ends of an interval for a share as text, rounded outwards."""
    scale = 10 ** (2 + digits)
    ends = math.floor(scale * low) / scale, math.ceil(scale * high) / scale
    return f"{ends[0]:.{digits}%}", f"{ends[1]:.{digits}%}"


def failure_probability(confidence: float) -> float:
    """Returns 1 - confidence. The confidence may be a number of any kind; a ValueError is raised if
    it is not between 0 and 1."""
    try:
        given = float(confidence)
    except (TypeError, ValueError):
        given = math.nan
    if not 0 < given < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {shown(confidence)}")
    return 1 - given


class ModelIntervals(Answers):
    """Estimates by quantiles over some hundreds of lists that were drawn from a posterior. The
    intervals are shorter than proved ones, and only as good as the posterior's model."""

    _kind = MODEL

    def __init__(self, released: FrequencyList, samples: Sequence[FrequencyList]):
        if not samples:
            raise ValueError("samples must not be empty")
        self.released = released
        self._samples = samples

    def alpha_guesswork_bits(self, alpha: Number, confidence: float = CONFIDENCE) -> Estimate:
        def bits(drawn: FrequencyList) -> float:
            return guessing_metrics.alpha_guesswork_bits(drawn, alpha) if len(drawn) else 0.0

        return clamped_estimate(
            bits(self.released), *self._quantiles(bits, confidence), confidence, self._kind
        )

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        return self._quantiles(lambda drawn: number_of(drawn, name, index), confidence)

    def _quantiles(
        self, number: Callable[[FrequencyList], float], confidence: float
    ) -> tuple[float, float]:
        """Returns the quantiles of a number over the draws, each moved outwards by one draw."""
        tail = failure_probability(confidence) / 2
        drawn = sorted(map(number, self._samples))
        low = max(0, math.floor(tail * len(drawn)) - 1)
        high = min(len(drawn) - 1, math.ceil((1 - tail) * len(drawn)))
        return drawn[low], drawn[high]
