import datetime
import decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms import threads
from dp_transforms.errors import InputError
from dp_transforms.files import parquet_files
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.paths import FileRange

ANN_AND_BOB = pa.array(["ann", "bob"])


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array([1, 2], pa.int8()), [1, 2]),
        (pa.array([1, 2], pa.uint32()), [1, 2]),
        (pa.array([1, 2**64 - 1], pa.uint64()), ["1", "18446744073709551615"]),
        (pa.array(["a", "é"], pa.large_string()), ["a", "é"]),
        (pa.array(["a", "é"]).dictionary_encode(), ["a", "é"]),
        (pa.array([b"\xff", b""]), [b"\xff", b""]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([datetime.date(2009, 12, 4)] * 2), ["2009-12-04"] * 2),
        (pa.array([decimal.Decimal("1.50")] * 2), ["1.5"] * 2),
        (
            # Timestamps of 96 bits have any year.
            pa.array([datetime.datetime(9999, 12, 31), datetime.datetime(1600, 2, 29, 1)]),
            ["9999-12-31 00:00:00", "1600-02-29 01:00:00"],
        ),
    ],
)
def test_types_and_the_number_of_rows_that_the_footer_knows(tmp_path, array, values):
    path = str(tmp_path / "a.parquet")
    table = pa.table({"user": ANN_AND_BOB, "page": array})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    assert ParquetFiles().schema(path, ("page",)).field("page").type == pa.array(values).type
    (read,) = ParquetFiles().read(FileRange.whole(path), ("page",))
    assert read.to_pydict() == {"page": values}
    assert ParquetFiles().estimated_rows(path, 99) == 2


def test_codes_of_text_within_structs_of_several_row_groups(tmp_path):
    ids = ["ann", "bob", "ann"] * 100
    users = pa.StructArray.from_arrays([pa.array(ids).dictionary_encode()], ["id"])
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": users}), path, row_group_size=100)
    tables = ParquetFiles().read(FileRange.whole(path), ("user.id",))
    assert [user for table in tables for user in table["user.id"].to_pylist()] == ids


def test_some_row_groups_have_dictionaries_and_others_delta_encodings(tmp_path):
    path = str(tmp_path / "a.parquet")
    duckdb.sql(
        "COPY (SELECT if(n < 2048, 'same', 'user ' || n) AS user FROM range(4096) AS rows(n)) "
        f"TO '{path}' (ROW_GROUP_SIZE 2048, PARQUET_VERSION V2)"
    )
    (read,) = ParquetFiles().read(FileRange.whole(path), ("user",))
    users = ["same"] * 2048 + [f"user {n}" for n in range(2048, 4096)]
    assert read["user"].to_pylist() == users


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
    read_users = []
    for table in ParquetFiles().read(FileRange.whole(str(path)), ("user", "page")):
        read_users += table["user"].to_pylist()
        # The table, those that threads have and one that waits for them, of 100 rows or so each.
        assert sum(decoded) - len(read_users) + table.num_rows <= 110 * (threads.THREADS + 2)
    assert read_users == users


def test_repeated_columns_are_refused(tmp_path):
    table = pa.table([ANN_AND_BOB] * 3, names=["user", "x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="more than one column 'x'"):
        ParquetFiles().schema(str(tmp_path / "a.parquet"), ("user", "x"))
