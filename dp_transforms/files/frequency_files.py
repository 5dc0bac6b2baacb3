"""Files of frequency lists: of one list, and of those of groups."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    COORDINATES_FILE,
    COORDINATES_HEADER,
    DEGREES_FILE,
    DEGREES_HEADER,
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    GROUPED_COORDINATES_HEADER,
    LISTS_FILE,
    LISTS_HEADER,
)
from dp_transforms.files.paths import local_path, reason
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees

Tables = dict[str, list[bytes]]
"""Pieces of the content of files, by their names."""
Arms = tuple[IntArray, IntArray]


def read_frequency_list(path: str, public: bool = False, remedy: str = "") -> FrequencyList:
    """The list of a file on this machine, with the header frequency,multiplicity.

    Args:
      path: of the file; a leading ~ is expanded.
      public: errors may show what is in the file.
      remedy: more that the user can do about a private file that is no list.

    Raises:
      InputError: the file cannot be read, or is no frequency list.
    """
    path = local_path(path)
    try:
        return FrequencyList.from_csv(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except ValueError as error:
        if public:
            raise InputError(str(error)) from None
        raise InputError(
            f"{path} is not a frequency list: the first line must be frequency,multiplicity and "
            f"the others pairs of positive integers, frequencies descending{remedy}"
        ) from None


def csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """The lines of a released file.

    >>> csv_lines(FrequencyList([7, 1], [1, 20]))
    b'7,1\\n1,20\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def list_tables(lists: Sequence[ReleasedList]) -> Tables:
    """The tables of the only list: itself, and its noisy coordinates if it has any."""
    (released,) = lists
    tables = {FREQUENCIES_FILE: [FREQUENCIES_HEADER, csv_lines(released)]}
    if released.coordinates is not None:
        tables[COORDINATES_FILE] = [COORDINATES_HEADER, csv_lines(released.coordinates)]
    return tables


def grouped_tables(lists: Iterable[tuple[str, str, ReleasedList]]) -> Tables:
    """The tables of lists with their attributes and groups, by which they are sorted."""
    lists = sorted(lists, key=lambda one: one[:2])
    tables = {LISTS_FILE: [LISTS_HEADER], COORDINATES_FILE: [GROUPED_COORDINATES_HEADER]}
    for *label, released in lists:
        tables[LISTS_FILE].append(csv_lines((*label, *row) for row in released))
        rows = released.coordinates or ()
        tables[COORDINATES_FILE].append(csv_lines((*label, *row) for row in rows))
    return tables


def degree_tables(released: Sequence[ReleasedDegrees]) -> Tables:
    """The table of how many partitions users have.

    >>> degree_tables([ReleasedDegrees((1, 2), (40, -3), 1.0)])[DEGREES_FILE][1:]
    [b'1,40\\n2,-3\\n']
    """
    (one,) = released
    return {DEGREES_FILE: [DEGREES_HEADER, csv_lines(zip(one.lowest, one.users, strict=True))]}


def parse_rows(content: bytes, header: bytes) -> list[list[str]]:
    """The rows below the header in the bytes of a file that a job has written.

    Raises:
      ValueError, csv.Error: these are not the bytes of such a file.
    """
    found, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    if csv_lines([found]) != header:
        raise ValueError(f"the file must begin with the line {header.decode().strip()}")
    return rows


def parse_lists(content: bytes, header: bytes) -> dict[tuple[str, ...], FrequencyList]:
    """The lists in such bytes by (attribute, group), where ("", "") is that of all users; or by (),
    where the file has no such columns. Raises as ``parse_rows``."""
    pairs: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for *label, frequency, multiplicity in parse_rows(content, header):
        pairs.setdefault(tuple(label), []).append((int(frequency), int(multiplicity)))
    return {name: FrequencyList(*zip(*rows, strict=True)) for name, rows in pairs.items()}


def parse_coordinates(content: bytes, header: bytes) -> dict[tuple[str, ...], Arms]:
    """The noisy rows and columns in such bytes, by (attribute, group), or () where the file has no
    such columns."""
    values: dict[tuple[str, ...], dict[str, list[int]]] = {}
    for *label, arm, index, value in parse_rows(content, header):
        here = values.setdefault(tuple(label), {ROWS: [], COLUMNS: []})[arm]
        here.append(int(value))
        if int(index) != len(here):
            raise ValueError("the indices of an arm must be 1, 2, ...")
    return {
        label: (np.array(arms[ROWS], np.int64), np.array(arms[COLUMNS], np.int64))
        for label, arms in values.items()
    }
