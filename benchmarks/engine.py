"""Time and memory of the integer-partition engine, and how they grow.

    python -m benchmarks.engine [--lists=DIR] [--repeats=3] [--output=benchmarks/results]

Times are CPU seconds of one thread, without imports, from a frequency list in memory to a released
one with nothing kept from earlier releases. Every list and epsilon of the first table has a process
of its own, whose peak memory is printed, imports included. What is compared takes turns in one
process. ``engine_lists`` makes the synthetic lists; --lists is a directory with linkedin.csv.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

# np.unique loads it when it is first called.
import numpy.ma  # noqa: F401

from benchmarks.engine_escalations import escalation_rows
from benchmarks.engine_lists import named_list, power_law, scaled
from benchmarks.harness import page_parser, write_page
from benchmarks.row_dynamic_program import (
    FloatRowProgram,
    distance_bounds,
    exponent,
    harmonic_bounds,
    usual_distance,
)
from dp_transforms.mechanisms import (
    Eta,
    FrequencyList,
    IntegerPartitionMechanism,
    PartitionTable,
    RandomTape,
    partition_mechanism,
)
from dp_transforms.mechanisms.partition.registry import AUTO, EXPONENTIAL, chosen_mechanism
from dp_transforms.sample_data import rockyou

Times = list[tuple[int, float]]

TASKS = [
    *(("rockyou", epsilon, 1, 0.15, 150) for epsilon in (8, 4, 2, 1, 0.5, 0.25, 0.1)),
    ("rockyou", 0.01, 1, 1, 500),
    ("rockyou", 0.002, 1, 4, 500),
    ("yahoo_all", 1, 1, 0.15, 150),
    ("yahoo_all", 0.01, 1, 1, 500),
    ("yahoo_all", 0.002, 1, 4, 500),
    ("linkedin", 1, 1, 0.25, 150),
    ("power law 2000000000 14000", 1, 1, 1, 200),
    ("power law 100000000000 100000", 1, 1, 10, 500),
    ("rockyou", 1, 100, 3, 500),
]
"""List, epsilon, releases in one call; limits in seconds and MiB."""

DEFAULT_TASKS = [
    *(("rockyou", epsilon) for epsilon in (8, 4, 2, 1.1, 1, 0.25, 0.1, 0.02, 0.002)),
    ("yahoo_all", 1.1),
    ("yahoo_all", 0.1),
    *(("power law 100000000000 100000", epsilon) for epsilon in (8, 1.1, 1)),
]
ENGINE_TOTALS = [10**k for k in range(3, 12)]
FLOAT_TOTALS = [10**k for k in range(3, 8)]
EXACT_TOTALS = [1_000, 3_000, 10_000]
ETA = Eta(1, 1, 1)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """CPU seconds, and the peak memory of the process."""

    seconds: float
    mebibytes: float


def cpu_seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def measure_here(
    name: str, epsilon: float, count: int, directory: str | None, mechanism: str = EXPONENTIAL
) -> Measurement:
    """The first release in this process."""
    private = named_list(name, pathlib.Path(directory) if directory else None)
    made = partition_mechanism(epsilon, mechanism=mechanism)
    seconds = cpu_seconds(lambda: made.release_many(private, count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Measurement(seconds, peak / (2**20 if sys.platform == "darwin" else 2**10))


def measure_once(
    name: str, epsilon: float, count: int, directory: str | None, mechanism: str = EXPONENTIAL
) -> Measurement:
    """The same in a new process."""
    task = json.dumps([name, epsilon, count, directory, mechanism])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.engine", "--measure", task],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def speed_rows(directory: str | None, repeats: int) -> Iterator[str]:
    yield "| list | N | frequencies | epsilon | releases | seconds | at most | MiB | at most |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, epsilon, count, most_seconds, most_memory in TASKS:
        try:
            private = named_list(name, pathlib.Path(directory) if directory else None)
        except ValueError:
            continue
        runs = [measure_once(name, epsilon, count, directory) for _ in range(repeats)]
        seconds = statistics.median(run.seconds for run in runs)
        memory = max(run.mebibytes for run in runs)
        title = "power law" if name.startswith("power law") else name
        yield (
            f"| {title} | {private.total:,} | {len(private):,} | {epsilon:g} | {count} | "
            f"{seconds:.2f} | {most_seconds:g} | {memory:.0f} | {most_memory} |"
        )


def default_rows(directory: str | None, repeats: int) -> Iterator[str]:
    """First releases by the default and the exponential mechanism, in turns, each in a process of
    its own. The default draws and decodes below ln 3."""
    yield "| list | epsilon | default | seconds | MiB | exponential, seconds | MiB |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: |"
    for name, epsilon in DEFAULT_TASKS:
        runs = [
            [measure_once(name, epsilon, 1, directory, kind) for kind in (AUTO, EXPONENTIAL)]
            for _ in range(repeats)
        ]
        cells = " | ".join(
            f"{statistics.median(run.seconds for run in side):.3f} | "
            f"{max(run.mebibytes for run in side):.0f}"
            for side in zip(*runs, strict=True)
        )
        yield f"| {name} | {epsilon:g} | {chosen_mechanism(epsilon)} | {cells} |"


def float_program(private: FrequencyList, epsilon: float) -> FrequencyList:
    """One list by the row dynamic program in floats, with distance bounds."""
    bounds = distance_bounds(private, usual_distance(private.total, epsilon))
    return FloatRowProgram.build(private, epsilon, *bounds).sample(RandomTape.from_os())


def exact_program(private: FrequencyList) -> FrequencyList:
    """One list by the row dynamic program in integers, with the bounds n / i."""
    upper = harmonic_bounds(private.total).tolist()
    return PartitionTable(private, ETA, upper).sample(RandomTape.from_os())


def compared(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int
) -> tuple[float, float, float]:
    """Median CPU seconds of each, and the median of their ratios (theirs by ours), in turns."""
    runs = [(cpu_seconds(ours), cpu_seconds(theirs)) for _ in range(repeats)]
    mine, its = (statistics.median(side) for side in zip(*runs, strict=True))
    return mine, its, statistics.median(b / a for a, b in runs)


def against_rows(directory: str | None, repeats: int) -> tuple[list[str], dict[str, Times]]:
    """Tables of the engine beside both row programs, and the times for the plot."""
    times: dict[str, Times] = {"floats": [], "exact": []}
    lines = ["| list | N | epsilon | this engine | row program, floats | ratio |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    cases = [("power law", growing_list(total), 1.0) for total in FLOAT_TOTALS]
    if directory:
        cases += [
            ("myspace", named_list("myspace", pathlib.Path(directory)), e) for e in (1.0, 0.1)
        ]
    for name, private, epsilon in cases:
        mechanism = IntegerPartitionMechanism(epsilon=epsilon)
        ours, theirs, ratio = compared(
            lambda m=mechanism, f=private: m.release(f),  # type: ignore[misc]
            lambda f=private, e=epsilon: float_program(f, e),  # type: ignore[misc]
            repeats,
        )
        if name == "power law":
            times["floats"].append((private.total, theirs))
        lines.append(
            f"| {name} | {private.total:,} | {epsilon:g} | {ours:.3f} s | {theirs:.3f} s "
            f"| {ratio:.1f} |"
        )
    lines += ["", "| list | N | eta | this engine | row program, integers | ratio |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    mechanism = IntegerPartitionMechanism(eta=ETA)
    for total in EXACT_TOTALS:
        private = growing_list(total)
        ours, theirs, ratio = compared(
            lambda f=private: mechanism.release(f),  # type: ignore[misc]
            lambda f=private: exact_program(f),  # type: ignore[misc]
            repeats,
        )
        times["exact"].append((total, theirs))
        lines.append(f"| power law | {total:,} | 1 | {ours:.4f} s | {theirs:.3f} s | {ratio:.0f} |")
    return lines, times


def growing_list(total: int) -> FrequencyList:
    """The power law with 0.315 sqrt(N) distinct frequencies, as in the first table."""
    return power_law(total, round(0.315 * total**0.5) - 2)


def engine_times(repeats: int) -> Times:
    mechanism = IntegerPartitionMechanism(epsilon=1)
    rows = []
    for total in ENGINE_TOTALS:
        private = growing_list(total)
        runs = [cpu_seconds(lambda f=private: mechanism.release(f)) for _ in range(repeats)]
        rows.append((total, statistics.median(runs)))
    return rows


def plot(path: pathlib.Path, times: dict[str, Times]) -> None:
    # Here, so that the memory of measured processes has nothing of it.
    from matplotlib.figure import Figure

    names = {
        "engine": ("o-", "this engine, exact"),
        "floats": ("s--", "row dynamic program, floats, cut at a distance"),
        "exact": ("^--", "row dynamic program, exact integers"),
    }
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.subplots()
    for key, (style, label) in names.items():
        power = exponent(times[key][-3:])
        axis.loglog(*zip(*times[key], strict=True), style, label=f"{label}: as N^{power:.2f}")
    axis.set(xlabel="users N", ylabel="CPU seconds for one release")
    axis.grid(alpha=0.3)
    axis.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=110)


def report(
    directory: str | None, repeats: int, releases: int, picture: pathlib.Path
) -> Iterator[str]:
    yield "# The integer-partition engine: time and memory"
    yield ""
    yield (
        f"{os.cpu_count()} cores, shared with other work; CPU seconds of one thread, medians of "
        f"{repeats}. Power laws are synthetic, see benchmarks/engine_lists.py. Memory is the peak "
        "of the process, imports included."
    )
    yield ""
    yield from speed_rows(directory, repeats)
    yield ""
    yield "## The default and the exponential mechanism"
    yield ""
    yield from default_rows(directory, repeats)
    yield ""
    yield "## Beside row dynamic programs"
    yield ""
    lines, times = against_rows(directory, repeats)
    yield from lines
    yield ""
    yield "## Growth with N"
    yield ""
    times["engine"] = engine_times(repeats)
    yield "The power law with 0.315 sqrt(N) distinct frequencies, epsilon = 1:"
    yield ""
    yield "| N | seconds |"
    yield "| ---: | ---: |"
    yield from (f"| {total:,} | {seconds:.4f} |" for total, seconds in times["engine"])
    yield ""
    powers = {name: exponent(rows[-3:]) for name, rows in times.items()}
    yield (
        f"Over each one's last three sizes the engine grows as N^{powers['engine']:.2f}, the row "
        f"program in floats as N^{powers['floats']:.2f} (up to N = {FLOAT_TOTALS[-1]:,}), in exact "
        f"integers as N^{powers['exact']:.2f} (up to N = {EXACT_TOTALS[-1]:,})."
    )
    yield ""
    yield f"![Time of one release by N]({picture.name})"
    plot(picture, times)
    yield ""
    mechanism, private = IntegerPartitionMechanism(epsilon=1), rockyou()
    long = scaled(private, 1000)
    base, other, ratio = compared(
        lambda: mechanism.release(private), lambda: mechanism.release(long), 4 * repeats + 3
    )
    yield (
        f"RockYou with every multiplicity times 1,000 takes {other:.3f} s, RockYou {base:.3f} s: "
        f"{ratio:.2f} times (median of {4 * repeats + 3} pairs)."
    )
    yield ""
    yield "## How often the precision is raised"
    yield ""
    yield from escalation_rows(releases)


def main() -> None:
    parser = page_parser("engine", __doc__)
    parser.add_argument("--lists", help="a directory with linkedin.csv and myspace.csv")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--releases", type=int, default=10_000, help="to count escalations in")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():
        # numpy reads these when it is imported.
        command = [sys.executable, "-m", "benchmarks.engine", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})
    if arguments.measure:
        print(json.dumps(dataclasses.asdict(measure_here(*arguments.measure))))
        return
    picture = arguments.output / "engine_growth.png"
    lines = report(arguments.lists, arguments.repeats, arguments.releases, picture)
    write_page(arguments.output / "engine.md", lines)


if __name__ == "__main__":
    main()
