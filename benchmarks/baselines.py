"""Peers: other ways to release a frequency list under pure epsilon-DP, most of them published.

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

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.noisy_runs import (
    Runs,
    descending_l1,
    descending_l2,
    middle_l1,
    two_sided_geometric,
)
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import FrobeniusCoordinates


@dataclass(frozen=True)
class PublicBounds:
    """Public numbers: a bound on the number of items, and a bound on every count."""

    items: int
    count: int


DECOYS = 10.0
"""The number of decoys of PrivHist on either side, in units of the noise's scale."""
SIDES = (0.7, 1, 1.4, 2)
"""Columns at which a list is cut, in sides of the largest square in its diagram."""

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
    return _of_at_least(descending_l1(_noisy_at_least(private, rate, bounds.count, rng)))


def cumulative_histogram_l2(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns the list nearest in L2 to the noisy numbers of ``cumulative_histogram_l1``."""
    return _of_at_least(descending_l2(_noisy_at_least(private, rate, bounds.count, rng)))


def sorted_counts(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns the sorted list nearest in L1 to the sorted counts with noise.

    This is the method of Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially
    private histograms through consistency" (VLDB 2010). Their list is the nearest one in L2, which
    errs more. Items that do not occur have the count 0.
    """
    values = np.append(private.frequencies, 0)
    sizes = np.append(private.multiplicities, bounds.items - private.distinct)
    return _of_ranks(descending_l1(Runs(values, sizes).with_noise(rate, rng)))


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
    ranks = middle_l1(large.with_noise(rate, rng))
    top = _of_ranks(Runs(np.maximum(ranks.values, threshold + 1), ranks.sizes))
    bottom = _of_at_least(middle_l1(_noisy_at_least(small, rate, threshold, rng)))
    frequencies = np.append(top.frequencies, bottom.frequencies)
    number = np.append(top.multiplicities, bottom.multiplicities)
    nearest = np.argsort(np.abs(frequencies - threshold), kind="stable")
    before = np.cumsum(number[nearest]) - number[nearest]
    number[nearest] -= np.clip(2 * decoys - before, 0, number[nearest])
    return FrequencyList(frequencies[number > 0], number[number > 0])


def _sides(
    private: FrequencyList, threshold: int, decoys: int, across: int
) -> tuple[Runs, FrequencyList]:
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
    ranks = Runs(np.maximum(values, threshold + 1)[large > 0], large[large > 0])
    return ranks, _of_ranks(Runs(np.minimum(values, threshold), sizes - large))


def column_cut(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator, column: int
) -> FrequencyList:
    """Returns the list of two noisy parts, on either side of a public column of the diagram.

    The part up to the column consists of the numbers of items with at least j users, for each j up
    to ``column``. The part above it consists of the sorted counts, less ``column``, where they are
    larger. Each part becomes its nearest descending vector in L1. Above the column there are as
    many items as the first part has in that column, at most.

    If a count changes by one, the diagram changes by one cell, after sorting. A public column has
    each cell on the same side for all lists. So one number of one part changes by one.
    """
    up_to, above = _parts(private, bounds, column)
    at_least = middle_l1(_noisy_at_least(up_to, rate, column, rng))
    ranks = middle_l1(above.with_noise(rate, rng))
    below = _of_at_least(at_least)
    items = int(below.at_least(np.array([column]))[0])
    sizes = np.clip(items - (np.cumsum(ranks.sizes) - ranks.sizes), 0, ranks.sizes)
    short = below.frequencies < column
    return _of_ranks(
        Runs(
            np.concatenate([column + ranks.values, below.frequencies[short], [column]]),
            np.concatenate([sizes, below.multiplicities[short], [items - sizes.sum()]]),
        )
    )


def _parts(private: FrequencyList, bounds: PublicBounds, column: int) -> tuple[FrequencyList, Runs]:
    """Returns a list with larger counts lowered to ``column``, and how much they were lowered by,
    for as many items as there may be."""
    frequencies, multiplicities = private.frequencies, private.multiplicities
    up_to = _of_ranks(Runs(np.minimum(frequencies, column), multiplicities))
    above = frequencies > column
    zeros = bounds.items - int(multiplicities[above].sum())
    lowered = np.append(frequencies[above] - column, 0)
    return up_to, Runs(lowered, np.append(multiplicities[above], zeros))


def cut_at_best_column(
    sides: float,
    private: FrequencyList,
    rate: float,
    bounds: PublicBounds,
    rng: np.random.Generator,
) -> FrequencyList:
    """Returns ``column_cut`` at a column of so many sides of the largest square in the private
    diagram.

    The peer is told this square, and which of ``SIDES`` errs least on the private list. A release
    would have to pay for both.
    """
    column = max(round(sides * FrobeniusCoordinates(private).square), 1)
    return column_cut(private, rate, bounds, rng, column)


def cut_by_users(
    private: FrequencyList, rate: float, bounds: PublicBounds, rng: np.random.Generator
) -> FrequencyList:
    """Returns ``column_cut`` at a quarter of the square root of N, which it is told.

    The largest square of a diagram has a side of sqrt(N) at most. The quarter suits the lists of
    the benchmarks, which favours this peer.
    """
    return column_cut(private, rate, bounds, rng, max(math.isqrt(private.total) // 4, 1))


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
    return _of_at_least(Runs(at_least, np.ones_like(at_least)))


BEST_CUT = "cut at the best column"

PEERS: dict[str, tuple[Release, ...]] = {
    "cumulative histogram, L1": (cumulative_histogram_l1,),
    "cumulative histogram, L2": (cumulative_histogram_l2,),
    "sorted counts": (sorted_counts,),
    "PrivHist": (priv_hist,),
    BEST_CUT: tuple(functools.partial(cut_at_best_column, sides) for sides in SIDES),
    "cut by N": (cut_by_users,),
    "cyclic Laplace": (cyclic_laplace,),
}
"""The releases of each peer. If there are several, the one that errs least on a list counts."""


def _noisy_at_least(
    private: FrequencyList, rate: float, largest: int, rng: np.random.Generator
) -> Runs:
    """Returns the number of items with at least each count up to ``largest``, with noise."""
    at_least = np.cumsum(private.multiplicities)[::-1]
    ends = private.frequencies[::-1]
    values, sizes = np.append(at_least, 0), np.diff(ends, prepend=0, append=largest)
    return Runs(values, sizes).with_noise(rate, rng)


def _of_at_least(at_least: Runs) -> FrequencyList:
    """Returns the list that has these numbers of items with at least each count."""
    bins = at_least.values - np.append(at_least.values[1:], 0)
    ends = np.cumsum(at_least.sizes)
    nonzero = np.flatnonzero(bins)[::-1]
    return FrequencyList(ends[nonzero], bins[nonzero])


def _of_ranks(ranks: Runs) -> FrequencyList:
    """Returns the list of these counts, without counts of 0."""
    # Equal neighbours are joined first: of millions of sorted counts few are left to be sorted.
    starts = np.flatnonzero(np.diff(ranks.values, prepend=ranks.values[:1] - 1))
    sizes = np.add.reduceat(ranks.sizes, starts) if len(starts) else ranks.sizes
    counts, runs = np.unique(ranks.values[starts], return_inverse=True)
    multiplicities = np.bincount(runs, sizes, len(counts)).astype(np.int64)
    kept = np.flatnonzero((counts > 0) & (multiplicities > 0))[::-1]
    return FrequencyList(counts[kept], multiplicities[kept])
