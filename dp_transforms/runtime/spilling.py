"""The pieces of buckets that a process shuffles: in memory, and on disk where they are many.

What goes to disk are records of users, so nothing readable may stay there:

* The file has no name, and mode 600. Nobody else can open it, and the system frees it as soon as
  the process ends, at an error and by SIGKILL too: the next start finds nothing to remove.
* It is encrypted by AES-256-GCM under a key of its own from the operating system, which only this
  memory holds. So what a medium keeps of a file that is freed, in blocks or snapshots, tells no
  more than lengths. A nonce is the position of a segment, which is written once.
* A segment that has changed ends the job, and is never part of a release.

How much is spilled depends on the records, as memory and time of the job do. What is counted does
not depend on it: the pieces of a bucket are the same, in the same order.
"""

from __future__ import annotations

import collections
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dp_transforms.runtime.threads import map_ahead

_SEGMENT_BYTES = 4 << 20
_LENGTH_BYTES = 8
_NONCE_BYTES = 12
_TAG_BYTES = 16


class SpillError(OSError):
    """What is shuffled cannot be kept on disk; the text names the directory and nothing private."""


class Buckets:
    """Pieces by bucket, of which a limited part is in memory. A context manager.

    Args:
      most_bytes: about how many bytes of pieces are held before they go to disk.
      directory: where; by default TMPDIR, or /var/tmp, since /tmp may be memory.
    """

    def __init__(self, most_bytes: int, directory: str | None = None):
        self._most = most_bytes
        self._directory = directory or os.environ.get("TMPDIR") or _default_directory()
        self._pieces: dict[int, list[bytes]] = collections.defaultdict(list)
        self._segments: dict[int, list[range]] = collections.defaultdict(list)
        self._file: IO[bytes] | None = None
        self._end = 0
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self.held = 0  # bytes in memory

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def spilled(self) -> bool:
        """Tells whether there are pieces on disk."""
        return self._file is not None

    def add(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Adds pieces, each with its bucket.

        Raises:
          SpillError: there is no room for them.
        """
        for bucket, piece in pieces:
            self._pieces[bucket].append(piece)
            self.held += len(piece)
        if self.held > self._most:
            self._spill()

    def take(self) -> Iterator[Iterable[bytes]]:
        """Yields the pieces of one bucket after the other, which can be gone through repeatedly.
        What was taken is not held any more."""
        for bucket in sorted({*self._pieces, *self._segments}):
            pieces = self._pieces.pop(bucket, [])
            yield _Pieces(self, self._segments.pop(bucket, []), pieces)

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory)
            for _ in map_ahead(self._write, self._placed()):
                pass
        except OSError as error:
            raise SpillError(
                f"what is shuffled cannot be written to {self._directory} "
                f"({(error.strerror or 'unknown error').lower()}): set TMPDIR to a directory of a "
                "disk with more room"
            ) from None
        self.held = 0

    def _placed(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yields parts of buckets, each with its place in the file."""
        while self._pieces:
            bucket, pieces = self._pieces.popitem()
            part: list[bytes] = []
            size = _TAG_BYTES
            for left, piece in enumerate(pieces, 1 - len(pieces)):
                part.append(piece)
                size += _LENGTH_BYTES + len(piece)
                if size >= _SEGMENT_BYTES or left == 0:
                    start, self._end = self._end, self._end + size
                    self._segments[bucket].append(range(start, self._end))
                    yield start, part
                    part, size = [], _TAG_BYTES

    def _write(self, placed: tuple[int, list[bytes]]) -> None:
        place, pieces = placed
        lengths = (len(piece).to_bytes(_LENGTH_BYTES, "little") for piece in pieces)
        plain = b"".join(part for pair in zip(lengths, pieces, strict=True) for part in pair)
        data = memoryview(self._cipher.encrypt(_nonce(place), plain, None))
        assert self._file is not None
        while data:
            written = os.pwrite(self._file.fileno(), data, place)
            place, data = place + written, data[written:]

    def read(self, segment: range) -> Iterator[bytes]:
        """Yields the pieces of a segment. Raises SpillError if they are not what was written."""
        assert self._file is not None
        try:
            data = os.pread(self._file.fileno(), len(segment), segment.start)
            plain = self._cipher.decrypt(_nonce(segment.start), data, None)
        except (OSError, InvalidTag):
            raise SpillError(
                f"what was shuffled to {self._directory} cannot be read again: check that disk"
            ) from None
        start = 0
        while start < len(plain):
            first = start + _LENGTH_BYTES
            start = first + int.from_bytes(plain[start:first], "little")
            yield plain[first:start]


class _Pieces(Iterable[bytes]):
    """The pieces of a bucket, on disk and in memory, in the order in which they came."""

    def __init__(self, buckets: Buckets, segments: list[range], pieces: list[bytes]):
        self._buckets, self._segments, self._pieces = buckets, segments, pieces

    def __iter__(self) -> Iterator[bytes]:
        for segment in self._segments:
            yield from self._buckets.read(segment)
        yield from self._pieces


def _nonce(place: int) -> bytes:
    return place.to_bytes(_NONCE_BYTES, "little")


def _default_directory() -> str:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
