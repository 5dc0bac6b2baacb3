"""Encloses the ratio of a mechanism's weights, 2**-eta or q = e**-c, and products of its powers.

No computer represents the weights e**(-epsilon * u) exactly. Ilvento (2019, "Implementing the
Exponential Mechanism with Base-2 Differential Privacy", arXiv 1912.04222) uses 2**(-eta * u) for a
binary fraction 2**-eta: every weight of an integer utility u is then a binary fraction too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, repeat
from operator import mul, truediv
from typing import Any, ClassVar

import gmpy2

from dp_transforms.mechanisms.decimals import Number, positive_integer, positive_rational
from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    enclosed,
    exactly,
    refine_until_decided,
    rounding_pair,
    same,
    smallest_where,
)

_RELATIVE_BITS = 10
_MOST_BITS = 10_000  # Python prints integers of up to 4,300 digits, and releases name their eta.
_GUARD_BITS = 64  # A power multiplies the rate's relative error by its exponent, up to 2**63.


@dataclass(frozen=True)
class Eta:
    """Represents eta = -z * log2(x / 2**y), so that 2**(-eta) = (x / 2**y)**z exactly.

    A mechanism is eta-DP in base 2 if no output's probability changes by more than a factor 2**eta
    between neighbours (add or remove all records of one user). In the usual sense it is then
    (eta * ln 2)-DP. An Eta is the parameter of a mechanism's weights. The cost of the mechanism
    also depends on the sensitivity: it is 2 * eta * sensitivity for the exponential mechanism.

    An even x is reduced: Eta(2, 2, 1) becomes Eta(1, 1, 1). Equality then compares the three
    integers, so Eta(1, 1, 2) != Eta(1, 2, 1) although their ``base`` is the same.

    Args:
      x: positive integer below 2**y.
      y: positive integer up to 10,000, once x is odd.
      z: positive integer.

    Raises:
      ValueError: an argument is not a positive integer, y is too large, or x >= 2**y (eta would not
        be positive).

    Source: Ilvento (2019), base-2 differential privacy and its parameter.

    >>> Eta(1, 1, 1).base, Eta(3, 2, 2).base
    (mpq(1,2), mpq(9,16))
    >>> Eta(1, 1, 1).epsilon
    0.6931471805599454
    >>> Eta(6, 3, 1)
    Eta(x=3, y=2, z=1)
    """

    stable_name: ClassVar[str] = "Eta"

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
        if self.y > _MOST_BITS:
            raise ValueError(f"y must be at most {_MOST_BITS:,} for an odd x, got y={self.y}")

    @classmethod
    def from_epsilon(cls, epsilon: Number, max_bits: int | None = None) -> Eta:
        """Returns the largest Eta with eta * ln 2 <= epsilon and ``max_bits`` bits in its base.

        All such bases are multiples of 2**-max_bits, so the best one has z = 1.

        Args:
          epsilon: a positive number; a float stands for the decimal that it prints as.
          max_bits: the most bits after the binary point of the base. The default brings eta * ln 2
            within 0.1% of epsilon.

        Raises:
          ValueError: epsilon is not a positive finite number, more than 10,000 bits are needed or
            wanted, or max_bits are too few; the message states the least number.

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
        if bits > _MOST_BITS:
            raise ValueError(
                f"the base may have up to {_MOST_BITS:,} bits, got epsilon={epsilon} and "
                f"max_bits={max_bits}: give a smaller epsilon, or fewer bits"
            )
        x = _ceil_of_scaled_exp(exact, bits)
        if x.bit_length() > bits:
            raise ValueError(
                f"max_bits={bits} are too few for epsilon={epsilon}: the smallest eta * ln 2 of "
                f"that many bits is larger. Give at least {_fewest_bits(exact)}, or leave it out"
            )
        return cls(x, bits, 1)

    @cached_property
    def base(self) -> Any:
        """Returns 2**(-eta) = (x / 2**y)**z, an exact gmpy2.mpq strictly between 0 and 1."""
        return gmpy2.mpq(gmpy2.mpz(self.x) ** self.z, gmpy2.mpz(1) << self.bits)

    @property
    def bits(self) -> int:
        """Returns y * z, the bits after the binary point of ``base``."""
        return self.y * self.z

    @property
    def epsilon(self) -> float:
        """Returns the smallest float that is certainly not below eta * ln 2, for reporting."""
        return refine_until_decided(lambda bits: same(map(_float_above, self.log_enclosure(bits))))

    def log_enclosure(self, precision: int) -> Enclosure:
        """Encloses eta * ln 2 = -ln(base), an irrational number, strictly between gmpy2.mpfr
        numbers of ``precision`` bits, a few units in the last place apart."""
        # 1 - x / 2**y has at most y bits, so it is held exactly, and log1p loses nothing near 1.
        exact, _ = rounding_pair(self.y + 2)
        minus_complement = exact.div_2exp(self.x - (1 << self.y), self.y)
        down, up = rounding_pair(precision)
        return -Enclosure(down.log1p(minus_complement), up.log1p(minus_complement)) * self.z


