"""Evaluates functions of float arrays with a proved relative error of at most ``RELATIVE_ERROR``.

Library functions such as exp promise no error bound. So only additions, multiplications, divisions
and conversions are used, which IEEE 754 rounds correctly. A function is tabulated as Taylor
polynomials of degree 10 around centres 1/64 apart, with coefficients a_m computed by MPFR.

Let u = 2**-53, and let h be the distance from the nearest centre. Horner's rule takes 20 operations
on coefficients that are rounded twice, so it errs by at most 22 u times the sum of |a_m h**m|. On
|h| <= 1/128 that sum is at most 3 times the value. The worst case is 1 - e**-s halfway between 0
and the next centre, seen from that centre: the value is about half of a_0, and the other terms have
absolute values that add up to about the other half. The terms cut off are below u / 4 of the value.
All errors together are below 67 u < 2**-46.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray

RELATIVE_ERROR = 2.0**-46

_STEPS_PER_UNIT = 64
_DEGREE = 10
_EXP_END = 46
_NORMAL_END = 9.5
_PRECISION = 128
_CHUNK = 1 << 15  # This many numbers at once stay in the cache.


def exp_minus(s: Array) -> FloatArray:
    """Returns e**-s for s >= 0. For s > 46 it returns e**-46, which is below 2**-66."""
    values, _ = _exponentials()
    return _evaluate(values, s)


def one_minus_exp_minus(s: Array) -> FloatArray:
    """Returns 1 - e**-s for s >= 0, which may be infinite."""
    _, complements = _exponentials()
    return _evaluate(complements, s)


def normal_tail(s: Array) -> FloatArray:
    """Returns Q(s) = P[Z > s] of a standard normal Z for s >= 0. For s > 9.5 it returns Q(9.5),
    which is below 2**-68."""
    return _evaluate(_normal_tail(), s)


def _evaluate(coefficients: FloatArray, s: Array) -> FloatArray:
    """Returns a function's values at s, from its coefficients of shape (degree + 1, centres)."""
    if len(s) > _CHUNK:
        parts = np.array_split(s, -(-len(s) // _CHUNK))
        return np.concatenate([_evaluate(coefficients, part) for part in parts])
    s = np.minimum(s, (coefficients.shape[1] - 1) / _STEPS_PER_UNIT)
    places = np.rint(s * _STEPS_PER_UNIT).astype(np.int64)
    # Both the centre and the difference are exact.
    h = s - places / _STEPS_PER_UNIT
    values: FloatArray = coefficients[_DEGREE][places]
    for row in coefficients[_DEGREE - 1 :: -1]:
        values *= h
        values += row[places]
    return values


@lru_cache(maxsize=1)
def _exponentials() -> tuple[FloatArray, FloatArray]:
    """Returns the coefficients of e**-s and of 1 - e**-s."""
    with gmpy2.context(precision=_PRECISION):
        steps = repeat(gmpy2.exp(gmpy2.mpq(-1, _STEPS_PER_UNIT)), _EXP_END * _STEPS_PER_UNIT)
        powers = [*accumulate(steps, mul, initial=gmpy2.mpfr(1))]
        first = np.array([1 - power for power in powers], dtype=np.float64)
    signed_factorials = np.array([(-1) ** m * math.factorial(m) for m in range(_DEGREE + 1)])
    values = np.array(powers, dtype=np.float64) / signed_factorials[:, np.newaxis]
    return values, np.concatenate([[first], -values[1:]])


@lru_cache(maxsize=1)
def _normal_tail() -> FloatArray:
    """Returns the coefficients of Q."""

    def taylor(centre: Any) -> list[Any]:
        density = gmpy2.exp(-centre * centre / 2) / gmpy2.sqrt(2 * gmpy2.const_pi())
        hermite = [gmpy2.mpfr(1), centre]
        for n in range(1, _DEGREE):
            hermite.append(centre * hermite[n] - n * hermite[n - 1])
        # The m-th derivative of Q is (-1)**m He_(m-1) times the density.
        return [gmpy2.erfc(centre / gmpy2.sqrt(2)) / 2] + [
            (-1) ** m * hermite[m - 1] * density / math.factorial(m) for m in range(1, _DEGREE + 1)
        ]

    with gmpy2.context(precision=_PRECISION):
        centres = range(math.ceil(_NORMAL_END * _STEPS_PER_UNIT) + 1)
        rows = [taylor(gmpy2.mpfr(i) / _STEPS_PER_UNIT) for i in centres]
        return np.array([*zip(*rows, strict=True)], dtype=np.float64)
