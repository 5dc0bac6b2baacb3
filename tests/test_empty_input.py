"""An input without records looks like one of a single user, on every way in.

For adding or removing all records of one user, a selection is (epsilon, delta)-DP: where no name is
selected, which has probability at least 1 - delta here, nothing else may tell the two inputs apart.
"""

import collections
import contextlib
import datetime
import decimal
import json
import sqlite3

import apache_beam as beam
import duckdb
import fastavro
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import dp_transforms as dp
from dp_transforms import SelectPartitions
from pipelines import select_partitions
from tests.beam_runs import run

# At this delta and epsilon a partition of one user is named with probability 1e-9 at most.
NAMES = {"epsilon": 1, "delta": 1e-9, "max_partitions_per_user": 2}
COLUMNS = {"user": "who", "partition": "page"}
DAY = datetime.date(2026, 1, 31)
VALUES = {
    "text": "a",
    "integer": 7,
    "boolean": True,
    "bytes": b"a",
    "date": DAY,
    "time": datetime.datetime(2026, 1, 31, 12),
    "decimal": decimal.Decimal("1.50"),
}
ARROW = {
    "text": pa.string(),
    "integer": pa.int32(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.timestamp("us"),
    "decimal": pa.decimal128(9, 2),
}
AVRO = {"text": "string", "integer": "long", "boolean": "boolean", "bytes": "bytes"}
AVRO["date"] = {"type": "int", "logicalType": "date"}
Visit = collections.namedtuple("Visit", ["who", "page"])


def of(kind, rows):
    """Columns of a number of records of one user."""
    return {"who": [1] * rows, "page": [VALUES[kind]] * rows}


def schema(kind):
    return pa.schema({"who": pa.int64(), "page": ARROW[kind]})


def table(kind, rows):
    return pa.table(of(kind, rows), schema(kind))


def rows_of(kind, rows):
    return [{"who": 1, "page": VALUES[kind]}] * rows


def in_duckdb(kind, rows):
    records = table(kind, rows)
    return duckdb.connect().from_arrow(records).filter("true")


# Each makes data in memory of a kind of value and of a number of records of one user.
IN_MEMORY = {
    "dictionary of lists": of,
    "dictionary of arrays": lambda kind, rows: {k: np.array(v) for k, v in of(kind, rows).items()},
    "part of arrays": lambda kind, rows: {k: np.array(v)[:rows] for k, v in of(kind, 1).items()},
    "dictionary of Arrow": lambda kind, rows: {k: table(kind, rows)[k] for k in ("who", "page")},
    "no dictionary": lambda kind, rows: of(kind, rows) if rows else {},
    "dictionaries": rows_of,
    "named tuples": lambda kind, rows: [Visit(*row.values()) for row in rows_of(kind, rows)],
    "generator": lambda kind, rows: iter(rows_of(kind, rows)),
    "pandas": lambda kind, rows: pd.DataFrame(of(kind, rows)),
    "pandas of rows": lambda kind, rows: pd.DataFrame(rows_of(kind, rows)),
    "part of pandas": lambda kind, rows: pd.DataFrame(of(kind, 1))[:rows],
    "pandas of Arrow": lambda kind, rows: table(kind, rows).to_pandas(types_mapper=pd.ArrowDtype),
    "categories": lambda kind, rows: pd.DataFrame(of(kind, rows)).astype("category"),
    "part of categories": lambda kind, rows: pd.DataFrame(of(kind, 1)).astype("category")[:rows],
    "polars": lambda kind, rows: pl.DataFrame(of(kind, rows)),
    "polars of rows": lambda kind, rows: pl.DataFrame(rows_of(kind, rows)),
    "part of polars": lambda kind, rows: pl.DataFrame(of(kind, 1))[:rows],
    "lazy polars": lambda kind, rows: pl.LazyFrame(rows_of(kind, rows)),
    "table": table,
    "table of rows": lambda kind, rows: pa.Table.from_pylist(rows_of(kind, rows)),
    "reader": lambda kind, rows: table(kind, rows).to_reader(),
    "batch": lambda kind, rows: pa.RecordBatch.from_pydict(of(kind, rows), schema(kind)),
    "scanner": lambda kind, rows: pa.dataset.dataset(table(kind, rows)).scanner().to_reader(),
    "relation": in_duckdb,
}


def public_parts(release):
    """All that is shown of a release of names."""
    names = release.to_arrow()
    return names.to_pydict(), names.schema, release.statement, repr(release)


# A few ways meet all kinds of values, and all others one number or time, in turns, beside text.
EVERY_KIND = ("dictionaries", "pandas", "polars", "table")
CASES = [
    (way, kind)
    for turn, way in enumerate(IN_MEMORY)
    for kind in (VALUES if way in EVERY_KIND else ("text", [*VALUES][1 + turn % 6]))
]


@pytest.mark.parametrize(("way", "kind"), CASES)
def test_records_in_memory(way, kind, tmp_path):
    shown = []
    for rows in (0, 1):
        # Others state what they saw of the records, under noise.
        data = IN_MEMORY[way](kind, rows)
        release = dp.select(data, **COLUMNS, **NAMES, counts=True, strategy="laplace")
        release.save(tmp_path / f"{rows}")
        saved = sorted((tmp_path / f"{rows}").iterdir())
        shown.append([public_parts(release), *[path.read_bytes() for path in saved]])
    assert shown[0] == shown[1]


def test_names_keep_their_own_type(tmp_path):
    for value, kind in ((7, "integer"), (b"\xff", "binary"), ("a", "string")):
        data = {"who": range(100), "page": [value] * 100}
        release = dp.select(data, **COLUMNS, **NAMES)
        assert release.to_arrow().to_pydict() == {"page": [value]}
        assert release.statement["partition_types"] == [kind]
        release.save(tmp_path / kind)
        assert dp.load(tmp_path / kind) == release


def csv_file(path, kind, rows):
    values = {"text": "a", "integer": 7, "boolean": "true"}
    path.write_text("who,page\n" + f"1,{values[kind]}\n" * rows)


def csv_of_no_frame(path, kind, rows):
    """Names columns only if there are records, as pandas does for ``DataFrame(rows)``."""
    csv_file(path, kind, rows)
    if not rows:
        path.write_text("\n")


def json_lines(path, kind, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of(kind, rows)))


