"""Peers: other published ways to release a frequency list under pure epsilon-DP.

Each peer has the whole epsilon. It is also told, free of charge, the numbers about the private list
that it needs: ``PublicBounds``, or what its docstring names. This project's release needs none of
them. Where a paper leaves the choice, the noise is two-sided geometric, which is the discrete
Laplace distribution of the same budget. Results are lists of integers. Never use these functions
for a release: their noise comes from numpy's generator. ``python -m benchmarks.frequency_lists``
compares them.

Neighbours: add or remove all records of one user, who changes at most ``sensitivity`` counts by
one. ``rate`` is epsilon / sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from dp_transforms.mechanisms import FrequencyList


@dataclass(frozen=True)
class PublicBounds:
    """Public numbers: a bound on the number of items, and a bound on every count."""

    items: int
    count: int


DECOYS = 10.0
"""The number of decoys of PrivHist on either side, in units of the noise's scale."""

IntArray = npt.NDArray[np.int64]
Release = Callable[[FrequencyList, float, PublicBounds, np.random.Generator], FrequencyList]


def cumulative_histogram_l1(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns the list nearest in L1 to noisy numbers of items with at least each count.

    This is the H_c method of Kuo et al., "Differentially private hierarchical count-of-counts
    histograms" (VLDB 2018). If a count changes by one, one of these numbers changes by one. On the
    taxi data of the authors' repository at epsilon 1, and with the same noise, the L1 error is
    2,811, where they publish 2,801: the nearest list in L1 is not unique.
    """
    return _of_at_least(_descending_l1(_noisy_at_least(private, rate, bounds.count, rng)))


def cumulative_histogram_l2(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns the list nearest in L2 to the noisy numbers of ``cumulative_histogram_l1``."""
    return _of_at_least(_descending_l2(_noisy_at_least(private, rate, bounds.count, rng)))


def sorted_counts(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns the sorted list nearest in L2 to the sorted counts with noise.

    This is the method of Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially
    private histograms through consistency" (VLDB 2010). Items that do not occur have the count 0.
    """
    values = np.append(private.frequencies, 0)
    sizes = np.append(private.multiplicities, bounds.items - private.distinct)
    return _of_ranks(_descending_l2(_Runs(values, sizes).with_noise(rate, rng)))


def priv_hist(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns a list fitted to noisy cumulative prevalences of counts up to sqrt(N), and to noisy
    sorted counts above sqrt(N).

    This is PrivHist of Suresh, "Differentially private anonymized histograms" (NeurIPS 2019), by
    its outline: the text of its algorithms was not available when this was written. Where the
    outline leaves a choice, it is made in favour of PrivHist: it is told N, which the original
    estimates at a share of epsilon; both parts are fitted in L1; and large counts are not made
    coarser at small epsilon.

    If a count changes by one and stays on its side of sqrt(N), one number changes by one. If a
    count crosses the threshold, this is hidden as follows. Decoys are added on both sides, and a
    two-sided geometric number of items next to the threshold is moved across. Moving one more item
    the other way makes the two sides the same as for the neighbour. In the end as many items as
    there were decoys are removed, namely those nearest to the threshold.
    """
    threshold, decoys = math.isqrt(private.total), math.ceil(DECOYS / rate)
    across = int(two_sided_geometric(rate, 1, rng)[0])
    large, small = _sides(private, threshold, decoys, across)
    ranks = _descending_l1(large.with_noise(rate, rng))
    top = _of_ranks(_Runs(np.maximum(ranks.values, threshold + 1), ranks.sizes))
    bottom = _of_at_least(_descending_l1(_noisy_at_least(small, rate, threshold, rng)))
    frequencies = np.append(top.frequencies, bottom.frequencies)
    number = np.append(top.multiplicities, bottom.multiplicities)
    nearest = np.argsort(np.abs(frequencies - threshold), kind="stable")
    before = np.cumsum(number[nearest]) - number[nearest]
    number[nearest] -= np.clip(2 * decoys - before, 0, number[nearest])
    return FrequencyList(frequencies[number > 0], number[number > 0])


def _sides(
    private: FrequencyList, threshold: int, decoys: int, across: int
) -> tuple[_Runs, FrequencyList]:
    """Returns the sorted counts above a threshold, and a list of the others, both with decoys.

    If ``across`` is positive, that many of the lowest counts above the threshold become equal to
    it. If it is negative, as many of the highest others become the threshold plus one.
    """
    values = np.concatenate([private.frequencies, [threshold + 1, threshold, 0]])
    sizes = np.concatenate([private.multiplicities, [decoys, decoys, abs(across)]])
    order = np.argsort(-values, kind="stable")
    values, sizes = values[order], sizes[order]
    above = max(int(sizes[values > threshold].sum()) - across, 0)
    large = np.clip(above - (np.cumsum(sizes) - sizes), 0, sizes)
    ranks = _Runs(np.maximum(values, threshold + 1)[large > 0], large[large > 0])
    return ranks, _of_ranks(_Runs(np.minimum(values, threshold), sizes - large))


def cyclic_laplace(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns a list by noisy numbers of items with each count. The noise of a number is the
    difference of two adjacent Laplace variables in a circle.

    This is the mechanism of Kohli and Laskowski, "Preserving target distributions with
    differentially private count mechanisms" (PoPETs 2026). Numbers below 0 become 0, and the others
    are scaled to the number of items. It is made for tables of many items with small counts. It is
    told the exact number of items and the exact largest count, since wide bounds leave nothing but
    noise. On histograms of the authors' repository, and with the same noise, its noisy numbers are
    those of their code.
    """
    bins = np.zeros(int(private.frequencies.max(initial=0)) + 1)
    bins[private.frequencies] = private.multiplicities
    noise = rng.laplace(scale=1 / rate, size=len(bins))
    noisy = np.maximum(bins + noise - np.append(noise[1:], noise[0]), 0)
    shares = noisy / max(noisy.sum(), np.finfo(float).tiny)
    at_least = np.rint(private.distinct * np.cumsum(shares[:0:-1])[::-1]).astype(np.int64)
    return _of_at_least(_Runs(at_least, np.ones_like(at_least)))


PEERS: dict[str, Release] = {
    "cumulative histogram, L1": cumulative_histogram_l1,
    "cumulative histogram, L2": cumulative_histogram_l2,
    "sorted counts": sorted_counts,
    "PrivHist": priv_hist,
    "cyclic Laplace": cyclic_laplace,
}


def two_sided_geometric(rate: float, size: int, rng: np.random.Generator) -> IntArray:
    """Returns draws of integers k with probabilities proportional to e**(-rate |k|)."""
    p = -np.expm1(-rate)
    return rng.geometric(p, size) - rng.geometric(p, size)


@dataclass(frozen=True)
class _Runs:
    """A vector of integers, as runs: values, and how often each one is repeated."""

    values: IntArray
    sizes: IntArray

    def with_noise(self, rate: float, rng: np.random.Generator) -> _Runs:
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
        return _Runs(values, np.repeat(weights, repeats))


def _noisy_at_least(
    private: FrequencyList, rate: float, largest: int, rng: np.random.Generator
) -> _Runs:
    """Returns the number of items with at least each count up to ``largest``, with noise."""
    at_least = np.cumsum(private.multiplicities)[::-1]
    ends = private.frequencies[::-1]
    values, sizes = np.append(at_least, 0), np.diff(ends, prepend=0, append=largest)
    return _Runs(values, sizes).with_noise(rate, rng)


def _of_at_least(at_least: _Runs) -> FrequencyList:
    """Returns the list that has these numbers of items with at least each count."""
    bins = at_least.values - np.append(at_least.values[1:], 0)
    ends = np.cumsum(at_least.sizes)
    nonzero = np.flatnonzero(bins)[::-1]
    return FrequencyList(ends[nonzero], bins[nonzero])


def _of_ranks(ranks: _Runs) -> FrequencyList:
    """Returns the list of these sorted counts, without counts of 0."""
    counts, runs = np.unique(ranks.values, return_inverse=True)
    multiplicities = np.bincount(runs, ranks.sizes, len(counts)).astype(np.int64)
    kept = np.flatnonzero((counts > 0) & (multiplicities > 0))[::-1]
    return FrequencyList(counts[kept], multiplicities[kept])


def _descending_l1(noisy: _Runs) -> _Runs:
    """Returns a descending vector of integers, none below 0, that is nearest in L1.

    It bisects the values (Stout, "Isotonic regression via partitioning", 2013). In a segment whose
    fit lies between two bounds, numbers whose fit is above the middle come first. The cut after
    them minimizes how many values are on the wrong side of the middle.

    >>> _descending_l1(_Runs(np.array([3, 9, 5, -1, 2]), np.array([1, 1, 1, 2, 1]))).values.tolist()
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
        middle = (low + high) // 2
        weights = sizes[start:end]
        gains = np.cumsum(np.where(part > middle, weights, -weights))
        cut = int(np.argmax(gains)) + 1
        cut = start + (cut if gains[cut - 1] > 0 else 0)
        segments += [(start, cut, middle + 1, high), (cut, end, low, middle)]
    return _Runs(fitted, sizes)


def _descending_l2(noisy: _Runs) -> _Runs:
    """Returns the descending vector nearest in L2, rounded to integers, with 0 if negative."""
    fitted = isotonic_regression(noisy.values, weights=noisy.sizes, increasing=False).x
    return _Runs(np.maximum(np.rint(fitted), 0).astype(np.int64), noisy.sizes)
