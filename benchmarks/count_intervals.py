"""Measures how often the intervals of noisy counts hold, given that a partition is named.

    python -m benchmarks.count_intervals [--runs=20] [--output=benchmarks/results]

writes count_intervals.md: coverage by the exact distributions, and on records. Beside it the
interval that
forgets the threshold: the noisy count, plus and minus what noise exceeds in 5% of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gmpy2
import numpy as np
import pyarrow as pa

from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import table, zipf_records
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, HIGH, LOW, NOISY_COUNT, PARTITION
from dp_transforms.columnar.counting import count_pairs
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    NoisyCountStrategy,
    TruncatedGeometricSelection,
)
from dp_transforms.runtime.selecting import select_from_counts

DELTA = 1e-5
STRATEGIES = (TruncatedGeometricSelection, LaplaceSelection, GaussianSelection)
CASES = ((1, 1), (1, 10), (0.25, 10), (4, 100))
"""(epsilon, kappa)."""
PLACES = (0, 0.25, 0.5, 0.75, 1, 1.25, 2)
"""Users of a partition, at least one, in units of the threshold."""

Ends = Callable[[IntArray], tuple[IntArray, IntArray]]


def forgetful(strategy: NoisyCountStrategy) -> Ends:
    """Intervals of the noise alone."""

    def ends(noisy: IntArray) -> tuple[IntArray, IntArray]:
        _, high = strategy.count_intervals(noisy)
        return 2 * noisy - high, high

    return ends


def coverage(strategy: NoisyCountStrategy, ends: Ends, users: int) -> float:
    """The exact probability that an interval holds a number of users whose partition is named."""
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
    """Coverage at some numbers of users, ours and what forgets the threshold."""
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


def measured_rows(runs: int) -> Iterator[list[str]]:
    """The shares of intervals that hold in releases of a Zipf universe."""
    records = zipf_records(100_000, 10, np.random.default_rng(1))
    pairs = distinct_pairs(records)
    for max_partitions in (1, 10):
        for make in STRATEGIES:
            strategy = make(1, DELTA, max_partitions)
            held: list[list[bool]] = [[], []]
            near: list[list[bool]] = [[], []]
            for _ in range(runs):
                ours, plain, is_near = holds(strategy, pairs, JobSecret.from_os())
                for kind, found in enumerate((ours, plain)):
                    held[kind] += found.tolist()
                    near[kind] += found[is_near].tolist()
            shares = [f"{np.mean(found):.3f}" for found in (*held, *near)]
            names = f"{len(held[0]) / runs:,.0f}"
            yield [
                strategy.name,
                str(max_partitions),
                names,
                f"{len(near[0]) / runs:,.0f}",
                *shares,
            ]


def holds(
    strategy: NoisyCountStrategy, pairs: pa.Table, secret: JobSecret
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tells of each named partition whether either interval holds, and whether its true number of
    users is below the threshold."""
    key = secret.key("bound contributions")
    max_partitions = strategy.max_partitions_per_user
    counts = count_pairs(distinct_pairs(pairs, at_most=max_partitions, key=key))
    true = dict(zip(counts[PARTITION].to_pylist(), counts[COUNT].to_pylist(), strict=True))
    found = select_from_counts(counts, strategy, secret.key("selection"), True, intervals=True)
    users = np.array([true[name] for name in found[PARTITION].to_pylist()])
    low, high = (found[name].to_numpy() for name in (LOW, HIGH))
    ours = (low <= users) & (users <= high)
    low, high = forgetful(strategy)(found[NOISY_COUNT].to_numpy())
    return ours, (low <= users) & (users <= high), users < strategy.distribution.threshold


def report(runs: int) -> Iterator[str]:
    """The lines of the page."""
    yield "# Intervals of noisy counts\n\n`python -m benchmarks.count_intervals` writes this.\n"
    yield (
        "The probability that a 95% interval holds a partition's number of users, given that the "
        f"partition is named; delta = {DELTA:g}. In each cell: the interval that is released / one "
        "that forgets the threshold.\n\n## By the exact distributions\n\nColumns are numbers of "
        "users: 1, and these times the threshold.\n"
    )
    columns = ["strategy", "epsilon", "kappa", "threshold", "1 user"]
    columns += [f"{place:g}" for place in PLACES[1:]]
    yield table(columns, list(exact_rows()))
    yield (
        f"## On records\n\n100,000 users of ten draws each from a Zipf universe, epsilon = 1, "
        f"{runs} releases: the shares of names whose interval holds, of all and of those with "
        "fewer users than the threshold.\n"
    )
    columns = ["strategy", "kappa", "names", "below"]
    columns += ["held", "forgetful", "held, below", "forgetful, below"]
    yield table(columns, list(measured_rows(runs)))


def main() -> None:
    parser = page_parser("count_intervals", __doc__)
    parser.add_argument("--runs", type=int, default=20)
    flags = parser.parse_args()
    write_page(flags.output / "count_intervals.md", report(flags.runs))


if __name__ == "__main__":
    main()
