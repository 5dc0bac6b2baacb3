"""Computes keep-probabilities as large as a bound on Renyi divergences allows.

A selection shows one bit about a partition. Noise with a threshold, which is private even if the
noisy sum is shown, spends more than the bit needs: here its probabilities are chosen directly.

A user of d partitions adds a step s_d to the integer statistic x of each. With pi(0) = 0, and for
every d <= kappa, a distribution of the budget (order a, divergence R, exposure lambda) has

    D_a(Bernoulli(pi(x)), Bernoulli(pi(x + s_d))) <= R / d, in both directions, for x >= 1
    pi(s_d) <= min(lambda / d, 1 - e**-(R / d))

as ``renyi_calibration`` needs. pi does not fall, and the divergence of two probabilities falls as
the smaller one grows: so a bound that holds for the largest d with a step holds for all d with it,
and keeping pi constant is always allowed after a statistic at which the first line holds. To make
that true at x + s_d = s_d + 1 too, pi(s_d) is no further from pi(1) than the first line allows.

The log-odds of pi are linear between knots, so that the time to make a distribution does not grow
with its users: knots are as far apart as the log-odds rise by a small constant, or by one. From
knot to knot the slope is the largest that the first line allows, at all statistics in between: if
the log-odds differ by T, so that with B = e**T - 1, A = e**(a T) - 1, A' = 1 - e**-((a-1) T) and p
the smaller probability the two moments of order a are

    (1 + p A) / (1 + p B)**a          and          (1 + p B)**(a-1) (1 - p A')

then both grow with T and, as a derivative of their logarithms in p changes its sign once, rise with
p up to one maximum and fall after it. So between two values of p they are at most their values
there, or their maximum if it is between them.

The steps are chosen, not derived: s_d in proportion to d**(-1/3) or d**(-1/6). Weights
1 / sqrt(d), which suit Gaussian noise, make the user of one partition move it so far that, where pi
is small, this user alone binds.

Knots and log-odds are integers, the latter in units of 2**-128, whose inequalities were verified
with directed rounding, and MPFR rounds alike on every machine: a distribution is the same wherever
it is built. Harrison and Manurangsi (2026, "Optimal partition selection with Renyi differential
privacy") study the optimal distribution of one step and one order.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import Enclosure, exactly, rounding_pair, smallest_where
from dp_transforms.mechanisms.randomness import WORD_BITS
from dp_transforms.mechanisms.selection.keep_distribution import KeepDistribution
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal

_BITS = 128
_UNIT = 1 << _BITS
"""One, in units of log-odds."""
_PRECISION = 192
_GUARD_BITS = 64

_RISE_BITS = 5
"""Between knots more than one apart, log-odds rise by about 2**-5."""
_FLAT = 4
"""Beyond these log-odds, where pi hardly changes, by more in proportion."""
_DIGITS = 11
"""Allowed differences of log-odds are integers of at most 11 bits times a power of two."""
_LARGEST = 1 << 48
"""About the largest statistic at which pi may still change."""

_LARGEST_RATE = 1 << 10
"""A larger divergence R / d is lowered to this one, at which a single step goes from hardly any
probability to nearly 1: a distribution within the smaller divergence is within the larger one."""

_FIRST_PLACE = (_BITS - 10) << (_DIGITS - 1)
"""The place where the search for the first difference of log-odds begins: about 2**-10."""


@dataclass(frozen=True)
class RenyiDistribution(KeepDistribution):
    """Defines pi by the sum of users' steps.

    Args:
      budget, max_partitions_per_user: the change that one user may make, and kappa.
      resolution: the step of a user of kappa partitions; 0 if every step is 1.
      root: steps are in proportion to d**(-1 / root).
      bits: the distribution ends where 1 - pi is at most 2**-bits; pi is constant from there.
      coarser: knots are 2**coarser times as far apart, which keeps somewhat less.
    """

    budget: RenyiBudget
    max_partitions_per_user: int
    resolution: int = 0
    bits: int = WORD_BITS
    root: int = 3
    coarser: int = 0

    def __post_init__(self) -> None:
        if self.is_long(self.budget, self.max_partitions_per_user, self.resolution):
            raise StrategyRefusal("the probabilities would go on to more users than there are")

    @staticmethod
    def is_long(budget: RenyiBudget, partitions: int, resolution: int) -> bool:
        """Tells whether a distribution would go on to statistics that are too large. Near pi = 1/2
        the divergence of a step h of the angle 2 arcsin(sqrt(pi)) is a h**2 / 2, so the whole half
        circle takes pi / h steps."""
        squared = budget.order * partitions / (2 * budget.divergence)
        return bool(max(1, resolution) ** 2 * math.pi**2 * squared > _LARGEST**2)

    def step(self, partitions: int) -> int:
        """Returns s_d = floor(resolution * (kappa / d)**(1 / root)), or 1."""
        if not self.resolution:
            return 1
        power = self.resolution**self.root * self.max_partitions_per_user // partitions
        return int(gmpy2.iroot(gmpy2.mpz(power), self.root)[0])

    def describe(self) -> dict[str, float]:
        """Public facts of a round by this distribution, as JSON-ready values."""
        order, divergence, exposure = astuple(self.budget)
        return {"order": order, "divergence": float(divergence), "exposure": float(exposure)}

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < 1:
            return exactly(1)
        odds = exactly(gmpy2.mpq(_curve(self).at(statistic), _UNIT))
        return 1 / (1 + odds.rounded(precision + _GUARD_BITS).exp())

    @cached_property
    def reach(self) -> int:
        return _curve(self).knots[-1]

    @property
    def kept(self) -> float:
        """Returns about the sum of pi(x) / x**2: proportional to the number of kept partitions if
        sizes x follow Zipf's law."""
        curve = _curve(self)
        total = gmpy2.mpfr(0)
        with gmpy2.context(gmpy2.get_context(), precision=53):
            pairs = map(itertools.pairwise, (curve.knots, curve.odds))
            for (x, after), odds in zip(*pairs, strict=True):
                share = gmpy2.mpfr(after - x) / (gmpy2.mpfr(x) * after)
                total += share / (1 + gmpy2.exp(gmpy2.mpq(-(sum(odds) // 2), _UNIT)))
            return float(total + 1 / gmpy2.mpfr(curve.knots[-1]))

    @cached_property
    def constraints(self) -> list[tuple[int, int]]:
        """Returns (s_d, d) for the largest d with each step."""
        constraints = []
        partitions = self.max_partitions_per_user
        scaled = self.resolution**self.root * partitions
        while partitions >= 1:
            step = self.step(partitions)
            constraints.append((step, partitions))
            # The largest d with a longer step: d (step + 1)**root <= scaled.
            partitions = scaled // (step + 1) ** self.root
        return constraints


class _Curve:
    """Log-odds of pi(x), x >= 1, in units of 2**-128 are linear between knots, then constant."""

    def __init__(self, first: int):
        self.knots = [1]
        self.odds = [first]

    def at(self, x: int) -> int:
        place = bisect.bisect_right(self.knots, x) - 1
        start, odds = self.knots[place], self.odds[place]
        if x == start or place == len(self.knots) - 1:
            return odds
        # Slopes are integers.
        slope = (self.odds[place + 1] - odds) // (self.knots[place + 1] - start)
        return odds + (x - start) * slope

    def extend(self, length: int, slope: int) -> None:
        self.knots.append(self.knots[-1] + length)
        self.odds.append(self.odds[-1] + length * slope)

    def between(self, first: int, last: int) -> list[int]:
        """Returns both, and the knots between them."""
        begin, end = bisect.bisect_right(self.knots, first), bisect.bisect_left(self.knots, last)
        return [first, *self.knots[begin:end], last]


class _Bound:
    """Limits pi by the users of d partitions, d being the largest number with the same step.
    Log-odds and their differences are in units of 2**-128."""

    def __init__(self, budget: RenyiBudget, step: int, partitions: int):
        down, up = rounding_pair(_PRECISION)
        rate = min(gmpy2.mpq(budget.divergence) / partitions, _LARGEST_RATE)
        self.step = step
        self._power = budget.order - 1
        self._most = down.exp(down.mul(self._power, rate))
        kept = min(gmpy2.mpq(budget.exposure) / partitions, gmpy2.mpq(down.minus(up.expm1(-rate))))
        odds = down.log(gmpy2.mpq(kept) / (1 - gmpy2.mpq(kept)))
        self.first = int(gmpy2.floor(down.mul(odds, _UNIT)))
        """The largest log-odds of a partition that only such a user has."""
        self._last_places = (_FIRST_PLACE, _FIRST_PLACE)

    def largest(self, low: int, high: int) -> int:
        """Returns the largest difference of ``_DIGITS`` bits that ``holds``; 0 if none does. The
        last two results tell where to begin the search; its result does not depend on them."""
        before, last = self._last_places
        place = _largest_place(
            lambda place: self.holds(_with_digits(place), low, high), 2 * last - before
        )
        self._last_places = last, place
        return _with_digits(place)

    def holds(self, difference: int, low: int, high: int) -> bool:
        """Tells whether both divergences are certainly within R / d, from all log-odds in [low,
        high] to log-odds larger by at most this difference."""
        if not difference:
            return True
        down, up = rounding_pair(_PRECISION)
        power, order = self._power, self._power + 1
        t = gmpy2.mpq(difference, _UNIT)
        least, most = step = Enclosure(down.exp(t), up.exp(t))
        grown = Enclosure(down.pow(least, order), up.pow(most, order))
        shrunk = up.div(1, down.pow(least, power))
        # With z = (1 - p) / p and r = (1 + z) / (z + e**T) the moments are
        # (z + e**(a T)) / (1 + z) * r**a and (z + e**((1-a) T)) / (1 + z) * r**(1-a).
        for odds in {low, high}:
            few, many = _inverse_odds(odds)
            whole = down.add(1, few)
            there = up.pow(up.div(up.add(1, many), down.add(few, least)), order)
            here = down.pow(down.div(whole, up.add(many, most)), power)
            if not (
                up.mul(up.div(up.add(many, grown[1]), whole), there) <= self._most
                and up.div(up.div(up.add(many, shrunk), whole), here) <= self._most
            ):
                return False
        return low == high or self._holds_between(low, high, step, grown, shrunk)

    def _holds_between(
        self, low: int, high: int, step: Enclosure, grown: Enclosure, shrunk: Any
    ) -> bool:
        """Tells whether the claim of ``holds``, true at both ends, is true between them."""
        down, up = rounding_pair(_PRECISION)
        power, order = self._power, self._power + 1
        first = down.div(1, up.add(1, _inverse_odds(low)[1]))
        last = up.div(1, down.add(1, _inverse_odds(high)[0]))
        # B, A and A'.
        b, b_up = down.sub(step[0], 1), up.sub(step[1], 1)
        a, a_up = down.sub(grown[0], 1), up.sub(grown[1], 1)
        c, c_up = down.sub(1, shrunk), up.sub(1, down.div(1, up.pow(step[1], power)))
        # The largest moment is at p = (A - a B) / (A B (a-1)).
        if (
            first < up.div(up.sub(a_up, down.mul(order, b)), down.mul(power, down.mul(a, b)))
            and down.div(down.sub(a, up.mul(order, b_up)), up.mul(power, up.mul(a_up, b_up))) < last
        ):
            rest, rest_up = down.div(down.sub(a, b_up), power), up.div(up.sub(a_up, b), power)
            ratio = up.pow(up.div(a_up, down.mul(order, rest)), order)
            if not up.mul(up.div(rest_up, b), ratio) <= self._most:
                return False
        # The other one is at p = ((a-1) B - A') / (a B A').
        if (
            first < up.div(up.sub(up.mul(power, b_up), c), down.mul(order, down.mul(b, c)))
            and down.div(down.sub(down.mul(power, b), c_up), up.mul(order, up.mul(b_up, c_up)))
            < last
        ):
            both = up.div(up.add(b_up, c_up), order)
            ratio = up.pow(up.div(up.mul(power, both), c), power)
            if not up.mul(up.div(both, b), ratio) <= self._most:
                return False
        return True


def _largest_place(holds: Callable[[int], bool], place: int) -> int:
    """Searches near ``place`` for the largest place where ``holds`` is true; 0 if there is none."""
    place, back = max(0, place), 1
    while place and not holds(place):
        place, back = max(0, place - back), 2 * back
    return smallest_where(lambda larger: not holds(larger), place + 1) - 1


@lru_cache(maxsize=1 << 14)
def _inverse_odds(odds: int) -> Enclosure:
    down, up = rounding_pair(_PRECISION)
    exponent = gmpy2.mpq(-odds, _UNIT)
    return Enclosure(down.exp(exponent), up.exp(exponent))


def _with_digits(place: int) -> int:
    """Returns the place-th integer, from 0, of ``_DIGITS`` bits times a power of two."""
    half = 1 << (_DIGITS - 1)
    shift = max(0, place // half - 1)
    return place - shift * half << shift


@lru_cache(maxsize=64)
def _curve(distribution: RenyiDistribution) -> _Curve:
    bounds = [_Bound(distribution.budget, *constraint) for constraint in distribution.constraints]
    longest = max(bound.step for bound in bounds)
    first = min(bound.first for bound in bounds)
    caps = [(b.step, min(b.first, first + b.largest(first, first))) for b in bounds]
    curve = _Curve(first)
    # 0.7 is above ln 2.
    end = distribution.bits * 7 * _UNIT // 10
    while curve.odds[-1] < end:
        x, odds = curve.knots[-1], curve.odds[-1]
        rise = max(_UNIT, abs(odds) // _FLAT) >> _RISE_BITS << distribution.coarser
        if x < longest:
            # A step that some users make in one is not gone beyond.
            cap = min(cap for step, cap in caps if step > x)
            length, slope = 1, cap - odds
        else:
            past = min(x - 1, longest)
            average = odds - curve.at(x - past)
            length = max(1, rise * past // average) if average else 1
            # Room for slopes that grow.
            rise += rise // 4
            slope = end - odds if length == 1 else rise // length
        for i, bound in enumerate(bounds):
            if bound.step > x:
                continue
            least = _slope(curve, bound, length, slope, rise)
            if least < slope:
                slope = least
                # A bound that binds once mostly does so again; then the others only need to hold.
                bounds.insert(0, bounds.pop(i))
        curve.extend(length, slope)
    return curve


def _slope(curve: _Curve, bound: _Bound, length: int, slope: int, rise: int) -> int:
    """Returns the largest slope up to ``slope`` that a bound allows so far after the last knot."""
    x, odds, step = curve.knots[-1], curve.odds[-1], bound.step
    low = curve.at(x + 1 - step)
    inside = min(x, x + length - step)
    high = curve.at(inside) if x + length - step <= x else odds + rise
    # At these the difference is the largest; it is linear between them.
    places = [
        (base + step - x, odds - curve.at(base)) for base in curve.between(x + 1 - step, inside)
    ]
    if bound.holds(max(gap + slope * ahead for ahead, gap in places), low, high):
        return slope
    most = bound.largest(low, high)
    return max(0, min(slope, *((most - gap) // ahead for ahead, gap in places)))
