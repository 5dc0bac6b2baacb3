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

from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism


@dataclass(frozen=True)
class PublicBounds:
    """What is known without looking: at most so many items, no count above so much."""

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
    at_least = np.zeros(bounds.count + 1, dtype=np.int64)
    at_least[private.frequencies] = private.multiplicities
    at_least = np.cumsum(at_least[::-1])[::-1][1:]
    noisy = at_least + two_sided_geometric(epsilon / sensitivity, bounds.count, rng)
    at_least = _nearest_descending(noisy)
    bins = at_least - np.append(at_least[1:], 0)
    counts = np.flatnonzero(bins)[::-1]
    return FrequencyList(counts + 1, bins[counts])


def integer_partition(
    private: FrequencyList,
    epsilon: float,
    sensitivity: int,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """This project's mechanism; needs no bounds, and its randomness is its own."""
    return IntegerPartitionMechanism(epsilon=epsilon, sensitivity=sensitivity).release(private)


METHODS: dict[str, Release] = {
    "integer partition": integer_partition,
    "cumulative histogram": cumulative_histogram,
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
