"""Reads any release from the directory that a job, or ``save``, has written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

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
from dp_transforms.files.release_files import SavedRelease, as_malformed, is_there
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

_MAIN_FILES = {
    ATTRIBUTES_FILE,
    DEGREES_FILE,
    FREQUENCIES_FILE,
    HIERARCHY_FILE,
    LISTS_FILE,
    PARTITIONS_FILE,
}
"""The files of main tables of the kinds that have a reader."""


def _reader(statement: Mapping[str, Any]) -> Callable[[SavedRelease], Any]:
    """Returns the function that reads the kind of release that a statement describes. Files do not
    show the kind: without one of them, a release would be taken for one of another kind."""
    if statement["mechanism"] == names.MECHANISM:
        return names.read
    if statement["mechanism"] == user_degrees.MECHANISM:
        return user_degrees.read
    if "levels" in statement:
        return hierarchy.read
    has_survey = SURVEY in statement
    if "lists" not in statement:
        return all_records.read if has_survey else frequency_list.read
    if any("columns" in entry for entry in statement["lists"]):
        return attributes.read
    return grouped_all_records.read if has_survey else groups.read


def release_directories(directory: str) -> list[str]:
    """Returns the directory itself, or the two in it that ``release_all`` has written."""
    directory = local_path(directory)
    inner = [join(directory, name) for name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY)]
    both = all(is_there(path, PRIVACY_FILE) for path in inner)
    return inner if both else [directory]


def load(directory: str | os.PathLike[str]) -> Any:
    """Reads a release from the directory that a job, or ``save``, has written.

    Returns:
      A ``ListRelease`` (with a survey an ``AllRecordsRelease``), ``NamesRelease``,
      ``GroupReleases`` (with surveys ``GroupAllRecordsReleases``), ``AttributeReleases`` or
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
        content = "a list and names that one job has released: give the directory of either"
        with as_malformed(path, content):
            return ListAndNames.of(*map(load, both))
    tables = _main_tables(path)
    with as_malformed(path, f"a release: its {PRIVACY_FILE} lacks entries, or is of other tables"):
        if tables or is_there(path, PRIVACY_FILE):
            saved = SavedRelease(path)
            return _checked(_reader(saved.statement)(saved))
        releases = periods.read(path, load)
        if releases is not None:
            return _checked(releases)
    raise InputError(
        f"{path} cannot be read as a release: it has none of the files that a job or save writes"
    )


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
