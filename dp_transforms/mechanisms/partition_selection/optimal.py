"""The optimal primitive for users with one partition each, exactly.

No (epsilon, delta)-differentially private way of deciding about a partition by its number of users
n keeps it more often, for any n, than the law of Lemma 1 in Desfontaines, Voss, Gipson, Mandayam
(2022, "Differentially private partition selection", arXiv 2006.03684):

    pi(0) = 0
    pi(n) = min(e**epsilon pi(n-1) + delta, 1 - e**-epsilon (1 - pi(n-1) - delta), 1)

Why it is private. Neighbours add or remove all records of one user, here one user of one partition,
so n changes by one. The two terms of the minimum are the largest pi(n) that P[kept | n] <=
e**epsilon P[kept | n-1] + delta and P[dropped | n-1] <= e**epsilon P[dropped | n] + delta allow;
the two inequalities of the other direction follow from pi(n-1) <= pi(n). And pi(0) = 0: a partition
that nobody has does not appear.

The closed form (Theorem 1): with q = e**-epsilon there are n1 and n2 such that

    pi(n) = delta (q**-n - 1) / (q**-1 - 1)                            for n <= n1
    1 - pi(n) = q**m (1 - pi(n1)) - delta q (1 - q**m) / (1 - q)       for n1 < n <= n2, m = n - n1
    pi(n) = 1                                                          for n > n2

    n1 = 1 + floor(log((e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta)) / epsilon)
    n2 = n1 + floor(log(1 + (e**epsilon - 1) (1 - pi(n1)) / delta) / epsilon)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import gmpy2

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, agreed, exactly, rounding_pair, settled
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw

_GUARD_BITS = 32


@dataclass(frozen=True)
class OptimalLaw(KeepLaw):
    """pi of Theorem 1 for one (epsilon, delta), and users with one partition each.

    Args:
      epsilon: not negative; an exact rational number.
      delta: at least 0 and below 1; an exact rational number.
    """

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
        """n1: up to here the first term of the minimum is the smallest."""
        if self.delta >= Fraction(1, 2) or self.epsilon == 0 or self.delta == 0:
            return 1
        return 1 + _floor_of_log_ratio(
            self.epsilon, partial(truncation_ratio, self.epsilon, self.delta)
        )

    @cached_property
    def saturation(self) -> int | None:
        """n2 + 1, the smallest count that is kept with certainty; None for delta = 0."""
        if self.delta == 0:
            return None
        if self.epsilon == 0:
            return -(-self.delta.denominator // self.delta.numerator)
        # For delta >= 1/2 the second term exceeds 1 from n = 2 on (and delta = 1/2 is the one value
        # for which the logarithms' ratio is a whole number, so that enclosures would not settle
        # it).
        if self.delta >= Fraction(1, 2):
            return 2
        return self.crossover + _floor_of_log_ratio(self.epsilon, self._saturation_ratio) + 1

    @property
    def never_keeps(self) -> bool:
        return self.delta == 0

    @cached_property
    def _decay(self) -> Decay:
        return Decay(self.epsilon)

    def _growing(self, n: int, precision: int) -> Enclosure:
        """pi(n) for n <= n1: delta q**(1-n) (1 - q**n) / (1 - q)."""
        working = precision + _GUARD_BITS
        power = self._decay.power(1 - n, working)
        above = self._decay.one_minus_power(n, working)
        return self.delta * power * above / self._decay.one_minus_power(1, working)

    def _shrinking(self, m: int, precision: int) -> Enclosure:
        """1 - pi(n1 + m) for n1 + m <= n2."""
        # The two terms are at most e**epsilon, so their difference keeps the absolute precision.
        working = precision + _GUARD_BITS + int(2 * self.epsilon)
        ratio, above = self._decay.power(1, working), self._decay.one_minus_power(m, working)
        spent = self.delta * ratio * above / self._decay.one_minus_power(1, working)
        kept = self._growing(self.crossover, working)
        return self._decay.power(m, working) * (1 - kept) - spent

    def _saturation_ratio(self, precision: int) -> Enclosure:
        kept = self._growing(self.crossover, precision)
        return 1 + _grown(self.epsilon, precision) * (1 - kept) / self.delta


def truncation_ratio(epsilon: Fraction, delta: Fraction, precision: int) -> Enclosure:
    """(lo, hi) around (e**epsilon + 2 delta - 1) / ((e**epsilon + 1) delta); epsilon, delta > 0."""
    # Divided through by e**epsilon - 1.
    grown = _grown(epsilon, precision)
    return (1 + 2 * delta / grown) / (delta * (1 + 2 / grown))


def _grown(epsilon: Fraction, precision: int) -> Enclosure:
    """(lo, hi) around e**epsilon - 1."""
    down, up = rounding_pair(precision)
    return Enclosure(down.expm1(gmpy2.mpq(epsilon)), up.expm1(gmpy2.mpq(epsilon)))


def _floor_of_log_ratio(epsilon: Fraction, ratio: Callable[[int], Enclosure]) -> int:
    """floor(log(ratio) / epsilon) for a ratio >= 1.

    The logarithm is never a whole multiple of epsilon: epsilon is rational and not 0, so e**epsilon
    is transcendental (Lindemann), and e**(j epsilon) equals neither ratio as a rational function of
    e**epsilon, for any j and any delta below 1 other than the 1/2 set apart above. So the
    enclosures settle the floor.
    """

    def floor(bits: int) -> int:
        return int(agreed(math.floor(gmpy2.mpq(end)) for end in ratio(bits).log() / epsilon))

    return settled(floor, 128)
