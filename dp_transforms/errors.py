"""Defines errors that a user can correct, and reads them from errors of workers."""

from __future__ import annotations

import re

from dp_transforms.mechanisms.partition.mechanism import UnsuitableListError

_IN_WORKER_TEXT = re.compile(
    r"(?:InputError|ValuesError|UnsuitableListError|NothingDrawnError): (.+?)"
    r"(?: \[while running .*)?$",
    re.MULTILINE,
)
_BEAM_SUFFIX = re.compile(r" \[while running .*", re.DOTALL)


class InputError(ValueError):
    """Raised for a fault of the user's input, which the text names in one line, then what to do.

    The text must not depend on the data beyond the fact of the fault: no values, no counts, no line
    numbers. Raise it `from None`, so that the original error does not travel with it.
    """


class ValuesError(InputError):
    """Raised for a fault that depends on the values of records, not on their form alone, such as a
    query that fails on one of them: see ``budget.failures``."""


class DoneError(InputError):
    """Raised if a job's release exists already; it has an exit code of its own."""


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
    found = _IN_WORKER_TEXT.findall(str(error))
    return found[-1] if found else None
