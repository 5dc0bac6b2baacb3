"""Marginals and bias of the geometric mechanism at a list, in closed form; as private as the list.

With F the Young diagram of the list f, a cell b outside F is in the release with probability
q**k / (1 + q), k = how many cells must be added to F to make b one of them. A cell inside is not in
it with probability q**k / (1 + q), k = how many must go (see ``release_law.GeometricLaw``). In the
a-th row of the run of frequency v, the n-th cell beyond v needs

    k = a n + sum over s = 1..n of (ranks in front of the run with a frequency below v + s),

and the n-th cell from the end, in the a-th row from the run's end,

    k = a n + sum over s = 1..n of (ranks behind the run with a frequency of at least v - s + 1).

Sums over rows are geometric series. Plain float64.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.laws.marginals import ListMarginals

_NEGLIGIBLE = 1e-18


class GeometricMarginals(ListMarginals):
    """The marginals of the geometric mechanism.

    Args:
      frequency_list: f.
      rate: c = -ln q, at least ln 3.

    >>> found = GeometricMarginals(FrequencyList([100, 1], [1, 10**6]), rate=math.log(3))
    >>> round(found.law_of_frequency(1).probability(101), 6)
    0.166667
    >>> GeometricMarginals(FrequencyList([9, 3], [1, 4]), 2).mean_differences([1, 5]).round(6)
    array([1.0e-06, 8.5e-05])
    """

    def __init__(self, frequency_list: FrequencyList, rate: float):
        super().__init__(frequency_list, rate)
        self._starts = np.append(0, self._ends)
        self._sizes = np.append(frequency_list.multiplicities.astype(np.float64), 0)
        self._all_rows = np.append(self._sizes[:-1], np.inf)
        # Further from f in a row the probabilities are negligible.
        reach = 1 + math.ceil(-math.log(_NEGLIGIBLE) / rate)
        self._steps = np.arange(1, reach + 1)[:, None]
        # The probabilities of a run's cells, without the factor q**(a n) of the row.
        self._beyond, self._within = (
            np.exp(-rate * costs) / (1 + math.exp(-rate)) for costs in self._row_costs()
        )

    @property
    def expected_l1(self) -> float:
        """E||x - f||_1, the sum of all cells' probabilities."""
        cells = (self._beyond + self._within) * self._row_sums(self._all_rows)
        return float(cells.sum())

    @property
    def total_difference(self) -> float:
        return float(self._moved(np.arange(len(self._values)), self._all_rows).sum())

    def _sum_differences(self, limits: IntArray) -> FloatArray:
        whole = np.append(0.0, np.cumsum(self._moved(np.arange(len(self._ends)), self._sizes[:-1])))
        at = np.searchsorted(self._ends, limits)
        return whole[at] + self._moved(at, (limits - self._starts[at]).astype(np.float64))

    def _tails(self, rank: int, run: int) -> tuple[FloatArray, FloatArray]:
        # The run's row a, from its start and from its end; the zeros behind the list have no end.
        front, back = rank - self._starts[run], self._starts[run + 1 :][:1] - rank + 1
        rate, steps = self._rate, self._steps[:, 0]
        return (
            self._beyond[:, run] * np.exp(-rate * front * steps),
            self._within[:, run] * np.exp(-rate * back * steps) if len(back) else back,
        )

    def _moved(self, runs: IntArray, rows: FloatArray) -> FloatArray:
        """The sum of E[x_i] - f_i over the first rows of some runs."""
        behind = np.maximum(self._sizes[runs] - rows, 0)
        added = self._beyond[:, runs]
        removed = self._within[:, runs] * np.exp(-self._rate * self._steps * behind)
        sums: FloatArray = ((added - removed) * self._row_sums(rows)).sum(axis=0)
        return sums

    def _row_sums(self, rows: FloatArray) -> FloatArray:
        """The sum of q**(a n) over a = 1..rows, for every n; rows may be infinite."""
        exponents = -self._rate * self._steps
        found: FloatArray = np.exp(exponents) * np.expm1(exponents * rows) / np.expm1(exponents)
        return found

    def _row_costs(self) -> tuple[FloatArray, FloatArray]:
        """k - a n for the n-th cell beyond each run, and for the n-th from its end: two arrays of
        shape (steps, runs), where the zeros behind the list are a run too; inf without a cell."""
        values, ends, steps = self._values, self._starts, self._steps

        def at_least(levels: IntArray) -> IntArray:
            return ends[np.searchsorted(-values[:-1], -levels, side="right")]

        in_front = ends - at_least(values + steps)
        behind = at_least(values - steps + 1) - np.append(ends[1:], ends[-1])
        beyond = np.cumsum(in_front.astype(np.float64), axis=0)
        within = np.cumsum(behind.astype(np.float64), axis=0)
        return beyond, np.where(steps <= values, within, np.inf)
