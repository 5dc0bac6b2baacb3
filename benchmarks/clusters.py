"""Times a job on a Flink cluster of this machine, beside the same job in process, in turns.

    python -m benchmarks.clusters [--repeats=3] [--data=DIR] [--output=benchmarks/results]

Starts the cluster of ``make flink-up``, unless it runs already, and ends it; needs Java and Maven,
as that does. Times are those of whole commands, from their start to the last file; the first job of
a cluster, in which Java loads its classes, is told by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.harness import page_parser, write_page
from benchmarks.throughput import KAPPA
from benchmarks.throughput_data import MILLION, SHAPES, write
from runner_configs.flink import cluster
from runner_configs.parts import Unavailable

SMALLEST = 2_000
LARGE = 20 * MILLION
SESSION = pathlib.Path(cluster.__file__).with_name("session.yaml")


def seconds(path: str, *options: str) -> float:
    """The time of a release of a file's list, by a command of its own."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pipelines.release_frequency_list", *options]
        command += [f"--input={path}", "--user_column=user", "--partition_column=partition"]
        command += ["--epsilon=1", f"--max_partitions_per_user={KAPPA}"]
        begun = time.perf_counter()
        done = subprocess.run([*command, f"--output={directory}/released"], capture_output=True)
        taken = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return taken


@contextlib.contextmanager
def flink() -> Iterator[None]:
    cluster.up()
    try:
        yield
    finally:
        cluster.down()


def rows(data: pathlib.Path, repeats: int) -> Iterator[str]:
    """Medians; what Flink takes more; the ratio, and that of what exceeds the smallest job."""
    yield "| records | in process | on Flink | Flink's range | more | ratio | beyond the smallest |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    config = f"--config={SESSION}"
    with flink():
        made = [
            (f"{n:,} {shape}", write(data / f"{shape}{n}.parquet", SHAPES[shape](n)))
            for n, shape in [(SMALLEST, "clicks"), *((LARGE, shape) for shape in SHAPES)]
        ]
        first = seconds(made[0][1], config)
        least: tuple[float, float] | None = None
        for title, path in made:
            runs = [(seconds(path), seconds(path, config)) for _ in range(repeats)]
            here, there = (statistics.median(times) for times in zip(*runs, strict=True))
            span = [f"{end(there for _, there in runs):.1f}" for end in (min, max)]
            beyond = ""
            if least:
                beyond = f"{(there - least[1]) / (here - least[0]):.2f}"
            else:
                least = here, there
            yield (
                f"| {title} | {here:.1f} s | {there:.1f} s | {' to '.join(span)} s "
                f"| {there - here:.1f} s | {there / here:.2f} | {beyond} |"
            )
    yield f"\nThe first job of the cluster, of {SMALLEST:,} records, took {first:.1f} s."


def page(flags: argparse.Namespace, data: pathlib.Path) -> Iterator[str]:
    yield "# A job on Flink beside the same in process\n"
    yield (
        f"{os.cpu_count()} cores for all of it, load {os.getloadavg()[0]:.1f} before. Whole "
        f"commands by `runner_configs/flink/session.yaml`, medians of {flags.repeats} in turns.\n"
    )
    yield from rows(data, flags.repeats)


def main() -> None:
    parser = page_parser("clusters", __doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=pathlib.Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        data = flags.data or pathlib.Path(directory)
        try:
            write_page(flags.output / "clusters.md", page(flags, data))
        except (Unavailable, TimeoutError) as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
