"""Reads and writes single files of releases, in directories of Beam's filesystems.

All functions raise an InputError if files cannot be read or written, or hold no such release.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeVar

from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.filenames import DIGESTS, PRIVACY_FILE
from dp_transforms.files.output import csv_rows
from dp_transforms.files.paths import (
    as_filesystem_error,
    filesystem,
    join,
    local_path,
    read_bytes,
    reason,
    write_bytes,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList

_T = TypeVar("_T")

_OF_VALUES = (ValueError, ArithmeticError, RecursionError, csv.Error)
"""The types of errors that damaged values cause."""


def check_frequency_list(path: str) -> None:
    """Raises an InputError if a local file cannot be opened. It does not read the file."""
    path = local_path(path)
    try:
        open(path, "rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def read_frequency_list(path: str, public: bool = False, remedy: str = "") -> FrequencyList:
    """Returns the list of a local file with the header frequency,multiplicity.

    Errors show the file's content only if it is public. Otherwise they end with ``remedy``.
    """
    path = local_path(path)
    try:
        return FrequencyList.from_csv(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None
    except ValueError as error:
        fault = (
            f"{path} is not a frequency list: the first line must be frequency,multiplicity and "
            f"the others pairs of positive integers, frequencies descending{remedy}"
        )
        raise InputError(str(error) if public else fault) from None


def parse_rows(content: bytes, header: Sequence[str]) -> list[list[str]]:
    """Returns the rows below the header of a CSV file of a job. Raises a ValueError or csv.Error if
    the content has another header or is not CSV."""
    names, *rows = csv_rows(content.decode())
    if names != [*header]:
        raise ValueError(f"the file must begin with the line {','.join(header)}")
    return rows


def write_files(directory: str, contents: Mapping[str, bytes]) -> str:
    """Writes files into a directory, and returns the path of the last one."""
    path = ""
    with as_filesystem_error(f"{directory} cannot be written"):
        for name, content in contents.items():
            path = join(directory, name)
            write_bytes(path, content)
    return path


def as_malformed(directory: str, content: str) -> contextlib.AbstractContextManager[None]:
    """Raises an InputError in place of errors that a directory without the expected content causes.
    ``content`` describes what is expected."""
    kinds = *_OF_VALUES, KeyError, TypeError, AttributeError
    return as_input_error(f"{directory} does not hold {content}", kinds)


class SavedRelease:
    """The files of a release in a directory of any of Beam's filesystems. Its privacy.json is read
    once, when it is needed."""

    def __init__(self, directory: str):
        self.directory = directory

    @cached_property
    def _entries(self) -> dict[str, Any]:
        content = read_file(self.directory, PRIVACY_FILE)
        return _parsed(self.directory, PRIVACY_FILE, content, _parse_statement)

    @property
    def statement(self) -> dict[str, Any]:
        """The statement in the privacy.json. The digests of the other files are no part of it."""
        return {name: value for name, value in self._entries.items() if name != DIGESTS}

    def has(self, name: str) -> bool:
        """Returns whether a table was released with the others. The digests in the privacy.json say
        so; in directories of earlier versions, the file does."""
        digests = self._entries.get(DIGESTS)
        return is_there(self.directory, name) if digests is None else name in digests

    def table(self, name: str, parse: Callable[[bytes], _T]) -> _T:
        """Returns the content of a released table, as ``parse`` returns it.

        Raises an InputError that names the file if its digest is not that in the privacy.json, or
        if ``parse`` raises an error about a value. Directories of earlier versions have no digests.
        """
        content = read_file(self.directory, name)
        digest = self._entries.get(DIGESTS, {}).get(name)
        if digest is not None and digest != sha256(content).hexdigest():
            how = "it was changed, or is of another release"
            raise not_as_released(self.directory, name, how)
        return _parsed(self.directory, name, content, parse)


def _parse_statement(content: bytes) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads(content)
    if not statement or not isinstance(statement, dict):
        raise ValueError("a statement is an object with entries")
    # Texts show the rounded amounts, and intervals follow from the exact ones.
    for name in ("epsilon", "delta"):
        exact = statement.get(f"{name}_exact")
        if exact is not None and not math.isclose(float(Fraction(exact)), statement[name]):
            raise ValueError(f"{name} is not {name}_exact")
    return statement


def _parsed(directory: str, name: str, content: bytes, parse: Callable[[bytes], _T]) -> _T:
    try:
        return parse(content)
    except _OF_VALUES:
        raise not_as_released(directory, name) from None


def not_as_released(directory: str, name: str, how: str = "it is damaged") -> InputError:
    """Returns the error about a file of a release that is not as a job has written it."""
    return InputError(
        f"{join(directory, name)} is not as it was released: {how}; restore it from a copy"
    )


def read_file(directory: str, name: str) -> bytes:
    """Returns the content of a file in a directory."""
    path = join(directory, name)
    with as_filesystem_error(f"{path} cannot be read"):
        return read_bytes(path)


def is_there(directory: str, name: str) -> bool:
    """Returns whether a file is in a directory."""
    return bool(filesystem(directory).exists(join(directory, name)))
