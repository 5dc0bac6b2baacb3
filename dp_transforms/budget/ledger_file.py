"""Reads and writes a ledger's file, an SQLite database whose rows have checksums."""

from __future__ import annotations

import contextlib
import datetime
import enum
import errno
import hashlib
import json
import os
import secrets
import socket
import sqlite3
import stat
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple

from dp_transforms.budget.budget import Cost, PrivacyBudget, PrivacyFilter, PrivacyUnit

_WAIT_SECONDS = 60.0
_APPLICATION, _VERSION = 0x64704C67, 5
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
    "CREATE TABLE budget (identity, epsilon, delta, composition_delta, unit, free_failures,"
    " sha256)",
    "CREATE TABLE reservations (id INTEGER PRIMARY KEY, state, purpose, epsilon, delta, loss_range,"
    " command, output, label, job_id, host, process, announces, begun, reserved_at, closed_at,"
    " sha256)",
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


class CorruptedLedgerError(ValueError):
    """Raised if a file is damaged or no ledger; the message says what to do."""


class Header(NamedTuple):
    """A header has a ledger's random name, its budget, its unit, and how many reservations of
    failed jobs it gives back."""

    identity: str
    filter: PrivacyFilter
    unit: PrivacyUnit
    free_failures: int


class State(enum.Enum):
    """A state tells whether a reservation is open, committed, or given back: on a person's word
    (abandoned), or because its job failed."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    ABANDONED = "abandoned"
    FAILED = "failed"


@dataclass(frozen=True)
class Origin:
    """An origin describes the job of a reservation, in printable text that holds nothing private.

    Attributes:
      command, output, label: the job's name, the destination of its release, and its user's words.
      job_id: a name that only reruns of this job share.
    """

    command: str = ""
    output: str = ""
    label: str = ""
    job_id: str = ""

    def __post_init__(self) -> None:
        for name in ("command", "label", "job_id"):
            check_text(name, getattr(self, name))
        check_text("output", self.output, most=4096)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class LedgerLine:
    """A line is one reservation, by default of this process and of now.

    Attributes:
      id: counts reservations from 1.
      purpose, cost, origin, unit: as given; the unit is the ledger's.
      announces: whether the job calls ``begin`` before it writes.
      begun: whether the job may have written under it.
      host, process: names of the machine, and of the process that reserved; see ``has_ended``.
      reserved_at, closed_at: times in UTC; the second is empty while the reservation is open.
      is_lost: whether its job had certainly ended without beginning a release when the row was
        read, and the ledger has a free failure left for it. This is asked once a row: a process
        that ends between two questions would be given back for one, and not for the other.
    """

    id: int
    purpose: str
    cost: Cost
    unit: PrivacyUnit
    origin: Origin
    announces: bool
    state: State = State.RESERVED
    begun: bool = False
    host: str = field(default_factory=socket.gethostname)
    process: str = field(default_factory=lambda: this_process())
    reserved_at: str = field(default_factory=_now)
    closed_at: str = ""
    is_lost: bool = field(default=False, compare=False)

    def closed(self, state: State) -> LedgerLine:
        """Returns the line, closed now in a state."""
        return replace(self, state=state, closed_at=_now())

    def to_json(self) -> dict[str, Any]:
        """Returns the public part of the line, for a statement."""
        return {
            "id": self.id,
            "state": self.state.value,
            "unit": self.unit.value,
            "purpose": self.purpose,
            "epsilon": str(self.cost.budget.epsilon),
            "delta": str(self.cost.budget.delta),
            "loss_range": str(self.cost.loss_range),
        }

    @property
    def may_be_given_back(self) -> bool:
        """Tells whether nothing has come out under it, and nothing can once it is given back."""
        return self.state is State.RESERVED and self.announces and not self.begun

    @property
    def counts(self) -> bool:
        """Tells whether it counts as spent."""
        return self.state in (State.RESERVED, State.COMMITTED) and not self.is_lost


def _write(connection: sqlite3.Connection, table: str, row: Sequence[Any]) -> None:
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"REPLACE INTO {table} VALUES ({marks})", (*row, _checksum(row)))


def _checked(row: Sequence[Any]) -> Sequence[Any]:
    """Returns a row without its checksum; raises a ValueError if that is wrong."""
    if row[-1] != _checksum(row[:-1]):
        raise ValueError("a wrong checksum")
    return row[:-1]


def _checksum(row: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(row, default=repr).encode()).hexdigest()


@contextlib.contextmanager
def transaction(path: str, begin: str = "BEGIN") -> Iterator[sqlite3.Connection]:
    """Connects to a file that exists for one transaction, which is rolled back after an error;
    errors of SQLite become an OSError or a CorruptedLedgerError."""
    # SQLite would wait for a pipe.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    existing = f"file:{urllib.parse.quote(path)}?mode=rw"
    options: Any = {"timeout": _WAIT_SECONDS, "isolation_level": None, "uri": True}
    try:
        with contextlib.closing(sqlite3.connect(existing, **options)) as made:
            # EXTRA also syncs the directory after the journal is gone, so that a power cut does not
            # bring it back.
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
        raise (_no_ledger(path) if "not a database" in text else _damaged(path)) from None


def _no_ledger(path: str) -> CorruptedLedgerError:
    return CorruptedLedgerError(
        f"{path} is not a privacy ledger of this version: check its path. It was not changed. (In "
        "place of one of an earlier version create another one with what is left)"
    )


def _damaged(path: str) -> CorruptedLedgerError:
    return CorruptedLedgerError(
        f"{path} is damaged, or was not written by this library. Nothing is read from it. Restore "
        "the file from where it is intact; do not start an empty one in its place"
    )


def _row(line: LedgerLine) -> tuple[Any, ...]:
    amounts = line.cost.budget.epsilon, line.cost.budget.delta, line.cost.loss_range
    told = (line.id, line.state.value, line.purpose, *map(str, amounts), *astuple(line.origin))
    seen = (line.host, line.process, int(line.announces), int(line.begun))
    return (*told, *seen, line.reserved_at, line.closed_at)


def _line(row: Sequence[Any], unit: PrivacyUnit) -> LedgerLine:
    number, state, purpose, epsilon, delta, loss_range, *origin = row[:10]
    host, process, announces, begun, *times = row[10:]
    cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
    given = number, purpose, cost, unit, Origin(*origin), bool(announces)
    return LedgerLine(*given, State(state), bool(begun), host, process, *times)


def free_failures_left(header: Header, lines: Iterable[LedgerLine]) -> int:
    """Returns how many more reservations of failed jobs a ledger gives back."""
    used = sum(line.state is State.FAILED or line.is_lost for line in lines)
    return header.free_failures - used


def _with_losses(header: Header, lines: Sequence[LedgerLine]) -> Iterator[LedgerLine]:
    """Marks the reservations whose jobs have ended without beginning a release, up to the number of
    free failures."""
    left = free_failures_left(header, lines)
    for line in lines:
        is_lost = left > 0 and line.may_be_given_back and has_ended(line.process)
        left -= is_lost
        yield replace(line, is_lost=is_lost)


def check_text(name: str, text: str, least: int = 0, most: int = 200) -> None:
    """Raises a ValueError unless the named text is one printable line of allowed length."""
    if not isinstance(text, str) or not text.isprintable() or not least <= len(text) <= most:
        raise ValueError(f"{name} must be {least} to {most} printable characters, got {text!r}")


def create(path: str, header: Header) -> None:
    """Makes a ledger's file, which appears whole or not at all; see ``Ledger.create``."""
    budget = header.filter.budget
    amounts = budget.epsilon, budget.delta, header.filter.composition_delta
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with transaction(temporary, "BEGIN EXCLUSIVE") as connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            row = (header.identity, *map(str, amounts), header.unit.value, header.free_failures)
            _write(connection, "budget", row)
        # Unlike a rename, a link never replaces a file.
        os.link(temporary, path)
    finally:
        os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(connection: sqlite3.Connection, path: str) -> tuple[Header, tuple[LedgerLine, ...]]:
    """Returns a ledger's header and lines; raises a CorruptedLedgerError if a check fails."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (_APPLICATION, _VERSION):
        raise _no_ledger(path)
    if connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise _damaged(path)
    try:
        (row,) = connection.execute("SELECT * FROM budget").fetchall()
        identity, epsilon, delta, composition_delta, unit, free_failures = _checked(row)
        privacy_filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        header = Header(identity, privacy_filter, PrivacyUnit(unit), free_failures)
        rows = connection.execute("SELECT * FROM reservations ORDER BY id").fetchall()
        stored = [_line(_checked(row), header.unit) for row in rows]
        lines = tuple(_with_losses(header, stored))
        if [line.id for line in lines] != list(range(1, len(lines) + 1)):
            raise ValueError("a row is missing")
    except (ValueError, TypeError):
        raise _damaged(path) from None
    spent = [line.cost for line in lines if line.counts]
    if not privacy_filter.admits(spent, Cost(PrivacyBudget(0))):
        raise CorruptedLedgerError(f"{path}: its reservations exceed its budget")
    return header, lines


def write(connection: sqlite3.Connection, lines: Iterable[LedgerLine]) -> None:
    """Writes lines, each in place of one with the same id."""
    for line in lines:
        _write(connection, "reservations", _row(line))


def this_process() -> str:
    """Names this process by the machine's boot, the namespace of its number, its number and its
    start; returns "" if the system does not tell them."""
    try:
        return f"{_namespace()} {os.getpid()} {_started(os.getpid())[1]}"
    except OSError:
        return ""


def has_ended(process: str) -> bool:
    """Tells whether a process has certainly ended: it was named by ``this_process`` on this boot of
    this machine and in this namespace, and its number is free or another's by now."""
    try:
        boot_and_space, number, start = process.rsplit(" ", 2)
        if boot_and_space != _namespace():
            return False
        with contextlib.suppress(PermissionError):  # another user's process has the number
            os.kill(int(number), 0)
        state, started = _started(int(number))
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return state in "ZX" or started != start


def _namespace() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"


def _started(number: int) -> tuple[str, str]:
    """Returns the state of a process, and the clock ticks from boot to its start."""
    with open(f"/proc/{number}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].decode("ascii").split()
    return fields[0], fields[19]
