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

from dp_transforms.mechanisms import FrequencyList, partition_mechanism


@dataclass(frozen=True)
class PublicBounds:
    """What is public: a bound on the number of items, and one on every count."""

    items: int
    count: int


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
    noisy = _noisy_ranks(private, epsilon / sensitivity, bounds.items, rng)
    return FrequencyList.from_counts(noisy[noisy > 0])


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
    counts = _nearest_descending(noisy)
    return FrequencyList.from_counts(counts[counts > 0])


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


METHODS: dict[str, Release] = {
    "integer partition": integer_partition,
    "cumulative histogram": cumulative_histogram,
    "cumulative histogram, L1": cumulative_histogram_l1,
    "Hay isotonic": hay_isotonic,
    "per-count histogram": per_count_histogram,
    "Laplace and sort": laplace_and_sort,
}


def two_sided_geometric(decay: float, size: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
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


def _noisy_at_least(
    private: FrequencyList, decay: float, bounds: PublicBounds, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """How many items have at least each count, with noise on each."""
    at_least = np.zeros(bounds.count + 1, dtype=np.int64)
    at_least[private.frequencies] = private.multiplicities
    at_least = np.cumsum(at_least[::-1])[::-1][1:]
    return at_least + two_sided_geometric(decay, bounds.count, rng)


def _of_at_least(at_least: npt.NDArray[np.int64]) -> FrequencyList:
    """The list with so many items of at least each count."""
    bins = at_least - np.append(at_least[1:], 0)
    counts = np.flatnonzero(bins)[::-1]
    return FrequencyList(counts + 1, bins[counts])


def _descending_l1(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A descending list of integers nearest in L1, and not below 0.

    By bisection of the values (Stout, "Isotonic regression via partitioning", 2013): in a segment
    whose fit lies between two bounds, those above the middle come first, and how many of them there
    are minimizes the number of values on the wrong side.

    >>> _descending_l1(np.array([3, 9, 5, -1, -1, 2])).tolist()
    [5, 5, 5, 0, 0, 0]
    """
    values = np.maximum(values, 0)
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
        gains = np.cumsum(np.where(part > middle, 1, -1))
        cut = int(np.argmax(gains)) + 1
        cut = start + (cut if gains[cut - 1] > 0 else 0)
        segments += [(start, cut, middle + 1, high), (cut, end, low, middle)]
    return fitted


def _noisy_ranks(
    private: FrequencyList, decay: float, items: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The sorted counts, with noise on each."""
    noisy = two_sided_geometric(decay, items, rng)
    noisy[: private.distinct] += np.repeat(private.frequencies, private.multiplicities)
    return noisy


def _nearest_descending(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The descending list nearest in L2, rounded to integers and not below 0."""
    fitted = isotonic_regression(values.astype(np.float64), increasing=False).x
    return np.maximum(np.rint(fitted), 0).astype(np.int64)
