"""Equal values are equal, whatever types of files hold them."""

import datetime
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms import BoundContributions, JobSecret
from dp_transforms.columnar.columns import decoded
from dp_transforms.errors import InputError
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.paths import FileRange
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.transforms.reading import ReadRecords
from tests.beam_runs import rows_of, run

SECRET = JobSecret.insecure_for_testing(3)
START = datetime.datetime(2026, 1, 1)


def exact(number):
    return decimal.Decimal(number) / 4


TYPES = {
    "integer": (int, [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64()]),
    "unsigned": (int, [pa.uint64()]),
    "decimal": (exact, [pa.decimal128(5, 2), pa.decimal128(38, 30), pa.decimal256(60, 22)]),
    "string": (str, [pa.string(), pa.large_string()]),
    "binary": (
        lambda n: b"%04d" % n,
        [pa.binary(), pa.large_binary(), pa.binary(4)],
    ),
    "boolean": (lambda n: n % 2 == 0, [pa.bool_()]),
    "date": (lambda n: START.date() + datetime.timedelta(n), [pa.date32(), pa.date64()]),
    "timestamp": (
        lambda n: START + datetime.timedelta(seconds=n),
        [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")],
    ),
    "instant": (
        lambda n: (START + datetime.timedelta(seconds=n)).replace(tzinfo=datetime.timezone.utc),
        [pa.timestamp(unit, zone) for unit in ("ms", "ns") for zone in ("UTC", "Europe/Oslo")],
    ),
}
PHYSICAL = [(name, kind) for name, (_, kinds) in TYPES.items() for kind in kinds]


def write(path, name, kind, numbers, **options):
    users = pa.array([TYPES[name][0](n) for n in numbers], kind)
    partitions = [f"p{i}" for i in range(len(numbers))]
    pq.write_table(pa.table({"user": users, "partition": partitions}), path, **options)


def read(path):
    """The users of the files of a glob, whose schemas have been compared, one table for each."""
    RecordFiles(str(path), "user", ["partition"])
    parts = [FileRange(str(file), 0, 1 << 40) for file in sorted(path.parent.glob(path.name))]
    return [table for part in parts for table in ParquetFiles().read(part, ("user",))]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=9),
    st.sampled_from(PHYSICAL),
    st.sampled_from(PHYSICAL),
    st.booleans(),
)
def test_two_files_have_the_same_users_or_there_is_an_error(
    tmp_path_factory, numbers, one, other, plain
):
    directory = tmp_path_factory.mktemp("pair")
    write(directory / "a.parquet", *one, numbers)
    write(directory / "b.parquet", *other, numbers, use_dictionary=not plain)
    if one[0] != other[0]:
        with pytest.raises(InputError, match=r"'user' is read as .* give both the same type"):
            read(directory / "*.parquet")
        return
    first, second = (decoded(table)["user"] for table in read(directory / "*.parquet"))
    assert first.type == second.type
    assert first.to_pylist() == second.to_pylist()
    values = {TYPES[one[0]][0](n) for n in numbers}
    assert len(set(first.to_pylist())) == len(values)


def test_small_and_large_decimals_have_a_text_of_their_own(tmp_path):
    numbers = [
        decimal.Decimal(text) for text in ("0", "1", "10", "1E-30", "-1E-30", "1.2E-8", "100")
    ]
    texts = []
    for i, scale in enumerate((30, 38)):
        table = pa.table(
            {"user": pa.array(numbers, pa.decimal256(60, scale)), "partition": ["p"] * 7}
        )
        pq.write_table(table, tmp_path / f"{i}.parquet")
        (found,) = read(tmp_path / f"{i}.parquet")
        texts.append(decoded(found)["user"].to_pylist())
    assert texts[0] == texts[1] == ["0", "1", "10", "1E-30", "-1E-30", "1.2E-8", "100"]


def test_a_user_of_two_files_is_bounded_as_one(tmp_path):
    for i, kind in enumerate((pa.decimal128(10, 0), pa.decimal128(12, 2))):
        users = pa.array([decimal.Decimal(n) for n in range(200)], kind)
        partitions = [f"{i} {n}" for n in range(200)]
        pq.write_table(
            pa.table({"user": users, "partition": partitions}), tmp_path / f"{i}.parquet"
        )
    reader = ReadRecords(RecordFiles(str(tmp_path / "*.parquet"), "user", ["partition"]))
    kept = rows_of(run(lambda pipeline: pipeline | reader, BoundContributions(1, secret=SECRET)))
    assert len(kept) == len({user for user, _ in kept}) == 200


FAR = 10**12  # seconds: in the year 33658


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_that_have_no_text_are_refused(tmp_path, unit, zone):
    """Their text would be the number of their unit: one user would be two."""
    times = pa.array([FAR * {"s": 1, "ms": 10**3, "us": 10**6}[unit]], pa.timestamp(unit, zone))
    pq.write_table(pa.table({"user": times, "partition": ["p"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds values that its types do not allow") as error:
        read(tmp_path / "a.parquet")
    assert str(FAR) not in str(error.value)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_that_have_no_text_are_refused(tmp_path, kind):
    days = FAR // 86400
    dates = pa.array([days if kind == pa.date32() else days * 86_400_000]).cast(
        pa.int32() if kind == pa.date32() else pa.int64()
    )
    pq.write_table(pa.table({"user": dates.cast(kind), "partition": ["p"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="holds values that its types do not allow"):
        read(tmp_path / "a.parquet")
