import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.errors import InputError
from dp_transforms.files import parquet_files
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.paths import FileRange
from dp_transforms.runtime import threads

ANN_AND_BOB = pa.array(["ann", "bob"])


def write(path, table, **options):
    pq.write_table(table, path, **options)
    return str(path)


def read(path, columns, cuts=(1 << 40,)):
    tables = []
    for start, stop in zip((0, *cuts), cuts, strict=False):
        tables += ParquetFiles().read(FileRange(path, start, stop), columns)
    return pa.concat_tables(tables).to_pydict()


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([1, 2], pa.int8()), pa.int64(), [1, 2]),
        (pa.array([1, 2], pa.uint32()), pa.int64(), [1, 2]),
        (pa.array([1, 2**64 - 1], pa.uint64()), pa.string(), ["1", "18446744073709551615"]),
        (pa.array(["a", "é"], pa.large_string()), pa.string(), ["a", "é"]),
        (pa.array(["a", "é"]).dictionary_encode(), pa.string(), ["a", "é"]),
        (pa.array([b"\xff", b""]), pa.binary(), [b"\xff", b""]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), pa.binary(), [b"ab", b"cd"]),
        (pa.array([True, False]), pa.string(), ["true", "false"]),
        (pa.array([datetime.date(2009, 12, 4)] * 2), pa.string(), ["2009-12-04"] * 2),
        (pa.array([decimal.Decimal("1.50")] * 2), pa.string(), ["1.5"] * 2),
    ],
)
def test_types(tmp_path, array, kind, values):
    path = write(tmp_path / "a.parquet", pa.table({"user": ANN_AND_BOB, "page": array}))
    assert ParquetFiles().schema(path, ("page",)).field("page").type == kind
    assert read(path, ("page",)) == {"page": values}


def test_timestamps_of_96_bits_have_any_year(tmp_path):
    times = pa.array([datetime.datetime(9999, 12, 31), datetime.datetime(1600, 2, 29, 1)])
    table = pa.table({"user": ANN_AND_BOB, "page": times})
    path = write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True)
    assert read(path, ("page",)) == {"page": ["9999-12-31 00:00:00", "1600-02-29 01:00:00"]}


@pytest.mark.parametrize(
    ("limit", "at_most", "sizes"),
    [
        pytest.param("BATCH_ROWS", 100, [10_000], id="a large row group"),
        pytest.param("BATCH_ROWS", 100, [60] * 20 + [5_000] * 2 + [60], id="large and small ones"),
        # User and page of a row are 28 bytes in the file.
        pytest.param("BATCH_BYTES", 2_800, [10_000], id="large in bytes"),
    ],
)
def test_few_batches_are_held_whatever_the_row_groups_are(
    tmp_path, monkeypatch, limit, at_most, sizes
):
    users = [f"{i:08d}" for i in range(sum(sizes))]
    table = pa.table({"user": users, "page": pa.array(users, pa.binary())})
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, table.schema, use_dictionary=False) as writer:
        for i, size in enumerate(sizes):
            writer.write_table(table.slice(sum(sizes[:i]), size))
    decoded = []
    iter_batches = pq.ParquetFile.iter_batches

    def count(self, *args, **kwargs):
        for batch in iter_batches(self, *args, **kwargs):
            decoded.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", count)
    monkeypatch.setattr(parquet_files, limit, at_most)
    found = []
    for table in ParquetFiles().read(FileRange(str(path), 0, 1 << 40), ("user", "page")):
        found += table["user"].to_pylist()
        # The table, those that threads have and one that waits for them, of 100 rows or so each.
        assert sum(decoded) - len(found) + table.num_rows <= 110 * (threads.THREADS + 2)
    assert found == users


def test_the_footer_knows_the_number_of_rows(tmp_path):
    path = write(tmp_path / "a.parquet", pa.table({"user": ["ann"] * 1234}))
    assert ParquetFiles().estimated_rows(path, 99) == 1234


def test_missing_and_repeated_columns(tmp_path):
    table = pa.table([ANN_AND_BOB, ANN_AND_BOB, ANN_AND_BOB], names=["user", "x", "x"])
    path = write(tmp_path / "a.parquet", table)
    with pytest.raises(InputError, match="no column 'page': its columns are user, x, x"):
        ParquetFiles().schema(path, ("user", "page"))
    with pytest.raises(InputError, match="more than one column 'x'"):
        ParquetFiles().schema(path, ("user", "x"))
