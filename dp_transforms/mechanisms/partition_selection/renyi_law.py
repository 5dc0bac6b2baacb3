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

The steps are chosen, not derived: s_d in proportion to d**(-1/3). Weights 1 / sqrt(d), which suit
Gaussian noise, make the user of one partition move it so far that, where pi is small, this user
alone binds.

Every pi(x) is a dyadic number whose inequalities were verified with directed rounding, and MPFR
rounds alike on every machine: a law is the same wherever it is built. Harrison and Manurangsi
(2026, "Optimal partition selection with Renyi differential privacy") study the optimal law of one
step and one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import gmpy2

from dp_transforms.mechanisms.decay import rounding_pair
from dp_transforms.mechanisms.partition_selection.keep_law import KeepLaw
from dp_transforms.mechanisms.partition_selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.randomness import Enclosure

_BITS = 160
_ONE = gmpy2.mpz(1) << _BITS
_PRECISION = 192
"""More than a probability has, so that it is converted exactly."""

_NEGLIGIBLE = _ONE >> 66
"""Where 1 - pi is below 2**-66 the law ends: pi stays what it is."""

_GROWTH_BITS = 48
_GROWTH_TOLERANCE = 10
"""The odds' growth is in units of 2**-48, and found to 2**-10 of itself."""


@dataclass(frozen=True)
class RenyiLaw(KeepLaw):
    """pi by the sum of users' steps.

    Args:
      budget: what one user may change.
      max_partitions_per_user: kappa.
      resolution: the step of a user of kappa partitions, where steps depend on d; 0 if every step
        is 1, so that the statistic is the number of users.
    """

    budget: RenyiBudget
    max_partitions_per_user: int
    resolution: int = 0

    def step(self, partitions: int) -> int:
        """s_d = floor(resolution * (kappa / d)**(1/3)), or 1."""
        if not self.resolution:
            return 1
        cube = self.resolution**3 * self.max_partitions_per_user // partitions
        return int(gmpy2.iroot(gmpy2.mpz(cube), 3)[0])

    @property
    def saturation(self) -> int | None:
        return None

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        drops = _drops(self)
        drop = gmpy2.mpq(drops[max(0, min(statistic, len(drops) - 1))], _ONE)
        return drop, drop

    @property
    def half(self) -> float:
        """About where pi is 1/2, between the integers: for comparisons of laws."""
        drops = _drops(self)
        above = next(x for x, drop in enumerate(drops) if 2 * drop <= _ONE)
        fall = drops[above - 1] - drops[above]
        return above - float((_ONE // 2 - drops[above]) / fall)

    @cached_property
    def constraints(self) -> list[tuple[int, int]]:
        """(s_d, d) of the largest d with each step."""
        last: dict[int, int] = {}
        partitions = self.max_partitions_per_user
        while partitions >= 1:
            step = self.step(partitions)
            last[step] = partitions
            # The largest d with a longer step: d (step + 1)**3 <= resolution**3 kappa.
            longer = self.resolution**3 * self.max_partitions_per_user // (step + 1) ** 3
            partitions = min(partitions - 1, longer)
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
        self._guess = 1 << (_GROWTH_BITS - 4)

    def holds(self, base: Any, drop: Any) -> bool:
        """Whether both divergences between the two laws are certainly within R / d.

        E_q[(p/q)**a] <= e**((a-1) R / d), written as p (p/q)**(a-1) over both outcomes.
        """
        _, up = rounding_pair(_PRECISION)

        def moment(p: Any, q: Any) -> Any:
            return up.mul(p, up.pow(up.div(p, q), self._power))

        there = up.add(moment(_ONE - drop, _ONE - base), moment(drop, base))
        back = up.add(moment(_ONE - base, _ONE - drop), moment(base, drop))
        return bool(there <= self._most and back <= self._most)

    def smallest(self, base: Any) -> Any:
        """About the smallest 1 - pi that certainly ``holds`` after base, by the odds' growth."""
        scale = 1 << _GROWTH_BITS

        def moved(growth: int) -> Any:
            odds = (_ONE - base) * (scale + growth)
            return -(-base * scale * _ONE // (base * scale + odds))

        # Growth changes little from one x to the next.
        low, high = self._guess, self._guess
        width = max(1, low >> _GROWTH_TOLERANCE)
        if self.holds(base, moved(low)):
            while self.holds(base, moved(high := low + width)):
                low, width = high, 2 * width
        else:
            while low and not self.holds(base, moved(low := max(0, high - width))):
                high, width = low, 2 * width
        while high - low > low >> _GROWTH_TOLERANCE and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.holds(base, moved(middle)) else (low, middle)
        self._guess = max(low, 1)
        return moved(low) if low else base


@lru_cache(maxsize=64)
def _drops(law: RenyiLaw) -> list[Any]:
    """1 - pi(x) in units of 2**-160, for x = 0, 1, ... as far as it falls."""
    bounds = [(step, _Bound(law.budget, partitions)) for step, partitions in law.constraints]
    drops = [_ONE, max(bound.first for _, bound in bounds)]
    while drops[-1] > _NEGLIGIBLE:
        x = len(drops)
        drop = gmpy2.mpz(0)
        for step, bound in bounds:
            base = drops[max(1, x - step)]
            if drop == 0 or not bound.holds(base, drop):
                drop = max(drop, bound.smallest(base))
            if x <= step:
                drop = max(drop, bound.first)
        drops.append(min(drop, drops[-1]))
    return drops