def parquet_file(path, kind, rows):
    pq.write_table(table(kind, rows), path)


def avro_file(path, kind, rows):
    fields = [{"name": "who", "type": "long"}, {"name": "page", "type": AVRO[kind]}]
    with open(path, "wb") as file:
        fastavro.writer(
            file, {"type": "record", "name": "r", "fields": fields}, rows_of(kind, rows)
        )


# Each writes a file of a kind of value, of these and others.
FILES = {
    "a.csv": csv_file,
    "b.csv": csv_of_no_frame,
    "a.jsonl": json_lines,
    "a.parquet": parquet_file,
    "a.avro": avro_file,
}


def jobs_of_names(directory, capsys, public, *flags):
    """All that jobs of names show or write: on records alone, and with public names, of which all
    are released."""
    (directory / "public.csv").write_text("\n".join(public))
    shown = []
    for more in ([], [f"--public_partitions={directory}/public.csv", "--public_threshold=-200"]):
        usual = ["--user_column=who", "--partition_column=page", "--max_partitions_per_user=2"]
        usual += ["--epsilon=1", "--delta=1e-9", f"--output={directory}/out", "--overwrite"]
        # Others state what they saw of the records, under noise.
        usual += ["--strategy=optimal"] if not more else []
        shown.append((select_partitions.main([*flags, *usual, *more]), capsys.readouterr()))
        shown += [path.read_bytes() for path in sorted((directory / "out").iterdir())]
    return shown


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("kind", ["text", "integer", "boolean"])
@pytest.mark.parametrize("name", FILES)
def test_files(tmp_path, capsys, name, kind, files):
    public = ["07", "7", "true", "True", "a"]
    if name in ("a.parquet", "a.avro") and kind != "text":
        # A schema says what names are possible.
        public = ["07", "8"] if kind == "integer" else ["True", "false"]
    (tmp_path / "records").mkdir()
    shown = []
    for rows in (0, 1):
        for number in range(files):
            # A second file has no records in any case.
            FILES[name](tmp_path / f"records/{number}{name}", kind, rows * number)
        if files == 1:
            FILES[name](tmp_path / f"records/0{name}", kind, rows)
        shown.append(jobs_of_names(tmp_path, capsys, public, f"--input={tmp_path}/records/*"))
    assert shown[0] == shown[1]


def sqlite_file(path, kind, rows, declared):
    value = str(VALUES[kind]) if kind in ("date", "decimal") else VALUES[kind]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE records (who {declared}, page {declared})")
        connection.executemany("INSERT INTO records VALUES (1, ?)", [(value,)] * rows)
        connection.commit()
    return f"sqlite:{path}"


def duckdb_file(path, kind, rows, declared):
    with duckdb.connect(path) as connection:
        connection.register("given", table(kind, rows))
        connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return f"duckdb:{path}"


ALL = "SELECT * FROM records"
GROUPED = "SELECT who, max(page) AS page FROM records GROUP BY who"


