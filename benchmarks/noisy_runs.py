"""Noisy vectors of integers, as runs of equal numbers, and their nearest descending vectors.

Never use the noise for a release: it comes from numpy's generator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from dp_transforms.mechanisms.arrays import IntArray


def two_sided_geometric(rate: float, size: int, rng: np.random.Generator) -> IntArray:
    """Returns draws of integers k with probabilities proportional to e**(-rate |k|)."""
    p = -np.expm1(-rate)
    return rng.geometric(p, size) - rng.geometric(p, size)


@dataclass(frozen=True)
class Runs:
    """A vector of integers, as runs: values, and how often each one is repeated."""

    values: IntArray
    sizes: IntArray

    def with_noise(self, rate: float, rng: np.random.Generator) -> Runs:
        """Returns the vector with two-sided geometric noise on each number that can influence a
        regression.

        Numbers that are farther than ``reach`` from both ends of their run get no noise. The
        release is the same as with noise on all, except with a probability below 1e-8. The reason:
        whether the regression, after rounding, fits such a number by another value than the run's
        depends on the mean (L2) or the signs (L1) of at least ``reach`` adjacent noise terms. Their
        mean would have to be half a unit off, or most of them would have to be on the less probable
        side. By Chernoff's bound, either event has probability at most e**-30, which falls
        geometrically with more terms.
        """
        reach = 100 + math.ceil(480 / rate**2)
        inner = np.maximum(self.sizes - 2 * reach, 0)
        first = np.where(inner > 0, reach, self.sizes)
        last = np.where(inner > 0, reach, 0)
        repeats = np.stack([first, np.minimum(inner, 1), last], axis=1).ravel()
        weights = np.stack([np.ones_like(inner), inner, np.ones_like(inner)], axis=1).ravel()
        noisy = np.repeat(np.tile([True, False, True], len(inner)), repeats)
        values = np.repeat(np.repeat(self.values, 3), repeats)
        values[noisy] += two_sided_geometric(rate, int(noisy.sum()), rng)
        return Runs(values, np.repeat(weights, repeats))


def descending_l1(noisy: Runs) -> Runs:
    """Returns the lowest of the descending vectors of integers, none below 0, that are nearest in
    L1.

    It bisects the values (Stout, "Isotonic regression via partitioning", 2013). In a segment whose
    fit lies between two bounds, numbers whose fit is above the middle come first. The cut after
    them minimizes how many values are on the wrong side of the middle.

    >>> descending_l1(Runs(np.array([3, 9, 5, -1, 2]), np.array([1, 1, 1, 2, 1]))).values.tolist()
    [5, 5, 5, 0, 0]
    """
    values, sizes = np.maximum(noisy.values, 0), noisy.sizes
    fitted = np.empty_like(values)
    segments = [(0, len(values), 0, int(values.max(initial=0)))]
    while segments:
        start, end, low, high = segments.pop()
        if start == end:
            continue
        part = values[start:end]
        low = min(max(low, int(part.min())), high)
        high = max(min(high, int(part.max())), low)
        if low == high:
            fitted[start:end] = low
            continue
        # Where some values are huge, most are small: the geometric mean divides them better.
        middle = math.isqrt((low + 1) * (high + 1)) - 1
        weights = sizes[start:end]
        gains = np.cumsum(np.where(part > middle, weights, -weights))
        cut = int(np.argmax(gains)) + 1
        cut = start + (cut if gains[cut - 1] > 0 else 0)
        segments += [(start, cut, middle + 1, high), (cut, end, low, middle)]
    return Runs(fitted, sizes)


def middle_l1(noisy: Runs) -> Runs:
    """Returns the middle, rounded down, of the lowest and the highest descending vectors of
    integers, none below 0, that are nearest in L1.

    It is a nearest one too: the distance is a convex function of a vector of integers, in the sense
    that the middles of two vectors, rounded up and down, are together no farther than these are
    (L-natural convexity, Murota 2003).

    >>> middle_l1(Runs(np.array([2, 8, 0, 6]), np.ones(4, dtype=np.int64))).values.tolist()
    [5, 5, 3, 3]
    """
    values = np.maximum(noisy.values, 0)
    largest = values.max(initial=0)
    mirrored = Runs(largest - values[::-1], noisy.sizes[::-1])
    highest = largest - descending_l1(mirrored).values[::-1]
    return Runs((descending_l1(noisy).values + highest) // 2, noisy.sizes)


def descending_l2(noisy: Runs) -> Runs:
    """Returns the descending vector nearest in L2, rounded to integers, with 0 if negative."""
    fitted = isotonic_regression(noisy.values, weights=noisy.sizes, increasing=False).x
    return Runs(np.maximum(np.rint(fitted), 0).astype(np.int64), noisy.sizes)
