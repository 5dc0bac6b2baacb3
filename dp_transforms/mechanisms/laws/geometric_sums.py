"""The cells that the geometric mechanism adds and removes, in closed form.

With F the Young diagram of the list f, a cell b outside F is in the release with probability
q**k / (1 + q), k = how many cells must be added to F to make b one of them. A cell inside is not in
it with probability q**k / (1 + q), k = how many must go (see ``release_law.GeometricLaw``). In the
a-th row of the run of frequency v, the n-th cell beyond v needs

    k = a n + sum over s = 1..n of (ranks in front of the run with a frequency below v + s),

and the n-th cell from the end, in the a-th row from the run's end,

    k = a n + sum over s = 1..n of (ranks behind the run with a frequency of at least v - s + 1).

Sums over rows are geometric series. Plain floats, and as private as the list.
"""

from __future__ import annotations

import math

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList

_NEGLIGIBLE = 1e-18


def reach(rate: float) -> int:
    """So many cells from f in a row the probabilities are negligible."""
    return 1 + math.ceil(-math.log(_NEGLIGIBLE) / rate)


def row_costs(frequency_list: FrequencyList, reach: int) -> tuple[FloatArray, FloatArray]:
    """k - a n for the n-th cell beyond each run, and for the n-th from its end.

    Args:
      frequency_list: f.
      reach: n goes from 1 to this.

    Returns:
      (beyond, within), each of shape (reach, runs), where the zeros behind the list are a run too;
      inf where there is no such cell.
    """
    values = np.append(frequency_list.frequencies, 0)
    ends = np.append(0, np.cumsum(frequency_list.multiplicities))
    steps = np.arange(1, reach + 1)[:, None]

    def at_least(levels: IntArray) -> IntArray:
        found: IntArray = ends[np.searchsorted(-values[:-1], -levels, side="right")]
        return found

    in_front = ends - at_least(values + steps)
    behind = at_least(values - steps + 1) - np.append(ends[1:], ends[-1])
    beyond = np.cumsum(in_front.astype(np.float64), axis=0)
    within = np.cumsum(behind.astype(np.float64), axis=0)
    return beyond, np.where(steps <= values, within, np.inf)


def row_sums(rate: float, steps: IntArray, rows: FloatArray) -> FloatArray:
    """The sum of q**(a n) over a = 1..rows; rows may be infinite."""
    exponents = -rate * steps
    found: FloatArray = np.exp(exponents) * np.expm1(exponents * rows) / np.expm1(exponents)
    return found


def expected_distance(frequency_list: FrequencyList, rate: float) -> float:
    """E||x - f||_1, the sum of all cells' probabilities.

    Args:
      frequency_list: f.
      rate: c = -ln q, at least ln 3.
    """
    most = reach(rate)
    steps = np.arange(1, most + 1)[:, None]
    rows = np.append(frequency_list.multiplicities.astype(np.float64), np.inf)
    costs = sum(np.exp(-rate * cost) for cost in row_costs(frequency_list, most))
    total = (costs * row_sums(rate, steps, rows)).sum()
    return float(total / (1 + math.exp(-rate)))
