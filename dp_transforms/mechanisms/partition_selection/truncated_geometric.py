"""Truncated symmetric geometric noise: the optimal primitive that also releases noisy counts.

Desfontaines, Voss, Gipson, Mandayam (2022, "Differentially private partition selection", arXiv
2006.03684), Definitions 6-8: X has P[X = x] proportional to e**(-epsilon |x|) on -k, ..., k, and a
partition with n users is kept if n + X > k. The noisy count n + X of a kept partition may be
released too, at no further cost.

Why it is private. Neighbours add or remove all records of one user, here one user of one partition,
so n changes by one. The laws of n + X and n + 1 + X have ratios of at most e**epsilon wherever both
have mass; at the one end where only one of them has, that mass is P[X = k], and k is the smallest
for which it is at most delta. Thresholding is post-processing for n >= 1; a partition that nobody
has never appears, and one with a single user appears only if X = k, with probability at most delta.
If k's formula gives a whole number before rounding up, the probabilities of being kept are those of
the optimal primitive.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, repeat
from operator import mul

import gmpy2

from dp_transforms.mechanisms.bisection import smallest_where
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Enclosure, exactly, settled
from dp_transforms.mechanisms.noise.discrete_noise import IntegerNoise
from dp_transforms.mechanisms.partition_selection.threshold_law import ThresholdLaw

_GUARD_BITS = 32


@dataclass(frozen=True)
class TruncatedGeometricNoise(IntegerNoise):
    """k-TSGD: P[X = x] proportional to e**(-epsilon |x|) for |x| <= k, and 0 elsewhere.

    Args:
      epsilon: positive; an exact rational number.
      k: positive integer.
    """

    epsilon: Fraction
    k: int

    def tail(self, x: int, precision: int) -> Enclosure:
        if x >= self.k:
            return exactly(0)
        # P[X > x] = q**(x+1) (1 - q**(k-x)) / (1 + q - 2 q**(k+1)).
        working = precision + _GUARD_BITS
        power = self._decay.power(x + 1, working)
        return power * self._decay.one_minus_power(self.k - x, working) / self._total(working)

    def _tails(self, precision: int) -> list[Enclosure]:
        # By a chain of products, (q**(x+1) - q**(k+1)) / total: the guard bits outlast its length.
        working = precision + 2 * _GUARD_BITS
        end, total = self._decay.power(self.k + 1, working), self._total(working)
        powers = accumulate(repeat(self._decay.power(1, working), self.k), mul)
        return [*((power - end) / total for power in powers), exactly(0)]

    def _total(self, working: int) -> Enclosure:
        """(lo, hi) around 1 + q - 2 q**(k+1), by terms that are all positive."""
        # (1 + q) (1 - q**k) + (1 - q) q**k.
        ratio, end = self._decay.power(1, working), self._decay.power(self.k, working)
        gap, inner = (self._decay.one_minus_power(i, working) for i in (1, self.k))
        return (1 + ratio) * inner + gap * end

    @cached_property
    def _decay(self) -> Decay:
        return Decay(self.epsilon)


def truncated_geometric_law(epsilon: Fraction, delta: Fraction) -> ThresholdLaw:
    """The law of a partition by its number of users, for users with one partition each.

    Args:
      epsilon: positive; an exact rational number.
      delta: positive and below 1; an exact rational number.
    """
    k = truncation(epsilon, delta)
    return ThresholdLaw(TruncatedGeometricNoise(epsilon, k), k, saturation=2 * k + 1)


def public_law(epsilon: Fraction, delta: Fraction, threshold: int) -> ThresholdLaw:
    """The law of a partition whose name is public, which may then appear though nobody has it.

    The noise is that of ``truncated_geometric_law``, so that both kinds of partition may stand in
    one release, and the count is private however it is thresholded.

    Args:
      threshold: what the noisy count must exceed, from -k to k, k the noise's bound. At -k every
        partition with a user is kept (no false negatives), since noise is never below -k, and so is
        nearly every one without; at k none without a user is kept (no false positives); between,
        some of both, and at 0 a partition without users is kept less than half of the time.

    Raises:
      ValueError: the threshold is out of range.
    """
    k = truncation(epsilon, delta)
    if not -k <= threshold <= k:
        raise ValueError(
            f"the threshold of public partitions must be in [-{k}, {k}], got {threshold}"
        )
    noise = TruncatedGeometricNoise(epsilon, k)
    return ThresholdLaw(noise, threshold, saturation=max(0, threshold + k + 1), smallest=0)


def truncation(epsilon: Fraction, delta: Fraction) -> int:
    """k: the smallest for which P[X = k] <= delta, at least 1."""
    share = gmpy2.mpq(delta)

    def is_small(k: int) -> bool:
        noise = TruncatedGeometricNoise(epsilon, k)
        return settled(lambda bits: noise.tail(k - 1, bits).is_at_most(share), 128)

    return smallest_where(is_small, 1)
