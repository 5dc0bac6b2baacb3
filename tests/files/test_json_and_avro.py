import datetime
import decimal
import gzip
import json
import uuid

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_transforms.beam.reading import ReadRecords
from dp_transforms.errors import InputError
from dp_transforms.files import avro_files, json_lines
from dp_transforms.files.avro_files import AvroFiles
from dp_transforms.files.frame_records import RecordArguments
from dp_transforms.files.json_lines import JsonLines
from dp_transforms.files.logical_types import logical_name, stated_type
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.record_files import RecordFiles
from tests.beam_runs import rows_of, run

VISITS = [{"user": f"u{i % 90}", "page": i % 7, "more": [i, {"x": None}]} for i in range(200)]
PAIRS = sorted((visit["user"], visit["page"]) for visit in VISITS)
LINE = '{"user": "a", "page": "b"}'
NASTY = [
    *('{"a": 1}', '{"a": 1}, {"a": 2}', '{"a": [{"b": 1}', '{"c": 2}]}', '{"a": "x', 'y"}'),
    *("3}", '{"a": 1, "a": 2}', '{"a": -1e400}', '{"a": 12345678901234567890}', "[", "]", "{}"),
    *('{"a": 1}}', " \t", "", '\r{"a": 1}\r', '{"a": 1},', ',{"a": 1}', '"', "\ufeff{}", "1"),
]


def avro_record(name, kinds):
    fields = [{"name": field, "type": kind} for field, kind in kinds.items()]
    return {"type": "record", "name": name, "fields": fields}


def write(path, records, kinds=None, codec="null"):
    """Writes a file in the format of its name; Avro needs the kinds of fields. Gives its path."""
    if path.suffix == ".avro":
        with open(path, "wb") as file:
            fastavro.writer(file, avro_record("visit", kinds), records, codec)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path, row_group_size=70)
    else:
        with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    return str(path)


def pairs(name):
    """The records of VISITS as they are read from a file of this name: JSON lines give text."""
    return PAIRS if "json" not in name else sorted((user, str(page)) for user, page in PAIRS)


def read(file_format, path, columns):
    parts = file_format.split(str(path), path.stat().st_size)
    return [table for part in parts for table in file_format.read(part, columns)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz", "a.avro"])
def test_records_of_a_job(tmp_path, name):
    kinds = {"user": "string", "page": ["null", "long"]}
    reader = RecordFiles(write(tmp_path / name, VISITS, kinds, "deflate"), "user", ["page"])
    assert sorted(rows_of(run(lambda pipeline: pipeline | ReadRecords(reader)))) == pairs(name)
    assert [logical_name(field) for field in reader.partition_fields] == ["integer"]
    kind = "integer" if name == "a.avro" else "string"
    assert [stated_type(field) for field in reader.partition_fields] == [kind]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"user": "secret", "page": 1}', "null"], "a line is not one JSON object"),
        (['{"user": "secret", "page": 1}{"user": "b", "page": 1}'], "a line is not one JSON obj"),
        (['{"user": "secret",', '"page": 1}'], "a line is not one JSON object"),
        (['{"user": "\\ud800", "page": 1}'], "not all values of key 'user' are of the type"),
        (['{"user": "a", "page": 1.5}'], "not all values of key 'page'"),
        (['{"user": "a", "page": 1}', '{"user": "a", "page": true}'], "not all values of key 'pa"),
        (['{"user": "a", "page": 1}', '{"user": "a", "page": "1"}'], "all values of key 'page'"),
        (['{"user": "a", "page": 9223372036854775808}'], "integers of 64 bits"),
        (['{"user": "a", "secret": 1}'], "the first records have no key 'page'"),
        (["[" * 99_999], "a line is not one JSON object"),
    ],
)
def test_lines_that_are_no_records(tmp_path, lines, message):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=message) as error:
        read(JsonLines(), path, ("user", "page"))
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("before", [{"user": "b", "page": None}, {"user": "b"}])
def test_nulls_before_a_column_s_first_value(tmp_path, monkeypatch, before):
    path = write(tmp_path / "a.jsonl", [before] * 3000 + VISITS)
    reader = RecordFiles(path, "user", ["page"], drop_nulls=True)
    assert sorted(rows_of(reader.tables())) == pairs("a.jsonl")
    # Further on, they are not looked for.
    monkeypatch.setattr(json_lines, "_MOST_SAMPLES", 3)
    with pytest.raises(InputError, match=r"no key 'page'|'page' are of .* \(text, if the first"):
        list(RecordFiles(path, "user", ["page"], drop_nulls=True).tables())


