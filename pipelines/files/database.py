"""The records that a query to a database gives, by ADBC: as Arrow tables from end to end.

A driver is an optional dependency (extra: database) and imported here alone, when it is asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.scattering import DEFAULT_BUCKETS
from pipelines.errors import InputError
from pipelines.files.logical_types import record_schema, record_table
from pipelines.files.paths import local_path
from pipelines.files.record_source import RecordSource

_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "duckdb": "adbc_driver_duckdb",
}


class RecordQuery(RecordSource):
    """The records of a query, in tables with the columns user and partition.

    The query is planned, and gives no row, when this is made, so that a misspelt column fails at
    once. It runs when records are read: on one worker, which needs the driver. Where a runner
    repeats that step the query runs again, so let nobody write to what it reads meanwhile.

    Args:
      database: postgresql://USER@HOST/NAME, whose password libpq finds in PGPASSWORD or ~/.pgpass,
        or duckdb:FILE.
      query: one SELECT.
      user_column, partition_columns, **options: see ``RecordSource``.

    Raises:
      InputError: the database cannot be opened, the driver is not installed, the query cannot be
        planned, or does not give these columns.
      ValueError: there is no such kind of database, or a column is given twice.
    """

    # How many there are is not asked for: it would run the query.
    estimated_rows = 0
    num_buckets = DEFAULT_BUCKETS

    def __init__(
        self,
        database: str,
        query: str,
        user_column: str,
        partition_columns: Sequence[str],
        **options: Any,
    ):
        super().__init__("--query", user_column, partition_columns, **options)
        self._kind, colon, rest = database.partition(":")
        if self._kind not in _DRIVERS or not colon:
            raise ValueError(
                "--query goes with a database as --input, postgresql://USER@HOST/NAME or "
                f"duckdb:FILE, not with {database if '@' not in database else self._kind}"
            )
        self._uri = local_path(rest) if self._kind == "duckdb" else database
        # It would make one.
        if self._kind == "duckdb" and not os.path.exists(self._uri):
            raise InputError(f"no database is in {self._uri}: check the path")
        self._query = f"({query.strip().rstrip(';')}\n) AS records"
        with self._connected() as cursor:
            try:
                cursor.execute(f"SELECT * FROM {self._query} LIMIT 0")
                found = cursor.fetch_arrow_table().schema
            except Exception as error:
                # No row was read: the text is about the query.
                raise InputError(f"the --query cannot be planned: {_first(error)}") from None
        self._schema = record_schema("the --query", found, self._columns)

    def tables(self) -> Iterator[pa.Table]:
        """The records.

        Raises:
          InputError: they cannot be read; the message says nothing of what they hold.
        """
        names = ", ".join('"{}"'.format(name.replace('"', '""')) for name in self._columns)
        with self._connected() as cursor:
            try:
                cursor.execute(f"SELECT {names} FROM {self._query}")
                for batch in cursor.fetch_record_batch():
                    if batch.num_rows:
                        table = record_table(pa.Table.from_batches([batch]), self._schema)
                        yield self._records(self.pattern, table)
            except InputError:
                raise
            except Exception:
                raise InputError(
                    "the --query failed while its records were read: run it with the database's "
                    "own client, which says why"
                ) from None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        try:
            driver = importlib.import_module(f"{_DRIVERS[self._kind]}.dbapi")
        except ImportError:
            raise InputError(
                f"a query to {self._kind} needs a driver: pip install dp-frequency-lists[database]"
            ) from None
        try:
            connection = driver.connect(self._uri)
        except Exception as error:
            raise InputError(f"the database cannot be opened: {_first(error)}") from None
        with connection, connection.cursor() as cursor:
            yield cursor


def _first(error: Exception) -> str:
    """The first line of a driver's message."""
    return str(error).strip().partition("\n")[0]
