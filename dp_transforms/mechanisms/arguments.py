"""Checks arguments, and quotes wrong ones in errors without showing private data.

A wrong argument may be private data in the wrong place, such as a column of a data frame instead of
a number. So an error quotes short scalars only, and names the type of everything else.
"""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

_LONGEST_TEXT = 60
_KNOWN_NUMBERS = (
    *("builtins", "decimal", "fractions", "numpy"),
    "dp_transforms.mechanisms.decimals",  # ExactNumber
)
"""Modules whose numbers print nothing but their value."""


class ArgumentError(ValueError):
    """Raised for an argument that cannot be used.

    Attributes:
      argument: the name of the argument.
      fault: the rest of the message: what is wrong, and what to do.
    """

    argument = fault = ""

    @classmethod
    def about(cls, argument: str, fault: str) -> ArgumentError:
        """Returns the error, whose message is the argument and the fault."""
        error = cls(f"{argument} {fault}")
        error.argument, error.fault = argument, fault
        return error


@contextlib.contextmanager
def as_the_caller_names_it(argument: str, own_name: str) -> Iterator[None]:
    """Raises an ArgumentError of the block about ``argument`` as one about ``own_name``, which is
    how the caller's own caller knows it.

    >>> try:
    ...     with as_the_caller_names_it("size", "window_size"):
    ...         raise ArgumentError.about("size", "must be positive")
    ... except ArgumentError as error:
    ...     print(error)
    window_size must be positive
    """
    try:
        yield
    except ArgumentError as error:
        if error.argument != argument:
            raise
        raise ArgumentError.about(own_name, error.fault) from None


def listed(name: str, values: Any) -> list[Any]:
    """Returns the values of an argument as a list.

    Raises:
      TypeError: the argument cannot be iterated over, or is a text. The message calls it ``name``
        and shows none of its values.

    >>> listed("levels", ("state", "county"))
    ['state', 'county']
    """
    if not isinstance(values, (str, bytes)):
        # An iterator that the caller has written may raise anything.
        with contextlib.suppress(Exception):
            return list(values)
    # Raised inside the block, this would carry the original error, which may show values.
    raise TypeError(f"{name} must be a list, got {shown(values)}")


def boolean(name: str, value: Any) -> bool:
    """Returns the value if it is True or False.

    Raises:
      ArgumentError: it is anything else. The message calls it ``name``.
    """
    if not isinstance(value, bool):
        raise ArgumentError.about(name, f"must be True or False, got {shown(value)}")
    return value


def text(name: str, value: Any) -> str:
    """Returns the value if it is a text that is not empty.

    Raises:
      ArgumentError: it is anything else. The message calls it ``name``.
    """
    if not isinstance(value, str) or not value:
        raise ArgumentError.about(name, f"must be a text that is not empty, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Returns a text that describes a value in an error.

    Short texts and numbers, bools and None are written as Python writes them, and fractions as
    users do, such as 1/3. Of anything else, such as a long text or a column of a data frame, the
    name of the type is returned.

    >>> shown("uniform"), shown(-1), shown(["ann", "bob"]), shown(list)
    ("'uniform'", '-1', 'a value of the type list', 'the class list')
    """
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    scalar = isinstance(value, (str, numbers.Number, Decimal)) or value is None
    # The numbers of other packages may print any data that they hold.
    if scalar and kind.__module__ in _KNOWN_NUMBERS:
        try:
            text = str(value) if isinstance(value, Fraction) else repr(value)
        except ValueError:  # an integer of too many digits
            text = ""
        if 0 < len(text) <= _LONGEST_TEXT:
            return text
    return f"a value of the type {kind.__name__}"
