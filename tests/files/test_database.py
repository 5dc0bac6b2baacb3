import contextlib
import datetime
import glob
import os
import shutil
import sqlite3
import subprocess
import tempfile
import uuid

import duckdb
import pyarrow as pa
import pytest

from dp_transforms.beam.reading import ReadRecords
from dp_transforms.errors import InputError
from dp_transforms.files import database
from dp_transforms.files.database import RecordQuery, query_of
from dp_transforms.files.logical_types import logical_name
from dp_transforms.mechanisms import FrequencyList
from pipelines import release_frequency_list, select_partitions
from tests import reference
from tests.beam_runs import rows_of, run
from tests.jobs import flags_over, job_flags

ROWS = [(i % 90, f'p"{i % 7}', datetime.date(2026, 1, 1 + i % 2)) for i in range(300)]
PAIRS = sorted((user, page) for user, page, _ in ROWS)
COUNTS = FrequencyList.from_counts(reference.count(PAIRS).values())
ALL = "SELECT * FROM visits"


@pytest.fixture
def visits(tmp_path):
    """A DuckDB file with the table visits, whose columns are visitor, "the page" and day."""
    path = tmp_path / "visits.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute('CREATE TABLE visits (visitor INT, "the page" VARCHAR, day DATE)')
        columns = map(pa.array, zip(*ROWS, strict=True))
        connection.register("rows", pa.table([*columns], ["visitor", "page", "day"]))
        connection.execute("INSERT INTO visits SELECT * FROM rows")
    return f"duckdb:{path}"


def flags(visits, *more):
    columns = {"--user_column": "visitor", "--partition_column": "the page"}
    usual = columns | {"--input": visits, "--query": ALL, "--max_partitions_per_user": "4"}
    directory = os.path.dirname(visits.partition(":")[2])
    return job_flags(directory, *flags_over(usual | {"--epsilon": "100"}, *more))


def test_records_of_a_query(visits):
    source = RecordQuery(visits, ALL + ";", "visitor", ["the page"], attribute_columns=["day"])
    assert [logical_name(field) for field in source.attribute_fields] == ["date"]
    for tables in (source.tables(), run(lambda pipeline: pipeline | ReadRecords(source))):
        (table,) = tables
        assert sorted(rows_of([table.select(["user", "partition"])])) == PAIRS
        assert sorted(table["day"].to_pylist())[-1] == "2026-01-02"


def test_fields_of_structs_in_a_query(visits):
    query = """SELECT {'id': visitor} AS who, "the page" AS page FROM visits"""
    assert sorted(rows_of(RecordQuery(visits, query, "who.id", ["page"]).tables())) == PAIRS


@pytest.fixture
def sqlite(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "visits %41.db")) as connection:
        connection.execute('CREATE TABLE visits (visitor INT, "the page", score)')
        rows = [(user, page, [None, 1, 1.5][user % 3]) for user, page, _ in ROWS]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?)", rows)
        connection.commit()
    return f"sqlite:{tmp_path}/visits %41.db"


def test_records_of_sqlite(sqlite, tmp_path):
    source = query_of(sqlite, ALL + ";", "visitor", ["the page"])
    assert sorted(rows_of(source.tables())) == PAIRS
    assert {table["user"].type for table in source.tables()} == {pa.int64()}
    assert source.partition_fields[0].type == "string"
    assert release_frequency_list.main(flags(sqlite)) == 0
    assert FrequencyList.from_csv(tmp_path / "out/released_frequencies.csv") == COUNTS


# Behind the rows that are looked at first.
LATE = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
LATE += "SELECT i AS visitor, CASE i WHEN 1999 THEN 7 ELSE 'x' END AS page FROM n"


def test_nulls_before_a_column_s_first_value(sqlite):
    numbers = LATE.replace("1999 THEN 7 ELSE 'x'", "1999 THEN 7 ELSE NULL")
    source = query_of(sqlite, numbers, "visitor", ["page"], drop_nulls=True)
    assert rows_of(source.tables()) == [("1999", "7")]
    nothing = numbers.replace("THEN 7", "THEN NULL")
    assert query_of(sqlite, nothing, "visitor", ["page"]).partition_fields[0].type == "string"


