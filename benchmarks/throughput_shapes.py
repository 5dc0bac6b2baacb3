"""Time and memory of the main job on shapes of data that are drawn at random, beside two engines.

    python -m benchmarks.throughput_shapes [--sizes 12x20 3x100] [--text_sizes 4x20] [--seed=1]
        [--repeats=3] [--data=DIR] [--output=benchmarks/results]

A shape is drawn from a seed: how many users and partitions there are, over five orders of
magnitude, and how skewed they are; the share of duplicates; types and lengths; dictionaries,
compression, other columns and sizes of row groups; and the order of the records. No shape that was
used to make the code faster was kept here. Each file is made, measured and deleted. The largest
takes some 10 GB.

The work is that of ``throughput``: to keep at most kappa distinct partitions of each user, count
distinct users by partition, and make the histogram; ours also makes the release. DuckDB does it
with a window and with arg_min, and the faster query counts. Polars does it with its streaming
engine. All use two threads, and run in turns. The time is that of the whole process, with its
start. CPU is that of all its threads.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import os
import pathlib
import re
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import page_parser, peak_gibibytes, write_page
from benchmarks.throughput import Measurement, duckdb, duckdb_arg_min, median, without_beam
from benchmarks.throughput_data import MILLION, batches, numbered, power_ranks, write_tables
from pipelines import numpy_settings

THREADS = 2
ORDERS = ("none", "none", "user", "time")
FORMATS = ("csv", "jsonl")
_KAPPAS = (1, 3, 10, 30, 100)
_KINDS = ("int8", "int16", "uint16", "int32", "uint32", "int64", "text", "text", "long text")
_POOL = MILLION // 2


@dataclasses.dataclass(frozen=True)
class Column:
    """The ids of users or partitions.

    Attributes:
      values: the number of possible ids; some may not occur.
      skew: the id of rank r has a share proportional to about r**-skew.
      kind: an Arrow type of integers, or a kind of text.
      length: the number of characters of a text.
      dictionary: whether the column has dictionaries in Parquet files.
    """

    values: int
    skew: float
    kind: str
    length: int
    dictionary: bool

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: int) -> Column:
        values = int(rows ** rng.uniform(math.log(rows / 1e5, rows), 1))
        kinds = [
            kind
            for kind in _KINDS
            if "text" in kind or values <= np.iinfo(kind).max - np.iinfo(kind).min
        ]
        kind = str(rng.choice(kinds))
        digits = len(str(values))
        longest = {"text": digits + 12, "long text": 120}.get(kind, digits)
        length = int(rng.integers(digits, longest + 1))
        return cls(values, round(rng.uniform(0, 1.6), 2), kind, length, bool(rng.random() < 0.7))

    def ranks(self, rng: np.random.Generator, rows: int) -> np.ndarray:
        # The small addition keeps the exponent from 1, at which the formula would divide by 0.
        return power_ranks(rng, rows, self.values, self.skew + 0.003)

    def ids(self, ranks: np.ndarray) -> pa.Array:
        """Returns the id of each rank. The order of ids is not that of ranks."""
        if "text" in self.kind:
            # Multiplication by a number that ends in 9 permutes the numbers of so many digits.
            modulus = 10 ** len(str(self.values))
            return numbered("p" * (self.length - len(str(modulus)) + 1), ranks * 7919 % modulus, 0)
        # Multiplication by an odd number permutes the integers of a number of bits.
        return pa.array((ranks * 2654435761).astype(self.kind))

    def __str__(self) -> str:
        kind = f"{self.kind} of {self.length}" if "text" in self.kind else self.kind
        return f"{self.values:,} {kind}, {self.skew}{', dictionary' * self.dictionary}"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A shape of records. ``draw`` draws all of its attributes."""

    seed: int
    rows: int
    max_partitions: int
    users: Column
    partitions: Column
    duplicates: float
    other_columns: int
    row_group: int
    compression: str
    order: str

    @classmethod
    def draw(cls, seed: int, rows: int) -> Shape:
        rng = np.random.default_rng(seed)
        return cls(
            seed,
            rows,
            int(rng.choice(_KAPPAS)),
            Column.draw(rng, rows),
            Column.draw(rng, rows),
            round(rng.uniform(0, 0.9), 2),
            int(rng.choice([0, 0, 2, 6])),
            int(10 ** rng.uniform(4, 6)),
            str(rng.choice(["snappy", "zstd", "none"])),
            str(rng.choice(ORDERS)),
        )

    def tables(self) -> Iterator[pa.Table]:
        rng = np.random.default_rng([self.seed, self.rows])
        pool = np.empty((2, 0), np.int64)
        done = 0
        for n in batches(self.rows):
            fresh = n - int(n * self.duplicates)
            user = self._users(rng, fresh, done / self.rows, n / self.rows)
            new = np.stack([user, self.partitions.ranks(rng, fresh)])
            pool = np.concatenate([pool, new], axis=1)
            rows = np.concatenate([new, pool[:, rng.integers(0, pool.shape[1], n - fresh)]], axis=1)
            # If records are sorted by user, a user's records must not repeat in a later batch.
            near = self.order == "user"
            pool = new[:, :0] if near else rng.permutation(pool, axis=1)[:, :_POOL]
            rows = rows[:, np.argsort(rows[0]) if near else rng.permutation(n)]
            columns = {"user": self.users.ids(rows[0]), "partition": self.partitions.ids(rows[1])}
            yield pa.table(columns | self._other_columns(rng, done, n))
            done += n

    def _users(self, rng: np.random.Generator, rows: int, start: float, share: float) -> np.ndarray:
        if self.order == "user":
            # Users are the next part of the distribution's quantiles.
            power = 0.997 - self.users.skew
            part = start + share * rng.random(rows)
            draws = (1 + part * ((self.users.values + 1.0) ** power - 1)) ** (1 / power)
            return np.minimum(draws.astype(np.int64), self.users.values) - 1
        user = self.users.ranks(rng, rows)
        if self.order == "time":
            # The users who are active change with time.
            user = (user + int(start * self.users.values)) % self.users.values
        return user

    def _other_columns(self, rng: np.random.Generator, done: int, rows: int) -> dict[str, pa.Array]:
        makers: list[Callable[[], pa.Array]] = [
            lambda: pa.array(done + np.arange(rows)).cast(pa.timestamp("ms")),
            lambda: pa.array(rng.random(rows)),
            lambda: numbered("note ", rng.integers(0, 10**9, rows), 40),
        ]
        return {f"other{i}": makers[i % 3]() for i in range(self.other_columns)}

    def write(self, directory: pathlib.Path, suffix: str = "parquet") -> str:
        """Writes a file of the records as Parquet, CSV or JSON lines, and returns its path."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"shape{self.seed}.{suffix}"
        if suffix == "jsonl":
            with path.open("wb") as file:
                file.writelines(map(_json_lines, self.tables()))
            return str(path)
        coded = {"user": self.users.dictionary, "partition": self.partitions.dictionary}
        dictionaries = [name for name in coded if coded[name]]
        options = {"compression": self.compression, "use_dictionary": dictionaries}
        write_tables(path, self.tables(), self.row_group, **options)
        return str(path)

    def __str__(self) -> str:
        return (
            f"{self.seed}: {self.users}; {self.partitions}; {self.duplicates:.0%}; "
            f"kappa {self.max_partitions}; {self.other_columns} other columns; groups of "
            f"{self.row_group:,}, {self.compression}; by {self.order}"
        )


def _json_lines(table: pa.Table) -> bytes:
    parts: list[pa.Array | str] = []
    for i, name in enumerate(table.column_names):
        column = table[name]
        quote = "" if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) else '"'
        parts += [f'{"," if i else "{"}"{name}":{quote}', column.cast(pa.string()), quote]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    _, _, data = lines.combine_chunks().buffers()
    return data.to_pybytes()


def polars(path: str, max_partitions: int) -> Callable[[], object]:
    """Returns a function that does the work with Polars, up to the histogram of counts."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars as pl

    scan = {"csv": pl.scan_csv, "jsonl": pl.scan_ndjson}.get(
        path.rpartition(".")[2], pl.scan_parquet
    )
    pairs = scan(path).select("user", "partition").unique()
    by_hash = pl.struct("user", "partition").hash()
    kept = pairs.group_by("user").agg(pl.col("partition").bottom_k_by(by_hash, max_partitions))
    counts = kept.explode("partition").group_by("partition").agg(pl.len().alias("users"))
    histogram = counts.group_by("users").agg(pl.len())
    return lambda: histogram.collect(engine="streaming")


