"""Cuts intervals of a release to what was declared or enforced, and shows contradictions.

If the declaration is true, the private number is within it. So an interval that holds the number
still does when it is cut to the declaration, and cutting costs no confidence. The same holds for a
bound that was enforced on the data, such as that on degrees. If noisy numbers are far outside of a
declaration, it is false, and the release says so. This follows from the release alone, and costs no
privacy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    MODEL,
    SHARE,
    SMALL,
    SMALL_SHARE,
    SUM,
    TOTAL,
    Answers,
    Estimate,
    ModelIntervals,
    RateCurve,
    ReleaseIntervals,
)

_FALSE_ALARM = 1e-6
"""A true declaration is called false with at most this probability."""


class Declared(NamedTuple):
    """What was declared about a list, or enforced.

    Attributes:
      nodes: for a graph, the number of its nodes: there are at most so many partitions, and each of
        them has fewer users.
      max_total: the largest possible sum of all frequencies.
      degree_bound: the largest possible frequency. It is enforced, and so never false.

    >>> from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
    >>> Declared(nodes=10).most(COLUMNS, 1), Declared(nodes=10).most(ROWS, 1)
    (10, 9)
    >>> Declared(max_total=12).most(ROWS, 5)
    2
    >>> Declared(degree_bound=3).most(ROWS, 1), Declared(degree_bound=3).most(COLUMNS, 4)
    (3, 0)
    """

    nodes: float = math.inf
    max_total: float = math.inf
    degree_bound: float = math.inf

    @property
    def most_users(self) -> float:
        """Returns the largest possible frequency, before the total is looked at."""
        return min(self.nodes - 1, self.degree_bound)

    def most(self, name: str, index: int) -> float:
        """Returns the largest value that the declaration allows for a number, which has a name and
        an index as in ``Answers``. It is infinite if the declaration says nothing about it."""
        nodes, total = self.nodes, self.max_total
        if name in (SHARE, SMALL_SHARE):
            return 1.0
        if name in (TOTAL, SMALL):
            return min(nodes * self.most_users, total)
        if name == SUM:
            return min(min(index, nodes) * self.most_users, total)
        if name not in (ROWS, COLUMNS):
            return math.inf
        # The first index rows, or columns, are each at least as long as this one.
        most = total if total == math.inf else total // index
        if name == ROWS:
            return min(self.most_users if index <= nodes else 0, most)
        return min(nodes if index <= self.most_users else 0, most)

    def cut(self, name: str, index: int, low: float, high: float) -> tuple[float, float]:
        """Returns the ends of an interval for a number, cut to the largest value allowed."""
        most = self.most(name, index)
        return min(low, most), min(high, most)


class DeclaredModel(Answers):
    """Cuts the intervals of the decoder's model to what was declared."""

    _kind = MODEL

    def __init__(self, model: ModelIntervals, declared: Declared):
        self.released = model.released
        self._model, self._declared = model, declared

    def alpha_guesswork_bits(self, alpha: Number, confidence: float = CONFIDENCE) -> Estimate:
        return self._model.alpha_guesswork_bits(alpha, confidence)

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        ends = self._model._ends(name, index, value, confidence)
        return self._declared.cut(name, index, *ends)


class DeclaredIntervals(ReleaseIntervals):
    """Cuts the intervals of a release to what was declared.

    Attributes:
      contradicts: whether the release shows that a declaration is false. Over the noise, this is
        so for a true declaration with probability 1e-6 at most.
    """

    def __init__(self, intervals: ReleaseIntervals, declared: Declared):
        self.released = intervals.released
        self._intervals, self._declared = intervals, declared
        of_each = 1 - _FALSE_ALARM / 3
        may_be_false = declared._replace(degree_bound=math.inf)
        self.contradicts = (
            intervals.number_of_partitions(of_each).low > may_be_false.most(COLUMNS, 1)
            or intervals.frequency_at(1, of_each).low > may_be_false.most(ROWS, 1)
            or intervals.total(of_each).low > may_be_false.most(TOTAL, 0)
        )

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        ends = self._intervals._ends(name, index, value, confidence)
        return self._declared.cut(name, index, *ends)

    def bands(self, confidence: float = CONFIDENCE) -> tuple[FrequencyList, FrequencyList]:
        low, high = self._intervals.bands(confidence)
        return self._cut(low), self._cut(high)

    def _cut(self, band: FrequencyList) -> FrequencyList:
        """Cuts a list, at all ranks, to what the number of nodes and the largest frequency allow. A
        largest total, which says less at a rank, is left aside."""
        if self._declared.most_users == math.inf:
            return band
        last_ranks = band.multiplicities.cumsum()
        if self._declared.nodes < math.inf:
            last_ranks = np.minimum(last_ranks, int(self._declared.nodes))
        kept = np.diff(last_ranks, prepend=0)
        # Frequencies that are cut to the same number become one run. They are negative, to fall.
        cut = -np.minimum(band.frequencies, int(self._declared.most_users))
        values, runs = np.unique(cut, return_inverse=True)
        multiplicities = np.bincount(runs, kept, len(values)).astype(np.int64)
        remaining = (multiplicities > 0) & (values < 0)
        return FrequencyList(-values[remaining], multiplicities[remaining])

    def _rate_curve(self, confidence: float) -> RateCurve:
        return self._intervals._rate_curve(confidence)
