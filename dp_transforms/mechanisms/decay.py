"""The ratio q = e**-c of the mechanism's weights, known to any precision, and weights made of
it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, repeat
from typing import Any

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
    """Products of powers of q, enclosed, for states 0..count-1.

    A first release makes thousands of them, so they use the contexts and not ``Enclosure``'s
    operators, which look a context up for each operation. At the end they have ``precision`` bits.
    """

    def __init__(self, decay: Decay, count: int, precision: int):
        self._decay = decay
        self._count = count
        # The chains of products below lose a few bits an operation, and 1 - q**m loses log2(1/c).
        self._precision = precision + _GUARD_BITS
        self._one, self._zero = (enclosed(value, self._precision) for value in (1, 0))
        self._inverse_powers = self._chain(self._decay.power(-1, self._precision))
        powers = self._chain(self._decay.power(1, self._precision))
        parts = [self._decay.one_minus_power(i, self._precision) for i in range(1, count)]
        # q**i / (1 - q**i), the factor of the i-th move whichever run it is in.
        self._moves = [power / part for power, part in zip(powers[1:], parts, strict=True)]

    def powers(self, step: int) -> list[Enclosure]:
        """q**(step * d) for d = 0, 1, ..."""
        return self._chain(self._decay.power(step, self._precision))

    def leaving_first_run(self) -> list[Enclosure]:
        """A(a) = q**(a(a+1)/2) / (q; q)_a: the first infinite run, left in state a."""
        return self._running_products(self._moves)

    def entering_last_run(self) -> list[Enclosure]:
        """B(e) = q**(e(e-1)/2) / (q; q)_e: the last infinite run, entered in state e."""
        return self._reversed(self.leaving_first_run())

    def upward(self, length: int) -> list[Enclosure]:
        """T_length(0, k) = q**(k(k+1)/2) [length, k]: up by k in a run of zeros."""
        down, up = rounding_pair(self._precision)
        one, zero = self._one.lower, self._zero.lower
        power = self._decay.power(length, self._precision)
        weights = self._running_products(
            # 1 - q**(length - k + 1) for the k-th move
            (
                down.mul(move.lower, max(zero, down.sub(one, up.mul(power.upper, inverse.upper)))),
                up.mul(move.upper, up.sub(one, down.mul(power.lower, inverse.lower))),
            )
            for move, inverse in zip(self._moves[:length], self._inverse_powers, strict=False)
        )
        return weights + [self._zero] * (self._count - len(weights))

    def inward(self, length: int) -> list[Enclosure]:
        """T_length(-k, 0) = q**-k T_length(0, k): the same paths backwards."""
        return self._reversed(self.upward(length))

    def _reversed(self, weights: list[Enclosure]) -> list[Enclosure]:
        down, up = rounding_pair(self._precision)
        return [
            Enclosure(down.mul(weight.lower, inverse.lower), up.mul(weight.upper, inverse.upper))
            for weight, inverse in zip(weights, self._inverse_powers, strict=True)
        ]

    def _chain(self, ratio: Enclosure) -> list[Enclosure]:
        """ratio**d for d = 0, 1, ..."""
        return self._running_products(repeat(ratio, self._count - 1))

    def _running_products(self, factors: Iterable[tuple[Any, Any]]) -> list[Enclosure]:
        """1 and the products of the first factors, none below 0: each bound has its own chain."""
        down, up = rounding_pair(self._precision)
        lowers, uppers = zip(self._one, *factors, strict=True)
        return list(map(Enclosure, accumulate(lowers, down.mul), accumulate(uppers, up.mul)))
