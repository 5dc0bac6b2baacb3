"""Eta: the parameter of base-2 differential privacy, whose powers are exact binary fractions.

The usual parameter epsilon gives the weights e**(-epsilon * u), which no computer can represent.
Ilvento (2019, "Implementing the Exponential Mechanism with Base-2 Differential Privacy", arXiv
1912.04222) takes the weights 2**(-eta * u) instead, with eta chosen so that 2**(-eta) is a binary
fraction: then every weight of an integer utility u is a binary fraction too, and a mechanism can
compute without any rounding.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import gmpy2

from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    refine_until_decided,
    rounding_pair,
    same,
    smallest_where,
)

_RELATIVE_BITS = 10


@dataclass(frozen=True)
class Eta:
    """eta = -z * log2(x / 2**y), so that 2**(-eta) = (x / 2**y)**z exactly.

    A mechanism that is eta-DP in base 2 changes no output's probability by more than a factor
    2**eta between neighbours (add or remove all records of one user): it is (eta * ln 2)-DP in the
    usual sense. An Eta is the parameter of the weights; what a mechanism that uses it costs depends
    also on the sensitivity, and is for that mechanism to say (2 * eta * sensitivity for the
    exponential mechanism).

    An even x is reduced: Eta(2, 2, 1) becomes Eta(1, 1, 1). Equality compares the three integers
    after that, so Eta(1, 1, 2) != Eta(1, 2, 1) although their ``base`` is the same.

    Args:
      x: positive integer below 2**y.
      y: positive integer.
      z: positive integer.

    Raises:
      ValueError: an argument is not a positive integer, or x >= 2**y (eta would not be positive).

    Source: Ilvento (2019), base-2 differential privacy and its parameter.

    >>> Eta(1, 1, 1).base, Eta(3, 2, 2).base
    (mpq(1,2), mpq(9,16))
    >>> Eta(1, 1, 1).epsilon
    0.6931471805599454
    >>> Eta(6, 3, 1)
    Eta(x=3, y=2, z=1)
    """

    x: int
    y: int
    z: int

    def __post_init__(self) -> None:
        for name in ("x", "y", "z"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if self.x.bit_length() > self.y:
            raise ValueError(f"x must be below 2**y, got x={self.x} and y={self.y}")
        twos = (self.x & -self.x).bit_length() - 1
        object.__setattr__(self, "x", self.x >> twos)
        object.__setattr__(self, "y", self.y - twos)

    @classmethod
    def from_epsilon(cls, epsilon: Number, max_bits: int | None = None) -> Eta:
        """Returns the largest Eta with eta * ln 2 <= epsilon and ``max_bits`` bits in its base.

        The base (x / 2**y)**z has y * z bits after the binary point. All such numbers with y * z <=
        max_bits are multiples of 2**-max_bits, so the best one has z = 1.

        Args:
          epsilon: a positive number; a float stands for the decimal that it prints as.
          max_bits: the most bits after the binary point of the base, and so per unit of utility in
            every weight. By default as many as bring eta * ln 2 within 0.1% of epsilon.

        Raises:
          ValueError: epsilon is not a positive finite number, or max_bits are too few for any
            positive eta at or below epsilon; the message says how many are needed.

        >>> eta = Eta.from_epsilon(1, max_bits=8)
        >>> eta, eta.epsilon
        (Eta(x=95, y=8, z=1), 0.9913005528790217)
        """
        exact = positive_rational("epsilon", epsilon)
        if max_bits is None:
            # A step of 2**-b in the base moves epsilon by at most about 2**-b * e**epsilon.
            bits = max(1, math.ceil(exact * 3 / 2) - _floor_log2(exact) + _RELATIVE_BITS)
        else:
            bits = positive_integer("max_bits", max_bits)
        x = _ceil_of_scaled_exp(exact, bits)
        if x.bit_length() > bits:
            raise ValueError(
                f"max_bits={bits} are too few for epsilon={epsilon}: the smallest eta * ln 2 of "
                f"that many bits is larger. Give at least {_fewest_bits(exact)}, or leave it out"
            )
        return cls(x, bits, 1)

    @cached_property
    def base(self) -> Any:
        """2**(-eta) = (x / 2**y)**z, an exact gmpy2.mpq strictly between 0 and 1."""
        return gmpy2.mpq(gmpy2.mpz(self.x) ** self.z, gmpy2.mpz(1) << self.bits)

    @property
    def bits(self) -> int:
        """y * z, the bits after the binary point of ``base``; base**u needs u times as many."""
        return self.y * self.z

    @property
    def epsilon(self) -> float:
        """The smallest float that is certainly not below eta * ln 2, for reporting."""
        return refine_until_decided(lambda bits: same(map(_float_above, self.log_enclosure(bits))))

    def log_enclosure(self, precision: int) -> Enclosure:
        """(lo, hi) with lo < eta * ln 2 < hi, as gmpy2.mpfr numbers of ``precision`` bits.

        eta * ln 2 = -ln(base) is irrational; the two ends are a few units in the last place apart.
        """
        # 1 - x / 2**y has at most y bits, so it is held exactly, and log1p loses nothing near 1.
        exact, _ = rounding_pair(self.y + 2)
        minus_complement = exact.div_2exp(self.x - (1 << self.y), self.y)
        down, up = rounding_pair(precision)
        return -Enclosure(down.log1p(minus_complement), up.log1p(minus_complement)) * self.z


def positive_integer(name: str, value: Any) -> int:
    """The value as Python's own integer.

    Raises:
      ValueError: it is not a positive integer; the message names it by ``name``.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return number


def _ceil_of_scaled_exp(epsilon: Fraction, bits: int) -> int:
    """The smallest integer at or above 2**bits * e**(-epsilon), certainly."""

    def ceiling(context: Any) -> int:
        return int(context.ceil(context.mul_2exp(context.exp(gmpy2.mpq(-epsilon)), bits)))

    # e**(-epsilon) is irrational, so the two agree as soon as the precision is high enough.
    return refine_until_decided(
        lambda precision: same(map(ceiling, rounding_pair(precision))), bits + 64
    )


def _fewest_bits(epsilon: Fraction) -> int:
    """The smallest b with 1 - 2**-b >= e**(-epsilon)."""
    return smallest_where(
        lambda bits: _ceil_of_scaled_exp(epsilon, bits) < 1 << bits,
        max(1, _floor_log2(1 / epsilon)),
    )


def _floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if value >= Fraction(2) ** exponent else exponent - 1


def _float_above(value: Any) -> float:
    with gmpy2.context(precision=53, round=gmpy2.RoundUp, emin=-1073, emax=1024, subnormalize=True):
        return float(+value)
