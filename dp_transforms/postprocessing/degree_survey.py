"""Decodes a released histogram of degrees: how many users have how many partitions.

``UserDegreeMechanism`` releases noisy numbers of users by cells of degrees. Cells of large degrees
hold few users and much noise, but they may hold most of the pairs (user, partition). So the part of
all pairs that a bound of kappa keeps depends on how far such cells are believed.

A model says which numbers of users are plausible (``degree_model``), and its posterior is sampled
(``degree_posterior``). So whatever depends on an uncertain tail is averaged over the posterior, and
has an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.degree_model import DegreeModel
from dp_transforms.postprocessing.degree_posterior import posterior_draws
from dp_transforms.postprocessing.estimates import CONFIDENCE, MODEL, Estimate, failure_probability


@dataclass(frozen=True, eq=False)
class DegreeSurvey:
    """What a release tells about the numbers of users by degree.

    Attributes:
      degrees: representative degrees, ascending; the last one is the mean degree of users with
        ``max_degree`` partitions or more.
      draws: numbers of users with these degrees: posterior draws x degrees.
      last_degrees: the mean degree of users with ``max_degree`` partitions or more, in each draw.
      max_degree: users with more partitions were counted as having this many.
      epsilon: the cost of the release.
      largest_degree: the public number of partitions that no user exceeds; None if there is none.

    >>> released = ReleasedDegrees((1, 2, 3, 4, 5, 6), (50_000, 20_000, 10_000, 1, 0, -1), 1.0)
    >>> DegreeSurvey.of(released).kept_share(2).value
    0.91...
    """

    degrees: FloatArray
    draws: FloatArray
    last_degrees: FloatArray
    max_degree: int
    epsilon: float
    largest_degree: int | None = None

    @classmethod
    def of(cls, released: ReleasedDegrees, largest_degree: int | None = None) -> DegreeSurvey:
        """Decodes a release. If a largest degree is given, it was enforced on the records."""
        model = DegreeModel(released)
        densities, ends = posterior_draws(model)
        drawn = model.users_given(densities, ends)
        grid = model.grid(np.median(densities, axis=0))
        last = model.last_degrees(densities)
        if largest_degree is not None:
            last = np.minimum(last, float(largest_degree))
        # The last cell has one degree.
        grid.degrees[-1] = np.average(last, weights=drawn.users[:, -1] + 1e-9)
        draws, most = grid.users_by_degree(drawn), released.lowest[-1]
        return cls(grid.degrees, draws, last, most, released.epsilon, largest_degree)

    @cached_property
    def pair_draws(self) -> FloatArray:
        """Returns numbers of pairs (user, partition) by degree: draws x degrees."""
        pairs: FloatArray = self.draws * self.degrees
        pairs[:, -1] = self.draws[:, -1] * self.last_degrees
        return pairs

    @cached_property
    def pair_shares(self) -> FloatArray:
        """Returns the expected share of each degree in all pairs; they sum to 1."""
        totals = self.pair_draws.sum(1)
        has_pairs = totals > 0
        if not has_pairs.any():
            return np.append(1.0, np.zeros(len(self.degrees) - 1))
        shares: FloatArray = (self.pair_draws[has_pairs] / totals[has_pairs, None]).mean(0)
        return shares

    @cached_property
    def users(self) -> FloatArray:
        """Returns the estimated number of users by degree. Their shares of all pairs are the
        expected shares, and the sum of their pairs is the median number of all pairs."""
        return self.pair_shares * self.pairs().value / self.degrees

    def pairs(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of all pairs (user, partition)."""
        return self._estimate(self.pair_draws.sum(1), confidence, high_is_open=True)

    def users_beyond(self, kappa: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of users with more than kappa partitions.

        Raises:
          ValueError: kappa is not a positive integer, or confidence is not between 0 and 1.
        """
        kappa = positive_integer("kappa", kappa)
        return self._estimate(self.draws[:, self.degrees > kappa].sum(1), confidence)

    def kept_shares(self, kappa: int) -> FloatArray:
        """Returns the part of all pairs that a bound of kappa keeps, in each draw."""
        kappa = positive_integer("kappa", kappa)
        totals = self.pair_draws.sum(1)
        kept = self.draws @ np.minimum(self.degrees, kappa)
        # Users of the last degree have a mean degree of their own in each draw.
        kept += self.draws[:, -1] * (
            np.minimum(self.last_degrees, kappa) - min(self.degrees[-1], kappa)
        )
        shares: FloatArray = np.where(totals > 0, kept / np.maximum(totals, 1e-300), 1.0)
        return np.clip(shares, 0.0, 1.0)

    def kept_share(self, kappa: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the part of all pairs that a bound of kappa keeps. If there may be users with
        ``max_degree`` partitions or more, it is not known how many they have, and the lower end is
        0.

        Raises:
          ValueError: kappa is not a positive integer, or confidence is not between 0 and 1.
        """
        return self._estimate(self.kept_shares(kappa), confidence, low_is_open=True)

    def tail_is_open(self, confidence: float = CONFIDENCE) -> bool:
        """Returns whether there may be users with ``max_degree`` partitions or more, so that
        nothing limits how many they have."""
        if self.largest_degree is not None:
            return False
        return bool((self.draws[:, -1] >= 0.5).mean() > failure_probability(confidence) / 2)

    def _estimate(
        self,
        draws: FloatArray,
        confidence: float,
        low_is_open: bool = False,
        high_is_open: bool = False,
    ) -> Estimate:
        """Estimates a number by the quantiles of its draws. An open end is as far out as it can be
        if the tail is open."""
        failure = failure_probability(confidence)
        low, value, high = np.quantile(draws, [failure / 2, 0.5, 1 - failure / 2]).tolist()
        if self.tail_is_open(confidence):
            low = 0.0 if low_is_open else low
            high = math.inf if high_is_open else high
        return Estimate(value, low, high, confidence, MODEL)
