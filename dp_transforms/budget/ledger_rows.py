"""Holds what a ledger stores, wherever it lies: a header and lines, as rows with checksums."""

from __future__ import annotations

import datetime
import enum
import hashlib
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from dp_transforms.budget.budget import Cost, PrivacyBudget, PrivacyFilter, PrivacyUnit
from dp_transforms.budget.processes import has_ended, is_of_this_machine, this_process

VERSION = 6
"""The version of the rows."""
HEADER_COLUMNS = ("identity", "epsilon", "delta", "composition_delta", "unit", "free_failures")
LINE_COLUMNS = (
    *("id", "state", "purpose", "epsilon", "delta", "loss_range"),
    *("command", "output", "label", "job_id", "host", "process", "announces", "begun"),
    *("reserved_at", "closed_at", "leased_until"),
)
"""The columns of the two tables, each of which ends with a column ``sha256``."""
INTEGERS = ("id", "announces", "begun", "free_failures")
"""The columns of integers; the others hold text."""

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class CorruptedLedgerError(ValueError):
    """Raised if a ledger is damaged or no ledger; the message says what to do."""


class Header(NamedTuple):
    """A header has a ledger's random name, its budget, its unit, and how many reservations of
    failed jobs it gives back."""

    identity: str
    filter: PrivacyFilter
    unit: PrivacyUnit
    free_failures: int


class State(enum.Enum):
    """A state tells whether a reservation is open, or how it was closed: the release was made
    (committed); the cost was given back on somebody's word (abandoned), or because its job failed;
    or the job failed by the values of its records, and the cost stays spent (charged)."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    ABANDONED = "abandoned"
    FAILED = "failed"
    CHARGED = "charged"


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


def now(seconds: float = 0) -> str:
    """Returns the time by this machine's clock, or the time this many seconds later, as text."""
    return text_of_time(datetime.datetime.now(datetime.timezone.utc), seconds)


def text_of_time(time: datetime.datetime, seconds: float = 0) -> str:
    """Returns a time, or the time this many seconds later, as text. Texts sort as times do.

    >>> text_of_time(datetime.datetime(2026, 11, 27, tzinfo=datetime.timezone.utc), 90)
    '2026-11-27T00:01:30Z'
    """
    later = time + datetime.timedelta(seconds=seconds)
    return later.astimezone(datetime.timezone.utc).strftime(_TIME)


def later(time: str, seconds: float) -> str:
    """Returns the time that is this many seconds after another one. Both are texts, as
    ``text_of_time`` returns them.

    >>> later("2026-11-27T23:59:59Z", 2)
    '2026-11-28T00:00:01Z'
    """
    of_zone = datetime.datetime.strptime(time, _TIME).replace(tzinfo=datetime.timezone.utc)
    return text_of_time(of_zone, seconds)


