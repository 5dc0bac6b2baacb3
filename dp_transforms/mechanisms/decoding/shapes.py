"""Describes lists by curves: how many partitions have at least j users, for every j."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray

FEW = 32
LEAST_VARIANCE = 1e-3
"""What a curve says of a number of partitions is never taken for certain."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve estimates the number c_j of partitions with at least j users, for every j >= 1.

    Attributes:
      values: rising integers from 1 on. Between two of them the curve is that of the larger one,
        and it is 0 behind the last.
      means: of c_j at the values.
      variances: of c_j at the values.
    """

    values: IntArray
    means: FloatArray
    variances: FloatArray

    def at(self, users: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns the means and the variances at several j."""
        places = np.searchsorted(self.values, users)
        return np.append(self.means, 0.0)[places], np.append(self.variances, 0.0)[places]


class Shape:
    """Gives the numbers of partitions of a list with at least j users, and its quantiles, smoothly.

    Between its points the curve is a straight line of logarithms. Of the FEW largest partitions,
    which say little of how others are distributed, it has points at every half octave of ranks
    alone. Behind the largest it goes on as it falls there.
    """

    def __init__(self, curve: Curve):
        means = np.minimum.accumulate(np.maximum(curve.means, 0))
        many = np.flatnonzero(means >= FEW)
        ranks = np.unique(np.floor(2 ** np.arange(2 * math.log2(FEW), -0.5, -0.5)))[::-1]
        last = np.searchsorted(-means, -(ranks - 0.5), side="right") - 1
        ranks, last = ranks[last >= 0], last[last >= 0]
        if not len(last):
            self._values, self._sizes, self._slope = np.zeros(1), np.log([0.5]), 1.0
            return
        values = np.concatenate([curve.values[many], curve.values[last] + 0.5]).astype(float)
        sizes = np.concatenate([means[many], ranks])
        # Strictly rising values and falling sizes.
        values = np.maximum.accumulate(values) * (1 + 1e-9 * np.arange(len(values)))
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
        """Returns how many partitions have at least so many users, any positive numbers."""
        logarithms = np.log(users)
        beyond = np.maximum(logarithms - self._values[-1], 0)
        sizes = np.interp(logarithms, self._values, self._sizes) - self._slope * beyond
        partitions: FloatArray = np.exp(sizes)
        return partitions

    def quantiles(self, ranks: FloatArray) -> FloatArray:
        """Returns the numbers of users at ranks, any positive numbers; 0.5 behind the last."""
        logarithms = np.log(ranks)
        beyond = np.maximum(self._sizes[-1] - logarithms, 0)
        values = np.interp(-logarithms, -self._sizes, self._values) + beyond / self._slope
        quantiles: FloatArray = np.where(logarithms > self._sizes[0], 0.5, np.exp(values))
        return quantiles


def nearest_of_sum(wanted: FloatArray, spread: FloatArray, total: float) -> FloatArray:
    """Returns the numbers nearest to those wanted, in squares over spreads, that are at least 0 and
    have a sum of ``total``.

    >>> nearest_of_sum(np.array([3.0, 1.0, 0.1]), np.array([2.0, 2.0, 2.0]), 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    ratio = wanted / spread
    order = np.argsort(-ratio, kind="stable")
    # With the first k positive, what they are lowered by is t times their spread.
    lowered = (np.cumsum(wanted[order]) - total) / np.cumsum(spread[order])
    count = int(np.count_nonzero(ratio[order] > lowered))
    nearest: FloatArray = np.maximum(wanted - lowered[max(count, 1) - 1] * spread, 0)
    return nearest
