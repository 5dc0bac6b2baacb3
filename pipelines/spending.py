"""Reserves a job's budget in a ledger before data are read, and settles it when the job has ended.

After the release the budget is committed. If nothing can have come out of the job, it is given back
(see ``dp_transforms.budget.failures``).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedLedgerError,
    Cost,
    JobExistsError,
    Ledger,
    LedgerLine,
    Origin,
    PrivacyBudget,
    PrivacyUnitError,
    Request,
    State,
)
from dp_transforms.budget.entry import NO_BUDGET, BudgetEntry
from dp_transforms.budget.failures import FailuresUsedUpError, is_charged
from dp_transforms.budget.ledger import LEASE_SECONDS
from dp_transforms.errors import (
    DoneError,
    InputError,
    NoBudgetError,
    NotStartedError,
    UnderWayError,
)
from dp_transforms.files.paths import local_path, reason
from pipelines.command_line import refuse
from pipelines.job_context import Price, Progress


def origin_of(flags: argparse.Namespace, command: str) -> Origin:
    """Returns the description of a job for its rows in a ledger.

    Raises:
      ValueError: a text is not printable or too long, or is given without a ledger; or the URL of
        the ledger is refused.
    """
    if flags.ledger is None:
        refuse(flags, "goes with --ledger", "label", "job_id", "workers_reach_ledger")
    else:
        Ledger.check_path(flags.ledger)
    if flags.job_id == "":
        # A script's variable may not be set. Without the name, reruns would pay again.
        raise ValueError("--job_id must not be empty: leave it out, or name the job")
    output = local_path(flags.output)
    if "://" not in output:
        output = os.path.abspath(output)
    return Origin(command, output, flags.label or "", flags.job_id or "")


@contextlib.contextmanager
def spending(
    path: str | None,
    requests: Sequence[Request],
    origin: Origin | None = None,
    progress: Progress | None = None,
) -> Iterator[BudgetEntry]:
    """Reserves all requests, and commits them when the block ends without an error. Yields the
    budget's entry for each privacy.json.

    The block, and everything that it starts, must not write before it calls ``BudgetEntry.begin``.
    After an error the reservations are given back if all of these hold: no release was begun under
    them, the error is not charged (see ``budget.failures``), and the ledger has free failures left.
    Otherwise they stay spent. After a NotStartedError they are given back in any case, since a job
    that never ran costs nothing.

    Args:
      path: the ledger. None if there is none; then a statement lists the parts of the job's own
        cost if there are several.
      requests: what to reserve.
      origin: the job, for its rows in the ledger.
      progress: after an error, its ``price`` is set to what became of the reservations.

    Raises:
      InputError: there is no such ledger, it is damaged, cannot be written, or has too little left;
        then nothing is reserved. Or it cannot be written after the release.
    """
    if path is None and len(requests) == 1:
        yield NO_BUDGET
        return
    with contextlib.ExitStack() as stack:
        if path is None:
            own = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "ledger")
            whole = sum((request.cost.budget for request in requests), PrivacyBudget(0))
            ledger = Ledger.create(own, whole.epsilon, whole.delta, unit=requests[0].unit)
        else:
            ledger = _opened(path)
        with _as_job_errors():
            reservations = ledger.reserve_all(requests, origin, True, LEASE_SECONDS)
        ids = tuple(reservation.id for reservation in reservations)
        try:
            with _as_job_errors():
                lines = ledger.lines()
            entry = BudgetEntry.of(ledger.budget, requests[0].unit, lines)
            if path is not None:
                entry = entry.in_shared_ledger(ledger, ids)
                stack.enter_context(ledger.held(ids))
            yield entry
        except BaseException as error:
            is_free = False
            # If the ledger cannot be written now, the next job that reserves will close these
            # reservations. It may have done so already if this job was suspended for long.
            with contextlib.suppress(ValueError, OSError):
                is_free = _close_failed(ledger, ids, error)
            if progress is not None and path is not None:
                progress.price = Price.GIVEN_BACK if is_free else Price.SPENT
            raise
        _commit(ledger, ids)


def _close_failed(ledger: Ledger, ids: Sequence[int], error: BaseException) -> bool:
    """Closes the reservations of a failed job, and returns whether all were given back."""
    if is_charged(error):
        ledger.charge(*ids)
        return False
    if isinstance(error, NotStartedError):
        # No record was read, so the failure discloses nothing about the data.
        ledger.abandon(*ids)
        return True
    return ledger.give_back(ids)


@contextlib.contextmanager
def first_records(path: str | None, doing: str) -> Iterator[None]:
    """Notes in a ledger, by a row without a cost, that records may be read in the block.

    Some records are read before the job's price is known: a database may read records to plan a
    query or to find its types, and the first lines of some files are records. So a failure of the
    block, or a kill during it, counts as a free failure, unless it is a fault in the flags. If no
    free failure is left, the block is not entered.

    Args:
      path: the ledger; None does nothing.
      doing: the purpose of the row, such as "planning of a query".

    Raises:
      InputError: the ledger has no free failure left; or see ``spending``.
    """
    if path is None:
        yield
        return
    ledger = _opened(path)
    with _as_job_errors():
        if not ledger.free_failures_left():
            raise NoBudgetError(
                f"{path} has no free failures left, and the {doing} may fail by what is in the "
                "data: give files of Parquet, or of CSV with a header, or another ledger"
            )
        request = Request(doing, Cost(PrivacyBudget(0)), ledger.unit)
        (planned,) = ledger.reserve_all([request], None, True, LEASE_SECONDS)
    try:
        with ledger.held([planned.id]):
            yield
    except BaseException as error:
        is_fault_of_flags = isinstance(error, ValueError) and not isinstance(error, InputError)
        with contextlib.suppress(ValueError, OSError):
            if is_fault_of_flags:
                planned.abandon()
            else:
                ledger.give_back([planned.id])
        raise
    with _as_job_errors():
        planned.abandon()


def price(path: str | None, requests: Sequence[Request]) -> list[str]:
    """Returns a job's cost as lines of text, and reserves nothing.

    Raises:
      InputError: the ledger is missing, damaged, for other neighbours, or has too little left.
    """
    lines = [
        f"{request.purpose}: {request.cost.budget}; {request.unit.neighbours}"
        for request in requests
    ]
    if path is None:
        return lines
    ledger = _opened(path)
    if any(request.unit is not ledger.unit for request in requests):
        raise InputError(f"{path} is a ledger for other neighbours: take another one")
    costs = [request.cost for request in requests]
    try:
        ledger.check_price(costs)
        fits = ledger.admits(costs)
        left = ledger.remaining()
    except FailuresUsedUpError as error:
        raise NoBudgetError(str(error)) from None
    except (CorruptedLedgerError, OSError) as error:
        raise InputError(str(error)) from None
    if not fits:
        raise NoBudgetError(f"this does not fit into {path}: {left} is left there")
    return [*lines, f"{path}: {left} is left before"]


def check_job(
    path: str,
    requests: Sequence[Request],
    origin: Origin,
    statements: Sequence[dict[str, Any] | None],
) -> None:
    """Looks for an earlier run of a job with a --job_id, and raises an error unless it may run.

    Args:
      path: the ledger.
      requests: what the job would reserve.
      origin: the job, with its name.
      statements: the privacy.json of each directory that the job writes to; None for a directory
        without a complete release.

    Raises:
      DoneError: the job has run, and its release is there. If the ledger does not say so yet, its
        reservations are committed.
      ValueError: the name is that of another job.
      UnderWayError: the job seems to be running.
      NoBudgetError: another run would have to be paid for: the release is not there although it was
        made or begun, or the failure of an earlier run was charged.
    """
    ledger = _opened(path)
    lines = ledger.of_job(origin.job_id)
    if not lines:
        return
    name = f"--job_id={origin.job_id}"
    paid = [Request(line.purpose, line.cost, line.unit) for line in lines]
    same = origin.command, origin.output
    of_other = any((line.origin.command, line.origin.output) != same for line in lines)
    if of_other or paid != list(requests):
        raise ValueError(f"{name} is in {path} for another command, output or price: give another")
    ids = [line.id for line in lines]
    if all(_is_of(statement, ledger, ids) for statement in statements):
        _commit(ledger, [line.id for line in lines if line.state is State.RESERVED])
        raise DoneError(f"{name} has run, and its release is in {origin.output}")
    if all(line.state is State.COMMITTED for line in lines):
        raise NoBudgetError(
            f"{name} has run, but its release is not in {origin.output} any more: give another "
            "--job_id to make and pay for another"
        )
    if any(line.state is State.CHARGED for line in lines):
        raise NoBudgetError(
            f"{name} has failed by the values of its records, which was charged: give another "
            "--job_id to pay for another run"
        )
    raise _still_open(name, path, lines)


def _still_open(name: str, path: str, lines: Sequence[LedgerLine]) -> InputError:
    """Returns the error of a job whose earlier run has open reservations."""
    numbers = " ".join(str(line.id) for line in lines)
    if not all(line.begun and line.has_lapsed for line in lines):
        seen = "" if all(line.leased_until for line in lines) else " as far as can be seen"
        return UnderWayError(
            f"{name} is under way on {lines[0].host} since {lines[0].reserved_at}{seen}: try again "
            f"later. If nothing came out of it, and nothing will: ledger abandon {path} {numbers}"
        )
    return NoBudgetError(
        f"{name} seems to have ended while it wrote its release, so that what it reserved in "
        f"{path} stays spent (reservations {numbers}). If its release appears, this command finds "
        "it; otherwise give another --job_id to pay for another"
    )


def _is_of(statement: dict[str, Any] | None, ledger: Ledger, ids: Sequence[int]) -> bool:
    """Returns whether a statement is that of a release under these reservations."""
    budget = (statement or {}).get("budget", {})
    return budget.get("ledger_id") == ledger.identity and budget.get("reservations") == ids


def _opened(path: str) -> Ledger:
    path = local_path(path)
    try:
        return Ledger.open(path)
    except CorruptedLedgerError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(
            f"{path} is not a ledger that can be read: {reason(error)}; 'ledger create' makes one"
        ) from None


def _commit(ledger: Ledger, ids: Sequence[int]) -> None:
    try:
        ledger.commit(*ids)
    except (ValueError, OSError):
        raise InputError(
            f"{ledger.path} cannot be written any more to say that what was reserved is spent"
        ) from None


@contextlib.contextmanager
def _as_job_errors() -> Iterator[None]:
    """Raises the errors of a job, see ``spending``, in place of errors of reading or writing a
    ledger."""
    try:
        yield
    except (BudgetExceededError, FailuresUsedUpError) as error:
        raise NoBudgetError(str(error)) from None
    except JobExistsError as error:
        raise UnderWayError(str(error)) from None
    except (PrivacyUnitError, CorruptedLedgerError) as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"the ledger cannot be written: {reason(error)}") from None
