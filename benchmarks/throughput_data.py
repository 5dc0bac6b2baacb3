"""Records for the benchmark of throughput, made up and always the same."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

MILLION = 1_000_000


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
