"""Names with noisy counts from the same counts: this library beside OpenDP's thresholded counts.

    python -m benchmarks.thresholded_counts [--peers_python=peers/bin/python] [--runs=5]
        [--output=benchmarks/results]

Both get the counts of users whose partitions were bounded to kappa, and spend epsilon = 1 and delta
= 1e-5. Times are from counts in memory to names and noisy counts in memory, best of the runs.
OpenDP is measured if there is a Python that has it (see ``thresholded_counts_peer``).
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from benchmarks.harness import page_parser, write_page
from benchmarks.partition_selection import datasets, table
from benchmarks.thresholded_counts_peer import SINGLE_KEYS, SINGLE_THRESHOLD
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION
from dp_transforms.columnar.counting import count_pairs, sum_counts
from dp_transforms.mechanisms.selection import CountStrategy, make_strategy
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.selecting import select_from_counts

EPSILON, DELTA = 1, 1e-5
STRATEGIES = ("truncated_geometric", "laplace", "gaussian")
PEER = pathlib.Path(__file__).with_name("thresholded_counts_peer.py")


def main() -> None:
    parser = page_parser("thresholded_counts", __doc__)
    parser.add_argument("--peers_python", metavar="PYTHON", help="a Python that has opendp")
    parser.add_argument("--runs", type=int, default=5)
    flags = parser.parse_args()
    write_page(flags.output / "thresholded_counts.md", report(flags.runs, flags.peers_python))


def report(runs: int, peers_python: str | None) -> Iterator[str]:
    """The lines of the page."""
    columns = ["records", "kappa", *STRATEGIES]
    found = list(rows(runs, peers_python))
    version = next((row["peer"]["version"] for row in found if row["peer"]), None)
    if version:
        columns += [f"OpenDP {version}, Laplace", "OpenDP's time to that of laplace here"]
    yield "# Names with noisy counts\n"
    yield f"Partitions released with noisy counts at epsilon = {EPSILON}, delta = {DELTA:g}: "
    yield f"mean of {runs} runs, and the time of one from counts in memory. More is better.\n"
    lines = []
    for row in found:
        cells = [row["records"], str(row["kappa"])]
        cells += [f"{released:,.0f}, {1000 * seconds:.1f} ms" for released, seconds in row["ours"]]
        if row["peer"]:
            peer, seconds = row["peer"], row["ours"][STRATEGIES.index("laplace")][1]
            cells.append(f"{peer['released']:,.0f}, {1000 * peer['seconds']:.1f} ms")
            cells.append(f"{peer['seconds'] / seconds:.2f}")
        lines.append(cells)
    yield table(columns, lines)
    if version:
        single = found[0]["peer"]["single"]
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
    """One measurement for each set of records and kappa."""
    for name, (records, kappas) in datasets().items():
        for max_partitions in (kappas[0], kappas[-1]) if len(kappas) > 1 else kappas:
            secrets = [JobSecret.from_os() for _ in range(runs)]
            counted = [counts_of(records, max_partitions, secret) for secret in secrets]
            ours = [measured(strategy, max_partitions, counted, secrets) for strategy in STRATEGIES]
            peer = ask(peers_python, max_partitions, counted) if peers_python else None
            yield {"records": name, "kappa": max_partitions, "ours": ours, "peer": peer}


def counts_of(records: pa.Table, max_partitions: int, secret: JobSecret) -> pa.Table:
    """Users of each partition, after bounding."""
    key = secret.key("bound contributions")
    return sum_counts(count_pairs(distinct_pairs(records, at_most=max_partitions, key=key)))


def measured(
    name: str, max_partitions: int, counted: list[pa.Table], secrets: list[JobSecret]
) -> tuple[float, float]:
    """(mean of how many partitions a strategy releases, best time of a release)."""
    strategy = make_strategy(name, EPSILON, DELTA, True, max_partitions_per_user=max_partitions)
    assert isinstance(strategy, CountStrategy)
    released, seconds = [], []
    for counts, secret in zip(counted, secrets, strict=True):
        start = time.perf_counter()
        released.append(select_from_counts(counts, strategy, secret.key("names"), True).num_rows)
        seconds.append(time.perf_counter() - start)
    return sum(released) / len(released), min(seconds)


def ask(peers_python: str, max_partitions: int, counted: list[pa.Table]) -> dict[str, Any]:
    """Returns OpenDP's results on the same counts."""
    task = {
        "max_partitions": max_partitions,
        "epsilon": EPSILON,
        "delta": DELTA,
        "runs": [
            dict(
                zip(map(str, counts[PARTITION].to_pylist()), counts[COUNT].to_pylist(), strict=True)
            )
            for counts in counted
        ],
    }
    result = subprocess.run(
        [peers_python, str(PEER)],
        input=json.dumps(task),
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise RuntimeError(f"OpenDP failed:\n{result.stderr}")
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


if __name__ == "__main__":
    main()
