"""Shuffles tables in one process, without Beam, as ``ReduceByHash`` does on workers.

A shuffled record is packed into at most about twenty bytes. Records beyond a share of the memory go
to disk, compressed to about half. They are records of users, so nothing readable may stay there:

* The file has no name, and mode 600. Nobody else can open it. The system frees it as soon as the
  process ends, even by an error or SIGKILL, so there is never anything to remove later.
* It is encrypted by AES-256-GCM. The key comes from the operating system, is for this file alone,
  and is only in the memory of this process. So blocks or snapshots that a medium keeps of a freed
  file show no more than lengths. The nonce of a segment is its position in the file, and each
  position is written once.
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
from typing import IO, NamedTuple, TypeVar

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

# One shuffle, or one ``SpillableTables``, keeps records in 1 / 16 of the memory. Up to three of
# them exist at a time.
_HELD_SHARE = 16
# All threads together hold buckets in 1 / 32 of the memory. Working on a bucket takes up to twelve
# times as much as holding it.
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

    Small tables are joined to batches, and each batch is reduced. Reduced batches are joined again,
    and then cut into a piece for each bucket. When all rows are in buckets, the pieces of each
    bucket are put together and reduced.

    Args:
      tables: any Arrow tables.
      names: their columns. The first decides to which bucket a row goes.
      reduce, key: see ``ReduceByHash``.
      num_buckets: the most parts that rows are split into.

    Raises:
      ValueError, TypeError: there are nulls, or several types in one column.
      SpillError: there are more rows than memory, and they do not fit on the disk either.
    """
    route = Route(names[:1], key, reduce)
    batches = _ReducedBatches(tables, names, route)
    # Batches are joined after they were reduced, since each makes a piece for each bucket.
    joint = _batches(batches, lambda batch: batch.table)
    first = list(itertools.islice(joint, 1))
    memory = memory_limit()
    most_held = memory // (_THREADS_SHARE * THREADS)
    # The number of buckets follows from the rows that were read until now.
    num_buckets, held = buckets_by_size(num_buckets, batches.rows, batches.size, most_held)

    def pieces_of(to_join: list[Routed]) -> list[tuple[int, bytes]]:
        batch = to_join[0]
        if len(to_join) > 1:
            batch = Routed(concat([batch.table for batch in to_join]), route)
        return list(batch.cut(num_buckets, compress=False))

    def gathered(pieces: Iterable[bytes]) -> list[pa.Table]:
        return list(gather(pieces, route, held))

    with Buckets(memory // _HELD_SHARE) as buckets:
        for pieces in map_ahead(pieces_of, itertools.chain(first, joint)):
            buckets.add(pieces)
        for shuffled in map_ahead(gathered, buckets.take()):
            yield from shuffled


class _ReducedBatch(NamedTuple):
    """A batch of rows after it was reduced.

    Attributes:
      types: the types of its columns.
      rows, size: the rows and the bytes that it had before.
      routed: the rows, ready to be cut into buckets.
    """

    types: tuple[str, str]
    rows: int
    size: int
    routed: Routed


class _ReducedBatches(Iterable[Routed]):
    """Joins tables to batches and reduces each batch. It is iterated once; a TypeError says that
    batches differ in the types of their columns.

    Attributes:
      rows, size: the rows and the bytes of the tables that were read until now.
    """

    def __init__(self, tables: Iterable[pa.Table], names: tuple[str, ...], route: Route):
        self._tables, self._names, self._route = tables, names, route
        self.rows = self.size = 0

    def __iter__(self) -> Iterator[Routed]:
        types: set[tuple[str, str]] = set()
        for batch in map_ahead(self._reduced, _batches(self._tables)):
            types.add(batch.types)
            check_alike(types)
            self.rows += batch.rows
            self.size += batch.size
            yield batch.routed

    def _reduced(self, tables: list[pa.Table]) -> _ReducedBatch:
        table = coded_table(tables, self._names)
        size = sum(map(size_of, tables))
        return _ReducedBatch(types_of(table), len(table), size, Routed(table, self._route))


class SpillableTables(Iterable[pa.Table], contextlib.AbstractContextManager["SpillableTables"]):
    """A context manager that holds tables for several passes. It holds them in memory, or all of
    them on disk if they exceed a share of the memory. Raises a SpillError if they fit in neither.

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
        """Moves the tables in memory to the disk, and adds all remaining tables after them."""
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
    """Raised if records cannot be kept on disk. Its text names the directory and nothing else."""


class Buckets(contextlib.AbstractContextManager["Buckets"]):
    """A context manager that holds pieces by bucket. Only a limited part of them is in memory.

    Args:
      most_bytes: about how many bytes of pieces are held in memory before they go to disk.
      directory: the directory of the file; by default TMPDIR, or /var/tmp, since /tmp may be
        memory.
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
        """Adds pieces, each with its bucket. Raises a SpillError if there is no room for them."""
        for bucket, piece in pieces:
            self._pieces[bucket].append(piece)
            self.held += len(piece)
        if self.held > self._most:
            self._spill()

    def take(self) -> Iterator[Iterable[bytes]]:
        """Yields the pieces of each bucket, which can be read several times. A bucket is dropped
        from this object when its pieces are yielded."""
        for bucket in sorted({*self._pieces, *self._segments}):
            pieces = self._pieces.pop(bucket, [])
            yield _Pieces(self, self._segments.pop(bucket, []), pieces)

    def _spill(self) -> None:
        """Moves all pieces in memory to the disk."""
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
            for piece in pieces:
                part.append(piece)
                size += len(piece)
                if size >= _SEGMENT_BYTES:
                    yield bucket, part
                    part, size = [], 0
            if part:
                yield bucket, part

    def _placed(self, parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yields compressed parts of buckets, each with its place in the file."""
        for bucket, plain in parts:
            start, self._end = self._end, self._end + len(plain) + _TAG_BYTES
            self._segments[bucket].append(range(start, self._end))
            yield start, plain

    def _write(self, placed: tuple[int, bytes]) -> None:
        """Encrypts bytes, and writes them at a place in the file."""
        place, plain = placed
        data = memoryview(self._cipher.encrypt(_nonce(place), plain, None))
        assert self._file is not None
        while data:  # The system may write only a part at once.
            written = os.pwrite(self._file.fileno(), data, place)
            place, data = place + written, data[written:]

    def read(self, segment: range) -> Iterator[bytes]:
        """Yields the pieces of a segment. Raises a SpillError if they are not as they were
        written."""
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
    """The pieces of a bucket, on disk and in memory, in the order in which they were added."""

    def __init__(self, buckets: Buckets, segments: list[range], pieces: list[bytes]):
        self._buckets, self._segments, self._pieces = buckets, segments, pieces

    def __iter__(self) -> Iterator[bytes]:
        for segment in self._segments:
            yield from self._buckets.read(segment)
        yield from self._pieces


def _compressed(part: tuple[int, list[bytes]]) -> tuple[int, bytes]:
    """Joins pieces of a bucket into one segment, in which the length of each piece comes before
    it."""
    bucket, pieces = part
    lengths = (len(piece).to_bytes(_LENGTH_BYTES, "little") for piece in pieces)
    pairs = zip(lengths, pieces, strict=True)
    return bucket, compressed(b"".join(itertools.chain.from_iterable(pairs)))


def _nonce(place: int) -> bytes:
    return place.to_bytes(_NONCE_BYTES, "little")


def _default_directory() -> str:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
