"""Shuffles tables in one process, without Beam, as ``ReduceByHash`` does on workers.

Shuffled records are packed into up to some twenty bytes each. Those beyond a share of the memory go
to disk, compressed to about half. They are records of users, so nothing readable may stay there:

* The file has no name, and mode 600. Nobody else can open it, and the system frees it as soon as
  the process ends, also at an error or by SIGKILL, so no start finds anything to remove.
* It is encrypted by AES-256-GCM under a key of its own from the operating system, which is only in
  this memory. So blocks or snapshots that a medium keeps of a freed file tell no more than lengths.
  A nonce is the position of a segment, which is written once.
* A segment that has changed ends the job, and is never part of a release.

How much is spilled depends on the records, as memory and time of the job do. The result does not
depend on it: the pieces of a bucket are the same, in the same order.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TypeVar

import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dp_transforms.columnar.columns import (
    check_alike,
    coded_table,
    concat,
    is_full,
    size_of,
    types_of,
)
from dp_transforms.columnar.scattering import (
    Reduce,
    Route,
    Routed,
    buckets_by_size,
    compressed,
    decompressed,
    gather,
    pack,
    unpack,
)
from dp_transforms.engines.memory import memory_limit
from dp_transforms.threads import THREADS, map_ahead

# One shuffle, or one ``SpillableTables``, keeps 1 / 16 of the memory in records; up to three exist
# at a time.
_HELD_SHARE = 16
# All threads hold 1 / 32 of the memory in buckets; work on them takes up to twelve times as much.
_THREADS_SHARE = 32
_SEGMENT_BYTES = 4 << 20
_LENGTH_BYTES = 8
_NONCE_BYTES = 12
_TAG_BYTES = 16

T = TypeVar("T")


def reduced(
    tables: Iterable[pa.Table], names: tuple[str, ...], reduce: Reduce, key: bytes, num_buckets: int
) -> Iterator[pa.Table]:
    """Brings rows together by hash and reduces them: see ``ReduceByHash``.

    Args:
      tables: any Arrow tables.
      names: their columns, of which the first sends a row to its bucket.
      reduce, key: see ``ReduceByHash``.
      num_buckets: the most parts that rows are split into.

    Raises:
      ValueError, TypeError: there are nulls, or several types in one column.
      SpillError: rows that are too many for the memory do not fit on the disk either.
    """
    route = Route(names[:1], key, reduce)
    kinds: set[tuple[str, str]] = set()
    rows = size = 0

    def routed(batch: list[pa.Table]) -> tuple[tuple[str, str], int, int, Routed]:
        table = coded_table(batch, names)
        return types_of(table), len(table), sum(map(size_of, batch)), Routed(table, route)

    def parts() -> Iterator[Routed]:
        nonlocal rows, size
        for kind, new_rows, new_size, part in map_ahead(routed, _batches(tables)):
            kinds.add(kind)
            check_alike(kinds)
            rows, size = rows + new_rows, size + new_size
            yield part

    def pieces_of(some: list[Routed]) -> list[tuple[int, bytes]]:
        part = some[0]
        if len(some) > 1:
            part = Routed(concat([part.table for part in some]), route)
        return list(part.cut(num_buckets, compress=False))

    # Reduced parts are joined, since each part makes a piece for each bucket.
    joint = _batches(parts(), lambda part: part.table)
    first = list(itertools.islice(joint, 1))
    memory = memory_limit()
    most_held = memory // (_THREADS_SHARE * THREADS)
    num_buckets, held = buckets_by_size(num_buckets, rows, size, most_held)

    def gathered(pieces: Iterable[bytes]) -> list[pa.Table]:
        return list(gather(pieces, route, held))

    with Buckets(memory // _HELD_SHARE) as buckets:
        for pieces in map_ahead(pieces_of, itertools.chain(first, joint)):
            buckets.add(pieces)
        for shuffled in map_ahead(gathered, buckets.take()):
            yield from shuffled


class SpillableTables(Iterable[pa.Table], contextlib.AbstractContextManager["SpillableTables"]):
    """A context manager holds tables for several passes, in memory or, if they are more than a
    share of it, all on disk; raises a SpillError if they fit in neither.

    Args:
      tables: of plain columns or codes, see ``pack``.
    """

    def __init__(self, tables: Iterable[pa.Table]):
        self._tables: list[pa.Table] = []
        self._buckets = Buckets(0)
        most, size = memory_limit() // _HELD_SHARE, 0
        remaining = iter(tables)
        for table in remaining:
            self._tables.append(table)
            size += size_of(table)
            if size > most:
                self._spill(remaining)
        self._pieces = list(self._buckets.take())

    def _spill(self, remaining: Iterator[pa.Table]) -> None:
        """Moves the tables in memory to the disk, and all remaining ones behind them."""
        while self._tables:
            self._buckets.add([(0, pack(self._tables.pop(0), compress=False))])
        for table in remaining:
            self._buckets.add([(0, pack(table, compress=False))])

    def __iter__(self) -> Iterator[pa.Table]:
        yield from self._tables
        yield from map(unpack, itertools.chain.from_iterable(self._pieces))

    def __exit__(self, *error: object) -> None:
        self._buckets.__exit__(*error)


def _batches(
    items: Iterable[T], table_of: Callable[[T], pa.Table] = lambda table: table
) -> Iterator[list[T]]:
    """Yields groups of items whose tables together have about the size of one batch."""
    held: list[T] = []
    rows = size = 0
    for item in items:
        table = table_of(item)
        held.append(item)
        rows, size = rows + table.num_rows, size + size_of(table)
        if is_full(rows, size, table):
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held


class SpillError(OSError):
    """Raised if records cannot be kept on disk; the text names only the directory."""


class Buckets(contextlib.AbstractContextManager["Buckets"]):
    """A context manager holds pieces by bucket, a limited part of them in memory.

    Args:
      most_bytes: the approximate bytes of pieces in memory before they go to disk.
      directory: for the file; by default TMPDIR, or /var/tmp, since /tmp may be memory.
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

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Adds pieces, each with its bucket; raises a SpillError without room for them."""
        for bucket, piece in pieces:
            self._pieces[bucket].append(piece)
            self.held += len(piece)
        if self.held > self._most:
            self._spill()

    def take(self) -> Iterator[Iterable[bytes]]:
        """Yields the pieces of each bucket, for several passes, and forgets the bucket."""
        for bucket in sorted({*self._pieces, *self._segments}):
            pieces = self._pieces.pop(bucket, [])
            yield _Pieces(self, self._segments.pop(bucket, []), pieces)

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory)
            parts = map_ahead(_compressed, self._parts())
            for _ in map_ahead(self._write, self._placed(parts)):
                pass
        except OSError as error:
            raise SpillError(
                f"what is shuffled cannot be written to {self._directory} "
                f"({(error.strerror or 'unknown error').lower()}): set TMPDIR to a directory of a "
                "disk with more room"
            ) from None
        self.held = 0

    def _parts(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yields all pieces, with their bucket, in parts of about a segment's size."""
        while self._pieces:
            bucket, pieces = self._pieces.popitem()
            part: list[bytes] = []
            size = 0
            for left, piece in enumerate(pieces, 1 - len(pieces)):
                part.append(piece)
                size += len(piece)
                if size >= _SEGMENT_BYTES or left == 0:
                    yield bucket, part
                    part, size = [], 0

    def _placed(self, parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yields compressed parts of buckets, each with its place in the file."""
        for bucket, plain in parts:
            start, self._end = self._end, self._end + len(plain) + _TAG_BYTES
            self._segments[bucket].append(range(start, self._end))
            yield start, plain

    def _write(self, placed: tuple[int, bytes]) -> None:
        """Writes encrypted bytes at a place in the file; a part of a write may be left over."""
        place, plain = placed
        data = memoryview(self._cipher.encrypt(_nonce(place), plain, None))
        assert self._file is not None
        while data:
            written = os.pwrite(self._file.fileno(), data, place)
            place, data = place + written, data[written:]

    def read(self, segment: range) -> Iterator[bytes]:
        """Yields the pieces of a segment; raises a SpillError if they are not as written."""
        assert self._file is not None
        try:
            data = os.pread(self._file.fileno(), len(segment), segment.start)
            plain = self._cipher.decrypt(_nonce(segment.start), data, None)
        except (OSError, InvalidTag):
            raise SpillError(
                f"what was shuffled to {self._directory} cannot be read again: check that disk"
            ) from None
        part, start = decompressed(plain).to_pybytes(), 0
        while start < len(part):
            first = start + _LENGTH_BYTES
            start = first + int.from_bytes(part[start:first], "little")
            yield part[first:start]


class _Pieces(Iterable[bytes]):
    """Yields the pieces of a bucket, on disk and in memory, in the order in which they came."""

    def __init__(self, buckets: Buckets, segments: list[range], pieces: list[bytes]):
        self._buckets, self._segments, self._pieces = buckets, segments, pieces

    def __iter__(self) -> Iterator[bytes]:
        for segment in self._segments:
            yield from self._buckets.read(segment)
        yield from self._pieces


def _compressed(part: tuple[int, list[bytes]]) -> tuple[int, bytes]:
    """Joins the pieces of a bucket, each behind its length, into one segment."""
    bucket, pieces = part
    lengths = (len(piece).to_bytes(_LENGTH_BYTES, "little") for piece in pieces)
    pairs = zip(lengths, pieces, strict=True)
    return bucket, compressed(b"".join(itertools.chain.from_iterable(pairs)))


def _nonce(place: int) -> bytes:
    return place.to_bytes(_NONCE_BYTES, "little")


def _default_directory() -> str:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
