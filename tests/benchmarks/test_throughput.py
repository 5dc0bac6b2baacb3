import collections

import pytest

from benchmarks.throughput import duckdb, duckdb_arg_min, measure_once
from benchmarks.throughput_data import MILLION, hot_partition, hot_user
from benchmarks.throughput_data import write as write_records
from benchmarks.throughput_shapes import Shape, polars
from dp_transforms import JobSecret
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.releases import ListSpec
from tests.beam_runs import rows_of
from tests.in_process_engine import NoNoise, in_process

LIMIT_GIBIBYTES = 1.0


@pytest.mark.thorough
@pytest.mark.parametrize("seed, suffix", [(1, "parquet"), (9, "csv"), (2, "jsonl")])
def test_all_engines_do_the_same(tmp_path, seed, suffix):
    pytest.importorskip("duckdb", reason="DuckDB is for benchmarks")
    shape = Shape.draw(seed, 20_000)
    path = shape.write(tmp_path, suffix)
    files = RecordFiles(path, "user", ["partition"])
    pairs = set(rows_of(table.select(["user", "partition"]) for table in files.tables()))
    degrees = collections.Counter(user for user, _ in pairs).values()
    most = 20_000
    for max_partitions in (1, 10, most):
        engine = in_process(files.tables(), JobSecret.from_os(), 16)
        ours = dict(*engine.frequency_list(ListSpec(NoNoise(max_partitions)))[0])
        of_peers = [
            duckdb(path, max_partitions)(),
            duckdb_arg_min(path, max_partitions)(),
            polars(path, max_partitions)().rows(),
        ]
        kept = sum(min(n, max_partitions) for n in degrees)
        # They keep different partitions of a user, but as many.
        for released in (ours.items(), *of_peers):
            assert sum(count * partitions for count, partitions in released) == kept
    # Nothing is dropped by the last bound.
    assert all(dict(released) == ours for released in of_peers)


@pytest.mark.slow
@pytest.mark.parametrize("make", [hot_user, hot_partition])
def test_skew_stays_below_the_limit_of_memory(tmp_path, make):
    path = write_records(tmp_path / "records.parquet", make(10 * MILLION))
    assert measure_once("files", path, 10).gibibytes < LIMIT_GIBIBYTES