@given(st.lists(st.sampled_from(NASTY)))
@example(['{"a": 1}, {"a": 2}', '{"a": [{"b": 1}', '{"c": 2}]}'])
@example(['{"a": 1}, 0, {"a": 2}', '{"a": [{"b": 1}', '{"c": 2}]}'])
def test_lines_parsed_together_are_those_parsed_one_by_one(lines):
    marked = [line.removeprefix("\ufeff") for line in lines]
    try:
        expected = [json.loads(line) for line in marked if line.strip()]
        assert all(isinstance(record, dict) for record in expected)
    except (ValueError, AssertionError):
        expected = None
    try:
        records = json_lines._records("path", "\n".join(lines).encode())
    except InputError:
        records = None
    assert records == expected


@pytest.mark.parametrize(
    "lines",
    [
        # As many objects as lines, but not one on each.
        ['{"user": "a", "page": "b", "x":', LINE + "}", LINE + LINE],
        ['{"user": "a", "page": "b", "x": {}', ", " + LINE[1:], LINE + LINE],
        ['{"user": "a", "page": "{}', '{}"}', LINE + LINE],
        [LINE + "\r" + LINE, "{" + LINE[1:-1], "}"],
        [LINE, LINE + "\x00"],
        [LINE, LINE + " " + LINE],
        [LINE, "null"],
        [LINE, '{"user": "a", "page": "\\udc00"}'],
        [LINE, '{"user": "a", "page": "\x1f"}'],
        [LINE, '{"user": "a", "page": "b", "x": ' + 10**5 * "[" + 10**5 * "]" + "}"],
        [LINE, '{"user": "a", "page": "b", "x": ' + 5000 * "1" + "}"],
    ],
)
def test_lines_that_another_parser_may_read(tmp_path, monkeypatch, lines):
    monkeypatch.setattr(json_lines, "_SAMPLE_LINES", 2)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{line}\n" for line in [LINE] * 2 + lines), newline="")
    with pytest.raises(InputError, match=r"JSON object|are of the type of the first one"):
        list(RecordFiles(str(path), "user", ["page"], drop_nulls=True).tables())


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name} | more


AT = datetime.datetime(2024, 1, 3, 4, 5, 6, 500_000, datetime.timezone.utc)
LOCAL = datetime.datetime(2024, 1, 3, 4, 5, 6)
DECIMAL = logical("bytes", "decimal", precision=9, scale=2)
TYPED = {
    "day": (logical("int", "date"), datetime.date(2024, 1, 3), pa.date32()),
    "at": (logical("long", "timestamp-millis"), AT, pa.timestamp("ns", "Asia/Tokyo")),
    "local": (logical("long", "local-timestamp-micros"), LOCAL, pa.timestamp("s")),
    "price": (DECIMAL, decimal.Decimal("1.50"), pa.decimal128(12, 5)),
    "flag": ("boolean", True, pa.bool_()),
    "kind": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, "b", pa.string()),
    "code": ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2)),
}


def test_avro_and_parquet_give_the_same_values(tmp_path):
    record = {name: value for name, (_, value, _) in TYPED.items()}
    write(tmp_path / "a.avro", [record], {name: kind for name, (kind, _, _) in TYPED.items()})
    columns = {name: pa.array([value], kind) for name, (_, value, kind) in TYPED.items()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    contents = []
    for file_format, name in ((AvroFiles(), "a.avro"), (ParquetFiles(), "a.parquet")):
        schema = file_format.schema(str(tmp_path / name), [*TYPED])
        (table,) = read(file_format, tmp_path / name, [*TYPED])
        contents.append((table.to_pylist(), [logical_name(field) for field in schema]))
    assert contents[0] == contents[1]


@pytest.mark.parametrize("fixed", [False, True])
def test_uuids_and_types_that_are_given_by_name_where_they_are_needed_again(tmp_path, fixed):
    id_kind = logical("string", "uuid")
    if fixed:
        id_kind |= {"type": "fixed", "name": "Id", "size": 16}
    node = avro_record("Node", {"id": id_kind})
    ids = [node_id.bytes if fixed else node_id for node_id in (uuid.UUID(int=7), uuid.UUID(int=8))]
    record = {"user": {"id": ids[0]}, "page": {"id": ids[1]}}
    write(tmp_path / "a.avro", [record], {"user": node, "page": ["null", "Node"]})
    rows = rows_of(read(AvroFiles(), tmp_path / "a.avro", ("user.id", "page.id")))
    assert rows == [tuple(f"00000000-0000-0000-0000-00000000000{n}" for n in (7, 8))]


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"user": "string", "other": "long"}, "no column 'page': check the name"),
        ({"user": "string", "page": "double"}, "'page' has a type in which it is not clear"),
        ({"user": "string", "page": ["int", "string"]}, "'page' has a type in which"),
        ({"user": "string", "page": logical("long", "time-micros")}, "'page' has"),
        ({"user": "string", "page": {"type": "array", "items": "int"}}, "'page' has a type"),
    ],
)
def test_avro_fields_that_do_not_fit(tmp_path, kinds, message):
    path = write(tmp_path / "a.avro", [], kinds)
    with pytest.raises(InputError, match=message):
        RecordFiles(path, "user", ["page"])


