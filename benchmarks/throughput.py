"""Speed and memory of the main job, by its number of records and by what it reads.

    python -m benchmarks.throughput [--millions 5 20 100] [--repeats=3] [--data=DIR]
        [--peers_python=peers/bin/python] [--output=benchmarks/results]

Every measurement has a process of its own, and includes the imports of what it measures. The work
is to read the files, keep at most kappa distinct partitions of each user, count distinct users, and
make and release the frequency list, in one process. ``throughput_shapes`` compares it with other
engines on data of many shapes. Selection of partitions is compared with pipeline-dp on the same
runner, if there is a Python that has it (see ``partition_selection_peers``).

A process shuffles on disk if it would exceed its memory. A limit such as ``ulimit -d 4194304``, for
4 GiB, sets this memory.
"""

from __future__ import annotations

import functools
import logging
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import in_new_process, page_parser, peak_gibibytes, write_page
from benchmarks.throughput_data import MILLION, hot_partition, hot_user, visits, write
from pipelines import numpy_settings

KAPPA = 10
MILLIONS = (5, 20, 100)
EPSILON, DELTA = 1, 1e-5
HOT_RECORDS = 10 * MILLION
# The second one is Beam's older runner in process, which processes elements one by one.
RUNNERS = ("FnApiRunner", "BundleBasedDirectRunner")
SELECTED_RECORDS = 200_000
CREATED_RECORDS = MILLION // 10
CREATED = {
    "create": "beam.Create of tuples",
    "create alone": "beam.Create and nothing else",
    "create unshuffled": "beam.Create(reshuffle=False) of tuples",
}


class Measurement(NamedTuple):
    """The cost of a process: seconds of wall clock, CPU seconds of all threads, and peak memory."""

    wall: float
    cpu: float
    gibibytes: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s, {self.cpu:.1f} s, {self.gibibytes:.2f} GiB"


def transforms(path: str, max_partitions: int, source: str = "files") -> Callable[[], None]:
    """Returns a function that runs the main job up to the released list.

    Args:
      path: a file of records.
      max_partitions: how many partitions of a user are kept.
      source: how the job runs: "files" as by default; "beam" on Beam's runner in process. On that
        runner also "tuples", with a step that yields tuples; "create", with beam.Create of tuples;
        "create unshuffled", with beam.Create without its reshuffle; and "create alone", with
        beam.Create and without the job.
    """
    from dp_transforms.files.record_files import RecordFiles

    if source == "files":
        return functools.partial(without_beam, path, max_partitions)
    import apache_beam as beam

    from dp_transforms import BoundContributions, CountDistinctUsers, ReleaseFrequencyList
    from dp_transforms.beam.reading import ReadRecords

    logging.disable(logging.WARNING)
    reader: beam.PTransform
    files = RecordFiles(path, "user", ["partition"])
    buckets = files.num_buckets
    if source == "beam":
        reader = ReadRecords(files)
    elif source == "tuples":
        reader = beam.Create([path]) | beam.FlatMap(tuples).with_output_types(tuple[str, str])
    else:
        reader = beam.Create(list(tuples(path)), reshuffle=source != "create unshuffled")
    job = beam.Filter(bool)
    if source != "create alone":
        job = (
            BoundContributions(max_partitions, num_buckets=buckets)
            | CountDistinctUsers(num_buckets=buckets)
            | ReleaseFrequencyList(epsilon=1, max_partitions_per_user=max_partitions)
        )

    def run() -> None:
        with beam.Pipeline() as pipeline:
            _ = pipeline | reader | job

    return run


def without_beam(path: str, max_partitions: int) -> None:
    """Runs the main job as its command does, in a process with ``numpy_settings``."""
    from dp_transforms import JobSecret
    from dp_transforms.engines.in_process import InProcess
    from dp_transforms.files.record_files import RecordFiles
    from dp_transforms.mechanisms.partition.registry import partition_mechanism
    from dp_transforms.releases import ListSpec
    from pipelines.worker import keep_freed_memory

    keep_freed_memory()
    engine = InProcess(RecordFiles(path, "user", ["partition"]), JobSecret.from_os())
    engine.frequency_list(ListSpec(partition_mechanism(1, max_partitions)))