@dataclass(frozen=True)
class LedgerLine:
    """A line is one reservation. By default this process has made it now.

    Attributes:
      id: counts reservations from 1.
      purpose, cost, origin, unit: as given; the unit is the ledger's.
      announces: whether the job calls ``begin`` before it writes.
      begun: whether the job may have written under it.
      host, process: names of the machine, and of the process that reserved; see ``processes``.
      reserved_at, closed_at: times in UTC; the second is empty while the reservation is open.
      leased_until: the time at which the job is taken for ended unless it has renewed its lease; it
        is empty if the job renews none.
      has_lapsed: whether, when the row was read, its job had ended as far as can be seen from here.
      is_lost: whether this is so, its job had not begun a release, and the ledger has a free
        failure left for it. This is asked once a row: a process that ends between two questions
        would be given back for one, and not for the other.
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
    reserved_at: str = field(default_factory=now)
    closed_at: str = ""
    leased_until: str = ""
    has_lapsed: bool = field(default=False, compare=False)
    is_lost: bool = field(default=False, compare=False)

    def closed(self, state: State, time: str | None = None) -> LedgerLine:
        """Returns the line, closed in a state, by default now."""
        return replace(self, state=state, closed_at=now() if time is None else time)

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
        spent = State.RESERVED, State.COMMITTED, State.CHARGED
        return self.state in spent and not self.is_lost

    @property
    def is_failure(self) -> bool:
        """Tells whether its job is known to have failed, whatever became of its cost."""
        ended_in_writing = self.state is State.RESERVED and self.begun and self.has_lapsed
        return self.state in (State.FAILED, State.CHARGED) or self.is_lost or ended_in_writing

    def lapses(self, time: str) -> bool:
        """Tells whether its job has ended, as far as can be seen: on the job's own machine by its
        process, elsewhere by its lease."""
        if is_of_this_machine(self.process):
            return has_ended(self.process)
        return bool(self.leased_until) and self.leased_until < time


class Contents(NamedTuple):
    """The contents of a ledger during one transaction.

    Attributes:
      header, lines: all that is stored.
      time: the time by the clock that the ledger goes by.
      write: writes lines, each in place of one with the same id.
    """

    header: Header
    lines: tuple[LedgerLine, ...]
    time: str
    write: Callable[[Iterable[LedgerLine]], None]


class LedgerStore(Protocol):
    """A store keeps one ledger. Its ``name`` is a path or a URL, without a password.

    ``create`` makes the ledger, whole or not at all, or raises a FileExistsError. ``transaction``
    yields its contents, and commits what was written if its block ends without an error. A
    transaction that ``writes`` excludes all others that do, from before it reads; when it has
    ended, what it wrote is durable. Both raise an OSError if they fail; ``transaction`` raises a
    FileNotFoundError if there is no ledger, and a CorruptedLedgerError if a check fails.
    """

    name: str

    def create(self, header: Header) -> None: ...

    def transaction(self, writes: bool = False) -> AbstractContextManager[Contents]: ...


def header_row(header: Header) -> tuple[Any, ...]:
    """Returns the row of a header, with its checksum."""
    budget = header.filter.budget
    amounts = budget.epsilon, budget.delta, header.filter.composition_delta
    return _with_checksum(
        (header.identity, *map(str, amounts), header.unit.value, header.free_failures)
    )


def line_row(line: LedgerLine) -> tuple[Any, ...]:
    """Returns the row of a line, with its checksum."""
    amounts = line.cost.budget.epsilon, line.cost.budget.delta, line.cost.loss_range
    cost = (line.id, line.state.value, line.purpose, *map(str, amounts), *astuple(line.origin))
    writer = (line.host, line.process, int(line.announces), int(line.begun))
    times = (line.reserved_at, line.closed_at, line.leased_until)
    return _with_checksum((*cost, *writer, *times))


def contents(
    name: str,
    header_rows: Sequence[Sequence[Any]],
    line_rows: Sequence[Sequence[Any]],
    time: str,
    write: Callable[[Iterable[LedgerLine]], None],
) -> Contents:
    """Returns what the rows of a ledger's tables hold, lines in order; raises a
    CorruptedLedgerError if a check fails."""
    try:
        (row,) = header_rows
        identity, epsilon, delta, composition_delta, unit, free_failures = _checked(row)
        privacy_filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        header = Header(identity, privacy_filter, PrivacyUnit(unit), free_failures)
        stored = [_line(_checked(row), header.unit) for row in line_rows]
        if [line.id for line in stored] != list(range(1, len(stored) + 1)):
            raise ValueError("a row is missing")
    except (ValueError, TypeError):
        raise damaged(name) from None
    lines = tuple(_with_losses(header, stored, time))
    spent = [line.cost for line in lines if line.counts]
    if not privacy_filter.admits(spent, Cost(PrivacyBudget(0))):
        raise CorruptedLedgerError(f"{name}: its reservations exceed its budget")
    return Contents(header, lines, time, write)


def _line(row: Sequence[Any], unit: PrivacyUnit) -> LedgerLine:
    number, state, purpose, epsilon, delta, loss_range, *origin = row[:10]
    host, process, announces, begun, *times = row[10:]
    cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
    given = number, purpose, cost, unit, Origin(*origin), bool(announces)
    return LedgerLine(*given, State(state), bool(begun), host, process, *times)


def _with_checksum(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*row, _checksum(row))


def _checked(row: Sequence[Any]) -> Sequence[Any]:
    """Returns a row without its checksum; raises a ValueError if that is wrong."""
    if row[-1] != _checksum(row[:-1]):
        raise ValueError("a wrong checksum")
    return row[:-1]


def _checksum(row: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(row, default=repr).encode()).hexdigest()


def no_ledger(name: str) -> CorruptedLedgerError:
    return CorruptedLedgerError(
        f"{name} is not a privacy ledger of this version: check its path. It was not changed. (In "
        "place of one of an earlier version create another one with what is left)"
    )


def damaged(name: str) -> CorruptedLedgerError:
    return CorruptedLedgerError(
        f"{name} is damaged, or was not written by this library. Nothing is read from it. Restore "
        "it from where it is intact; do not start an empty one in its place"
    )


def free_failures_left(header: Header, lines: Iterable[LedgerLine]) -> int:
    """Returns how many more reservations of failed jobs a ledger gives back."""
    return max(0, header.free_failures - sum(line.is_failure for line in lines))


def _with_losses(header: Header, lines: Sequence[LedgerLine], time: str) -> Iterator[LedgerLine]:
    """Marks the open reservations whose jobs have ended, and those of them that are given back:
    which had not begun a release, up to the number of free failures."""
    seen = []
    for line in lines:
        if line.state is State.RESERVED and line.lapses(time):
            line = replace(line, has_lapsed=True)
        seen.append(line)
    left = free_failures_left(header, seen)
    for line in seen:
        is_lost = left > 0 and line.may_be_given_back and line.has_lapsed
        left -= is_lost
        yield replace(line, is_lost=True) if is_lost else line


def check_text(name: str, text: str, least: int = 0, most: int = 200) -> None:
    """Raises a ValueError unless the named text is one printable line of allowed length."""
    if not isinstance(text, str) or not text.isprintable() or not least <= len(text) <= most:
        raise ValueError(f"{name} must be {least} to {most} printable characters, got {text!r}")
