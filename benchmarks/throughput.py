"""Speed and memory of the Beam transforms, beside DuckDB on the same files in the same run.

    python -m benchmarks.throughput [--output=benchmarks/results] [--rows=5,20] [--data=DIR]

Makes its own data: string ids, 80,000 users per million records, partitions with a Zipf law, and
five users with thousands of records each; and passwords, with one record for each user. Every
measurement has a process of its own, and starts after imports. The work is to read the files, keep
at most kappa distinct partitions of each user, count distinct users, and make (ours: also release)
the frequency list. DuckDB does it in one query on two threads, ours in one process on Beam's
in-process runner.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

MILLION = 1_000_000
KAPPA = 10
HOT_RECORDS = 10 * MILLION


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What one process took: seconds of wall clock and of all its threads, and its peak memory."""

    wall: float
    cpu: float
    gibibytes: float


def numbered(prefix: str, numbers: np.ndarray, digits: int) -> pa.Array:
    """Strings such as u000000017."""
    text = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, text, "")


def visits(rows: int) -> Iterator[pa.Table]:
    """Records of users with several partitions."""
    rng = np.random.default_rng(rows)
    users, partitions = int(0.08 * rows), int(rows**0.9 / 2)
    for n in batches(rows):
        user = (users * rng.random(n) ** 1.3).astype(np.int64)
        hot = rng.random(n) < 0.002
        user[hot] = rng.integers(0, 5, hot.sum())
        item = rng.zipf(1.2, n)
        item = np.where(item > partitions, rng.integers(1, partitions + 1, n), item)
        yield pa.table(
            # Multiplying by a prime spreads the numbers: files are not sorted by user.
            {"user": numbered("u", user * 2654435761 % 999999937, 9),
             "partition": numbered("item-", item, 1)}
        )  # fmt: skip


def passwords(rows: int) -> Iterator[pa.Table]:
    """Records of users with one partition each."""
    rng = np.random.default_rng(rows)
    done = 0
    for n in batches(rows):
        user = np.arange(done, done + n)
        done += n
        password = rng.zipf(1.15, n)
        password = np.where(password > rows, rng.integers(1, rows + 1, n), password)
        yield pa.table(
            {"user": numbered("a", user * 2654435761 % 99999999977, 11),
             "partition": numbered("", password * 2654435761 % 10**10, 10)}
        )  # fmt: skip


def hot_user(rows: int) -> Iterator[pa.Table]:
    """All records of one user, each of another partition."""
    done = 0
    for n in batches(rows):
        partition = numbered("item-", np.arange(done, done + n), 9)
        yield pa.table({"user": pa.repeat("u000000001", n), "partition": partition})
        done += n


def hot_partition(rows: int) -> Iterator[pa.Table]:
    """All records of one partition, each of another user."""
    for table in hot_user(rows):
        yield pa.table({"user": table["partition"], "partition": table["user"]})


def batches(rows: int) -> Iterator[int]:
    for start in range(0, rows, MILLION):
        yield min(MILLION, rows - start)


