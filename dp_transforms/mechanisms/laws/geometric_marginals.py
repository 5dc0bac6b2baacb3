"""Marginals and bias of the geometric mechanism at a list, in closed form.

As private as the list that they are of. See ``geometric_sums`` for the probabilities of single
cells. Plain float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.geometric_sums import reach, row_costs, row_sums
from dp_transforms.mechanisms.laws.integer_law import IntegerLaw
from dp_transforms.mechanisms.laws.marginals import conjugate


class GeometricMarginals:
    """The distribution of single frequencies of x, and the bias E[x_i] - f_i, at a private list f.

    Args:
      frequency_list: f.
      rate: c = -ln q, at least ln 3.

    >>> found = GeometricMarginals(FrequencyList([100, 1], [1, 10**6]), rate=math.log(3))
    >>> round(found.law_of_frequency(1).probability(101), 6)
    0.166667
    """

    def __init__(self, frequency_list: FrequencyList, rate: float):
        self._frequency_list, self._rate = frequency_list, rate
        self._ends = np.cumsum(frequency_list.multiplicities)
        self._starts = np.append(0, self._ends)
        self._sizes = np.append(frequency_list.multiplicities.astype(np.float64), 0)
        self._values = np.append(frequency_list.frequencies, 0)
        self._steps = np.arange(1, reach(rate) + 1)[:, None]
        # The probabilities of a run's cells, without the factor q**(a n) of the row.
        self._beyond, self._within = (
            np.exp(-rate * costs) / (1 + math.exp(-rate))
            for costs in row_costs(frequency_list, len(self._steps))
        )

    def mean_differences(self, ends: Sequence[int] | IntArray) -> FloatArray:
        """The bias by ranges of ranks: the mean of E[x_i] - f_i over each range.

        Args:
          ends: the last ranks of consecutive ranges, ascending. The first range starts at rank 1,
            and ranges may end beyond the last item.

        Raises:
          ValueError: ends are not positive and strictly ascending.

        >>> GeometricMarginals(FrequencyList([9, 3], [1, 4]), 2).mean_differences([1, 5]).round(6)
        array([1.0e-06, 8.5e-05])
        """
        limits = np.append(0, np.asarray(ends, dtype=np.int64))
        if (np.diff(limits) <= 0).any():
            raise ValueError("ends must be positive and strictly ascending ranks")
        whole = np.append(0.0, np.cumsum(self._moved(np.arange(len(self._ends)), self._sizes[:-1])))
        at = np.searchsorted(self._ends, limits)
        sums = whole[at] + self._moved(at, (limits - self._starts[at]).astype(np.float64))
        found: FloatArray = np.diff(sums) / np.diff(limits)
        return found

    @property
    def total_difference(self) -> float:
        """E[sum x] - sum f."""
        rows = np.append(self._sizes[:-1], np.inf)
        return float(self._moved(np.arange(len(rows)), rows).sum())

    def law_of_frequency(self, rank: int) -> IntegerLaw:
        """The distribution of x_rank, for a rank from 1; it may be beyond the last item.

        Raises:
          ValueError: the rank is not positive.
        """
        if rank < 1:
            raise ValueError(f"rank must be positive, got {rank}")
        run = int(np.searchsorted(self._ends, rank))
        row = rank - int(self._starts[run])
        own = int(self._values[run])
        steps = self._steps[:, 0]
        # P(x >= own + 1), P(x >= own + 2), ... and P(x <= own - 1), ..., P(x <= 0).
        above = np.append(self._beyond[:, run] * np.exp(-self._rate * row * steps), 0.0)
        below = np.zeros(1)
        if own:
            row = int(self._ends[run]) - rank + 1
            left = self._within[:, run] * np.exp(-self._rate * row * steps)
            below = np.append(left[:own], 0.0)
        probabilities = np.concatenate(
            [-np.diff(below)[::-1], [1 - above[0] - below[0]], -np.diff(above)]
        )
        return IntegerLaw(own - len(below) + 1, probabilities)

    def law_of_distinct(self) -> IntegerLaw:
        """The distribution of how many items x has."""
        return GeometricMarginals(conjugate(self._frequency_list), self._rate).law_of_frequency(1)

    def _moved(self, runs: IntArray, rows: FloatArray) -> FloatArray:
        """The sum of E[x_i] - f_i over the first rows of some runs."""
        behind = np.maximum(self._sizes[runs] - rows, 0)
        added = self._beyond[:, runs]
        removed = self._within[:, runs] * np.exp(-self._rate * self._steps * behind)
        sums: FloatArray = ((added - removed) * row_sums(self._rate, self._steps, rows)).sum(axis=0)
        return sums
