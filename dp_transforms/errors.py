"""Errors that a user can correct, and how they come back from a worker."""

from __future__ import annotations

import re

from dp_transforms.mechanisms.partition.mechanism import NothingDrawnError, UnsuitableListError

_IN_WORKER_TEXT = re.compile(
    r"(?:InputError|UnsuitableListError|NothingDrawnError): (.+?)(?: \[while running .*)?$",
    re.MULTILINE,
)
_BEAM_SUFFIX = re.compile(r" \[while running .*", re.DOTALL)


class InputError(ValueError):
    """A fault in what the user gave. One line: the thing at fault, then what to do.

    The text must not depend on the data beyond the fact of the fault: no values, no counts, no line
    numbers. Raise it `from None`, so that the error it stands for does not travel with it.
    """


class DoneError(InputError):
    """A job's release is there already. It has an exit code of its own."""


def input_error_message(error: BaseException) -> str | None:
    """The message of the InputError that made a job fail; None if it failed for another reason.

    An UnsuitableListError of a mechanism counts as one.

    An in-process runner raises the error itself, with the step's name added. Others raise an error
    of their own that holds the worker's traceback as text.

    >>> input_error_message(InputError("a.csv: no such file [while running 'Read']"))
    'a.csv: no such file'
    >>> input_error_message(RuntimeError("Traceback\\n...InputError: a.csv: is empty\\n"))
    'a.csv: is empty'
    >>> input_error_message(KeyError("secret")) is None
    True
    """
    if isinstance(error, InputError | UnsuitableListError):
        return _BEAM_SUFFIX.sub("", str(error))
    found = _IN_WORKER_TEXT.findall(str(error))
    return found[-1] if found else None


def is_paid_for(error: BaseException) -> bool:
    """Tells whether an error depends on noise, so that its budget is spent: a NothingDrawnError,
    perhaps of a worker."""
    return isinstance(error, NothingDrawnError) or f"{NothingDrawnError.__name__}: " in str(error)