def test_avro_that_is_none_or_cut_short(tmp_path):
    path = tmp_path / "a.avro"
    path.write_bytes(b"secret")
    with pytest.raises(InputError, match="is not an Avro file"):
        AvroFiles().schema(str(path), ("user",))
    write(path, [{"user": "secret"}] * 9, {"user": "string"})
    size = path.stat().st_size
    assert 9 <= AvroFiles().estimated_rows(str(path), size) < 30
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read to its end") as error:
        read(AvroFiles(), path, ("user",))
    assert "secret" not in str(error.value)
    # A length of 2**62 bytes, of the schema and of a block.
    length = b"\xfe" + b"\xff" * 7 + b"\x7f"
    path.write_bytes(b"Obj\x01\x02" + length)
    with pytest.raises(InputError, match="is not an Avro file"):
        AvroFiles().schema(str(path), ("user",))
    write(path, [], {"user": "string"})
    path.write_bytes(path.read_bytes() + b"\x02" + length)
    with pytest.raises(InputError, match="cannot be read to its end"):
        read(AvroFiles(), path, ("user",))


NESTED = [{"user": {"id": f"u{i % 90}", "deep": {"page": i % 7}}} for i in range(200)]
DEEP = ["null", avro_record("d", {"page": "int"})]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.avro"])
def test_nested_keys(tmp_path, name):
    kinds = {"user": ["null", avro_record("u", {"id": "string", "deep": DEEP})]}
    path = write(tmp_path / name, NESTED, kinds)
    reader = RecordFiles(path, "user.id", ["user.deep.page"])
    assert sorted(rows_of(reader.tables())) == pairs(name)
    assert [field.name for field in reader.partition_fields] == ["user.deep.page"]
    for column in ("user.page", "user.deep.page.more", "user.deep"):
        with pytest.raises(InputError, match=r"no column|no key|not clear which|not all"):
            RecordFiles(path, "user.id", [column])


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_column_with_a_dot_in_its_name_comes_first(tmp_path, name):
    path = write(tmp_path / name, [{"user.id": "a", "user": {"id": "nested"}, "page": "home"}])
    (table,) = RecordFiles(path, "user.id", ["page"]).tables()
    assert table["user"].to_pylist() == ["a"]


def test_structs_that_are_null_have_null_fields(tmp_path):
    rows = [{"user": user, "page": "x"} for user in ({"id": "a"}, None)]
    kinds = {"user": ["null", avro_record("u", {"id": "string"})], "page": "string"}
    for data in (write(tmp_path / "a.avro", rows, kinds), rows):
        (table,) = RecordArguments(data, "user.id", "page", drop_nulls=True).open().tables()
        assert table["user"].to_pylist() == ["a"]
    mask = pa.array([False, True, False])
    users = pa.StructArray.from_arrays([pa.array(["a", "b", "c"])], names=["id"], mask=mask)
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"user": users, "page": ["x", "y", "z"]}), path)
    with pytest.raises(InputError, match="without a user"):
        list(RecordFiles(path, "user.id", ["page"]).tables())
    (table,) = RecordFiles(path, "user.id", ["page"], drop_nulls=True).tables()
    assert table["user"].to_pylist() == ["a", "c"]


@pytest.mark.parametrize(("codec", "package"), [("snappy", "cramjam"), ("lz4", "lz4")])
def test_a_missing_codec_is_named_with_its_package(tmp_path, monkeypatch, codec, package):
    path = tmp_path / "a.avro"
    with open(path, "wb") as file:
        fields = [{"name": "user", "type": "string"}, {"name": "page", "type": "string"}]
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, VISITS[:0])
    length = bytes([2 * len(codec)])
    path.write_bytes(path.read_bytes().replace(b"\x08null", length + codec.encode(), 1))
    monkeypatch.setattr(avro_files, "_is_installed", lambda module: False)
    message = f"is compressed by {codec}, whose codec is not installed: pip install {package}"
    with pytest.raises(InputError, match=message):
        RecordFiles(str(path), "user", ["page"])
    monkeypatch.setattr(avro_files, "_is_installed", lambda module: module == package)
    assert list(RecordFiles(str(path), "user", ["page"]).tables()) == []
