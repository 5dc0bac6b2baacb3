"""Times a job on a Flink cluster of this machine, beside the same job in process, in turns.

    python -m benchmarks.clusters [--millions=20] [--repeats=3] [--data=DIR]
        [--output=benchmarks/results]

It starts the cluster of ``make flink-up`` unless that runs already, and ends it. It needs Linux,
Java and Maven. Times are those of whole commands, from their start to the last file. The first job
of a cluster, in which Java loads its classes, is shown by itself. ``--millions`` is the size of the
job whose parts are shown. Above 20, that job runs only once.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.harness import page_parser, write_page
from benchmarks.throughput import KAPPA
from benchmarks.throughput_data import MILLION, SHAPES, write
from runner_configs.flink import cluster
from runner_configs.parts import Unavailable

SMALLEST = 2_000
LARGE = 20 * MILLION
SESSION = pathlib.Path(cluster.__file__).with_name("session.yaml")
SECONDS_BETWEEN_LOOKS = 0.1
COMMAND, WORKERS = "command", "Python workers"


@dataclasses.dataclass
class Used:
    """The cost of a part's processes: CPU seconds, the peak of their memory in bytes, and bytes
    written to files."""

    cpu: float = 0
    memory: int = 0
    written: int = 0


@dataclasses.dataclass
class Run:
    """A command's time in seconds, and the cost of each part."""

    seconds: float
    parts: Mapping[str, Used]

    @property
    def total(self) -> Used:
        used = self.parts.values()
        return Used(*(sum(getattr(part, name) for part in used) for name in vars(Used())))

    @property
    def cpu(self) -> float:
        return self.total.cpu


class Meter:
    """Adds up what processes use after it is made. Memory that they share counts for each of them.

    Args:
      known: the ids of processes that run already, by the part that they belong to.
    """

    def __init__(self, known: Mapping[str, Sequence[int]]):
        self._known, self._peaks = known, collections.Counter[str]()
        self._last: dict[tuple[str, int], Used] = {}
        self._look(known)
        self._first = dict(self._last)

    def look(self, command: int) -> None:
        """Measures the known processes, a command, and all processes that it has started."""
        self._look({**self._known, COMMAND: [command], WORKERS: list(descendants(command))})

    def used(self) -> dict[str, Used]:
        """Returns the cost of each part until its processes were last measured."""
        total = {part: Used(memory=peak) for part, peak in self._peaks.items()}
        for (part, pid), last in self._last.items():
            first = self._first.get((part, pid), Used())
            total[part].cpu += last.cpu - first.cpu
            total[part].written += last.written - first.written
        return total

    def _look(self, parts: Mapping[str, Sequence[int]]) -> None:
        for part, pids in parts.items():
            seen = {(part, pid): used for pid in pids if (used := taken_by(pid))}
            self._last.update(seen)
            self._peaks[part] = max(self._peaks[part], sum(used.memory for used in seen.values()))


def taken_by(pid: int) -> Used | None:
    """Returns the cost of a process so far, with its present memory; None if there is no such
    process."""
    process = pathlib.Path(f"/proc/{pid}")
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        written = (process / "io").read_text().partition("\nwrite_bytes: ")[2].split()[0]
    except OSError:
        return None
    cpu = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return Used(cpu, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), int(written))


def descendants(pid: int) -> Iterator[int]:
    """Yields the processes that a process has started, and all that these have started in turn."""
    for file in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, file.read_text().split()):
                yield child
                yield from descendants(child)


def run(path: str, *options: str, parts: Mapping[str, Sequence[int]] | None = None) -> Run:
    """Runs the command that releases the list of a file, and returns its cost."""
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-m", "pipelines.release_frequency_list", *options]
        command += [f"--input={path}", "--user_column=user", "--partition_column=partition"]
        command += ["--epsilon=1", f"--max_partitions_per_user={KAPPA}"]
        command += [f"--output={directory}/released"]
        meter = Meter(parts or {})
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        with open(os.pidfd_open(process.pid)) as ended:
            while not select.select([ended], [], [], SECONDS_BETWEEN_LOOKS)[0]:
                meter.look(process.pid)
        taken = time.perf_counter() - begun
        # A process that has ended can still be measured, until it is waited for.
        meter.look(process.pid)
        if process.wait():
            errors.seek(0)
            raise RuntimeError(errors.read().decode())
    return Run(taken, meter.used())


