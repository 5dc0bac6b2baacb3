"""Reads any release from the directory that a job, or ``save``, has written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    ATTRIBUTES_FILE,
    DEGREES_FILE,
    FREQUENCIES_FILE,
    HIERARCHY_FILE,
    LIST_DIRECTORY,
    LISTS_FILE,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    RELEASED_FILES,
)
from dp_transforms.files.paths import as_filesystem_error, join, local_path, matching_paths
from dp_transforms.files.release_files import as_malformed, is_there, read_statement
from dp_transforms.releases import (
    all_records,
    attributes,
    frequency_list,
    grouped_all_records,
    groups,
    hierarchy,
    names,
    periods,
    user_degrees,
)
from dp_transforms.releases.list_and_names import ListAndNames
from dp_transforms.releases.surveys import SURVEY


class _Kind(NamedTuple):
    """A kind of release: what errors call it, the file of its main table, and what reads it."""

    title: str
    file_name: str
    read: Callable[[str], Any]


_NAMES = _Kind("released names of partitions", PARTITIONS_FILE, names.read)
_DEGREES = _Kind("released numbers of partitions of users", DEGREES_FILE, user_degrees.read)
_HIERARCHY = _Kind("released lists of a hierarchy", HIERARCHY_FILE, hierarchy.read)
_ATTRIBUTES = _Kind("released lists of attributes", ATTRIBUTES_FILE, attributes.read)
_GROUPS = _Kind("released lists of groups", LISTS_FILE, groups.read)
_GROUPS_WITH_SURVEYS = _Kind(
    "released lists of groups with surveys", LISTS_FILE, grouped_all_records.read
)
_LIST = _Kind("a released frequency list", FREQUENCIES_FILE, frequency_list.read)
_LIST_WITH_SURVEY = _Kind(
    "a released frequency list with its survey", FREQUENCIES_FILE, all_records.read
)
_MAIN_FILES = {
    kind.file_name for kind in (_NAMES, _DEGREES, _HIERARCHY, _ATTRIBUTES, _GROUPS, _LIST)
}


def _kind_of(statement: Mapping[str, Any]) -> _Kind:
    """Returns the kind of release that a statement describes. Files do not show it: one of them may
    be missing, and then the release would be taken for one of another kind."""
    by_mechanism = {names.MECHANISM: _NAMES, user_degrees.MECHANISM: _DEGREES}
    kind = by_mechanism.get(statement["mechanism"])
    if kind is not None:
        return kind
    has_survey = SURVEY in statement
    if "levels" in statement:
        return _HIERARCHY
    if "lists" not in statement:
        return _LIST_WITH_SURVEY if has_survey else _LIST
    if any("columns" in entry for entry in statement["lists"]):
        return _ATTRIBUTES
    return _GROUPS_WITH_SURVEYS if has_survey else _GROUPS


def release_directories(directory: str) -> list[str]:
    """Returns the directory itself, or the two in it that ``release_all`` has written."""
    directory = local_path(directory)
    inner = [join(directory, name) for name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY)]
    both = all(is_there(path, PRIVACY_FILE) for path in inner)
    return inner if both else [directory]


def load(directory: str | os.PathLike[str]) -> Any:
    """Reads a release from the directory that a job, or ``save``, has written.

    Returns:
      A ``ListRelease``, ``NamesRelease``, ``GroupReleases``, ``AttributeReleases`` or
      ``HierarchyReleases``; from a job with ``--period``, the ``Releases`` of all periods; from one
      that made a list and names, both; and from choose-kappa the ``DegreesOfUsers``.

    Raises:
      ValueError: there is no release, or it cannot be read.
    """
    path = local_path(os.fspath(directory))
    if "\n" in path:
        raise ValueError("directory must be the path of a directory, got a text of several lines")
    both = release_directories(path)
    if len(both) > 1:
        with as_malformed(path, "a list and names of the same records"):
            return ListAndNames.of(*map(load, both))
    tables = _main_tables(path)
    if not tables and not is_there(path, PRIVACY_FILE):
        releases = periods.read(path, load)
        if releases is None:
            raise InputError(
                f"{path} cannot be read as a release: it has none of the files that a "
                "job or save writes"
            )
        with as_malformed(path, f"a release with its {PRIVACY_FILE}"):
            return _checked(releases)
    with as_malformed(path, f"a release with its {PRIVACY_FILE}"):
        kind = _kind_of(read_statement(path))
    with as_malformed(path, f"{kind.title} with its {PRIVACY_FILE}"):
        return _checked(kind.read(path))


def _main_tables(directory: str) -> list[str]:
    """Returns the paths of main tables in a directory. Raises an InputError if there are only such
    of kinds without a reader."""
    with as_filesystem_error(f"{directory} cannot be read"):
        tables = matching_paths(join(directory, RELEASED_FILES))
    if tables and not _MAIN_FILES & {os.path.basename(table) for table in tables}:
        raise InputError(f"{tables[0]} is of a kind that this version cannot load: read the file")
    return tables


def _checked(release: Any) -> Any:
    """Returns the release, or raises an error if its statement lacks what the release shows."""
    repr(release)
    release.statement_words()
    return release
