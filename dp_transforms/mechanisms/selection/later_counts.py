"""Counts the users of partitions that were named before, with noise of their own.

The names are public by then, and so is which partitions are counted. Each user counts in at most
``partitions`` of the named ones, chosen at random by a key.

Privacy. Let the names be given, and no partition of only one user be among them: the event that
one is counts as exposure (``renyi_calibration``). Adding or removing all records of one user then
moves at most ``partitions`` counts by one each, and no other: which records of other users count
follows from these users' records, the names and the key. The vector of counts moves by
sqrt(partitions) in L2 at most. Normal noise of variance s2 on each has a Renyi divergence of order
a of a * partitions / (2 s2) (Mironov 2017, "Renyi differential privacy", Proposition 7), in both
directions and whatever the names are; rounding an integer plus noise to integers is
post-processing. So counts are one more adaptively chosen round, which has divergence and no
exposure. The bound of ``renyi_calibration`` holds with their divergence R as a part of q, that of
other rounds: beyond z, the ratio before the last round, outcomes have the ratios of the last round
and of the counts, whose moments are e**((a-1) R) times those without counts. This factor turns
c(0), c(r), c(q) and c(q + r) into c(R), c(r + R), c(q + R) and c(q + r + R); the exposure's terms
have z alone, and need not grow. Users who are replaced by others count twice, as in the rounds:
counts of both may move.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray, WordArray
from dp_transforms.mechanisms.decimals import decimal_text
from dp_transforms.mechanisms.discrete_noise import Extend
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.renyi_calibration import RenyiBudget
from dp_transforms.mechanisms.selection.threshold_distribution import CONFIDENCE


@dataclass(frozen=True)
class LaterCounts:
    """Adds normal noise, rounded to integers, to numbers of users of named partitions.

    Attributes:
      budget: what one user may change; its exposure is not used.
      partitions: the most named partitions in which a user counts.

    >>> LaterCounts(RenyiBudget(20, Fraction(1, 8), Fraction(0)), 2).sigma2
    Fraction(160, 1)
    """

    budget: RenyiBudget
    partitions: int

    @property
    def sigma2(self) -> Fraction:
        """Returns the variance of the noise before rounding, in users squared."""
        return self.budget.order * self.partitions / (2 * self.budget.divergence)

    @cached_property
    def noise(self) -> RoundedGaussian:
        return RoundedGaussian(self.sigma2)

    def noisy(self, users: IntArray, words: WordArray, extend: Extend) -> IntArray:
        """Returns numbers of users with noise, an int64 array of shape (n,). They may be negative.

        Args:
          users: the number of users of each partition: PRIVATE, an int64 array of shape (n,).
          words, extend: a uniform number for each partition, see ``IntegerNoise.from_words``.
        """
        with_noise: IntArray = users + self.noise.from_words(words, extend)
        return with_noise

    @cached_property
    def reach(self) -> int:
        """Returns the smallest q such that noise is beyond -q or q with at most 5%."""
        return self.noise.reach((1 - CONFIDENCE) / 2)

    def intervals(self, noisy: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the ends of 95% intervals for numbers of users, each by itself: the noise does
        not depend on which partitions are named."""
        return np.maximum(noisy - self.reach, 0), np.maximum(noisy + self.reach, 0)

    def describe(self) -> dict[str, Any]:
        """Returns the public facts of the counts, as JSON-ready values."""
        return {
            "mechanism": "normal noise, rounded to integers",
            "sigma": float(self.sigma2) ** 0.5,
            "sigma2_exact": decimal_text(self.sigma2),
            "max_partitions_per_user": self.partitions,
            "of": "named partitions",
        }