@dataclass(frozen=True)
class Decay:
    """Represents q = e**-c for a positive c: ``rate`` + eta * ln 2, where ``base`` is eta, or the
    rate alone if ``base`` is None. A float rate stands for its exact rational value."""

    rate: Fraction = Fraction(0)
    base: Eta | None = None

    def __post_init__(self) -> None:
        if self.log_enclosure(64)[0] <= 0:
            raise ValueError("the rate of a decay must be positive")

    def log_enclosure(self, precision: int) -> Enclosure:
        """Encloses c."""
        return _log_enclosure(self, precision)

    def power(self, exponent: int, precision: int) -> Enclosure:
        """Encloses q**exponent for an integer exponent of either sign."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return Enclosure(down.exp(small), up.exp(large))

    def one_minus_power(self, exponent: int, precision: int) -> Enclosure:
        """Encloses 1 - q**exponent for an exponent >= 0, with full relative precision."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return Enclosure(down.minus(up.expm1(large)), up.minus(down.expm1(small)))

    def is_at_most_one_third(self) -> bool:
        """Tells whether q <= 1/3."""
        # q is never 1/3 itself: 2**-eta is a binary fraction, and e**-rate is irrational unless the
        # rate is 0. So some precision decides.
        return refine_until_decided(
            lambda bits: (enclosed(3, bits).log() - self.log_enclosure(bits)).is_at_most(0)
        )

    def _exponent(self, exponent: int, precision: int) -> Enclosure:
        """Encloses -c * exponent."""
        down, up = rounding_pair(precision + _GUARD_BITS)
        lower, upper = _log_enclosure(self, precision + _GUARD_BITS)
        if exponent < 0:
            lower, upper = upper, lower
        return Enclosure(down.mul(upper, -exponent), up.mul(lower, -exponent))


@lru_cache(maxsize=1024)
def _log_enclosure(decay: Decay, precision: int) -> Enclosure:
    rate = exactly(decay.rate)
    return rate if decay.base is None else rate + decay.base.log_enclosure(precision)


class Weights:
    """Encloses the weights of a walk's runs for states 0..count-1, in numbers of ``precision``
    bits.

    The walk is that of ``partition.walk``. (q; q)_a is the product of 1 - q**i over i = 1..a, and
    [n, k] is the Gaussian binomial coefficient.
    """

    def __init__(self, decay: Decay, count: int, precision: int):
        self._decay = decay
        self._count = count
        # Each operation of the products below loses a few bits, and 1 - q**m loses log2(1/c) bits.
        self._precision = precision + _GUARD_BITS
        self._unit, self._zero = (enclosed(value, self._precision) for value in (1, 0))
        self._inverse_powers = self.powers(-1)
        parts = [decay.one_minus_power(i, self._precision) for i in range(1, count)]
        # q**i / (1 - q**i), the factor of the i-th move in any run.
        self._moves = list(map(truediv, self.powers(1)[1:], parts))

    def powers(self, step: int) -> list[Enclosure]:
        """Encloses q**(step * d) for d = 0, 1, ..."""
        return self._products(repeat(self._decay.power(step, self._precision), self._count - 1))

    def leaving_first_run(self) -> list[Enclosure]:
        """Encloses A(a) = q**(a(a+1)/2) / (q; q)_a, the weight of all ways through the first
        infinite run that leave it in state a."""
        return self._products(self._moves)

    def entering_last_run(self) -> list[Enclosure]:
        """Encloses B(e) = q**(e(e-1)/2) / (q; q)_e, the weight of all ways through the last
        infinite run that enter it in state e."""
        return list(map(mul, self.leaving_first_run(), self._inverse_powers))

    def upward(self, length: int) -> list[Enclosure]:
        """Encloses T_length(0, k) = q**(k(k+1)/2) [length, k], the weight of all ways from state 0
        to state k through a run of zeros of this length."""
        power = self._decay.power(length, self._precision)
        # 1 - q**(length - k + 1) for the k-th move, which is not below 0.
        parts = (1 - power * inverse for inverse in self._inverse_powers[:length])
        possible = (Enclosure(max(lower, self._zero.lower), upper) for lower, upper in parts)
        weights = self._products(map(mul, self._moves, possible))
        return weights + [self._zero] * (self._count - len(weights))

    def inward(self, length: int) -> list[Enclosure]:
        """Encloses T_length(-k, 0) = q**-k T_length(0, k), by the same ways backwards."""
        return list(map(mul, self.upward(length), self._inverse_powers))

    def _products(self, factors: Iterable[Enclosure]) -> list[Enclosure]:
        return list(accumulate(factors, mul, initial=self._unit))


def _ceil_of_scaled_exp(epsilon: Fraction, bits: int) -> int:
    """Returns the smallest integer that is at least 2**bits * e**(-epsilon)."""

    def ceiling(context: Any) -> int:
        return int(context.ceil(context.mul_2exp(context.exp(gmpy2.mpq(-epsilon)), bits)))

    # e**(-epsilon) is irrational, so both ceilings agree as soon as the precision is high enough.
    return refine_until_decided(
        lambda precision: same(map(ceiling, rounding_pair(precision))), bits + 64
    )


def _fewest_bits(epsilon: Fraction) -> int:
    """Returns the smallest b with 1 - 2**-b >= e**(-epsilon)."""
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
