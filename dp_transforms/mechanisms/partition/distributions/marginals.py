"""Marginals and bias of the exponential and the geometric mechanism at a given list.

What is computed here is as private as the list: at a private one never publish it, at a released
one it is post-processing.

The exponential mechanism. In terms of the walk's D (see ``walk``): item i has x_i >= v iff
D(v - i) >= i - k_f(v - i), so the distribution of one frequency is read off the distributions of D
on the diagonals around f_i - i. The first b ranks hold, beside trivial cells, min(k_x(c), b) cells
of diagonal c, so

    sum of x_i - f_i over i <= b  =  sum over c of min(D(c), b - k_f(c)) - min(0, b - k_f(c))

where a diagonal with k_f(c) <= b - W counts D(c), and one with k_f(c) >= b + W nothing. The number
of items is the largest part of the conjugate partition, and conjugation keeps L1 distances.

The geometric mechanism. With F the Young diagram of the list f, a cell b outside F is in the
release with probability q**k / (1 + q), k = how many cells must be added to F to make b one of
them. A cell inside is not in it with probability q**k / (1 + q), k = how many must go (see
``release_distribution.GeometricDistribution``). In the a-th row of the run of frequency v, the n-th
cell beyond v needs

    k = a n + sum over s = 1..n of (ranks in front of the run with a frequency below v + s),

and the n-th cell from the end, in the a-th row from the run's end,

    k = a n + sum over s = 1..n of (ranks behind the run with a frequency of at least v - s + 1).

Sums over rows are geometric series.

Plain float64: probabilities and biases are within 1e-9 of the exact ones, and those of the total
and of sums over many ranks within 1e-9 of their standard deviation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray, IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.distributions.walk_sums import (
    FLOAT64_RATE,
    STEP,
    WalkSums,
    pairs,
    window_for,
)
from dp_transforms.mechanisms.partition.walk.walk import Blocks

_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, eq=False)
class IntegerDistribution:
    """P(X = least + k) = probabilities[k]; what is left out has a probability below 1e-9 in all.

    Attributes:
      least: the first integer of the table, of any size.
      probabilities: floats.

    >>> coin = IntegerDistribution(10, np.array([0.5, 0.5]))
    >>> coin.probability(11), coin.mean, coin.quantile(0.7)
    (0.5, 10.5, 11)
    """

    least: int
    probabilities: FloatArray

    def probability(self, value: int) -> float:
        """P(X = value)."""
        index = value - self.least
        return float(self.probabilities[index]) if 0 <= index < len(self.probabilities) else 0.0

    @property
    def mean(self) -> float:
        """E[X]."""
        return self.least + self.mean_above(self.least)

    def mean_above(self, value: int) -> float:
        """E[X] - value, without the rounding of a large E[X]."""
        steps = np.arange(len(self.probabilities))
        return float(steps @ self.probabilities / self.probabilities.sum()) + (self.least - value)

    @property
    def variance(self) -> float:
        """E[(X - E[X])**2]."""
        steps = np.arange(len(self.probabilities)) - self.mean_above(self.least)
        return float(steps**2 @ self.probabilities / self.probabilities.sum())

    def quantile(self, level: float) -> int:
        """The smallest x with P(X <= x) >= level.

        Raises:
          ValueError: level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        sums = np.cumsum(self.probabilities)
        return self.least + int(np.searchsorted(sums / sums[-1], level))


