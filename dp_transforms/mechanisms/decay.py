"""The ratio q = e**-c of the mechanism's weights, known to any precision, and weights made of
it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import gmpy2

from dp_transforms.mechanisms.randomness import Enclosure

_GUARD_BITS = 64
"""A power multiplies the rate's relative error by its exponent, which can be as large as 2**63."""


class LogEnclosed(Protocol):
    """A base such as ``base2.Eta``, whose rate is known by enclosures."""

    def log_enclosure(self, precision: int) -> Enclosure:
        """(lo, hi) around -ln(base), as MPFR numbers of about ``precision`` bits."""


@lru_cache(maxsize=256)
def rounding_pair(precision: int) -> tuple[Any, Any]:
    """The gmpy2 contexts that round down and up, with the widest range of exponents there is: about
    -2**30 to 2**30.

    Use their methods (``down.mul``) and not operators, which round in the caller's own context;
    even unary minus does.
    """
    down, up = (
        gmpy2.context(
            precision=precision,
            round=direction,
            emax=gmpy2.get_emax_max(),
            emin=gmpy2.get_emin_min(),
        )
        for direction in (gmpy2.RoundDown, gmpy2.RoundUp)
    )
    return down, up


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
    base: LogEnclosed | None = None

    def __post_init__(self) -> None:
        if self.log_enclosure(64)[0] <= 0:
            raise ValueError("the rate of a decay must be positive")

    def log_enclosure(self, precision: int) -> Enclosure:
        """(lo, hi) around c, as MPFR numbers of ``precision`` bits."""
        return _log_enclosure(self, precision)

    def power(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around q**exponent, for an integer exponent of either sign."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return down.exp(small), up.exp(large)

    def one_minus_power(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around 1 - q**exponent for an exponent >= 0, with full relative precision."""
        down, up = rounding_pair(precision)
        small, large = self._exponent(exponent, precision)
        return down.minus(up.expm1(large)), up.minus(down.expm1(small))

    def _exponent(self, exponent: int, precision: int) -> Enclosure:
        """(lo, hi) around -c * exponent."""
        down, up = rounding_pair(precision + _GUARD_BITS)
        slow, fast = _log_enclosure(self, precision + _GUARD_BITS)
        if exponent < 0:
            slow, fast = fast, slow
        return down.mul(fast, -exponent), up.mul(slow, -exponent)


@lru_cache(maxsize=1024)
def _log_enclosure(decay: Decay, precision: int) -> Enclosure:
    down, up = rounding_pair(precision)
    rate = gmpy2.mpq(decay.rate)
    if decay.base is None:
        return down.add(rate, 0), up.add(rate, 0)
    lo, hi = decay.base.log_enclosure(precision)
    return down.add(rate, lo), up.add(rate, hi)


class Weights:
    """Products of powers of q, enclosed, for states 0..count-1.

    Every list holds (lo, hi) pairs of MPFR numbers.

    Args:
      decay: the ratio q.
      count: how many states.
      precision: bits that the enclosures should have at the end.
    """

    def __init__(self, decay: Decay, count: int, precision: int):
        self._decay = decay
        self._count = count
        # The chains of products below lose a few bits an operation, and 1 - q**m loses log2(1/c).
        self._precision = precision + _GUARD_BITS
        down, up = rounding_pair(self._precision)
        one = (down.add(1, 0), up.add(1, 0))
        self._inverse_powers = self._chain(self._decay.power(-1, self._precision))
        powers = self._chain(self._decay.power(1, self._precision))
        parts = [one] + [self._decay.one_minus_power(i, self._precision) for i in range(1, count)]
        # q**i / (1 - q**i), the factor of the i-th move whichever run it is in.
        self._moves = [one] + [
            (down.div(power[0], part[1]), up.div(power[1], part[0]))
            for power, part in zip(powers[1:], parts[1:], strict=True)
        ]

    def powers(self, step: int) -> list[Enclosure]:
        """q**(step * d) for d = 0, 1, ..."""
        return self._chain(self._decay.power(step, self._precision))

    def leaving_first_run(self) -> list[Enclosure]:
        """A(a) = q**(a(a+1)/2) / (q; q)_a: the first infinite run, left in state a."""
        down, up = rounding_pair(self._precision)
        lo, hi = self._moves[0]
        weights = [(lo, hi)]
        for move_lo, move_hi in self._moves[1:]:
            lo, hi = down.mul(lo, move_lo), up.mul(hi, move_hi)
            weights.append((lo, hi))
        return weights

    def entering_last_run(self) -> list[Enclosure]:
        """B(e) = q**(e(e-1)/2) / (q; q)_e: the last infinite run, entered in state e."""
        return self._reversed(self.leaving_first_run())

    def upward(self, length: int) -> list[Enclosure]:
        """T_length(0, k) = q**(k(k+1)/2) [length, k]: up by k in a run of zeros."""
        down, up = rounding_pair(self._precision)
        one_lo, one_hi = self._moves[0]
        power_lo, power_hi = self._decay.power(length, self._precision)
        lo, hi = one_lo, one_hi
        weights = [(lo, hi)]
        for k in range(1, min(self._count, length + 1)):
            # 1 - q**(length - k + 1)
            inverse_lo, inverse_hi = self._inverse_powers[k - 1]
            rest_lo = down.sub(one_lo, up.mul(power_hi, inverse_hi))
            rest_hi = up.sub(one_hi, down.mul(power_lo, inverse_lo))
            move_lo, move_hi = self._moves[k]
            lo = down.mul(lo, down.mul(move_lo, rest_lo))
            hi = up.mul(hi, up.mul(move_hi, rest_hi))
            weights.append((lo, hi))
        zero = down.sub(one_lo, one_lo)
        return weights + [(zero, zero)] * (self._count - len(weights))

    def inward(self, length: int) -> list[Enclosure]:
        """T_length(-k, 0) = q**-k T_length(0, k): the same paths backwards."""
        return self._reversed(self.upward(length))

    def _reversed(self, weights: list[Enclosure]) -> list[Enclosure]:
        down, up = rounding_pair(self._precision)
        return [
            (down.mul(lo, inverse_lo), up.mul(hi, inverse_hi))
            for (lo, hi), (inverse_lo, inverse_hi) in zip(
                weights, self._inverse_powers, strict=True
            )
        ]

    def _chain(self, ratio: Enclosure) -> list[Enclosure]:
        down, up = rounding_pair(self._precision)
        lo, hi = down.add(1, 0), up.add(1, 0)
        chain = [(lo, hi)]
        for _ in range(self._count - 1):
            lo, hi = down.mul(lo, ratio[0]), up.mul(hi, ratio[1])
            chain.append((lo, hi))
        return chain
