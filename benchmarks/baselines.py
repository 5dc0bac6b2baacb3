"""Other ways to release a frequency list under pure epsilon-DP, for comparison.

They need public bounds on the number of items and on the largest count, and the integer-partition
mechanism does not. Their noise is two-sided geometric, the discrete Laplace of the same budget, and
their results are rounded to integers. Never use them for a release: their noise comes from numpy's
generator. ``python -m benchmarks.baseline_tables`` compares them.

Neighbours: add or remove all records of one user, who changes at most ``sensitivity`` counts by
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from dp_transforms.mechanisms import FrequencyList, PartitionBounds, partition_mechanism


@dataclass(frozen=True)
class PublicBounds:
    """What is public: a bound on the number of items, and one on every count."""

    items: int
    count: int


IntArray = npt.NDArray[np.int64]
Release = Callable[[FrequencyList, float, int, PublicBounds, np.random.Generator], FrequencyList]


def laplace_and_sort(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """Noise on every item's count, then sort: no use is made of the order.

    Items that do not occur have the count 0 and get noise too, up to the bound on items.
    """
    return _list_of(_noisy_ranks(private, epsilon / sensitivity, bounds.items, rng))


def hay_isotonic(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """Noise on the sorted counts, then the nearest sorted list in L2.

    Hay, Li, Miklau and Jensen, "Accurate estimation of the degree distribution of private networks"
    (ICDM 2009); Hay et al. (VLDB 2010).
    """
    noisy = _noisy_ranks(private, epsilon / sensitivity, bounds.items, rng)
    return _list_of(_nearest_descending(noisy))


def per_count_histogram(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """Noise on how many items have each count, up to the bound; bins that may be noise become 0.

    A user who changes a count by one takes an item from one bin to the next, so the sensitivity is
    twice that of the counts. A bin is kept if it is above 2 ln(bins) / decay, which hardly ever
    happens to an empty one; keeping all positive ones would add millions of items that do not
    exist.
    """
    decay = epsilon / (2 * sensitivity)
    bins = two_sided_geometric(decay, bounds.count, rng)
    bins[private.frequencies - 1] += private.multiplicities
    counts = np.flatnonzero(bins > 2 * np.log(bounds.count) / decay)[::-1]
    return FrequencyList(counts + 1, bins[counts])


def cumulative_histogram(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """Noise on how many items have at least each count, then the nearest sorted list in L2.

    The H_c method of Kuo et al., "Differentially private hierarchical count-of-counts histograms"
    (VLDB 2018), with L2 instead of L1 regression. A count that changes by one changes one of these
    numbers by one, so the sensitivity is that of the counts.
    """
    noisy = _noisy_at_least(private, epsilon / sensitivity, bounds, rng)
    return _of_at_least(_nearest_descending(noisy))


def cumulative_histogram_l1(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """The same with the nearest sorted list in L1, as Kuo et al. publish it."""
    at_least = _descending_l1(_noisy_at_least(private, epsilon / sensitivity, bounds, rng))
    return _of_at_least(at_least)


def integer_partition(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """This project's release; needs no bounds, and its randomness is its own."""
    return partition_mechanism(epsilon, sensitivity).release(private)


