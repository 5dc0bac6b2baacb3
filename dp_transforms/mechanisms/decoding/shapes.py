"""Estimates how many partitions of a list have at least j users, for every j: a curve."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray

FEW = 32  # The number of largest partitions that a shape smooths.
LEAST_VARIANCE = 1e-3
"""Keeps variances above 0, so that no estimate of a number of partitions counts as certain."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve estimates the number c_j of partitions with at least j users, for every j >= 1.

    Attributes:
      values: rising integers from 1 on. At a j between two values, mean and variance are those of
        the larger value. At a j above the last value they are 0.
      means: the mean of c_j at each value j.
      variances: the variance of c_j at each value j.
      borrowed: at each value j, the part of the standard deviation that comes from a borrowed
        shape; 0 everywhere by default. Groups that borrow from one parent may all err in the same
        direction by this part.
    """

    values: IntArray
    means: FloatArray
    variances: FloatArray
    borrowed: FloatArray | None = None

    def at(self, users: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns the mean and the variance of c_j for each j of ``users``."""
        places = np.searchsorted(self.values, users)
        return np.append(self.means, 0.0)[places], np.append(self.variances, 0.0)[places]

    def borrowed_at(self, users: IntArray) -> FloatArray:
        """Returns ``borrowed`` for each j of ``users``."""
        if self.borrowed is None:
            return np.zeros(len(users))
        part: FloatArray = np.append(self.borrowed, 0.0)[np.searchsorted(self.values, users)]
        return part

    def at_most(self, partitions: int) -> Curve:
        """Returns the curve with no mean above this number of partitions."""
        means = np.minimum(self.means, partitions)
        return Curve(self.values, means, self.variances, self.borrowed)


class Shape:
    """A smooth version of a curve: how many partitions have at least x users, for any x > 0, and
    how many users the partition of a rank has.

    Between the points of the curve, the logarithm of the number of partitions is linear in log x.
    The FEW largest partitions say little about how others are distributed. So among them only ranks
    at distances of half an octave (1, 2, 4, 5, 8, 11, ...) are points. Above the largest partition
    the line goes on with the slope that it has before, at least 1.
    """

    def __init__(self, curve: Curve):
        means = np.minimum.accumulate(np.maximum(curve.means, 0))
        many = np.flatnonzero(means >= FEW)
        ranks = np.unique(np.floor(2 ** np.arange(2 * math.log2(FEW), -0.5, -0.5)))[::-1]
        # The last values at which the curve still rounds to each rank.
        last = np.searchsorted(-means, -(ranks - 0.5), side="right") - 1
        ranks, last = ranks[last >= 0], last[last >= 0]
        if not len(last):
            self._values, self._sizes, self._slope = np.zeros(1), np.log([0.5]), 1.0
            return
        values = np.concatenate([curve.values[many], curve.values[last] + 0.5]).astype(float)
        sizes = np.concatenate([means[many], ranks])
        # Strictly rising values and falling sizes. Ranks with one value are points just below it.
        # So at the value itself there is the size of the last of them, and not of the first.
        values = np.maximum.accumulate(values) * (1 - 1e-9 * np.arange(len(values), 0, -1))
        sizes = np.minimum.accumulate(sizes) * (1 - 1e-9 * np.arange(len(sizes)))
        self._values, self._sizes = np.log(values), np.log(sizes)
        before = max(len(values) - 4, 0)
        fall = self._sizes[before] - self._sizes[-1]
        rise = max(float(self._values[-1] - self._values[before]), 1e-3)
        self._slope = max(1.0, float(fall) / rise)

    @property
    def partitions(self) -> float:
        """Returns the number of partitions."""
        return float(np.exp(self._sizes[0]))

    def sizes(self, users: FloatArray) -> FloatArray:
        """Returns for each positive number how many partitions have at least so many users."""
        logarithms = np.log(users)
        beyond = np.maximum(logarithms - self._values[-1], 0)
        sizes = np.interp(logarithms, self._values, self._sizes) - self._slope * beyond
        partitions: FloatArray = np.exp(sizes)
        return partitions

    def quantiles(self, ranks: FloatArray) -> FloatArray:
        """Returns the number of users of the partition at each rank; ranks are any positive
        numbers.

        After the last partition it is 0.5.
        """
        logarithms = np.log(ranks)
        beyond = np.maximum(self._sizes[-1] - logarithms, 0)
        values = np.interp(-logarithms, -self._sizes, self._values) + beyond / self._slope
        quantiles: FloatArray = np.where(logarithms > self._sizes[0], 0.5, np.exp(values))
        return quantiles


def nearest_within(
    wanted: FloatArray, spread: FloatArray, total: float, highest: FloatArray
) -> FloatArray:
    """Returns the numbers x with the sum ``total`` that minimise sum((x - wanted)^2 / spread).

    Each x is at least 0 and at most its number in ``highest``. If these have no larger sum than the
    total, they are returned.

    For some t, they are wanted - t spread, clipped. Their sum falls in t and is linear between the
    t at which a number meets 0 or its highest value. A binary search finds the two such t between
    which the sum is the total.

    >>> nearest_within(np.array([3.0, 1.0]), np.ones(2), 6.0, np.array([3.5, 9.0])).tolist()
    [3.5, 2.5]
    """
    if highest.sum() <= total:
        return highest

    def at(multiplier: float) -> FloatArray:
        clipped: FloatArray = np.minimum(np.maximum(wanted - multiplier * spread, 0), highest)
        return clipped

    corners = np.unique(np.concatenate([(wanted - highest) / spread, wanted / spread]))
    # At the first corner the sum is that of the highest values, and at the last one it is 0.
    after = bisect.bisect_left(
        range(len(corners) - 1),
        True,
        key=lambda place: bool(at(float(corners[place])).sum() <= total),
    )
    before = max(after - 1, 0)
    low, high = at(float(corners[before])), at(float(corners[after]))
    fall = low.sum() - high.sum()
    part = (low.sum() - total) / fall if fall > 0 else 0.0
    nearest: FloatArray = low + part * (high - low)
    return nearest


def nearest_of_sum(wanted: FloatArray, spread: FloatArray, total: float) -> FloatArray:
    """Returns the numbers x >= 0 with the sum ``total`` that minimise sum((x - wanted)^2 / spread).

    For some t, they are max(wanted - t spread, 0). So the positive ones are those with the largest
    wanted / spread. After a sort by this ratio, t and their number are read off cumulative sums.

    >>> nearest_of_sum(np.array([3.0, 1.0, 0.1]), np.array([2.0, 2.0, 2.0]), 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    ratio = wanted / spread
    order = np.argsort(-ratio, kind="stable")
    # The t that leads to the total if the first k numbers in this order are positive, for each k.
    multipliers = (np.cumsum(wanted[order]) - total) / np.cumsum(spread[order])
    count = int(np.count_nonzero(ratio[order] > multipliers))
    nearest: FloatArray = np.maximum(wanted - multipliers[max(count, 1) - 1] * spread, 0)
    return nearest
