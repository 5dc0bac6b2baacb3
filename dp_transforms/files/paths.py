"""Functions on files of Beam's filesystems. Their InputErrors name the file and what to do."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_transforms.errors import InputError, as_input_error

if TYPE_CHECKING:
    from apache_beam.io.filesystem import FileMetadata


# Extras of Beam by scheme, and packages that Beam's filesystems need but do not declare.
_EXTRAS = {"gs": "gcp", "s3": "aws", "azfs": "azure", "hdfs": "hadoop"}
_NEEDED = {"s3": "boto3", "azfs": "azure"}


class FileRange(NamedTuple):
    """The part of a file that one worker reads: from byte start to before byte stop."""

    path: str
    start: int
    stop: int

    @classmethod
    def whole(cls, path: str) -> FileRange:
        return cls(path, 0, 1 << 62)

    @classmethod
    def alike(cls, path: str, size: int, at_most: int) -> Iterator[FileRange]:
        """Yields ranges that cover a file of ``size`` bytes: the fewest of ``at_most`` bytes each.

        Their sizes differ by at most one byte, since engines give each worker equally many ranges
        and wait for the last worker. An empty file has one range too, since reading it checks it.
        """
        count = max(1, -(-size // at_most))
        for i in range(count):
            yield cls(path, i * size // count, (i + 1) * size // count)


@dataclass(frozen=True)
class FileVersion:
    """A file's path, size and time of change. Two versions are equal as long as nobody has written
    to the file."""

    path: str
    size_in_bytes: int
    last_updated: float


def local_path(path: str) -> str:
    """Returns a path with a leading ~ expanded, which shells do not expand in `--flag=~/file`."""
    path = os.path.expanduser(path)
    # Beam matches nothing by a glob without a directory, so such a glob gets one.
    is_glob = re.search(r"[*?\[]", path) and not os.path.dirname(path)
    return os.path.join(os.curdir, path) if is_glob else path


class LocalFiles:
    """The methods of Beam's ``FileSystems`` for this machine's files, without importing Beam."""

    join = staticmethod(os.path.join)
    exists = staticmethod(os.path.exists)

    @staticmethod
    def open(path: str) -> Any:
        return open(path, "rb")

    @staticmethod
    def match(pattern: str) -> list[str]:
        """Returns the path if it exists. If its file name has a *, which matches anything, it
        returns the matching files of the directory."""
        if "*" not in pattern:
            return [pattern] if os.path.exists(pattern) else []
        directory, name = os.path.split(pattern)
        like = re.compile(r"[^/\\]*".join(map(re.escape, name.split("*"))))
        names = os.listdir(directory) if os.path.isdir(directory) else []
        paths = [os.path.join(directory, entry) for entry in names if like.fullmatch(entry)]
        return [path for path in paths if os.path.exists(path) and not os.path.isdir(path)]

    @staticmethod
    def version(path: str) -> FileVersion:
        status = os.stat(path)
        return FileVersion(path, status.st_size, status.st_mtime)

    @staticmethod
    def create(path: str) -> Any:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return open(path, "wb")

    @staticmethod
    def rename(sources: Iterable[str], targets: Iterable[str], replace: bool = True) -> None:
        """Renames files.

        Without ``replace`` an existing target raises a FileExistsError, provided that the file
        system has links. The source may then remain beside the target.
        """
        for source, target in zip(sources, targets, strict=True):
            if replace:
                os.rename(source, target)
                continue
            try:
                os.link(source, target)
            except FileExistsError:
                raise
            except OSError:
                os.rename(source, target)

    @staticmethod
    def delete(paths: Iterable[str]) -> None:
        for path in paths:
            os.remove(path)


def filesystem(path: str) -> Any:
    """Returns the class that accesses a path; loads Beam only for paths of other machines."""
    if "://" not in path:
        return LocalFiles
    scheme = path.partition(":")[0]
    if scheme in _NEEDED and importlib.util.find_spec(_NEEDED[scheme]) is None:
        raise InputError(f"{path} cannot be opened: {_not_installed(scheme)}")
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def join(directory: str, *names: str) -> str:
    """Joins a directory and names in the way of its filesystem."""
    return str(filesystem(directory).join(directory, *names))


def read_bytes(path: str) -> bytes:
    with filesystem(path).open(path) as file:
        return bytes(file.read())


def write_bytes(path: str, content: bytes) -> None:
    with filesystem(path).create(path) as file:
        file.write(content)


def delete_present(paths: Iterable[str]) -> None:
    """Deletes those of the files that are there, one after the other."""
    for path in paths:
        if filesystem(path).exists(path):
            filesystem(path).delete([path])


def matching_paths(pattern: str) -> list[str]:
    """Returns the sorted paths that match a pattern, in whose file name * matches anything."""
    files = filesystem(pattern)
    if files is LocalFiles:
        return sorted(LocalFiles.match(pattern))
    return sorted(file.path for file in files.match([pattern])[0].metadata_list)


def paths_in_subdirectories(directory: str, name: str) -> list[str]:
    """Returns the sorted paths of the files of a name that are directly in subdirectories."""
    files = filesystem(directory)
    if files is LocalFiles:
        return sorted(glob.glob(join(glob.escape(directory), "*", name)))
    return sorted(file.path for file in files.match([join(directory, "*", name)])[0].metadata_list)


def match_files(*patterns: str) -> list[FileVersion]:
    """Returns the files that match any of the patterns, each once, in order of their paths. Raises
    an InputError if a pattern matches none."""
    files = {file.path: file for pattern in patterns for file in _matching(pattern)}
    return [files[path] for path in sorted(files)]


def _matching(pattern: str) -> list[FileVersion]:
    """Returns the files that match a pattern; raises an InputError if there is none."""
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory: give its files, for example '{pattern}/*'")
    local = "://" not in pattern
    filesystem(pattern)  # raises if there is none
    with as_filesystem_error(f"{pattern} cannot be listed"):
        if local and not re.search(r"[?\[]|\*\*|\*.*/", pattern):
            files = [LocalFiles.version(path) for path in LocalFiles.match(pattern)]
        else:
            files = [_version(file) for file in filesystem("://").match([pattern])[0].metadata_list]
    if not files:
        raise InputError(
            f"no file matches {pattern}: check the path, and quote a glob in the shell"
        )
    for file in files:
        # Only regular files: a pipe can be read only once, and a device may have no end.
        if local and not os.path.isfile(file.path):
            raise InputError(f"{file.path} is not a regular file: copy what it gives into one")
    return files


def file_version(path: str) -> FileVersion:
    """Returns the current version of a file."""
    with as_filesystem_error(f"{path} cannot be opened"):
        files = filesystem(path)
        if files is LocalFiles:
            return LocalFiles.version(path)
        return _version(files.get_filesystem(path).metadata(path))


def open_bytes(path: str) -> Any:
    """Opens a file as seekable bytes, without decompressing it."""
    with as_filesystem_error(f"{path} cannot be opened"):
        if filesystem(path) is LocalFiles:
            return LocalFiles.open(path)
        from apache_beam.io.filesystem import CompressionTypes

        stored = CompressionTypes.UNCOMPRESSED
        return filesystem(path).open(path, compression_type=stored)


def _version(file: FileMetadata) -> FileVersion:
    return FileVersion(file.path, file.size_in_bytes, file.last_updated_in_seconds)


def as_filesystem_error(failed: str) -> contextlib.AbstractContextManager[None]:
    """Raises an InputError with a reason in place of an error of the operating system or of Beam's
    filesystems. ``failed`` says what could not be done."""
    return as_input_error(lambda error: f"{failed}: {reason(error)}", (OSError, ValueError))


def reason(error: Exception) -> str:
    """Returns the reason that the operating system or a filesystem gives, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "filesystem" in str(error).lower():
        scheme = re.search(r"(\w+):", str(error).rpartition("specified")[2])
        if scheme is None or scheme[1] not in _EXTRAS:
            return "no filesystem for such a path is known; a database needs a --query"
        return _not_installed(scheme[1])
    return "the filesystem refused; check the path and your access to it"


def _not_installed(scheme: str) -> str:
    return f"its filesystem is not installed: pip install 'apache-beam[{_EXTRAS[scheme]}]'"