def test_numbers_and_text_of_a_numeric_column_are_text(tmp_path):
    values = ["7", 7, 7.0, "1.50", 1.5, 1e20, "100000000000000000000", -0.0, 0, "n/a", b"\xff"]
    with contextlib.closing(sqlite3.connect(tmp_path / "visits.db")) as connection:
        connection.execute("CREATE TABLE visits (visitor INT, price DECIMAL(9, 2))")
        connection.executemany("INSERT INTO visits VALUES (1, ?)", [(value,) for value in values])
        connection.commit()

    def read(query):
        return query_of(f"sqlite:{tmp_path}/visits.db", query, "visitor", ["price"])

    texts = "SELECT * FROM visits WHERE typeof(price) <> 'blob'"
    prices = [price for _, price in rows_of(read(texts).tables())]
    assert prices == ["7"] * 3 + ["1.5"] * 2 + ["100000000000000000000"] * 2 + ["0"] * 2 + ["n/a"]
    assert read(f"{texts} AND 0").partition_fields == read(texts).partition_fields
    with pytest.raises(InputError, match="column 'price' has values of several types"):
        read("SELECT * FROM visits WHERE typeof(price) = 'blob'")


def test_numbers_of_an_expression_are_text(sqlite):
    source = query_of(sqlite, f"{ALL} WHERE score", "visitor", ["score"])
    assert {score for _, score in rows_of(source.tables())} == {"1", "1.5"}


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("declared", ["REAL", "double precision", "Float"])
def test_floating_point_numbers_are_refused_by_their_declaration(tmp_path, rows, declared):
    with contextlib.closing(sqlite3.connect(tmp_path / "visits.db")) as connection:
        connection.execute(f"CREATE TABLE visits (visitor INT, score {declared})")
        connection.executemany("INSERT INTO visits VALUES (1, ?)", [(1,)] * rows)
        connection.commit()
    query = f"sqlite:{tmp_path}/visits.db", "SELECT * FROM visits"
    with pytest.raises(InputError, match="column 'score' has floating-point numbers by its decl"):
        query_of(*query, "visitor", ["score"])
    in_text = "SELECT visitor, CAST(score AS TEXT) AS score FROM visits"
    values = rows_of(query_of(query[0], in_text, "visitor", ["score"]).tables())
    assert values == [(1, "1.0")] * rows


@pytest.mark.parametrize(
    ("query", "column", "says"),
    [
        (LATE, "page", "column 'page' has values of several types"),
        (ALL, "page", "no column 'page': name it in the query"),
        ("SELECT * FROM visit", "score", "cannot be planned: no such table"),
        ("DROP TABLE visits", "score", "cannot be planned: "),
        (f"{ALL} UNION ALL SELECT NULL, 'x', 2", "the page", "--drop_nulls"),
        (f'SELECT visitor, json({ALL[-6:]}."the page") AS j FROM visits', "j", "failed while"),
    ],
)
def test_faults_of_sqlite_say_nothing_of_values(sqlite, query, column, says):
    with pytest.raises(InputError) as error:
        list(query_of(sqlite, query, "visitor", [column]).tables())
    assert says in str(error.value) and 'p"' not in str(error.value)


@pytest.mark.thorough
def test_the_release_of_a_query_in_this_process_and_on_beam(visits, tmp_path):
    # At epsilon / kappa = 100 / 4 a release is another list with probability below 1e-9.
    for more in ([], ["--runner=FnApiRunner"]):
        assert release_frequency_list.main(flags(visits, "--overwrite", *more)) == 0
        assert FrequencyList.from_csv(tmp_path / "out/released_frequencies.csv") == COUNTS
    names = flags(visits, "--delta=1e-6", f"--output={tmp_path}/names")
    assert select_partitions.main(names) == 0
    assert (tmp_path / "names/released_partitions.csv").read_text().count("\n") == 8


