"""Keeps a privacy budget, which several jobs share and spend once.

The protocol of a job:

  1. ``reserve`` checks, in one transaction, that the cost fits, and writes the reservation. When it
     returns, the reservation is on a disk. Only then may data be read.
  2. ``begin`` is called by a job that announces its release, before it writes anything that depends
     on the data. From then on the reservation is not given back.
  3. ``commit`` follows the release. If the job failed before ``begin``, ``give_back`` or ``charge``
     follows, as ``failures`` decides.

A reservation counts as spent, in exact fractions, from step 1 on, until it is given back (its state
is then "failed") or abandoned. So a release is on record before it exists, and two jobs cannot
spend the same budget. All releases under a ledger together are (epsilon, delta)-DP for its budget
and its unit, even if jobs, or their epsilons, are chosen by earlier outputs (see
``budget.PrivacyFilter``). Losses about users, edges and nodes do not add up, so a ledger has one
unit.

**Why giving back is private.** ``begin`` and ``give_back`` are transactions on the same row, and
the first one wins. Once a reservation is given back, ``begin`` refuses, so nothing can be written
under it. Once a release has begun, ``give_back`` refuses. So nothing has come out of a job whose
reservation was given back, except that it failed. The fact of a failure may depend on the data.
``failures`` says which failures are charged, why a ledger has a limited number of free ones, and
why it takes no cheap jobs after them. The fact of a failure depends on the noise no more than the
time of a release does: before ``begin``, noise is in memory only. A caller that does not announce
its release (``announces=False``) gets nothing back but by ``abandon``, for which a person vouches.

**Jobs that end without closing their rows.** The next job that reserves gives back the reservations
of jobs that have ended, as far as it can see. On the job's own machine it looks for the process, by
its number and start. For other machines it looks at the lease, which a running job renews
(``held``). This may be wrong: a process may be stopped for longer than its lease, or a clock may be
ahead. It is private all the same, because no clock decides what counts as spent. A reservation
counts until its row says "failed", and the same transaction writes this and reserves for the next
job. So when a stopped process goes on, its row is either closed, and ``begin`` refuses, or it is
open, and all other jobs have counted it. At worst, a job fails that could have gone on.

A ledger is kept in a file or in PostgreSQL. The file is an SQLite database of mode 600 with a
rollback journal, which needs no shared memory. Each step has its own connection and transaction. A
checksum on each row finds damage, and no fraud: whoever may write a ledger can also forge it. An
older copy in the place of a ledger cannot be recognised. So a database server must not fail over to
one that lacks the last commits. The file's POSIX record locks work on local disks and on NFS with
locks. The times of leases come from the clocks of the machines for a file, and from the server's
clock in PostgreSQL.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dp_transforms.budget.budget import Cost, PrivacyBudget, PrivacyFilter, PrivacyUnit
from dp_transforms.budget.failures import FREE_FAILURES, check_free_failures, check_price
from dp_transforms.budget.ledger_file import LedgerFile
from dp_transforms.budget.ledger_rows import (
    Contents,
    CorruptedLedgerError,
    Header,
    LedgerLine,
    LedgerStore,
    Origin,
    State,
    check_text,
    free_failures_left,
    later,
)
from dp_transforms.database_urls import is_postgresql
from dp_transforms.mechanisms.decimals import Number

LEASE_SECONDS = 300.0
"""How long a reservation of a job of another machine stays open after the job was last heard of."""
_RENEWALS_IN_A_LEASE = 10

Lines = tuple[LedgerLine, ...]


class BudgetExceededError(ValueError):
    """Raised if a reservation exceeds the remaining budget; nothing was reserved."""


class PrivacyUnitError(ValueError):
    """Raised if a reservation has another unit than the ledger; nothing was reserved."""


class JobExistsError(ValueError):
    """Raised if the job already has an open, committed or charged reservation; nothing was
    reserved."""


class Request(NamedTuple):
    """A request asks for a reservation: see ``Ledger.reserve`` for purpose, cost and unit."""

    purpose: str
    cost: Cost
    unit: PrivacyUnit = PrivacyUnit.USER


class Ledger:
    """A ledger is a budget that is kept in a file or a database. ``create`` makes one, and ``open``
    finds one that exists.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "budget.ledger")
    >>> ledger = Ledger.create(path, epsilon=1, delta=1e-6)
    >>> with ledger.reserve(0.25, purpose="passwords, all users"):
    ...     pass  # compute and publish
    >>> print(ledger.spent())
    epsilon 0.25, delta 0
    >>> Ledger.open(path).reserve(0.8, purpose="again")
    Traceback (most recent call last):
      ...
    dp_transforms.budget.ledger.BudgetExceededError: epsilon 0.8, delta 0 asked for, but ...

    Attributes:
      path: the path of its file, or its URL.
      identity: a random name of this ledger.
      unit: the unit that neighbours add, remove or replace.
      budget, composition_delta: the whole budget, and the part of delta for composition.
      free_failures: how many reservations of failed jobs it gives back.
    """

    def __init__(self, store: LedgerStore, header: Header):
        self._store, self.path, self._header = store, store.name, header
        self.identity, self._filter, self.unit, self.free_failures = header
        self.budget = self._filter.budget
        self.composition_delta = self._filter.composition_delta

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: Number,
        delta: Number = 0,
        composition_delta: Number = 0,
        unit: PrivacyUnit = PrivacyUnit.USER,
        free_failures: int = FREE_FAILURES,
    ) -> Ledger:
        """Makes a ledger, whole or not at all, and returns it.

        Args:
          path: the path of a file that does not exist, on a file system that locks; or a URL,
            postgresql://USER@HOST/DATABASE (extra: ledger), without a password. #SCHEMA may follow
            it, the name of a schema; by default this is privacy_ledger.
          epsilon, delta, unit: the whole budget, and its unit.
          composition_delta: the part of delta by which many small reservations cost less than the
            sum of their epsilons; the rest is for mechanisms with a delta of their own.
          free_failures: how many reservations of failed jobs it gives back; a charged failure uses
            up one too. After that, the reservations of failed jobs stay spent, and a job costs at
            least a hundredth of the budget. See ``failures``.

        Raises:
          FileExistsError: the path exists; a ledger is never replaced.
          ValueError: a parameter is out of its range, or a URL has a password.
          InputError: the driver is not installed, or the URL cannot be read.
          OSError: the file or the database cannot be written.
        """
        privacy_filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        check_free_failures(free_failures)
        header = Header(secrets.token_hex(8), privacy_filter, unit, free_failures)
        store = _store_of(path)
        store.create(header)
        return cls(store, header)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Returns the ledger at a path or URL. A file that is no ledger is not changed.

        Raises:
          FileNotFoundError: there is none.
          CorruptedLedgerError: it is damaged, or no ledger.
          OSError: it cannot be read.
          ValueError, InputError: see ``create``.
        """
        store = _store_of(path)
        with store.transaction() as stored:
            return cls(store, stored.header)

    @staticmethod
    def check_path(path: str | os.PathLike[str]) -> None:
        """Raises a ValueError for a URL that ``create`` and ``open`` refuse, without connecting."""
        _store_of(path)

    def lines(self) -> Lines:
        """Returns all reservations, in order. Raises the errors of ``open``."""
        return self._stored().lines

    def of_job(self, job_id: str) -> Lines:
        """Returns the reservations of a job that count as spent."""
        return _of_job(self.lines(), job_id)

    def spent(self) -> PrivacyBudget:
        """Returns the sums of the epsilons and deltas that count as spent."""
        return sum((cost.budget for cost in _spent(self.lines())), PrivacyBudget(0))

    def remaining(self, ranges: Number = 2) -> PrivacyBudget:
        """Returns the largest epsilon, and the largest delta, that one more reservation may have.

        Args:
          ranges: the reservation's loss_range as a multiple of its epsilon, from 1 to 2.
        """
        return self._filter.remaining(_spent(self.lines()), ranges)

    def free_failures_left(self) -> int:
        """Returns how many more reservations of failed jobs are given back."""
        return free_failures_left(self._header, self.lines())

    def admits(self, costs: Sequence[Cost]) -> bool:
        """Returns whether all costs could be reserved together now, without reserving them."""
        return self._filter.admits([*_spent(self.lines()), *costs[:-1]], costs[-1])

    def check_price(self, costs: Sequence[Cost]) -> None:
        """Raises a FailuresUsedUpError if no free failure is left, and the costs of a job are so
        small that ``reserve_all`` would refuse them."""
        check_price(self.budget, self.free_failures_left(), costs, str(self.path))

    def reserve(
        self,
        epsilon: Number,
        delta: Number = 0,
        *,
        purpose: str,
        unit: PrivacyUnit = PrivacyUnit.USER,
        loss_range: Number | None = None,
        origin: Origin | None = None,
    ) -> Reservation:
        """Spends a part of the budget, before data are read.

        Args:
          epsilon, delta, unit: the mechanism's.
          purpose: of the release, in a line of printable text that holds nothing private.
          loss_range: see ``Cost``: a partition mechanism's ``loss_range``, or the epsilon of an
            exponential mechanism. It matters if the ledger has a composition_delta.
          origin: the job that reserves.

        Returns:
          A context manager, which commits at the end of its block. After an exception the budget
          stays spent, unless the block has abandoned it.

        Raises:
          ValueError: a parameter is out of its range; otherwise as ``reserve_all``.
        """
        cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
        (reservation,) = self.reserve_all([Request(purpose, cost, unit)], origin)
        return reservation

    def reserve_all(
        self,
        requests: Sequence[Request],
        origin: Origin | None = None,
        announces: bool = False,
        lease_seconds: float | None = None,
    ) -> list[Reservation]:
        """Spends several parts of the budget, or none of them.

        First, reservations of jobs that ended before they began a release are given back, up to the
        number of free failures left. A job of this machine has ended if its process has; any other
        job, if its lease has run out.

        Args:
          requests, origin: the parts, and the job that reserves them.
          announces: the caller promises to call ``begin`` before anything that depends on the data
            leaves its process. Without this promise, only ``abandon`` gives the parts back.
          lease_seconds: other machines treat the job as ended if it has not renewed its lease
            (``held``) for so long; by default they never do.

        Returns:
          An open reservation for each request, in their order.

        Raises:
          ValueError: a purpose is not one line of 1 to 200 printable characters.
          BudgetExceededError: the parts do not fit; nothing is reserved.
          FailuresUsedUpError: no free failure is left, the caller announces, and the parts together
            cost less than a hundredth of the budget's epsilon; nothing is reserved.
          PrivacyUnitError: a unit is not the ledger's.
          JobExistsError: the job already has an open, committed or charged reservation.
          CorruptedLedgerError: the file is damaged.
          OSError: the reservation could not be written, say to a full disk: release nothing.
        """
        origin = origin or Origin()
        for request in requests:
            check_text("purpose", request.purpose, 1)
            if request.unit is not self.unit:
                raise PrivacyUnitError(
                    f"{self.path} is a ledger for neighbours that {self.unit.neighbours}, and this "
                    f"release is for those that {request.unit.neighbours}: losses of the two do "
                    "not add up; take another ledger"
                )
        with self._writing() as stored:
            lines = stored.lines
            # Exactly the lines that do not count below are closed here, in one transaction. So a
            # worker whose parent is gone finds its line either counted or closed.
            stored.write(line.closed(State.FAILED, stored.time) for line in lines if line.is_lost)
            if origin.job_id and _of_job(lines, origin.job_id):
                raise JobExistsError(f"{self.path} has reservations of job {origin.job_id!r}")
            if announces:
                left = free_failures_left(self._header, lines)
                costs = [request.cost for request in requests]
                check_price(self.budget, left, costs, str(self.path))
            until = later(stored.time, lease_seconds) if lease_seconds else ""
            spent, made = _spent(lines), []
            for number, (purpose, cost, unit) in enumerate(requests, 1 + len(lines)):
                if not self._filter.admits(spent, cost):
                    ranges = cost.loss_range / cost.budget.epsilon if cost.budget.epsilon else 2
                    raise BudgetExceededError(
                        f"{cost.budget} asked for, but of the budget in {self.path} "
                        f"({self.budget}) only {self._filter.remaining(spent, ranges)} is left"
                    )
                spent.append(cost)
                made.append(
                    LedgerLine(
                        *(number, purpose, cost, unit, origin, announces),
                        reserved_at=stored.time,
                        leased_until=until,
                    )
                )
            stored.write(made)
        return [Reservation(self, line.id) for line in made]

    def begin(self, ids: Iterable[int]) -> None:
        """Notes, perhaps repeatedly, that a job may now write under its reservations.

        Raises:
          ValueError: a reservation is not open: write nothing.
          OSError: the note could not be written: write nothing.
        """
        with self._writing() as stored:
            wanted = [self._open_line(stored.lines, number) for number in ids]
            stored.write(dataclasses.replace(line, begun=True) for line in wanted if not line.begun)

    @contextlib.contextmanager
    def held(self, ids: Sequence[int], lease_seconds: float = LEASE_SECONDS) -> Iterator[None]:
        """Renews the leases of reservations in its block, by a thread, several times a lease. If
        the ledger cannot be written for a while, it tries again: ``begin`` tells whether the
        reservations are still open."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(lease_seconds / _RENEWALS_IN_A_LEASE):
                with contextlib.suppress(CorruptedLedgerError, OSError):
                    self.renew(ids, lease_seconds)

        renewing = threading.Thread(target=renew, name="ledger lease", daemon=True)
        renewing.start()
        try:
            yield
        finally:
            ended.set()

    def renew(self, ids: Iterable[int], lease_seconds: float = LEASE_SECONDS) -> None:
        """Notes that a job still runs, in those of its reservations that are open; raises an
        OSError if the note could not be written."""
        wanted = set(ids)
        with self._writing() as stored:
            until = later(stored.time, lease_seconds)
            stored.write(
                dataclasses.replace(line, leased_until=until)
                for line in stored.lines
                if line.id in wanted and line.state is State.RESERVED
            )

    def give_back(self, ids: Iterable[int]) -> bool:
        """Gives back those reservations of a failed job under which nothing has begun, and returns
        whether these are all of them. If the ledger has fewer free failures left than there are
        such reservations, it gives none back. If the note cannot be written, an OSError is raised,
        and the reservations stay spent."""
        wanted = set(ids)
        with self._writing() as stored:
            free = [line for line in stored.lines if line.id in wanted and line.may_be_given_back]
            if len(free) > free_failures_left(self._header, stored.lines):
                return False
            stored.write(line.closed(State.FAILED, stored.time) for line in free)
        return len(free) == len(wanted)

    def commit(self, *ids: int) -> None:
        """Notes that the release under these reservations was made. Raises the errors of
        ``abandon``."""
        self._close(ids, State.COMMITTED)

    def charge(self, *ids: int) -> None:
        """Notes that a job failed by the values of its records: the reservations stay spent, and
        each uses up a free failure, if one is left. Raises as ``abandon``."""
        self._close(ids, State.CHARGED)

    def abandon(self, *ids: int) -> None:
        """Gives the budget of reservations back, on the caller's word.

        Call it only if nothing that depends on the data has left the job, nor will: no output, log
        line, error message or decision that anyone can see. A job that failed because of its data
        has told something about them.

        Raises:
          ValueError: a reservation is not open.
          OSError: the note could not be written; the reservations stay spent.
        """
        self._close(ids, State.ABANDONED)

    def _close(self, ids: Iterable[int], state: State) -> None:
        with self._writing() as stored:
            wanted = [self._open_line(stored.lines, number) for number in ids]
            stored.write(line.closed(state, stored.time) for line in wanted)

    def _open_line(self, lines: Lines, number: int) -> LedgerLine:
        line = next((line for line in lines if line.id == number), None)
        if line is None:
            raise ValueError(f"reservation {number} of {self.path} is not there")
        if line.state is not State.RESERVED:
            raise ValueError(f"reservation {number} of {self.path} is already {line.state.value}")
        return line

    def _stored(self) -> Contents:
        with self._store.transaction() as stored:
            return self._checked(stored)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Contents]:
        """Yields the contents in a transaction that excludes others which write."""
        with self._store.transaction(writes=True) as stored:
            yield self._checked(stored)

    def _checked(self, stored: Contents) -> Contents:
        if stored.header != self._header:
            raise CorruptedLedgerError(f"{self.path} is another ledger than when it was opened")
        return stored


class Reservation:
    """A reservation is a spent part of a budget, with an ``id`` for the methods of ``Ledger``."""

    def __init__(self, ledger: Ledger, id: int):
        self._ledger, self.id = ledger, id
        self._open, self._entered = True, False

    def commit(self) -> None:
        """Notes that the release was made: see ``Ledger.commit``."""
        self._close(State.COMMITTED)

    def abandon(self) -> None:
        """Gives the budget back: see ``Ledger.abandon``."""
        self._close(State.ABANDONED)

    def _close(self, state: State) -> None:
        self._ledger._close([self.id], state)
        self._open = False

    def __enter__(self) -> Reservation:
        # A reservation pays for one release.
        if self._entered or not self._open:
            raise ValueError(
                f"reservation {self.id} was used, or given back: reserve again for another release"
            )
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._open and kind is None:
            self.commit()


def _of_job(lines: Lines, job_id: str) -> Lines:
    return tuple(line for line in lines if line.counts and line.origin.job_id == job_id)


def _spent(lines: Lines) -> list[Cost]:
    return [line.cost for line in lines if line.counts]


def _store_of(path: str | os.PathLike[str]) -> LedgerStore:
    name = os.fspath(path)
    if is_postgresql(name):
        from dp_transforms.budget.ledger_postgresql import PostgresqlLedger

        return PostgresqlLedger(name)
    return LedgerFile(name)
