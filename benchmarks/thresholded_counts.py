"""Compares names with noisy counts, of this library and of OpenDP, from the same counts.

    python -m benchmarks.thresholded_counts [--peers_python=peers/bin/python] [--runs=5]
        [--output=benchmarks/results]

Both get counts of users after bounding to kappa partitions, and spend epsilon = 1 and delta = 1e-5.
Times are those from counts in memory to names and noisy counts in memory, the best of the runs.
OpenDP is measured if there is a Python that has it (see ``partition_selection_peers``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import ask_peers, bounded_counts, datasets, table
from benchmarks.partition_selection_peers import SINGLE_KEYS, SINGLE_THRESHOLD
from dp_transforms.columnar.columns import COUNT, PARTITION
from dp_transforms.columnar.counting import sum_counts
from dp_transforms.engines.selection_kernels import select_from_counts
from dp_transforms.mechanisms.selection import CountStrategy, make_strategy
from dp_transforms.runtime.job_secret import JobSecret

EPSILON, DELTA = 1, 1e-5
STRATEGIES = ("truncated_geometric", "laplace", "gaussian")


def main() -> None:
    parser = page_parser("thresholded_counts", __doc__, "peers_python")
    parser.add_argument("--runs", type=int, default=5)
    flags = parser.parse_args()
    write_page(flags.output / "thresholded_counts.md", report(flags.runs, flags.peers_python))


def report(runs: int, peers_python: str | None) -> Iterator[str]:
    """Yields the lines of the page."""
    columns = ["records", "kappa", *STRATEGIES]
    results = list(rows(runs, peers_python))
    version = next((row["peer"]["version"] for row in results if row["peer"]), None)
    if version:
        columns += [f"OpenDP {version}, Laplace", "OpenDP's time to that of laplace here"]
    yield "# Names with noisy counts\n"
    yield f"Partitions released with noisy counts at epsilon = {EPSILON}, delta = {DELTA:g}: "
    yield f"mean of {runs} runs, and the time of one from counts in memory. More is better.\n"
    lines = []
    for row in results:
        cells = [row["records"], str(row["kappa"])]
        cells += [f"{released:,.0f}, {1000 * seconds:.1f} ms" for released, seconds in row["ours"]]
        if row["peer"]:
            peer, seconds = row["peer"], row["ours"][STRATEGIES.index("laplace")][1]
            cells.append(f"{peer['released']:,.0f}, {1000 * peer['seconds']:.1f} ms")
            cells.append(f"{peer['seconds'] / seconds:.2f}")
        lines.append(cells)
    yield table(columns, lines)
    if version:
        single = results[0]["peer"]["single"]
        yield (
            f"A key that one user alone has was released by OpenDP in {single['measured']:.2%} of "
            f"{SINGLE_KEYS:,} trials at threshold {SINGLE_THRESHOLD} and scale 1; its privacy map "
            f"says delta = {single['allowed']:.2%}."
        )
        if single["measured"] > 1.5 * single["allowed"]:
            yield (
                "It keeps a count that equals its threshold, and accounts for those above it "
                "(opendp issue 2922). What it releases more at kappa = 1 is not to be had at this "
                "delta."
            )
        yield ""


def rows(runs: int, peers_python: str | None) -> Iterator[dict[str, Any]]:
    """Yields a measurement for each set of records and kappa."""
    for name, (records, kappas) in datasets().items():
        for max_partitions in (kappas[0], kappas[-1]) if len(kappas) > 1 else kappas:
            secrets = [JobSecret.from_os() for _ in range(runs)]
            bounded = (bounded_counts(records, max_partitions, secret) for secret in secrets)
            counted = [sum_counts(counts) for counts in bounded]
            ours = [measured(strategy, max_partitions, counted, secrets) for strategy in STRATEGIES]
            counts = [
                {str(row[PARTITION]): row[COUNT] for row in totals.to_pylist()}
                for totals in counted
            ]
            parameters = {"epsilon": EPSILON, "delta": DELTA, "max_partitions": max_partitions}
            peer = ask_peers(peers_python, "count", **parameters, runs=counts)
            yield {"records": name, "kappa": max_partitions, "ours": ours, "peer": peer}


def measured(
    name: str, max_partitions: int, counted: list[pa.Table], secrets: list[JobSecret]
) -> tuple[float, float]:
    """Returns the mean number of partitions that a strategy releases, and its best time."""
    strategy = make_strategy(name, EPSILON, DELTA, True, max_partitions_per_user=max_partitions)
    assert isinstance(strategy, CountStrategy)
    released, seconds = [], []
    for counts, secret in zip(counted, secrets, strict=True):
        start = time.perf_counter()
        released.append(select_from_counts(counts, strategy, secret.key("names"), True).num_rows)
        seconds.append(time.perf_counter() - start)
    return sum(released) / len(released), min(seconds)


if __name__ == "__main__":
    main()