NO_NUMBERS = 'SELECT visitor, CAST("the page" AS INT) AS "the page" FROM visits'
PIVOT = 'SELECT * FROM (PIVOT visits ON "the page" USING count(*) GROUP BY visitor)'
FAULTS = {
    "no such column": (["--partition_column=page"], 1, "no column 'page': name it"),
    "a value as a column": ([f"--query={PIVOT}"], 1, "no column 'the page': name it"),
    "no such table": (["--query=SELECT * FROM visit"], 1, "cannot be planned: "),
    "not a query": (["--query=DROP TABLE visits"], 1, "cannot be planned: "),
    "two statements": (["--query=SELECT 1; SELECT 2"], 1, "cannot be planned: "),
    "unfit type": (["--query=SELECT 0.5::FLOAT AS visitor, 'x' AS \"the page\""], 1, "type float"),
    "no database": (["--input=duckdb:none.duckdb"], 1, "no database is in none.duckdb"),
    "no file": (["--input=sqlite:none.db"], 1, "no database is in none.db"),
    "not a database": (["--input=visits.csv"], 2, "goes with a database as --input"),
    "unknown kind": (["--input=mysql://me:secret@host/db"], 2, "sqlite:FILE, not with mysql"),
    "of text": (["--no_header"], 2, "--no_header is for delimited text"),
    "of files": (["--input_format=csv"], 2, "--input_format is for files"),
    "in the records": ([f"--query={NO_NUMBERS}"], 1, "failed while its records were read"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_one_line_without_values_and_leave_no_release(visits, tmp_path, failure, name):
    more, code, says = FAULTS[name]
    err = failure(code, says, release_frequency_list.main, flags(visits, *more))
    assert "secret" not in err and 'p"' not in err
    assert not (tmp_path / "out").exists()


def test_faults_of_a_file_that_is_read_to_plan_its_query_name_no_line(visits, tmp_path):
    file = tmp_path / "broken.json"
    file.write_text('{"visitor": 1}\n{"p"\n')
    with pytest.raises(InputError, match="failed while its records were read"):
        RecordQuery(visits, f"FROM read_json('{file}')", "visitor", ["page"])


def test_a_missing_driver_names_the_extra(visits, monkeypatch, failure):
    monkeypatch.setitem(database._DRIVERS, "duckdb", "no_such_driver")
    says = "pip install 'dp-frequency-lists[database]'"
    failure(1, says, release_frequency_list.main, flags(visits))


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL server of this test's own, if there is one on this machine."""
    installed = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    initdb = shutil.which("initdb") or max(installed, default=None)
    if initdb is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("there is no PostgreSQL server here")
    # A server does not run as root, and only root may look into pytest's directories.
    run_as = ["setpriv", "--reuid=nobody", "--clear-groups"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as home:
        if run_as:
            shutil.chown(home, "nobody")

        def do(name, *arguments):
            command = [*run_as, f"{os.path.dirname(initdb)}/{name}", "-D", f"{home}/data"]
            subprocess.run([*command, *arguments], check=True, cwd=home, stdout=subprocess.DEVNULL)

        do("initdb", "--auth=trust", "--username=me")
        options = f"-c listen_addresses= -c unix_socket_directories={home} -c fsync=off"
        do("pg_ctl", "-w", "-l", f"{home}/log", "-o", options, "start")
        yield f"postgresql:///postgres?host={home}&user=me"
        do("pg_ctl", "-m", "immediate", "stop")


@pytest.mark.thorough
def test_records_of_a_real_postgres(postgres):
    query = """SELECT i % 90 AS visitor, 'p"' || i % 7 AS "the page", 2.50 AS price
        FROM generate_series(0, 299) AS i"""
    source = RecordQuery(postgres, query, "visitor", ["the page"])
    assert sorted(rows_of(source.tables())) == PAIRS
    typed = """SELECT (i % 2) / 2.0 AS price, ('00000000-0000-0000-0000-00000000000' || i)::uuid
        AS visitor FROM generate_series(0, 2) AS i"""
    source = RecordQuery(postgres, typed, "visitor", ["price"])
    uuids = [str(uuid.UUID(int=number)) for number in range(3)]
    assert sorted(rows_of(source.tables())) == sorted(zip(uuids, ["0", "0.5", "0"], strict=True))
    for other, says in (
        (query, "no column 'page': name it in the query"),
        ("SELECT * FROM visit", r'cannot be planned: .*"visit" does not exist'),
    ):
        with pytest.raises(InputError, match=says):
            RecordQuery(postgres, other, "visitor", ["page"])
    broken = query.replace("'p\"'", "'secret'").replace("i % 90", "('secret' || i)::int")
    with pytest.raises(InputError) as raised:
        list(RecordQuery(postgres, broken, "visitor", ["the page"]).tables())
    assert "secret" not in str(raised.value)
