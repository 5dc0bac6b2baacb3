"""One user's records do not change how others' are read, unless the input is refused.

Records are written and batched in hostile ways, and read beside a slow reader that sees one record
at a time. Either the whole is refused, or what is found is what the slow reader finds; so too where
one user's records are left out.
"""

import collections
import datetime
import decimal
import fractions
import gzip
import itertools
import json
from unittest import mock

import apache_beam as beam
import duckdb
import fastavro
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import FileMetadata
from hypothesis import event, given
from hypothesis import strategies as st

from dp_transforms.beam.batching import objects
from dp_transforms.beam.records import RecordKind, table_from
from dp_transforms.columnar.columns import (
    check_alike,
    coded_table,
    concat,
    decoded,
    plain,
    types_of,
    without_nulls,
)
from dp_transforms.errors import InputError
from dp_transforms.files import json_lines, parquet_files, text_lines
from dp_transforms.files.database import query_of
from dp_transforms.files.delimited_text import DelimitedText
from dp_transforms.files.filenames import periods_of
from dp_transforms.files.json_lines import JsonLines
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.runtime.python_values import column_of, has_null
from tests.fuzzing.shared import MARKER, fuzz, no_hang

RECORD = ("user", "partition")
USERS = ["ann", "bob", "cyd"]
REFUSED = (InputError, TypeError, ValueError)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("reading")


def agree(records, read, slow, data):
    """Reads all records, and all but those of one user: of (user, what is read) pairs, ``read``
    makes a list of what comes out of all, or refuses, and ``slow`` of what comes out of one."""
    left_out = data.draw(st.sampled_from(USERS))
    for some in (records, [record for record in records if record[0] != left_out]):
        with no_hang():
            try:
                rows = read([source for _, source in some])
            except REFUSED as error:
                assert MARKER not in str(error) and "\n" not in str(error)
                event("refused")
                continue
        event("read")
        expected = [row for _, source in some for row in slow(source)]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


def in_batches(values, size):
    return [values[i : i + size] for i in range(0, len(values), size)]


LETTERS = ["a", "b", "é", "e\u0301", "\u00c5", "\u212b", "表", "ソ", "x" * 70, MARKER]
INVISIBLE = [" ", "", "\0", "\ufeff", "\u2028", "\x85", "\x0b"]
LIKE_OTHERS = ["0", "007", "NA", "null", "NaN", "-0.0", "1e3", "true"]
STRUCTURE = [",", ";", "|", "\t", '"', '""', "\r", "\r\n", "\n", "\\", "'", "+ACI-", "~{", "\x1b$B"]
PIECES = st.sampled_from([*LETTERS, *INVISIBLE, *LIKE_OTHERS, *STRUCTURE])
TEXT = st.lists(PIECES, max_size=3).map("".join)


def fields_of(text, delimiter, quotes, strict):
    """The records of a text, character by character; a field with nothing in it is None."""
    records, record, at = [], [], 0
    while at < len(text):
        value, quoted = "", quotes and text[at] == '"'
        if quoted:
            at += 1
            while text[at : at + 2] == '""' or text[at] != '"':
                value += text[at]
                at += 2 if text[at] == '"' else 1
            at += 1
        start = at
        while text[at : at + 1] not in ("", delimiter, "\r", "\n"):
            assert not (strict and (quoted or text[at] == '"'))
            at += 1
        value += text[start:at]
        record.append(value if value or quoted else None)
        if text[at : at + 1] == delimiter:
            at += 1
            if text[at : at + 1] not in ("", "\r", "\n"):
                continue
            record.append(None)
        if record != [None]:
            records.append(record)
        record = []
        assert text[at : at + 1] != "\r" or text[at : at + 2] in ("\r", "\r\n")
        at += 2 if text[at : at + 1] == "\r" else 1
    return records


FORMATS = st.builds(
    DelimitedText,
    delimiter=st.sampled_from([",", ";", "|", "\t"]),
    header=st.booleans(),
    multiline=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8", "latin-1", "shift_jis", "gb18030"]),
) | st.builds(DelimitedText, header=st.booleans(), quotes=st.just(False))


