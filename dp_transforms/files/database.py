"""Sources of the records of database queries, which are read by ADBC or by sqlite3.

A driver of ADBC is an optional dependency (extra: database). It is imported when it is needed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sqlite3
import urllib.parse
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.database_urls import has_password
from dp_transforms.errors import InputError, UnfitColumnError, ValuesError, as_input_error
from dp_transforms.files.logical_types import (
    as_text,
    fields_at,
    record_schema,
    record_table,
    schema_as_text,
    unstated,
)
from dp_transforms.files.paths import local_path
from dp_transforms.files.record_files import RecordSource

_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "duckdb": "adbc_driver_duckdb",
}
_INTEGER, _TEXT, _ANY, _REAL, _NUMERIC = "integer", "text", "any", "real", "numeric"
"""SQLite's affinities of columns. Columns of the affinity "any" keep all values as they are."""
_WORDS_OF_AFFINITIES = {
    _INTEGER: ("INT",),
    _TEXT: ("CHAR", "CLOB", "TEXT"),
    _ANY: ("BLOB",),
    _REAL: ("REAL", "FLOA", "DOUB"),
}
"""Words in the declaration of a column; the first affinity with a matching word is the column's."""
_INTEGERS: frozenset[type] = frozenset({int})
_NUMBERS: frozenset[type] = frozenset({int, float})
_TEXTS: frozenset[type] = frozenset({str})
_BYTES: frozenset[type] = frozenset({bytes})
_KINDS = {_INTEGER: _INTEGERS, _TEXT: _TEXTS, _NUMERIC: _NUMBERS | _TEXTS, _ANY: None}
"""The Python types of values in columns of an affinity; None if the first values decide."""
_KINDS_OF_VALUES = (_NUMBERS, _TEXTS, _BYTES)
_SAMPLE_ROWS, _BATCH_ROWS = 1000, 1 << 17
_TYPED_SOURCES = {"SEQ_SCAN", "CTE_SCAN", "DUMMY_SCAN"}
"""The sources in DuckDB's plans whose types do not come from rows."""
_UNPLANNED = "the --query cannot be planned"
_FAILED = (
    "the --query failed while its records were read: run it with the database's own client, which "
    "says why"
)


class _Query(RecordSource):
    """A source of the records of a query. Their number is unknown: counting would run the query."""

    def __init__(self, query: str, *columns: Any, **options: Any):
        super().__init__("--query", *columns, **options)
        names = ", ".join(map(_quoted, self._columns))
        self._of_all = f"SELECT * FROM ({query.strip().rstrip(';')}\n) AS records"
        self._of_records = self._of_all.replace("*", names, 1)

    def tables(self) -> Iterator[pa.Table]:
        # A query can be written to fail if any condition on the records holds.
        with as_input_error(_FAILED, error_type=ValuesError):
            for table in self._read():
                yield self._records(self.pattern, as_text(record_table(table, self._schema)))

    def _schema_of(self, columns: pa.Schema) -> pa.Schema:
        """Returns the ``record_schema`` of the needed columns.

        Unlike those of ``record_schema``, its errors do not list the other columns: in a PIVOT, or
        a file without a first line of names, the names of columns are values.
        """
        for column in self._columns:
            if not fields_at(columns, column):
                raise UnfitColumnError.missing(
                    column, f"--query has no column {column!r}: name it in the query, with AS"
                )
        return record_schema(self.pattern, columns, self._columns)

    @abstractmethod
    def _read(self) -> Iterator[pa.Table]:
        """Yields the needed columns of the rows, a batch at a time."""


