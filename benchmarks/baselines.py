"""Peers: other published ways to release a frequency list under pure epsilon-DP.

Each peer has the whole epsilon, and what it needs to be told of the private list for nothing:
``PublicBounds``, or the numbers that its docstring names. This project's release needs none. The
noise is two-sided geometric, the discrete Laplace of the same budget, where the paper leaves the
choice, and the results are lists of integers. Never use them for a release: their noise comes from
numpy's generator. ``python -m benchmarks.frequency_lists`` compares them.

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
    """The public numbers: a bound on the number of items, and one on every count."""

    items: int
    count: int


DECOYS = 10.0
"""The number of decoys of PrivHist on either side, by the scale of the noise."""

IntArray = npt.NDArray[np.int64]
Release = Callable[[FrequencyList, float, PublicBounds, np.random.Generator], FrequencyList]


def cumulative_histogram_l1(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Adds noise to how many items have at least each count; the nearest list in L1.

    The H_c method of Kuo et al., "Differentially private hierarchical count-of-counts histograms"
    (VLDB 2018). A count that changes by one changes one of these numbers by one. On the taxi data
    of the authors' repository at epsilon 1, and with the same noise, the L1 error is 2,811, where
    they publish 2,801: the nearest list in L1 is not unique.
    """
    return _of_at_least(_descending_l1(_noisy_at_least(private, rate, bounds.count, rng)))


def cumulative_histogram_l2(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Adds the same noise as ``cumulative_histogram_l1``; the nearest list in L2."""
    return _of_at_least(_descending_l2(_noisy_at_least(private, rate, bounds.count, rng)))


def sorted_counts(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Adds noise to the sorted counts; the nearest sorted list in L2.

    Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially private histograms
    through consistency" (VLDB 2010). Items that do not occur have the count 0.
    """
    values = np.append(private.frequencies, 0)
    sizes = np.append(private.multiplicities, bounds.items - private.distinct)
    return _of_ranks(_descending_l2(_Runs(values, sizes).with_noise(rate, rng)))


def priv_hist(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Adds noise to cumulative prevalences up to sqrt(N), and to the sorted counts above.

    PrivHist of Suresh, "Differentially private anonymized histograms" (NeurIPS 2019), by its
    outline: the text of its algorithms could not be had where this was written. What the outline
    leaves open is decided in its favour: it is told N, which it estimates at a share of epsilon,
    both parts are fitted in L1, and large counts are not made coarser at small epsilon.

    A count that changes by one, and stays on its side of sqrt(N), changes one number by one. That
    one crosses it is hidden: decoys stand on both sides, and a two-sided geometric number of items
    next to the threshold is moved across, so that one more moved the other way makes the two sides
    the same. As many items as there were decoys are taken out again, those nearest the threshold.
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
    """The sorted counts above a threshold, and a list of the others, both with decoys.

    The ``across`` lowest above it become equal to it, or that many of the others exceed it by one.
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
    """Adds to how many items have each count the differences of Laplace noise around a circle.

    Kohli and Laskowski, "Preserving target distributions with differentially private count
    mechanisms" (PoPETs 2026). Numbers below 0 become 0, and the others are scaled to the number of
    items. It is made for tables of many items with small counts: it is told the exact number of
    items and the exact largest count, since wide bounds leave nothing but noise. On histograms of
    the authors' repository its noisy numbers are, at the same noise, those of their code.
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
    """Integers k with probability proportional to e**(-rate |k|)."""
    p = -np.expm1(-rate)
    return rng.geometric(p, size) - rng.geometric(p, size)


@dataclass(frozen=True)
class _Runs:
    """A vector of integers: values, and how often each comes in a row."""

    values: IntArray
    sizes: IntArray

    def with_noise(self, rate: float, rng: np.random.Generator) -> _Runs:
        """Two-sided geometric noise on each number that can matter to a regression.

        Numbers inside a run that are farther than ``reach`` from both its ends keep their value,
        and what is released stays the same but with a probability below 1e-8. Whether a number
        there is fitted, after rounding, by anything but the run's value depends on the mean (L2)
        or the signs (L1) of at least ``reach`` noise terms in a row, which would have to be half
        a unit off, or mostly on the less probable side. By Chernoff's bound either has at most
        the probability e**-30, and falls geometrically with more terms.
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
    """Counts the items of at least each count up to the largest, with noise on each."""
    at_least = np.cumsum(private.multiplicities)[::-1]
    ends = private.frequencies[::-1]
    values, sizes = np.append(at_least, 0), np.diff(ends, prepend=0, append=largest)
    return _Runs(values, sizes).with_noise(rate, rng)


def _of_at_least(at_least: _Runs) -> FrequencyList:
    """The list with so many items of at least each count."""
    bins = at_least.values - np.append(at_least.values[1:], 0)
    ends = np.cumsum(at_least.sizes)
    nonzero = np.flatnonzero(bins)[::-1]
    return FrequencyList(ends[nonzero], bins[nonzero])


def _of_ranks(ranks: _Runs) -> FrequencyList:
    """The list with these sorted counts, without those that are 0."""
    counts, runs = np.unique(ranks.values, return_inverse=True)
    multiplicities = np.bincount(runs, ranks.sizes, len(counts)).astype(np.int64)
    kept = np.flatnonzero((counts > 0) & (multiplicities > 0))[::-1]
    return FrequencyList(counts[kept], multiplicities[kept])


def _descending_l1(noisy: _Runs) -> _Runs:
    """A descending list of integers nearest in L1, and not below 0.

    By bisection of the values (Stout, "Isotonic regression via partitioning", 2013): in a segment
    whose fit lies between two bounds, those above the middle come first, and how many of them there
    are minimizes the number of values on the wrong side.

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
    """The descending list nearest in L2, rounded to integers and not below 0."""
    fitted = isotonic_regression(noisy.values, weights=noisy.sizes, increasing=False).x
    return _Runs(np.maximum(np.rint(fitted), 0).astype(np.int64), noisy.sizes)