class ListMarginals(ABC):
    """The distribution of single frequencies of x, and the bias E[x_i] - f_i, at a list f and the
    rate c = -ln q."""

    def __init__(self, frequency_list: FrequencyList, rate: float):
        self._frequency_list, self._rate = frequency_list, rate
        self._ends = np.cumsum(frequency_list.multiplicities)
        self._values = np.append(frequency_list.frequencies, 0)

    def mean_differences(self, ends: Sequence[int] | IntArray) -> FloatArray:
        """The bias by ranges of ranks: the mean of E[x_i] - f_i over each range.

        Args:
          ends: the last ranks of consecutive ranges, ascending. The first range starts at rank 1,
            and ranges may end beyond the last item.

        Raises:
          ValueError: ends are not positive and strictly ascending.

        >>> marginals = Marginals(FrequencyList([9, 3], [1, 4]), rate=0.5)
        >>> marginals.mean_differences([1, 3, 5]).round(3).tolist()
        [0.441, 1.271, -0.373]
        """
        limits = np.append(0, np.asarray(ends, dtype=np.int64))
        if (np.diff(limits) <= 0).any():
            raise ValueError("ends must be positive and strictly ascending ranks")
        return np.diff(self._sum_differences(limits)) / np.diff(limits)

    @property
    @abstractmethod
    def total_difference(self) -> float:
        """E[sum x] - sum f."""

    def distribution_of_frequency(self, rank: int) -> IntegerDistribution:
        """The distribution of x_rank, for a rank from 1; it may be beyond the last item.

        Raises:
          ValueError: the rank is not positive.
        """
        if rank < 1:
            raise ValueError(f"rank must be positive, got {rank}")
        run = int(np.searchsorted(self._ends, rank))
        own = int(self._values[run])
        above, below = self._tails(rank, run)
        above, below = np.append(above, 0.0), np.append(below[:own], 0.0)
        probabilities = np.concatenate(
            [-np.diff(below)[::-1], [1 - above[0] - below[0]], -np.diff(above)]
        )
        return IntegerDistribution(own - len(below) + 1, probabilities)

    def distribution_of_distinct(self) -> IntegerDistribution:
        """The distribution of how many items x has."""
        return type(self)(conjugate(self._frequency_list), self._rate).distribution_of_frequency(1)

    @abstractmethod
    def _sum_differences(self, limits: IntArray) -> FloatArray:
        """E of the sum of x_i - f_i over i <= b, for each b of an ascending array."""

    @abstractmethod
    def _tails(self, rank: int, run: int) -> tuple[FloatArray, FloatArray]:
        """P(x >= own + 1), P(x >= own + 2), ... and P(x <= own - 1), P(x <= own - 2), ... of the
        frequency at a rank in some run, whose own value is that of f. Until they are negligible;
        the second may go on below zero."""


