"""Computes keep-probabilities, and decides exactly about many partitions at once.

A keep distribution gives every partition's statistic s (a count of users, or a sum of weights) the
probability pi(s) of being kept. The decision reads one uniform number U per partition. The
partition is kept if and only if U >= 1 - pi(s), which has probability exactly pi(s). Every pi here
is non-decreasing in s, so that larger partitions are kept at smaller U.

Computations use 1 - pi(s), since pi(s) may be close to one: a float can represent 1e-30, but no
number that is smaller than 1 by so little. A table of enclosures of 1 - pi(s), rounded outwards to
64 bits, settles nearly every decision. Otherwise more and more bits of U are compared with an
enclosure of 1 - pi(s). So no rounding changes a decision, and the guarantee that is proved for pi
holds for the decisions.

**The optimal primitive.** Let users have one partition each. No (epsilon, delta)-differentially
private way of deciding about a partition by its number of users n keeps it more often, for any n,
than the distribution of Lemma 1 in Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially
private partition selection", arXiv 2006.03684):

    pi(0) = 0
    pi(n) = min(e**epsilon pi(n-1) + delta, 1 - e**-epsilon (1 - pi(n-1) - delta), 1)

Why it is private. Neighbours add or remove all records of one user, here one user of one partition,
so n changes by one. Two inequalities

    P[kept | n] <= e**epsilon P[kept | n-1] + delta
    P[dropped | n-1] <= e**epsilon P[dropped | n] + delta

each bound pi(n) from above, by the first and by the second term of the minimum. The same two with
n and n-1 exchanged follow from pi(n-1) <= pi(n). And pi(0) = 0: a partition that nobody has does
not appear.

The closed form (Theorem 1), for epsilon > 0 and delta > 0: with q = e**-epsilon there are n1 and n2
such that

    pi(n) = delta (q**-n - 1) / (q**-1 - 1)                            for n <= n1
    1 - pi(n) = q**m (1 - pi(n1)) - delta q (1 - q**m) / (1 - q)       for n1 < n <= n2, m = n - n1
    pi(n) = 1                                                          for n > n2

    n1 = 1 + floor(log((e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta)) / epsilon)
    n2 = n1 + floor(log(1 + (e**epsilon - 1) (1 - pi(n1)) / delta) / epsilon)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.discrete_noise import Extend
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    Undecided,
    exactly,
    refine_until_decided,
    rounding_pair,
    same,
    smallest_where,
)
from dp_transforms.mechanisms.randomness import WORD_BITS, known_from

_MOST_NODES = 1 << 11
"""The table's size. A distribution of a longer range is tabulated at every 2**i-th statistic."""

_GUARD_BITS = 32
_CHUNK = 1 << 18
"""Partitions decided together: the arrays in use stay within the processor's cache."""


