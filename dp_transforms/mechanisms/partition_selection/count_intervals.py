"""Intervals for the numbers of users of named partitions, from their noisy counts alone.

A partition of n users has the noisy count Y = n + X, and is named if Y exceeds the threshold t, or
with the probability of the tie if Y equals it (``threshold_law``). Given that it is named, Y has

    P_n[Y = y | named] = P[X = y - n] k(y) / pi(n),    k(y) = 1 for y > t, tie for y = t, 0 below

so that few users who are named at all have a noisy count far above their number: y - n is then no
draw of X. An interval that is right for all partitions, named or not, holds the number of users of
a partition far below the threshold in none of the releases that name it. The interval here holds
it with the confidence asked for given that the partition is named, for every n that may be named.
With 2 a = 1 - confidence it is

    C(y) = [low(y), y + c - 1]
    low(y) = the smallest n that may be named and has P_n[Y >= y | named] > a
    c = the smallest integer with P[X >= c] <= a

Coverage. n exceeds the upper end if Y <= n - c. As k does not fall, being named makes Y no smaller:
P_n[Y <= y | named] <= P[X <= y - n], which is P[X >= c] <= a at y = n - c.

The noise is log-concave, P[X = x]**2 >= P[X = x-1] P[X = x+1]: geometric noise is, truncated or
not, and the rounded Gaussian as the convolution of two log-concave functions (Prekopa 1973). So P[X
= y-n-1] / P[X = y-n] does not fall in y, and k(y) is the same for n and n+1: the laws of Y given
that it is named have a monotone likelihood ratio, and P_n[Y >= y | named] does not fall in n. So n
is below low(y) if and only if P_n[Y >= y | named] <= a, and by the definition of a tail, the Y for
which that is so have probability at most a.

Both together: for every n, P_n[n is not in C(Y) | named] <= 2 a. Decisions about partitions are
independent, so this is so given which others are named, too. One interval is meant: of a hundred
that hold with 95%, about five do not.

Neither end falls as y grows. An n is left out only if enclosures prove that it may be, so that
rounding widens intervals. Far above the threshold low(y) is computed once: an n with P[X >= y-n] <=
a pi(n) is left out, and pi does not fall, so that y + 1 leaves out n + 1.

All of it follows from what is released and from public parameters, and costs no privacy.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import Number, exact_fraction
from dp_transforms.mechanisms.enclosure import Enclosure, smallest_where
from dp_transforms.mechanisms.partition_selection.threshold_law import ThresholdLaw

CONFIDENCE = Fraction(19, 20)

_PRECISION = 96
_FAR = 4
"""Times c above the threshold, noisy counts are hardly ever cut off."""
_MOST_NODES = 1 << 8
"""Up to there ends are computed at every 2**i-th noisy count, and hold for those after it."""


def count_intervals(
    law: ThresholdLaw, noisy: IntArray, confidence: Number = CONFIDENCE
) -> tuple[IntArray, IntArray]:
    """The ends of intervals that hold the numbers of users, each with this confidence.

    Args:
      law: what named the partitions.
      noisy: integer array of shape (n,): the noisy counts that were released.
      confidence: between 0 and 1.

    Returns:
      Lower and upper ends, int64 arrays of shape (n,).

    Raises:
      ValueError: the confidence is out of range, or a noisy count is one that the law drops.

    >>> from dp_transforms.mechanisms.partition_selection import LaplaceSelection
    >>> low, high = count_intervals(LaplaceSelection(1, 1e-5).law, np.array([13, 20, 100]))
    >>> low.tolist(), high.tolist()
    ([1, 17, 97], [16, 23, 103])
    """
    exact = exact_fraction("confidence", confidence)
    if not 0 < exact < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    noisy = np.asarray(noisy, dtype=np.int64)
    if noisy.size and noisy.min() < law.threshold + (not law.tie):
        raise ValueError(f"a noisy count is below the threshold {law.threshold} of this strategy")
    beyond, shift, lows = _lower_ends(law, (1 - exact) / 2)
    places = np.minimum((noisy - law.threshold) >> shift, len(lows) - 1)
    end = law.threshold + ((len(lows) - 1) << shift)
    low = lows[places] + np.maximum(noisy - end, 0)
    return low, np.maximum(noisy + beyond - 1, law.smallest)


@lru_cache(maxsize=64)
def _lower_ends(law: ThresholdLaw, miss: Fraction) -> tuple[int, int, IntArray]:
    """(c, shift, low(y) for y = threshold + (i << shift)); after the last, low grows as y does."""
    at_most = gmpy2.mpq(miss)

    def is_rare(c: int) -> bool:
        return bool(law.noise.tail(c - 1, _PRECISION).upper <= at_most)

    beyond = smallest_where(is_rare, 1)
    span = _FAR * beyond
    shift = max(0, (span // _MOST_NODES).bit_length())
    lows = [law.smallest]
    for i in range(1, -(-span >> shift) + 1):
        lows.append(_low(law, law.threshold + (i << shift), at_most, lows[-1]))
    return beyond, shift, np.array(lows, dtype=np.int64)


def _low(law: ThresholdLaw, y: int, miss: Any, start: int) -> int:
    """low(y) for a y above the threshold, from ``start`` on."""

    def is_left(n: int) -> bool:
        """Tells whether P_n[Y >= y | named] <= miss is not certain."""
        tie, gap = gmpy2.mpq(law.tie), law.threshold - n
        named = (1 - tie) * _above(law, gap) + tie * _above(law, gap - 1)
        return bool(_above(law, y - n - 1).upper > (miss * named).lower)

    return smallest_where(is_left, start)


def _above(law: ThresholdLaw, x: int) -> Enclosure:
    """(lo, hi) around P[X > x]."""
    if x >= 0:
        return law.noise.tail(x, _PRECISION)
    return 1 - law.noise.tail(-x - 1, _PRECISION)
