"""Keep-probabilities as large as a bound on Renyi divergences allows.

A selection shows one bit about a partition. Noise with a threshold would be private even if the
noisy sum were shown, and so spends more than the bit needs: here its probabilities are chosen
directly.

A user of d partitions adds a step s_d to the integer statistic x of each. With pi(0) = 0, and for
every d <= kappa, a law of the budget (order a, divergence R, exposure lambda) has

    D_a(Bernoulli(pi(x)), Bernoulli(pi(x + s_d))) <= R / d, in both directions, for x >= 1
    pi(s_d) <= min(lambda / d, 1 - e**-(R / d))

which is what ``renyi_calibration`` needs. Taken with equality wherever some d binds, they define
pi(1), pi(2), ... one after the other. pi does not fall: what it rests on, pi(max(1, x - s_d)), does
not, and a divergence grows as the second of two probabilities moves away from the first. For the
same reason what holds for the largest d of those with one step holds for them all, and keeping pi
constant is always allowed.

The steps are chosen, not derived: s_d in proportion to d**(-1/3) or d**(-1/6). Weights
1 / sqrt(d), which suit Gaussian noise, make the user of one partition move it so far that, where pi
is small, this user alone binds.

Every pi(x) is a dyadic number whose inequalities were verified with directed rounding, and MPFR
rounds alike on every machine: a law is the same wherever it is built. Harrison and Manurangsi
(2026, "Optimal partition selection with Renyi differential privacy") study the optimal law of one
step and one order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import Enclosure, exactly, rounding_pair
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw
from dp_transforms.mechanisms.partition_selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.partition_selection.strategy import StrategyRefusal
from dp_transforms.mechanisms.randomness import WORD_BITS

_BITS = 160
_ONE = gmpy2.mpz(1) << _BITS
_PRECISION = 192
"""More than a probability has, so that it is converted exactly."""


_GROWTH_BITS = 64
_DIGITS = 11
"""The odds' growth is in units of 2**-64, an integer of at most 11 bits times a power of two."""

_NEWTON_STEPS = 50
_NEWTON_TOLERANCE = 1e-5
_FAR = 600.0
"""Exponents beyond which Newton's method need not look."""

_LONGEST = 1 << 15
"""Statistics in a table: some seconds of work."""