@st.composite
def lines(draw, text_format, raw):
    """A record as text in a file, with its line end: written as it should be, or raw."""
    parts = []
    for _ in range(3):
        text = draw(TEXT)
        if not raw and text_format.quotes:
            if draw(st.booleans()) or any(c in text for c in f'{text_format.delimiter}"\r\n'):
                text = '"{}"'.format(text.replace('"', '""'))
        elif not raw:
            text = "".join(c for c in text if c not in f"{text_format.delimiter}\r\n")
        parts.append(text.encode(text_format.encoding, "ignore").decode(text_format.encoding))
    return text_format.delimiter.join(parts) + draw(st.sampled_from(["\n", "\r\n"]))


@fuzz
@given(data=st.data(), text_format=FORMATS)
def test_text(directory, data, text_format):
    """With ``multiline`` one record is raw: two, with a quote each, can make one of all between."""
    size = data.draw(st.integers(1, 6))
    anywhere = data.draw(st.integers(0, size))
    records = []
    for place in range(size):
        raw = place == anywhere or (not text_format.multiline and data.draw(st.booleans()))
        line = data.draw(lines(text_format, raw))
        # A mark at the beginning of a file is the file's.
        line = line.lstrip("\ufeff") if not text_format.header else line
        records.append((data.draw(st.sampled_from(USERS)), line))
    cuts = data.draw(st.lists(st.integers(0, size), max_size=2))
    ranges = data.draw(st.sampled_from([10, 30, 1 << 20]))
    header = text_format.delimiter.join(["user", "page", "note"]) + "\n"
    packed = data.draw(st.sampled_from([False, False, True]))
    columns = ("user", ["page"]) if text_format.header else ("1", ["2"])

    def slow(line):
        pieces = [line] if text_format.multiline else line.split("\n")
        dialect = (text_format.delimiter, text_format.quotes, text_format.multiline)
        for piece in pieces:
            for user, page, *_ in fields_of(piece, *dialect):
                if user is not None and page is not None:
                    yield user, page

    def read(texts):
        for old in directory.glob("*.csv*"):
            old.unlink()
        ends = [0, *sorted(cuts), len(texts)]
        for i, (start, stop) in enumerate(itertools.pairwise(ends)):
            text = header * text_format.header + "".join(texts[start:stop])
            content = text.encode(text_format.encoding)
            (directory / f"{i}.csv{'.gz' * packed}").write_bytes(
                gzip.compress(content) if packed else content
            )
        files = RecordFiles(str(directory / "*.csv*"), *columns, text_format, drop_nulls=True)
        block = max(ranges, 400 * text_format.multiline)
        with mock.patch.multiple(text_lines, RANGE_BYTES=ranges, BLOCK_BYTES=block):
            return pairs(read_in_ranges(files, directory.glob("*.csv*")))

    agree(records, read, slow, data)


def read_in_ranges(files, paths):
    for path in paths:
        for part in files.split(FileMetadata(str(path), path.stat().st_size)):
            yield from files.read(part)


def pairs(tables):
    columns = [decoded(concat([coded_table([table], RECORD)])) for table in tables]
    check_alike(types_of(table) for table in columns)
    return [record for table in columns for record in objects(table, RecordKind.TUPLES, RECORD)]


JSON_TEXTS = ['"a"', '"\\u0061"', '"é"', '"e\u0301"', '""', '" a"', '"\\u0000"', '"\ufeffa"']
JSON_TEXTS += ['"1"', '"true"']
JSON_NUMBERS = ["1", "-0", "0", "9223372036854775807"]
JSON_ODD = ["01", "1.0", "1e3", "9223372036854775808", "NaN", "\u0661", "[]", '{"user": 1}']
JSON_ODD += ['"\\ud800"']
BOOLEANS = ["true", "false"]
VALUES = st.sampled_from([*JSON_TEXTS, *JSON_NUMBERS, *JSON_ODD, *BOOLEANS, "null", f'"{MARKER}"'])
TYPED = [st.sampled_from([*some, "null"]) for some in (JSON_TEXTS, JSON_NUMBERS, BOOLEANS)]