class RecordQuery(_Query):
    """Reads the records of a query into tables with the columns user and partition.

    The constructor plans the query without reading a row, so that a misspelt column fails at once.
    The query runs when records are read, on one worker, which needs the driver. A runner that
    repeats the step runs the query again, so nobody may write to its tables meanwhile. For DuckDB,
    a release states the types of columns only if the query reads nothing but tables of the
    database (see ``logical_types``).

    Args:
      database: duckdb:FILE, or postgresql://USER@HOST/NAME (password: PGPASSWORD or ~/.pgpass).
      query: one SELECT.
      user_column, partition_columns, **options: see ``RecordSource``.

    Raises:
      InputError: the database cannot be opened, the driver is not installed, the query cannot be
        planned, or it does not give these columns.
      ValueError: the kind of database is unknown, or a column is given twice.
    """

    def __init__(self, database: str, query: str, *columns: Any, **options: Any):
        super().__init__(query, *columns, **options)
        self._kind, colon, rest = database.partition(":")
        if self._kind not in _DRIVERS or not colon:
            # ``query_of`` takes SQLite's files, which have no driver of this kind.
            raise ValueError(
                "--query goes with a database as --input, postgresql://USER@HOST/NAME, duckdb:FILE "
                "or, in jobs and by files.database.query_of, sqlite:FILE, not with "
                f"{database if '@' not in database else self._kind}"
            )
        self._uri = _existing(rest) if self._kind == "duckdb" else database
        with self._connected() as cursor, _as_query_error(_UNPLANNED):
            cursor.execute(f"{self._of_all} LIMIT 0")
            schema = cursor.fetch_arrow_table().schema
            is_typed = self._kind != "duckdb" or _reads_tables_alone(cursor, self._of_all)
        self._schema = self._schema_of(schema)
        if not is_typed:
            self._schema = schema_as_text(unstated(self._schema))
        if not {*self._columns} <= {*schema.names}:
            # Some are fields of structs, which ``record_table`` looks up in all columns.
            self._of_records = self._of_all

    def _read(self) -> Iterator[pa.Table]:
        with self._connected() as cursor:
            cursor.execute(self._of_records)
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        with as_input_error(
            f"a query to {self._kind} needs a driver: pip install 'dp-frequency-lists[database]'",
            (ImportError,),
        ):
            driver = importlib.import_module(f"{_DRIVERS[self._kind]}.dbapi")
        failed = "the database cannot be opened"
        # Errors of drivers quote the parts of a URL that they cannot read.
        hidden = f"{failed}: check its URL, which is not quoted here since it has a password in it"
        with as_input_error(hidden) if has_password(self._uri) else _as_query_error(failed):
            connection = driver.connect(self._uri)
        with connection, connection.cursor() as cursor:
            yield cursor


def _reads_tables_alone(cursor: Any, query: str) -> bool:
    """Returns whether all rows of a query to DuckDB come from tables of the database.

    The types of such tables are declared. A query may also read files, directly or by a view, and
    DuckDB finds the types of CSV and JSON files in their rows. So each source in the query's plan
    must be a table, another part of the query, or constants. It must be the plan before it is
    optimized, since that leaves out no part of the query.
    """
    cursor.execute("PRAGMA explain_output = 'all'")
    cursor.execute(f"EXPLAIN (FORMAT json) {query}")
    plans = cursor.fetch_arrow_table().to_pydict()
    (plan,) = json.loads(dict(zip(*plans.values(), strict=True))["logical_plan"])

    def sources(step: dict[str, Any]) -> Iterator[str]:
        if not step["children"]:
            yield step["name"]
        for child in step["children"]:
            yield from sources(child)

    return {*sources(plan)} <= _TYPED_SOURCES


