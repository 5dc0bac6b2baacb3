"""Runs a job: turns errors and interrupts into one line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from dp_transforms.errors import DoneError, InputError, input_error_message
from pipelines import (
    DONE_BEFORE,
    FAILURE,
    INTERRUPTED,
    INTERRUPTED_TEXT,
    SUCCESS,
    USAGE_ERROR,
    failed,
)
from pipelines.command_line import JobParser, quiet_beam
from pipelines.job_context import Prepare, Written


def run(prepare: Prepare, parser: JobParser, argv: Sequence[str] | None = None) -> int:
    """Prepares and runs a job; returns the exit code after at most one line of error on stderr. A
    ValueError of ``prepare`` is a fault in the flags (exit code 2); an InputError, there or in the
    job, is a fault in a file (1)."""
    with contextlib.ExitStack() as stack:
        interrupts = stack.enter_context(_interrupts())
        try:
            context = parser.parse_job(argv)
        except KeyboardInterrupt:
            return failed(INTERRUPTED_TEXT, INTERRUPTED)
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
            # Beam and C extensions turn an interrupt into other errors.
            names = type(error).__name__, str(error).partition(" ")[0]
            if interrupts or "KeyboardInterrupt" in names:
                text = f"{INTERRUPTED_TEXT}{context.progress.written.value}"
                return failed(text, INTERRUPTED)
            if flags.show_private_errors:
                traceback.print_exc()
            message = input_error_message(error) or (
                f"the job failed with {type(error).__name__}; its text may hold private records, "
                f"so it is only printed with --show_private_errors"
            )
            if context.progress.written is Written.YES:
                message = f"the release was made, but {message}"
            code = DONE_BEFORE if isinstance(error, DoneError) else FAILURE
            return failed(parser.as_typed(message), code)
    return SUCCESS


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Yields a list that is not empty once the process has been interrupted."""
    signals: list[int] = []

    def note(number: int, frame: Any) -> None:
        signals.append(number)
        signal.default_int_handler(number, frame)

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield signals
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
