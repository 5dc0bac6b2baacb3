"""Describes lists by curves: how many partitions have at least j users, for every j."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray

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
    """Gives the quantiles of a list whose curve is another one's, times a share p of it.

    Between its points the curve is a straight line of logarithms, and it falls strictly.
    """

    def __init__(self, curve: Curve):
        means = np.minimum.accumulate(np.maximum(curve.means, 0))
        kept = means >= 0.5
        values, sizes = curve.values[kept].astype(float), means[kept]
        if not len(values):
            values, sizes = np.array([1.0]), np.array([0.5])
        # A curve reaches from the first place of each size to the next: take the middle of runs.
        values = np.append(values, values[-1] + 1)
        sizes = np.append(sizes, min(0.25, sizes[-1] / 2))
        sizes = sizes * (1 - 1e-9 * np.arange(len(sizes)))
        self._values, self._sizes = np.log(values), np.log(sizes)

    @property
    def partitions(self) -> float:
        """Returns the number of partitions."""
        return float(np.exp(self._sizes[0]))

    def sizes(self, users: FloatArray) -> FloatArray:
        """Returns how many partitions have at least so many users, any positive numbers."""
        sizes: FloatArray = np.exp(np.interp(np.log(users), self._values, self._sizes, right=-50.0))
        return sizes

    def quantiles(self, ranks: FloatArray) -> FloatArray:
        """Returns the numbers of users at ranks, any positive numbers; 0.5 behind the last."""
        values: FloatArray = np.exp(
            np.interp(-np.log(ranks), -self._sizes, self._values, left=self._values[0])
        )
        return np.where(np.log(ranks) > self._sizes[0], 0.5, values)


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