class KeepDistribution(ABC):
    """Defines a non-decreasing pi(s) for integer statistics s >= 0, which is 0 below ``smallest``.
    Distributions are immutable and hashable, and equal ones share a table."""

    smallest: int = 1

    @abstractmethod
    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        """Encloses 1 - pi(statistic), within about 2**-precision."""

    def step(self, partitions: int) -> int:
        """Returns the amount that a user of ``partitions`` partitions adds to the statistic of each
        of them."""
        return 1

    @property
    def saturation(self) -> int | None:
        """Returns the smallest statistic that is kept with certainty; None if there is none."""
        return None

    def decide(self, statistics: IntArray, words: WordArray, extend: Extend) -> BoolArray:
        """Returns whether each partition is kept, as an array of n bools.

        Args:
          statistics: integer array of shape (n,), not negative.
          words, extend: a uniform number for each partition, see ``IntegerNoise.from_words``.

        Raises:
          ValueError: shapes or types are wrong, or a statistic is negative.
        """
        statistics = _checked("statistics", statistics, "iu")
        if _checked("words", words, "u").dtype != np.uint64 or len(words) != len(statistics):
            raise ValueError("words must be a uint64 array as long as statistics")
        if statistics.size and statistics.min() < 0:
            raise ValueError("statistics must not be negative")
        keep = np.empty(len(statistics), dtype=np.bool_)
        for start in range(0, len(statistics), _CHUNK):
            part = slice(start, start + _CHUNK)
            keep[part], open_ = self._look_up(statistics[part], words[part])
            for i in (start + open_).tolist():
                keep[i] = self._decide_one(int(statistics[i]), int(words[i]), partial(extend, i))
        return keep

    def keep_enclosure(self, statistic: int, precision: int) -> Enclosure:
        """Encloses pi(statistic) between exact rational numbers, within about 2**-precision."""
        return 1 - self.drop_enclosure(statistic, precision).rational()

    def keep_probability(self, statistic: int) -> float:
        """Returns pi(statistic) as a float, of full relative precision."""
        return as_float(lambda precision: self.keep_enclosure(statistic, precision))

    @cached_property
    def median(self) -> int | None:
        """Returns the smallest statistic s with pi(s) >= 1/2; None if there is none."""
        if self.reach is None:
            return None
        return self._smallest_dropped_at_most(gmpy2.mpq(1, 2))

    @cached_property
    def reach(self) -> int | None:
        """Returns the smallest statistic s with 1 - pi(s) <= 2**-64, or the saturation if there is
        one; None if pi is 0."""
        if self.saturation is not None:
            return self.saturation
        return self._smallest_dropped_at_most(gmpy2.mpq(1, 1 << WORD_BITS))

    def _smallest_dropped_at_most(self, probability: Any) -> int:
        def is_kept(statistic: int) -> bool:
            return refine_until_decided(
                lambda bits: self.drop_enclosure(statistic, bits).is_at_most(probability),
                2 * WORD_BITS,
            )

        return smallest_where(is_kept, self.smallest)

    def _look_up(self, statistics: IntArray, words: WordArray) -> tuple[BoolArray, IntArray]:
        """Returns whether each statistic is kept, as far as the table decides it, and the indices
        of those that it leaves open."""
        first, shift, below, last = _table(self)
        # The end of the table may exceed the largest number of this type.
        most = min(np.iinfo(statistics.dtype).max, np.iinfo(np.int64).max)
        end = min(first + ((len(below) - 1) << shift), most)
        cells = np.minimum(statistics, end).astype(np.int64)
        cells -= first
        cells >>= shift
        keep = words > last[cells]
        if self.saturation is not None:
            keep |= statistics >= self.saturation
        return keep, np.flatnonzero(~keep & (words >= below[cells]))

    def _decide_one(self, statistic: int, word: int, prefix: Callable[[int], int]) -> bool:
        """Tells whether U >= 1 - pi, from the first 64 bits of U, and from more bits if needed."""

        def is_dropped(bits: int) -> bool:
            number = known_from(word if bits == WORD_BITS else prefix(bits), bits)
            return number.is_below(self.drop_enclosure(statistic, bits + 8))

        return not refine_until_decided(is_dropped)


