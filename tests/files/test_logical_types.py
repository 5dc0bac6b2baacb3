"""Equal values are equal, whatever types of files hold them."""

import decimal
import uuid

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms import BoundContributions, JobSecret
from dp_transforms.beam.reading import ReadRecords
from dp_transforms.columnar.columns import decoded
from dp_transforms.errors import InputError
from dp_transforms.files.logical_types import logical_name, record_schema, record_table
from dp_transforms.files.record_files import RecordFiles
from tests.beam_runs import rows_of, run

SECRET = JobSecret.insecure_for_testing(3)
FAR = 10**12  # seconds: in the year 33658
TIMES = [
    (FAR * per_second, pa.timestamp(unit, zone))
    for unit, per_second in {"s": 1, "ms": 10**3, "us": 10**6}.items()
    for zone in (None, "UTC")
]
DAYS = [(FAR // 86400, pa.date32()), (FAR // 86400 * 86_400_000, pa.date64())]


def test_small_and_large_decimals_have_a_text_of_their_own(tmp_path):
    texts = ["0", "1", "10", "1E-30", "-1E-30", "1.2E-8", "100"]
    for scale in (30, 38):
        users = pa.array(map(decimal.Decimal, texts), pa.decimal256(60, scale))
        pq.write_table(pa.table({"user": users, "partition": texts}), tmp_path / "a.parquet")
        (table,) = RecordFiles(f"{tmp_path}/a.parquet", "user", ["partition"]).tables()
        assert decoded(table)["user"].to_pylist() == texts


def test_a_user_of_two_files_is_bounded_as_one(tmp_path):
    narrow = getattr(pa, "decimal32", pa.decimal128)  # from Arrow 18 on
    for i, kind in enumerate((pa.decimal128(10, 0), narrow(5, 2))):
        users = pa.array([decimal.Decimal(n) for n in range(200)], kind)
        table = pa.table({"user": users, "partition": [f"{i} {n}" for n in range(200)]})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    reader = ReadRecords(RecordFiles(str(tmp_path / "*.parquet"), "user", ["partition"]))
    kept = rows_of(run(lambda pipeline: pipeline | reader, BoundContributions(1, secret=SECRET)))
    assert len(kept) == len({user for user, _ in kept}) == 200


@pytest.mark.parametrize(("number", "kind"), [*TIMES, *DAYS])
def test_times_that_have_no_text_are_refused(tmp_path, number, kind):
    """Their text would be the number of their unit: one user would be two."""
    table = pa.table({"user": pa.array([number], kind), "partition": ["p"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds values that its types do not allow") as error:
        list(RecordFiles(f"{tmp_path}/a.parquet", "user", ["partition"]).tables())
    assert str(FAR) not in str(error.value)


def test_uuids_are_their_canonical_text(tmp_path):
    """In Arrow and in Avro, also of users."""
    ids = [uuid.UUID(int=number) for number in (0, 1, 2**128 - 1, 1)]
    column = pa.array([user_id.bytes for user_id in ids], pa.uuid())
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user": column, "partition": range(4)}), path)
    field = {"type": "string", "logicalType": "uuid"}
    fields = [{"name": "user", "type": field}, {"name": "partition", "type": "long"}]
    with open(tmp_path / "a.avro", "wb") as file:
        rows = [{"user": user_id, "partition": number} for number, user_id in enumerate(ids)]
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)
    for name in ("a.parquet", "a.avro"):
        source = RecordFiles(str(tmp_path / name), "user", ["partition"])
        (table,) = source.tables()
        assert table["user"].to_pylist() == list(map(str, ids))


def test_numbers_of_postgres_are_decimals():
    """Its driver gives them as text, in which equal numbers may have different zeros."""
    texts = ["1.50", "1.5", "0.00", "-2", "1e-3", None]
    kind = pa.opaque(pa.string(), "numeric", "PostgreSQL")
    column = pa.ExtensionArray.from_storage(kind, pa.array(texts))
    schema = record_schema("a query", pa.schema([("price", kind)]), ["price"])
    exact = pa.array([None if text is None else decimal.Decimal(text) for text in texts])
    known = record_schema("a file", pa.schema([("price", exact.type)]), ["price"])
    table = record_table(pa.table({"price": column}), schema)
    assert logical_name(schema.field(0)) == logical_name(known.field(0)) == "decimal"
    expected = record_table(pa.table({"price": exact}), known)
    assert table["price"].to_pylist() == expected["price"].to_pylist()
    assert table["price"].to_pylist()[0] == table["price"].to_pylist()[1] == "1.5"
    with pytest.raises(pa.ArrowInvalid):
        column = pa.ExtensionArray.from_storage(kind, pa.array(["NaN"]))
        record_table(pa.table({"price": column}), schema)
