"""A release on disk: it appears whole or not at all, and never replaces another one by accident."""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms.mechanisms import FrequencyList
from pipelines.errors import InputError
from pipelines.files import local_path, reason

PRIVACY_FILE = "privacy.json"
FREQUENCIES_FILE = "released_frequencies.csv"
FREQUENCIES_HEADER = b"frequency,multiplicity\n"

_CHUNK_BYTES = 1 << 20
_FAULTS = (BeamIOError, OSError, ValueError)


@dataclass(frozen=True)
class ReleaseDirectory:
    """A directory of a Beam filesystem that receives one released file and its privacy.json.

    Attributes:
      path: the directory; it is made when the release is written, if it does not exist.
      file_name: the released file's name in it.
      overwrite: replace an earlier release of that name.

    Raises:
      ValueError: the path is empty or contains characters of a glob.
    """

    path: str
    file_name: str
    overwrite: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", directory_path(self.path))

    def check(self) -> None:
        """Makes sure, before anything is read or spent, that a release can be written.

        Raises:
          InputError: a release is already there, or the directory can not be written.
        """
        try:
            for name in (self.file_name, PRIVACY_FILE):
                if not self.overwrite and FileSystems.exists(self.file(name)):
                    raise InputError(
                        f"{self.file(name)} exists: give another --output, or --overwrite to "
                        f"replace it"
                    )
            probe = FileSystems.join(self._existing_directory(), f".{uuid.uuid4().hex}.probe")
            FileSystems.create(probe).close()
            FileSystems.delete([probe])
        except InputError:
            raise
        except _FAULTS as error:
            raise InputError(f"{self.path} can not be written: {reason(error)}") from None

    def publish(self, content: Iterable[bytes], statement: dict[str, Any]) -> None:
        """Writes both files under other names, then renames them.

        The statement is renamed first and, where an earlier release is replaced, that one is
        removed before: a release is never seen with another one's statement. A runner may repeat
        this step; publishing the same content again is no error.

        Raises:
          InputError: the files can not be written, or another release has appeared meanwhile.
        """
        contents = {PRIVACY_FILE: [json_bytes(statement)], self.file_name: content}
        suffix = f".{uuid.uuid4().hex}.part"
        parts = {name: f"{self.file('.' + name)}{suffix}" for name in contents}
        try:
            for name, pieces in contents.items():
                with FileSystems.create(parts[name], compression_type=_PLAIN) as file:
                    for piece in pieces:
                        file.write(piece)
            present = [name for name in contents if FileSystems.exists(self.file(name))]
            if not self.overwrite:
                for name in present:
                    if not _same(self.file(name), parts[name]):
                        raise InputError(
                            f"{self.file(name)} has appeared while the job ran: nothing was "
                            f"written; give another --output"
                        )
            if self.file_name in present:
                FileSystems.delete([self.file(self.file_name)])
            for name, part in parts.items():
                FileSystems.rename([part], [self.file(name)])
        except InputError:
            raise
        except _FAULTS as error:
            raise InputError(f"{self.path} can not be written: {reason(error)}") from None
        finally:
            _remove(parts.values())

    def file(self, name: str) -> str:
        """The path of a file in the directory."""
        return FileSystems.join(self.path, name)

    def _existing_directory(self) -> str:
        directory = self.path
        if FileSystems.get_scheme(directory) is None:
            # It is only made when there is something to write: a failed job leaves none.
            directory = os.path.abspath(directory)
            while not _exists(directory):
                directory = os.path.dirname(directory)
        return directory


class PublishRelease(beam.PTransform):
    """Writes a release's lines, which are elements of bytes, and its statement into a directory.

    The lines are sorted: their order must not tell how the data were laid out. One worker writes.
    """

    def __init__(self, directory: ReleaseDirectory, header: bytes, statement: dict[str, Any]):
        super().__init__()
        self._directory = directory
        self._header = header
        self._statement = statement

    def expand(self, lines: beam.PCollection[bytes]) -> beam.PCollection[None]:
        # An Any is opaque to runners: they see blocks, not lists of lines.
        blocks = lines | "Blocks" >> beam.ParDo(_Blocks()).with_output_types(Any)
        return (
            lines.pipeline
            | "Once" >> beam.Create([None])
            | "Publish" >> beam.Map(self._publish, beam.pvalue.AsIter(blocks))
        )

    def _publish(self, _: None, blocks: Iterable[list[bytes]]) -> None:
        lines = sorted(itertools.chain.from_iterable(blocks))
        self._directory.publish([self._header, *lines], self._statement)


class _Blocks(beam.DoFn):
    """Gathers a bundle's lines into lists of about a megabyte.

    Beam's runners in Java hand a side input on in pieces of 1,000,000 bytes, and fail where an
    element ends with a piece: often with lines, hardly ever with blocks.
    """

    def start_bundle(self) -> None:
        self._lines: list[bytes] = []
        self._bytes = 0

    def process(self, line: bytes) -> Iterator[list[bytes]]:
        self._lines.append(line)
        self._bytes += len(line)
        if self._bytes >= _CHUNK_BYTES:
            yield self._lines
            self.start_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._lines:
            yield GlobalWindows.windowed_value(self._lines)
        self.start_bundle()


def directory_path(path: str) -> str:
    """The path of a directory to write to, with a leading ~ expanded.

    Raises:
      ValueError: it is empty or contains characters of a glob.
    """
    if not path or set(path) & set("*?[]"):
        raise ValueError(
            f"output must be a directory without any of the characters * ? [ ], got {path!r}"
        )
    return local_path(path)


def add_output_flags(group: Any) -> None:
    """The flags of a ReleaseDirectory, for a group of a parser's flags."""
    group.add_argument(
        "--output", metavar="DIR", help="directory for the release, on any filesystem"
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace an earlier release in the directory"
    )


def frequency_lines(released: FrequencyList) -> bytes:
    """The lines of a frequency list's file after its header.

    >>> frequency_lines(FrequencyList([7, 1], [1, 20]))
    b'7,1\\n1,20\\n'
    """
    return "".join(f"{value},{multiplicity}\n" for value, multiplicity in released).encode()


def json_bytes(statement: dict[str, Any]) -> bytes:
    """The text of a privacy.json."""
    return (json.dumps(statement, indent=2) + "\n").encode()


_PLAIN = CompressionTypes.UNCOMPRESSED


def _exists(path: str) -> bool:
    """Like os.path.lexists, but a path that can not be is an error."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    with (
        FileSystems.open(one, compression_type=_PLAIN) as left,
        FileSystems.open(other, compression_type=_PLAIN) as right,
    ):
        while True:
            here, there = left.read(_CHUNK_BYTES), right.read(_CHUNK_BYTES)
            if here != there:
                return False
            if not here:
                return True


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            if FileSystems.exists(path):
                FileSystems.delete([path])
        except _FAULTS:
            # The error on the way here, if any, says more than this one would.
            pass
