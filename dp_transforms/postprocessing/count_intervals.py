"""Intervals of the numbers of users of partitions that were named with noisy counts.

A partition with n users is named if y = n + X exceeds a threshold, see ``threshold_law``. So the
noise of those that are named is mostly above zero near the threshold, and y plus or minus a
quantile of X would miss many small n. The test of n is therefore of Y given that the partition was
named, at n users: n is kept unless P[Y >= y | n] or P[Y <= y | n] is at most half the failure
probability. The interval holds n with the confidence for each partition given that it is named,
whatever n is (Fithian, Sun and Taylor, 2014, "Optimal inference after model selection").

Post-processing: no privacy cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, FloatArray, IntArray
from dp_transforms.mechanisms.partition_selection import NoisyCountStrategy
from dp_transforms.postprocessing.estimates import failure_probability

_ROUNDING = 1 - 1e-9


def count_intervals(
    strategy: NoisyCountStrategy, noisy_counts: IntArray, confidence: float = 0.95
) -> tuple[IntArray, IntArray]:
    """Bounds on the numbers of users of named partitions, which are 1 at least.

    Args:
      strategy: named them; partitions that were public before have other intervals.
      noisy_counts: int64 array of shape (n,).
      confidence: of each interval by itself.

    Returns:
      Lower and upper bounds, int64 arrays of shape (n,).

    Raises:
      ValueError: confidence is not between 0 and 1.

    >>> from dp_transforms.mechanisms.partition_selection import LaplaceSelection
    >>> low, high = count_intervals(LaplaceSelection(1, 1e-5), np.array([13, 60]))
    >>> low.tolist(), high.tolist()
    ([1, 57], [16, 63])
    """
    failure = failure_probability(confidence) / 2 * _ROUNDING
    values, places = np.unique(noisy_counts, return_inverse=True)
    hidden = strategy.pre_threshold - 1
    shifted = values - hidden
    tails = _Tails(strategy.law, failure)
    reach = tails.reach
    low = _smallest(lambda n: tails.at_least(shifted, n) > failure, shifted - reach, shifted)
    # The largest n that is kept is before the smallest that is not. y itself always counts as kept.
    fails = _smallest(lambda n: tails.at_most(shifted, n) <= failure, shifted + 1, shifted + reach)
    # What is named has pre_threshold users at least.
    ends = np.maximum(low, 1) + hidden, np.maximum(fails - 1, 1) + hidden
    return ends[0][places], ends[1][places]


class _Tails:
    """P[X > x] of a law's noise as floats, and what follows for a noisy count that was named."""

    def __init__(self, law: Any, failure: float):
        self._law = law
        self._table = np.zeros(0)
        self._grow(law.threshold + 2)
        # Of n = 1 a partition is named with the least probability, over which tails are taken.
        while self._table[-1] > failure * self._kept(np.array([1]))[0] / 16:
            self._grow(2 * len(self._table))
        self.reach = int(np.count_nonzero(self._table > failure / 2)) + law.threshold + 2

    def _grow(self, size: int) -> None:
        noise = self._law.noise
        more = [float(noise.tail(x, 128)[1]) for x in range(len(self._table), size)]
        self._table = np.append(self._table, more)

    def _above(self, x: IntArray) -> FloatArray:
        """P[X > x], by symmetry for negative x too."""
        far = len(self._table) - 1
        tail = np.where(
            np.abs(x) > far, 0.0, self._table[np.clip(np.where(x < 0, -x - 1, x), 0, far)]
        )
        return np.where(x < 0, 1 - tail, tail)

    def _kept(self, n: IntArray) -> FloatArray:
        at = self._law.threshold - n
        strictly = self._above(at)
        return strictly + float(self._law.tie) * (self._above(at - 1) - strictly)

    def at_least(self, y: IntArray, n: IntArray) -> FloatArray:
        """P[Y >= y | named], where n users are."""
        n = np.maximum(n, 1)
        return np.where(y > self._law.threshold, self._above(y - n - 1) / self._kept(n), 1.0)

    def at_most(self, y: IntArray, n: IntArray) -> FloatArray:
        """P[Y <= y | named], where n users are."""
        n = np.maximum(n, 1)
        return 1 - self._above(y - n) / self._kept(n)


def _smallest(holds: Any, low: IntArray, high: IntArray) -> IntArray:
    """The smallest n from low to high for which a monotone condition holds, for each of them; high
    where it does not before."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        found: BoolArray = holds(middle)
        high = np.where(found, middle, high)
        low = np.where(found | (low >= high), low, middle + 1)
    return high
