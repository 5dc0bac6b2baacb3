"""The ratio q = e**-c of the mechanism's weights, known to any precision, and weights made of
it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul, truediv

from dp_transforms.mechanisms.enclosure import (
    Enclosure,
    enclosed,
    exactly,
    refine_until_decided,
    rounding_pair,
)
from dp_transforms.mechanisms.eta import Eta

_GUARD_BITS = 64
"""A power multiplies the rate's relative error by its exponent, which can be as large as 2**63."""


@dataclass(frozen=True)
class Decay:
    """q = e**-c with c = ``rate`` + ``base``'s rate, strictly positive.

    Args:
      rate: the rational part of c; a float stands for the rational number that it is exactly.
      base: optionally an ``Eta``, which adds eta * ln 2.

    Raises:
      ValueError: c is not positive.
    """

    rate: Fraction = Fraction(0)
    base: Eta | None = None

    def __post_init__(self) -> None:
        if self.log_enclosure(64)[0] <= 0:
            raise ValueError("the rate of a decay must be positive")

    def log_enclosure(self, precision: int) -> Enclosure:
        """(lo, hi) around c."""
        return _log_enclosure(self, precision)

    def power(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around q**exponent, for an integer exponent of either sign."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return Enclosure(down.exp(small), up.exp(large))

    def one_minus_power(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around 1 - q**exponent for an exponent >= 0, with full relative precision."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return Enclosure(down.minus(up.expm1(large)), up.minus(down.expm1(small)))

    def is_at_most_one_third(self) -> bool:
        """Tells whether q <= 1/3.

        Neither an e**-c with a rational c nor a 2**-eta is 1/3 itself.
        """
        return refine_until_decided(
            lambda bits: (enclosed(3, bits).log() - self.log_enclosure(bits)).is_at_most(0)
        )

    def _exponent(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around -c * exponent."""
        down, up = rounding_pair(precision + _GUARD_BITS)
        slow, fast = _log_enclosure(self, precision + _GUARD_BITS)
        if exponent < 0:
            slow, fast = fast, slow
        return Enclosure(down.mul(fast, -exponent), up.mul(slow, -exponent))


@lru_cache(maxsize=1024)
def _log_enclosure(decay: Decay, precision: int) -> Enclosure:
    rate = exactly(decay.rate)
    return rate if decay.base is None else rate + decay.base.log_enclosure(precision)


class Weights:
    """Products of powers of q for states 0..count-1, enclosed in numbers of ``precision`` bits."""

    def __init__(self, decay: Decay, count: int, precision: int):
        self._decay = decay
        self._count = count
        # The chains of products below lose a few bits an operation, and 1 - q**m loses log2(1/c).
        self._precision = precision + _GUARD_BITS
        self._one, self._zero = (enclosed(value, self._precision) for value in (1, 0))
        self._inverse_powers = self.powers(-1)
        parts = [decay.one_minus_power(i, self._precision) for i in range(1, count)]
        # q**i / (1 - q**i), the factor of the i-th move whichever run it is in.
        self._moves = list(map(truediv, self.powers(1)[1:], parts))

    def powers(self, step: int) -> list[Enclosure]:
        """q**(step * d) for d = 0, 1, ..."""
        return self._products(repeat(self._decay.power(step, self._precision), self._count - 1))

    def leaving_first_run(self) -> list[Enclosure]:
        """A(a) = q**(a(a+1)/2) / (q; q)_a: the first infinite run, left in state a."""
        return self._products(self._moves)

    def entering_last_run(self) -> list[Enclosure]:
        """B(e) = q**(e(e-1)/2) / (q; q)_e: the last infinite run, entered in state e."""
        return list(map(mul, self.leaving_first_run(), self._inverse_powers))

    def upward(self, length: int) -> list[Enclosure]:
        """T_length(0, k) = q**(k(k+1)/2) [length, k]: up by k in a run of zeros."""
        power = self._decay.power(length, self._precision)
        # 1 - q**(length - k + 1) for the k-th move, which is not below 0.
        parts = (1 - power * inverse for inverse in self._inverse_powers[:length])
        possible = (Enclosure(max(lower, self._zero.lower), upper) for lower, upper in parts)
        weights = self._products(map(mul, self._moves, possible))
        return weights + [self._zero] * (self._count - len(weights))

    def inward(self, length: int) -> list[Enclosure]:
        """T_length(-k, 0) = q**-k T_length(0, k): the same paths backwards."""
        return list(map(mul, self.upward(length), self._inverse_powers))

    def _products(self, factors: Iterable[Enclosure]) -> list[Enclosure]:
        """1, and the products of the first 1, 2, ... factors."""
        return list(accumulate(factors, mul, initial=self._one))