@pytest.mark.parametrize("query", [ALL, GROUPED])
@pytest.mark.parametrize(
    ("write", "kind", "declared"),
    [
        (sqlite_file, "text", ""),
        (sqlite_file, "text", "TEXT"),
        (sqlite_file, "integer", ""),
        (sqlite_file, "integer", "INTEGER"),
        (sqlite_file, "integer", "NUMERIC"),
        (sqlite_file, "decimal", "NUMERIC"),
        (sqlite_file, "date", "DATE"),
        (sqlite_file, "bytes", "BLOB"),
        (duckdb_file, "text", ""),
        (duckdb_file, "integer", ""),
        (duckdb_file, "date", ""),
    ],
)
def test_queries(tmp_path, capsys, write, kind, declared, query):
    typed = write is duckdb_file or declared == "INTEGER"
    public = ["7", "8"] if kind == "integer" and typed else ["2026-01-31", "2026-02-01"]
    shown = []
    for rows in (0, 1):
        (tmp_path / "records.db").unlink(missing_ok=True)
        database = write(tmp_path / "records.db", kind, rows, declared)
        flags = [f"--input={database}", f"--query={query}"]
        shown.append(jobs_of_names(tmp_path, capsys, public, *flags))
    assert shown[0] == shown[1]


CSV = "read_csv('{}', header = true)"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["text", "integer", "date"])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM {CSV}",
        "SELECT * FROM view_of_csv",
        f"SELECT who, (SELECT max(page) FROM {CSV}) AS page FROM users",
        f"WITH all_rows AS MATERIALIZED (SELECT * FROM {CSV}) SELECT * FROM all_rows",
    ],
)
def test_queries_of_files(tmp_path, capsys, kind, query):
    """DuckDB finds the types of delimited text in its rows."""
    path, database = tmp_path / "records.csv", tmp_path / "records.db"
    shown = []
    for rows in (0, 1):
        path.write_text("who,page\n" + f"1,{VALUES[kind]}\n" * rows)
        database.unlink(missing_ok=True)
        with duckdb.connect(database) as connection:
            connection.execute("CREATE TABLE users (who INTEGER)")
            connection.execute(f"INSERT INTO users SELECT 1 FROM range({rows})")
            connection.execute(f"CREATE VIEW view_of_csv AS SELECT * FROM {CSV}".format(path))
        flags = [f"--input=duckdb:{database}", f"--query={query.format(path)}"]
        shown.append(jobs_of_names(tmp_path, capsys, ["07", "7", "2026-01-31"], *flags))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("way", ["dictionaries", "pandas of rows", "table of rows"])
def test_a_group_that_no_record_has_is_no_error(way):
    shown = []
    for rows in (0, 1):
        records = [{"who": 1, "page": "a", "year": 2026}] * rows
        data = {"pandas of rows": pd.DataFrame, "table of rows": pa.Table.from_pylist}.get(
            way, list
        )
        lists = dp.release_groups(
            data(records),
            **COLUMNS,
            groups={"year": ["02026", "next"]},
            epsilon_all=1,
            epsilon_groups=1,
            max_partitions_per_user=1,
        )
        shown.append((list(lists), lists.statement))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("rows", [0, 1])
def test_floats_of_a_schema_are_refused_without_records_too(rows):
    data = pa.table(
        {"who": [1] * rows, "page": [1.5] * rows},
        schema=pa.schema({"who": pa.int64(), "page": pa.float64()}),
    )
    with pytest.raises(ValueError, match="column 'page' holds floats"):
        dp.select(data, **COLUMNS, **NAMES)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("privacy_unit", ["edge", "node"])
@pytest.mark.parametrize("read", [pa.table, pl.from_arrow, lambda table: table.to_pandas()])
def test_ends_of_two_types_are_refused_without_edges_too(rows, privacy_unit, read):
    table = pa.table({"a": pa.array([1] * rows, pa.int64()), "b": pa.array([2] * rows, pa.int32())})
    dp.degrees(read(table), "a", "b", epsilon=1, privacy_unit=privacy_unit)  # all are integers
    other = pa.array([datetime.datetime(2026, 1, 1)] * rows, pa.timestamp("s"))
    with pytest.raises(ValueError, match="give both ends of an edge the same type"):
        data = read(table.set_column(1, "b", other))
        dp.degrees(data, "a", "b", epsilon=1, privacy_unit=privacy_unit)


@pytest.mark.parametrize(
    ("element", "strategy"),
    [
        pytest.param(tuple, "auto", marks=pytest.mark.thorough),
        (pa.Table, "optimal"),
        (dict, "optimal"),
    ],
)
def test_transforms(element, strategy):
    """Give no element at all, not even an empty table of some type."""
    for rows in (0, 1):
        data = {
            tuple: [(1, 7)] * rows,
            dict: [{"user": 1, "partition": 7}] * rows,
            pa.Table: [pa.table({"user": [1] * rows, "partition": [7] * rows})],
        }[element]
        declared = dict[str, int] if element is dict else element

        def selected(pipeline, data=data, declared=declared):
            records = pipeline | beam.Create(data).with_output_types(declared)
            return records | SelectPartitions(1, 1e-9, 1, strategy=strategy)

        assert run(selected) == []
