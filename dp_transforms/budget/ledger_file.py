"""Keeps a ledger in a file, an SQLite database."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import secrets
import sqlite3
import stat
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import Any

from dp_transforms.budget.ledger_rows import (
    HEADER_COLUMNS,
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
    now,
)

_WAIT_SECONDS = 60.0
_APPLICATION = 0x64704C67
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    f"CREATE TABLE budget ({', '.join(HEADER_COLUMNS)}, sha256)",
    f"CREATE TABLE reservations ({', '.join(LINE_COLUMNS)}, sha256)".replace(
        "(id,", "(id INTEGER PRIMARY KEY,"
    ),
)
_FAULTS = {
    "locked": (errno.EBUSY, "another job has held the ledger's lock for a minute"),
    "readonly": (errno.EROFS, "the file or its directory is read-only"),
    "full": (errno.ENOSPC, "no space left on device"),
    "unable to open": (errno.EACCES, "the file or its directory may not be opened or written"),
    "disk i/o": (errno.EIO, "the disk or network file system failed, or does not lock"),
    "locking protocol": (errno.ENOLCK, "the file system does not lock"),
}
"""Errors of SQLite become errors of the operating system."""


class LedgerFile:
    """Keeps one ledger in a file of mode 600; see ``LedgerStore``. Times are by the clock of the
    machine that asks."""

    def __init__(self, path: str):
        self.name = os.path.abspath(path)

    def create(self, header: Header) -> None:
        """Makes the file, which appears whole or not at all."""
        folder, name = os.path.split(self.name)
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with transaction(temporary, "BEGIN EXCLUSIVE") as connection:
                for statement in _SCHEMA:
                    connection.execute(statement)
                _write(connection, "budget", header_row(header))
            # Unlike a rename, a link never replaces a file.
            os.link(temporary, self.name)
        except FileExistsError:
            # The original names the temporary file.
            text = "there is a file, and a ledger replaces none: open it, or give another path"
            raise FileExistsError(errno.EEXIST, text, self.name) from None
        finally:
            os.unlink(temporary)
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def transaction(self, writes: bool = False) -> Iterator[Contents]:
        with transaction(self.name, "BEGIN IMMEDIATE" if writes else "BEGIN") as connection:
            yield read(connection, self.name)


@contextlib.contextmanager
def transaction(path: str, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
    """Yields a connection to an existing file, in a transaction. It is committed at the end of the
    block, and rolled back after an error. Errors of SQLite become an OSError or a
    CorruptedLedgerError."""
    # SQLite would wait for a pipe.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    existing = f"file:{urllib.parse.quote(path)}?mode=rw"
    options: Any = {"timeout": _WAIT_SECONDS, "isolation_level": None, "uri": True}
    try:
        with contextlib.closing(sqlite3.connect(existing, **options)) as made:
            # EXTRA also syncs the directory after the journal was deleted. Otherwise a power cut
            # could bring the journal back, and with it the state before the transaction.
            made.execute("PRAGMA synchronous = EXTRA")
            made.execute("PRAGMA cell_size_check = ON")
            made.execute(begin)
            yield made
            made.execute("COMMIT")
    except (sqlite3.Error, UnicodeDecodeError) as error:
        text = str(error).lower()
        for words, (number, reason) in _FAULTS.items():
            if words in text:
                raise OSError(number, reason) from None
        raise (no_ledger(path) if "not a database" in text else damaged(path)) from None


def read(connection: sqlite3.Connection, path: str) -> Contents:
    """Returns the contents of a ledger's file. Raises a CorruptedLedgerError if a check fails."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (_APPLICATION, VERSION):
        raise no_ledger(path)
    if connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise damaged(path)
    header_rows = connection.execute("SELECT * FROM budget").fetchall()
    line_rows = connection.execute("SELECT * FROM reservations ORDER BY id").fetchall()
    return contents(path, header_rows, line_rows, now(), functools.partial(write, connection))


def write(connection: sqlite3.Connection, lines: Iterable[LedgerLine]) -> None:
    """Writes lines. Each replaces a line with the same id, if there is one."""
    for line in lines:
        _write(connection, "reservations", line_row(line))


def _write(connection: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"REPLACE INTO {table} VALUES ({marks})", row)
