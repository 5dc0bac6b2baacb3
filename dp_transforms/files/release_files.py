"""The tables of releases, written and read back from directories of any filesystem of Beam's."""

from __future__ import annotations

import contextlib
import csv
import glob
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    ALL_PERIODS_FILE,
    COORDINATES_FILE,
    COORDINATES_HEADER,
    DEGREES_FILE,
    DEGREES_HEADER,
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    GROUPED_COORDINATES_HEADER,
    LIST_DIRECTORY,
    LISTS_FILE,
    LISTS_HEADER,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    period_names,
)
from dp_transforms.files.output import csv_lines
from dp_transforms.files.paths import faults, filesystem, local_path, reason
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, NoisyCoordinates
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.specs import ALL_USERS

Tables = dict[str, list[bytes]]
"""Pieces of the content of files, by their names."""
Arms = tuple[IntArray, IntArray]
Statement = dict[str, Any]


class Found(NamedTuple):
    """A release that was read.

    Attributes:
      content: a list, lists by (attribute, group), or a table of names; of periods, such a content
        with its own privacy.json by each period's name.
      statement: the privacy.json.
      kind: of periods, such as "day"; None for others.
    """

    content: Any
    statement: Statement
    kind: str | None = None


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
    """Parses the bytes of a file that a job has written: returns the rows below its header.

    Raises:
      ValueError, csv.Error: these are not the bytes of such a file.
    """
    found, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    if csv_lines([found]) != header:
        raise ValueError(f"the file must begin with the line {header.decode().strip()}")
    return rows


def parse_lists(content: bytes, header: bytes) -> dict[tuple[str, ...], FrequencyList]:
    """Parses the bytes of a file of lists. Errors are those of ``parse_rows``.

    Returns:
      The lists by (attribute, group), where ("", "") is that of all users; or one list by (), where
      the file has no such columns.
    """
    pairs: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for *label, frequency, multiplicity in parse_rows(content, header):
        pairs.setdefault(tuple(label), []).append((int(frequency), int(multiplicity)))
    return {name: FrequencyList(*zip(*rows, strict=True)) for name, rows in pairs.items()}


def parse_coordinates(content: bytes, header: bytes) -> dict[tuple[str, ...], Arms]:
    """Parses noisy rows and columns from a file's bytes; keys are those of ``parse_lists``."""
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


def release_directories(directory: str) -> list[str]:
    """The directory itself, or the two in it that ``release_all`` has written."""
    directory = local_path(directory)
    files = filesystem(directory)
    inner = [files.join(directory, name) for name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY)]
    both = all(files.exists(files.join(one, PRIVACY_FILE)) for one in inner)
    return inner if both else [directory]


def read_release(directory: str) -> Found:
    """Reads what a job has written into a directory, or into one for each period.

    Raises:
      InputError: there is no release, or it cannot be read.
    """
    directory = local_path(directory)
    files = filesystem(directory)
    present = [
        name
        for name in (PARTITIONS_FILE, LISTS_FILE, FREQUENCIES_FILE)
        if files.exists(files.join(directory, name))
    ]
    if len(inner := release_directories(directory)) > 1:
        raise InputError(f"{directory} holds two releases: give {' or '.join(inner)}")
    if not present and (found := _periods(directory)) is not None:
        return found
    if PARTITIONS_FILE in present:
        from dp_transforms.files.partition_file import read_names

        with reading(directory, f"released names of partitions with their {PRIVACY_FILE}"):
            statement = read_statement(directory)
            return Found(read_names(read_file(directory, PARTITIONS_FILE), statement), statement)
    if LISTS_FILE in present:
        with reading(directory, f"released lists of groups with their {PRIVACY_FILE}"):
            return _groups(directory)
    with reading(directory, f"a released frequency list with its {PRIVACY_FILE}"):
        lists = parse_lists(read_file(directory, FREQUENCIES_FILE), FREQUENCIES_HEADER)
        statement = read_statement(directory)
        arms = _arms(directory, COORDINATES_HEADER) if is_decoded(statement) else {}
        listed = lists.get((), FrequencyList([], []))
        return Found(_released(listed, statement, arms.get(())), statement)


def read_degrees(directory: str) -> ReleasedDegrees:
    """Reads how many partitions users have, as the job choose-kappa has written it.

    Raises:
      InputError: it cannot be read, or is no such release.
    """
    directory = local_path(directory)
    with reading(directory, "a release of choose-kappa"):
        rows = parse_rows(read_file(directory, DEGREES_FILE), DEGREES_HEADER)
        lowest, users = zip(*sorted(tuple(map(int, row)) for row in rows), strict=True)
        return ReleasedDegrees(lowest, users, float(read_statement(directory)["epsilon"]))


