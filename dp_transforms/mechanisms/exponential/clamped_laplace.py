"""Clamped discrete Laplace: a noisy number within public bounds, by the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import Number, exact_fraction, positive_rational
from dp_transforms.mechanisms.eta import Eta
from dp_transforms.mechanisms.exponential.mechanism import ExponentialMechanism
from dp_transforms.mechanisms.randomness import RandomTape


@dataclass(frozen=True)
class ClampedLaplace:
    """Releases a point of the grid lower, lower + granularity, ..., near a private number.

    A point s steps away from the grid point next to the number has probability proportional to
    2**(-eta * s). Nothing outside the bounds can be released: the distribution is not that of
    Laplace noise clamped afterwards, which would pile up at the ends.

    Privacy. Let the number change by at most d between neighbours (add or remove all records of one
    user). Rounding to the grid (halves go up) and clamping turn that into at most k = ceil(d /
    granularity) steps, so a release is (2 * eta * k)-DP in base 2, ``epsilon(d)`` in natural units.
    The factor 2 is the price of the bounds: ``TwoSidedGeometric`` noise costs eta * k, without
    them.

    Args:
      eta: the base-2 privacy parameter, per step of the grid.
      lower: the lowest point. A float, the private number too, stands for the decimal that it
        prints as, so that numbers which differ by the decimal d here differ by at most d.
      upper: no point is above it.
      granularity: the distance between points.
      min_retries: as for ``ExponentialMechanism``.

    Raises:
      ValueError: a bound or the granularity is not finite or out of order, or the grid has more
        than 2**31 points.

    Source: Ilvento (2019), the base-2 exponential mechanism with distances as utilities.

    >>> laplace = ClampedLaplace(Eta(1, 1, 1), -10, 10, granularity=0.25)
    >>> laplace.points, laplace.release(1.1, RandomTape(bytes(32)))
    (81, Fraction(1, 1))
    """

    eta: Eta
    lower: Number
    upper: Number
    granularity: Number = 1
    min_retries: int = 1

    def __post_init__(self) -> None:
        lower, upper, _ = self._grid
        if lower > upper:
            raise ValueError(f"lower={self.lower} must not be above upper={self.upper}")
        if self.points > 2**31:
            raise ValueError(
                f"the grid has {self.points} points, more than 2**31; give a larger granularity"
            )
        _ = self._mechanism

    @cached_property
    def points(self) -> int:
        """The number of points of the grid."""
        lower, upper, step = self._grid
        return math.floor((upper - lower) / step) + 1

    def epsilon(self, sensitivity: Number) -> float:
        """The cost of one release is the smallest float not below the value in the class's text.

        Args:
          sensitivity: by how much the number may change between neighbours, in its own units.
        """
        _, _, step = self._grid
        return self._mechanism.epsilon(math.ceil(_rational("sensitivity", sensitivity) / step))

    def release(self, value: Any, tape: RandomTape, channel: str = "clamped Laplace") -> Fraction:
        """A point of the grid, exactly.

        Args:
          value: the private number, finite; outside the bounds it counts as the nearer one.
          tape, channel: see ``ExponentialMechanism.sample``.

        Raises:
          ValueError: the value is not a finite real number.
        """
        return self._point(self._mechanism.sample(self._distances(value), tape, channel))

    def law(self, value: Any) -> dict[Fraction, Any]:
        """The exact probability of each point, as gmpy2.mpq; private, like the value."""
        probabilities = self._mechanism.probabilities(self._distances(value))
        return {self._point(i): p for i, p in enumerate(probabilities)}

    @cached_property
    def _grid(self) -> tuple[Fraction, Fraction, Fraction]:
        return (
            _rational("lower", self.lower),
            _rational("upper", self.upper),
            positive_rational("granularity", self.granularity),
        )

    @cached_property
    def _mechanism(self) -> ExponentialMechanism:
        return ExponentialMechanism(
            self.eta, 0, self.points - 1, max_outcomes=self.points, min_retries=self.min_retries
        )

    def _point(self, index: int) -> Fraction:
        lower, _, step = self._grid
        return lower + index * step

    def _distances(self, value: Any) -> IntArray:
        """The number of steps between each point and the value's own."""
        lower, _, step = self._grid
        steps = (_rational("value", value, private=True) - lower) / step
        nearest = min(max(math.floor(steps + Fraction(1, 2)), 0), self.points - 1)
        return np.abs(np.arange(self.points, dtype=np.int64) - nearest)


def _rational(name: str, value: Any, private: bool = False) -> Fraction:
    try:
        if isinstance(value, str):
            raise ValueError
        return exact_fraction(name, value)
    except ValueError:
        shown = "" if private else f", got {value!r}"
        raise ValueError(f"{name} must be a finite real number{shown}") from None
