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
    PrivacyBudget,
    Reservation,
)
from dp_transforms.decimals import decimal_text
from pipelines.errors import InputError
from pipelines.files import local_path, reason


class Part(NamedTuple):
    """What one release of a job costs.

    Attributes:
      purpose: what it is for; holds nothing private.
      budget: what it spends.
      bounded_range: see ``Ledger.reserve``; frequency lists are, selections are not.
    """

    purpose: str
    budget: PrivacyBudget
    bounded_range: bool = False


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
    path: str | None, whole: PrivacyBudget, parts: Sequence[Part]
) -> Iterator[dict[str, Any]]:
    """Reserves all parts, and commits them when the block is left without an error.

    After an error they stay spent: something may have got out.

    Args:
      path: a ledger; None for one of this job alone.
      whole: what a ledger of this job alone may spend.
      parts: what is spent.

    Yields:
      What to say of the budget in each privacy.json.

    Raises:
      InputError: there is no such ledger, it is damaged, can not be written, or has too little
        left, and then no part is reserved; or it can not be written after the release.
    """
    with contextlib.ExitStack() as stack:
        ledger = _ledger(path, whole, stack)
        reserved = _reserved(ledger, parts)
        yield {
            "epsilon": decimal_text(ledger.budget.epsilon),
            "delta": decimal_text(ledger.budget.delta),
            "ledger": [line.to_json() for line in ledger.lines()],
        }
        try:
            for reservation in reserved:
                reservation.commit()
        except (CorruptedJournalError, OSError):
            raise InputError(
                f"the release was made and its budget is spent, but {path} can not be written "
                f"any more to say that it is complete"
            ) from None


@contextlib.contextmanager
def spending_if_shared(path: str | None, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """As ``spending`` where there is a shared ledger, and nothing otherwise.

    Yields:
      What to add to each privacy.json.
    """
    if path is None:
        yield {}
        return
    with spending(path, PrivacyBudget(0), parts) as budget:
        yield {"budget": budget}


def _ledger(path: str | None, whole: PrivacyBudget, stack: contextlib.ExitStack) -> Ledger:
    if path is None:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        return Ledger.create(os.path.join(directory, "ledger"), whole.epsilon, whole.delta)
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
        for part in parts:
            budget = part.budget
            reserved.append(
                ledger.reserve(
                    budget.epsilon,
                    budget.delta,
                    purpose=part.purpose,
                    bounded_range=part.bounded_range,
                )
            )
    except (BudgetExceededError, CorruptedJournalError, OSError) as error:
        for reservation in reserved:
            # What can not be given back, on a full disk say, stays spent.
            with contextlib.suppress(CorruptedJournalError, OSError):
                reservation.abandon()
        if isinstance(error, OSError):
            raise InputError(f"the ledger can not be written: {reason(error)}") from None
        raise InputError(str(error)) from None
    return reserved