def bounded_integer_partition(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """The same over the lists that the public bounds allow."""
    walls = PartitionBounds.of_runs([0], [bounds.count], [bounds.items])
    return partition_mechanism(epsilon, sensitivity, bounds=walls).release(private)


OURS, OURS_BOUNDED = "integer partition", "integer partition, bounds public"
METHODS: dict[str, Release] = {
    OURS: integer_partition,
    OURS_BOUNDED: bounded_integer_partition,
    "cumulative histogram": cumulative_histogram,
    "cumulative histogram, L1": cumulative_histogram_l1,
    "Hay isotonic": hay_isotonic,
    "per-count histogram": per_count_histogram,
    "Laplace and sort": laplace_and_sort,
}


def two_sided_geometric(decay: float, size: int, rng: np.random.Generator) -> IntArray:
    """Integers k with probability proportional to e**(-decay |k|)."""
    p = -np.expm1(-decay)
    return rng.geometric(p, size) - rng.geometric(p, size)


def l2_distance(first: FrequencyList, second: FrequencyList) -> float:
    """The root of the sum over ranks of the squared difference."""
    ends = [np.cumsum(f.multiplicities) for f in (first, second)]
    cuts = np.union1d(*ends)
    here, there = (
        np.append(f.frequencies, 0)[np.searchsorted(end, cuts)]
        for f, end in zip((first, second), ends, strict=True)
    )
    widths = np.diff(cuts, prepend=0).astype(np.float64)
    return float(np.sqrt((widths * (here - there).astype(np.float64) ** 2).sum()))


@dataclass(frozen=True)
class _Runs:
    """A vector of integers: values, and how often each comes in a row."""

    values: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, dense: IntArray) -> _Runs:
        starts = np.flatnonzero(np.diff(dense, prepend=dense[0] - 1))
        return cls(dense[starts], np.diff(starts, append=len(dense)))

    def with_noise(self, decay: float, rng: np.random.Generator) -> _Runs:
        """Two-sided geometric noise on each number."""
        zero = np.tanh(decay / 2)
        size = int(self.sizes.sum())
        if zero < 0.9:
            dense = np.repeat(self.values, self.sizes)
            return _Runs.of(dense + two_sided_geometric(decay, size, rng))
        # Few numbers change: only these are drawn.
        places = np.sort(
            rng.choice(size, rng.binomial(size, 1 - zero), replace=False, shuffle=False)
        )
        firsts = np.cumsum(self.sizes) - self.sizes
        starts = np.unique(np.concatenate([firsts, places, places + 1]))
        starts = starts[starts < size]
        values = self.values[np.searchsorted(firsts, starts, "right") - 1]
        noise = rng.geometric(-np.expm1(-decay), len(places)) * rng.choice([-1, 1], len(places))
        values[np.searchsorted(starts, places)] += noise
        return _Runs(values, np.diff(starts, append=size))


def _noisy_at_least(
    private: FrequencyList, decay: float, bounds: PublicBounds, rng: np.random.Generator
) -> _Runs:
    """How many items have at least each count, with noise on each."""
    at_least = np.cumsum(private.multiplicities)[::-1]
    ends = private.frequencies[::-1]
    values, sizes = np.append(at_least, 0), np.diff(ends, prepend=0, append=bounds.count)
    return _Runs(values, sizes).with_noise(decay, rng)


def _of_at_least(at_least: _Runs) -> FrequencyList:
    """The list with so many items of at least each count."""
    bins = at_least.values - np.append(at_least.values[1:], 0)
    ends = np.cumsum(at_least.sizes)
    found = np.flatnonzero(bins)[::-1]
    return FrequencyList(ends[found], bins[found])


def _descending_l1(noisy: _Runs) -> _Runs:
    """A descending list of integers nearest in L1, and not below 0.

    By bisection of the values (Stout, "Isotonic regression via partitioning", 2013): in a segment
    whose fit lies between two bounds, those above the middle come first, and how many of them there
    are minimizes the number of values on the wrong side.

    >>> _descending_l1(_Runs.of(np.array([3, 9, 5, -1, -1, 2]))).values.tolist()
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


def _list_of(ranks: _Runs) -> FrequencyList:
    """The list with these sorted counts, without those that are 0."""
    found, runs = np.unique(ranks.values, return_inverse=True)
    multiplicities = np.bincount(runs, ranks.sizes).astype(np.int64)
    return FrequencyList(found[found > 0][::-1], multiplicities[found > 0][::-1])


def _noisy_ranks(
    private: FrequencyList, decay: float, items: int, rng: np.random.Generator
) -> _Runs:
    """The sorted counts, with noise on each."""
    values = np.append(private.frequencies, 0)
    sizes = np.append(private.multiplicities, items - private.distinct)
    return _Runs(values, sizes).with_noise(decay, rng)


def _nearest_descending(noisy: _Runs) -> _Runs:
    """The descending list nearest in L2, rounded to integers and not below 0.

    Equal neighbours stay equal in it: a block of the fit ends with a value not below the fit, and
    the next, lower one begins with one not above its own.
    """
    fitted = isotonic_regression(noisy.values, weights=noisy.sizes, increasing=False).x
    return _Runs(np.maximum(np.rint(fitted), 0).astype(np.int64), noisy.sizes)
