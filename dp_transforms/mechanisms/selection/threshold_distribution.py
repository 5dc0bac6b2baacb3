"""Compares noisy counts with a threshold, and bounds numbers of users by noisy counts.

Let X be integer noise. A partition with n users is kept if n + X > threshold. If n + X equals the
threshold, it is kept with a separate probability, the tie.

A tie of 0 is the strict comparison of Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially
private partition selection", Definition 8). It is always used for truncated geometric noise. For
real noise there is a real threshold at which a single user's partition is kept with probability
exactly delta. An integer threshold would waste up to a factor e**epsilon of delta. So for Laplace
and Gaussian noise the threshold is itself drawn: it is threshold - 1 with the probability of the
tie, and threshold otherwise, and the comparison with it is strict. That costs no privacy: given n
>= 1 users, the release is a function of the private n + X and of a draw independent of the data.
Only the probability of keeping a single user's partition depends on the threshold:

    P[1 + X > threshold] + tie * P[1 + X = threshold]

``calibrated_distribution`` keeps it from exceeding its bound.

A release of names and a release of names with noisy counts make the decision by the same uniform
number U. X is the inverse distribution function at U. Among the U with n + X = threshold the upper
part keeps the partition, so that it is kept iff U >= 1 - pi(n). So both releases agree about the
names, and noise is drawn for kept partitions only.

Truncated symmetric geometric noise is the optimal primitive with noisy counts (Definitions 6-8 of
that paper): X has P[X = x] proportional to e**(-epsilon |x|) on -k, ..., k, and a partition with n
users is kept if n + X > k. Neighbours add or remove all records of one user, here one user of one
partition, so n changes by one. The distributions of n + X and n + 1 + X have ratios of at most
e**epsilon wherever both have mass. At each end only one of them has mass, P[X = k], and k is the
smallest for which this is at most delta. Thresholding is post-processing for n >= 1. A partition
that nobody has never appears, and one with a single user appears only if X = k, with probability at
most delta. If the formula for k gives a whole number before it is rounded up, the probabilities of
being kept are those of the optimal primitive.

**Intervals** for the numbers of users of named partitions are computed from their noisy counts
alone. With t for the threshold, the noisy count Y = n + X of a named partition has

    P_n[Y = y | named] = P[X = y - n] r(y) / pi(n),    r(y) = 1 for y > t, tie for y = t, 0 below

so that Y - n is not distributed as X. If an interval had its confidence over all partitions, named
or not, it would never contain the number of users of a partition that is far below the threshold
and named all the same. The interval here has the requested confidence given that the partition is
named, for every n that may be named. With 2 a = 1 - confidence it is

    C(y) = [low(y), y + c - 1]
    low(y) = the smallest n that may be named and has P_n[Y >= y | named] > a
    c = the smallest integer with P[X >= c] <= a

Coverage. n exceeds the upper end if Y <= n - c. As r does not fall, being named makes Y no smaller:
P_n[Y <= y | named] <= P[X <= y - n], which is P[X >= c] <= a at y = n - c.

The noise is log-concave, P[X = x]**2 >= P[X = x-1] P[X = x+1]. This holds for geometric noise,
truncated or not, and for the rounded Gaussian as the convolution of two log-concave functions
(Prekopa 1973). So P[X = y-n-1] / P[X = y-n] does not fall in y, and r(y) is the same for n and n+1.
Hence the distributions of Y, given that the partition is named, have a monotone likelihood ratio,
and P_n[Y >= y | named] does not fall in n. So n is below low(y) if and only if P_n[Y >= y | named]
<= a, and by the definition of a tail, such Y have probability at most a.

Both together: for every n, P_n[n is not in C(Y) | named] <= 2 a. Decisions about partitions are
independent, so this also holds given which others are named. The interval is computed from the
release, and costs no privacy.

Neither end falls as y grows. An n is left out only if enclosures prove that it may be left out, so
rounding widens intervals. Far above the threshold low(y) is computed at one y only, and grows as y
does: C(y) leaves out an n with P[X >= y-n] <= a pi(n). Since pi does not fall, C(y + 1) then leaves
out n + 1, and also the smallest n if C(y) does.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.decimals import Number, exact_fraction
from dp_transforms.mechanisms.discrete_noise import Extend, GeometricNoise, IntegerNoise
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    exactly,
    refine_until_decided,
    smallest_where,
)
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution

_LARGEST_BOUND = 2**60
"""The largest bound on noise, so that noisy counts and thresholds stay within 64 bits."""
_PRECISION = 256
_TIE_BITS = 40

CONFIDENCE = Fraction(19, 20)
_INTERVAL_PRECISION = 96
_FAR = 4
"""Above a noisy count of the threshold plus this many times c, hardly any noise was cut off."""
_MOST_NODES = 1 << 8
"""Lower ends are computed at about this many noisy counts, every 2**i-th. Each is used up to the
next one."""


@dataclass(frozen=True)
class ThresholdDistribution(KeepDistribution):
    """Defines pi(n) = P[n + X > threshold] + tie * P[n + X = threshold] for n >= smallest, else 0.

    Args:
      noise: the distribution of X.
      threshold: an integer.
      tie: a probability below 1.
      saturation: the smallest n with pi(n) = 1; None if the noise is not bounded.
      smallest: 1, or 0 for partitions with public names, which may appear without users.
    """

    noise: IntegerNoise
    threshold: int
    tie: Fraction = Fraction(0)
    saturation: int | None = None
    smallest: int = 1

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < self.smallest:
            return exactly(1)
        if self.saturation is not None and statistic >= self.saturation:
            return exactly(0)
        if statistic == self.threshold and 2 * self.tie == 1:
            # The sum P[X <= 0] + P[X <= -1] is exactly 1, which enclosures cannot show.
            return exactly(self.tie)
        # The noise is symmetric: P[X <= x] = P[X > -x - 1].
        drop = self.noise.above(statistic - self.threshold - 1, precision)
        if not self.tie:
            return drop
        below = self.noise.above(statistic - self.threshold, precision)
        return (1 - self.tie) * drop + self.tie * below

    def decide_with_counts(
        self, counts: IntArray, words: WordArray, extend: Extend
    ) -> tuple[BoolArray, IntArray]:
        """Returns whether each partition is kept, as ``decide`` does, and its noisy count.

        Returns:
          An array of bools, and an int64 array of noisy counts, which is 0 for a dropped partition.
          Both have the shape of ``counts``.
        """
        keep = self.decide(counts, words, extend)
        kept = np.flatnonzero(keep)
        noise = self.noise.from_words(words[kept], lambda i, bits: extend(int(kept[i]), bits))
        noisy = np.zeros(len(counts), dtype=np.int64)
        noisy[kept] = counts[kept] + noise
        return keep, noisy

    def count_intervals(
        self, noisy: IntArray, confidence: Number = CONFIDENCE
    ) -> tuple[IntArray, IntArray]:
        """Returns the ends of intervals for numbers of users. Given that its partition was
        selected, each interval has this confidence, for any number of users.

        Args:
          noisy: integer array of shape (n,): the noisy counts that were released.
          confidence: between 0 and 1.

        Returns:
          Lower and upper ends, int64 arrays of shape (n,).

        Raises:
          ValueError: the confidence is out of range, or a noisy count is so small that its
            partition would have been dropped.

        >>> from dp_transforms.mechanisms.selection import LaplaceSelection
        >>> distribution = LaplaceSelection(1, 1e-5).distribution
        >>> low, high = distribution.count_intervals(np.array([13, 20, 100]))
        >>> low.tolist(), high.tolist()
        ([1, 17, 97], [16, 23, 103])
        """
        exact = exact_fraction("confidence", confidence)
        if not 0 < exact < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
        noisy = np.asarray(noisy, dtype=np.int64)
        smallest_kept = self.threshold if self.tie else self.threshold + 1
        if noisy.size and noisy.min() < smallest_kept:
            raise ValueError(
                f"a noisy count is below the threshold {self.threshold} of this strategy"
            )
        beyond, shift, lows = _lower_ends(self, (1 - exact) / 2)
        places = np.minimum((noisy - self.threshold) >> shift, len(lows) - 1)
        end = self.threshold + ((len(lows) - 1) << shift)
        low = lows[places] + np.maximum(noisy - end, 0)
        return low, np.maximum(noisy + beyond - 1, self.smallest)


def calibrated_distribution(noise: IntegerNoise, probability: Any) -> ThresholdDistribution:
    """Returns the distribution with this noise that keeps a single user's partition with about this
    probability, which is positive and below 1/2. The probability is never exceeded, and the loss is
    at most 2**-40 of it."""
    bound = gmpy2.mpq(probability)
    # P[1 + X > threshold] = P[X > threshold - 1].
    threshold = smallest_where(lambda t: bool(noise.tail(t - 1, _PRECISION)[1] <= bound), 1)
    above = gmpy2.mpq(noise.tail(threshold - 1, _PRECISION)[1])
    equal = gmpy2.mpq(noise.probability(threshold - 1, _PRECISION)[1])
    units = int(gmpy2.floor((bound - above) / equal * (1 << _TIE_BITS)))
    tie = Fraction(min(units, (1 << _TIE_BITS) - 1), 1 << _TIE_BITS)
    return ThresholdDistribution(noise, threshold, tie)


@dataclass(frozen=True)
class TruncatedGeometricNoise(GeometricNoise):
    """Draws truncated symmetric geometric noise (k-TSGD): P[X = x] is proportional to
    e**(-epsilon |x|) for |x| <= k, and 0 elsewhere. epsilon and k are positive."""

    epsilon: Fraction
    k: int

    @cached_property
    def _decay(self) -> Decay:
        return Decay(self.epsilon)

    @property
    def _largest(self) -> int:
        return self.k


def truncated_geometric_noise(epsilon: Fraction, delta: Fraction) -> TruncatedGeometricNoise:
    """Returns the noise of the smallest k >= 1 with P[X = k] <= delta, for 0 < delta < 1.

    Raises:
      ValueError: k is above 2**60.
    """
    share = gmpy2.mpq(delta)

    def is_small(k: int) -> bool:
        noise = TruncatedGeometricNoise(epsilon, k)
        return refine_until_decided(lambda bits: noise.tail(k - 1, bits).is_at_most(share), 128)

    k = smallest_where(is_small, 1)
    if k > _LARGEST_BOUND:
        raise ValueError("noise of more than 2**60 users would be needed: raise epsilon or delta")
    return TruncatedGeometricNoise(epsilon, k)


@lru_cache(maxsize=64)
def _lower_ends(distribution: ThresholdDistribution, miss: Fraction) -> tuple[int, int, IntArray]:
    """Returns (c, shift, lows), where lows[i] is low(threshold + (i << shift)). Behind the last one
    low grows by as much as y does."""
    at_most = gmpy2.mpq(miss)

    def is_rare(c: int) -> bool:
        return bool(distribution.noise.tail(c - 1, _INTERVAL_PRECISION).upper <= at_most)

    beyond = smallest_where(is_rare, 1)
    # The last of these y must be so large that it leaves out the smallest n. Only then low grows by
    # as much as y from there on.
    span = _FAR * beyond + max(0, distribution.smallest - distribution.threshold)
    shift = max(0, (span // _MOST_NODES).bit_length())
    lows = [distribution.smallest]
    for i in range(1, -(-span >> shift) + 1):
        lows.append(_low(distribution, distribution.threshold + (i << shift), at_most, lows[-1]))
    return beyond, shift, np.array(lows, dtype=np.int64)


def _low(distribution: ThresholdDistribution, y: int, miss: Any, start: int) -> int:
    """Returns low(y) for a y above the threshold, searching from ``start`` on."""

    def is_left(n: int) -> bool:
        """Tells whether P_n[Y >= y | named] may exceed miss."""
        named = distribution.keep_enclosure(n, _INTERVAL_PRECISION)
        above = distribution.noise.above(y - n - 1, _INTERVAL_PRECISION)
        return bool(above.upper > (miss * named).lower)

    return smallest_where(is_left, start)