@dataclass(frozen=True)
class RenyiLaw(KeepLaw):
    """pi by the sum of users' steps.

    Args:
      budget: what one user may change.
      max_partitions_per_user: kappa.
      resolution: the step of a user of kappa partitions, where steps depend on d; 0 if every step
        is 1, so that the statistic is the number of users.
      root: steps are in proportion to d**(-1 / root).
      bits: where 1 - pi is at most 2**-bits the law ends, and pi stays what it is.
    """

    budget: RenyiBudget
    max_partitions_per_user: int
    resolution: int = 0
    bits: int = WORD_BITS
    root: int = 3

    def __post_init__(self) -> None:
        if self.is_long(self.budget, self.max_partitions_per_user, self.resolution):
            raise StrategyRefusal("the table of keep-probabilities would be too long")

    @staticmethod
    def is_long(budget: RenyiBudget, partitions: int, resolution: int) -> bool:
        """Whether a table would be too long to make.

        Near pi = 1/2 the divergence of a step h of the angle 2 arcsin(sqrt(pi)) is a h**2 / 2, so
        that all of the half circle takes pi / h steps; those at its ends come on top.
        """
        squared = budget.order * partitions / (2 * budget.divergence)
        return bool(max(1, resolution) ** 2 * math.pi**2 * squared > _LONGEST**2)

    def step(self, partitions: int) -> int:
        """s_d = floor(resolution * (kappa / d)**(1 / root)), or 1."""
        if not self.resolution:
            return 1
        power = self.resolution**self.root * self.max_partitions_per_user // partitions
        return int(gmpy2.iroot(gmpy2.mpz(power), self.root)[0])

    @property
    def saturation(self) -> int | None:
        return None

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        drops = _drops(self)
        return exactly(gmpy2.mpq(drops[max(0, min(statistic, len(drops) - 1))], _ONE))

    @cached_property
    def reach(self) -> int:
        return len(_drops(self)) - 1

    @property
    def kept(self) -> float:
        """sum of pi(x) / x**2, for comparisons of laws: in proportion to how many partitions are
        kept where as many have x users as in Zipf's law."""
        drops = _drops(self)
        inside = sum(float(_ONE - drop) / x**2 for x, drop in enumerate(drops) if x)
        return inside / float(_ONE) + 1 / len(drops)

    @cached_property
    def constraints(self) -> list[tuple[int, int]]:
        """(s_d, d) of the largest d with each step."""
        last: dict[int, int] = {}
        partitions = self.max_partitions_per_user
        while partitions >= 1:
            step = self.step(partitions)
            last[step] = partitions
            # The largest d with a longer step: d (step + 1)**root <= resolution**root kappa.
            scaled = self.resolution**self.root * self.max_partitions_per_user
            partitions = min(partitions - 1, scaled // (step + 1) ** self.root)
        return list(last.items())


class _Bound:
    """R / d and lambda / d as they limit 1 - pi, in units of 2**-160."""

    def __init__(self, budget: RenyiBudget, partitions: int):
        down, up = rounding_pair(_PRECISION)
        rate = gmpy2.mpq(budget.divergence) / partitions
        self._power = budget.order - 1
        self._most = down.mul(down.exp(self._power * rate), _ONE)
        kept = min(gmpy2.mpq(budget.exposure) / partitions, gmpy2.mpq(down.minus(up.expm1(-rate))))
        self.first = _ONE - gmpy2.mpz(gmpy2.floor(kept * _ONE))
        """The smallest 1 - pi of a partition that only such a user has."""
        self._rate = self._power * float(rate)
        self._guess = 0.1

    def holds(self, base: Any, drop: Any) -> bool:
        """Whether both divergences between the two laws are certainly within R / d.

        E_q[(p/q)**a] <= e**((a-1) R / d), written as p (p/q)**(a-1) over both outcomes.
        """
        _, up = rounding_pair(_PRECISION)

        def moment(p: Any, q: Any) -> Any:
            return up.mul(p, up.pow(up.div(p, q), self._power))

        def is_within(p: Any, q: Any) -> bool:
            return bool(up.add(moment(_ONE - p, _ONE - q), moment(p, q)) <= self._most)

        return is_within(drop, base) and is_within(base, drop)

    def smallest(self, base: Any) -> Any:
        """The smallest 1 - pi after base that certainly ``holds``, by odds that grow by an integer
        of ``_DIGITS`` bits times a power of two.

        A float says where to look. What is found does not depend on it.
        """
        scale = 1 << _GROWTH_BITS

        def moved(growth: int) -> Any:
            odds = (_ONE - base) * (scale + growth)
            return -(-base * scale * _ONE // (base * scale + odds))

        growth = _leading(int(math.expm1(self._growth(base)) * scale))
        if self.holds(base, moved(growth)):
            while self.holds(base, moved(_after(growth))):
                growth = _after(growth)
        else:
            while growth and not self.holds(base, moved(growth)):
                growth = _leading(growth - 1)
        return moved(growth) if growth else base

    def _growth(self, base: Any) -> float:
        """About the largest log of the odds' growth that ``holds``, by Newton's method.

        With l(s) = log(1 - pi + pi e**s), the logs of the moments after the odds have grown by e**t
        are l(a t) - a l(t) and (a-1) l(t) + l(-(a-1) t).
        """
        drop, power = float(gmpy2.mpq(base, _ONE)), self._power
        keep, order = float(gmpy2.mpq(_ONE - base, _ONE)), power + 1

        def tilted(s: float) -> tuple[float, float]:
            """(l(s), l'(s)), or (l(s) - s, l'(s) - 1), of which the rest cancels."""
            if keep > drop:
                grown = drop * math.exp(-s)
                return math.log1p(drop * math.expm1(-s)), -grown / (keep + grown)
            grown = keep * math.exp(s)
            return math.log1p(keep * math.expm1(s)), grown / (drop + grown)

        low, high = 0.0, _FAR / order
        t = min(self._guess, high / 2)
        for _ in range(_NEWTON_STEPS):
            (once, p), (there, there_p), (back, back_p) = map(tilted, (t, order * t, -power * t))
            gap, slope = max(
                (there - order * once, order * (there_p - p)),
                (power * once + back, power * (p - back_p)),
            )
            gap -= self._rate
            low, high = (low, t) if gap > 0 else (t, high)
            following = t - gap / slope if slope > 0 else low
            if not low < following < high:
                following = (low + high) / 2
            if abs(following - t) <= _NEWTON_TOLERANCE * t:
                break
            t = following
        self._guess = t
        return t


def _leading(growth: int) -> int:
    """The integer with its leading ``_DIGITS`` bits alone."""
    shift = max(0, growth.bit_length() - _DIGITS)
    return growth >> shift << shift


def _after(growth: int) -> int:
    """The next larger integer of as many bits."""
    return growth + (1 << max(0, growth.bit_length() - _DIGITS))


@lru_cache(maxsize=64)
def _drops(law: RenyiLaw) -> list[Any]:
    """1 - pi(x) in units of 2**-160, for x = 0, 1, ... as far as it falls."""
    bounds = [(step, _Bound(law.budget, partitions)) for step, partitions in law.constraints]
    drops = [_ONE, max(bound.first for _, bound in bounds)]
    while drops[-1] << law.bits > _ONE:
        x = len(drops)
        drop = max((bound.first for step, bound in bounds if x <= step), default=gmpy2.mpz(0))
        for i, (step, bound) in enumerate(bounds):
            base = drops[max(1, x - step)]
            if drop == 0 or not bound.holds(base, drop):
                drop = max(drop, bound.smallest(base))
                # What binds once mostly binds again, and then the others only need to hold.
                bounds.insert(0, bounds.pop(i))
        drops.append(min(drop, drops[-1]))
    return drops
