"""Files as Beam's filesystems see them, with errors that name the file and the remedy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.errors import InputError

if TYPE_CHECKING:
    from apache_beam.io.filesystem import FileMetadata


class FileRange(NamedTuple):
    """The part of a file that one worker reads: what begins at byte start or later, before stop."""

    path: str
    start: int
    stop: int


def local_path(path: str) -> str:
    """The path with a leading ~ expanded, which shells leave alone in `--flag=~/file`."""
    return os.path.expanduser(path)


class LocalFiles:
    """This machine's files, under the names of Beam's ``FileSystems`` but without its import."""

    join = staticmethod(os.path.join)
    exists = staticmethod(os.path.exists)

    @staticmethod
    def open(path: str) -> Any:
        return open(path, "rb")

    @staticmethod
    def create(path: str) -> Any:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return open(path, "wb")

    @staticmethod
    def rename(sources: Iterable[str], targets: Iterable[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            os.rename(source, target)

    @staticmethod
    def delete(paths: Iterable[str]) -> None:
        for path in paths:
            os.remove(path)


def filesystem(path: str) -> Any:
    """What knows the files of a path: Beam is loaded only for those of another machine."""
    if "://" not in path:
        return LocalFiles
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def match_files(pattern: str) -> list[FileMetadata]:
    """The files of a glob, in order of their paths.

    Raises:
      InputError: there are none, one is not a regular file, or no filesystem knows such a path.
    """
    # Commands that run no pipeline do not wait for Beam.
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory: give its files, for example '{pattern}/*'")
    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"{pattern} cannot be listed: {reason(error)}") from None
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
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    try:
        return FileSystems.get_filesystem(path).metadata(path)
    except (BeamIOError, OSError) as error:
        raise InputError(f"{path} cannot be opened: {reason(error)}") from None


def open_bytes(path: str) -> Any:
    """A readable, seekable binary file, never decompressed on the way.

    Raises:
      InputError: the file cannot be opened.
    """
    from apache_beam.io.filesystem import BeamIOError, CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    try:
        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    except (BeamIOError, OSError) as error:
        raise InputError(f"{path} cannot be opened: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What the operating system or a filesystem has to say, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "filesystem" in str(error).lower():
        return "no filesystem for such a path is installed (gs:// needs the gcp extra)"
    return "the filesystem refused; check the path and your access to it"
