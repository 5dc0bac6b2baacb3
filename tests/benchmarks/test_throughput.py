"""The benchmark compares like with like, and memory stays below the limit of the README."""

import collections

import pyarrow.parquet as pq
import pytest

from benchmarks.throughput import duckdb, duckdb_arg_min, measure_once
from benchmarks.throughput_data import MILLION, SHAPES, hot_partition, hot_user, write
from dp_transforms import BoundContributions, CountDistinctUsers
from tests.beam_runs import rows_of, run
from tests.cases import slow_unless

LIMIT_GIBIBYTES = 1.0


@pytest.mark.parametrize("make", slow_unless(SHAPES.values(), [SHAPES["visits"]]))
def test_duckdb_and_the_transforms_do_the_same(tmp_path, make):
    pytest.importorskip("duckdb", reason="DuckDB is for benchmarks")
    path = write(tmp_path / "records.parquet", make(20_000))
    table = pq.read_table(path, columns=["user", "partition"])
    pairs = set(zip(*(column.to_pylist() for column in table.columns), strict=True))
    most = 10_000
    for max_partitions in (1, 10, most):
        ours = rows_of(run([table], BoundContributions(max_partitions), CountDistinctUsers()))
        theirs = duckdb(path, max_partitions)()
        assert sorted(duckdb_arg_min(path, max_partitions)()) == sorted(theirs)
        kept = sum(
            min(n, max_partitions) for n in collections.Counter(user for user, _ in pairs).values()
        )
        # They keep different partitions of a user, but as many.
        assert sum(count for _, count in ours) == kept
        assert sum(count * partitions for count, partitions in theirs) == kept
    # Nothing is dropped by the last bound.
    assert dict(theirs) == collections.Counter(count for _, count in ours)


@pytest.mark.slow
@pytest.mark.parametrize("make", [hot_user, hot_partition])
def test_skew_stays_below_the_limit_of_memory(tmp_path, make):
    path = write(tmp_path / "records.parquet", make(10 * MILLION))
    assert measure_once("files", path, 10).gibibytes < LIMIT_GIBIBYTES