@fuzz
@given(data=st.data())
def test_json_lines(directory, data):
    kinds = [data.draw(st.sampled_from(TYPED)) for _ in range(2)]
    nested = data.draw(st.booleans())
    # Of some files Arrow reads every line, of others Python.
    odd = data.draw(st.booleans())
    mark = st.sampled_from(["", "", "", "\ufeff", " ", "\t"] if odd else [""])
    end = st.sampled_from(["\n", "\r\n", " \n\n"] if odd else ["\n", "\r\n"])
    records = []
    for _ in range(data.draw(st.integers(1, 6))):
        hostile = data.draw(st.integers(0, 9)) == 0
        user, page = (data.draw(VALUES if hostile else kind) for kind in kinds)
        ways = [
            f'{{"user": {user}, "page": {page}}}',
            f'{{"page": {page}, "user":{user}, "x": [{user}]}}',
            f'{{"user": 1, "user": {user}, "page": {page}}}',
        ]
        if nested:
            ways = [
                f'{{"user": {{"id": {user}, "x": 1}}, "page": {page}}}',
                f'{{"page": {page}, "user.id": {user}, "user": {{"id": 1}}}}',
                f'{{"user": {{"id": 1}}, "page": {page}, "user": {{"y": [], "id": {user}}}}}',
            ]
        text = data.draw(st.sampled_from(ways))
        if hostile:
            spoiled = [text[:-1], text[1:], f"[{text}]", text + text, f'{{"x":{text}', text + "}"]
            spoiled += [f'{{"page": {page}}}', '{"x": "{', "{}", "null"]
            text = data.draw(st.sampled_from([text, *spoiled]))
        line = data.draw(mark) + text + data.draw(end)
        records.append((data.draw(st.sampled_from(USERS)), line))
    ranges = data.draw(st.sampled_from([10, 60, 1 << 20]))
    path = directory / "records.jsonl"

    def slow(line):
        record = json.loads(line.removeprefix("\ufeff"))
        user, page = record.get("user"), record.get("page")
        if nested:
            user = record["user.id"] if "user.id" in record else (user or {}).get("id")
        if user is not None and page is not None:
            # Values of JSON have no types of their own.
            yield tuple(str(v).lower() if isinstance(v, bool) else str(v) for v in (user, page))

    def read(texts):
        path.write_text("".join(texts), newline="", encoding="utf-8")
        user = "user.id" if nested else "user"
        files = RecordFiles(str(path), user, ["page"], JsonLines(), drop_nulls=True)
        with (
            mock.patch.multiple(text_lines, RANGE_BYTES=ranges, BLOCK_BYTES=ranges),
            mock.patch.object(json_lines, "_SAMPLE_LINES", 1000 if odd else 2),
        ):
            return pairs(read_in_ranges(files, [path]))

    agree(records, read, slow, data)


# Columns of files of other types: equal values are equal, others are not.

DAY = datetime.date(2026, 1, 31)
NOON = datetime.datetime(2026, 1, 31, 12)
UTC = datetime.timezone.utc
OSLO = datetime.timezone(datetime.timedelta(hours=1))
TYPES = {
    "integer": ([pa.int8(), pa.uint8(), pa.int64(), pa.uint32()], [0, 1, 7, 127]),
    "unsigned": ([pa.uint64()], [0, 1, 7, 2**63, 2**64 - 1]),
    "boolean": ([pa.bool_()], [True, False]),
    "text": ([pa.string(), pa.large_string()], ["a", "é", "e\u0301", "", " ", "1", "true", "NaN"]),
    "binary": ([pa.binary(), pa.large_binary()], [b"a", b"", b"\xff", b"1"]),
    "date": ([pa.date32(), pa.date64()], [DAY, datetime.date.min, datetime.date.max]),
    "time": ([pa.timestamp(unit) for unit in ("s", "ms", "us")], [NOON, datetime.datetime.min]),
    "far time": ([pa.timestamp(unit) for unit in ("s", "ms", "us")], [10**12, 0, -(10**12), 9**11]),
    "instant": (
        [pa.timestamp("s", "UTC"), pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("ns", "+01:00")],
        [NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=OSLO), NOON.replace(hour=11, tzinfo=UTC)],
    ),
    "decimal": (
        [pa.decimal128(9, 2), pa.decimal128(38, 20), pa.decimal256(60, 38), pa.decimal128(7, 1)],
        [decimal.Decimal(text) for text in ("0", "-0", "1", "1.0", "1.5", "-1.5", "100", "0.1")],
    ),
}
AVRO = {
    "integer": "long",
    "boolean": "boolean",
    "text": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "local-timestamp-micros"},
    "instant": {"type": "long", "logicalType": "timestamp-micros"},
}


