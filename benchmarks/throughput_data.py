"""Makes the records for the benchmark of throughput, which are the same in each run."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

MILLION = 1_000_000


def numbered(prefix: str, numbers: np.ndarray, digits: int) -> pa.Array:
    """Returns strings such as u000000017."""
    text = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")
    return pc.binary_join_element_wise(prefix, text, "")


def visits(rows: int) -> Iterator[pa.Table]:
    """Yields records of users with several partitions."""
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
    """Yields records of users with one partition each."""
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


def clicks(rows: int) -> Iterator[pa.Table]:
    """Yields records of skewed users and items. Two thirds of the records repeat another one.

    In 20 million records 380,000 users have 7.2 million distinct pairs.
    """
    rng = np.random.default_rng(rows)
    for n in batches(rows):
        user = power_ranks(rng, n, rows // 50, 1 / 0.9)
        item = power_ranks(rng, n, 50_000, 1.07)
        yield pa.table(
            {"user": numbered("customer-", user * 2654435761 % 999999937, 9),
             "partition": numbered("/shop/item/", item * 40503 % 99991, 5)}
        )  # fmt: skip


def purchases(rows: int) -> Iterator[pa.Table]:
    """Yields records with integer ids, among wide columns that are not read."""
    rng = np.random.default_rng(rows)
    done = 0
    for n in batches(rows):
        user = (0.1 * rows * rng.random(n) ** 1.5).astype(np.int64)
        item = power_ranks(rng, n, 1 + rows // 20, 1.05)
        note = pc.binary_join_element_wise(
            numbered("order ", item, 9), numbered("of ", user, 9), " "
        )
        cents = rng.integers(1, 100_000, n)
        yield pa.table(
            {"time": pa.array(done + np.arange(n)).cast(pa.timestamp("ms")),
             "user": user * 2654435761 % 999999937,
             "price": cents / 100,
             "partition": item * 2654435761 % 9999991,
             "note": note,
             "country": pa.array(np.take(np.array(["DE", "IT", "NO", "US"]), cents % 4))}
        )  # fmt: skip
        done += n


SHAPES = {make.__name__: make for make in (visits, clicks, passwords, purchases)}


def power_ranks(rng: np.random.Generator, n: int, ranks: int, exponent: float) -> np.ndarray:
    """Returns n draws from 0, ..., ranks - 1, with probabilities proportional to about
    (rank + 1)**-exponent."""
    power = 1 - exponent
    draws = (1 + rng.random(n) * ((ranks + 1.0) ** power - 1)) ** (1 / power)
    return np.minimum(draws.astype(np.int64), ranks) - 1


def hot_user(rows: int) -> Iterator[pa.Table]:
    """Yields records of a single user, each with a partition of its own."""
    done = 0
    for n in batches(rows):
        partition = numbered("item-", np.arange(done, done + n), 9)
        yield pa.table({"user": pa.repeat("u000000001", n), "partition": partition})
        done += n


def hot_partition(rows: int) -> Iterator[pa.Table]:
    """Yields records of a single partition, each with a user of its own."""
    for table in hot_user(rows):
        yield pa.table({"user": table["partition"], "partition": table["user"]})


def batches(rows: int) -> Iterator[int]:
    for start in range(0, rows, MILLION):
        yield min(MILLION, rows - start)


def write(path: pathlib.Path, tables: Iterator[pa.Table]) -> str:
    """Writes a file unless it exists, and returns its path. Its name decides the format: .csv,
    .csv.gz, .plain.parquet (without dictionaries) or .parquet."""
    if not path.exists():
        write_tables(path, tables, use_dictionary=path.suffixes[-2:] != [".plain", ".parquet"])
    return str(path)


def write_tables(
    path: pathlib.Path, tables: Iterator[pa.Table], row_group: int | None = None, **options: Any
) -> None:
    """Writes a CSV or Parquet file. ``options`` are those of Arrow's writer of Parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = next(tables)
    if path.suffix in (".csv", ".gz"):
        # By the suffix .gz, Arrow compresses the file.
        writer = pa.csv.CSVWriter(pa.output_stream(str(path)), first.schema)
    else:
        # Without a limit, each row group has a dictionary however many values it has, as some
        # engines write it.
        options["dictionary_pagesize_limit"] = 1 << 30
        writer = pq.ParquetWriter(path, first.schema, **options)
    with writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table, row_group)
