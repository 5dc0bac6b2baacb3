"""Writes the tables of releases, and reads them back, in directories of Beam's filesystems.

An InputError says if files cannot be read or written, or hold no such release.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

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
from dp_transforms.files.output import csv_lines, csv_rows, is_decoded
from dp_transforms.files.paths import (
    discreet,
    faults,
    filesystem,
    join,
    local_path,
    read_bytes,
    reason,
    write_bytes,
)
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay, Eta
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, NoisyCoordinates
from dp_transforms.mechanisms.partition.frobenius import EndingRule
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.specs import ALL_USERS

Tables = dict[str, bytes]
"""The content of files, by their names."""
Arms = tuple[IntArray, IntArray]
Statement = dict[str, Any]


def check_frequency_list(path: str) -> None:
    """Raises an InputError, without reading it, if a local file cannot be read."""
    path = local_path(path)
    try:
        open(path, "rb").close()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def read_frequency_list(path: str, public: bool = False, remedy: str = "") -> FrequencyList:
    """Reads the list of a local file with the header frequency,multiplicity. Errors show the file's
    content only if it is public; otherwise they end with the remedy."""
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


def list_tables(lists: Sequence[ReleasedList]) -> Tables:
    """Returns the tables of the only list: itself, and its noisy coordinates."""
    (released,) = lists
    return {
        FREQUENCIES_FILE: FREQUENCIES_HEADER + csv_lines(released),
        COORDINATES_FILE: COORDINATES_HEADER + csv_lines(released.coordinates or ()),
    }


def grouped_tables(lists: Iterable[tuple[str, str, ReleasedList]]) -> Tables:
    """Returns the tables of lists with their attributes and groups, by which they are sorted. A
    list without partitions has the row 0,0, so that every group is named."""
    lists = sorted(lists, key=lambda one: one[:2])
    rows = ((*label, *row) for *label, one in lists for row in list(one) or [(0, 0)])
    coordinates = ((*label, *row) for *label, one in lists for row in one.coordinates or ())
    return {
        LISTS_FILE: LISTS_HEADER + csv_lines(rows),
        COORDINATES_FILE: GROUPED_COORDINATES_HEADER + csv_lines(coordinates),
    }


def degree_tables(released: Sequence[ReleasedDegrees]) -> Tables:
    """Returns the table of the numbers of partitions of users.

    >>> degree_tables([ReleasedDegrees((1, 2), (40, -3), 1.0)])
    {'released_user_degrees.csv': b'partitions_from,users\\n1,40\\n2,-3\\n'}
    """
    (one,) = released
    return {DEGREES_FILE: DEGREES_HEADER + csv_lines(zip(one.lowest, one.users, strict=True))}


def parse_rows(content: bytes, header: bytes) -> list[list[str]]:
    """Parses the rows below the header of a job's file; raises a ValueError or csv.Error if these
    are not the bytes of one."""
    found, *rows = csv_rows(content.decode())
    if csv_lines([found]) != header:
        raise ValueError(f"the file must begin with the line {header.decode().strip()}")
    return rows


def parse_lists(content: bytes, header: bytes) -> dict[tuple[str, ...], FrequencyList]:
    """Parses lists by (attribute, group), or one list by () if the file has no such columns. Errors
    are those of ``parse_rows``."""
    pairs: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    if header == FREQUENCIES_HEADER:
        pairs[()] = []
    for *label, frequency, multiplicity in parse_rows(content, header):
        here = pairs.setdefault(tuple(label), [])
        if (frequency, multiplicity) != ("0", "0"):
            here.append((int(frequency), int(multiplicity)))
    return {name: FrequencyList(*zip(*rows, strict=True)) for name, rows in pairs.items()}


def parse_coordinates(content: bytes, header: bytes) -> dict[tuple[str, ...], Arms]:
    """Parses noisy rows and columns; keys are those of ``parse_lists``."""
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
    """Returns the directory itself, or the two in it that ``release_all`` has written."""
    directory = local_path(directory)
    inner = [join(directory, name) for name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY)]
    both = all(_is_there(one, PRIVACY_FILE) for one in inner)
    return inner if both else [directory]


def read_release(directory: str) -> tuple[Any, Statement]:
    """Reads a release's content and privacy.json. The content is a list, lists by (attribute,
    group), or a table of names; for periods, a dictionary of such pairs by the period's name."""
    directory = local_path(directory)
    if len(inner := release_directories(directory)) > 1:
        raise InputError(f"{directory} holds two releases: give {' or '.join(inner)}")
    if _is_there(directory, PARTITIONS_FILE):
        from dp_transforms.files.partition_file import read_names

        with reading(directory, f"released names of partitions with their {PRIVACY_FILE}"):
            statement = read_statement(directory)
            return read_names(read_file(directory, PARTITIONS_FILE), statement), statement
    if _is_there(directory, LISTS_FILE):
        with reading(directory, f"released lists of groups with their {PRIVACY_FILE}"):
            return _lists(directory, LISTS_FILE, LISTS_HEADER, GROUPED_COORDINATES_HEADER)
    if not _is_there(directory, FREQUENCIES_FILE) and (found := _periods(directory)):
        return found
    with reading(directory, f"a released frequency list with its {PRIVACY_FILE}"):
        headers = FREQUENCIES_HEADER, COORDINATES_HEADER
        lists, statement = _lists(directory, FREQUENCIES_FILE, *headers)
        return lists[()], statement