def arrow(value, kind):
    seconds = isinstance(value, int) and pa.types.is_timestamp(kind)
    return pa.array([value], pa.timestamp("s") if seconds else kind).cast(kind)[0]


def in_struct(column, name):
    """Rows of one field, which has this name."""
    chunks = [pa.StructArray.from_arrays([chunk], names=[name]) for chunk in column.chunks]
    return pa.chunked_array(chunks)


@fuzz
@given(data=st.data())
def test_types_of_files(directory, data):
    """Values of several files: each is known by its logical type and exact value."""
    for old in directory.glob("types*"):
        old.unlink()
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=2))
    names = names if data.draw(st.integers(0, 4)) == 0 else names[:1]
    expected, tables = [], []
    avro = AVRO.keys() >= {*names} and data.draw(st.integers(0, 2)) == 0
    nested = not avro and data.draw(st.booleans())
    for i in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(names))
        kinds, values = TYPES[name]
        kind = data.draw(st.sampled_from(kinds))
        some = data.draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=5))
        column = pa.chunked_array([pa.array([arrow(v, kind) for v in some], kind)])
        if data.draw(st.booleans()):
            column = column.dictionary_encode()
        logical = "time" if name == "far time" else name
        expected += [(logical, _exact(v)) for v in some if v is not None]
        if avro:
            kind = {"type": "record", "name": "r", "fields": [
                {"name": "user", "type": ["null", AVRO[name]]}, {"name": "page", "type": "string"}
            ]}  # fmt: skip
            with open(directory / f"types{i}.avro", "wb") as file:
                rows = [{"user": value, "page": "p"} for value in column.to_pylist()]
                fastavro.writer(file, kind, rows, sync_interval=data.draw(st.integers(1, 99)))
            continue
        if nested:
            column = in_struct(column, "id")
        table = pa.table({"user": column, "page": ["p"] * len(some)})
        # Of times without a zone: others would lose it.
        options = {"use_deprecated_int96_timestamps": name == "time" and data.draw(st.booleans())}
        options["row_group_size"] = data.draw(st.integers(1, 3))
        pq.write_table(table, directory / f"types{i}.parquet", **options)
        tables.append(table)
    ranges, batch = data.draw(st.sampled_from([(50, 1), (300, 2), (1 << 20, 1 << 20)]))
    query = len(tables) == 1 and data.draw(st.booleans())
    user = "user.id" if nested else "user"
    patched = mock.patch.multiple(parquet_files, RANGE_BYTES=ranges, BATCH_ROWS=batch)
    try:
        if query:
            path = directory / "types.duckdb"
            try:
                with duckdb.connect(path) as connection:
                    connection.from_arrow(tables[0]).create("visits")
            except duckdb.Error:  # it does not have such values
                raise ValueError from None
            fields = '"user"."id" AS "user.id", page' if nested else "*"
            sql = f"SELECT {fields} FROM visits"
            read = query_of(f"duckdb:{path}", sql, user, ["page"], drop_nulls=True).tables()
        else:
            files = RecordFiles(str(directory / "types*"), user, ["page"], drop_nulls=True)
            read = read_in_ranges(files, sorted(directory.glob("types*")))
        with patched:
            users = [user for user, _ in pairs(read)]
    except REFUSED as error:
        assert MARKER not in str(error)
        event("refused")
        return
    event("read")
    assert len(users) == len(expected)
    assert len(set(zip(users, expected, strict=True))) == len(set(users)) == len(set(expected))


def _exact(value):
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - datetime.datetime(1970, 1, 1, tzinfo=UTC)) / datetime.timedelta(seconds=1)
    return fractions.Fraction(value) if isinstance(value, decimal.Decimal) else value


