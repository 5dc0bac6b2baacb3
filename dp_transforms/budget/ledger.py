"""A privacy budget on disk that several jobs share, spend once, and never forget.

The protocol of a job:

  1. ``reserve``: in one transaction, check that the cost fits and write the reservation. When it
     returns, the reservation is on the disk. Only then may data be read.
  2. ``begin``: a job that announces its release does this before it writes anything that depends on
     the data. From then on the reservation is not given back.
  3. ``commit``, when the release was made; or ``give_back``, when the job failed before ``begin``.

A reservation counts as spent, in exact fractions, from step 1 on, until it is given back or
abandoned. So a release is on record before it exists, and two jobs cannot spend the same budget.

**Why giving back is private.** ``begin`` and ``give_back`` are transactions on the same row, of
which the first one wins: once a reservation is given back, ``begin`` refuses and nothing can be
written under it; once a release has begun, ``give_back`` refuses. So of a job whose reservation was
given back nothing has come out but that it failed. A crash needs no guess either: if a process that
seems to have ended, by its number and start on the same boot of the same machine, should still run,
it is ``begin`` that stops it. The fact of a failure may depend on the data, and is not covered by
any guarantee, charged or not (docs/guarantee.md). On the noise it depends no more than the time
does that a release takes: noise is in memory only before ``begin``. A caller who does not announce
its release (``announces=False``, as where a runner elsewhere may go on without its launcher) gets
nothing back but by ``abandon``, in which a person vouches for it.

A ledger has one privacy unit: losses about users, edges and nodes do not add up. Everything that
was ever released under a ledger is (epsilon, delta)-DP for its budget and its unit, even if jobs
are started, or their epsilons chosen, depending on earlier outputs (see ``budget.PrivacyFilter``).

The file is an SQLite database of mode 600 with a rollback journal, which needs no memory that
processes share. Each step is a connection and a transaction of its own. A checksum on each row
finds damage, not fraud: whoever may write the file can also forge it, and an older copy in its
place cannot be told from the ledger at that time. Locks are POSIX record locks: they work on local
disks and on NFS with locks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from dp_transforms.budget import ledger_file
from dp_transforms.budget.budget import Cost, PrivacyBudget, PrivacyFilter, PrivacyUnit
from dp_transforms.budget.ledger_file import (
    CorruptedLedgerError,
    Header,
    LedgerLine,
    Origin,
    State,
    check_text,
    transaction,
)
from dp_transforms.mechanisms.decimals import Number

Lines = tuple[LedgerLine, ...]


class BudgetExceededError(ValueError):
    """The reservation does not fit in what is left of the budget. Nothing was reserved."""


class PrivacyUnitError(ValueError):
    """The reservation is for neighbours that are not the ledger's. Nothing was reserved."""


class JobExistsError(ValueError):
    """The ledger has open or committed reservations of the same job. Nothing was reserved."""


class Request(NamedTuple):
    """A reservation that is asked for: see ``Ledger.reserve`` for its purpose, cost and unit."""

    purpose: str
    cost: Cost
    unit: PrivacyUnit = PrivacyUnit.USER


