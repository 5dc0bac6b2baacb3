"""One round of the weighted Gaussian: weights, noise and threshold.

Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin (2020, "Differentially private set union", arXiv
2002.09745): a user with t partitions adds the weight 1/sqrt(t) to each of them, so that the vector
of weights has L2 norm 1 however many partitions that are; normal noise is added to every
partition's sum, and a partition is kept if the noisy sum exceeds a threshold. Weights are integers
here, in units of 2**-24 and rounded down, so that their squares certainly sum to at most one and
sums are exact.

The threshold. A partition that only one user has must not be selected often: if that user has t
partitions, each of them with probability at most p(t) = 1 - e**-(lambda / t), so that all of them
together stay unselected with probability e**-lambda at least. Its sum is w(t), whence

    threshold = max over t <= kappa of w(t) + sigma * Qinv(p(t))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import gmpy2
import numpy as np
import numpy.typing as npt

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.partition_selection.gaussian_calibration import GaussianBudget
from dp_transforms.mechanisms.partition_selection.normal import NormalLaw, upper_quantile

UNIT = 1 << 24
"""A weight of one. Sums of weights fit 64 bits up to 2**39 users of one partition."""

_PRECISION = 192


def weight(partitions: int) -> int:
    """floor(UNIT / sqrt(partitions)): what a user of ``partitions`` partitions adds to each."""
    return math.isqrt(UNIT * UNIT // partitions)


def weights(partitions: npt.ArrayLike, weight: Callable[[int], int] = weight) -> IntArray:
    """``weight`` of every element of an integer array, as an int64 array of the same shape.

    >>> weights([1, 4, 10])
    array([16777216,  8388608,  5305421])
    """
    counts = np.asarray(partitions)
    distinct, places = np.unique(counts, return_inverse=True)
    values = np.array([weight(int(t)) for t in distinct], dtype=np.int64)
    return values[places].reshape(counts.shape)


@dataclass(frozen=True)
class WeightedRound:
    """Noise and threshold of one round.

    Attributes:
      budget: what the round may spend.
      max_partitions_per_user: kappa, the most partitions that a user has in the round.
    """

    budget: GaussianBudget
    max_partitions_per_user: int

    @cached_property
    def law(self) -> NormalLaw:
        """The probability of being kept, by the sum of weights in units of ``UNIT``."""
        variance = UNIT * UNIT / self.budget.mu2
        return NormalLaw(variance, _threshold(self.budget, variance, self.max_partitions_per_user))

    @property
    def sigma(self) -> float:
        """The noise's standard deviation, where a user's weights have L2 norm 1."""
        return 1 / math.sqrt(self.budget.mu2)

    def weight(self, partitions: int) -> int:
        return weight(partitions)

    def describe(self) -> dict[str, float]:
        return {"sigma": self.sigma, "threshold": self.law.threshold / UNIT}


def _threshold(budget: GaussianBudget, variance: Fraction, most: int) -> int:
    _, up = rounding_pair(_PRECISION)
    sigma = up.sqrt(gmpy2.mpq(variance))

    def needed(first: int, last: int) -> int:
        """At least what every t in [first, last] needs: w falls with t, the quantile grows."""
        quantile = upper_quantile(budget.new_partition_probability(last))
        return int(gmpy2.ceil(up.add(weight(first), up.mul(sigma, gmpy2.mpq(quantile)))))

    # The maximum is nearly always at one of the ends, which then covers all between.
    threshold = max(needed(1, 1), needed(most, most))
    pending = [(1, most)]
    while pending:
        first, last = pending.pop()
        if needed(first, last) <= threshold:
            continue
        if first == last:
            threshold = needed(first, first)
            continue
        middle = (first + last) // 2
        pending += [(first, middle), (middle + 1, last)]
    return threshold
