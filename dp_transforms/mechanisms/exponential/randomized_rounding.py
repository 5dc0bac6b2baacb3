"""Randomised rounding: a real number becomes one of the two integers next to it, right on average.

A number is rounded away from zero with probability exactly the absolute value of its fractional
part (Ilvento 2019, Mechanism 4). So u becomes an integer with the distribution of ceil(u - U) for a
uniform U.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array, IntArray
from dp_transforms.mechanisms.enclosure import exactly
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, Uniform, is_below

LARGEST_BOUND = 2**62


def round_at_random(
    values: Any,
    lowest: int,
    highest: int,
    tape: RandomTape | None,
    channel: str,
    name: str = "values",
) -> IntArray:
    """Values clamped to [lowest, highest], then rounded at random.

    Args:
      values: a sequence or a one-dimensional array of finite real numbers; floats stand for exactly
        the numbers that they are.
      lowest, highest: integers between -2**62 and 2**62.
      tape: the i-th value reads the number at (channel, i). With None, only integers are taken.
      name: what error messages call the values.

    Returns:
      An int64 array of the same length.

    Raises:
      ValueError: a value is NaN, infinite or not a real number, or not an integer while there is no
        tape. The message does not repeat the values.

    >>> round_at_random([-7, 2.0, 2.25, 99], 0, 10, RandomTape(bytes(32)), "example")
    array([ 0,  2,  2, 10])
    """
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional")
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64:
            # What int64 does not hold is above every bound.
            array = np.minimum(array, np.uint64(2**63 - 1))
        return np.clip(array.astype(np.int64), lowest, highest)
    try:
        if array.dtype.kind == "f" and max(-lowest, highest) <= 2**52:
            # Exact: the bounds are floats, and so is the fractional part of any float.
            exact = array.astype(np.float64)
            if not np.isfinite(exact).all():
                raise OverflowError
        else:
            exact = _objects([_exact(value) for value in array.tolist()])
    except TypeError as error:
        raise ValueError(f"{name} must be real numbers, got one of type {error}") from None
    except (ValueError, OverflowError):
        message = f"{name} must be finite, but at least one is NaN or infinite"
        raise ValueError(message) from None
    clamped = np.clip(exact, lowest, highest)
    whole: IntArray = clamped.astype(np.int64)
    fractions = abs(clamped - whole)
    if not fractions.any():
        return whole
    if tape is None:
        raise ValueError(f"{name} must be integers here")
    scaled = fractions * 2**WORD_BITS
    thresholds = scaled.astype(np.uint64)
    words = tape.words(channel, len(whole))
    away = words < thresholds
    # Where 64 bits are equal, further bits of the fractional part may still be above those of U.
    for i in np.flatnonzero((words == thresholds) & (scaled != thresholds)).tolist():
        away[i] = _is_below(tape.uniform(channel, i), Fraction(fractions[i]))
    return whole + np.where(away, np.where(clamped > 0, 1, -1), 0)


def _is_below(uniform: Uniform, probability: Fraction) -> bool:
    return is_below(uniform, lambda _: exactly(probability))


def _array(values: Any) -> Array:
    kinds = {type(value) for value in values}
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    # Anything else stays as it is: numpy would turn large integers into floats, and True into 1.
    array = _objects(list(values))
    if kinds == {int} and all(-(2**62) <= value < 2**62 for value in values):
        return array.astype(np.int64)
    return array


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _exact(value: Any) -> Fraction:
    """The number as a fraction. A TypeError names the type of what is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str | complex):
        raise TypeError(type(value).__name__)
    if isinstance(value, int | float | Fraction | Decimal):
        return Fraction(value)
    try:
        return Fraction(*map(int, gmpy2.mpq(value).as_integer_ratio()))
    except TypeError:
        raise TypeError(type(value).__name__) from None
