"""Floats that provably enclose the tails of discrete noise at large scales, many at once.

Only additions, multiplications and conversions are used, which IEEE 754 rounds correctly; library
functions such as exp are not. A function is tabulated as Taylor polynomials around centres 1/64
apart, with coefficients from MPFR. On |h| <= 1/128 the terms a_m h**m fall so fast that their
absolute sum is below 1.1 times the value, and what is cut off below 2**-55 of it: with Horner's
rule in 10 steps the relative error stays below 2**-47. An argument s = x / scale is off by up to
2**-51 of itself, which moves e**-s by 45 * 2**-51 for s <= 45, and the normal tail by less than
(s**2 + 1) * 2**-51 <= 90 * 2**-51 for s <= 9.4. All of it together is below ``RELATIVE_ERROR``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array, FloatArray, IntArray
from dp_transforms.mechanisms.decay import Decay

RELATIVE_ERROR = 2.0**-43
"""The relative error of a tail's float value is at most this."""

_STEPS_PER_UNIT = 64
_DEGREE = 10
_PRECISION = 96


class FloatTail(ABC):
    """P[X > x] of a symmetric integer distribution at a large scale, as floats."""

    @abstractmethod
    def guess(self, levels: FloatArray) -> IntArray:
        """About the smallest x >= 0 with P[X > x] <= level; it is checked, never relied on."""

    @abstractmethod
    def __call__(self, x: IntArray) -> FloatArray:
        """P[X > x] for x >= 0, within ``RELATIVE_ERROR``, or NaN where that is below 2**-63."""


class GeometricFloatTail(FloatTail):
    """P[X > x] = q**(x + 1) / (1 + q)."""

    def __init__(self, decay: Decay):
        self._rate = float(decay.log_enclosure(_PRECISION)[0])
        self._norm = float(1 / (1 + decay.power(1, _PRECISION)[0]))

    def guess(self, levels: FloatArray) -> IntArray:
        steps: IntArray = np.ceil(-np.log(levels / self._norm) / self._rate).astype(np.int64)
        return np.maximum(steps - 1, 0)

    def __call__(self, x: IntArray) -> FloatArray:
        values, _ = _exponential().evaluate((x + 1) * self._rate)
        return values * self._norm


class NormalFloatTail(FloatTail):
    """P[X > x] = Q((x + 1/2) / sigma) of normal noise that is rounded to integers."""

    def __init__(self, sigma2: Fraction):
        with gmpy2.context(precision=_PRECISION):
            self._sigma = float(gmpy2.sqrt(gmpy2.mpq(sigma2)))
            self._inverse = float(1 / gmpy2.sqrt(gmpy2.mpq(sigma2)))

    def guess(self, levels: FloatArray) -> IntArray:
        table = _normal_tail()
        s = np.interp(np.log(levels), table.logarithms[::-1], table.centres[::-1])
        values, slopes = table.evaluate(s)
        # Halley's step for Q(s) = level: Q'' = -s * Q'.
        step = (values - levels) / slopes
        s -= step / (1 + step * s / 2)
        return np.maximum(np.ceil(s * self._sigma - 0.5).astype(np.int64), 0)

    def __call__(self, x: IntArray) -> FloatArray:
        values, _ = _normal_tail().evaluate((x + 0.5) * self._inverse)
        return values


class _TaylorTable:
    """A decreasing positive function on [0, end] as Taylor polynomials of degree 10."""

    def __init__(self, taylor: Callable[[Any], list[Any]], end: float):
        self.centres = np.arange(math.ceil(end * _STEPS_PER_UNIT)) / _STEPS_PER_UNIT
        with gmpy2.context(precision=_PRECISION):
            rows = [taylor(gmpy2.mpfr(centre)) for centre in self.centres.tolist()]
        self._coefficients = np.array(rows, dtype=np.float64)
        self.logarithms = np.log(self._coefficients[:, 0])

    def evaluate(self, s: Array) -> tuple[FloatArray, FloatArray]:
        """Values and first derivatives at s >= 0; NaN beyond the end."""
        steps = np.rint(s * _STEPS_PER_UNIT)
        inside = steps < len(self.centres)
        # Both the centre and the difference are exact.
        h = s - steps / _STEPS_PER_UNIT
        rows = self._coefficients[np.where(inside, steps, 0).astype(np.int64)]
        values = rows[:, _DEGREE].copy()
        slopes = np.zeros_like(values)
        for m in range(_DEGREE - 1, -1, -1):
            slopes *= h
            slopes += values
            values *= h
            values += rows[:, m]
        values[~inside] = np.nan
        return values, slopes


@lru_cache(maxsize=1)
def _exponential() -> _TaylorTable:
    """e**-s for s up to 45 > 64 * ln 2."""

    def taylor(centre: Any) -> list[Any]:
        value = gmpy2.exp(-centre)
        return [(-1) ** m * value / math.factorial(m) for m in range(_DEGREE + 1)]

    return _TaylorTable(taylor, 45.0)


@lru_cache(maxsize=1)
def _normal_tail() -> _TaylorTable:
    """The standard normal's upper tail Q(s) for s up to 9.4, where it is below 2**-67."""

    def taylor(centre: Any) -> list[Any]:
        density = gmpy2.exp(-centre * centre / 2) / gmpy2.sqrt(2 * gmpy2.const_pi())
        hermite = [gmpy2.mpfr(1), centre]
        for n in range(1, _DEGREE):
            hermite.append(centre * hermite[n] - n * hermite[n - 1])
        # Q^(m) = (-1)**m He_(m-1) phi.
        return [gmpy2.erfc(centre / gmpy2.sqrt(2)) / 2] + [
            (-1) ** m * hermite[m - 1] * density / math.factorial(m) for m in range(1, _DEGREE + 1)
        ]

    return _TaylorTable(taylor, 9.4)
