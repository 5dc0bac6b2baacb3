"""The directory of a job that makes several releases, each in a subdirectory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    ALL_PERIODS_FILE,
    LIST_DIRECTORY,
    PARTITIONS_DIRECTORY,
    PRIVACY_FILE,
    RELEASED_FILES,
    REPORT_FILES,
)
from dp_transforms.files.paths import (
    LocalFiles,
    delete_present,
    filesystem,
    join,
    matching_paths,
    paths_in_subdirectories,
    read_bytes,
)

_LIST_AND_NAMES = (LIST_DIRECTORY, PARTITIONS_DIRECTORY)


class OptionNames(NamedTuple):
    """What the caller calls the directory, and the option to replace a release in it. Errors advise
    to change these."""

    directory: str
    overwrite: str


FLAGS = OptionNames("--output", "--overwrite")
ARGUMENTS = OptionNames("directory", "overwrite=True")


@dataclass(frozen=True)
class SeveralReleases:
    """The directory of a job, on a Beam filesystem, whose subdirectories hold its releases.

    Attributes:
      path: the directory.
      names: the names of the subdirectories, in the order in which they are written.
    """

    path: str
    names: tuple[str, ...]

    @property
    def made_of_all(self) -> list[str]:
        """The paths of files about all releases that an earlier job may have left."""
        return [join(self.path, name) for name in (ALL_PERIODS_FILE, *REPORT_FILES)]

    def refuse_other_jobs(self, file_name: str, overwrite: bool, options: OptionNames) -> None:
        """Raises an InputError if the directory holds the release of another job: in itself, or in
        a subdirectory that this job does not write.

        Args:
          file_name: the name of this job's main tables, or of the first one if they differ.
          overwrite: whether to replace the releases of an earlier job, if both are of periods.
          options: what the caller calls the directory and ``overwrite``.
        """
        statement = join(self.path, PRIVACY_FILE)
        if filesystem(statement).exists(statement):
            raise _other_job(self.path, statement, options)
        for path in matching_paths(join(self.path, RELEASED_FILES)):
            raise _other_job(self.path, path, options)
        for path in self._earlier_statements():
            if not self._may_replace(path, file_name):
                raise _other_job(self.path, path, options)
            if not overwrite:
                remedy = f", or {options.overwrite} to replace it"
                raise _other_job(self.path, path, options, remedy)

    def remove_earlier(self, file_names: Sequence[str]) -> None:
        """Removes the releases of an earlier job in subdirectories that this job does not write.

        Other files in them stay, and so do subdirectories with such files.

        Args:
          file_names: the names of all tables, pictures and pages that a release may have.
        """
        for path in self._earlier_statements():
            directory = os.path.dirname(path)
            # The statement goes last: by it a job that is killed here is found again.
            delete_present([*(join(directory, name) for name in file_names), path])
            if filesystem(directory) is LocalFiles and not os.listdir(directory):
                os.rmdir(directory)

    def _earlier_statements(self) -> list[str]:
        """Returns the paths of the privacy.json in subdirectories that this job does not write."""
        below = _statements_below(self.path)
        return [path for name, path in below.items() if name not in self.names]

    def _may_replace(self, statement: str, file_name: str) -> bool:
        """Returns whether the release beside a statement is of the kind of this job's: both are of
        periods, and their main tables have the same name."""
        directory = os.path.dirname(statement)
        if os.path.basename(directory) in _LIST_AND_NAMES or self.names == _LIST_AND_NAMES:
            return False
        tables = matching_paths(join(directory, RELEASED_FILES))
        return {os.path.basename(path) for path in tables} <= {file_name}


def refuse_releases_below(directory: str, options: OptionNames) -> None:
    """Raises an InputError if subdirectories hold the releases of a job that made several."""
    for path in _statements_below(directory).values():
        raise _other_job(directory, path, options)


def refuse_part_of_several(directory: str, period: str | None, options: OptionNames) -> None:
    """Raises an InputError if the directory holds one of several releases of a job. The others
    would be left beside a release that is not of their job.

    Args:
      directory: the directory of a release.
      period: the period of the release that is to replace it, if it has one.
      options: what the caller calls the directory and ``overwrite``.
    """
    whole = directory.rstrip("/") if "://" in directory else os.path.abspath(directory)
    parent, name = os.path.split(whole)
    statement = join(whole, PRIVACY_FILE)
    if not filesystem(statement).exists(statement):
        return
    is_part = name != period and _period_of(statement) == name
    if name in _LIST_AND_NAMES:
        both = (join(join(parent, part), PRIVACY_FILE) for part in _LIST_AND_NAMES)
        is_part = all(filesystem(path).exists(path) for path in both)
    if is_part:
        raise InputError(
            f"{directory} holds one of several releases of a job, whose others are beside it in "
            f"{parent}: give another {options.directory}"
        )


def _statements_below(directory: str) -> dict[str, str]:
    """Returns the paths of the privacy.json of releases that a job has written into subdirectories
    of its own, by the names of the subdirectories.

    These are names that no user has chosen: those of ``release_all``, and those of periods, which
    the statement repeats. A release that a user has put into a subdirectory is another one.
    """
    statements = {}
    for path in paths_in_subdirectories(directory, PRIVACY_FILE):
        name = os.path.basename(os.path.dirname(path))
        if name in _LIST_AND_NAMES or _period_of(path) == name:
            statements[name] = path
    return statements


def _period_of(path: str) -> Any:
    """Returns the period that a privacy.json is about; None if it is about none."""
    try:
        statement = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        return None
    return statement.get("period") if isinstance(statement, dict) else None


def _other_job(directory: str, path: str, options: OptionNames, remedy: str = "") -> InputError:
    return InputError(
        f"{directory} holds the release of another job, with {path}: give another "
        f"{options.directory}{remedy}"
    )
