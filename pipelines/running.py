"""Runs a job, and turns its errors and interrupts into one line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from dp_transforms.errors import (
    DoneError,
    InputError,
    JobCancelledError,
    NoBudgetError,
    UnderWayError,
    input_error_message,
)
from pipelines import (
    DONE_BEFORE,
    FAILURE,
    INTERRUPTED,
    INTERRUPTED_TEXT,
    NO_BUDGET,
    SUCCESS,
    TERMINATED,
    TERMINATED_TEXT,
    UNDER_WAY,
    USAGE_ERROR,
    failed,
)
from pipelines.command_line import JobParser, quiet_beam
from pipelines.job_context import Prepare, Price, Progress, Written

_CODES = {DoneError: DONE_BEFORE, NoBudgetError: NO_BUDGET, UnderWayError: UNDER_WAY}
"""The errors that have an exit code of their own."""


def run(prepare: Prepare, parser: JobParser, argv: Sequence[str] | None = None) -> int:
    """Prepares and runs a job, prints at most one line of error on stderr, and returns the exit
    code.

    A ValueError of ``prepare`` is a fault in the flags, with exit code 2. An InputError of
    ``prepare`` or of the job has the exit code of its class, if there is one, or else 1. So has any
    other error of the job.
    """
    with contextlib.ExitStack() as stack:
        interrupts = stack.enter_context(_interrupts())
        try:
            context = parser.parse_job(argv)
        except KeyboardInterrupt:
            return _interrupted(interrupts, "")
        flags = context.flags
        if flags.log_level:
            logging.basicConfig(level=flags.log_level.upper())
        elif not flags.show_private_errors:
            stack.enter_context(quiet_beam())
        try:
            try:
                job = prepare(context)
            except InputError:
                raise
            except ValueError as error:
                return failed(parser.as_typed(str(error)), USAGE_ERROR)
            job()
        except (Exception, KeyboardInterrupt) as error:
            # Beam and C extensions may raise another error in place of a KeyboardInterrupt.
            names = type(error).__name__, str(error).partition(" ")[0]
            if interrupts or "KeyboardInterrupt" in names:
                return _interrupted(interrupts, _outcome(error, context.progress))
            if flags.show_private_errors:
                traceback.print_exc()
            message = _message(error, context.progress)
            codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
            return failed(parser.as_typed(message), next(codes, FAILURE))
    return SUCCESS


def _message(error: BaseException, progress: Progress) -> str:
    """Returns what to print about an error of a job."""
    message = input_error_message(error)
    if not message:
        message = (
            f"the job failed with {type(error).__name__}; its text may hold private records, "
            f"so it is only printed with --show_private_errors"
        )
    if progress.written is Written.YES:
        return f"the release was made, but {message}"
    if progress.price is Price.SPENT:
        return message + Price.SPENT.value
    return message


def _interrupted(signals: Sequence[int], outcome: str) -> int:
    """Prints that the job was interrupted or terminated, and the outcome; returns the exit code."""
    if signal.SIGTERM in signals:
        return failed(f"{TERMINATED_TEXT}{outcome}", TERMINATED)
    return failed(f"{INTERRUPTED_TEXT}{outcome}", INTERRUPTED)


def _outcome(error: BaseException, progress: Progress) -> str:
    """Returns the outcome of a job that was interrupted, in words."""
    text = error.cancelled.value if isinstance(error, JobCancelledError) else ""
    written = progress.written
    if progress.price is Price.GIVEN_BACK:
        # After the budget is given back, workers can no longer write a release.
        written = Written.NO
    return text + written.value + progress.price.value


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yields a list to which each SIGINT or SIGTERM within the block is added. Both signals raise a
    KeyboardInterrupt. If a program handles or ignores one of them itself, it goes on doing so."""
    signals: list[int] = []

    def note(number: int, frame: Any) -> None:
        signals.append(number)
        signal.default_int_handler(signal.SIGINT, frame)

    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    changed = {}
    if threading.current_thread() is threading.main_thread():
        changed = {
            number: handler
            for number, handler in defaults.items()
            if signal.getsignal(number) is handler
        }
    for number in changed:
        signal.signal(number, note)
    try:
        yield signals
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)
