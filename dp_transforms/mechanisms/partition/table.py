"""Implements the integer-partition mechanism by a table over ranks and values, for small lists.

Algorithm 1 of Ilvento, "Implementing Differentially Private Integer Partitions via the Exponential
Mechanism", after the dynamic program of Blocki, Datta and Bonneau (NDSS 2016). With public
bounds L_i <= y_i <= U_i on the i-th largest frequency, and b = 2**-eta, a list y is released with
probability proportional to b**||y - f||_1 among the lists within the bounds. Row by row from the
last rank up,

    w(i, v) = b**|v - f_i| * (sum of w(i + 1, v') over L_{i+1} <= v' <= min(v, U_{i+1}))

is the total weight of the ranks i, i+1, ... if rank i has the value v. Then the values are drawn
from the first rank on: each is drawn in proportion to its weight, among the values that the rank
before it allows.

Weights are integers: those of row i are in units of 2**-(bits * reach_i), where reach_i is the
largest distance that ranks i, i+1, ... can add. So every operation is exact for every eta.

The table has a cell for every rank and every value within the bounds. With the bounds n / i for a
total of n, time and memory grow faster than n squared. The unrestricted mechanism is the limit of
loose bounds; for lists beyond some thousands of users, use ``IntegerPartitionMechanism``.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import ObjectArray
from dp_transforms.mechanisms.decay import Eta
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape, draw_below

_MOST_BITS = 2**35
_MOST_RANKS = 2**24
_TOO_LARGE = (
    "the table would not fit in memory; give tighter bounds, or use IntegerPartitionMechanism"
)


@dataclass(frozen=True)
class _Row:
    """Holds the possible values of one rank, and integers for each of them."""

    values: range
    steps: ObjectArray  # the numerators of b**distance
    shifts: ObjectArray  # how far to shift them to the left, for a common denominator
    weights: ObjectArray  # w(i, v)
    sums: ObjectArray  # cumulative weights

    def at(self, values: Any) -> Any:
        """Returns the indices of values in the row; a value above all has the last index."""
        return np.minimum(values, self.values[-1]) - self.values[0]


class PartitionTable:
    """Releases one private list under public bounds, from a table of the weights of all lists.

    Privacy. The bounds must not depend on the data. Neighbours: add or remove all records of one
    user, who contributes to at most k partitions. That moves the sorted list by at most k in L1. So
    one ``sample`` is (2 * k * eta)-DP in base 2, by the argument for ``ExponentialMechanism``. All
    other results are private, and for evaluation only. The time to build the table depends on the
    bounds and, to a lesser degree, on the list.

    Args:
      frequency_list: the private list f.
      eta: the parameter of the weights in base 2, per unit of L1 distance.
      upper: U_1, U_2, ...: a ``FrequencyList`` or one non-negative integer per rank. Later ranks
        are zero. The bounds are tightened so that they descend, which excludes no list.
      lower: L_1, L_2, ..., in the same form; zero beyond its length, and by default.

    Raises:
      ValueError: an argument has the wrong type, a bound is not a non-negative integer, no list is
        within the bounds, or the table would not fit in memory.

    >>> table = PartitionTable(FrequencyList([2, 1], [1, 1]), Eta(1, 1, 1), upper=[3, 3])
    >>> table.probability(FrequencyList([2, 1], [1, 1]))
    mpq(1,4)
    >>> table.sample(RandomTape(bytes(32)), "example").total
    2
    """

    def __init__(
        self,
        frequency_list: FrequencyList,
        eta: Eta,
        upper: FrequencyList | Sequence[int],
        lower: FrequencyList | Sequence[int] = (),
    ):
        if not isinstance(frequency_list, FrequencyList):
            raise ValueError("frequency_list must be a FrequencyList")
        if not isinstance(eta, Eta):
            raise ValueError(f"eta must be an Eta, got {eta!r}")
        self._eta = eta
        highest, lowest = _closure(_per_rank("upper", upper), _per_rank("lower", lower))
        ranks = len(highest)
        private = _per_rank("frequency_list", frequency_list)
        self._targets = (private + [0] * ranks)[:ranks]
        # The amount that the ranks beyond the bounds add to every distance.
        self._beyond = sum(private[ranks:])
        reaches = [
            max(abs(high - f), abs(low - f))
            for high, low, f in zip(highest, lowest, self._targets, strict=True)
        ]
        # Both are in the order of the rows, from the last rank up.
        ranges = [range(low, high + 1) for low, high in zip(lowest, highest, strict=True)][::-1]
        left = list(accumulate(reversed(reaches), initial=0))
        if sum(map(operator.mul, map(len, ranges), left[1:])) * eta.bits > _MOST_BITS:
            raise ValueError(_TOO_LARGE)
        self._reach = left[-1]
        step = gmpy2.mpz(eta.x) ** eta.z
        powers = [step**distance for distance in range(max(reaches, default=0) + 1)]
        rows: list[_Row] = []
        for values, f, reach in zip(ranges, self._targets[::-1], reaches[::-1], strict=True):
            steps = np.array([powers[abs(value - f)] for value in values], object)
            shifts = np.array([eta.bits * (reach - abs(value - f)) for value in values], object)
            below = rows[-1].sums[rows[-1].at(np.array(values))] if rows else 1
            weights = below * steps << shifts
            rows.append(_Row(values, steps, shifts, weights, weights.cumsum()))
        self._rows = rows[::-1]

    @property
    def ranks(self) -> int:
        """Returns the number of ranks whose frequencies may be positive."""
        return len(self._rows)

    @cached_property
    def total_weight(self) -> Any:
        """Returns the sum of b**||y - f||_1 over all lists y within the bounds, as gmpy2.mpq."""
        return self._eta.base**self._beyond * gmpy2.mpq(
            self._total, gmpy2.mpz(1) << self._eta.bits * self._reach
        )

    @property
    def _total(self) -> Any:
        return self._rows[0].sums[-1] if self._rows else gmpy2.mpz(1)

    def sample(self, tape: RandomTape, channel: str = "partition table") -> FrequencyList:
        """Returns a list that is drawn exactly from the mechanism's distribution.

        Args:
          tape: the source of randomness: ``RandomTape.from_os()`` for a release.
          channel: the address of this release on the tape; every release needs one of its own.

        Raises:
          ValueError: a release on this channel has claimed the tape.
        """
        tape.claim(channel)
        released: list[int] = []
        for rank, row in enumerate(self._rows):
            total = row.sums[row.at(released[-1]) if released else -1]
            drawn = draw_below(total, tape, f"{channel}: rank {rank}")
            released.append(row.values[0] + bisect_right(row.sums, drawn))
        return FrequencyList.from_counts([value for value in released if value])

    def probability(self, released: FrequencyList) -> Any:
        """Returns the exact probability of a list, as gmpy2.mpq; zero outside the bounds."""
        values = _per_rank("released", released)
        if len(values) > self.ranks:
            return gmpy2.mpq(0)
        values += [0] * (self.ranks - len(values))
        weight = gmpy2.mpz(1)
        for value, row in zip(values, self._rows, strict=True):
            if value not in row.values:
                return gmpy2.mpq(0)
            weight = weight * row.steps[row.at(value)] << row.shifts[row.at(value)]
        return gmpy2.mpq(weight, self._total)

    def marginal(self, rank: int) -> dict[int, Any]:
        """Returns the distribution of the released frequency at a rank, which is counted from 0, as
        {value: exact probability (gmpy2.mpq)}. Raises a ValueError if there is no such rank."""
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank must be between 0 and {self.ranks - 1}, got {rank}")
        return self._marginals[rank]

    def bias(self) -> list[Any]:
        """Returns E[y_i] - f_i for every rank, as gmpy2.mpq."""
        return [
            sum(value * p for value, p in distribution.items()) - f
            for distribution, f in zip(self._marginals, self._targets, strict=True)
        ]

    def expected_l1(self) -> Any:
        """Returns E||y - f||_1, as gmpy2.mpq."""
        return self._beyond + sum(
            abs(value - f) * p
            for distribution, f in zip(self._marginals, self._targets, strict=True)
            for value, p in distribution.items()
        )

    @cached_property
    def _marginals(self) -> list[dict[int, Any]]:
        """Returns {v: P[y_i = v]} for each rank i, by the paper's recursion without its divisions.

        P[y_i = v] = A(i, v) * w(i, v) / Z, where A(i, v) is the total weight of all values of the
        ranks before i whose last one is at least v (A / Z is the paper's coefficient C):

            A(i + 1, v) = sum of A(i, v') * b**|v' - f_i| over v' >= v
        """
        distributions = []
        above: Any = gmpy2.mpz(1)
        for i, row in enumerate(self._rows):
            if i:
                before = self._rows[i - 1]
                ending = (above * before.steps << before.shifts)[::-1].cumsum()[::-1]
                above = ending[np.maximum(np.array(row.values) - before.values[0], 0)]
            chances = [gmpy2.mpq(weight, self._total) for weight in above * row.weights]
            distributions.append(dict(zip(row.values, chances, strict=True)))
        return distributions


def _per_rank(name: str, values: FrequencyList | Sequence[int]) -> list[int]:
    if isinstance(values, FrequencyList):
        if values.distinct > _MOST_RANKS:
            raise ValueError(_TOO_LARGE)
        expanded: list[int] = np.repeat(values.frequencies, values.multiplicities).tolist()
        return expanded
    integers = []
    for i, value in enumerate(values):
        try:
            integers.append(operator.index(value))
        except TypeError:
            raise ValueError(f"{name}[{i}] must be an integer, got {value!r}") from None
        if integers[-1] < 0:
            raise ValueError(f"{name}[{i}] must not be negative, got {value!r}")
    return integers


def _closure(upper: list[int], lower: list[int]) -> tuple[list[int], list[int]]:
    """Returns descending bounds on the same lists, for the ranks whose upper bound is positive."""
    highest = list(accumulate(upper, min))
    lowest = list(accumulate(reversed(lower), max))[::-1]
    while highest and highest[-1] == 0:
        highest.pop()
    if any(lowest[len(highest) :]):
        raise ValueError(f"lower must be zero where upper is, beyond {len(highest)} ranks")
    lowest = (lowest + [0] * len(highest))[: len(highest)]
    for i, (low, high) in enumerate(zip(lowest, highest, strict=True)):
        if low > high:
            raise ValueError(
                f"no list is within the bounds: rank {i} must be at least {low} and at most {high}"
            )
    return highest, lowest
