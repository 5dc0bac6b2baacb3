"""Probability distributions of one integer, as tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray

_FEWEST_POINTS = 64
_MOST_POINTS = 2**24
_DEVIATIONS = 16  # The least width of a table, in standard deviations.

_STRETCH = 16
"""A characteristic function is taken to be 0 after this many consecutive small values."""

_NEAR_ZERO = 1e-4
_SMALL = 1e-16
_ERROR = 1e-9


@dataclass(frozen=True, eq=False)
class IntegerLaw:
    """P(X = least + k) = probabilities[k]; what is left out has a probability below 1e-9 in all.

    Attributes:
      least: the first integer of the table, of any size.
      probabilities: floats.

    >>> coin = IntegerLaw(10, np.array([0.5, 0.5]))
    >>> coin.probability(11), coin.mean, coin.quantile(0.7)
    (0.5, 10.5, 11)
    """

    least: int
    probabilities: FloatArray

    def probability(self, value: int) -> float:
        """P(X = value)."""
        index = value - self.least
        return float(self.probabilities[index]) if 0 <= index < len(self.probabilities) else 0.0

    @property
    def mean(self) -> float:
        """E[X]."""
        return self.least + self.mean_above(self.least)

    def mean_above(self, value: int) -> float:
        """E[X] - value, without the rounding of a large E[X]."""
        steps = np.arange(len(self.probabilities))
        return float(steps @ self.probabilities / self.probabilities.sum()) + (self.least - value)

    @property
    def variance(self) -> float:
        """E[(X - E[X])**2]."""
        steps = np.arange(len(self.probabilities)) - self.mean_above(self.least)
        return float(steps**2 @ self.probabilities / self.probabilities.sum())

    def quantile(self, level: float) -> int:
        """The smallest x with P(X <= x) >= level.

        Raises:
          ValueError: level is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        sums = np.cumsum(self.probabilities)
        return self.least + int(np.searchsorted(sums / sums[-1], level))


def law_from_characteristic(function: Callable[[float], complex], centre: int) -> IntegerLaw:
    """The distribution of X, where function(t) = E[e**(i t (X - centre))].

    The inverse Fourier transform on n points wraps the distribution around modulo n. The table is
    doubled until both of its ends are empty. A wide distribution needs few values of the function,
    at t in [0, pi], since that is narrow; for a narrow one they are all computed. The centre is
    near the mean.

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
