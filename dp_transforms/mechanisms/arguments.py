"""Shows wrong arguments in errors, of which any may be private data in the wrong place."""

from __future__ import annotations

import contextlib
import numbers
from decimal import Decimal
from typing import Any

_LONGEST_TEXT = 60


def listed(name: str, values: Any) -> list[Any]:
    """Returns the values of an argument as a list. A TypeError, which shows none of them, says if
    they cannot be gone through, or are one text.

    >>> listed("levels", ("state", "county"))
    ['state', 'county']
    """
    if not isinstance(values, (str, bytes)):
        with contextlib.suppress(Exception):  # of an iterator that the caller has written
            return list(values)
    # The original error would travel as the context of one that is raised where it is caught.
    raise TypeError(f"{name} must be a list, got {shown(values)}")


def boolean(name: str, value: Any) -> bool:
    """Returns True or False. Anything else is a ValueError, which calls it ``name``."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Returns a short text, a number, a bool or None as Python writes it; of anything else, such as
    a column of a data frame, or a long text or number, the name of its type.

    >>> shown("uniform"), shown(-1), shown(["ann", "bob"]), shown(list)
    ("'uniform'", '-1', 'a value of the type list', 'the class list')
    """
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    scalar = isinstance(value, (str, numbers.Number, Decimal)) or value is None
    # Another package's numbers may print what they like.
    if scalar and (kind.__module__ in ("builtins", "decimal", "fractions", "numpy")):
        try:
            text = repr(value)
        except ValueError:  # an integer of too many digits
            text = ""
        if 0 < len(text) <= _LONGEST_TEXT:
            return text
    return f"a value of the type {kind.__name__}"
