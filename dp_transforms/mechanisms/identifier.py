"""Writes a mechanism and its parameters as the text from which its random numbers are derived.

A job derives every random decision from its secret and from a context, which contains this text. So
two rules hold:

* The text of a mechanism never changes between versions. Otherwise a job that is restarted by a
  newer version, under the secret of its first start, would draw other noise around the same data,
  and the two releases together would cost more than was paid.
* The text states every parameter. Two mechanisms with the same text would share their noise, and
  the difference of their releases would reveal more than the two costs allow.
"""

from __future__ import annotations

import dataclasses
from typing import Any


def identifier(mechanism: Any) -> str:
    """Returns the text of a mechanism, strategy or noise: its stable name and all parameters.

    The stable name is the ``stable_name`` that the class itself states. A name stated by its base
    does not count, since a subclass is another mechanism. A class that states none is named by its
    ``__qualname__``.

    Args:
      mechanism: a dataclass. The parameters are its fields with ``repr=True``. A field whose value
        is a dataclass with a ``stable_name`` is written by the same rules, and others by their
        ``repr``. A mechanism that is no dataclass is written by its ``repr``, which must state all
        parameters.

    >>> from dp_transforms.mechanisms import Eta, FrobeniusMechanism
    >>> identifier(FrobeniusMechanism(eta=Eta(1, 1, 1)))
    'FrobeniusMechanism(epsilon=None, sensitivity=1, eta=Eta(x=1, y=1, z=1), bounds=None, ...)'
    """
    if not dataclasses.is_dataclass(mechanism):
        return repr(mechanism)
    parameters = ", ".join(
        f"{field.name}={_value_text(getattr(mechanism, field.name))}"
        for field in dataclasses.fields(mechanism)
        if field.repr
    )
    kind = type(mechanism)
    return f"{vars(kind).get('stable_name', kind.__qualname__)}({parameters})"


def _value_text(value: Any) -> str:
    if "stable_name" in vars(type(value)) and dataclasses.is_dataclass(value):
        return identifier(value)
    return repr(value)