def write_all_periods(directory: str, periods: Sequence[str], file_name: str) -> str:
    """Writes the releases of all periods into one file, whose first column is the period.

    The file is in the directory that holds those of the periods. Returns its path.

    Raises:
      InputError: one cannot be read, or this one cannot be written.
    """
    directory = local_path(directory)
    files = filesystem(directory)
    lines: list[bytes] = []
    with reading(directory, "a release for each period"):
        for period in periods:
            text = read_file(files.join(directory, period), file_name).decode()
            header, *rows = csv.reader(io.StringIO(text, newline=""))
            lines += [] if lines else [csv_lines([("period", *header)])]
            lines.append(csv_lines((period, *row) for row in rows))
    return write_files(directory, {ALL_PERIODS_FILE: b"".join(lines)})


def write_files(directory: str, contents: Mapping[str, bytes]) -> str:
    """Writes files into a directory; returns the path of the last.

    Raises:
      InputError: they cannot be written.
    """
    files, path = filesystem(directory), ""
    with faults(f"{directory} cannot be written"):
        for name, content in contents.items():
            path = files.join(directory, name)
            with files.create(path) as file:
                file.write(content)
    return path


@contextlib.contextmanager
def reading(directory: str, content: str) -> Iterator[None]:
    """Puts errors into words while a directory is read, which should hold this content.

    Raises:
      InputError: the files cannot be read, or their text is not that of such a release.
    """
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {reason(error)}") from None
    except (ValueError, KeyError, TypeError, RecursionError, csv.Error):
        raise InputError(f"{directory} does not hold {content}") from None


def read_file(directory: str, name: str) -> bytes:
    """Reads a file in a directory of any filesystem of Beam's."""
    files = filesystem(directory)
    with files.open(files.join(directory, name)) as file:
        return bytes(file.read())


def read_statement(directory: str) -> Statement:
    """Reads the privacy.json in a directory of any filesystem of Beam's."""
    statement: Statement = json.loads(read_file(directory, PRIVACY_FILE))
    return statement


def _periods(directory: str) -> Found | None:
    """Reads the releases of periods below a directory; each privacy.json tells the names of all."""
    files = filesystem(directory)
    if "://" in directory:
        pattern = files.join(directory, "*", PRIVACY_FILE)
        some = [file.path for file in files.match([pattern])[0].metadata_list]
    else:
        some = glob.glob(files.join(glob.escape(directory), "*", PRIVACY_FILE))
    if not some:
        return None
    with reading(directory, "a release for each period"):
        told = read_statement(min(some).removesuffix(PRIVACY_FILE))
        of = told["periods"]
        first, last = (f"{of[end]}-01"[:10] for end in ("first", "last"))
        names = period_names(of["of"], f"{first}..{last}")
        found = {name: read_release(files.join(directory, name)) for name in names}
    statement = {name: value for name, value in told.items() if name != "period"}
    releases = {name: (one.content, one.statement) for name, one in found.items()}
    return Found(releases, statement, of["of"])


def _groups(directory: str) -> Found:
    """The lists of all users and of groups, in the order of their file.

    One without partitions has no rows there. Its noisy coordinates name it, or its group is public.
    """
    lists = parse_lists(read_file(directory, LISTS_FILE), LISTS_HEADER)
    statement = read_statement(directory)
    shared = {"sensitivity": statement["sensitivity"]}
    prices = {one.get("attribute", ALL_USERS): shared | one for one in statement["lists"]}
    arms = _arms(directory, GROUPED_COORDINATES_HEADER) if is_decoded(statement) else {}
    names = {(ALL_USERS, ALL_USERS), *lists, *arms}
    for attribute, price in prices.items():
        if price.get("groups", "selected") != "selected":
            names |= {(attribute, group) for group in price["groups"]}
    found = {
        name: _released(lists.get(name, FrequencyList([], [])), prices[name[0]], arms.get(name))
        for name in sorted(names)
    }
    return Found(found, statement)


def _arms(directory: str, header: bytes) -> dict[tuple[str, ...], Arms]:
    return parse_coordinates(read_file(directory, COORDINATES_FILE), header)


def is_decoded(statement: Mapping[str, Any]) -> bool:
    """Tells whether noisy coordinates lie beside the lists of a privacy.json, or beside the list of
    an entry in it."""
    lists = statement.get("lists", [statement])
    return any(one.get("mechanism") == FrobeniusMechanism.title for one in lists)


def _released(
    listed: FrequencyList, statement: Mapping[str, Any], arms: Arms | None
) -> ReleasedList:
    """A list with its noisy coordinates, if its statement says that there are."""
    coordinates = None
    if is_decoded(statement):
        if arms is None:
            raise ValueError("noisy coordinates must lie beside a decoded list")
        base_2 = statement.get("base_2")
        if base_2:
            decay = Decay(base=Eta(base_2["x"], base_2["y"], base_2["z"]))
        else:
            decay = Decay(Fraction(statement.get("rate_exact", statement["rate"])))
        coordinates = NoisyCoordinates(*arms, decay, statement["sensitivity"])
    return ReleasedList(listed.frequencies, listed.multiplicities, None, coordinates)