ENGINES: dict[str, Callable[[str, int], Callable[[], object]]] = {
    "ours": lambda path, max_partitions: lambda: without_beam(path, max_partitions),
    "window": duckdb,
    "arg_min": duckdb_arg_min,
    "polars": polars,
}


def measure(engine: str, path: str, max_partitions: int) -> Measurement | None:
    """Returns the cost of one run in a new process; None if it fails, for example for lack of
    memory."""
    command = [sys.executable, "-m", "benchmarks.throughput_shapes", "--measure"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, engine, path, str(max_partitions), f"--draws={secrets.token_hex()}"],
        stdout=subprocess.PIPE,
        env=os.environ | (numpy_settings() if engine == "ours" else {}),
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        return None
    return Measurement(wall, used.ru_utime + used.ru_stime, float(output.splitlines()[-1]))


def compared(
    path: str, max_partitions: int, repeats: int, engines: Sequence[str]
) -> dict[str, Measurement]:
    """Returns the median cost of each engine, run in turns. Engines that fail are left out."""
    runs = [[measure(engine, path, max_partitions) for engine in engines] for _ in range(repeats)]
    done = ([cost for cost in costs if cost] for costs in zip(*runs, strict=True))
    return {engine: median(costs) for engine, costs in zip(engines, done, strict=True) if costs}


