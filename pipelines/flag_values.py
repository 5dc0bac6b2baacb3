"""Parses the values of flags: numbers, parts of budgets, and lists of them.

Each function raises an ``ArgumentTypeError``, which says what the value must be.
"""

from __future__ import annotations

import argparse
import csv

from dp_transforms.mechanisms.decimals import ExactNumber, exact_fraction

MAX_EPSILON = 100


def epsilon(text: str) -> ExactNumber:
    """Parses a number of at most 100 that is above 0, also after it is rounded to a float.

    >>> epsilon("0.5")
    0.5
    """
    value = _number(text)
    if not (float(value) > 0 and value <= MAX_EPSILON):
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_EPSILON}, got {text!r}"
        )
    return value


def epsilons(text: str) -> list[ExactNumber]:
    """Parses numbers as ``epsilon`` does, with commas in between.

    >>> epsilons("0.5,1")
    [0.5, 1.0]
    """
    return [epsilon(part) for part in text.split(",")]


def proportion(text: str) -> ExactNumber:
    """Parses a number above 0 and below 1, such as delta.

    >>> proportion("1e-6")
    1e-06
    """
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and below 1, got {text!r}")
    return value


def positive_integer(text: str) -> int:
    """Parses an integer above 0 and below 10**18.

    >>> positive_integer("10")
    10
    """
    digits = text.lstrip("0")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise argparse.ArgumentTypeError(
            f"must be a positive integer of at most 18 digits, got {text!r}"
        )
    return int(text)


def positive_number(text: str) -> ExactNumber:
    """Parses a number that is above 0, also after it is rounded to a float.

    >>> positive_number("0.5")
    0.5
    """
    value = _number(text)
    if not float(value) > 0:
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def shares(text: str) -> list[ExactNumber]:
    """Parses the relative shares by which epsilon is divided: positive numbers with commas in
    between.

    >>> shares("1,0.5")
    [1.0, 0.5]
    """
    return [positive_number(share) for share in text.split(",")]


def positive_integers(text: str) -> list[int]:
    """Parses positive integers that are separated by commas. Raises an ArgumentTypeError otherwise.

    >>> positive_integers("50,3000")
    [50, 3000]
    """
    return [positive_integer(number) for number in text.split(",")]


def names(text: str) -> list[str]:
    """Parses different names with commas in between. A name with a comma in it is quoted.

    >>> names('<20,"20, 30"')
    ['<20', '20, 30']
    """
    try:
        parsed = next(csv.reader([text]), [])
    except csv.Error:  # there is a line end outside of quotes
        parsed = []
    has_empty = not parsed or not all(parsed)
    has_repeated = len(set(parsed)) < len(parsed)
    if has_empty or has_repeated:
        raise argparse.ArgumentTypeError(
            f"must be different names with commas in between, got {text!r}"
        )
    return parsed


def num_buckets(text: str) -> int:
    """Parses the number of buckets into which a step divides its records."""
    # Help and other flags need no Arrow, which this module imports.
    from dp_transforms.columnar.scattering import MAX_BUCKETS

    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_BUCKETS):
        raise argparse.ArgumentTypeError(f"must be between 1 and {MAX_BUCKETS}, got {text!r}")
    return int(text)


def _number(text: str) -> ExactNumber:
    """Returns the exact value of a number, or 0 for another text."""
    try:
        return exact_fraction("value", text)
    except ValueError:
        return ExactNumber(0)
