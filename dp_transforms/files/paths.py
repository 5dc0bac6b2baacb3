"""Files as Beam's filesystems see them, with InputErrors that name the file and the remedy."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_transforms.errors import InputError

if TYPE_CHECKING:
    from apache_beam.io.filesystem import FileMetadata


# By schemes, Beam's extras, and packages that its filesystems need without saying so.
_EXTRAS = {"gs": "gcp", "s3": "aws", "azfs": "azure", "hdfs": "hadoop"}
_NEEDED = {"s3": "boto3", "azfs": "azure"}


class FileRange(NamedTuple):
    """The part of a file that one worker reads: what begins at byte start or later, before stop."""

    path: str
    start: int
    stop: int

    @classmethod
    def whole(cls, path: str) -> FileRange:
        return cls(path, 0, 1 << 62)

    @classmethod
    def alike(cls, path: str, size: int, at_most: int) -> Iterator[FileRange]:
        """The fewest ranges of at most so many bytes that cover a file, all as large but for a
        byte: engines give each worker as many, and wait for the last one. An empty file has one
        too: reading it says what it lacks."""
        count = max(1, -(-size // at_most))
        for i in range(count):
            yield cls(path, i * size // count, (i + 1) * size // count)


@dataclass(frozen=True)
class FileVersion:
    """A file, its size and when it was last written; equal as long as nobody writes to it."""

    path: str
    size_in_bytes: int
    last_updated: float


def local_path(path: str) -> str:
    """The path with a leading ~ expanded, which shells leave alone in `--flag=~/file`."""
    path = os.path.expanduser(path)
    # Beam finds nothing by a glob without a directory.
    return os.path.join(os.curdir, path) if "*" in path and not os.path.dirname(path) else path


class LocalFiles:
    """This machine's files, under the names of Beam's ``FileSystems`` but without its import."""

    join = staticmethod(os.path.join)
    exists = staticmethod(os.path.exists)

    @staticmethod
    def open(path: str) -> Any:
        return open(path, "rb")

    @staticmethod
    def match(pattern: str) -> list[str]:
        """The files of a path, or of a directory and a name in which * stands for anything."""
        if "*" not in pattern:
            return [pattern] if os.path.exists(pattern) else []
        directory, name = os.path.split(pattern)
        like = re.compile(r"[^/\\]*".join(map(re.escape, name.split("*"))))
        names = os.listdir(directory) if os.path.isdir(directory) else []
        paths = [os.path.join(directory, one) for one in names if like.fullmatch(one)]
        return [path for path in paths if os.path.exists(path) and not os.path.isdir(path)]

    @staticmethod
    def version(path: str) -> FileVersion:
        found = os.stat(path)
        return FileVersion(path, found.st_size, found.st_mtime)

    @staticmethod
    def create(path: str) -> Any:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return open(path, "wb")

    @staticmethod
    def rename(sources: Iterable[str], targets: Iterable[str], replace: bool = True) -> None:
        """Renames files. Without ``replace`` a target that is there is a FileExistsError, where the
        file system links; the source may then be left as well."""
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
    """The class that knows a path's files; loads Beam only for those of another machine."""
    if "://" not in path:
        return LocalFiles
    scheme = path.partition(":")[0]
    if scheme in _NEEDED and importlib.util.find_spec(_NEEDED[scheme]) is None:
        raise InputError(f"{path} cannot be opened: {_not_installed(scheme)}")
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def join(directory: str, *names: str) -> str:
    """The path of a name below a directory, in the way of its filesystem."""
    return str(filesystem(directory).join(directory, *names))


def read_bytes(path: str) -> bytes:
    with filesystem(path).open(path) as file:
        return bytes(file.read())


def write_bytes(path: str, content: bytes) -> None:
    with filesystem(path).create(path) as file:
        file.write(content)


def match_files(pattern: str) -> list[FileVersion]:
    """The files of a glob, one at least, in order of their paths."""
    if os.path.isdir(pattern):
        raise InputError(f"{pattern} is a directory: give its files, for example '{pattern}/*'")
    local = "://" not in pattern
    filesystem(pattern)  # whether there is one
    with faults(f"{pattern} cannot be listed"):
        if local and not re.search(r"[?\[]|\*\*|\*.*/", pattern):
            found = [LocalFiles.version(path) for path in LocalFiles.match(pattern)]
        else:
            found = [_version(file) for file in filesystem("://").match([pattern])[0].metadata_list]
    if not found:
        raise InputError(
            f"no file matches {pattern}: check the path, and quote a glob in the shell"
        )
    for file in found:
        # A pipe can be read only once, and a device may have no end.
        if local and not os.path.isfile(file.path):
            raise InputError(f"{file.path} is not a regular file: copy what it gives into one")
    return sorted(found, key=lambda file: file.path)


def file_version(path: str) -> FileVersion:
    """The file as it is now."""
    with faults(f"{path} cannot be opened"):
        files = filesystem(path)
        if files is LocalFiles:
            return LocalFiles.version(path)
        return _version(files.get_filesystem(path).metadata(path))


def open_bytes(path: str) -> Any:
    """A readable, seekable binary file, never decompressed on the way."""
    with faults(f"{path} cannot be opened"):
        if filesystem(path) is LocalFiles:
            return LocalFiles.open(path)
        from apache_beam.io.filesystem import CompressionTypes

        stored = CompressionTypes.UNCOMPRESSED
        return filesystem(path).open(path, compression_type=stored)


def _version(file: FileMetadata) -> FileVersion:
    return FileVersion(file.path, file.size_in_bytes, file.last_updated_in_seconds)


@contextlib.contextmanager
def faults(failed: str) -> Iterator[None]:
    """Puts errors of the operating system, or of a filesystem of Beam's, into words: raises an
    InputError that says what failed, and for which reason."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{failed}: {reason(error)}") from None


@contextlib.contextmanager
def discreet(fault: str, kinds: tuple[type[Exception], ...] = (Exception,)) -> Iterator[None]:
    """Raises an InputError with this text for errors of these kinds: their own may show a value. A
    want of memory stays one."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except kinds:
        raise InputError(fault) from None


def reason(error: Exception) -> str:
    """The reason that the operating system or a filesystem gives, in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if "filesystem" in str(error).lower():
        found = re.search(r"(\w+):", str(error).rpartition("specified")[2])
        if found is None or found[1] not in _EXTRAS:
            return "no filesystem for such a path is known; a database needs a --query"
        return _not_installed(found[1])
    return "the filesystem refused; check the path and your access to it"


def _not_installed(scheme: str) -> str:
    return f"its filesystem is not installed: pip install 'apache-beam[{_EXTRAS[scheme]}]'"
