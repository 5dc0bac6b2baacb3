"""Time and memory of one release, and how they grow.

    python -m benchmarks.engine [--repeats=3] [--releases=1000] [--output=benchmarks/results]

Times are CPU seconds of one thread, without imports, from a frequency list in memory to a released
list. Nothing is kept from earlier releases. For the first table, each list and epsilon has a
process of its own, whose peak memory is shown, with imports. ``engine_lists`` makes the synthetic
lists.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

# np.unique would import numpy.ma when it is first called.
import numpy as np
import numpy.ma

from benchmarks.engine_escalations import escalation_rows
from benchmarks.engine_lists import named_list, power_law, scaled
from benchmarks.harness import (
    cpu_seconds,
    in_new_process,
    page_parser,
    peak_gibibytes,
    write_page,
)
from dp_transforms.mechanisms import (
    Eta,
    FrequencyList,
    IntegerPartitionMechanism,
    RandomTape,
    partition_mechanism,
)
from dp_transforms.mechanisms.partition.registry import AUTO, EXPONENTIAL, chosen_mechanism
from dp_transforms.mechanisms.partition.table import PartitionTable
from dp_transforms.sample_data import rockyou

Times = list[tuple[int, float]]

LARGE = "power law 100000000000 100000"
"""The exponential mechanism takes minutes for it, and is not measured."""
DEFAULT_TASKS = [
    *(("rockyou", epsilon) for epsilon in (8, 4, 2, 1.1, 1, 0.25, 0.1, 0.02, 0.002)),
    ("yahoo_all", 1.1),
    ("yahoo_all", 0.1),
    *((LARGE, epsilon) for epsilon in (8, 1.1, 1)),
]
ENGINE_TOTALS = [10**k for k in range(3, 10)]
PUBLISHED_SECONDS = {1_000: 0.13, 3_000: 1.9, 10_000: 88.0}
"""Approximate seconds by N of the published exact implementation in Rust, with MPFR floats."""
ETA = Eta(1, 1, 1)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Measurement(NamedTuple):
    """CPU seconds, and the peak memory of the process."""

    seconds: float
    mebibytes: float


def measure_here(name: str, epsilon: float, mechanism: str) -> Measurement:
    """Returns the cost of the first release in this process."""
    private, made = named_list(name), partition_mechanism(epsilon, mechanism=mechanism)
    return Measurement(cpu_seconds(lambda: made.release(private)), 1024 * peak_gibibytes())


def default_rows(repeats: int) -> Iterator[str]:
    """Yields rows on first releases by the default and the exponential mechanism, in turns, each in
    a process of its own. Below ln 3, the default draws noisy coordinates and decodes them."""
    yield "| list | epsilon | default | seconds | MiB | exponential, seconds | MiB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for name, epsilon in DEFAULT_TASKS:
        kinds = (AUTO, EXPONENTIAL)[: 1 if name == LARGE else 2]
        runs = [
            [Measurement(*in_new_process(measure_here, name, epsilon, kind)) for kind in kinds]
            for _ in range(repeats)
        ]
        cells = " | ".join(
            f"{statistics.median(run.seconds for run in side):.3f} | "
            f"{max(run.mebibytes for run in side):.0f}"
            for side in zip(*runs, strict=True)
        )
        cells += " | |" * (name == LARGE)
        yield f"| {name} | {epsilon:g} | {chosen_mechanism(epsilon)} | {cells} |"


def table_rows() -> Iterator[str]:
    """Yields rows on the exact table over ranks and values (Ilvento), which is built and sampled
    once, with the public bounds n / i. The number of its cells grows with N, and so do their bits.
    """
    yield "| N | this library's table | published implementation |"
    yield "| ---: | ---: | ---: |"
    for total, published in PUBLISHED_SECONDS.items():
        private, upper = growing_list(total), (total // np.arange(1, total + 1)).tolist()
        seconds = cpu_seconds(
            lambda f=private, u=upper: PartitionTable(f, ETA, u).sample(RandomTape.from_os())
        )
        yield f"| {total:,} | {seconds:.2f} s | {published} s |"


def growing_list(total: int) -> FrequencyList:
    """Returns the power law with 0.315 sqrt(N) distinct frequencies, as in the first table."""
    return power_law(total, round(0.315 * total**0.5) - 2)


def engine_times(repeats: int) -> Times:
    mechanism = IntegerPartitionMechanism(epsilon=1)
    rows = []
    for total in ENGINE_TOTALS:
        private = growing_list(total)
        runs = [cpu_seconds(lambda f=private: mechanism.release(f)) for _ in range(repeats)]
        rows.append((total, statistics.median(runs)))
    return rows


def exponent(rows: Times) -> float:
    """Returns the slope of log(seconds) over log(N)."""
    return float(np.polyfit(*np.log(rows).T, 1)[0])


def report(repeats: int, releases: int) -> Iterator[str]:
    yield "# One release: time and memory, and growth with N\n"
    yield (
        f"CPU seconds of one thread, medians of {repeats}. Power laws are synthetic, see "
        "benchmarks/engine_lists.py. Memory is the peak of the process, imports included."
    )
    yield "\n## The default and the exponential mechanism\n"
    yield from default_rows(repeats)
    yield "\n## The exact table between public bounds\n"
    yield "Base 2, eta = 1; the published times are of another machine and other lists.\n"
    yield from table_rows()
    yield "\n## The exponential mechanism's growth with N\n"
    times = engine_times(repeats)
    yield "The power law with 0.315 sqrt(N) distinct frequencies, epsilon = 1:\n"
    yield "| N | seconds |"
    yield "| ---: | ---: |"
    yield from (f"| {total:,} | {seconds:.4f} |" for total, seconds in times)
    yield f"\nOver the last three sizes it grows as N^{exponent(times[-3:]):.2f}.\n"
    mechanism, lists = IntegerPartitionMechanism(epsilon=1), (rockyou(), scaled(rockyou(), 1000))
    pairs = 4 * repeats + 3
    runs = [[cpu_seconds(lambda f=f: mechanism.release(f)) for f in lists] for _ in range(pairs)]
    base, other = (statistics.median(side) for side in zip(*runs, strict=True))
    yield (
        f"RockYou with every multiplicity times 1,000 takes {other:.3f} s, RockYou {base:.3f} s: "
        f"medians of {pairs}, in turns."
    )
    yield "\n## How often the precision is raised\n"
    yield from escalation_rows(releases)


def main() -> None:
    parser = page_parser("engine", __doc__, "repeats")
    parser.add_argument("--releases", type=int, default=1_000, help="to count escalations in")
    arguments = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():
        # numpy reads these when it is imported.
        command = [sys.executable, "-m", "benchmarks.engine", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    lines = report(arguments.repeats, arguments.releases)
    write_page(arguments.output / "engine.md", lines)


if __name__ == "__main__":
    main()
