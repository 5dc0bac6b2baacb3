"""Probability distributions of one integer, as tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray


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
