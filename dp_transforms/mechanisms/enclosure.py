"""Encloses numbers between two bounds, with arithmetic that rounds each bound outwards.

``refine_until_decided`` answers a question about a real number from its bounds. As long as they
leave the question open, it asks again with twice as many bits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import product, starmap
from typing import Any, NamedTuple, TypeVar

import gmpy2

_ZERO = gmpy2.mpfr(0)

_T = TypeVar("_T")


class Undecided(Exception):
    """Says that enclosures do not settle a question. ``width`` is the absolute width of the
    enclosure that left it open."""

    def __init__(self, width: float = 1.0):
        super().__init__(width)
        self.width = width


def refine_until_decided(answer: Callable[[int], _T], bits: int = 64) -> _T:
    """Returns ``answer(bits)``, doubling the bits until it does not raise Undecided."""
    while True:
        try:
            return answer(bits)
        except Undecided:
            bits *= 2


def same(ends: Iterable[_T]) -> _T:
    """Returns the common value of both bounds. Raises Undecided if they differ."""
    lower, upper = ends
    if lower != upper:
        raise Undecided
    return lower


def smallest_where(holds: Callable[[int], bool], start: int) -> int:
    """Returns the smallest integer >= start for which ``holds`` is true. ``holds`` must be true
    from some integer on, and false below it."""
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        step *= 2
    low, high = start + step // 2, start + step
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def rounding_pair(precision: int) -> tuple[Any, Any]:
    """Returns two gmpy2 contexts (down, up) that round down and up, with the widest range of
    exponents.

    Use their methods (``down.mul``) instead of operators, even for a unary minus: operators round
    in the caller's own context. Never give the methods an mpq to subtract, to divide by, or to
    multiply by a negative number: gmpy2 first rounds the mpq in the same direction, so the result
    may be on the wrong side by a unit in the last place. An ``Enclosure`` takes any rational
    number.
    """
    widest = {"emin": gmpy2.get_emin_min(), "emax": gmpy2.get_emax_max()}
    down, up = (
        gmpy2.context(precision=precision, round=direction, **widest)
        for direction in (gmpy2.RoundDown, gmpy2.RoundUp)
    )
    return down, up


class _Rational:
    """Provides exact arithmetic on rational numbers under the method names of a gmpy2 context."""

    add = staticmethod(operator.add)
    sub = staticmethod(operator.sub)
    mul = staticmethod(operator.mul)
    div = staticmethod(operator.truediv)
    pow = staticmethod(operator.pow)


class Enclosure(NamedTuple):
    """Holds two exact reals (int, mpq or mpfr) that certainly enclose a number.

    Arithmetic on MPFR bounds has the precision of the more precise operand; on rational bounds it
    is exact. An operand may also be an int, mpq or Fraction, which stands for its exact value.

    >>> third = enclosed(gmpy2.mpq(1, 3), 64)
    >>> lower, upper = (1 - third) / 2
    >>> lower < gmpy2.mpq(1, 3) < upper
    True
    """

    lower: Any
    upper: Any

    def __add__(self, other: Any) -> Enclosure:
        down, up, x, y = self._with(other)
        return Enclosure(down.add(x.lower, y.lower), up.add(x.upper, y.upper))

    def __radd__(self, other: Any) -> Enclosure:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Enclosure:
        down, up, x, y = self._with(other)
        return Enclosure(down.sub(x.lower, y.upper), up.sub(x.upper, y.lower))

    def __rsub__(self, other: Any) -> Enclosure:
        return exactly(other).__sub__(self)

    def __mul__(self, other: Any) -> Enclosure:
        down, up, x, y = self._with(other)
        if x.lower >= 0 and y.lower >= 0:
            return Enclosure(down.mul(x.lower, y.lower), up.mul(x.upper, y.upper))
        ends = list(product(x, y))
        return Enclosure(min(starmap(down.mul, ends)), max(starmap(up.mul, ends)))

    def __rmul__(self, other: Any) -> Enclosure:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> Enclosure:
        """Raises ZeroDivisionError if the divisor may be 0."""
        down, up, x, y = self._with(other)
        if y.lower <= 0 <= y.upper:
            raise ZeroDivisionError("the divisor may be 0")
        if x.lower >= 0 and y.lower > 0:
            return Enclosure(down.div(x.lower, y.upper), up.div(x.upper, y.lower))
        ends = list(product(x, y))
        return Enclosure(min(starmap(down.div, ends)), max(starmap(up.div, ends)))

    def __rtruediv__(self, other: Any) -> Enclosure:
        return exactly(other).__truediv__(self)

    def __neg__(self) -> Enclosure:
        return exactly(0).__sub__(self)

    def __pow__(self, exponent: int) -> Enclosure:
        """Raises a non-negative number to the power of a non-negative int."""
        down, up = _arithmetic(_precision(self))
        return Enclosure(down.pow(self.lower, exponent), up.pow(self.upper, exponent))

    def exp(self) -> Enclosure:
        return self._rising("exp")

    def expm1(self) -> Enclosure:
        return self._rising("expm1")

    def log(self) -> Enclosure:
        return self._rising("log")

    def sqrt(self) -> Enclosure:
        return self._rising("sqrt")

    def erfc(self) -> Enclosure:
        down, up = _arithmetic(_precision(self))
        return Enclosure(down.erfc(self.upper), up.erfc(self.lower))

    def is_at_most(self, bound: Any) -> bool:
        """Tells whether the number is at most a rational bound. Raises Undecided if the enclosure
        leaves it open."""
        if self.upper <= bound:
            return True
        if self.lower > bound:
            return False
        raise Undecided

    def is_below(self, other: tuple[Any, Any]) -> bool:
        """Tells whether the number is below another one, given by its two bounds. The number itself
        must be certainly below its own upper bound. Raises Undecided if the bounds leave it
        open."""
        if self.upper <= other[0]:
            return True
        if self.lower >= other[1]:
            return False
        raise Undecided

    def rational(self) -> Enclosure:
        """Returns the same bounds as rational numbers, whose arithmetic is exact."""
        return Enclosure(gmpy2.mpq(self.lower), gmpy2.mpq(self.upper))

    def rounded(self, precision: int) -> Enclosure:
        """Returns the bounds rounded outwards to MPFR numbers of ``precision`` bits."""
        down, up = rounding_pair(precision)
        return Enclosure(down.add(_ZERO, self.lower), up.add(_ZERO, self.upper))

    def _rising(self, function: str) -> Enclosure:
        down, up = _arithmetic(_precision(self))
        return Enclosure(getattr(down, function)(self.lower), getattr(up, function)(self.upper))

    def _with(self, other: Any) -> tuple[Any, Any, Enclosure, Enclosure]:
        """Returns (down, up, x, y): the arithmetic that rounds down and the one that rounds up, and
        both operands in a form that they take."""
        x, y = self, other if isinstance(other, Enclosure) else exactly(other)
        left, right = _precision(x), _precision(y)
        if left and not right:
            y = y.rounded(left)
        elif right and not left:
            x = x.rounded(right)
        return *_arithmetic(max(left, right)), x, y


def _precision(enclosure: Enclosure) -> int:
    """Returns the number of bits of MPFR bounds, and 0 for rational ones."""
    return max(getattr(enclosure[0], "precision", 0), getattr(enclosure[1], "precision", 0))


def _arithmetic(precision: int) -> tuple[Any, Any]:
    return rounding_pair(precision) if precision else (_Rational, _Rational)


def exactly(value: Any) -> Enclosure:
    """Returns the enclosure that has an int, mpq or Fraction as both its bounds."""
    exact = gmpy2.mpq(value)
    return Enclosure(exact, exact)


def as_fraction(value: Any) -> Fraction:
    """Returns the exact value of a finite MPFR or mpq number."""
    return Fraction(*map(int, value.as_integer_ratio()))


def enclosed(value: Any, precision: int) -> Enclosure:
    """Encloses an int, mpq or Fraction between bounds of ``precision`` bits."""
    return exactly(value).rounded(precision)
