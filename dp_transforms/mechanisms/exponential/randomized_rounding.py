"""Randomised rounding: a real number becomes one of the two integers next to it, right on average.

A number is rounded away from zero with probability exactly the absolute value of its fractional
part (Ilvento 2019, Mechanism 4). So u becomes an integer with the distribution of ceil(u - U) for a
uniform U.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import Array, IntArray
from dp_transforms.mechanisms.enclosure import exactly
from dp_transforms.mechanisms.randomness import WORD_BITS, RandomTape, is_below

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
            return _rounded_floats(array, lowest, highest, tape, channel)
        return np.array(
            [
                _rounded(_exact(value), lowest, highest, tape, channel, i)
                for i, value in enumerate(array.tolist())
            ],
            dtype=np.int64,
        )
    except _Refused as refused:
        raise ValueError(f"{name} {refused}") from None


class _Refused(Exception):
    """Names the fault of a value, without the value."""


def _array(values: Any) -> Array:
    kinds = {type(value) for value in values}
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    # Anything else stays as it is: numpy would turn large integers into floats, and True into 1.
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    if kinds == {int} and all(-(2**62) <= value < 2**62 for value in values):
        return array.astype(np.int64)
    return array


def _rounded_floats(
    array: Array, lowest: int, highest: int, tape: RandomTape | None, channel: str
) -> IntArray:
    # All of this is exact: the bounds are floats, and so is the fractional part of any float.
    floats = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise _Refused("must be finite, but at least one is NaN or infinite")
    floats = np.clip(floats, lowest, highest)
    whole = np.trunc(floats)
    fractions = np.abs(floats - whole)
    rounded: IntArray = whole.astype(np.int64)
    if not fractions.any():
        return rounded
    words = _require(tape).words(channel, len(floats))
    scaled = fractions * 2.0**WORD_BITS
    thresholds = scaled.astype(np.uint64)
    away = words < thresholds
    # Where 64 bits are equal, further bits of the fractional part may still be above those of U.
    for i in np.flatnonzero((words == thresholds) & (scaled != np.floor(scaled))).tolist():
        away[i] = _is_below(Fraction(fractions[i]), tape, channel, i)
    return rounded + away * np.sign(floats).astype(np.int64)


def _rounded(
    value: Fraction, lowest: int, highest: int, tape: RandomTape | None, channel: str, index: int
) -> int:
    value = min(max(value, Fraction(lowest)), Fraction(highest))
    whole = math.trunc(value)
    fraction = abs(value - whole)
    if not fraction or not _is_below(fraction, tape, channel, index):
        return whole
    return whole + (1 if value > 0 else -1)


def _is_below(probability: Fraction, tape: RandomTape | None, channel: str, index: int) -> bool:
    return is_below(_require(tape).uniform(channel, index), lambda _: exactly(probability))


def _require(tape: RandomTape | None) -> RandomTape:
    if tape is None:
        raise _Refused("must be integers here")
    return tape


def _exact(value: Any) -> Fraction:
    try:
        if isinstance(value, bool | np.bool_ | str | complex):
            raise TypeError
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int | float | Fraction | Decimal):
            return Fraction(value)
        exact = gmpy2.mpq(value)
        return Fraction(int(exact.numerator), int(exact.denominator))
    except TypeError:
        kind = type(value).__name__
        raise _Refused(f"must be real numbers, got one of type {kind}") from None
    except (ValueError, OverflowError):
        raise _Refused("must be finite, but at least one is NaN or infinite") from None
