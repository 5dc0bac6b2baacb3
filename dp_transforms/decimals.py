"""Numbers at their decimal value: a parameter written 0.1 means one tenth, not the nearest
double."""

from __future__ import annotations

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
