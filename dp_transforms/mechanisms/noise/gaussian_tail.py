"""Enclosures of the discrete Gaussian's tail P[X > x], to any precision.

With g(t) = e**(-t**2 / (2 sigma2)) and y = x + 1/2, the tail is S(x) / Z, where S(x) is the sum of
g(k) over k > x, and Z = 1 + 2 S(0). Small scales sum directly. Large ones use the Euler-Maclaurin
formula at the midpoint (B_j(1/2) is a value of the Bernoulli polynomial):

    S(x) = (integral of g from y) - sum over j = 1..p of B_2j(1/2) / (2j)! * g^(2j-1)(y) + R
    |R| <= 2 zeta(2p) / (2 pi)**2p * (integral of |g^(2p)| from y)

Since g^(n)(t) = (-1)**n sigma**-n He_n(t / sigma) g(t), Cramer's inequality |He_n(u)| <= 1.09
sqrt(n!) e**(u**2 / 4) bounds the last integral by 1.09 sqrt(n!) sigma**(1 - n) sqrt(pi). The sum
over all integers is Z = sigma sqrt(2 pi) (1 + theta) with 0 < theta < 3 e**(-2 pi**2 sigma2), by
Poisson summation.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import add
from typing import Any

import gmpy2

from dp_transforms.mechanisms.enclosure import Enclosure, exactly, rounding_pair

_GUARD_BITS = 32
_ZERO = gmpy2.mpfr(0)

_SUM_BELOW = 64**2  # Up to this sigma2 the terms are summed one by one.


def gaussian_tail(sigma2: Fraction, x: int, precision: int) -> Enclosure:
    """(lo, hi) around P[X > x] for x >= 0, about 2**-precision apart."""
    # The formula's best remainder is about 2**(-28 sigma2), so it reaches this precision surely.
    if sigma2 >= _SUM_BELOW and precision <= 16 * sigma2:
        return _formula_tail(sigma2, x, precision)
    sums = _suffix_sums(sigma2, precision)
    if x < len(sums):
        return _normalised(sums[x], sums[0])
    return Enclosure(_ZERO, _normalised(sums[-1], sums[0]).upper)


def gaussian_tails(sigma2: Fraction, precision: int) -> list[Enclosure]:
    """``gaussian_tail`` for x = 0, 1, ... until it is certainly below 2**-precision."""
    sums = _suffix_sums(sigma2, precision)
    return [_normalised(suffix, sums[0]) for suffix in sums]


def _normalised(suffix: Enclosure, first: Enclosure) -> Enclosure:
    return suffix / (1 + 2 * first)


@lru_cache(maxsize=8)
def _suffix_sums(sigma2: Fraction, precision: int) -> list[Enclosure]:
    """S(x) for x = 0, 1, ..., last, where S(last) is certainly below 2**-precision."""
    # g(last) <= 2**-(precision + 32), as 0.7 > ln 2.
    last = math.isqrt(math.ceil(2 * sigma2 * Fraction(7, 10) * (precision + 32))) + 1
    # S(x) <= integral of g from x <= sigma2 / x * g(x).
    beyond = _bell(sigma2, Fraction(last), precision) * (sigma2 / last)
    bells = (_bell(sigma2, Fraction(k), precision) for k in range(last, 0, -1))
    sums = list(accumulate(bells, add, initial=Enclosure(_ZERO, beyond.upper)))
    return sums[::-1]


def _bell(sigma2: Fraction, t: Fraction, precision: int) -> Enclosure:
    """g(t) = e**(-t**2 / (2 sigma2)), with full relative precision for all t that matter."""
    exponent = gmpy2.mpq(-t * t / (2 * sigma2))
    down, up = rounding_pair(precision + _GUARD_BITS)
    return Enclosure(down.exp(exponent), up.exp(exponent))


def _formula_tail(sigma2: Fraction, x: int, precision: int) -> Enclosure:
    down, up = rounding_pair(precision + _GUARD_BITS)
    y = x + Fraction(1, 2)
    terms, remainder = _boundary(sigma2, y, precision)
    # All is divided by sigma * sqrt(2 pi); the integral becomes erfc(y / (sigma sqrt 2)) / 2.
    norm = (Enclosure(down.const_pi(), up.const_pi()) * (2 * sigma2)).sqrt()
    argument = exactly(y * y / (2 * sigma2)).rounded(precision + _GUARD_BITS).sqrt()
    found = argument.erfc() / 2 + _bell(sigma2, y, precision) * terms / norm
    error = up.div(remainder, norm.lower)
    theta = up.mul(3, up.exp(gmpy2.mpq(-19 * sigma2)))
    return Enclosure(
        down.div(down.sub(found.lower, error), up.add(1, theta)), up.add(found.upper, error)
    )


def _boundary(sigma2: Fraction, y: Fraction, precision: int) -> tuple[Any, Any]:
    """(minus the sum over j of B_2j(1/2) / (2j)! * g^(2j-1)(y) / g(y), a bound on |R|).

    It has as many terms as bring |R| below 2**-precision * sigma.
    """
    _, up = rounding_pair(64)
    sigma_lo = rounding_pair(64)[0].sqrt(gmpy2.mpq(sigma2))
    target = up.div(sigma_lo, gmpy2.mpz(1) << precision)
    # g^(n)(y) / g(y), by the recurrence of the Hermite polynomials.
    derivatives = [gmpy2.mpq(1), gmpy2.mpq(-y / sigma2)]
    total = gmpy2.mpq(0)
    p = 0
    while True:
        p += 1
        bernoulli = _bernoulli(2 * p) * (Fraction(2) ** (1 - 2 * p) - 1)
        total -= gmpy2.mpq(bernoulli / math.factorial(2 * p)) * derivatives[2 * p - 1]
        for n in (2 * p - 1, 2 * p):
            derivatives.append(
                (-gmpy2.mpq(y) * derivatives[n] - n * derivatives[n - 1]) / gmpy2.mpq(sigma2)
            )
        # 2 zeta(2p) * 1.09 * sqrt(pi) < 6.4, and 2 pi > 6.28.
        bound = up.mul(up.mul(6.4, up.sqrt(math.factorial(2 * p))), up.sqrt(gmpy2.mpq(sigma2)))
        bound = up.div(bound, rounding_pair(64)[0].mul(gmpy2.mpq(sigma2) ** p, 6.28 ** (2 * p)))
        if bound <= target:
            return total, bound


@lru_cache(maxsize=256)
def _bernoulli(n: int) -> Fraction:
    """The Bernoulli number B_n, by the recurrence sum over k <= n of binomial(n + 1, k) B_k = 0."""
    if n == 0:
        return Fraction(1)
    return -sum(math.comb(n + 1, k) * _bernoulli(k) for k in range(n)) / Fraction(n + 1)