class SqliteQuery(_Query):
    """Reads the records of a query to a SQLite file, and does not change the file.

    In SQLite each value has its own type, and the declaration of a column gives it an affinity:

    * integer or text: all values must be of this type;
    * numeric, such as DECIMAL: values must be numbers or text, and become text;
    * real: the column is refused, with or without records;
    * any, such as an expression: values must all be numbers, which become text, or all text, or all
      bytes.

    No driver is needed. Arguments and errors are those of ``RecordQuery``, but ``path`` is the path
    of the database.
    """

    def __init__(self, path: str, query: str, *columns: Any, **options: Any):
        super().__init__(query, *columns, **options)
        self._path = _existing(path)
        with _as_query_error(_UNPLANNED), contextlib.closing(self._connect()) as connection:
            # A temporary view does not change the file: it lies in a database of the connection.
            connection.execute(f"CREATE TEMP VIEW records_of_query AS {self._of_all}")
            columns_of_view = connection.execute("PRAGMA table_info(records_of_query)").fetchall()
        # SQLite does not report a missing column: it reads the quoted name as text.
        names = pa.schema([(name, pa.string()) for _, name, *_ in columns_of_view])
        self._schema_of(names)
        affinities = {name: _affinity(declaration) for _, name, declaration, *_ in columns_of_view}
        if real := [name for name in self._columns if affinities[name] == _REAL]:
            raise InputError(
                f"the --query: column {real[0]!r} has floating-point numbers by its declaration, "
                "in which it is not clear which values are equal: CAST it in the query"
            )
        self._kinds = {name: _KINDS[affinities[name]] for name in self._columns}
        with as_input_error(_FAILED, error_type=ValuesError):
            self._find_kinds()
        types = {name: _type_of(kinds) for name, kinds in self._kinds.items()}
        schema = self._schema_of(pa.schema(types))
        of_values = (
            field if affinities[field.name] == _ANY else schema.field(field.name)
            for field in unstated(schema)
        )
        self._schema = pa.schema(of_values)

    def _find_kinds(self) -> None:
        """Reads the first rows, by which ``_column`` finds the types of values. If a column has no
        value in them, its first value is read too."""
        self._read_through(f" LIMIT {_SAMPLE_ROWS}")
        for name in self._columns:
            if self._kinds[name] is None:
                self._read_through(f" WHERE {_quoted(name)} IS NOT NULL LIMIT 1")

    def _read_through(self, end: str) -> None:
        for _ in self._read(end):
            pass

    def _connect(self) -> sqlite3.Connection:
        path = urllib.parse.quote(os.path.abspath(self._path))
        # Several threads read, but never at the same time.
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)

    def _read(self, end: str = "") -> Iterator[pa.Table]:
        with contextlib.closing(self._connect()) as connection:
            rows = connection.execute(self._of_records + end)
            while some := rows.fetchmany(_BATCH_ROWS):
                columns = zip(self._columns, zip(*some, strict=True), strict=True)
                yield pa.table({name: self._column(name, values) for name, values in columns})

    def _column(self, name: str, values: Sequence[Any]) -> pa.Array:
        """Returns a column of values. If the kind of the column's values is unknown, these decide.
        Raises an InputError for values of another kind."""
        types = {*map(type, values)} - {type(None)}
        if types and self._kinds[name] is None:
            self._kinds[name] = next((kinds for kinds in _KINDS_OF_VALUES if types <= kinds), None)
        kinds = self._kinds[name]
        if types and (kinds is None or not types <= kinds):
            raise InputError(
                f"the --query: column {name!r} has values of several types: CAST it in the query"
            )
        kind = _type_of(kinds)
        if pa.types.is_string(kind):
            values = list(map(_text, values))
        return pa.array(values, kind)


def _type_of(kinds: frozenset[type] | None) -> pa.DataType:
    """Returns the Arrow type for values of these Python types; text if their types are unknown."""
    if kinds == _INTEGERS:
        return pa.int64()
    return pa.binary() if kinds == _BYTES else pa.string()


def _affinity(declaration: str) -> str:
    """Returns the affinity that a column's declaration gives it, by SQLite's rules.

    >>> _affinity("varchar(20)"), _affinity("DECIMAL(10, 2)"), _affinity("DATE"), _affinity("")
    ('text', 'numeric', 'numeric', 'any')
    """
    for affinity, words in _WORDS_OF_AFFINITIES.items():
        if any(word in declaration.upper() for word in words):
            return affinity
    return _NUMERIC if declaration else _ANY


def _text(value: Any) -> Any:
    """Returns the text of a number, which is the same for equal numbers; text and None stay.

    >>> _text(1.50), _text(2.0), _text(2), _text("2026-01-31")
    ('1.5', '2', '2', '2026-01-31')
    """
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else value


def query_of(database: str, *arguments: Any, **options: Any) -> RecordSource:
    """Returns the source of a query's records: a SqliteQuery or RecordQuery of these arguments."""
    kind, _, path = database.partition(":")
    if kind == "sqlite":
        return SqliteQuery(path, *arguments, **options)
    return RecordQuery(database, *arguments, **options)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _existing(path: str) -> str:
    """Returns the path of an existing file; raises an InputError for any other path, at which the
    database would create a file."""
    path = local_path(path)
    if not os.path.isfile(path):
        raise InputError(f"no database is in {path}: check the path")
    return path


@contextlib.contextmanager
def _as_query_error(failed: str) -> Iterator[None]:
    """Raises an InputError with the first line of a driver's error, if that is about the query.

    DuckDB reads rows of files to plan a query of them. An error about such a row is replaced by a
    ValuesError without the driver's text.
    """
    try:
        yield
    except Exception as error:
        first, *_ = str(error).strip().split("\n")
        if re.search("Invalid Input|Conversion", first):
            raise ValuesError(_FAILED) from None
        raise InputError(f"{failed}: {first}") from None
