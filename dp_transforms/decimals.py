"""Numbers at their decimal value: a parameter written 0.1 means one tenth, not the nearest
double."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

Real = int | float | str | Decimal | Fraction


def exact_fraction(name: str, value: Real) -> Fraction:
    """The finite number that ``value`` prints as, exactly.

    Args:
      name: the parameter's name, for the error.
      value: a number, or its text ("0.25", "1e-6", "1/3").

    Raises:
      ValueError: the value is not a finite number.

    >>> exact_fraction("epsilon", 0.1) * 10 == 1
    True
    """
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a finite number, got {value!r}") from None


def decimal_text(value: Fraction) -> str:
    """The number as a decimal where it has one of at most 30 places, else as a fraction.

    ``exact_fraction`` reads it back unchanged.

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
    return str(value)


def round_down(value: Fraction, digits: int) -> Fraction:
    """The largest decimal of so many significant digits that is not above a non-negative value.

    >>> round_down(Fraction(2, 3), 3), round_up(Fraction(2, 3), 3)
    (Fraction(333, 500), Fraction(667, 1000))
    """
    step = _last_place(value, digits)
    return math.floor(value / step) * step


def round_up(value: Fraction, digits: int) -> Fraction:
    """The smallest decimal of so many significant digits that is not below a non-negative value."""
    step = _last_place(value, digits)
    return math.ceil(value / step) * step


def _last_place(value: Fraction, digits: int) -> Fraction:
    # The logarithm may be off by one at a power of ten, which costs or adds a digit.
    return Fraction(10) ** (math.floor(math.log10(value)) + 1 - digits) if value else Fraction(1)
