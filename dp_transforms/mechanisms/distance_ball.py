"""The largest and the smallest value of every rank among the lists within an L1 distance of one.

Equation 1 of Blocki, Datta, Bonneau (NDSS 2016). Rank i can be raised to v exactly if all ranks
before it can be: that costs sum_{j <= i} max(0, v - f_j). It can be lowered to v if all ranks
behind it are: sum_{j >= i} max(0, f_j - v). Both costs are monotone in i and in v, so a result is
found run by run, by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate

from dp_transforms.mechanisms.frequency_list import FrequencyList


class _Sums:
    """f by ranks, from its runs."""

    def __init__(self, values: FrequencyList):
        self._negated = [-value for value, _ in values]
        self._ends = [0, *accumulate(repeat for _, repeat in values)]
        self._sums = [0, *accumulate(value * repeat for value, repeat in values)]

    @property
    def ranks(self) -> int:
        return self._ends[-1]

    @property
    def largest(self) -> int:
        return -self._negated[0] if self._negated else 0

    def at_least(self, value: int) -> int:
        """How many ranks have f_j >= value, for a value > 0."""
        return self._ends[bisect_right(self._negated, -value)]

    def of_first(self, ranks: int) -> int:
        """The sum of the entries at the first ``ranks`` ranks."""
        run = bisect_left(self._ends, ranks) - 1
        if run < 0:
            return 0
        if run >= len(self._negated):
            return self._sums[-1]
        return self._sums[run] - self._negated[run] * (ranks - self._ends[run])


def largest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """U_i, the largest x_i among the lists x with ||x - f||_1 <= distance."""
    sums = _Sums(values)

    def is_reached(rank: int, value: int) -> bool:
        first = sums.at_least(value)
        if rank <= first:
            return True
        missing = value * (rank - first) - (sums.of_first(rank) - sums.of_first(first))
        return missing <= distance

    return _runs(is_reached, sums.largest + distance, sums.ranks + distance)


def smallest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """L_i, the smallest x_i among the lists x with ||x - f||_1 <= distance."""
    sums = _Sums(values)

    def is_reached(rank: int, value: int) -> bool:
        """Whether L_i >= value: value - 1 is too costly."""
        last = sums.at_least(value)
        if rank > last:
            return False
        surplus = sums.of_first(last) - sums.of_first(rank - 1) - (value - 1) * (last - rank + 1)
        return surplus > distance

    return _runs(is_reached, sums.largest, sums.ranks)


def _runs(is_reached: Callable[[int, int], bool], largest: int, ranks: int) -> FrequencyList:
    """The list of the largest value >= 1 that each rank reaches, a descending function."""
    found, repeats, rank = [], [], 1
    while rank <= ranks:
        value = _last(lambda v, rank=rank: is_reached(rank, v), largest)  # type: ignore[misc]
        if value == 0:
            break
        last = _last(lambda r, value=value: is_reached(r, value), ranks)  # type: ignore[misc]
        found.append(value)
        repeats.append(last - rank + 1)
        rank, largest = last + 1, value
    return FrequencyList.from_runs(found, repeats)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """The largest k <= most with holds(k), where that is true up to some k only; or 0."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
