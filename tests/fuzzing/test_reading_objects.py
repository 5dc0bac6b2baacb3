"""``test_reading`` for records that come from this process, from queries and in PCollections.

They are held in all ways that are taken, cut into batches of any size, and read beside a slow
reader of one value.
"""

import collections
import contextlib
import datetime
import decimal
import itertools
import sqlite3
from unittest import mock

import apache_beam as beam
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.beam import batching
from dp_transforms.beam.batching import objects
from dp_transforms.beam.records import RecordKind, ToRecords
from dp_transforms.columnar.columns import check_alike, types_of
from dp_transforms.files import database, frame_records
from dp_transforms.files.database import query_of
from dp_transforms.files.frame_records import RecordArguments
from tests.fuzzing.shared import MARKER, fuzz
from tests.fuzzing.test_reading import DAY, NOON, OSLO, USERS, UTC, agree, held, one_value, pairs

NUMBERS = [decimal.Decimal(text) for text in ("0", "1.0", "1", "1.50", "-1.5", "100", "0.1", "7e2")]
KINDS = {
    "text": ["a", "é", "e\u0301", "", " ", "\0", "1", "true", "2026-01-31", "x" * 70, MARKER],
    "bytes": [b"a", b"", b"\xff", b"1", bytearray(b"a")],
    "integers": [0, 1, -1, 7, 2**63 - 1, -(2**63), np.int8(1), np.uint64(7)],
    "booleans": [True, False],
    "days": [DAY, datetime.date.min, datetime.date.max],
    "times": [NOON, NOON.replace(fold=1), datetime.datetime.min, NOON.replace(microsecond=500)],
    "instants": [
        NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=OSLO), NOON.replace(hour=11, tzinfo=UTC)
    ],
    "decimals": NUMBERS,
}  # fmt: skip
ODD = [2**63, 1.0, float("nan"), pd.NaT, pd.NA, pd.Timestamp(1), np.datetime64("2026"), "\ud800"]
ODD += [decimal.Decimal("NaN"), decimal.Decimal("1e40"), (1,), {MARKER: 1}, datetime.time(1)]
Visit = collections.namedtuple("Visit", ["user", "page"])
Turned = collections.namedtuple("Turned", ["page", "user"])


