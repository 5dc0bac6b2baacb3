"""Splits tables into buckets by hash, packs the pieces, and brings each bucket together again.

A packed table is its schema and all buffers, one after the other, by default compressed with zstd.
Codes and lengths take as few bytes as the largest one needs. Strings and binary are stored as
lengths and bytes, since offsets hardly compress. So records take about a quarter of the space of
Arrow's own columns. Tables are not pickled, since a pickled slice has the whole table. They are not
Arrow's IPC streams, since for a thousand rows these take as long as all other work.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_transforms.columnar.columns import compacted, concat, single
from dp_transforms.columnar.hashing import (
    Hashes,
    hash_rows,
    prf,
    to_arrow,
    to_numpy,
)
from dp_transforms.mechanisms.arrays import IntArray

Reduce = Callable[[pa.Table], pa.Table]
"""An idempotent, mergeable function of tables, such as ``distinct_pairs``: the result for tables
together is that for their results together."""

DEFAULT_BUCKETS = 64
MAX_BUCKETS = 1 << 16
_FEWEST = 16
_MANY_BUCKETS = 192
_BUCKET_ROWS = 600_000
MAX_HELD_BYTES = 32 << 20
"""A thread holds about this much of a bucket at a time, and reads a larger bucket in parts.

With intermediate results, a thread needs up to twelve times this. So a worker's memory depends on
the number of its threads. It depends on the number of a user's records only if all distinct
partitions of the user are needed at once. They are if ``max_partitions_per_user`` is not less than
their number, and in selections by several rounds.
"""

# Taking rows in another order stays near the cache if there are at most this many.
_SORTED_ROWS = 1 << 18
_SAMPLE_ROWS = 1 << 12
_WORTH = 0.5
_CROWD = 4
_PART_BITS = 16
_SIZE_BYTES = 8
_NOT_COMPRESSED = bytes(_SIZE_BYTES)
# Buffers begin at multiples of this, as Arrow recommends.
_ALIGNMENT = 8
_NUMBER = np.dtype("<i8")


def buckets_of(hashes: Hashes, num_buckets: int) -> npt.NDArray[np.uint16]:
    """Returns the bucket in [0, num_buckets) of each hash, by its upper half."""
    buckets: npt.NDArray[np.uint64] = hashes >> np.uint64(32)
    buckets = buckets * np.uint64(num_buckets) >> np.uint64(32)
    return buckets.astype(np.uint16)


@dataclasses.dataclass(frozen=True)
class Route:
    """How rows are hashed, and how the rows of a bucket are reduced.

    Attributes:
      names: the columns whose values are hashed. Rows that must be reduced together are equal in
        these columns, and so have equal hashes.
      key: 32 secret bytes.
      reduce: the function that the receiver applies, and a sender too if it saves enough rows.
    """

    names: tuple[str, ...]
    key: bytes
    reduce: Reduce

    def __call__(self, table: pa.Table) -> Hashes:
        return self.by_row(table, self.hashes(table))

    def hashes(self, table: pa.Table) -> Hashes:
        """Returns the hash of each row; or, if rows are codes, of each value in the dictionary."""
        if self.is_coded(table):
            return hash_rows(single(table[self.names[0]]).dictionary, self.key)
        first, *others = (hash_rows(single(table[name]), self.key) for name in self.names)
        return functools.reduce(functools.partial(prf, self.key), others, first)

    def by_row(self, table: pa.Table, results: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns a result for each row, given one for each entry of ``hashes``."""
        if not self.is_coded(table):
            return results
        of_rows: npt.NDArray[Any] = results[to_numpy(single(table[self.names[0]]).indices)]
        return of_rows

    def is_coded(self, table: pa.Table) -> bool:
        """Returns whether rows are codes of values, so that each value is hashed only once."""
        return len(self.names) == 1 and pa.types.is_dictionary(table[self.names[0]].type)

    def part(self, table: pa.Table, hashes: Hashes, residue: int, bits: int) -> pa.Table:
        """Returns the rows whose hash ends in the given number of bits with the value ``residue``.
        The bucket of a row depends on the upper half of its hash instead."""
        mask = np.uint64((1 << bits) - 1)
        rows = np.flatnonzero(self.by_row(table, hashes & mask == np.uint64(residue)))
        return compacted(_taken(table, rows))