def selection(path: str, runner: str) -> Callable[[], None]:
    """Returns a function that selects names from a CSV file into another file, with the strategy of
    pipeline-dp."""
    import apache_beam as beam

    from dp_transforms import SelectPartitions
    from dp_transforms.beam.reading import ReadRecords
    from dp_transforms.files.record_files import RecordFiles

    logging.disable(logging.WARNING)

    def run() -> None:
        with tempfile.TemporaryDirectory() as directory, beam.Pipeline(runner) as pipeline:
            files = RecordFiles(path, "user", ["partition"])
            select = SelectPartitions(
                EPSILON, DELTA, KAPPA, strategy="truncated_geometric", num_buckets=files.num_buckets
            )
            names = pipeline | ReadRecords(files) | select | beam.FlatMap(_names)
            _ = names | beam.io.WriteToText(f"{directory}/names")

    return run


def _names(table: pa.Table) -> list[str]:
    return table["partition"].to_pylist()


def tuples(path: str) -> Iterator[tuple[str, str]]:
    for batch in pq.ParquetFile(path).iter_batches(1 << 16):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def duckdb(path: str, max_partitions: int) -> Callable[[], list[tuple[int, int]]]:
    """Returns a function that does the work with DuckDB, up to the histogram of counts: pairs
    (count, partitions)."""
    kept = f"""
        SELECT partition FROM (
            SELECT *, row_number() OVER (
                PARTITION BY "user" ORDER BY hash("user", partition)) AS place
            FROM (SELECT DISTINCT "user", partition FROM '{path}')
        ) WHERE place <= {max_partitions}"""
    return duckdb_histogram(kept)


def duckdb_arg_min(path: str, max_partitions: int) -> Callable[[], list[tuple[int, int]]]:
    """Returns a function as ``duckdb`` does, with a query without a window. If only one partition
    is kept, duplicates make no difference."""
    order = 'arg_min(partition, hash("user", partition)'
    kept = (
        f"""
        SELECT {order}) AS partition FROM '{path}' GROUP BY "user"
        """
        if max_partitions == 1
        else f"""
        SELECT unnest({order}, {max_partitions})) AS partition
        FROM (SELECT DISTINCT "user", partition FROM '{path}') GROUP BY "user"
        """
    )
    return duckdb_histogram(kept)


def duckdb_histogram(kept: str) -> Callable[[], list[tuple[int, int]]]:
    """Returns a function that counts partitions by number of users, given a query for the
    partitions that users keep."""
    import duckdb

    query = f"""
        SELECT users, count(*) FROM (
            SELECT count(*) AS users FROM ({kept}) GROUP BY partition
        ) GROUP BY users"""

    def run() -> list[tuple[int, int]]:
        connection = duckdb.connect()
        connection.execute("SET threads = 2")
        return connection.execute(query).fetchall()

    return run


def measure_here(engine: str, path: str, max_partitions: int) -> Measurement:
    wall, cpu = time.perf_counter(), time.process_time()
    run = selection(path, engine) if engine in RUNNERS else transforms(path, max_partitions, engine)
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measurement(wall, cpu, peak_gibibytes())


def measure_once(engine: str, path: str, max_partitions: int) -> Measurement:
    """Returns the cost of one run in a new process."""
    task = measure_here, engine, path, max_partitions
    return Measurement(*in_new_process(*task, environment=numpy_settings()))


