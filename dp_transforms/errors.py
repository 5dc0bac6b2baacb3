"""Errors that a user can correct, and functions that replace other errors by them."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ColumnError = TypeVar("_ColumnError", bound="ColumnError")

_IN_WORKER_TEXT = re.compile(
    r"(?:InputError|UnfitColumnError|ValuesError|UnsuitableListError|NothingDrawnError): (.+?)"
    r"(?: \[while running .*)?$",
    re.MULTILINE,
)
_DESCRIPTION = re.compile(r"[A-Za-z0-9+/=]{64}")
_BEAM_SUFFIX = re.compile(r" \[while running .*", re.DOTALL)


class InputError(ValueError):
    """Raised for a fault in the user's input. Its text is one line: the fault, and what to do.

    The text must not depend on the data beyond the fact of the fault: no values, no counts, no line
    numbers. Raise it `from None`, so that no traceback shows the original error. Python keeps the
    original error as ``__context__`` nevertheless, until ``without_originals`` removes it where the
    error leaves the package.
    """


class ColumnError(ValueError):
    """Raised for a name of a column that cannot be used.

    Attributes:
      column: the name, as it was given.
      fault: what is wrong, in words that may follow "a name". They do not show the name.
    """

    column = fault = ""

    @classmethod
    def about(cls: type[_ColumnError], column: str, fault: str, message: str) -> _ColumnError:
        """Returns the error with this message."""
        error = cls(message)
        error.column, error.fault = column, fault
        return error


class UnfitColumnError(ColumnError, InputError):
    """Raised for a column that the input does not have, or that has an unfit type."""

    @classmethod
    def missing(cls, column: str, message: str) -> UnfitColumnError:
        """Returns the error that there is no such column."""
        return cls.about(column, "that is no column of the data: check it", message)


class ValuesError(InputError):
    """Raised for a fault that depends on the values of records, and not on their form alone. An
    example is a query that fails on a value. See ``budget.failures``."""


class DoneError(InputError):
    """Raised if a job's release exists already. Jobs have an exit code for it."""


class NoBudgetError(InputError):
    """Raised if a ledger does not pay for a job, and will not pay later either unless a person
    intervenes. Jobs have an exit code for it."""


class UnderWayError(InputError):
    """Raised if another run of the same job is under way. Jobs have an exit code for it."""


class NotStartedError(InputError):
    """Raised if a job was not started and never will be, so that no record is ever read."""


class Cancelled(enum.Enum):
    """Who has confirmed that a job on an engine is cancelled. The value is a part of the message
    about an interrupt. A job server may confirm it without having told its engine."""

    BY_ENGINE = ", and the job was cancelled"
    BY_JOB_SERVER = ", and the job server has cancelled the job; look whether the engine has"
    UNKNOWN = ", but the engine has not said in time that the job was cancelled"


class JobCancelledError(KeyboardInterrupt):
    """Raised in place of an interrupt during a job on an engine, after the job was cancelled.

    Attributes:
      cancelled: who has confirmed that.
    """

    def __init__(self, cancelled: Cancelled):
        super().__init__()
        self.cancelled = cancelled


class UnsuitableListError(ValueError):
    """Raised if the private list contradicts the mechanism's declared parameters. The refusal
    itself leaks information about the data; the message has no numbers of the list."""


class NothingDrawnError(UnsuitableListError):
    """Raised if none of the lists that were drawn is a possible release. This depends on the data
    and the noise, so the attempt is paid for: free attempts would leak information."""


class NoChoiceError(ValueError):
    """Raised if what a release shows allows no choice, although the release itself was made and
    paid for.

    Attributes:
      release: the release, which can be shown and saved.
    """

    release: Any = None

    @classmethod
    def after(cls, release: Any, fault: str) -> NoChoiceError:
        """Returns the error about a release."""
        error = cls(
            f"{fault}. The release was paid for, and is the attribute release of this error"
        )
        error.release = release
        return error


@contextlib.contextmanager
def without_originals() -> Iterator[None]:
    """Removes, from an error that leaves the block, the original errors in whose place it was
    raised.

    The text of an original error may show a value of the data. Python keeps it as ``__context__``
    even if tracebacks do not show it, and tools that report errors may store it. Public functions
    on private data are decorated with this.

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
    """Raises an InputError in place of an error of the block, whose own text may show a value.

    Args:
      message: the text of the InputError, or a function that makes it from the error.
      kinds: the types of errors to replace.
      error_type: the type of the error to raise.
      keep: types of errors that pass unchanged, even if they are also of ``kinds``.

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
    """Raises an InputError with the whole text of an error, on one line, in place of the error.

    It is for steps during which no record can have been read, so that the text shows none.
    InputErrors, and errors of the type ``but``, pass unchanged.

    An error also passes unchanged if its text may quote a part of the job's description, which
    holds the secret. Descriptions are written in base64, so any long piece of base64 counts.
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
    """Returns the message of the InputError that made a job fail; None for other failures.

    A mechanism's UnsuitableListError is treated alike. An in-process runner raises the error
    itself, with the step's name added. Other runners raise an error whose text has the worker's
    traceback.

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
