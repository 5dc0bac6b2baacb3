"""The integer-partition mechanism by a table over ranks and values, for small lists.

Algorithm 1 of Ilvento, "Implementing Differentially Private Integer Partitions via the Exponential
Mechanism", after the dynamic program of Blocki, Datta and Bonneau (NDSS 2016). With public
bounds L_i <= y_i <= U_i on the i-th largest frequency, and b = 2**-eta, a list y is released with
probability proportional to b**||y - f||_1 among the lists within the bounds. Row by row from the
last rank up,

    w(i, v) = b**|v - f_i| * (sum of w(i + 1, v') over L_{i+1} <= v' <= min(v, U_{i+1}))

is the total weight of the ways to go on when rank i has the value v; then ranks are drawn from the
first down, each by normalised sampling among the values that the one before it allows.

Weights are kept as integers: row i in units of 2**-(bits * reach_i), where reach_i is the largest
distance that ranks i, i+1, ... can still add. So every operation is exact for every eta, and no
precision has to be found by trial.

The table has a cell for every rank and value within the bounds, and its cells grow with the total:
at bounds n / i, time and memory grow faster than n**2. The unrestricted mechanism is the limit of
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
    """The values of one rank: lowest..highest, with their weights as integers."""

    lowest: int
    highest: int
    target: int  # f_i
    reach: int  # the largest |v - f_i|
    weights: list[Any]  # w(i, v) per value
    sums: list[Any]  # cumulative

    def total(self, highest: int) -> Any:
        """The weight of all values up to ``highest``, which is within the bounds or above them."""
        return self.sums[min(highest, self.highest) - self.lowest]


class PartitionTable:
    """Releases one private list under public bounds, from a table of the weights of all lists.

    Privacy. The bounds must not depend on the data. Neighbours: add or remove all records of one
    user, who contributes to at most k partitions; that moves the sorted list by at most k in L1. So
    one ``sample`` is (2 * k * eta)-DP in base 2 (the argument is that of ``ExponentialMechanism``).
    ``probability``, ``marginal``, ``bias`` and ``expected_l1`` are private quantities, for
    evaluation. Building the table takes a time that depends on the bounds and, less, on the list.

    Args:
      frequency_list: the private list f.
      eta: the parameter of the weights in base 2, per unit of L1 distance.
      upper: U_1, U_2, ...: a ``FrequencyList`` or one non-negative integer per rank. Ranks beyond
        its length are zero. Tightened to be descending, which excludes no list.
      lower: L_1, L_2, ..., likewise; zero beyond its length, and by default.

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
        values = _per_rank("frequency_list", frequency_list)
        self._targets = (values + [0] * ranks)[:ranks]
        # What the ranks beyond the bounds add to every distance.
        self._beyond = sum(values[ranks:])
        reaches = [
            max(abs(high - f), abs(low - f))
            for high, low, f in zip(highest, lowest, self._targets, strict=True)
        ]
        cells = sum(
            (high - low + 1) * left
            for high, low, left in zip(highest, lowest, accumulate(reversed(reaches)), strict=True)
        )
        if cells * eta.bits > _MOST_BITS:
            raise ValueError(_TOO_LARGE)
        self._reach = sum(reaches)
        # The numerators of b**distance.
        step = gmpy2.mpz(eta.x) ** eta.z
        self._steps = [step**distance for distance in range(max(reaches, default=0) + 1)]
        self._rows = self._build(highest, lowest, reaches)

    def _build(self, highest: list[int], lowest: list[int], reaches: list[int]) -> list[_Row]:
        rows: list[_Row] = []
        for high, low, target, reach in zip(
            *map(reversed, (highest, lowest, self._targets, reaches)), strict=True
        ):
            weights = [
                self._times_power(
                    rows[-1].total(value) if rows else gmpy2.mpz(1), abs(value - target), reach
                )
                for value in range(low, high + 1)
            ]
            rows.append(_Row(low, high, target, reach, weights, list(accumulate(weights))))
        rows.reverse()
        return rows

    def _times_power(self, weight: Any, distance: int, reach: int) -> Any:
        """weight * b**distance, in units 2**(bits * reach) times as small as the weight's."""
        return weight * self._steps[distance] << self._eta.bits * (reach - distance)

    @property
    def ranks(self) -> int:
        """The number of frequencies that may be positive."""
        return len(self._rows)

    @cached_property
    def total_weight(self) -> Any:
        """The sum of b**||y - f||_1 over all lists y within the bounds, as gmpy2.mpq."""
        return self._eta.base**self._beyond * gmpy2.mpq(
            self._total, gmpy2.mpz(1) << self._eta.bits * self._reach
        )

    @property
    def _total(self) -> Any:
        return self._rows[0].sums[-1] if self._rows else gmpy2.mpz(1)

    def sample(self, tape: RandomTape, channel: str = "partition table") -> FrequencyList:
        """Draws a list to release, exactly from the mechanism's distribution.

        Args:
          tape: where random numbers come from: ``RandomTape.from_os()`` for a release.
          channel: the address of this release on the tape; every release needs one of its own.
        """
        released = []
        value = self._rows[0].highest if self._rows else 0
        for rank, row in enumerate(self._rows):
            drawn = draw_below(row.total(value), tape, f"{channel}: rank {rank}")
            value = row.lowest + bisect_right(row.sums, drawn)
            released.append(value)
        return FrequencyList.from_counts([value for value in released if value])

    def probability(self, released: FrequencyList) -> Any:
        """Returns the exact probability of a list, as gmpy2.mpq; zero outside the bounds."""
        values = _per_rank("released", released)
        if len(values) > self.ranks:
            return gmpy2.mpq(0)
        values += [0] * (self.ranks - len(values))
        weight = gmpy2.mpz(1)
        for value, row in zip(values, self._rows, strict=True):
            if not row.lowest <= value <= row.highest:
                return gmpy2.mpq(0)
            weight = self._times_power(weight, abs(value - row.target), row.reach)
        return gmpy2.mpq(weight, self._total)

    def marginal(self, rank: int) -> dict[int, Any]:
        """Returns the exact distribution of the released frequency at a rank, counted from 0.

        Each value has its probability as gmpy2.mpq. ValueError if there is no such rank.
        """
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
        """The paper's recursion for P[y_i = v], without its divisions.

        P[y_i = v] = A(i, v) * w(i, v) / Z, where A(i, v) is the weight of the ways for the ranks
        before i to end at v or above (A / Z is the paper's coefficient C):

            A(i + 1, v) = sum of A(i, v') * b**|v' - f_i| over v' >= v
        """
        distributions: list[dict[int, Any]] = []
        above: dict[int, Any] | None = None
        for i, row in enumerate(self._rows):
            values = range(row.lowest, row.highest + 1)
            before = {v: gmpy2.mpz(1) if above is None else above[v] for v in values}
            distributions.append(
                {
                    v: gmpy2.mpq(before[v] * weight, self._total)
                    for v, weight in zip(values, row.weights, strict=True)
                }
            )
            ending = [self._times_power(before[v], abs(v - row.target), row.reach) for v in values]
            suffixes = list(accumulate(reversed(ending)))[::-1]
            if i + 1 < self.ranks:
                following = self._rows[i + 1]
                above = {
                    v: suffixes[max(v, row.lowest) - row.lowest]
                    for v in range(following.lowest, following.highest + 1)
                }
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
    """Descending bounds around the same lists; the upper ones are positive."""
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
