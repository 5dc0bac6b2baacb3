"""Computes how often the intervals of noisy counts hold, given that a partition is named.

    python -m benchmarks.count_intervals [--output=benchmarks/results]

writes count_intervals.md, by the exact distributions. Our interval is compared with one that
ignores the threshold: the noisy count plus and minus a number that noise exceeds in 5% of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gmpy2
import numpy as np

from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import table
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    NoisyCountStrategy,
    TruncatedGeometricSelection,
)

DELTA = 1e-5
STRATEGIES = (TruncatedGeometricSelection, LaplaceSelection, GaussianSelection)
CASES = ((1, 1), (1, 10), (0.25, 10), (4, 100))
"""(epsilon, kappa)."""
PLACES = (0, 0.25, 0.5, 0.75, 1, 1.25, 2)
"""Numbers of users of a partition in units of the threshold; at least one user is taken."""

Ends = Callable[[IntArray], tuple[IntArray, IntArray]]


def forgetful(strategy: NoisyCountStrategy) -> Ends:
    """Returns a function that gives intervals by the noise alone, without regard to the
    threshold."""

    def ends(noisy: IntArray) -> tuple[IntArray, IntArray]:
        _, high = strategy.count_intervals(noisy)
        return 2 * noisy - high, high

    return ends


def coverage(strategy: NoisyCountStrategy, ends: Ends, users: int) -> float:
    """Returns the exact probability that an interval holds ``users``, given that the partition is
    named."""
    distribution = strategy.distribution
    reach = int(strategy.count_intervals(np.array([10**9]))[1][0]) - 10**9
    first = max(distribution.threshold, users - 6 * reach)
    noisy = np.arange(first, max(distribution.threshold, users) + 6 * reach)
    masses = [gmpy2.mpq(distribution.noise.probability(y - users, 128)[0]) for y in noisy.tolist()]
    if first == distribution.threshold:
        masses[0] *= gmpy2.mpq(distribution.tie)
    total = sum(masses)
    shares = np.array([float(mass / total) for mass in masses])
    named = shares > 0
    low, high = ends(noisy[named])
    return float(shares[named][(low <= users) & (users <= high)].sum())


def exact_rows() -> Iterator[list[str]]:
    """Yields rows of coverage at some numbers of users, of our intervals and of the others."""
    for epsilon, max_partitions in CASES:
        for make in STRATEGIES:
            strategy = make(epsilon, DELTA, max_partitions)
            threshold = strategy.distribution.threshold
            places = [max(1, round(place * threshold)) for place in PLACES]
            both = [
                [coverage(strategy, ends, users) for users in places]
                for ends in (strategy.count_intervals, forgetful(strategy))
            ]
            cells = [f"{ours:.3f} / {plain:.3f}" for ours, plain in zip(*both, strict=True)]
            yield [strategy.name, f"{epsilon:g}", str(max_partitions), str(threshold), *cells]


def report() -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Intervals of noisy counts\n\n`python -m benchmarks.count_intervals` writes this.\n"
    yield (
        "The probability that a 95% interval holds a partition's number of users, given that the "
        f"partition is named, by the exact distributions; delta = {DELTA:g}. In each cell: the "
        "interval that is released / one that forgets the threshold. Columns are numbers of users: "
        "1, and these times the threshold. [On records](answers.md) these intervals are measured.\n"
    )
    columns = ["strategy", "epsilon", "kappa", "threshold", "1 user"]
    columns += [f"{place:g}" for place in PLACES[1:]]
    yield table(columns, list(exact_rows()))


def main() -> None:
    flags = page_parser("count_intervals", __doc__).parse_args()
    write_page(flags.output / "count_intervals.md", report())


if __name__ == "__main__":
    main()