def rows(
    data: pathlib.Path, sizes: Sequence[str], seed: int, repeats: int, suffixes: Sequence[str]
) -> Iterator[str]:
    """Yields a row for each shape, and the geometric means of the ratios."""
    yield (
        "| shape: users; partitions; duplicates | ours: time, CPU, memory | DuckDB | Polars "
        "| ratio of times | of CPU |"
    )
    yield "| --- | --- | --- | --- | ---: | ---: |"
    ratios = []
    number = 0
    for size in sizes:
        many, millions = map(int, size.split("x"))
        for suffix in itertools.islice(itertools.cycle(suffixes), many):
            shape = Shape.draw(seed + number, millions * MILLION)
            number += 1
            path = shape.write(data, suffix)
            try:
                costs = compared(path, shape.max_partitions, repeats, tuple(ENGINES))
            finally:
                os.unlink(path)
            ours = costs["ours"]
            queries = [costs[query] for query in ("window", "arg_min") if query in costs]
            theirs = min(queries, key=lambda cost: cost.wall)
            ratios.append((ours.wall / theirs.wall, ours.cpu / theirs.cpu))
            wall, cpu = ratios[-1]
            polars_cost = costs.get("polars", "failed")
            yield (
                f"| {millions}M {suffix}, {shape} | {ours} | {theirs} | {polars_cost} "
                f"| {wall:.2f} | {cpu:.2f} |"
            )
    if ratios:
        means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
        yield f"| geometric mean | | | | {means[0]:.2f} | {means[1]:.2f} |"


def report(flags: argparse.Namespace) -> Iterator[str]:
    yield "# Shapes of data drawn at random: time and memory\n"
    runs = f"Medians of {flags.repeats} runs" if flags.repeats > 1 else "Single runs"
    yield (
        f"`python -m benchmarks.throughput_shapes --seed={flags.seed}`: {os.cpu_count()} cores, "
        f"load {os.getloadavg()[1]:.1f} before. {runs} in turns. A shape is: its seed; values, "
        "type and skew of users and of partitions; the share of records that repeat another; and "
        "how the file is made. The ratios are ours to the faster query of DuckDB."
    )
    for sizes, suffixes in ((flags.sizes, ("parquet",)), (flags.text_sizes, FORMATS)):
        if sizes:
            yield ""
            yield from rows(flags.data, sizes, flags.seed, flags.repeats, suffixes)


def _size(text: str) -> str:
    if not re.fullmatch(r"\d+x\d+", text):
        raise argparse.ArgumentTypeError(f"must be SHAPESxMILLIONS, such as 12x20, got {text!r}")
    return text


def main() -> None:
    parser = page_parser("throughput_shapes", __doc__, "repeats", "data")
    parser.add_argument("--sizes", nargs="*", type=_size, default=["12x20", "3x100"])
    parser.add_argument("--text_sizes", nargs="*", type=_size, default=["4x20"])
    parser.add_argument("--seed", type=int, default=1, help="of the first shape")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.measure:
        engine, path, max_partitions = flags.measure
        ENGINES[engine](path, int(max_partitions))()
        print(peak_gibibytes())
        return
    write_page(flags.output / "throughput_shapes.md", report(flags))


if __name__ == "__main__":
    main()