def read_degrees(directory: str) -> ReleasedDegrees:
    """Reads the numbers of partitions of users that choose-kappa has released."""
    directory = local_path(directory)
    with reading(directory, "a release of choose-kappa"):
        rows = parse_rows(read_file(directory, DEGREES_FILE), DEGREES_HEADER)
        lowest, users = zip(*sorted(tuple(map(int, row)) for row in rows), strict=True)
        return ReleasedDegrees(lowest, users, float(read_statement(directory)["epsilon"]))


def write_all_periods(
    directory: str, periods: Sequence[str], file_name: str, keep: bool = False
) -> str:
    """Writes the releases of all periods into one file beside their directories, with the period as
    the first column; returns its path. It may ``keep`` a file that is there."""
    directory = local_path(directory)
    header, table = b"", []
    with reading(directory, "a release for each period"):
        for period in periods:
            head, *rows = csv_rows(read_file(join(directory, period), file_name).decode())
            header = csv_lines([("period", *head)])
            table += [(period, *row) for row in rows]
    content, path = header + csv_lines(table), join(directory, ALL_PERIODS_FILE)
    if _is_there(directory, ALL_PERIODS_FILE) and (keep or read_bytes(path) == content):
        return path
    return write_files(directory, {ALL_PERIODS_FILE: content})


def write_files(directory: str, contents: Mapping[str, bytes]) -> str:
    """Writes files into a directory; returns the path of the last."""
    path = ""
    with faults(f"{directory} cannot be written"):
        for name, content in contents.items():
            path = join(directory, name)
            write_bytes(path, content)
    return path


@contextlib.contextmanager
def reading(directory: str, content: str) -> Iterator[None]:
    """Turns errors into InputErrors while a directory is read that should hold this content."""
    of_values = ValueError, ArithmeticError, RecursionError, csv.Error
    kinds = *of_values, KeyError, TypeError, AttributeError
    with discreet(f"{directory} does not hold {content}", kinds):
        yield


def read_statement(directory: str) -> Statement:
    """Reads the privacy.json in a directory of any filesystem of Beam's."""
    statement: Statement = json.loads(read_file(directory, PRIVACY_FILE))
    if not statement or not isinstance(statement, dict):
        raise ValueError("a statement is an object with entries")
    return statement


def read_file(directory: str, name: str) -> bytes:
    path = join(directory, name)
    with faults(f"{path} cannot be read"):
        return read_bytes(path)


def _is_there(directory: str, name: str) -> bool:
    return bool(filesystem(directory).exists(join(directory, name)))


def _periods(directory: str) -> tuple[Any, Statement] | None:
    """Reads the releases of periods below a directory; each privacy.json names them all."""
    if "://" in directory:
        pattern = join(directory, "*", PRIVACY_FILE)
        some = [file.path for file in filesystem(directory).match([pattern])[0].metadata_list]
    else:
        some = glob.glob(join(glob.escape(directory), "*", PRIVACY_FILE))
    if not some:
        return None
    with reading(directory, "a release for each period"):
        told = read_statement(min(some).removesuffix(PRIVACY_FILE))
        of = told["periods"]
        first, last = (f"{of[end]}-01"[:10] for end in ("first", "last"))
        names = period_names(of["of"], f"{first}..{last}")
        found = {name: read_release(join(directory, name)) for name in names}
        if any(one != told | {"period": name} for name, (_, one) in found.items()):
            # Together they cost more than any of them says.
            raise InputError(
                f"{directory} holds periods of several jobs: give the directory of one period, or "
                "move those of earlier jobs elsewhere"
            )
    return found, {name: value for name, value in told.items() if name != "period"}


def _lists(
    directory: str, file_name: str, header: bytes, coordinates_header: bytes
) -> tuple[dict[tuple[str, ...], ReleasedList], Statement]:
    """Returns the lists of a file, sorted, with their noisy coordinates if they have any."""
    lists = parse_lists(read_file(directory, file_name), header)
    statement = read_statement(directory)
    arms: dict[tuple[str, ...], Arms] = {}
    if is_decoded(statement):
        arms = parse_coordinates(read_file(directory, COORDINATES_FILE), coordinates_header)
    prices = {one.get("attribute", ALL_USERS): one for one in statement.get("lists", [statement])}
    found = {}
    for label, one in sorted(lists.items()):
        price = prices["".join(label[:1])]
        coordinates = None
        if is_decoded(price):
            # They must lie beside a decoded list.
            coordinates = NoisyCoordinates(*arms[label], _decay(price), statement["sensitivity"])
            ends = EndingRule(coordinates.decay).end
            if any(ends(arm, 0) != len(arm) for arm in arms[label]):
                raise InputError(
                    f"{join(directory, COORDINATES_FILE)} is not as it was released: rows are "
                    "missing, or there are too many"
                )
        found[label] = ReleasedList(one.frequencies, one.multiplicities, None, coordinates)
    return found, statement


def _decay(price: Mapping[str, Any]) -> Decay:
    base_2 = price.get("base_2")
    if base_2:
        return Decay(base=Eta(base_2["x"], base_2["y"], base_2["z"]))
    return Decay(Fraction(price.get("rate_exact", price["rate"])))
