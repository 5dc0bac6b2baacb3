"""Reads any release from the directory that a job, or ``save``, has written."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from dp_transforms import releases
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    FREQUENCIES_FILE,
    LIST_DIRECTORY,
    PARTITIONS_DIRECTORY,
    PRIVACY_FILE,
    RELEASED_FILES,
)
from dp_transforms.files.paths import as_filesystem_error, join, local_path, matching_paths
from dp_transforms.files.release_files import SavedRelease, as_malformed, is_there
from dp_transforms.releases import frequency_list, periods
from dp_transforms.releases.base import Reader
from dp_transforms.releases.list_and_names import ListAndNames


@functools.cache
def readers() -> tuple[Reader, ...]:
    """Returns the readers of all kinds of releases but lists: each module of ``releases`` that
    defines a ``READER``. So a kind that is added can be loaded without a line here."""
    names = [module.name for module in pkgutil.iter_modules(releases.__path__)]
    modules = [importlib.import_module(f"{releases.__name__}.{name}") for name in names]
    return tuple(module.READER for module in modules if hasattr(module, "READER"))


def _function_for(statement: Mapping[str, Any]) -> Callable[[SavedRelease], Any]:
    """Returns the function that reads the kind of release that a statement describes. Files do not
    show the kind: without one of them, a release would be taken for one of another kind."""
    for reader in readers():
        if reader.describes(statement):
            return reader.read
    # A statement of a list has no entry that says so.
    return frequency_list.read


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
            return _checked(_function_for(saved.statement)(saved))
        releases = periods.read_periods(path, load)
        if releases is not None:
            return _checked(releases)
    fault = "it has none of the files that a job or save writes"
    if os.path.isfile(path):
        fault = "it is a file, and a release is a directory"
    elif "://" not in path and not os.path.exists(path):
        fault = "there is no such directory"
    raise InputError(f"{path} cannot be read as a release: {fault}")


def _main_tables(directory: str) -> list[str]:
    """Returns the paths of main tables in a directory. Raises an InputError if there are only such
    of kinds without a reader."""
    with as_filesystem_error(f"{directory} cannot be read"):
        tables = matching_paths(join(directory, RELEASED_FILES))
    main_files = {FREQUENCIES_FILE, *(reader.file_name for reader in readers())}
    if tables and not main_files & {os.path.basename(table) for table in tables}:
        raise InputError(f"{tables[0]} is of a kind that this version cannot load: read the file")
    return tables


def _checked(release: Any) -> Any:
    """Returns the release, or raises an error if its statement lacks what the release shows."""
    repr(release)
    release.statement_words()
    return release
