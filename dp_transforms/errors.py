"""Defines errors that a user can correct, and reads them from errors of workers."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_IN_WORKER_TEXT = re.compile(
    r"(?:InputError|ValuesError|UnsuitableListError|NothingDrawnError): (.+?)"
    r"(?: \[while running .*)?$",
    re.MULTILINE,
)
_DESCRIPTION = re.compile(r"[A-Za-z0-9+/=]{64}")
_BEAM_SUFFIX = re.compile(r" \[while running .*", re.DOTALL)


class InputError(ValueError):
    """Raised for a fault of the user's input, which the text names in one line, then what to do.

    The text must not depend on the data beyond the fact of the fault: no values, no counts, no line
    numbers. Raise it `from None`, so that no traceback shows the original error. It travels as
    ``__context__`` nevertheless, until the error leaves the package by ``without_originals``.
    """


class ValuesError(InputError):
    """Raised for a fault that depends on the values of records, not on their form alone, such as a
    query that fails on one of them: see ``budget.failures``."""


class DoneError(InputError):
    """Raised if a job's release exists already; it has an exit code of its own."""


class NoBudgetError(InputError):
    """Raised if a ledger does not pay for a job, now or later, unless a person decides otherwise;
    it has an exit code of its own."""


class UnderWayError(InputError):
    """Raised if another run of the same job is under way; it has an exit code of its own."""


class NotStartedError(InputError):
    """Raised if a job was not started, and never will be: no record was or will be read."""


class Cancelled(enum.Enum):
    """Who has said that a job on an engine is cancelled. The value is what an interrupt says of
    it. A job server may say so without having told its engine."""

    BY_ENGINE = ", and the job was cancelled"
    BY_JOB_SERVER = ", and the job server has cancelled the job; look whether the engine has"
    UNKNOWN = ", but the engine has not said in time that the job was cancelled"


class JobCancelledError(KeyboardInterrupt):
    """Raised in place of an interrupt that has cancelled a job on an engine, with what is known of
    that."""

    def __init__(self, cancelled: Cancelled):
        super().__init__()
        self.cancelled = cancelled


class UnsuitableListError(ValueError):
    """The private list contradicts the mechanism's declared parameters. The refusal itself leaks
    information about the data; the message has no numbers of the list."""


class NothingDrawnError(UnsuitableListError):
    """None of the lists drawn is a possible release. That depends on the noise, so the attempt is
    paid for: free tries would tell of the data."""


@contextlib.contextmanager
def without_originals() -> Iterator[None]:
    """Takes from an error that leaves the block all errors that it was made of.

    Their text may show a value of the data. Python keeps them as ``__context__`` and only hides
    them in tracebacks, while tools that report errors may store them. Public functions on private
    data have this as a decorator.

    >>> try:
    ...     with without_originals():
    ...         try:
    ...             int("ann's diagnosis")
    ...         except ValueError:
    ...             raise InputError("x must be a number") from None
    ... except InputError as error:
    ...     print(error, error.__context__)
    x must be a number None
    """
    try:
        yield
    except BaseException as error:
        error.__context__ = error.__cause__ = None
        raise


def hiding_originals(function: _Function) -> _Function:
    """Decorates a public function on private data: see ``without_originals``."""
    return without_originals()(function)


@contextlib.contextmanager
def as_input_error(
    message: str | Callable[[Exception], str],
    kinds: tuple[type[Exception], ...] = (Exception,),
    error_type: type[InputError] = InputError,
    keep: tuple[type[Exception], ...] = (InputError, MemoryError),
) -> Iterator[None]:
    """Raises an InputError in place of an error of these kinds, whose own text may show a value.

    Args:
      message: the text of the InputError, or a function that makes it from the error.
      kinds: of errors to replace.
      error_type: of the error to raise.
      keep: kinds of errors that pass unchanged, though they are of ``kinds``.

    >>> try:
    ...     with as_input_error("age must be a number", (ValueError,)):
    ...         int("ann's diagnosis")
    ... except InputError as error:
    ...     print(error)
    age must be a number
    """
    try:
        yield
    except keep:
        raise
    except kinds as error:
        text = message if isinstance(message, str) else message(error)
        raise error_type(text) from None


@contextlib.contextmanager
def before_any_record(but: type[Exception] = InputError) -> Iterator[None]:
    """Turns errors into InputErrors with their whole text, on one line: for steps during which no
    record can have been read. InputErrors stay, and errors of the type ``but``.

    A text that may quote a part of the job's description, which holds the secret, is not repeated:
    descriptions are text of base64, so any long piece of that counts.
    """
    try:
        yield
    except (InputError, but):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        if _DESCRIPTION.search(text):
            raise
        raise InputError(
            f"the job could not be started: {type(error).__name__}: {text or 'no text'}"
        ) from None


def input_error_message(error: BaseException) -> str | None:
    """Returns the message of the InputError that made a job fail; None if there is none.

    A mechanism's UnsuitableListError counts as one. An in-process runner raises the error itself,
    with the step's name added. Other runners raise an error with the worker's traceback as text.

    >>> input_error_message(InputError("a.csv: no such file [while running 'Read']"))
    'a.csv: no such file'
    >>> input_error_message(RuntimeError("Traceback\\n...InputError: a.csv: is empty\\n"))
    'a.csv: is empty'
    >>> input_error_message(KeyError("secret")) is None
    True
    """
    if isinstance(error, InputError | UnsuitableListError):
        return _BEAM_SUFFIX.sub("", str(error))
    texts = _IN_WORKER_TEXT.findall(str(error))
    return texts[-1] if texts else None