Pair = collections.namedtuple("Pair", ["a", "b"])
Turned = collections.namedtuple("Turned", ["b", "a"])
PLAIN = [
    st.sampled_from(["a", "A", "", "\0", "é", "e\u0301", np.str_("a"), "1", "True", MARKER]),
    st.sampled_from([b"a", b"", b"\xff", bytearray(b"a"), np.bytes_(b"a")]),
    st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), np.int8(1), np.uint64(1)]),
]
MISSING = [None, float("nan"), pd.NaT, pd.NA, np.datetime64("NaT")]
NUMBERS = [True, np.bool_(True), 1.0, -0.0, 2**63, np.float64(1), decimal.Decimal(1)]
ODD = st.sampled_from([*MISSING, *NUMBERS, DAY, NOON, "\ud800", (), {}, frozenset("a")])


def held(values):
    """An array of these objects, whatever they are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def composites(first, second):
    pair = st.tuples(first, second)
    return [
        pair,
        pair.map(lambda p: Pair(*p)),
        pair.map(lambda p: {"a": p[0], "b": p[1]}),
        pair.map(lambda p: {"b": p[1], "a": p[0]}),
        pair.map(lambda p: beam.Row(a=p[0], b=p[1])),
    ]


@st.composite
def columns_of_values(draw):
    """Values that are alike, or nearly."""
    kinds = draw(st.sampled_from(PLAIN)), draw(st.sampled_from(PLAIN))
    mostly = draw(st.sampled_from([kinds[0], *composites(*kinds)]))
    some = [mostly, mostly | st.none(), mostly | draw(st.sampled_from(composites(*kinds)))]
    pair = st.tuples(*kinds)
    names = pair.map(lambda p: Turned(*p)), pair.map(lambda p: {"a": p[0], MARKER: p[1]})
    some += [mostly | ODD, mostly | kinds[0], mostly | names[0] | names[1]]
    some += [st.tuples(mostly, mostly), mostly | st.tuples(mostly)]
    return draw(st.lists(draw(st.sampled_from(some)), min_size=1, max_size=6))


def one_value(value):
    """A value as it comes back in tuples; raises if it cannot be a user or a partition."""
    if isinstance(value, beam.Row):
        return tuple(one_value(part) for part in value.as_dict().values())
    if isinstance(value, dict):
        return tuple(one_value(value[name]) for name in sorted(value))
    if isinstance(value, (tuple, list)):
        return tuple(map(one_value, value))
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    assert isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return int(value)


@pytest.mark.parametrize("framed", [False, True])
@fuzz
@given(data=st.data(), values=columns_of_values())
def test_python_values(framed, data, values):
    records = [(data.draw(st.sampled_from(USERS)), value) for value in values]
    batch = data.draw(st.integers(1, 6))
    drop = framed or data.draw(st.booleans())
    inferred, category = data.draw(st.booleans()), data.draw(st.booleans())

    def frame(part):
        series = pd.Series(held(part))
        series = series.infer_objects() if inferred else series
        # pandas' own categories take 1 for True, and text up to a zero for the whole.
        alike = len({type(value) for value in part}) == 1 and "\0" not in part
        return pd.DataFrame({"user": series.astype("category") if category and alike else series})

    def read(values):
        if framed:
            tables = [table_from(frame(part), ["user"]) for part in in_batches(values, batch)]
            tables = [table for table in map(without_nulls, tables) if table.num_rows]
            tables = [coded_table([table], ["user"]) for table in tables]
        else:
            values = [value for value in values if not (drop and has_null(value))]
            parts = [column_of(part, "user") for part in in_batches(values, batch)]
            tables = [pa.table({"user": plain(part, "user")}) for part in parts]
        check_alike(types_of(table) for table in tables)
        return [
            record for table in tables for record in objects(table, RecordKind.TUPLES, ("user",))
        ]

    def slow(value):
        missing = framed and not isinstance(value, (tuple, dict)) and pd.isna(value) is True
        return [] if drop and (missing or has_null(value)) else [one_value(value)]

    agree(records, read, slow, data)


TEXTS = ["a", "", "é", "e\u0301", "\0", MARKER]
ENCODINGS = {
    "text": ([pa.string(), pa.large_string(), pa.string_view()], TEXTS),
    "bytes": ([pa.binary(), pa.large_binary(), pa.binary_view()], [b"a", b"", b"\xff"]),
    "integers": ([pa.int8(), pa.uint16(), pa.int64(), pa.uint64()], [0, 1, 7]),
    "large": ([pa.uint64()], [0, 2**63]),
    "other": ([pa.float64(), pa.decimal128(3, 0)], [0, 1]),
}


@st.composite
def arrow_columns(draw, values, kinds):
    """One and the same values, in some form of Arrow's, perhaps amid others that no row has."""
    kind = draw(st.sampled_from(kinds))
    array = pa.array([values[0], *values, None], kind)
    if kind in (pa.string_view(), pa.binary_view()):
        return pa.chunked_array([array[1:-1]])
    form = draw(st.sampled_from(["plain", "codes", "codes with a null", "few codes"]))
    if form == "codes" and not pa.types.is_decimal(kind):
        array = array.dictionary_encode()
    elif form != "plain":
        index = pa.int8() if form == "few codes" else pa.int32()
        codes = pa.array(range(len(array)), index)
        array = pa.DictionaryArray.from_arrays(codes, array)
    array = array.slice(1, len(values))
    cut = draw(st.integers(0, len(values)))
    return pa.chunked_array([array[:cut], array[cut:]], array.type)


