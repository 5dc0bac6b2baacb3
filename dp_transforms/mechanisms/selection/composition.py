"""The budget of each of a user's partitions, so that all together stay within (epsilon, delta).

A mechanism that decides about partitions independently, each (epsilon', delta')-differentially
private in its own count, composes over the partitions that one user can change. Two rules:

* naive splitting: (epsilon / parts, delta / parts);
* optimal composition (Kairouz, Oh, Viswanath 2015, "The composition theorem for differential
  privacy", Theorem 3.3): every (epsilon', delta')-DP mechanism is post-processing of one pair of
  distributions, randomised response with a delta' of certain disclosure, so that the product of
  ``parts`` such pairs has the worst composed delta:

    1 - (1 - delta')**parts (1 - H)

    H = sum over l of C(parts, l) max(0, e**((parts-l) epsilon') - e**(epsilon + l epsilon'))
        / (1 + e**epsilon')**parts

  at every epsilon, not only at the multiples of epsilon' that the theorem lists. It never allows
  less than naive splitting does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.selection.gaussian import largest_dyadic

Share = tuple[Fraction, Fraction]
"""(epsilon', delta') of one partition."""

_PRECISION = 192
_NEGLIGIBLE_BITS = 64
_GRID = 24
_REFINEMENTS = 3


def naive_share(epsilon: Fraction, delta: Fraction, parts: int) -> Share:
    """(epsilon / parts, delta / parts)."""
    return epsilon / parts, delta / parts


def composed_delta(share: Share, epsilon: Fraction, parts: int) -> Any:
    """The delta at ``epsilon`` of ``parts`` mechanisms that spend ``share`` each, rounded up."""
    down, up = rounding_pair(_PRECISION)
    undisclosed = down.exp(down.mul(down.log1p(-gmpy2.mpq(share[1])), parts))
    return up.sub(1, down.mul(undisclosed, down.sub(1, response_delta(share[0], epsilon, parts))))


@lru_cache(maxsize=4096)
def response_delta(epsilon0: Fraction, epsilon: Fraction, parts: int) -> Any:
    """H above, rounded up: the delta of ``parts`` randomised responses that spend epsilon0 each."""
    if epsilon0 * parts <= epsilon:
        return gmpy2.mpfr(0)
    down, up = rounding_pair(_PRECISION)
    # The last l with (parts - l) epsilon0 > epsilon + l epsilon0.
    last = math.ceil((parts - epsilon / epsilon0) / 2) - 1
    rate = gmpy2.mpq(epsilon0)
    # Running products, with what is added rounded up and what is taken off rounded down.
    grown, shrunk = up.exp(rate), down.exp(-rate)
    ways = gmpy2.mpz(math.comb(parts, last))
    large, small = up.exp((parts - last) * rate), down.exp(gmpy2.mpq(epsilon) + last * rate)
    total = gmpy2.mpfr(0)
    for left in range(last, -1, -1):
        total = up.add(total, up.mul(ways, up.sub(large, small)))
        # Each term's first part is this share of the one before, and the shares fall.
        share = up.mul(up.div(left, parts - left + 1), grown)
        if share < 1:
            rest = up.div(up.mul(up.mul(ways, large), share), down.sub(1, share))
            if rest < up.mul(total, gmpy2.mpfr(2) ** -_NEGLIGIBLE_BITS):
                total = up.add(total, rest)
                break
        ways = up.div(up.mul(ways, left), parts - left + 1)
        large, small = up.mul(large, grown), down.mul(small, shrunk)
    return up.div(total, down.pow(down.add(1, down.exp(rate)), parts))


def largest_delta_share(
    epsilon0: Fraction, epsilon: Fraction, delta: Fraction, parts: int
) -> Fraction | None:
    """The largest delta' (within 2**-40 of the best) that stays within budget; None if none."""
    allowed = gmpy2.mpq(delta)
    if response_delta(epsilon0, epsilon, parts) >= allowed:
        return None

    def fits(share: Fraction) -> bool:
        return share < 1 and bool(composed_delta((epsilon0, share), epsilon, parts) <= allowed)

    return largest_dyadic(fits)


@lru_cache(maxsize=256)
def best_share(
    epsilon: Fraction, delta: Fraction, parts: int, cost: Callable[[Fraction, Fraction], float]
) -> Share:
    """The share within budget with the smallest ``cost(epsilon', delta')``.

    Every share that is considered is certainly within budget, naive splitting among them; that the
    best of them is found is a matter of search, over epsilon' from epsilon / parts to epsilon.
    """
    naive = naive_share(epsilon, delta, parts)
    if parts == 1 or epsilon == 0 or delta == 0:
        return naive
    best, best_cost = naive, cost(*naive)
    # epsilon' = epsilon / parts**power.
    low, high = 0.0, 1.0
    for _ in range(_REFINEMENTS):
        step = (high - low) / _GRID
        best_power = None
        for i in range(_GRID + 1):
            power = low + i * step
            # At power 1 exactly, where no epsilon is lost and the delta of H vanishes.
            epsilon0 = naive[0] if power >= 1 else _dyadic(epsilon, parts**power)
            delta0 = largest_delta_share(epsilon0, epsilon, delta, parts)
            if delta0 is not None and cost(epsilon0, delta0) < best_cost:
                best, best_cost, best_power = (epsilon0, delta0), cost(epsilon0, delta0), power
        if best_power is None:
            break
        low, high = max(0.0, best_power - step), min(1.0, best_power + step)
    return best


def _dyadic(epsilon: Fraction, divisor: float) -> Fraction:
    """epsilon / divisor, to about 40 bits."""
    value = float(epsilon) / divisor
    unit = Fraction(2) ** (math.frexp(value)[1] - 40)
    return round(Fraction(value) / unit) * unit
