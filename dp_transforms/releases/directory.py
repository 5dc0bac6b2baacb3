"""Reads any release from the directory that a job, or ``save``, has written."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    ATTRIBUTES_FILE,
    DEGREES_FILE,
    FREQUENCIES_FILE,
    GROUP_SURVEYS_FILE,
    HIERARCHY_FILE,
    LIST_DIRECTORY,
    LISTS_FILE,
    PARTITIONS_DIRECTORY,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    RELEASED_FILES,
    SURVEY_FILE,
)
from dp_transforms.files.paths import as_filesystem_error, join, local_path, matching_paths
from dp_transforms.files.release_files import as_malformed, is_there
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

_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    PARTITIONS_FILE: ("released names of partitions", names.read),
    # A release with surveys also has the file of lists alone, so it comes first.
    GROUP_SURVEYS_FILE: ("released lists of groups with surveys", grouped_all_records.read),
    LISTS_FILE: ("released lists of groups", groups.read),
    ATTRIBUTES_FILE: ("released lists of attributes", attributes.read),
    HIERARCHY_FILE: ("released lists of a hierarchy", hierarchy.read),
    # A release with a survey also has the file of a list alone, so it comes first.
    SURVEY_FILE: ("a released frequency list with its survey", all_records.read),
    DEGREES_FILE: ("released numbers of partitions of users", user_degrees.read),
    FREQUENCIES_FILE: ("a released frequency list", frequency_list.read),
}
"""For each file that shows the kind of a release: what errors call this kind, and the function that
reads it. If a directory has several of these files, the first in this order shows its kind."""


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
    present = [file_name for file_name in _READERS if is_there(path, file_name)]
    if not present:
        releases = periods.read(path, load)
        if releases is not None:
            with as_malformed(path, f"a release with its {PRIVACY_FILE}"):
                return _checked(releases)
        _refuse_unknown_kinds(path)
        if not is_there(path, PRIVACY_FILE):
            raise InputError(
                f"{path} cannot be read as a release: it has none of the files that a "
                "job or save writes"
            )
    # A privacy.json alone is read as that of a list: the error then says that the list is missing.
    content, read = _READERS[present[0] if present else FREQUENCIES_FILE]
    with as_malformed(path, f"{content} with its {PRIVACY_FILE}"):
        return _checked(read(path))


def _refuse_unknown_kinds(directory: str) -> None:
    """Raises an InputError if the directory holds a release of a kind without a reader."""
    with as_filesystem_error(f"{directory} cannot be read"):
        tables = matching_paths(join(directory, RELEASED_FILES))
    if tables:
        raise InputError(f"{tables[0]} is of a kind that this version cannot load: read the file")


def _checked(release: Any) -> Any:
    """Returns the release, or raises an error if its statement lacks what the release shows."""
    repr(release)
    release.statement_words()
    return release