def runs(path: str, repeats: int) -> tuple[Run, Run]:
    """Runs a job in process and on Flink, in turns, and returns the run of median CPU time of
    each."""
    both = [
        (run(path), run(path, f"--config={SESSION}", parts=cluster.processes()))
        for _ in range(repeats)
    ]
    here, there = (
        sorted(measured, key=lambda job: job.cpu) for measured in zip(*both, strict=True)
    )
    return here[repeats // 2], there[repeats // 2]


@contextlib.contextmanager
def flink() -> Iterator[None]:
    cluster.up()
    try:
        yield
    finally:
        cluster.down()


def page(flags: argparse.Namespace, data: pathlib.Path) -> Iterator[str]:
    small, large = (SMALLEST, "clicks"), (flags.millions * MILLION, "visits")
    # Other shapes are left out if --millions is small, which is for trying this out.
    of_every_shape = [(LARGE, shape) for shape in SHAPES if large[0] >= LARGE]
    files = {
        (rows, shape): write(data / f"{shape}{rows}.parquet", SHAPES[shape](rows))
        for rows, shape in (small, *of_every_shape, large)
    }
    load = os.getloadavg()[0]
    with flink():
        yield "# Jobs on Flink beside the same in process\n"
        yield (
            f"{os.cpu_count()} cores for all of it, load {load:.1f} before. Whole commands by "
            f"`runner_configs/flink/session.yaml`, with {about_cluster()}. Of {flags.repeats} in "
            "turns, those of median CPU time, in all processes; *beyond start* is without what the "
            "first row took.\n"
        )
        yield "| records | in process | on Flink | more | CPU | on Flink | ratio | beyond start |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        first = run(files[small], f"--config={SESSION}")
        done: dict[tuple[int, str], tuple[Run, Run]] = {}
        for job, path in files.items():
            here, there = done[job] = runs(path, flags.repeats if job[0] <= LARGE else 1)
            if job == large:
                sent = sent_between_tasks()
            beyond = [
                larger.cpu - smallest.cpu
                for larger, smallest in zip(done[job], done[small], strict=True)
            ]
            yield (
                f"| {job[0]:,} {job[1]} | {here.seconds:.1f} s | {there.seconds:.1f} s "
                f"| {there.seconds - here.seconds:.1f} s | {here.cpu:.1f} s | {there.cpu:.1f} s "
                f"| {there.cpu / here.cpu:.2f} "
                f"| {'' if job == small else f'{beyond[1] / beyond[0]:.2f}'} |"
            )
    yield f"\nThe first job of the cluster, of {SMALLEST:,} records, took {first.seconds:.1f} s."
    yield f"\n## The parts of the job of {large[0]:,} visits\n"
    yield (
        f"Memory is the most at a time, by looks every {SECONDS_BETWEEN_LOOKS} s, where what "
        "processes share counts in each. Flink's tasks sent each other "
        f"{sent / 2**20:,.0f} MiB, all of it through files of the task managers.\n"
    )
    yield "| part | CPU | beyond start, a million records | memory | written to files |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    (here, there), starts = done[large], done[small]
    rows = {"in process": (here.total, starts[0].total), "on Flink": (there.total, starts[1].total)}
    rows |= {part: (used, starts[1].parts[part]) for part, used in there.parts.items()}
    for part, (used, start) in rows.items():
        yield (
            f"| {part} | {used.cpu:.1f} s | {(used.cpu - start.cpu) / flags.millions:.3f} s "
            f"| {used.memory / 2**20:,.0f} MiB | {used.written / 2**20:,.0f} MiB |"
        )


def about_cluster() -> str:
    managers = cluster.ask("/taskmanagers")["taskmanagers"]
    memory = managers[0]["memoryConfiguration"]["totalProcessMemory"] / 2**20
    return (
        f"{len(managers)} task managers of {memory:,.0f} MiB and {managers[0]['slotsNumber']} slots"
    )


def sent_between_tasks() -> int:
    """Returns the number of bytes that the tasks of the last job sent to one another."""
    last = max(cluster.ask("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    tasks = cluster.ask(f"/jobs/{last['jid']}")["vertices"]
    return sum(task["metrics"]["write-bytes"] for task in tasks)


def main() -> None:
    parser = page_parser("clusters", __doc__, "repeats")
    parser.add_argument("--millions", type=int, default=LARGE // MILLION)
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