class Ledger:
    """A budget file. Make one with ``create`` or ``open``.

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
      path, identity: of the file, and a random name of this ledger.
      unit: the neighbours that its guarantee compares.
      budget, composition_delta: the whole, and the part of delta that is set aside for composition.
    """

    def __init__(self, path: str, header: Header):
        self.path, self._header = path, header
        self.identity, self._filter, self.unit = header
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
    ) -> Ledger:
        """Starts a ledger. The file appears whole or not at all.

        Args:
          path: of a file that does not exist, on a file system that locks.
          epsilon, delta, unit: the whole budget, and what neighbours are.
          composition_delta: the part of delta by which many small reservations cost less than the
            sum of their epsilons; the rest is left for mechanisms that need a delta of their own.

        Raises:
          FileExistsError: there is something at the path; a ledger is never replaced.
          ValueError: a parameter is out of its range.
          OSError: the file cannot be written.
        """
        privacy_filter = PrivacyFilter(PrivacyBudget(epsilon, delta), composition_delta)
        header = Header(secrets.token_hex(8), privacy_filter, unit)
        path = os.path.abspath(os.fspath(path))
        ledger_file.create(path, header)
        return cls(path, header)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Opens a ledger that exists. Makes no file, and changes none that is something else.

        Raises:
          FileNotFoundError: there is none.
          CorruptedLedgerError: the file is damaged, or no ledger.
          OSError: it cannot be read.
        """
        path = os.path.abspath(os.fspath(path))
        with transaction(path) as connection:
            return cls(path, ledger_file.read(connection, path)[0])

    def lines(self) -> Lines:
        """Returns all reservations, the first one first. Raises as ``open``."""
        with transaction(self.path) as connection:
            return self._read(connection)

    def of_job(self, job_id: str) -> Lines:
        """Returns the reservations of a job that count as spent."""
        return _of_job(self.lines(), job_id)

    def spent(self) -> PrivacyBudget:
        """Adds up the epsilons and deltas of all reservations that count as spent."""
        return sum((cost.budget for cost in _spent(self.lines())), PrivacyBudget(0))

    def remaining(self, ranges: Number = 2) -> PrivacyBudget:
        """Returns the largest epsilon, and the largest delta, that one more reservation may have.

        Args:
          ranges: its loss_range as a multiple of its epsilon, from 1 to 2.
        """
        return self._filter.remaining(_spent(self.lines()), ranges)

    def admits(self, costs: Sequence[Cost]) -> bool:
        """Tells whether all of these costs could be reserved now, together. Nothing is reserved."""
        return self._filter.admits([*_spent(self.lines()), *costs[:-1]], costs[-1])

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
        """Spends a part of the budget, before anything is computed for release.

        Args:
          epsilon, delta, unit: the mechanism's.
          purpose: what it is for, in a line of printable text that holds nothing private.
          loss_range: see ``Cost``: a partition mechanism's ``loss_range``, or the epsilon of an
            exponential mechanism. Counts where the ledger has a composition_delta.
          origin: of which job it is.

        Returns:
          A context manager: leaving its block commits, unless an exception is the reason. Then it
          stays spent, unless the block has abandoned it.

        Raises:
          ValueError: a parameter is out of its range; otherwise as ``reserve_all``.
        """
        cost = Cost(PrivacyBudget(epsilon, delta), loss_range)
        (reservation,) = self.reserve_all([Request(purpose, cost, unit)], origin)
        return reservation

    def reserve_all(
        self, requests: Sequence[Request], origin: Origin | None = None, announces: bool = False
    ) -> list[Reservation]:
        """Spends several parts of the budget, or none of them, after the reservations of jobs that
        ended without beginning a release are given back.

        Args:
          requests, origin: the parts, and of which job they are.
          announces: the caller promises to call ``begin`` before anything that depends on the data
            leaves its process. Only then is anything ever given back.

        Raises:
          BudgetExceededError: they do not fit. Nothing is reserved.
          PrivacyUnitError: a unit is not the ledger's.
          JobExistsError: the job has reservations already.
          CorruptedLedgerError: the file is damaged.
          OSError: the reservation could not be written, for a full disk say. Release nothing.
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
        with self._writing() as (lines, write):
            write(line.closed(State.ABANDONED) for line in lines if line.is_lost)
            if origin.job_id and _of_job(lines, origin.job_id):
                raise JobExistsError(f"{self.path} has reservations of job {origin.job_id!r}")
            spent, made = _spent(lines), []
            for number, (purpose, cost, unit) in enumerate(requests, 1 + len(lines)):
                if not self._filter.admits(spent, cost):
                    ranges = cost.loss_range / cost.budget.epsilon if cost.budget.epsilon else 2
                    raise BudgetExceededError(
                        f"{cost.budget} asked for, but of the budget in {self.path} "
                        f"({self.budget}) only {self._filter.remaining(spent, ranges)} is left"
                    )
                spent.append(cost)
                made.append(LedgerLine(number, purpose, cost, unit, origin, announces))
            write(made)
        return [Reservation(self, line.id) for line in made]

    def begin(self, ids: Iterable[int]) -> None:
        """Notes, once or more often, that something may now be written under reservations.

        Raises:
          ValueError: one is not an open reservation: write nothing.
          OSError: the note could not be written: write nothing.
        """
        with self._writing() as (lines, write):
            found = [self._open_line(lines, number) for number in ids]
            write(dataclasses.replace(line, begun=True) for line in found if not line.begun)

    def give_back(self, ids: Iterable[int]) -> bool:
        """Frees reservations under which nothing was begun; returns whether all of them are free.

        Raises:
          OSError: the note could not be written. The reservations stay, and stay spent.
        """
        wanted = set(ids)
        with self._writing() as (lines, write):
            free = [line for line in lines if line.id in wanted and line.may_be_given_back]
            write(line.closed(State.ABANDONED) for line in free)
        return len(free) == len(wanted)

    def commit(self, *ids: int) -> None:
        """Notes that the release of reservations was made. Raises as ``abandon``."""
        self._close(ids, State.COMMITTED)

    def abandon(self, *ids: int) -> None:
        """Gives the budget of reservations back, on the caller's word.

        Call this only if nothing that depends on the data has left the job under it, nor will: no
        output, log line, error message or decision that anyone can see. A job that failed because
        of what is in the data has told something about the data.

        Raises:
          ValueError: one is not an open reservation.
          OSError: the note could not be written. The reservations stay, and stay spent.
        """
        self._close(ids, State.ABANDONED)

    def _close(self, ids: Iterable[int], state: State) -> None:
        with self._writing() as (lines, write):
            write(self._open_line(lines, number).closed(state) for number in ids)

    def _open_line(self, lines: Lines, number: int) -> LedgerLine:
        found = [line for line in lines if line.id == number]
        if not found or found[0].state is not State.RESERVED:
            what = f"already {found[0].state.value}" if found else "not there"
            raise ValueError(f"reservation {number} of {self.path} is {what}")
        return found[0]

    @contextlib.contextmanager
    def _writing(self) -> Iterator[tuple[Lines, Callable[[Iterable[LedgerLine]], None]]]:
        """The lines, and a function that writes some, in a transaction that excludes others'."""
        with transaction(self.path, "BEGIN IMMEDIATE") as connection:
            yield self._read(connection), functools.partial(ledger_file.write, connection)

    def _read(self, connection: sqlite3.Connection) -> Lines:
        header, lines = ledger_file.read(connection, self.path)
        if header != self._header:
            raise CorruptedLedgerError(f"{self.path} is another ledger than when it was opened")
        return lines


class Reservation:
    """A part of a ledger's budget that is spent; ``id`` is its, for the methods of ``Ledger``."""

    def __init__(self, ledger: Ledger, id: int):
        self._ledger, self.id = ledger, id
        self._open = True

    def commit(self) -> None:
        """See ``Ledger.commit``."""
        self._close(State.COMMITTED)

    def abandon(self) -> None:
        """See ``Ledger.abandon``."""
        self._close(State.ABANDONED)

    def _close(self, state: State) -> None:
        self._ledger._close([self.id], state)
        self._open = False

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._open and kind is None:
            self.commit()


def _of_job(lines: Lines, job_id: str) -> Lines:
    return tuple(line for line in lines if line.counts and line.origin.job_id == job_id)


def _spent(lines: Lines) -> list[Cost]:
    return [line.cost for line in lines if line.counts]
