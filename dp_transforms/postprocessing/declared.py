"""Cuts intervals of a release to what was declared about the list, and shows contradictions.

If the declaration is true, the private number is within it. So an interval that holds the number
still does when it is cut to the declaration, and cutting costs no confidence. If noisy numbers are
far outside of the declaration, it is false, and the release says so. This follows from the release
alone, and costs no privacy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.postprocessing.estimates import (
    SHARE,
    SUM,
    TOTAL,
    RateCurve,
    ReleaseIntervals,
)

_FALSE_ALARM = 1e-6
"""A true declaration is called false with at most this probability."""


class Declared(NamedTuple):
    """What was declared about a list.

    Attributes:
      nodes: for a graph, the number of its nodes: there are at most so many partitions, and each of
        them has fewer users.
      max_total: the largest possible sum of all frequencies.

    >>> from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
    >>> Declared(nodes=10).most(COLUMNS, 1), Declared(nodes=10).most(ROWS, 1)
    (10, 9)
    >>> Declared(max_total=12).most(ROWS, 5)
    2
    """

    nodes: float = math.inf
    max_total: float = math.inf

    def most(self, name: str, index: int) -> float:
        """Returns the largest value that the declaration allows for a number, which has a name and
        an index as in ``Answers``."""
        nodes, total = self.nodes, self.max_total
        if name == SHARE:
            return 1.0
        if name == TOTAL:
            return min(nodes * (nodes - 1), total)
        if name == SUM:
            return min(min(index, nodes) * (nodes - 1), total)
        # The first index rows, or columns, are each at least as long as this one.
        most = total if total == math.inf else total // index
        if name == ROWS:
            return min(nodes - 1 if index <= nodes else 0, most)
        return min(nodes if index < nodes else 0, most)


class DeclaredIntervals(ReleaseIntervals):
    """Cuts the intervals of a release to what was declared.

    Attributes:
      contradicts: whether the release shows that the declaration is false. Over the noise, this is
        so for a true declaration with probability 1e-6 at most.
    """

    def __init__(self, intervals: ReleaseIntervals, declared: Declared):
        self.released = intervals.released
        self._intervals, self._declared = intervals, declared
        of_each = 1 - _FALSE_ALARM / 3
        self.contradicts = (
            intervals.number_of_partitions(of_each).low > declared.most(COLUMNS, 1)
            or intervals.frequency_at(1, of_each).low > declared.most(ROWS, 1)
            or intervals.total(of_each).low > declared.most(TOTAL, 0)
        )

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        low, high = self._intervals._ends(name, index, value, confidence)
        most = self._declared.most(name, index)
        return min(low, most), min(high, most)

    def bands(self, confidence: float = 0.95) -> tuple[FrequencyList, FrequencyList]:
        low, high = self._intervals.bands(confidence)
        return self._cut(low), self._cut(high)

    def _cut(self, band: FrequencyList) -> FrequencyList:
        """Cuts a list, at all ranks, to what the number of nodes allows. A largest total, which
        says less at a rank, is left aside."""
        if self._declared.nodes == math.inf:
            return band
        nodes = int(self._declared.nodes)
        last_ranks = np.minimum(band.multiplicities.cumsum(), nodes)
        kept = np.diff(last_ranks, prepend=0)
        # Frequencies that are cut to the same number become one run. They are negative, to fall.
        cut = -np.minimum(band.frequencies, nodes - 1)
        values, runs = np.unique(cut, return_inverse=True)
        multiplicities = np.bincount(runs, kept, len(values)).astype(np.int64)
        remaining = (multiplicities > 0) & (values < 0)
        return FrequencyList(-values[remaining], multiplicities[remaining])

    def _rate_curve(self, confidence: float) -> RateCurve:
        return self._intervals._rate_curve(confidence)
