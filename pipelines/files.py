"""Files as Beam's filesystems see them, with errors that name the file and the remedy."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from pipelines.errors import InputError


class FileRange(NamedTuple):
    """The part of a file that one worker reads: what begins at byte start or later, before stop."""

    path: str
    start: int
    stop: int


def local_path(path: str) -> str:
    """The path with a leading ~ expanded, which shells leave alone in `--flag=~/file`."""
    return os.path.expanduser(path)


def match_files(pattern: str) -> list[FileMetadata]:
    """The files of a glob, in order of their paths.

    Raises:
      InputError: there are none, one is not a regular file, or no filesystem knows such a path.
    """
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory: give its files, for example '{pattern}/*'")
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"{pattern} can not be listed: {reason(error)}") from None
    if not found:
        raise InputError(
            f"no file matches {pattern}: check the path, and quote a glob in the shell"
        )
    for file in found:
        # A pipe can be read only once, and a device may have no end.
        if FileSystems.get_scheme(file.path) is None and not os.path.isfile(file.path):
            raise InputError(f"{file.path} is not a regular file: copy what it gives into one")
    return sorted(found, key=lambda file: file.path)


def file_version(path: str) -> FileMetadata:
    """The file's size and when it was last written; equal as long as nobody writes to it.

    Raises:
      InputError: the file is not there any more.
    """
    try:
        return FileSystems.get_filesystem(path).metadata(path)
    except (BeamIOError, OSError) as error:
        raise InputError(f"{path} can not be opened: {reason(error)}") from None


def open_bytes(path: str) -> Any:
    """A readable, seekable binary file, never decompressed on the way.

    Raises:
      InputError: the file can not be opened.
    """
    try:
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except (BeamIOError, OSError) as error:
        raise InputError(f"{path} can not be opened: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What the operating system or a filesystem has to say, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "filesystem" in str(error).lower():
        return "no filesystem for such a path is installed (gs:// needs the gcp extra)"
    return "the filesystem refused; check the path and your access to it"
