"""The costs of the job by its number of records: measured, fitted and extrapolated.

    python -m benchmarks.cost_model [--output=benchmarks/results]

CPU and memory come from the tables that ``benchmarks.throughput`` has written. Shuffled bytes are
counted here, where pieces of tables are packed, except for large data. The records are the same:
80,000 users per million records, string ids, partitions by a Zipf distribution, kappa = 10.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import pathlib
import re
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.harness import in_new_process, page_parser, write_page
from benchmarks.throughput import KAPPA, transforms
from benchmarks.throughput_data import MILLION, visits, write

TARGETS = (10**9, 10**10, 10**11, 10**12)
COUNTED = 20 * MILLION
"""The most records whose shuffled bytes are counted."""
CORE_HOUR = 0.05
"""The price in US dollars, about that of clouds for a core with 4 GiB."""
STAGES = ("user", "partition")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line fixed + slope * rows, fitted by least squares of the relative errors."""

    fixed: float
    slope: float
    worst: float
    """The largest relative error at a measured point."""

    @classmethod
    def fit(cls, rows: list[int], values: list[float]) -> Line:
        """Returns the line that fits values at numbers of rows best.

        >>> Line.fit([1, 2, 4], [3.0, 5.0, 9.0])
        Line(fixed=1.0, slope=2.0, worst=0.0)
        """
        weights = 1 / np.array(values)
        design = np.stack([np.ones(len(rows)), np.array(rows, float)], axis=1) * weights[:, None]
        (fixed, slope), *_ = np.linalg.lstsq(design, np.ones(len(rows)), rcond=None)
        errors = np.abs(design @ np.array([fixed, slope]) - 1)
        return cls(round(float(fixed), 12), round(float(slope), 12), round(float(errors.max()), 9))

    def __call__(self, rows: int) -> float:
        return self.fixed + self.slope * rows


def shuffled_here(path: str) -> dict[str, int]:
    """Returns the bytes that one run shuffles, by the column whose hash decides the bucket."""
    from dp_transforms.columnar import scattering

    logging.disable(logging.WARNING)
    pack, lock = scattering.pack, threading.Lock()
    counts: collections.Counter[str] = collections.Counter()

    def counting(table: pa.Table, compress: bool) -> bytes:
        piece = pack(table)  # compressed, as pieces between workers are
        with lock:
            counts["user" if "user" in table.column_names else "partition"] += len(piece)
        return piece

    scattering.pack = counting
    transforms(path, KAPPA)()
    return dict(counts)


def measured(table: str) -> dict[int, tuple[float, float]]:
    """Returns CPU seconds and GiB by millions of records, from the tables of ``throughput``.

    >>> measured("| 5M visits, parquet | 2.5 s | 2.3 s | 0.62 GiB | |")
    {5: (2.3, 0.62)}
    """
    row = re.compile(
        r"^\| (\d+)M visits, parquet \| [\d.]+ s \| ([\d.]+) s \| ([\d.]+) GiB \|", re.MULTILINE
    )
    costs = {int(n): (float(cpu), float(memory)) for n, cpu, memory in row.findall(table)}
    return dict(sorted(costs.items()))


def report(data: pathlib.Path, table: str) -> Iterator[str]:
    yield "# What the job costs by its number of records\n"
    yield (
        f"`python -m benchmarks.cost_model`: CPU of all threads and memory from "
        "[throughput](throughput.md), shuffled bytes "
        f"counted. String ids, {int(0.08 * MILLION):,} users per million records, kappa = {KAPPA}, "
        "one process. Memory includes what a job in process holds of the shuffles, which cluster "
        "runners have on disk.\n"
    )
    yield "| records | CPU | memory | shuffled by user | shuffled by partition |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    rows, values = [], collections.defaultdict(list)
    for n, (cpu, memory) in measured(table).items():
        rows.append(n * MILLION)
        values["CPU"].append(cpu)
        values["memory"].append(memory)
        cells = [f"{n} million", f"{cpu:.1f} s", f"{memory:.2f} GiB", "", ""]
        if n * MILLION <= COUNTED:
            pieces = in_new_process(
                shuffled_here, write(data / f"visits{n}.parquet", visits(n * MILLION))
            )
            for stage in STAGES:
                values[stage].append(pieces[stage] / 1e6)
            cells[3:] = [f"{pieces[stage] / 1e6:,.0f} MB" for stage in STAGES]
        yield f"| {' | '.join(cells)} |"
    yield "\nFitted, fixed + slope * records:\n"
    yield "| | fixed | for a million records | largest error of a measured point |"
    yield "| --- | ---: | ---: | ---: |"
    units: dict[str, Callable[[float], str]] = {
        "CPU": lambda value: f"{value:.2f} s",
        "memory": lambda value: f"{value * 1024:.0f} MiB",
        "user": lambda value: f"{value:.1f} MB",
    }
    lines = {name: Line.fit(rows[: len(values[name])], values[name]) for name in units}
    for name, unit in units.items():
        line = lines[name]
        title = f"shuffled by {name}" if name in STAGES else name
        slope = unit(line.slope * MILLION)
        yield f"| {title} | {unit(line.fixed)} | {slope} | {line.worst:.0%} |"
    yield ""
    yield (
        "What is shuffled by partition does not grow in proportion. It is less than what is "
        "shuffled by user, since a kept pair is counted in one piece at most.\n"
    )
    yield (
        "Extrapolated, without the fixed part, which each worker has once, and without what a "
        f"cluster's engine takes beside it; at {CORE_HOUR:.2f} US dollars for an hour of a core:\n"
    )
    yield "| records | CPU | shuffled by user | cost |"
    yield "| ---: | ---: | ---: | ---: |"
    for target in TARGETS:
        hours, user = lines["CPU"].slope * target / 3600, lines["user"].slope * target / 1e3
        cost = f"{hours * CORE_HOUR:,.2f} USD"
        yield f"| {target:,} | {hours:,.1f} core hours | {user:,.0f} GB | {cost} |"


def main() -> None:
    flags = page_parser("cost_model", __doc__, "data").parse_args()
    table = (flags.output / "throughput.md").read_text(encoding="utf-8")
    write_page(flags.output / "cost_model.md", report(flags.data, table))


if __name__ == "__main__":
    main()