class Marginals(ListMarginals):
    """The marginals of the exponential mechanism.

    Args:
      frequency_list: f.
      rate: c = -ln q, at least 1/256.

    Raises:
      ValueError: the rate is too small.

    >>> marginals = Marginals(FrequencyList([100, 1], [1, 10**6]), rate=0.5)
    >>> marginals.distribution_of_frequency(1).quantile(0.975)
    106
    """

    def __init__(self, frequency_list: FrequencyList, rate: float):
        if rate < FLOAT64_RATE:
            raise ValueError(
                f"epsilon / (2 * sensitivity) must be at least {FLOAT64_RATE:.4f} for marginals, "
                f"got {rate:.4g}"
            )
        super().__init__(frequency_list, rate)
        self._window = window_for(rate)
        # So far from the ends of a run D is 0, up to a negligible probability.
        self._margin = math.ceil((-math.log(_NEGLIGIBLE) - math.log(-math.expm1(-rate))) / rate)
        # Up to the margin the infinite runs are blocks as well.
        self._blocks = [(0, self._margin), *pairs(Blocks.of(frequency_list)), (1, self._margin)]
        bits, lengths = np.array(self._blocks, dtype=np.int64).T
        # Block r covers the diagonals starts[r] - 1, starts[r] - 2, ...; ranks[r] = k_f before it.
        self._starts = int(self._values[0]) + self._margin - np.append(0, np.cumsum(lengths))
        self._ranks = np.append(0, np.cumsum(bits * lengths))
        self._sums_at = WalkSums(complex(rate), complex(rate), self._window)
        tilted = WalkSums(complex(rate, -STEP), complex(rate, STEP), self._window)
        before = tilted.forward(self._blocks)
        self._before = before.real
        self._after = self._sums_at.backward(self._blocks).real
        products = (before * self._after).sum(axis=1)
        # E of the sum of D over all diagonals before each block end.
        self._sums = products.imag / STEP / products.real
        self._inside: Callable[[int], tuple[IntArray, IntArray, FloatArray]]
        self._inside = lru_cache(maxsize=256)(self._make_inside)

    @property
    def total_difference(self) -> float:
        return float(self._sums[-1])

    def _tails(self, rank: int, run: int) -> tuple[FloatArray, FloatArray]:
        start = int(self._values[run]) - rank
        return self._tail(rank, start + 1, 1), self._tail(rank, start, -1)

    def _sum_differences(self, limits: IntArray) -> FloatArray:
        window = self._window
        states = np.arange(-window, window + 1)
        # least[m, D] = min(D, m) - min(0, m)
        least = np.minimum(states[None, :], states[:, None]) - np.minimum(states, 0)[:, None]
        found = np.zeros(len(limits))
        for index in np.flatnonzero(limits).tolist():
            limit = limits[index]
            first = int(np.searchsorted(self._ranks[1:], limit - window, side="right"))
            last = int(np.searchsorted(self._ranks[:-1], limit + window, side="left"))
            found[index] = self._sums[first]
            for block in range(first, last):
                _, ranks, distribution = self._inside(block)
                rest = np.clip(limit - ranks, -window, window)
                found[index] += (distribution * least[rest + window]).sum()
        return found

    def _tail(self, rank: int, start: int, step: int) -> FloatArray:
        """P(x_rank >= v), v = start + rank and upwards (step 1), or P(x_rank < v) downwards (-1).

        Stops where it is negligible. ``start`` is a diagonal.
        """
        tail: list[FloatArray] = []
        known = 0
        block = int(np.searchsorted(-self._starts, -start, side="left")) - 1
        while 0 <= block < len(self._blocks):
            diagonals, ranks, distribution = self._inside(block)
            # x_rank >= v iff D >= rank - k_f.
            bounds = rank - ranks + self._window - (step < 0)
            sums = np.cumsum(distribution[:, ::-step], axis=1)[:, ::-step]
            inside = np.clip(bounds, 0, 2 * self._window)
            found = np.where(bounds == inside, sums[np.arange(len(bounds)), inside], 0.0)[::-step]
            distances = (step * (diagonals - start))[::-step]
            found, distances = found[distances >= 0], distances[distances >= 0]
            wanted = (distances == known + np.arange(len(distances))) & (found >= _NEGLIGIBLE)
            count = len(wanted) if wanted.all() else int(np.argmin(wanted))
            tail.append(found[:count])
            known += count
            if count < len(wanted):
                break
            block -= step
        return np.concatenate(tail) if tail else np.zeros(0)

    def _make_inside(self, block: int) -> tuple[IntArray, IntArray, FloatArray]:
        """The distribution of D near both ends of a block; in between D is 0: diagonals,
        descending; k_f there; and P(D = d) in rows."""
        bit, length = self._blocks[block]
        near, far = min(length, self._margin), min(max(length - self._margin, 0), self._margin)
        places = np.append(np.arange(1, near + 1), np.arange(length - far + 1, length + 1))
        before, after = self._before[block], self._after[block + 1]
        if length > near + far:
            # The two ends have nothing to do with each other.
            zero = np.zeros(len(before))
            zero[self._window] = 1.0
            distribution = np.concatenate(
                [self._between(before, zero, bit, near), self._between(zero, after, bit, far)]
            )
        else:
            distribution = self._between(before, after, bit, length)
        ranks = self._ranks[block] + (places if bit else np.zeros_like(places))
        return self._starts[block] - places, ranks, distribution

    def _between(self, before: Array, after: Array, bit: int, count: int) -> FloatArray:
        """The distribution of D after each of ``count`` equal bits, by the weights at both ends."""
        forward, backward = np.empty((2, count, len(before)))
        for place in range(count):
            forward[place] = before = self._sums_at.advance((bit, 1), before).real
        for place in range(count - 1, -1, -1):
            backward[place] = after
            after = self._sums_at.step((bit, 1), after).real
        distribution: FloatArray = forward * backward
        distribution /= distribution.sum(axis=1, keepdims=True)
        return distribution


class GeometricMarginals(ListMarginals):
    """The marginals of the geometric mechanism.

    Args:
      frequency_list: f.
      rate: c = -ln q, at least ln 3.

    >>> found = GeometricMarginals(FrequencyList([100, 1], [1, 10**6]), rate=math.log(3))
    >>> round(found.distribution_of_frequency(1).probability(101), 6)
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


def conjugate(frequency_list: FrequencyList) -> FrequencyList:
    """The conjugate partition: entry j is how many items have a frequency of at least j.

    >>> list(conjugate(FrequencyList([5, 2], [1, 3])))
    [(4, 2), (1, 3)]
    """
    at_least = np.cumsum(frequency_list.multiplicities)
    gaps = -np.diff(frequency_list.frequencies, append=0)
    return FrequencyList(at_least[::-1], gaps[::-1])
