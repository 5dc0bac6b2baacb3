"""Defines bounds L_i <= x_i <= U_i on the i-th largest frequency, in run-length form.

Bounds made from public knowledge cost nothing; bounds made from data need a budget of their own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import integer
from dp_transforms.mechanisms.enclosure import smallest_where
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList, Integers, RankSums

NO_BOUND = 2**62  # stands for infinity among upper bounds
MAX_DISTANCE = 2**40  # Bounds at this distance from a list have some 2 sqrt(distance) values.


def check_distance(distance: int) -> None:
    """Raises a ValueError if bounds at a distance from a list would not fit in memory."""
    if distance > MAX_DISTANCE:
        raise ValueError(
            f"distance must be at most 2**40, got {distance}: bounds have some 2 sqrt(distance) "
            "values, which would not fit in memory"
        )


@dataclass(frozen=True)
class PartitionBounds:
    """Holds bounds L_i <= x_i <= U_i for all ranks i >= 1.

    Args:
      lower: the positive entries of L; further ones are 0.
      upper: entries of U, at the ranks from ``unbounded_ranks`` + 1 on.
      unbounded_ranks: how many ranks have no upper bound; they are the first ones.
      beyond: the upper bound at all ranks behind those of ``upper``.

    Raises:
      ValueError: a number is negative, an entry of ``upper`` is below ``beyond``, or L is above U
        at some rank, so that no list lies between.

    >>> bounds = PartitionBounds.around(FrequencyList([10, 4], [1, 2]), 3)
    >>> bounds.contain(FrequencyList([12, 3, 1], [1, 1, 6])), bounds.contain(FrequencyList())
    (True, False)
    """

    lower: FrequencyList = field(default_factory=FrequencyList)
    upper: FrequencyList = field(default_factory=FrequencyList)
    unbounded_ranks: int = 0
    beyond: int = 0

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if not isinstance(getattr(self, name), FrequencyList):
                raise ValueError(f"{name} must be a FrequencyList")
        for name in ("unbounded_ranks", "beyond"):
            _check(name, getattr(self, name))
        if len(self.upper) and self.upper.frequencies[-1] < self.beyond:
            raise ValueError(f"upper must not fall below beyond = {self.beyond}")
        ends = self._rank_ends(self.lower)
        crossed = np.flatnonzero(self.lower.at_ranks(ends) > self.upper_at(ends))
        if len(crossed):
            # The run of ranks begins behind the end of the run before it.
            run = crossed.item(0)
            rank = 1
            if run > 0:
                rank = ends.item(run - 1) + 1
            raise ValueError(f"lower is above upper at rank {rank}, so no list lies between")

    @classmethod
    def of_runs(cls, lower: Integers, upper: Integers, repeats: Integers) -> PartitionBounds:
        """Returns the bounds lower[j] <= x_i <= upper[j] for the next repeats[j] ranks i, for every
        j in turn.

        Behind these ranks x_i = 0. U_i is replaced by the least U_j with j <= i, and L_i by the
        largest L_j with j >= i. That excludes no list, since lists are descending.

        Raises:
          ValueError: the arguments are not equally long, an entry is negative, or no list lies
            between the bounds.

        >>> bounds = PartitionBounds.of_runs([0, 2, 0], [5, 7, 3], [1, 1, 1])
        >>> list(bounds.lower), list(bounds.upper)
        ([(2, 2)], [(5, 2), (3, 1)])
        """
        if not len(lower) == len(upper) == len(repeats):
            raise ValueError(
                "lower, upper and repeats must be equally long, got "
                f"{len(lower)}, {len(upper)} and {len(repeats)}"
            )
        for name, entries in (("lower", lower), ("upper", upper), ("repeats", repeats)):
            for i, entry in enumerate(entries):
                _check(f"{name}[{i}]", entry, NO_BOUND)
        counts = np.asarray(repeats, np.int64)
        highest = np.minimum.accumulate(np.asarray(upper, np.int64))
        lowest = np.maximum.accumulate(np.asarray(lower, np.int64)[::-1])[::-1]
        return cls(
            FrequencyList.from_runs(lowest, counts), FrequencyList.from_runs(highest, counts)
        )

    @classmethod
    def of_total(cls, total: int) -> PartitionBounds:
        """Returns the bounds x_i <= total / i, for lists of at most a public ``total`` of users
        (Ilvento 2019).

        >>> list(PartitionBounds.of_total(6).upper)
        [(6, 1), (3, 1), (2, 1), (1, 3)]
        """
        _check("total", total)
        root = math.isqrt(total)
        ranks = np.arange(1, root + 1, dtype=np.int64)
        # The ranks up to root have a value each. Each smaller value fills a run of ranks.
        small = np.arange(total // root - 1 if root else 0, 0, -1, dtype=np.int64)
        ends = np.concatenate([ranks, total // small])
        values = np.concatenate([total // ranks, small])
        return cls(upper=FrequencyList.from_runs(values, np.diff(ends, prepend=0)))

    @classmethod
    def around(cls, reference: FrequencyList, width: int) -> PartitionBounds:
        """Returns the bounds |x_i - r_i| <= width at every rank, for a public list r that is
        continued by zeros."""
        _check("width", width)
        values, repeats = reference.frequencies, reference.multiplicities
        return cls(
            lower=FrequencyList.from_runs(np.maximum(values - width, 0), repeats),
            upper=FrequencyList.from_runs(values + width, repeats),
            beyond=width,
        )

    @classmethod
    def within_distance(cls, reference: FrequencyList, distance: int) -> PartitionBounds:
        """Returns the tightest bounds on all lists within an L1 distance of a list r.

        U_i is the largest and L_i the smallest value that x_i has in any list x with
        ||x - r||_1 <= distance (Blocki, Datta, Bonneau 2016, Equation 1).

        Raises:
          ValueError: the distance is negative, or above 2**40.

        >>> bounds = PartitionBounds.within_distance(FrequencyList([5, 1], [1, 2]), 3)
        >>> list(bounds.lower), list(bounds.upper)
        ([(2, 1)], [(8, 1), (4, 1), (2, 1), (1, 3)])
        """
        if integer("distance", distance) < 0:
            raise ValueError(f"distance must not be negative, got {distance}")
        check_distance(distance)
        return cls(_smallest_within(reference, distance), _largest_within(reference, distance))

    @cached_property
    def digest(self) -> str:
        """Returns the SHA-256 of the bounds in hexadecimal: the same on every machine."""
        content = hashlib.sha256(b"%d %d" % (self.unbounded_ranks, self.beyond))
        for values in (self.lower, self.upper):
            content.update(b" %d " % len(values))
            for array in (values.frequencies, values.multiplicities):
                content.update(array.astype("<i8").tobytes())
        return content.hexdigest()

    def __repr__(self) -> str:
        # This text is part of a mechanism's ``identifier``, and so it never changes.
        return f"<PartitionBounds {self.digest}>"

    def contain(self, frequency_list: FrequencyList) -> bool:
        """Tells whether a list is within the bounds."""
        ends = self._rank_ends(self.lower, frequency_list)
        values = frequency_list.at_ranks(ends)
        kept = (self.lower.at_ranks(ends) <= values) & (values <= self.upper_at(ends))
        return bool(kept.all())

    def nearest(self, frequency_list: FrequencyList) -> FrequencyList:
        """Returns the nearest list within the bounds: each f_i is moved between L_i and U_i."""
        ends = self._rank_ends(self.lower, frequency_list)
        values = np.maximum(frequency_list.at_ranks(ends), self.lower.at_ranks(ends))
        values = np.minimum(values, self.upper_at(ends))
        return FrequencyList.from_runs(values, np.diff(ends, prepend=0))

    def _rank_ends(self, *lists: FrequencyList) -> IntArray:
        """Returns the last ranks of runs on which all these lists and U are constant."""
        uppers = self.unbounded_ranks + self.upper.multiplicities.cumsum()
        ends = [values.multiplicities.cumsum() for values in lists]
        ranks = np.unique(np.concatenate([[self.unbounded_ranks], uppers, *ends]))
        return ranks[ranks > 0]

    def upper_at(self, ranks: IntArray) -> IntArray:
        """Returns U_i at some ranks. Infinity is returned as the largest possible frequency."""
        inner = np.maximum(ranks - self.unbounded_ranks, 1)
        bounds = self.upper.at_ranks(inner, self.beyond)
        return np.where(ranks <= self.unbounded_ranks, MAX_VALUE, bounds)


def _check(name: str, value: Any, most: int = NO_BOUND - 1) -> None:
    if not 0 <= integer(name, value) <= most:
        raise ValueError(f"{name} must be between 0 and 2**62, got {value}")


def _largest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """Returns U, where U_i is the largest x_i of any list x with ||x - f||_1 <= distance.

    Lists are descending, so x_i >= v requires v at the ranks before i too. The least distance of
    such a list is the sum of max(0, v - f_j) over j <= i.
    """
    sums = RankSums(values)

    def is_reached(rank: int, value: int) -> bool:
        """Tells whether U_i >= value at i = rank."""
        high_enough = sums.at_least(value)
        if rank <= high_enough:
            return True
        missing = value * (rank - high_enough) - (sums.sum_to(rank) - sums.sum_to(high_enough))
        return missing <= distance

    return _runs(is_reached, sums.sum_to(1) + distance, sums.ends[-1] + distance)


def _smallest_within(values: FrequencyList, distance: int) -> FrequencyList:
    """Returns L, where L_i is the smallest x_i of any list x with ||x - f||_1 <= distance.

    Lists are descending, so x_i <= v requires at most v at the ranks behind i too. The least
    distance of such a list is the sum of max(0, f_j - v) over j >= i.
    """
    sums = RankSums(values)

    def is_reached(rank: int, value: int) -> bool:
        """Tells whether L_i >= value at i = rank: x_i <= value - 1 is too far away."""
        last = sums.at_least(value)
        if rank > last:
            return False
        surplus = sums.sum_to(last) - sums.sum_to(rank - 1) - (value - 1) * (last - rank + 1)
        return surplus > distance

    return _runs(is_reached, sums.sum_to(1), sums.ends[-1])


def _runs(is_reached: Callable[[int, int], bool], largest: int, ranks: int) -> FrequencyList:
    """Returns the list of the largest values >= 1 that the ranks reach, by bisection.

    Args:
      is_reached: tells whether a rank reaches a value; larger ranks reach no larger values.
      largest: no rank reaches a larger value.
      ranks: no larger rank reaches a value.
    """
    values, repeats, rank = [], [], 1
    while rank <= ranks:
        value = _last(lambda v, rank=rank: is_reached(rank, v), largest)  # type: ignore[misc]
        if value == 0:
            break
        last = _last(lambda r, value=value: is_reached(r, value), ranks)  # type: ignore[misc]
        values.append(value)
        repeats.append(last - rank + 1)
        rank, largest = last + 1, value
    return FrequencyList.from_runs(values, repeats)


def _last(holds: Callable[[int], bool], most: int) -> int:
    """Returns the largest k from 1 to ``most`` with holds(k), or 0 if there is none. ``holds`` must
    be true up to some k and false from there on."""
    return smallest_where(lambda k: k > most or not holds(k), 1) - 1
