"""Reads numbers at their decimal value: a parameter written 0.1 is one tenth, not the nearest
double."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

import gmpy2

from dp_transforms.mechanisms.arguments import ArgumentError, shown

Number = int | float | Decimal | Fraction | str
"""The types in which callers give a parameter. A float stands for the decimal that it prints as;
texts are such as "0.25", "1e-6" or "1/3"."""

_FLOAT_DIGITS = 15  # The float nearest to a decimal of at most this many digits prints as it.
_MAX_EXPONENT = 400  # Longer numbers are no parameters, and would take long to write out.


class ExactNumber(Fraction):
    """Holds a rational number. It prints as a float if some float prints as exactly its value, and
    otherwise as a fraction.

    So equal numbers print alike, and different ones differently.

    >>> ExactNumber(0.1) == Fraction(1, 10), ExactNumber(0.1)
    (True, 0.1)
    >>> ExactNumber(1), ExactNumber("1/3"), ExactNumber(Fraction(0.1))
    (1.0, Fraction(1, 3), Fraction(3602879701896397, 36028797018963968))
    """

    __slots__ = ()

    def __new__(cls, value: Any, denominator: int | None = None) -> ExactNumber:
        if isinstance(value, numbers.Rational):
            # Fractions of numpy's integers would overflow.
            value = Fraction(int(value.numerator), int(value.denominator))
        else:
            text = str(value)
            _, _, exponent = text.lower().partition("e")
            if exponent and abs(int(exponent)) > _MAX_EXPONENT:
                raise ValueError(f"the exponent of {value} is out of range")
            value = text
        return super().__new__(cls, value, denominator)

    def __repr__(self) -> str:
        try:
            text = repr(float(self))
        except OverflowError:
            text = "inf"
        exact = math.isfinite(float(text)) and Fraction(text) == self
        return text if exact else f"Fraction({self.numerator}, {self.denominator})"

    def __str__(self) -> str:
        return decimal_text(self)

    def __format__(self, form: str) -> str:
        # From Python 3.13 on a Fraction without a form would be written 1/10.
        return super().__format__(form) if form else str(self)

    def __mpq__(self) -> Any:
        # gmpy2 takes a Fraction by itself, but no instance of a subclass.
        return gmpy2.mpq(self.numerator, self.denominator)


def exact_fraction(name: str, value: Any) -> ExactNumber:
    """Returns the exact number that a value prints as: a ``Number``, or a number of numpy or gmpy2.

    Raises:
      ArgumentError: the value is not a finite number. The message calls it ``name``. The functions
        below raise such errors too.

    >>> exact_fraction("epsilon", 0.1) * 10 == 1
    True
    """
    if not isinstance(value, bool):
        with contextlib.suppress(ValueError, ZeroDivisionError):
            return ExactNumber(value)
    # Raised inside the block, this would carry the original error, which may show the value.
    raise ArgumentError.about(name, f"must be a finite number, got {shown(value)}")


def positive_rational(name: str, value: Any) -> ExactNumber:
    """Returns ``exact_fraction`` of a number above zero."""
    try:
        exact = exact_fraction(name, value)
    except ValueError:
        exact = ExactNumber(0)
    if exact <= 0:
        raise ArgumentError.about(name, f"must be a positive finite number, got {shown(value)}")
    return exact


def integer(name: str, value: Any) -> int:
    """Returns the value as Python's own integer; a bool is refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentError.about(name, f"must be an integer, got {shown(value)}")
    return operator.index(value)


def positive_integer(name: str, value: Any) -> int:
    """Returns a value above zero as Python's own integer; a bool is refused."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ArgumentError.about(name, f"must be a positive integer, got {shown(value)}")
    return number


def float_above(value: Fraction) -> float:
    """Returns the float that prints as the number if there is one, or else a float that prints as
    a decimal of at most 15 digits not below the number.

    >>> float_above(Fraction(1, 10)), float_above(Fraction(1, 3))
    (0.1, 0.333333333333334)
    """
    nearest = float(value)
    if Fraction(repr(nearest)) == value:
        return nearest
    above = nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
    return float(Context(prec=_FLOAT_DIGITS, rounding=ROUND_CEILING).plus(Decimal(above)))


def parts_by_shares(
    whole: Fraction, shares: Sequence[Number] | None, number: int
) -> tuple[Fraction, ...]:
    """Returns the parts of a number that is divided in proportion to shares; equal parts if there
    are none.

    Raises:
      ValueError: the shares are not as many positive numbers as there are parts.

    >>> [str(part) for part in parts_by_shares(Fraction(1), [1, "0.5"], 2)]
    ['2/3', '1/3']
    """
    exact = [Fraction(1)] * number
    if shares is not None:
        exact = []
        with contextlib.suppress(ValueError):  # Its message would show an entry of the list.
            exact = [Fraction(positive_rational("shares", share)) for share in shares]
    if len(exact) != number:
        raise ValueError(f"shares must be {number} positive numbers")
    return tuple(whole * share / sum(exact) for share in exact)


def decimal_text(value: Fraction) -> str:
    """Returns the text of a number: a decimal of at most 30 places if one is equal to it, else a
    fraction. ``exact_fraction`` reads it back unchanged.

    >>> decimal_text(Fraction(1, 8)), decimal_text(Fraction(1, 3)), decimal_text(Fraction(20))
    ('0.125', '1/3', '20')
    """
    for places in range(31):
        scaled = value * 10**places
        if scaled.denominator == 1:
            digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
            sign = "-" if value < 0 else ""
            whole, part = digits[: len(digits) - places], digits[len(digits) - places :]
            return sign + whole + ("." + part if part else "")
    return f"{value.numerator}/{value.denominator}"


def round_down(value: Fraction, digits: int) -> Fraction:
    """Returns the largest decimal of ``digits`` significant digits up to a non-negative value.

    >>> round_down(Fraction(2, 3), 3)
    Fraction(333, 500)
    """
    if not value:
        return Fraction(0)
    # Near a power of ten the logarithm may be rounded to the wrong side. Then there is one digit
    # more, or one less.
    step = Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits)
    return math.floor(value / step) * step
