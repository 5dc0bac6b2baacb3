"""Computes keep-probabilities as large as a bound on Renyi divergences allows.

A selection releases one bit about a partition. Noise with a threshold would be private even if the
noisy sum were released, so it spends more than the bit needs. Here the probability of the bit is
chosen directly.

A user of d partitions adds a step s_d to the integer statistic x of each. Let the budget be (order
a, divergence R, exposure lambda). The distribution has pi(0) = 0, and for every d <= kappa

    D_a(Bernoulli(pi(x)), Bernoulli(pi(x + s_d))) <= R / d, in both directions, for x >= 1
    pi(s_d) <= min(lambda / d, 1 - e**-(R / d))

as ``renyi_calibration`` needs. pi does not fall, and the divergence of two probabilities falls as
the smaller one grows. So a bound that holds for the largest d with a step holds for all d with this
step. And after a statistic at which the first line holds, pi may always stay constant. To make that
true at x + s_d = s_d + 1 too, pi(s_d) is no further from pi(1) than the first line allows.

The log-odds of pi are linear between knots, so that the time to compute a distribution does not
grow with its number of users. From one knot to the next the log-odds rise by a small constant, or
the statistic by one. Between two knots the slope is the largest that the first line allows at all
statistics in between. Let T be the difference of two log-odds, p the smaller probability, B = e**T
- 1, A = e**(a T) - 1 and A' = 1 - e**-((a-1) T). The two moments of order a are

    (1 + p A) / (1 + p B)**a          and          (1 + p B)**(a-1) (1 - p A')

Both grow with T. The derivatives of their logarithms in p change their sign once, so that both rise
with p up to one maximum and fall after it. So between two values of p they are at most their values
there, or their maximum if it is between them.

The steps are chosen, not derived: s_d is proportional to d**(-1/3) or d**(-1/6). Weights
1 / sqrt(d), which suit Gaussian noise, would let the user of one partition move the statistic so
far that, where pi is small, the bound for this user would be the only one that matters.

Knots and log-odds are integers, the latter in units of 2**-128. Their inequalities are verified
with directed rounding, and MPFR rounds alike on every machine. So a distribution is the same
wherever it is computed. Harrison and Manurangsi (2026, "Optimal partition selection with Renyi
differential privacy") study the optimal distribution of one step and one order.
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
"""Beyond log-odds of this absolute value pi hardly changes. There the rise between knots is larger,
in proportion to the log-odds."""
_DIGITS = 11
"""Differences of log-odds that are tried are integers of at most 11 bits times a power of two."""
_LARGEST = 1 << 48
"""About the largest statistic at which pi may still change."""

_LARGEST_RATE = 1 << 10
"""The largest divergence R / d; a larger one is lowered to it. Even so a single step goes from
hardly any probability to nearly 1, and a distribution within the smaller divergence is also within
the larger one."""

_FIRST_PLACE = (_BITS - 10) << (_DIGITS - 1)
"""The place at which the search for the first difference of log-odds begins: that of about
2**-10."""


@dataclass(frozen=True)
class RenyiDistribution(KeepDistribution):
    """Defines pi as a function of the sum of users' steps, see the module.

    Args:
      budget: the change that one user may make.
      max_partitions_per_user: kappa.
      resolution: the step of a user of kappa partitions; 0 if every step is 1.
      bits: pi is constant from where 1 - pi is at most 2**-bits.
      root: steps of users of d partitions are proportional to d**(-1 / root).
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
        """Tells whether pi would still change at statistics that are too large.

        Let phi = 2 arcsin(sqrt(pi)), which goes from 0 to half a circle. Near pi = 1/2 a step of h
        in phi has the divergence a h**2 / 2. So the half circle takes 3.14 / h steps.
        """
        squared = budget.order * partitions / (2 * budget.divergence)
        return bool(max(1, resolution) ** 2 * math.pi**2 * squared > _LARGEST**2)

    def step(self, partitions: int) -> int:
        """Returns s_d = floor(resolution * (kappa / d)**(1 / root)) for d = ``partitions``, or 1 if
        the resolution is 0."""
        if not self.resolution:
            return 1
        power = self.resolution**self.root * self.max_partitions_per_user // partitions
        return int(gmpy2.iroot(gmpy2.mpz(power), self.root)[0])

    def describe(self) -> dict[str, float]:
        """Returns the public facts of a round by this distribution, as JSON-ready values."""
        order, divergence, exposure = astuple(self.budget)
        return {"order": order, "divergence": float(divergence), "exposure": float(exposure)}

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < 1:
            return exactly(1)
        down, up = rounding_pair(precision + _GUARD_BITS)
        odds = gmpy2.mpq(_curve(self).at(statistic), _UNIT)
        least, most = down.exp(odds), up.exp(odds)
        return Enclosure(down.div(1, up.add(1, most)), up.div(1, down.add(1, least)))

    @cached_property
    def reach(self) -> int:
        return _curve(self).knots[-1]

    @property
    def kept(self) -> float:
        """Returns about the sum of pi(x) / x**2. It is proportional to the expected number of kept
        partitions if their statistics x follow Zipf's law."""
        curve = _curve(self)
        total = gmpy2.mpfr(0)
        with gmpy2.context(gmpy2.get_context(), precision=53):
            knots, odds = itertools.pairwise(curve.knots), itertools.pairwise(curve.odds)
            for (x, after), odds_at_both in zip(knots, odds, strict=True):
                # The sum of 1 / x**2 between two knots is about 1 / x - 1 / after.
                share = gmpy2.mpfr(after - x) / (gmpy2.mpfr(x) * after)
                middle = gmpy2.mpq(-(sum(odds_at_both) // 2), _UNIT)
                total += share / (1 + gmpy2.exp(middle))
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
    """Holds the log-odds of pi(x) for x >= 1, in units of 2**-128. They are linear between knots,
    and constant behind the last one."""

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
        """Adds a knot, with this distance and slope from the last one."""
        self.knots.append(self.knots[-1] + length)
        self.odds.append(self.odds[-1] + length * slope)

    def between(self, first: int, last: int) -> list[int]:
        """Returns first, the knots between first and last, and last."""
        begin, end = bisect.bisect_right(self.knots, first), bisect.bisect_left(self.knots, last)
        return [first, *self.knots[begin:end], last]


class _Bound:
    """Limits the rise of pi by the bound for users of d partitions, where d is the largest number
    with the same step. Log-odds and their differences are in units of 2**-128."""

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
        """Returns the largest difference of ``_DIGITS`` bits for which ``holds`` is true, or 0. The
        search begins where the last two results suggest, but its result does not depend on them."""
        before, last = self._last_places
        place = _largest_place(
            lambda place: self.holds(_with_digits(place), low, high), 2 * last - before
        )
        self._last_places = last, place
        return _with_digits(place)

    def holds(self, difference: int, low: int, high: int) -> bool:
        """Tells whether the divergences in both directions are certainly at most R / d, between any
        log-odds in [low, high] and log-odds that are larger by at most this difference."""
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
        """Tells whether the claim of ``holds`` is certainly true between low and high, given that
        it is true at both ends."""
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
    """Returns the largest place where ``holds`` is true, or 0; the search begins at ``place``."""
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
    """Returns the integer at this place in the ascending list of all integers of at most
    ``_DIGITS`` bits times a power of two. Places are counted from 0."""
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
            # Up to its step a bound caps the log-odds: a single user reaches these statistics.
            cap = min(cap for step, cap in caps if step > x)
            length, slope = 1, cap - odds
        else:
            past = min(x - 1, longest)
            average = odds - curve.at(x - past)
            length = max(1, rise * past // average) if average else 1
            # The slope may exceed the average so far by a quarter.
            rise += rise // 4
            slope = end - odds if length == 1 else rise // length
        for i, bound in enumerate(bounds):
            if bound.step > x:
                continue
            least = _slope(curve, bound, length, slope, rise)
            if least < slope:
                slope = least
                # A bound that limits the slope once mostly does so again. If it comes first, the
                # others only need to hold.
                bounds.insert(0, bounds.pop(i))
        curve.extend(length, slope)
    return curve


def _slope(curve: _Curve, bound: _Bound, length: int, slope: int, rise: int) -> int:
    """Returns the largest slope, up to ``slope``, that a bound allows between the last knot and
    ``length`` behind it, where log-odds rise by at most ``rise``."""
    x, odds, step = curve.knots[-1], curve.odds[-1], bound.step
    # The steps that end behind x and up to x + length begin between x + 1 - step and x + length -
    # step. ``inside`` is the last of these places up to x. All log-odds there are in [low, high].
    low = curve.at(x + 1 - step)
    inside = min(x, x + length - step)
    high = curve.at(inside) if x + length - step <= x else odds + rise
    # For a step from ``base``: how far behind x it ends, and by how much log-odds rise up to x. The
    # difference of log-odds is linear between these bases, so it is the largest at one of them.
    ends_and_rises = [
        (base + step - x, odds - curve.at(base)) for base in curve.between(x + 1 - step, inside)
    ]
    largest_difference = max(risen + slope * ahead for ahead, risen in ends_and_rises)
    if bound.holds(largest_difference, low, high):
        return slope
    most = bound.largest(low, high)
    allowed = min((most - risen) // ahead for ahead, risen in ends_and_rises)
    return max(0, min(slope, allowed))
