"""Values of flags that several jobs have, checked as they are read."""

from __future__ import annotations

import argparse

from dp_transforms.mechanisms.decimals import ExactNumber, exact_fraction

MAX_EPSILON = 100


def epsilon(text: str) -> ExactNumber:
    """A number above 0, also as a float, and at most 100.

    >>> epsilon("0.5")
    0.5
    """
    value = _number(text)
    if not (float(value) > 0 and value <= MAX_EPSILON):
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_EPSILON}, got {text!r}"
        )
    return value


def proportion(text: str) -> ExactNumber:
    """A number above 0 and below 1, such as delta.

    >>> proportion("1e-6")
    1e-06
    """
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and below 1, got {text!r}")
    return value


def positive_integer(text: str) -> int:
    """An integer above 0 and below 10**18.

    >>> positive_integer("10")
    10
    """
    digits = text.lstrip("0")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise argparse.ArgumentTypeError(
            f"must be a positive integer of at most 18 digits, got {text!r}"
        )
    return int(text)


def _number(text: str) -> ExactNumber:
    try:
        return exact_fraction("value", text)
    except ValueError:
        return ExactNumber(0)