def shown(value):
    """A value as it is released, found by itself; fails if it must be refused."""
    if isinstance(value, bool):
        return str(value).lower()
    if type(value) is datetime.datetime:
        zone = "" if value.tzinfo is None else "Z"
        value = value.astimezone(UTC).replace(tzinfo=None) if zone else value.replace(fold=0)
        text = value.isoformat(" ", "microseconds")
        return text.rstrip("0").rstrip(".") + zone
    if type(value) is datetime.date:
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        assert value in NUMBERS
        text = format(value, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    is_text = isinstance(value, (str, bytes, bytearray))
    assert value != "\ud800" if is_text else -(2**63) <= value < 2**63
    return one_value(value)


def is_missing(value):
    return value is None or value is pd.NA or value != value


def expected_of(record):
    user, value = record
    return [] if is_missing(value) else [(user, shown(value))]


@st.composite
def values(draw):
    """Values of one kind, or nearly, and whether they are of one."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    of_kind = st.sampled_from([*KINDS[kind], None])
    other = st.sampled_from(ODD) | st.sampled_from([*itertools.chain(*KINDS.values())])
    alike = draw(st.integers(0, 3)) > 0
    drawn = draw(st.lists(of_kind, min_size=1, max_size=7))
    if not alike:
        drawn.insert(draw(st.integers(0, len(drawn))), draw(other))
    return drawn, alike


def columns(hold):
    return lambda rows: {"user": [row[0] for row in rows], "page": hold([row[1] for row in rows])}


def series(values):
    # Left to itself, pandas would make one type of them.
    return pd.Series(values, range(len(values), 0, -1), dtype=object)


ANY_VALUES = {
    "tuples": lambda rows: [tuple(row) for row in rows],
    "tuples and lists": lambda rows: iter([*rows[:1], *([*row, 1] for row in rows[1:])]),
    "dictionaries": lambda rows: ({"page": page, MARKER: 1, "user": user} for user, page in rows),
    "named tuples": lambda rows: [
        Visit(*row) if i % 2 else Turned(*row[::-1]) for i, row in enumerate(rows)
    ],
    "columns": columns(list),
    "columns of objects": columns(held),
    "deques": columns(collections.deque),
    "iterators": columns(iter),
    "series": columns(series),
    "masked": columns(lambda values: np.ma.array(held(values), mask=[v is None for v in values])),
    "pandas": lambda rows: pd.DataFrame(columns(held)(rows), dtype=object),
}  # fmt: skip
# These make a type of the values before we see them.
OF_ONE_KIND = {
    "typed pandas": lambda rows: pd.DataFrame(rows, columns=["user", "page"]).convert_dtypes(),
    "categories": lambda rows: pd.DataFrame(rows, columns=["user", "page"], dtype="category"),
    "polars": lambda rows: pl.DataFrame(columns(list)(rows)),
    "lazy polars": lambda rows: pl.DataFrame(columns(list)(rows)).lazy(),
    "arrow": lambda rows: pa.table(columns(list)(rows)),
    "chunks": lambda rows: pa.concat_tables(
        [pa.table(columns(list)(rows))[i : i + 2] for i in range(0, len(rows), 2)]
    ),
    "batches": lambda rows: pa.table(columns(list)(rows)).to_reader(max_chunksize=2),
    "codes": lambda rows: pa.table(
        {name: pa.array(some).dictionary_encode() for name, some in columns(list)(rows).items()}
    ),
    "duckdb": lambda rows: duckdb.from_arrow(pa.table(columns(list)(rows))),
}  # fmt: skip


@fuzz
@given(data=st.data(), made=values())
def test_frames(data, made):
    drawn, alike = made
    typed = alike and not any(isinstance(value, np.integer) for value in drawn)
    ways = ANY_VALUES | OF_ONE_KIND if typed else ANY_VALUES
    # In categories of pandas "\0" is nothing.
    unfit = (
        {"categories"} if any(type(value) is str and value == "\0" for value in drawn) else set()
    )
    way = data.draw(st.sampled_from(sorted(ways.keys() - unfit)))
    users = [data.draw(st.sampled_from(USERS)) for _ in drawn]
    names = (0, 1) if way.startswith("tuples") else ("user", "page")
    chunk, batch = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))

    def read(rows):
        with mock.patch.multiple(frame_records, CHUNK_RECORDS=chunk, _BATCH_ROWS=batch):
            return pairs(RecordArguments(made_of(rows), *names, drop_nulls=True).open().tables())

    def made_of(rows):
        try:
            return ways[way](rows)
        except Exception:  # of pandas or polars
            raise ValueError from None

    records = list(zip(users, drawn, strict=True))
    agree(list(zip(users, records, strict=True)), read, expected_of, data)


@fuzz
@given(data=st.data(), made=values())
def test_sqlite(tmp_path_factory, data, made):
    storable = [
        value for value in made[0] if value is None or type(value) in (str, bytes, int, float)
    ]
    storable = [value for value in storable if value not in ("\ud800", 2**63)] or [None]
    declared = data.draw(st.sampled_from(["", "TEXT", "INTEGER", "BLOB", "NUMERIC"]))
    batch, sample = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    path = tmp_path_factory.mktemp("sqlite") / "records.db"

    def read(rows):
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
            connection.execute("DROP TABLE IF EXISTS visits")
            connection.execute(f"CREATE TABLE visits (user, page {declared})")
            connection.executemany("INSERT INTO visits VALUES (?, ?)", rows)
        with mock.patch.multiple(database, _BATCH_ROWS=batch, _SAMPLE_ROWS=sample):
            columns = ("SELECT * FROM visits", "user", ["page"])
            return pairs(query_of(f"sqlite:{path}", *columns, drop_nulls=True).tables())

    def slow(record):
        user, value = record
        if declared in ("INTEGER", "NUMERIC") and value in ("1", 1):
            value = 1
        elif declared == "TEXT" and isinstance(value, (int, float)) and value == value:
            value = str(value)
        if declared != "INTEGER" and type(value) is int:
            value = str(value)  # no type is stated of the column
        return expected_of((user, value))

    records = [(user, (user, v)) for v in storable for user in [data.draw(st.sampled_from(USERS))]]
    agree(records, read, slow, data)


FORMS = {
    "tuple": tuple,
    "list": list,
    "dict": lambda row: {"page": row[1], "user": row[0], MARKER: 1},
    "row": lambda row: beam.Row(page=row[1], user=row[0]),
    "named": lambda row: Visit(*row),
    "turned": lambda row: Turned(*row[::-1]),
    "table": lambda row: pa.table({"user": [row[0]], "page": held([row[1]])}),
    "batch": lambda row: pa.RecordBatch.from_pydict({"page": held([row[1]]), "user": [row[0]]}),
    "frame": lambda row: pd.DataFrame({"page": held([row[1]]), "user": [row[0]]}),
}
BY_NAME = ["dict", "row", "named", "turned", "table", "batch", "frame"]


@fuzz
@given(data=st.data(), made=values())
def test_elements(data, made):
    """Elements of any kind, given names or not, in bundles and batches of any size."""
    named = data.draw(st.booleans())
    form = data.draw(st.sampled_from(BY_NAME if named else ["tuple", "list"]))
    mixed = data.draw(st.integers(0, 4)) == 0
    records = []
    for value in made[0]:
        # By position, a named tuple is a tuple like others.
        forms = sorted(FORMS if named else FORMS.keys() - {"turned"})
        other = data.draw(st.sampled_from(forms)) if mixed else form
        user = data.draw(st.sampled_from(USERS))
        records.append((user, (other, (user, value))))
    bundle, batch = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    drop = data.draw(st.booleans())

    def read(rows):
        try:
            elements = [FORMS[form](row) for form, row in rows]
        except (OverflowError, pa.ArrowException):
            raise ValueError from None
        columns = ("user", "page") if named else (0, 1)
        renamed = ToRecords(*columns, drop_nulls=drop)
        way = renamed._of_any if named else renamed._of_tuple
        elements = [record for element in elements for record in way(element)]
        tables = []
        with mock.patch.object(batching, "_BATCH_OBJECTS", batch):
            for start in range(0, len(elements), bundle):
                step = batching._Batch(("user", "partition"), RecordKind.TUPLES, True)
                step.start_bundle()
                for element in elements[start : start + bundle]:
                    tables += step.process(element)
                tables += [windowed.value for windowed in step.finish_bundle()]
        check_alike(types_of(table) for table in tables)
        names = ("user", "partition")
        return [record for table in tables for record in objects(table, RecordKind.TUPLES, names)]

    def slow(record):
        form, (user, value) = record
        in_table = form in ("frame", "table", "batch")
        if drop and (is_missing(value) if in_table else value is None):
            return []
        return [(user, one_value(value))]

    agree(records, read, slow, data)