@dataclass(frozen=True)
class OptimalDistribution(KeepDistribution):
    """Defines the pi of Theorem 1 in the module, for users of one partition each. epsilon and delta
    may be 0."""

    epsilon: Fraction
    delta: Fraction

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        n, delta = statistic, gmpy2.mpq(self.delta)
        if n <= 0 or delta == 0:
            return exactly(1)
        if n == 1:
            return exactly(1 - delta)
        if self.saturation is not None and n >= self.saturation:
            return exactly(0)
        if self.epsilon == 0:
            return exactly(1 - n * delta)
        if n <= self.crossover:
            return 1 - self._growing(n, precision)
        return self._shrinking(n - self.crossover, precision)

    @cached_property
    def crossover(self) -> int:
        """Returns n1: up to here the first term of the minimum is the smallest."""
        if self.delta >= Fraction(1, 2) or self.epsilon == 0 or self.delta == 0:
            return 1
        return 1 + _floor_of_log_ratio(
            self.epsilon, partial(truncation_ratio, self.epsilon, self.delta)
        )

    @cached_property
    def saturation(self) -> int | None:
        """Returns n2 + 1, the smallest count that is kept with certainty; None for delta = 0."""
        if self.delta == 0:
            return None
        if self.epsilon == 0:
            return -(-self.delta.denominator // self.delta.numerator)
        # At n = 2 pi is 1 already. (Only at delta = 1/2 is the ratio of the logarithms a whole
        # number, whose floor enclosures would not settle.)
        if self.delta >= Fraction(1, 2):
            return 2
        return self.crossover + _floor_of_log_ratio(self.epsilon, self._saturation_ratio) + 1

    @property
    def reach(self) -> int | None:
        return self.saturation

    @cached_property
    def _decay(self) -> Decay:
        return Decay(self.epsilon)

    def _growing(self, n: int, precision: int) -> Enclosure:
        """Encloses pi(n) = delta q**(1-n) (1 - q**n) / (1 - q) for n <= n1."""
        working = precision + _GUARD_BITS
        power = self._decay.power(1 - n, working)
        above = self._decay.one_minus_power(n, working)
        return self.delta * power * above / self._decay.one_minus_power(1, working)

    def _shrinking(self, m: int, precision: int) -> Enclosure:
        """Encloses 1 - pi(n1 + m) for m > 0 and n1 + m <= n2."""
        # Both terms are at most 1, so their difference keeps the absolute precision.
        working = precision + _GUARD_BITS
        ratio, above = self._decay.power(1, working), self._decay.one_minus_power(m, working)
        spent = self.delta * ratio * above / self._decay.one_minus_power(1, working)
        kept = self._growing(self.crossover, working)
        return self._decay.power(m, working) * (1 - kept) - spent

    def _saturation_ratio(self, precision: int) -> Enclosure:
        """Encloses 1 + (e**epsilon - 1) (1 - pi(n1)) / delta."""
        kept = self._growing(self.crossover, precision)
        return 1 + _grown(self.epsilon, precision) * (1 - kept) / self.delta


def truncation_ratio(epsilon: Fraction, delta: Fraction, precision: int) -> Enclosure:
    """Encloses (e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta) for epsilon, delta > 0."""
    # Numerator and denominator are divided by e**epsilon - 1.
    grown = _grown(epsilon, precision)
    return (1 + 2 * delta / grown) / (delta * (1 + 2 / grown))


def _grown(epsilon: Fraction, precision: int) -> Enclosure:
    """Encloses e**epsilon - 1."""
    down, up = rounding_pair(precision)
    return Enclosure(down.expm1(gmpy2.mpq(epsilon)), up.expm1(gmpy2.mpq(epsilon)))


def _floor_of_log_ratio(epsilon: Fraction, ratio: Callable[[int], Enclosure]) -> int:
    """Returns floor(log(ratio) / epsilon) for a ratio >= 1, which is one of those of n1 and n2.

    The logarithm is never a whole multiple of epsilon. For epsilon is rational and not 0, so that
    e**epsilon is transcendental (Lindemann). And as a rational function of e**epsilon, neither
    ratio is equal to e**(j epsilon), for any j and any delta below 1 other than 1/2, which is
    handled above. So the enclosures settle the floor.
    """

    def floor(bits: int) -> int:
        return int(same(math.floor(gmpy2.mpq(end)) for end in ratio(bits).log() / epsilon))

    return refine_until_decided(floor, 128)


@lru_cache(maxsize=64)
def _table(distribution: KeepDistribution) -> tuple[int, int, WordArray, WordArray]:
    """Returns (first, shift, drop_below, last_open). The cell of s is (s - first) >> shift, or the
    last cell if that is smaller. In a cell, words below ``drop_below`` are dropped and words above
    ``last_open`` are kept; for others s and further bits decide."""
    # pi(first) is 0.
    first = distribution.smallest - 1
    span = (distribution.reach or distribution.smallest) - first
    shift = max(0, (span // _MOST_NODES).bit_length())
    nodes = [first + (i << shift) for i in range((span >> shift) + 2)]
    ends = [distribution.drop_enclosure(node, 2 * WORD_BITS) for node in nodes]
    lows, highs = zip(*ends, strict=True)
    # Within a cell of several statistics, 1 - pi lies between its values at both ends. In the last
    # cell, which has no end, it may fall to 0.
    lower_ends = lows[1:] if shift else lows[:-1]
    last = lows[-1] if distribution.reach is None else 0
    below = [*lower_ends, last]
    drop_below, last_open = (
        np.array([_word_below(value) for value in values], dtype=np.uint64)
        for values in (below, highs)
    )
    return first, shift, drop_below, last_open


def _word_below(value: Any) -> int:
    """Returns floor(value * 2**64), clipped to 64 bits."""
    numerator, denominator = value.as_integer_ratio()
    return max(0, min(int((numerator << WORD_BITS) // denominator), (1 << WORD_BITS) - 1))


def as_float(enclosure: Callable[[int], Enclosure]) -> float:
    """Returns the enclosed number as a float, with full relative precision even if it is tiny."""

    def rounded(bits: int) -> float:
        lo, hi = enclosure(bits).rational()
        if (hi - lo) * (1 << 70) > hi and float(hi) != 0.0:
            raise Undecided
        return float((lo + hi) / 2)

    return refine_until_decided(rounded, 2 * WORD_BITS)


def _checked(name: str, array: Any, kinds: str) -> Any:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in kinds:
        raise ValueError(f"{name} must be a one-dimensional integer array")
    return array
