"""The largest and the smallest value of every rank among the lists within an L1 distance of one.

Equation 1 of Blocki, Datta, Bonneau (NDSS 2016). Rank i can be raised to v exactly if all ranks
before it can be: that costs sum_{j <= i} max(0, v - f_j). It can be lowered to v if all ranks
behind it are: sum_{j >= i} max(0, f_j - v). Both costs are monotone in i and in v, so a result is
found run by run, by bisection.
"""

from __future__ import annotations

from collections.abc import Callable

from dp_transforms.mechanisms.bisection import smallest_where
from dp_transforms.mechanisms.frequency_list import FrequencyList, RankSums


def largest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """U_i, the largest x_i among the lists x with ||x - f||_1 <= distance."""
    sums = RankSums(values)

    def is_reached(rank: int, value: int) -> bool:
        first = sums.at_least(value)
        if rank <= first:
            return True
        missing = value * (rank - first) - (sums.sum_to(rank) - sums.sum_to(first))
        return missing <= distance

    return _runs(is_reached, sums.sum_to(1) + distance, sums.ends[-1] + distance)


def smallest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """L_i, the smallest x_i among the lists x with ||x - f||_1 <= distance."""
    sums = RankSums(values)

    def is_reached(rank: int, value: int) -> bool:
        """Tells whether L_i >= value: value - 1 is too costly."""
        last = sums.at_least(value)
        if rank > last:
            return False
        surplus = sums.sum_to(last) - sums.sum_to(rank - 1) - (value - 1) * (last - rank + 1)
        return surplus > distance

    return _runs(is_reached, sums.sum_to(1), sums.ends[-1])


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
    return smallest_where(lambda k: k > most or not holds(k), 1) - 1