def write(path: pathlib.Path, tables: Iterator[pa.Table]) -> str:
    """Writes a Parquet or CSV file if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = None
        for table in tables:
            if writer is None:
                make = pa.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
                writer = make(path, table.schema)
            writer.write_table(table)
        writer.close()
    return str(path)


def transforms(path: str, kappa: int, source: str = "files") -> Callable[[], None]:
    """The main job up to the released list.

    Args:
      path: a file of records.
      kappa: how many partitions of a user are kept.
      source: "files" for the main job's reader, "tuples" for a step that yields tuples, "create"
        for beam.Create of tuples, "create alone" for that without the job.
    """
    import apache_beam as beam

    from dp_transforms import BoundContributions, CountDistinctUsers, ReleaseFrequencyList
    from dp_transforms.shuffle import num_buckets_for
    from pipelines.reading import ReadRecords

    logging.disable(logging.WARNING)
    buckets = num_buckets_for(pq.read_metadata(path.removesuffix(".csv")).num_rows)
    if source == "files":
        reader = ReadRecords(path, "user", ["partition"])
    elif source == "tuples":
        reader = beam.Create([path]) | beam.FlatMap(tuples).with_output_types(tuple[str, str])
    else:
        reader = beam.Create(list(tuples(path)))
    job = beam.Filter(bool)
    if source != "create alone":
        job = (
            BoundContributions(kappa, num_buckets=buckets)
            | CountDistinctUsers(num_buckets=buckets)
            | ReleaseFrequencyList(epsilon=1, max_partitions_per_user=kappa)
        )

    def run() -> None:
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            _ = pipeline | reader | job

    return run


def tuples(path: str) -> Iterator[tuple[str, str]]:
    for batch in pq.ParquetFile(path).iter_batches(1 << 16):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def duckdb(path: str, kappa: int) -> Callable[[], None]:
    """The same with DuckDB, up to the histogram of counts."""
    import duckdb

    query = f"""
        SELECT users, count(*) FROM (
            SELECT count(*) AS users FROM (
                SELECT *, row_number() OVER (
                    PARTITION BY "user" ORDER BY hash("user", partition)) AS place
                FROM (SELECT DISTINCT "user", partition FROM '{path}')
            ) WHERE place <= {kappa} GROUP BY partition
        ) GROUP BY users"""

    def run() -> None:
        connection = duckdb.connect()
        connection.execute("SET threads = 2")
        connection.execute(query).fetchall()

    return run


def measure_here(engine: str, path: str, kappa: int) -> Measurement:
    run = duckdb(path, kappa) if engine == "duckdb" else transforms(path, kappa, engine)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Measurement(wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def measure_once(engine: str, path: str, kappa: int) -> Measurement:
    """One run in a new process."""
    command = [sys.executable, "-m", "benchmarks.throughput", "--measure", engine, path, str(kappa)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def median(runs: list[Measurement]) -> Measurement:
    """The run in the middle by wall clock."""
    return sorted(runs, key=lambda run: run.wall)[len(runs) // 2]


def measure(source: str, path: str, repeats: int) -> Measurement:
    return median([measure_once(source, path, KAPPA) for _ in range(repeats)])


def compared(title: str, path: str, kappa: int, repeats: int) -> str:
    # In turns, so that whatever else runs on the machine slows both.
    runs = [
        [measure_once(engine, path, kappa) for engine in ("files", "duckdb")]
        for _ in range(repeats)
    ]
    ours, theirs = (median(list(side)) for side in zip(*runs, strict=True))
    ratio = sorted(mine.wall / other.wall for mine, other in runs)[repeats // 2]
    return (
        f"| {title} | {ours.wall:.1f} s | {ours.cpu:.1f} s | {ours.gibibytes:.2f} GiB "
        f"| {theirs.wall:.1f} s | {theirs.cpu:.1f} s | {theirs.gibibytes:.2f} GiB | {ratio:.2f} |"
    )


def report(data: pathlib.Path, millions: list[int], repeats: int) -> Iterator[str]:
    yield "# Records to a released frequency list: time and memory"
    yield ""
    yield f"{os.cpu_count()} cores. Medians of {repeats} runs, in turns with DuckDB. CPU is that of"
    yield "all threads; memory is the process's peak; the ratio is that of the times."
    yield ""
    yield "| records, Parquet | transforms | CPU | memory | DuckDB | CPU | memory | ratio |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for n in millions:
        path = write(data / f"visits{n}.parquet", visits(n * MILLION))
        yield compared(f"{n}M, kappa = {KAPPA}", path, KAPPA, repeats)
    n = 20 if 20 in millions else millions[0]
    path = write(data / f"passwords{n}.parquet", passwords(n * MILLION))
    yield compared(f"{n}M passwords, kappa = 1", path, 1, repeats)
    yield ""
    yield "| transforms, other input | time | CPU | memory | than Parquet |"
    yield "| --- | ---: | ---: | ---: | --- |"

    def line(title: str, path: str, source: str, than: Measurement | None = None) -> str:
        found = measure(source, path, repeats)
        more = f"{found.wall - than.wall:.1f} s more, {found.wall / than.wall:.2f}" if than else ""
        shown = f"{found.wall:.1f} s | {found.cpu:.1f} s | {found.gibibytes:.2f} GiB"
        return f"| {title} | {shown} | {more} |"

    n = millions[0]
    path = write(data / f"visits{n}.parquet", visits(n * MILLION))
    parquet = measure("files", path, repeats)
    csv = write(data / f"visits{n}.parquet.csv", visits(n * MILLION))
    yield line(f"{n}M records, CSV", csv, "files", parquet)
    path = write(data / "visits1.parquet", visits(MILLION))
    yield line("1M records, Parquet", path, "files")
    parquet = measure("files", path, repeats)
    yield line("1M records, a step that yields tuples", path, "tuples", parquet)
    yield line("1M records, beam.Create of tuples", path, "create", parquet)
    yield line("1M records, beam.Create and nothing else", path, "create alone", parquet)
    for make in (hot_user, hot_partition):
        path = write(data / f"{make.__name__}.parquet", make(HOT_RECORDS))
        title = f"{HOT_RECORDS // MILLION}M records, one {make.__name__.removeprefix('hot_')}"
        yield line(title, path, "files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/results"))
    parser.add_argument("--rows", default="5,10,20,40", help="millions of records")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=pathlib.Path, help="where to keep the files")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        engine, path, kappa = arguments.measure
        print(json.dumps(dataclasses.asdict(measure_here(engine, path, int(kappa)))))
        return
    arguments.output.mkdir(parents=True, exist_ok=True)
    millions = [int(n) for n in arguments.rows.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        lines = []
        for line in report(arguments.data or pathlib.Path(temporary), millions, arguments.repeats):
            print(line, flush=True)
            lines.append(line)
    text = "\n".join(lines) + "\n"
    (arguments.output / "throughput.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
