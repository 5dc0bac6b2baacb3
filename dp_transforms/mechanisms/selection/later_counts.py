"""Counts the users of named partitions, with noise that is independent of the selection.

At this point the names are public, and so is the set of partitions that are counted. Each user
counts in at most ``partitions`` of them, chosen at random by a key.

Privacy. Let the names be given, and assume that no partition of only one user is among them: the
event that there is one counts as exposure (``renyi_calibration``). Neighbours: add or remove all
records of one user. This moves at most ``partitions`` counts by one each, and no other count, since
the counted records of other users follow from their own records, the names and the key. So the
vector of counts moves by at most sqrt(partitions) in L2. With normal noise of variance s2 on each
count, the Renyi divergence of order a is at most a * partitions / (2 s2) (Mironov 2017, "Renyi
differential privacy", Proposition 7), in both directions and for any names. Rounding an integer
plus noise to integers is post-processing. So the counts are one more adaptively chosen round, which
has divergence and no exposure.

The bound of ``renyi_calibration`` holds if the divergence R of the counts is a part of q, the
divergence of the rounds before the last one. For let z be the ratio before the last round. Outcomes
also have the ratios of the last round and of the counts, whose moments are at most e**((a-1) R)
times those without counts. This factor turns c(0), c(r), c(q) and c(q + r) into c(R), c(r + R), c(q
+ R) and c(q + r + R). The terms of the exposure contain z alone, and need not grow. If one user is
replaced by another, both users' counts may move, and R counts twice, as in the rounds.
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
      budget: limits the change that one user may make; its exposure is not used.
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
        """Returns numbers of users plus noise, an int64 array of shape (n,). They may be negative.

        Args:
          users: the PRIVATE number of users of each partition, an int64 array of shape (n,).
          words, extend: a uniform number for each partition, see ``IntegerNoise.from_words``.
        """
        with_noise: IntArray = users + self.noise.from_words(words, extend)
        return with_noise

    @cached_property
    def reach(self) -> int:
        """Returns the smallest number that the absolute value of the noise exceeds with a
        probability of at most 5%."""
        return self.noise.reach((1 - CONFIDENCE) / 2)

    def intervals(self, noisy: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the lower and the upper ends of 95% intervals for numbers of users. Each interval
        has its confidence by itself, given the names: the noise does not depend on them."""
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
