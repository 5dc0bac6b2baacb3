"""The directory of a job that makes several releases, each in a subdirectory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

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
    filesystem,
    join,
    matching_paths,
    paths_in_subdirectories,
    read_bytes,
)


@dataclass(frozen=True)
class SeveralReleases:
    """The directory of a job, on a Beam filesystem, whose subdirectories hold its releases.

    Attributes:
      path: the directory.
      names: the names of the subdirectories, in the order in which they are written.
      overwrite: whether to replace the releases of an earlier job.
    """

    path: str
    names: tuple[str, ...]
    overwrite: bool = False

    @property
    def made_of_all(self) -> list[str]:
        """The paths of files about all releases that an earlier job may have left."""
        return [join(self.path, name) for name in (ALL_PERIODS_FILE, *REPORT_FILES)]

    def refuse_other_jobs(self) -> None:
        """Raises an InputError if the directory holds the release of another job: in itself, or in
        a subdirectory that this job does not write."""
        statement = join(self.path, PRIVACY_FILE)
        if filesystem(statement).exists(statement):
            raise _other_job(self.path, statement)
        for path in matching_paths(join(self.path, RELEASED_FILES)):
            raise _other_job(self.path, path)
        for name, path in _statements_below(self.path).items():
            if name not in self.names:
                raise _other_job(self.path, path)


def refuse_releases_below(directory: str) -> None:
    """Raises an InputError if subdirectories hold the releases of a job that made several."""
    for path in _statements_below(directory).values():
        raise _other_job(directory, path)


def _statements_below(directory: str) -> dict[str, str]:
    """Returns the paths of the privacy.json of releases that a job has written into subdirectories
    of its own, by the names of the subdirectories.

    These are names that no user has chosen: those of ``release_all``, and those of periods, which
    the statement repeats. A release that a user has put into a subdirectory is another one.
    """
    statements = {}
    for path in paths_in_subdirectories(directory, PRIVACY_FILE):
        name = os.path.basename(os.path.dirname(path))
        if name in (LIST_DIRECTORY, PARTITIONS_DIRECTORY) or _period_of(path) == name:
            statements[name] = path
    return statements


def _period_of(path: str) -> Any:
    """Returns the period that a privacy.json is about; None if it is about none."""
    try:
        statement = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        return None
    return statement.get("period") if isinstance(statement, dict) else None


def _other_job(directory: str, path: str) -> InputError:
    return InputError(
        f"{directory} holds the release of another job, with {path}: give another --output"
    )