class Routed:
    """Rows that are ready to be cut into buckets.

    The rows are reduced first if reducing a sample of them leaves at most half.

    Args:
      table: plain columns, or codes (see ``columns``); fewer than 2**31 rows.
      route: how rows are hashed and reduced.
    """

    def __init__(self, table: pa.Table, route: Route):
        table = pa.table({name: single(table[name]) for name in table.column_names})
        hashes = route.hashes(table)
        self._is_reduced = _shrinks(table, hashes, route)
        if self._is_reduced:
            table = compacted(route.reduce(table))
            hashes = route.hashes(table)
        self.table, self._hashes, self._route = table, hashes, route

    def cut(self, num_buckets: int, compress: bool = True) -> Iterator[tuple[int, bytes]]:
        """Yields (bucket, packed table) for each bucket with rows.

        If a table is far larger than the others, as one user or partition has many rows, it is
        reduced.

        Args:
          num_buckets: between 1 and 2**16.
          compress: see ``pack``.
        """
        table = self.table
        if not table.num_rows:
            return
        all_buckets = self._route.by_row(table, buckets_of(self._hashes, num_buckets))
        codes = pa.table({name: _codes(single(table[name])) for name in table.column_names})
        # If all columns are codes, all rows are small enough to be near the cache.
        is_coded = all(pa.types.is_dictionary(kind) for kind in table.schema.types)
        rows_at_once = table.num_rows if is_coded else _SORTED_ROWS
        slices: dict[int, list[pa.Table]] = {}
        for start in range(0, table.num_rows, rows_at_once):
            buckets = all_buckets[start : start + rows_at_once]
            part = _taken(
                codes.slice(start, rows_at_once),
                np.argsort(buckets, kind="stable"),  # a radix sort on 16 bits
            )
            sizes = np.bincount(buckets)
            ends = np.cumsum(sizes)
            for bucket in np.flatnonzero(sizes).tolist():
                piece = part.slice(ends[bucket] - sizes[bucket], sizes[bucket])
                slices.setdefault(bucket, []).append(piece)
        crowd = min(_CROWD * table.num_rows // num_buckets, table.num_rows // 2)
        crowd = max(_SAMPLE_ROWS, crowd)
        for bucket, parts in slices.items():
            piece = compacted(_with_values(pa.concat_tables(parts), table))
            if piece.num_rows > crowd and not self._is_reduced:
                piece = _reduced(piece, self._route.reduce)
            yield bucket, pack(piece, compress)


def _codes(array: pa.Array) -> pa.Array:
    return array.indices if pa.types.is_dictionary(array.type) else array


def _with_values(codes: pa.Table, table: pa.Table) -> pa.Table:
    """Returns the table ``codes`` with dictionary columns in place of bare codes. Their values are
    those of ``table``."""
    columns = {}
    for name in table.column_names:
        column = single(codes[name])
        if pa.types.is_dictionary(table[name].type):
            values = single(table[name]).dictionary
            column = pa.DictionaryArray.from_arrays(column, values, safe=False)
        columns[name] = column
    return pa.table(columns)


def _shrinks(table: pa.Table, hashes: Hashes, route: Route) -> bool:
    """Returns whether reducing leaves at most half of a table, judged by all rows of some of the
    hashes."""
    if table.num_rows < _SAMPLE_ROWS // 4:
        return False
    bits = (table.num_rows // _SAMPLE_ROWS).bit_length()
    sample = table.slice(0, 0)
    # With few distinct hashes, a small share of them may have too few rows: then more are taken.
    while sample.num_rows < _SAMPLE_ROWS // 4:
        bits = max(0, bits - 1)
        sample = route.part(table, hashes, 0, bits)
    return bool(route.reduce(sample).num_rows <= _WORTH * sample.num_rows)


def _taken(table: pa.Table, rows: IntArray) -> pa.Table:
    indices = to_arrow(rows)
    return pa.table({name: single(table[name]).take(indices) for name in table.column_names})


def _reduced(piece: pa.Table, reduce: Reduce) -> pa.Table:
    if piece.num_rows > _SORTED_ROWS:
        # Parts are reduced first, since reducing a large piece takes many times its own memory.
        starts = range(0, piece.num_rows, _SORTED_ROWS)
        piece = concat([reduce(piece.slice(start, _SORTED_ROWS)) for start in starts])
    return compacted(reduce(piece))


def gather(pieces: Iterable[bytes], route: Route, max_bytes: int) -> Iterator[pa.Table]:
    """Reduces all pieces of a bucket, while holding only a limited part of them.

    If a bucket stays larger than the limit after reducing, it is read several times, each time for
    a part of the hashes. The rows of one hash must be reduced together, so more is held if they are
    most of the rows.

    Args:
      pieces: packed tables; can be iterated over more than once.
      route: the route that they were cut by.
      max_bytes: about how much to hold, unless the rows of a single hash are more.

    Yields:
      Reduced tables that share no hash.
    """

    def part_of(table: pa.Table) -> pa.Table:
        return route.part(table, route.hashes(table), residue, bits) if bits else table

    parts = [(0, 0)]
    while parts:
        residue, bits = parts.pop()
        held: list[pa.Table] = []
        size, limit = 0, max_bytes
        for piece in pieces:
            table = part_of(unpack(piece))
            held.append(table)
            size += table.nbytes
            if size <= limit:
                continue
            held = [compacted(route.reduce(concat(held)))]
            while (
                held[0].nbytes > max_bytes // 2
                and bits < _PART_BITS
                and not _has_crowded_hash(held[0], route)
            ):
                # Half of the hashes are put off: another reading of all pieces is for them.
                parts.append((residue | 1 << bits, bits + 1))
                bits += 1
                held = [part_of(held[0])]
            size = held[0].nbytes
            # The next reduction waits until as much again is held. Otherwise reducing would take
            # quadratic time.
            limit = max(max_bytes, 2 * size)
        if any(table.num_rows for table in held):
            yield route.reduce(concat(held))


def _has_crowded_hash(table: pa.Table, route: Route) -> bool:
    """Returns whether about half of the rows or more have the same hash, by a sample."""
    step = max(1, table.num_rows // _SAMPLE_ROWS)
    sample = route(table.take(to_arrow(np.arange(0, table.num_rows, step))))
    return 2 * int(np.unique(sample, return_counts=True)[1].max()) >= len(sample)


def num_buckets_for(rows: int) -> int:
    """Returns the number of buckets for about this many rows: a bucket is to have as many as a few
    batches.

    >>> num_buckets_for(1_000), num_buckets_for(20_000_000), num_buckets_for(10**12)
    (16, 33, 4096)
    """
    return min(max(rows // _BUCKET_ROWS, _FEWEST), 4096)


def buckets_by_size(num_buckets: int, rows: int, size: int, most_held: int) -> tuple[int, int]:
    """Returns a number of buckets, and how many bytes of a bucket a thread should hold.

    The number is that of ``num_buckets_for``, or lower if the size of rows allows it. A thread
    should hold twice a bucket. Few large buckets are better than very many small ones, since each
    batch has a piece for each bucket, and each piece its own dictionaries.

    Args:
      num_buckets: the result of ``num_buckets_for``.
      rows: a number of rows.
      size: the size of these rows in bytes.
      most_held: the most bytes that a thread may hold, if they are more than MAX_HELD_BYTES.

    >>> buckets_by_size(160, rows=1_000, size=12_000, most_held=0)
    (68, 33554432)
    >>> buckets_by_size(800, rows=1_000, size=12_000, most_held=1 << 30)[0]
    192
    """
    total = num_buckets * _BUCKET_ROWS * size // max(rows, 1)
    held = max(MAX_HELD_BYTES, min(2 * total // _MANY_BUCKETS, most_held))
    return min(num_buckets, max(2 * total // held, _FEWEST)), held


def pack(table: pa.Table, compress: bool = True) -> bytes:
    """Returns the bytes from which ``unpack`` makes the table again.

    Args:
      table: its columns are plain or codes, see ``columns``.
      compress: whether to compress by zstd. That leaves one or two thirds of the size, and takes
        about ten times as long.
    """
    schema = np.frombuffer(table.schema.serialize(), np.uint8)
    buffers = [schema, *(part for column in table.columns for part in _buffers(single(column)))]
    sizes = [(buffer.itemsize, len(buffer)) for buffer in buffers]
    header = np.array([len(buffers), *itertools.chain.from_iterable(sizes)], _NUMBER)
    parts = [header.tobytes()]
    for buffer in buffers:
        parts += [buffer.tobytes(), bytes(-buffer.nbytes % _ALIGNMENT)]
    # All buffers are compressed together: for a small one, preparing zstd takes longer than its
    # compression.
    return compressed(b"".join(parts)) if compress else b"".join([_NOT_COMPRESSED, *parts])


def unpack(data: bytes) -> pa.Table:
    """Returns the table that ``pack`` was given."""
    stream = memoryview(data)[_SIZE_BYTES:]
    if not data.startswith(_NOT_COMPRESSED):
        stream = memoryview(decompressed(data))
    many = int(np.frombuffer(stream, _NUMBER, 1)[0])
    header = np.frombuffer(stream, _NUMBER, 1 + 2 * many)
    place, buffers = header.nbytes, []
    for width, length in header[1:].reshape(many, 2).tolist():
        kind = _NUMBER if width == _NUMBER.itemsize else np.dtype(f"<u{width}")
        buffers.append(np.frombuffer(stream, kind, length, place))
        place += width * length + -width * length % _ALIGNMENT
    rest = iter(buffers)
    schema = pa.ipc.read_schema(pa.py_buffer(next(rest)))
    return pa.table([_column(kind, rest) for kind in schema.types], schema=schema)


def compressed(stream: bytes) -> bytes:
    """Returns the length of a stream, followed by the stream compressed with zstd."""
    size = len(stream).to_bytes(_SIZE_BYTES, "little")
    content: bytes = pa.Codec("zstd").compress(stream, asbytes=True)
    return size + content


def decompressed(data: bytes) -> pa.Buffer:
    size = int.from_bytes(data[:_SIZE_BYTES], "little")
    return pa.Codec("zstd").decompress(memoryview(data)[_SIZE_BYTES:], size)


def _buffers(array: pa.Array) -> Iterator[npt.NDArray[np.integer]]:
    """Yields the arrays of integers that hold a column, for ``_column``."""
    if pa.types.is_dictionary(array.type):
        narrow = np.min_scalar_type(max(len(array.dictionary) - 1, 0))
        yield to_numpy(array.indices).astype(narrow)
        yield from _buffers(array.dictionary)
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _buffers(field)
    elif pa.types.is_integer(array.type):
        yield to_numpy(array)
    else:
        _, offset_buffer, data = array.buffers()
        offsets = np.zeros(1, np.int32)
        if len(array):
            offsets = np.frombuffer(offset_buffer, np.int32)
            offsets = offsets[array.offset : array.offset + len(array) + 1]
        lengths = np.diff(offsets)
        yield lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))))
        yield np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]


def _column(kind: pa.DataType, buffers: Iterator[npt.NDArray[np.integer]]) -> pa.Array:
    """Returns the column of a type that the next ``_buffers`` hold."""
    if pa.types.is_dictionary(kind):
        codes = to_arrow(next(buffers).astype(np.int32))
        return pa.DictionaryArray.from_arrays(codes, _column(kind.value_type, buffers), safe=False)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [_column(field.type, buffers) for field in kind], fields=list(kind)
        )
    values = next(buffers)
    if pa.types.is_integer(kind):
        return to_arrow(values)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, out=offsets[1:])
    data = pa.py_buffer(next(buffers))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), data])