def median(runs: Sequence[Measurement]) -> Measurement:
    """Returns the run in the middle by wall clock."""
    return sorted(runs, key=lambda run: run.wall)[len(runs) // 2]


def measure(source: str, path: str, repeats: int) -> Measurement:
    return median([measure_once(source, path, KAPPA) for _ in range(repeats)])


def cells(measurement: Measurement) -> str:
    return f"{measurement.wall:.1f} s | {measurement.cpu:.1f} s | {measurement.gibibytes:.2f} GiB"


def growth_rows(data: pathlib.Path, millions: Sequence[int], repeats: int) -> Iterator[str]:
    """Yields rows of the main job on more and more records. Each file is deleted again."""
    yield "| records | transforms | CPU | memory | growth of CPU |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    before = None
    for n in millions:
        path = write(data / f"visits{n * MILLION}.parquet", visits(n * MILLION))
        measurement = measure("files", path, repeats)
        os.unlink(path)
        growth = f"{measurement.cpu / before.cpu:.2f}" if before else ""
        before = measurement
        yield f"| {n}M visits, parquet | {cells(measurement)} | {growth} |"


def other_input_rows(data: pathlib.Path, millions: int, repeats: int) -> Iterator[str]:
    """Yields rows of the main job on input other than Parquet, and on skewed data."""
    yield "| transforms, other input | time | CPU | memory | CPU, than Parquet |"
    yield "| --- | ---: | ---: | ---: | --- |"

    def line(title: str, measurement: Measurement, than: Measurement | None = None) -> str:
        more = (
            f"{measurement.cpu - than.cpu:.1f} s more, {measurement.cpu / than.cpu:.2f}"
            if than
            else ""
        )
        return f"| {title} | {cells(measurement)} | {more} |"

    path = write(data / f"visits{millions * MILLION}.parquet", visits(millions * MILLION))
    parquet = measure("files", path, repeats)
    path = write(data / f"visits{millions}.csv", visits(millions * MILLION))
    yield line(f"{millions}M records, CSV", measure("files", path, repeats), parquet)
    path = write(data / "visits1.parquet", visits(MILLION))
    parquet = measure("beam", path, repeats)
    yield line("1M records, Parquet, on Beam", parquet)
    title = "1M records, a step that yields tuples"
    yield line(title, measure("tuples", path, repeats), parquet)
    path = write(data / f"visits{CREATED_RECORDS}.parquet", visits(CREATED_RECORDS))
    parquet = measure("beam", path, repeats)
    yield line(f"{CREATED_RECORDS:,} records, Parquet, on Beam", parquet)
    for source, title in CREATED.items():
        measurement = measure(source, path, repeats)
        yield line(f"{CREATED_RECORDS:,} records, {title}", measurement, parquet)
    for make in (hot_user, hot_partition):
        path = write(data / f"{make.__name__}.parquet", make(HOT_RECORDS))
        title = f"{HOT_RECORDS // MILLION}M records, one {make.__name__.removeprefix('hot_')}"
        yield line(title, measure("files", path, repeats))


def selection_rows(data: pathlib.Path, peers_python: str, repeats: int) -> Iterator[str]:
    """Yields rows that compare the selection of partitions with pipeline-dp. There is more in
    ``partition_selection``."""
    # Imported here, since modules that this one imports count as memory of DuckDB's processes.
    from benchmarks.partition_selection import ask_peers

    yield "| selection, CSV | runner | transforms | CPU | memory | pipeline-dp | ratio |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    path = write(data / f"visits{SELECTED_RECORDS}.csv", visits(SELECTED_RECORDS))
    for runner in RUNNERS:
        task = {
            "epsilon": EPSILON,
            "delta": DELTA,
            "max_partitions": KAPPA,
            "path": path,
            "runner": runner,
        }
        runs = []
        for _ in range(repeats):
            ours = measure_once(runner, path, KAPPA)
            theirs = ask_peers(peers_python, "select", output=str(data / "names"), **task)
            runs.append((ours, theirs["imports"] + theirs["seconds"]))
        ours = median([mine for mine, _ in runs])
        seconds = sorted(other for _, other in runs)[repeats // 2]
        ratio = sorted(other / mine.wall for mine, other in runs)[repeats // 2]
        yield f"| {SELECTED_RECORDS:,} | {runner} | {cells(ours)} | {seconds:.1f} s | {ratio:.1f} |"


def report(
    data: pathlib.Path, millions: Sequence[int], repeats: int, peers_python: str | None
) -> Iterator[str]:
    yield "# Records to a released frequency list: time and memory\n"
    yield f"{about(repeats)} Growth is that of the CPU time to the size before.\n"
    yield from growth_rows(data, millions, repeats)
    yield ""
    yield from other_input_rows(data, millions[0], repeats)
    if peers_python:
        yield ""
        yield from selection_rows(data, peers_python, repeats)


def about(repeats: int) -> str:
    from dp_transforms.engines.local_shuffle import memory_limit

    runs = f"Medians of {repeats} runs" if repeats > 1 else "Single runs"
    return (
        f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} before. {runs}, "
        "each a process. CPU is that of all threads; memory is the process's peak. What a job may "
        f"have of memory, which decides what goes to disk, is {memory_limit() / 2**30:.1f} GiB."
    )


def main() -> None:
    parser = page_parser("throughput", __doc__, "repeats", "data", "peers_python")
    parser.add_argument("--millions", nargs="+", type=int, default=MILLIONS, help="of records")
    arguments = parser.parse_args()
    lines = report(arguments.data, arguments.millions, arguments.repeats, arguments.peers_python)
    write_page(arguments.output / "throughput.md", lines)


if __name__ == "__main__":
    main()
