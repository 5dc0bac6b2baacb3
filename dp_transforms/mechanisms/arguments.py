"""Shows wrong arguments in errors, of which any may be private data in the wrong place."""

from __future__ import annotations

import numbers
from decimal import Decimal
from typing import Any

_LONGEST_TEXT = 60


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
