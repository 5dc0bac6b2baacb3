"""Keeps a ledger in a schema of a PostgreSQL database, for jobs on several machines.

The driver, psycopg, is an optional dependency (extra: ledger), imported when it is needed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from dp_transforms.budget.ledger_rows import (
    HEADER_COLUMNS,
    INTEGERS,
    LINE_COLUMNS,
    VERSION,
    Contents,
    Header,
    LedgerLine,
    contents,
    damaged,
    header_row,
    line_row,
    no_ledger,
    text_of_time,
)
from dp_transforms.database_urls import has_password
from dp_transforms.errors import InputError

_SCHEMA = "privacy_ledger"
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WAIT_SECONDS = 60
_CONNECTION = {
    "connect_timeout": "10",
    "tcp_user_timeout": str(1000 * _WAIT_SECONDS),
    # If the URL names several servers, a replica that lags behind is not taken.
    "target_session_attrs": "read-write",
    "application_name": "dp-frequency-lists",
    "client_encoding": "utf8",
}
"""Parameters of a connection, unless the URL has others."""
_NO_HIDDEN_ROWS = "SET LOCAL row_security = off"
"""Raises an error if a policy of the database hides rows, whose costs would be missing."""
_SETTINGS = (
    _NO_HIDDEN_ROWS,
    # A server may be set up to lose the last commits in a crash.
    "SET LOCAL synchronous_commit = on",
    f"SET LOCAL lock_timeout = '{_WAIT_SECONDS}s'",
    # A client that stops in a transaction would keep the lock.
    f"SET LOCAL idle_in_transaction_session_timeout = '{_WAIT_SECONDS}s'",
)
_FAULTS = {
    "55P03": (errno.EBUSY, "another job has held the ledger's lock for a minute"),
    "25P03": (errno.EBUSY, "this job was stopped for a minute, and the server ended its turn"),
    "25006": (errno.EROFS, "the database is read-only"),
    "42501": (errno.EACCES, "this user may not read and write the ledger's tables"),
    "53100": (errno.ENOSPC, "no space left on the server"),
}
"""Errors of PostgreSQL, by their code, become errors of the operating system."""


class PostgresqlLedger:
    """Keeps one ledger in a schema of a PostgreSQL database; see ``LedgerStore``.

    Times are by the server's clock, so the clocks of machines do not matter. A transaction that
    writes locks the table of reservations before it reads. If a client does nothing for a minute in
    a transaction, the server ends it.

    Args:
      url: postgresql://USER@HOST/DATABASE, followed by #SCHEMA unless the schema is called
        privacy_ledger. A password must not be in it: libpq takes the password from PGPASSWORD, or
        from the file that PGPASSFILE names.

    Raises:
      ValueError: the URL has a password, or the name of the schema has other characters than
        lower-case letters, digits and _.
    """

    def __init__(self, url: str):
        if has_password(url):
            raise ValueError(
                "the ledger's URL has a password in it, which lists of processes (ps), the shell's "
                "history and a job's description on an engine would show: set PGPASSWORD, or "
                "PGPASSFILE to a file, and leave it out"
            )
        self.name = url
        self._url, fragment = urllib.parse.urldefrag(url)
        name = fragment or _SCHEMA
        if not _SCHEMA_NAME.fullmatch(name):
            raise ValueError(
                "what follows # in a ledger's URL is the name of its schema: 1 to 63 lower-case "
                "letters, digits and _, not a digit first"
            )
        # In quotes, it may be a word of SQL.
        self._schema = f'"{name}"'

    def create(self, header: Header) -> None:
        """Makes the schema with its tables. Others need a GRANT of the database to use them."""
        schema, row = self._schema, (VERSION, *header_row(header))
        with self._connected() as connection:
            connection.execute("BEGIN")
            for statement in _SETTINGS:
                connection.execute(statement)
            connection.execute(f"CREATE SCHEMA {schema}")
            budget = _declared(("version", *HEADER_COLUMNS))
            connection.execute(f"CREATE TABLE {schema}.budget ({budget})")
            reservations = _declared(LINE_COLUMNS).replace("id bigint", "id bigint PRIMARY KEY")
            connection.execute(f"CREATE TABLE {schema}.reservations ({reservations})")
            connection.execute(f"INSERT INTO {schema}.budget VALUES ({_marks(row)})", row)
            _commit(connection)

    @contextlib.contextmanager
    def transaction(self, writes: bool = False) -> Iterator[Contents]:
        reservations = f"{self._schema}.reservations"
        with self._connected() as connection:
            if writes:
                # At this level, each statement sees what was committed before it. The first one
                # waits for the lock, so later ones see what the last holder of the lock wrote.
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
                for statement in _SETTINGS:
                    connection.execute(statement)
                connection.execute(f"LOCK TABLE {reservations} IN SHARE ROW EXCLUSIVE MODE")
            else:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(_NO_HIDDEN_ROWS)
            yield self._read(connection)
            _commit(connection)

    def _read(self, connection: Any) -> Contents:
        schema = self._schema
        versions = connection.execute(f"SELECT version FROM {schema}.budget").fetchall()
        if any(version != VERSION for (version,) in versions):
            raise no_ledger(self.name)
        columns = ", ".join((*HEADER_COLUMNS, "sha256"))
        header_rows = connection.execute(f"SELECT {columns} FROM {schema}.budget").fetchall()
        columns = ", ".join((*LINE_COLUMNS, "sha256"))
        ordered = f"SELECT {columns} FROM {schema}.reservations ORDER BY id"
        line_rows = connection.execute(ordered).fetchall()
        ((time,),) = connection.execute("SELECT pg_catalog.clock_timestamp()").fetchall()
        write = functools.partial(self._write, connection)
        return contents(self.name, header_rows, line_rows, text_of_time(time), write)

    def _write(self, connection: Any, lines: Iterable[LedgerLine]) -> None:
        columns = (*LINE_COLUMNS, "sha256")
        changes = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns[1:])
        for line in lines:
            row = line_row(line)
            connection.execute(
                f"INSERT INTO {self._schema}.reservations ({', '.join(columns)}) "
                f"VALUES ({_marks(row)}) ON CONFLICT (id) DO UPDATE SET {changes}",
                row,
            )

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yields a connection for one transaction. It is rolled back unless the block commits it.
        Errors of the database become OSErrors or a CorruptedLedgerError."""
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict, make_conninfo
        except ImportError:
            raise InputError(
                "a ledger in PostgreSQL needs a driver: pip install 'dp-frequency-lists[ledger]'"
            ) from None
        try:
            given: dict[str, Any] = conninfo_to_dict(self._url)
        except psycopg.Error:
            raise InputError(
                "the ledger's URL cannot be read: give postgresql://USER@HOST/DATABASE"
            ) from None
        try:
            # psycopg's own context would commit.
            connected = psycopg.connect(make_conninfo(**(_CONNECTION | given)), autocommit=True)
            with contextlib.closing(connected) as connection:
                yield connection
        except (psycopg.Error, UnicodeError) as error:
            raise self._fault(error) from None

    def _fault(self, error: Exception) -> Exception:
        """Returns the error of the operating system, or of a ledger, in place of the database's."""
        code = getattr(error, "sqlstate", None) or ""
        if code in ("3F000", "42P01"):  # no such schema, or table
            return FileNotFoundError(errno.ENOENT, "there is no ledger", self.name)
        if code in ("42P06", "42P07", "23505"):  # the schema or table exists, or appears just now
            return FileExistsError(errno.EEXIST, "there is a ledger", self.name)
        if code in ("42703", "42804", "42P10"):  # columns are missing, or of other types
            return damaged(self.name)
        if code in _FAULTS:
            return OSError(*_FAULTS[code])
        return OSError(errno.EIO, f"the database failed: {' '.join(str(error).split())}")


def _commit(connection: Any) -> None:
    if connection.execute("COMMIT").statusmessage != "COMMIT":
        raise OSError(errno.EIO, "the database did not commit")


def _declared(columns: Iterable[str]) -> str:
    """Returns the columns of a table with their types, as CREATE TABLE takes them."""
    integers = (*INTEGERS, "version")
    declared = [f"{name} {'bigint' if name in integers else 'text'} NOT NULL" for name in columns]
    return ", ".join([*declared, "sha256 text NOT NULL"])


def _marks(row: tuple[Any, ...]) -> str:
    return ", ".join(["%s"] * len(row))
