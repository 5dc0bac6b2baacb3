"""What a job spends: reserved in a ledger before data are read, committed after the release."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedJournalError,
    Ledger,
    LedgerLine,
    PrivacyBudget,
    PrivacyUnit,
    PrivacyUnitError,
    Reservation,
)
from dp_transforms.budget.filter import Cost
from dp_transforms.budget.ledger import State
from pipelines.errors import InputError
from pipelines.files.paths import local_path, reason


class Part(NamedTuple):
    """What one release of a job costs."""

    purpose: str  # holds nothing private
    budget: PrivacyBudget
    loss_range: float | None = None  # see ``Ledger.reserve``; known of lists
    unit: PrivacyUnit = PrivacyUnit.USER


def add_ledger_flag(group: Any) -> None:
    """The flag of jobs that spend from a ledger, for a group of a parser's flags."""
    group.add_argument(
        "--ledger",
        metavar="FILE",
        help="a privacy ledger that several jobs share (pipelines.ledger makes one): what this job "
        "releases is reserved there, or refused, before data are read",
    )


@contextlib.contextmanager
def spending(
    path: str | None, whole: PrivacyBudget | None, parts: Sequence[Part]
) -> Iterator[dict[str, Any]]:
    """Reserves all parts, and commits them when the block is left without an error.

    After an error they stay spent: something may have got out.

    Args:
      path: a ledger; None for one of this job alone.
      whole: what a ledger of this job alone may spend; without one, there is none.
      parts: what is spent.

    Yields:
      What to add to each privacy.json.

    Raises:
      InputError: there is no such ledger, it is damaged, cannot be written, or has too little
        left, and then no part is reserved; or it cannot be written after the release.
    """
    if path is None and whole is None:
        yield {}
        return
    with contextlib.ExitStack() as stack:
        if path is None:
            assert whole is not None
            own = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "ledger")
            ledger = Ledger.create(own, whole.epsilon, whole.delta, unit=parts[0].unit)
        else:
            ledger = _opened(path)
        reserved = _reserved(ledger, parts)
        budget = {
            "epsilon": str(ledger.budget.epsilon),
            "delta": str(ledger.budget.delta),
            "neighbours": parts[0].unit.neighbours,
            "ledger": [_told(line, reserved) for line in ledger.lines()],
        }
        yield {"budget": budget}
        try:
            for reservation in reserved:
                reservation.commit()
        except (CorruptedJournalError, OSError):
            raise InputError(
                f"the release was made and its budget is spent, but {path} cannot be written "
                f"any more to say that it is complete"
            ) from None


def price(path: str | None, parts: Sequence[Part]) -> list[str]:
    """What a job would spend, in lines of text. Nothing is reserved.

    Raises:
      InputError: the ledger is none or damaged, is for other neighbours, or has too little left.
    """
    lines = [f"{part.purpose}: {part.budget}; {part.unit.neighbours}" for part in parts]
    if path is None:
        return lines
    ledger = _opened(path)
    if any(part.unit is not ledger.unit for part in parts):
        raise InputError(f"{path} is a ledger for other neighbours: take another one")
    try:
        fits = ledger.admits([Cost(part.budget, part.loss_range) for part in parts])
        left = ledger.remaining()
    except (CorruptedJournalError, OSError) as error:
        raise InputError(str(error)) from None
    if not fits:
        raise InputError(f"this does not fit into {path}, of which {left} is left")
    return [*lines, f"{path}: {left} is left before"]


def _told(line: LedgerLine, reserved: Sequence[Reservation]) -> dict[str, Any]:
    """A line of the ledger for a privacy.json, which is only there if its release is."""
    told = line.to_json()
    if line.number in [one.number for one in reserved]:
        told["state"] = State.COMMITTED.value
    return told


def _opened(path: str) -> Ledger:
    path = local_path(path)
    try:
        return Ledger.open(path)
    except CorruptedJournalError as error:
        raise InputError(str(error)) from None
    except OSError as error:
        raise InputError(f"{path} is not a ledger that can be read: {reason(error)}") from None


def _reserved(ledger: Ledger, parts: Sequence[Part]) -> list[Reservation]:
    """All parts, or an error and none."""
    reserved: list[Reservation] = []
    try:
        for purpose, budget, loss_range, unit in parts:
            reserved.append(
                ledger.reserve(
                    budget.epsilon, budget.delta, purpose=purpose, unit=unit, loss_range=loss_range
                )
            )
    except (BudgetExceededError, PrivacyUnitError, CorruptedJournalError, OSError) as error:
        for reservation in reserved:
            # What cannot be given back, on a full disk say, stays spent.
            with contextlib.suppress(CorruptedJournalError, OSError):
                reservation.abandon()
        if isinstance(error, OSError):
            raise InputError(f"the ledger cannot be written: {reason(error)}") from None
        raise InputError(str(error)) from None
    return reserved
