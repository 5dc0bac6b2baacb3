"""Readers under damaged files: records or a clear error, always an end, never data in a message."""

import gzip
import io
import itertools

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_transforms.errors import InputError
from dp_transforms.files.avro_files import AvroFiles
from dp_transforms.files.delimited_text import DelimitedText
from dp_transforms.files.json_lines import JsonLines
from dp_transforms.files.parquet_files import ParquetFiles
from dp_transforms.files.paths import FileRange
from dp_transforms.mechanisms import FrequencyList
from pipelines import release_frequency_list
from tests.fuzzing.shared import MARKER, damaged, fuzz, no_hang
from tests.fuzzing.test_reading import FORMATS

COLUMNS = ("user", "page")
RECORDS = f"user,page\nann,{MARKER}\n{MARKER},home\n".encode()
TEXTS = [
    RECORDS,
    RECORDS * 3,
    RECORDS.replace(b"\n", b"\r\n"),
    f'page,user,x\n"{MARKER}",b,""\n"a ""{MARKER}""",c,"d,e"\n'.encode(),
    f"1,{MARKER}\n2,b\n".encode(),
    b"",
]
PIECES = [
    *[b",", b",,", b"," * 99, b'"', b'""', b'"""', b"PK\3\4", b"\x1f\x8b\x08", b"PAR1"],
    *[b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\t", b";", b"'"],
    *[b"user", b"page", MARKER.encode()],
]
OBJECTS = [
    f'{{"user": "ann", "page": "{MARKER}"}}\n{{"page": "home", "user": "{MARKER}"}}\n'.encode(),
    f'{{"user": 1, "page": null, "{MARKER}": [{{}}]}}\r\n\n{{"page": true, "user": 2}}'.encode(),
]
TEXT_FILES = st.tuples(FORMATS, damaged(TEXTS, PIECES))
JSON_FILES = st.tuples(
    st.just(JsonLines()),
    damaged(OBJECTS, [*PIECES, b"null", b"{", b"}", b"[", b'":1', b"1e9", b"\\ud800"]),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzzed")


@no_hang()
def read(file_format, path, content, columns=COLUMNS, cuts=()):
    """The table of a file that is read in ranges, or None if there was a clear error."""
    path.write_bytes(content)
    try:
        schema = file_format.schema(str(path), columns)
        assert schema.names == list(columns)
        size = path.stat().st_size
        assert file_format.estimated_rows(str(path), size) >= 0
        ranges = list(file_format.split(str(path), size))
        if size and cuts and len(ranges) == 1 and ranges[0].stop == size:
            ends = [0, *sorted({cut % size for cut in cuts} - {0}), size]
            ranges = [FileRange(str(path), start, stop) for start, stop in itertools.pairwise(ends)]
        tables = [table for part in ranges for table in file_format.read(part, columns)]
    except InputError as error:
        assert MARKER not in str(error)
        assert "\n" not in str(error) and len(str(error)) < 500
        return None
    for table in tables:
        assert table.column_names == list(columns)
        table.validate(full=True)
    return pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in tables)])


@pytest.mark.parametrize("files", [TEXT_FILES, JSON_FILES], ids=["delimited text", "JSON lines"])
@fuzz
@given(data=st.data(), cuts=st.lists(st.integers(1, 10_000), max_size=3))
def test_where_workers_cut_a_file_changes_nothing(directory, files, data, cuts):
    """Neither what is read nor whether it can be."""
    file_format, content = data.draw(files)
    columns = COLUMNS if getattr(file_format, "header", True) else ("1", "2")
    path = directory / "records"
    whole = read(file_format, path, content, columns)
    parts = read(file_format, path, content, columns, cuts)
    assert (whole is None) == (parts is None)
    assert whole is None or whole.equals(parts)


@fuzz
@given(data=st.data(), content=damaged(TEXTS, PIECES, most=1), name=st.sampled_from(["gz", "bz2"]))
def test_compressed_text(directory, data, content, name):
    compressed = gzip.compress(content, mtime=0) if name == "gz" else b"BZh9" + content
    read(DelimitedText(), directory / f"a.{name}", data.draw(damaged([compressed], PIECES)))


def parquet_file(user, page, **options):
    sink = io.BytesIO()
    pq.write_table(pa.table({"user": user, "page": page}), sink, **options)
    return sink.getvalue()


NAMES = [f"{MARKER}{i}" for i in range(40)]
PARQUETS = [
    parquet_file(NAMES, NAMES, compression="none", use_dictionary=False),
    parquet_file(NAMES, list(range(40)), row_group_size=7),
    parquet_file([None, *NAMES], [b"\xff" + name.encode() for name in ["", *NAMES]]),
    parquet_file([1.5], [[1]]),
]


@fuzz
@given(
    content=damaged(PARQUETS, [b"PAR1", b"\0\0\0\0", b"\xff\xff\xff\x7f", MARKER.encode()]),
    columns=st.sampled_from([COLUMNS, ("page", "user"), ("user", "uid")]),
)
@example(content=PARQUETS[0].replace(b"user", b"us\xf2r"), columns=COLUMNS)
def test_parquet(directory, content, columns):
    read(ParquetFiles(), directory / "records.parquet", content, columns)


def avro_file(kind, values, codec="null"):
    fields = [{"name": "user", "type": "string"}, {"name": "page", "type": kind}]
    records = [{"user": f"{MARKER}{i}", "page": value} for i, value in enumerate(values)]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": MARKER, "fields": fields}, records, codec)
    return sink.getvalue()


AVROS = [
    avro_file("string", NAMES),
    avro_file(["null", "long"], [None, 7] * 9, "deflate"),
    avro_file({"type": "int", "logicalType": "date"}, [7, 8]),
]
# The number of records is behind the first of two marks of 16 bytes.
_HEADER = AVROS[0].index(AVROS[0][-16:]) + 16
NEGATIVE = AVROS[0][:_HEADER] + b"\1" + AVROS[0][_HEADER + 1 :]


@fuzz
@given(content=damaged(AVROS, [b"Obj\1", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"string", b"null"]))
@example(content=NEGATIVE)
def test_avro(directory, content):
    read(AvroFiles(), directory / "records.avro", content)


HEAD = b"frequency,multiplicity\n"
LISTS = [HEAD, HEAD + b"77,1\n7,77\n1,777\n"]
LISTS += [b"\xef\xbb\xbffrequency,multiplicity\r\n77,1\r\n"]
ENTRIES = [
    *[b"77,1\n", b"0,77\n", b"-77,1\n", b"nan,77\n", b"7e7,1\n", b"77.5,1\n", b"7_7,1\n"],
    *["\u0667,1\n".encode(), b"9223372036854775807,1\n", b"9223372036854775808,1\n"],
    *[b'"', b"\0", b"\xff", b",", b"\r", b"7" * 300],
]


@fuzz
@given(content=damaged(LISTS, ENTRIES))
def test_frequency_lists(directory, failure, content):
    """A list that is read is written again and read; a job shows nothing of another file."""
    path, again, output = (directory / name for name in ("counts.csv", "again.csv", "out"))
    path.write_bytes(content)
    with no_hang():
        try:
            frequency_list = FrequencyList.from_csv(path)
        except ValueError:
            promised = ["--epsilon=1", "--max_partitions_per_user=1"]
            flags = [f"--frequency_list={path}", f"--output={output}", *promised]
            message = failure(1, "", release_frequency_list.main, flags)
            assert "77" not in message.replace(str(path), "")
            assert not output.exists()
        else:
            frequency_list.to_csv(again)
            assert FrequencyList.from_csv(again) == frequency_list
