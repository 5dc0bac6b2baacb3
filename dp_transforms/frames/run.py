"""Runs specifications in process on the records of a function's arguments, and charges sessions.

The session's budget is spent before a record is read.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import Request
from dp_transforms.budget.entry import NO_BUDGET, BudgetEntry
from dp_transforms.engines.base import Collections
from dp_transforms.engines.in_process import InProcess, enough_memory
from dp_transforms.files.frame_records import RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.releases import ListAndNamesSpec, ReleaseSpec
from dp_transforms.releases.base import Statement, time_entry
from dp_transforms.runtime.job_secret import JobSecret, check_secret, claimed

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_CALLERS = ("dp_transforms", "contextlib")
"""Packages whose frames lie between a warning and the line of the user that caused it."""


def run_spec(
    spec: ReleaseSpec,
    session: Payer | None,
    secret: JobSecret | None,
    records: RecordArguments,
    given: Any = None,
) -> tuple[Collections, Statement]:
    """Makes a release, and returns the engine's collections and the statement.

    Args:
      spec: what is released.
      session: pays for it; None if nothing does.
      secret: makes all random decisions; None for a fresh one.
      records: the records, and how they are read.
      given: the data that the caller gave, if the records were made from them. By these a session
        recognizes a second release of the same data.
    """
    collections, columns, about = collect(spec, session, secret, records, given)
    return collections, spec.statement(columns) | about


def collect(
    spec: ReleaseSpec | ListAndNamesSpec,
    session: Payer | None,
    secret: JobSecret | None,
    records: RecordArguments,
    given: Any = None,
) -> tuple[Collections, list[pa.Field], Statement]:
    """Makes a release as ``run_spec`` does, without its statement.

    Returns:
      The engine's collections; the Arrow fields of the partition columns; and the entries of
      statements about the time and the budget.

    Raises:
      TypeError: session is no Session, or secret no JobSecret.
    """
    check_secret(secret)
    with enough_memory(), charge(session, spec.requests) as entry:
        source = records.open()
        source.check_groups(spec.public_groups)
        about = time_entry(source.opened) | entry.statement
        engine = InProcess(source, claimed(secret, source))
        collections = spec.release(engine)
    if session is not None:
        data = records.data if given is None else given
        session.note_release(data, spec, repr(records))
    return collections, source.partition_fields, about


def charge(
    session: Payer | None, requests: Sequence[Request]
) -> contextlib.AbstractContextManager[BudgetEntry]:
    """Returns a context that spends the requests from a session's budget. Raises an error at once
    if less is left. Without a session, the context spends nothing."""
    if session is None:
        return contextlib.nullcontext(NO_BUDGET)
    # The type is asked, since a data frame has attributes with the names of its columns.
    if not hasattr(type(session), "spending"):
        raise TypeError(
            "session must be a Session, such as Session.open(PATH) of a ledger, got "
            f"{type(session).__name__}"
        )
    session.check(requests)
    return session.spending(requests)


def callers_level() -> int:
    """Returns the ``stacklevel`` by which a warning of the calling function names the line that
    called this package."""
    level, frame = 0, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_CALLERS:
        level, frame = level + 1, frame.f_back
    return level
