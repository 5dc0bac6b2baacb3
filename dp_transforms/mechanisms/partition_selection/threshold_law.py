"""Noisy counts above a threshold: the law of being kept, and the counts of those that are.

A partition with n users is kept if n + X > threshold, strictly, X being integer noise. The same
uniform number U decides in both forms of a release: n + X > threshold for the X that inverts U is
the same event as U >= 1 - pi(n). So a release of names and a release of names with noisy counts
agree about the names, and noise needs to be drawn only for the partitions that are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import gmpy2
import numpy as np

from dp_transforms.mechanisms.discrete_noise import Extend, IntArray, IntegerNoise, WordArray
from dp_transforms.mechanisms.partition_selection.keep_law import BoolArray, KeepLaw
from dp_transforms.mechanisms.randomness import Enclosure


@dataclass(frozen=True)
class ThresholdLaw(KeepLaw):
    """pi(n) = P[n + X > threshold] for n >= smallest, and 0 below.

    Args:
      noise: the law of X.
      threshold: an integer. A noisy count that equals it is dropped.
      saturation: the smallest n with pi(n) = 1, for noise that is bounded.
      smallest: 1 where a partition without users must not appear; 0 where it may, since its name is
        public.
    """

    noise: IntegerNoise
    threshold: int
    saturation: int | None = None
    smallest: int = 1

    def drop_enclosure(self, statistic: int, precision: int) -> Enclosure:
        if statistic < self.smallest:
            return gmpy2.mpq(1), gmpy2.mpq(1)
        if self.saturation is not None and statistic >= self.saturation:
            return gmpy2.mpq(0), gmpy2.mpq(0)
        # Dropped if X <= threshold - n. The noise is symmetric: P[X <= -y] = P[X > y - 1].
        gap = self.threshold - statistic
        if gap < 0:
            return self.noise.tail(-gap - 1, precision)
        lo, hi = self.noise.tail(gap, precision)
        return 1 - gmpy2.mpq(hi), 1 - gmpy2.mpq(lo)

    def decide_with_counts(
        self, counts: IntArray, words: WordArray, extend: Extend
    ) -> tuple[BoolArray, IntArray]:
        """(kept, noisy counts), arrays as long as ``counts``; of the dropped the latter are 0.

        Arguments and errors are those of ``decide``.
        """
        keep = self.decide(counts, words, extend)
        kept = np.flatnonzero(keep)
        noise = self.noise.from_words(words[kept], lambda i, bits: extend(int(kept[i]), bits))
        noisy = np.zeros(len(counts), dtype=np.int64)
        noisy[kept] = counts[kept] + noise
        return keep, noisy
