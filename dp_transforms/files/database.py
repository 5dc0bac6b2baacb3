"""The records that a query to a database gives: by ADBC, as Arrow tables, or by sqlite3.

A driver of ADBC is an optional dependency (extra: database), imported when it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sqlite3
import urllib.parse
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError
from dp_transforms.files.logical_types import record_schema, record_table, typed_column
from dp_transforms.files.paths import discreet, local_path
from dp_transforms.files.record_files import RecordSource

_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "duckdb": "adbc_driver_duckdb",
}
_SAMPLE_ROWS, _BATCH_ROWS = 1000, 1 << 17
_UNPLANNED = "the --query cannot be planned"
_FAILED = (
    "the --query failed while its records were read: run it with the database's own client, which "
    "says why"
)


class _Query(RecordSource):
    """The base of sources that read the records of a query; to count them would run it."""

    def __init__(self, query: str, *columns: Any, **options: Any):
        super().__init__("--query", *columns, **options)
        names = ", ".join('"{}"'.format(name.replace('"', '""')) for name in self._columns)
        self._of_all = f"SELECT * FROM ({query.strip().rstrip(';')}\n) AS records"
        self._of_records = self._of_all.replace("*", names, 1)

    def tables(self) -> Iterator[pa.Table]:
        with discreet(_FAILED):
            for table in self._read():
                yield self._records(self.pattern, record_table(table, self._schema))

    @abstractmethod
    def _read(self) -> Iterator[pa.Table]:
        """Reads the needed columns of the rows, a batch at a time."""


class RecordQuery(_Query):
    """The records of a query, in tables with the columns user and partition.

    The query is planned, and gives no row, when this is made, so that a misspelt column fails at
    once. It runs when records are read: on one worker, which needs the driver. Where a runner
    repeats that step the query runs again, so let nobody write to what it reads meanwhile.

    Args:
      database: duckdb:FILE, or postgresql://USER@HOST/NAME (password: PGPASSWORD or ~/.pgpass).
      query: one SELECT.
      user_column, partition_columns, **options: see ``RecordSource``.

    Raises:
      InputError: the database cannot be opened, the driver is not installed, the query cannot be
        planned, or it does not give these columns.
      ValueError: there is no such kind of database, or a column is given twice.
    """

    def __init__(self, database: str, query: str, *columns: Any, **options: Any):
        super().__init__(query, *columns, **options)
        self._kind, colon, rest = database.partition(":")
        if self._kind not in _DRIVERS or not colon:
            raise ValueError(
                "--query goes with a database as --input, postgresql://USER@HOST/NAME, duckdb:FILE "
                f"or sqlite:FILE, not with {database if '@' not in database else self._kind}"
            )
        self._uri = _existing(rest) if self._kind == "duckdb" else database
        with self._connected() as cursor, _telling(_UNPLANNED):
            cursor.execute(f"{self._of_all} LIMIT 0")
            found = cursor.fetch_arrow_table().schema
        self._schema = record_schema(self.pattern, found, self._columns)
        if not {*self._columns} <= {*found.names}:  # fields of structs
            self._of_records = self._of_all

    def _read(self) -> Iterator[pa.Table]:
        with self._connected() as cursor:
            cursor.execute(self._of_records)
            for batch in cursor.fetch_record_batch():
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        with discreet(
            f"a query to {self._kind} needs a driver: pip install 'dp-frequency-lists[database]'",
            (ImportError,),
        ):
            driver = importlib.import_module(f"{_DRIVERS[self._kind]}.dbapi")
        with _telling("the database cannot be opened"):
            connection = driver.connect(self._uri)
        with connection, connection.cursor() as cursor:
            yield cursor


class SqliteQuery(_Query):
    """The records of a query to a file of SQLite, which is not changed.

    Values of SQLite have types, and columns have none: all values of a column must be of the type
    of its first one, integers, text or bytes. Otherwise as ``RecordQuery``, without a driver.

    Args, Raises: as ``RecordQuery``, but a path for the database.
    """

    def __init__(self, path: str, query: str, *columns: Any, **options: Any):
        super().__init__(query, *columns, **options)
        self._path = _existing(path)
        with _telling(_UNPLANNED), contextlib.closing(self._connect()) as connection:
            found = connection.execute(f"{self._of_all} LIMIT 0").description
        # SQLite takes the name of a column that is not there for text.
        names = pa.schema([(name, pa.string()) for name, *_ in found])
        record_schema(self.pattern, names, self._columns)
        self._types = dict.fromkeys(self._columns, pa.null())
        with discreet(_FAILED):
            for table in self._read(f" LIMIT {_SAMPLE_ROWS}"):
                self._types = dict(zip(table.column_names, table.schema.types, strict=True))
        for name, kind in self._types.items():
            self._types[name] = pa.string() if pa.types.is_null(kind) else kind
        self._schema = record_schema(self.pattern, pa.schema(self._types), self._columns)

    def _connect(self) -> sqlite3.Connection:
        path = urllib.parse.quote(os.path.abspath(self._path))
        # Threads that read take turns.
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)

    def _read(self, end: str = "") -> Iterator[pa.Table]:
        with contextlib.closing(self._connect()) as connection:
            rows = connection.execute(self._of_records + end)
            while some := rows.fetchmany(_BATCH_ROWS):
                columns = zip(self._columns, zip(*some, strict=True), strict=True)
                yield pa.table({name: self._column(name, values) for name, values in columns})

    def _column(self, name: str, values: Sequence[Any]) -> pa.Array:
        with discreet(
            f"the --query: column {name!r} has values of several types, or numbers with a point: "
            "CAST it in the query",
            (TypeError, ValueError),
        ):
            return typed_column(values, name, self._types[name])


def query_of(database: str, *arguments: Any, **options: Any) -> RecordSource:
    """The source of a query's records. Args, Raises: see ``RecordQuery`` and ``SqliteQuery``."""
    kind, _, path = database.partition(":")
    if kind == "sqlite":
        return SqliteQuery(path, *arguments, **options)
    return RecordQuery(database, *arguments, **options)


def _existing(path: str) -> str:
    """The path of a file: of one that is not there the database would make one."""
    path = local_path(path)
    if not os.path.isfile(path):
        raise InputError(f"no database is in {path}: check the path")
    return path


@contextlib.contextmanager
def _telling(failed: str) -> Iterator[None]:
    """Tells the first line of a driver's message: no row was read, so it is about the query."""
    try:
        yield
    except Exception as error:
        first, *_ = str(error).strip().split("\n")
        raise InputError(f"{failed}: {first}") from None