@fuzz
@given(data=st.data())
def test_tables(data):
    names = data.draw(st.lists(st.sampled_from(sorted(ENCODINGS)), min_size=1, max_size=2))
    names = names if data.draw(st.integers(0, 4)) == 0 else names[:1]
    depth = data.draw(st.integers(0, 2))
    rows, tables = {}, []
    for number in range(data.draw(st.integers(1, 4))):
        kinds, pool = ENCODINGS[data.draw(st.sampled_from(names))]
        kinds = kinds[:2] if depth else kinds  # Arrow's views are no fields
        values = data.draw(st.lists(st.sampled_from([*pool, None]), min_size=1, max_size=5))
        users = data.draw(st.lists(st.sampled_from(USERS), min_size=5, max_size=5))[: len(values)]
        column = data.draw(arrow_columns(values, kinds))
        field = data.draw(st.sampled_from(["a", "a", "a", MARKER]))
        for _ in range(depth):
            column = in_struct(column, field)
        rows |= {(number, row): pair for row, pair in enumerate(zip(users, values, strict=True))}
        tables.append(pa.table({"user": users, "partition": column}))
    together = data.draw(st.integers(1, 4))

    def read(places):
        parts = [
            pa.concat_tables([tables[number].slice(row, 1) for _, row in of_table])
            for number, of_table in itertools.groupby(places, lambda place: place[0])
        ]
        parts = [part for part in map(without_nulls, parts) if part.num_rows]
        parts = [coded_table(some, RECORD) for some in in_batches(parts, together)]
        check_alike(types_of(table) for table in parts)
        whole = [concat(parts)] if parts else []
        return [record for table in whole for record in objects(table, RecordKind.TUPLES, RECORD)]

    def slow(place):
        user, value = rows[place]
        nested = value
        for _ in range(depth):
            nested = (nested,)
        return [] if value is None else [(user, nested)]

    agree([(user, place) for place, (user, _) in rows.items()], read, slow, data)


DAYS = ["2026-01-31", "9999-12-31", "0001-01-01", "2026-01-31 23:59", "2026-01-31T23:59:59Z"]
NO_DAYS = ["2026-02-30", " 2026-01-31", "2026-01-31 ", "2026-1-31", "", "\u0662026-01-31", MARKER]
NEARLY = ["2026-01-31 23", "2026-01-31 24:00", "2026-01-31 23:59\n", "2026-01-31\n"]
TIMES = st.sampled_from([*DAYS, *NO_DAYS, *NEARLY])


@fuzz
@given(data=st.data(), period=st.sampled_from(["hour", "day", "week", "month"]))
def test_periods(data, period):
    times = data.draw(st.lists(TIMES, min_size=1, max_size=5))
    records = [(data.draw(st.sampled_from(USERS)), time) for time in times]

    def read(times):
        column = pa.chunked_array([times], pa.string())
        return periods_of("a.csv", column, period).to_pylist()

    def slow(time):
        day = datetime.date.fromisoformat(time[:10])
        if period == "hour":
            return [f"{day}T{int(time[11:13]):02}"]
        if period == "week":
            day -= datetime.timedelta(day.weekday())
        return [str(day)[: 7 if period == "month" else 10]]

    agree(records, read, slow, data)
