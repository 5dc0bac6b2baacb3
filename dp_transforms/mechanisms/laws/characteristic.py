"""The distribution of an integer from its characteristic function."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dp_transforms.mechanisms.laws.integer_law import IntegerLaw

_FEWEST_POINTS = 64
_MOST_POINTS = 2**24
_DEVIATIONS = 16
"""The least width of a table, in standard deviations."""

_STRETCH = 16
"""A characteristic function is taken to be 0 after this many consecutive small values."""

_NEAR_ZERO = 1e-4
_SMALL = 1e-16
_ERROR = 1e-9


def law_from_characteristic(function: Callable[[float], complex], centre: int) -> IntegerLaw:
    """The distribution of X, where function(t) = E[e**(i t (X - centre))].

    The inverse Fourier transform on n points wraps the distribution around modulo n. The table is
    doubled until both of its ends are empty. A wide distribution needs few values of the function,
    since that is narrow; for a narrow one they are all computed.

    Args:
      function: asked at t in [0, pi]; cheap enough for some hundred calls.
      centre: near the mean.

    Raises:
      ValueError: the distribution is wider than 2**24 integers.

    >>> dice = law_from_characteristic(lambda t: sum(np.exp(1j * t * k) for k in range(6)) / 6, 1)
    >>> round(dice.probability(4), 12), round(dice.probability(7), 12)
    (0.166666666667, 0.0)
    """
    known: dict[float, complex] = {}
    # Of a distribution at one point the modulus is 1, up to rounding.
    drop = -2 * math.log(min(abs(function(_NEAR_ZERO)), 1.0))
    deviation = math.sqrt(drop) / _NEAR_ZERO
    points = _FEWEST_POINTS
    while points < _DEVIATIONS * deviation:
        points *= 2
    while points <= _MOST_POINTS:
        values = np.zeros(points // 2 + 1, dtype=np.complex128)
        small = 0
        for index in range(len(values)):
            t = 2 * math.pi * (index / points)
            if t not in known:
                known[t] = complex(function(t))
            values[index] = known[t]
            small = small + 1 if abs(known[t]) < _SMALL else 0
            if small == _STRETCH:
                break
        # E[e**(itX)] has the sign opposite to that of a discrete Fourier transform.
        table = np.fft.irfft(values.conj(), points)
        edge = points // 16
        table = np.roll(table, points // 2)
        if np.abs(np.append(table[:edge], table[-edge:])).sum() < _ERROR:
            kept = np.flatnonzero(table > _ERROR / points)
            first, last = int(kept[0]), int(kept[-1])
            found = np.maximum(table[first : last + 1], 0.0)
            return IntegerLaw(centre - points // 2 + first, found)
        points *= 2
    raise ValueError("the law is too wide for a table")
