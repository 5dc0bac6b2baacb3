"""Splits tables into buckets by hash, packs the pieces, and brings each bucket together again.

A packed table is its schema and all buffers, one after the other, by default compressed with zstd.
Codes and lengths take as few bytes as the largest one needs. Strings and binary are stored as
lengths and bytes, since offsets hardly compress: records take about a quarter of the space of
Arrow's own columns. Pickling a slice of a table would serialise the whole table, and for a thousand
rows Arrow's IPC streams take as long as everything else.
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
"""An idempotent, mergeable function, such as ``distinct_pairs``."""

DEFAULT_BUCKETS = 64
MAX_BUCKETS = 1 << 16
_FEWEST = 16
_MANY_BUCKETS = 192
_BUCKET_ROWS = 600_000
MAX_HELD_BYTES = 32 << 20
"""A thread holds about this much of a bucket at a time, and reads a larger bucket in parts.

With intermediate results, a thread needs up to twelve times this. So a worker's memory depends on
its threads, and on a user's records only if all distinct partitions of the user are needed at once:
for a ``max_partitions_per_user`` as large as their number, and in selection by several rounds.
"""

# A gather of this many rows stays near the cache.
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
    """A route hashes rows, and reduces the rows that meet in one place.

    Attributes:
      names: the columns whose values are hashed. Rows that must meet have equal hashes.
      key: 32 secret bytes.
      reduce: applied by the receiver, and by a sender if it saves enough rows.
    """

    names: tuple[str, ...]
    key: bytes
    reduce: Reduce

    def __call__(self, table: pa.Table) -> Hashes:
        return self.by_row(table, self.hashes(table))

    def hashes(self, table: pa.Table) -> Hashes:
        """Returns the hash of each row, or of each value of a column if rows are its codes."""
        if self.is_coded(table):
            return hash_rows(single(table[self.names[0]]).dictionary, self.key)
        first, *others = (hash_rows(single(table[name]), self.key) for name in self.names)
        return functools.reduce(functools.partial(prf, self.key), others, first)

    def by_row(self, table: pa.Table, results: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Maps results for the entries of ``hashes`` to rows."""
        if not self.is_coded(table):
            return results
        of_rows: npt.NDArray[Any] = results[to_numpy(single(table[self.names[0]]).indices)]
        return of_rows

    def is_coded(self, table: pa.Table) -> bool:
        """Tells whether rows are codes of values, so that each value is hashed only once."""
        return len(self.names) == 1 and pa.types.is_dictionary(table[self.names[0]].type)

    def part(self, table: pa.Table, hashes: Hashes, residue: int, bits: int) -> pa.Table:
        """Returns the rows whose hash ends in these bits; buckets are determined by its upper
        half."""
        mask = np.uint64((1 << bits) - 1)
        rows = np.flatnonzero(self.by_row(table, hashes & mask == np.uint64(residue)))
        return compacted(_taken(table, rows))


class Routed:
    """Prepares rows to be cut into buckets. If reducing a sample of them leaves at most half, all
    rows are reduced first.

    Args:
      table: plain columns, or codes (see ``columns``); fewer than 2**31 rows.
      route: determines the hashes of rows.
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
        """Yields a packed piece for each bucket with rows.

        A piece far larger than the others (a hot user or partition) is reduced.

        Args:
          num_buckets: between 1 and 2**16.
          compress: see ``pack``.
        """
        table = self.table
        if not table.num_rows:
            return
        all_buckets = self._route.by_row(table, buckets_of(self._hashes, num_buckets))
        codes = pa.table({name: _codes(single(table[name])) for name in table.column_names})
        # Where all are codes, they are small enough to be near the cache.
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
    """Replaces codes in a table by dictionary columns with the values of another."""
    columns = {}
    for name in table.column_names:
        column = single(codes[name])
        if pa.types.is_dictionary(table[name].type):
            values = single(table[name]).dictionary
            column = pa.DictionaryArray.from_arrays(column, values, safe=False)
        columns[name] = column
    return pa.table(columns)


def _shrinks(table: pa.Table, hashes: Hashes, route: Route) -> bool:
    """Tells whether reducing halves a table, judging by the rows of some of the hashes."""
    if table.num_rows < _SAMPLE_ROWS // 4:
        return False
    bits = (table.num_rows // _SAMPLE_ROWS).bit_length()
    sample = table.slice(0, 0)
    while sample.num_rows < _SAMPLE_ROWS // 4:  # a larger part if few rows have distinct hashes
        bits = max(0, bits - 1)
        sample = route.part(table, hashes, 0, bits)
    return bool(route.reduce(sample).num_rows <= _WORTH * sample.num_rows)


def _taken(table: pa.Table, rows: IntArray) -> pa.Table:
    indices = to_arrow(rows)
    return pa.table({name: single(table[name]).take(indices) for name in table.column_names})


def _reduced(piece: pa.Table, reduce: Reduce) -> pa.Table:
    if piece.num_rows > _SORTED_ROWS:
        # In parts first: reducing a large piece takes many times its own memory.
        starts = range(0, piece.num_rows, _SORTED_ROWS)
        piece = concat([reduce(piece.slice(start, _SORTED_ROWS)) for start in starts])
    return compacted(reduce(piece))


def gather(pieces: Iterable[bytes], route: Route, max_bytes: int) -> Iterator[pa.Table]:
    """Reduces all pieces of a bucket while holding only a limited part of them.

    A bucket that stays larger than the limit after reducing is read several times, each time for a
    part of the hashes. If most rows have one hash, more is held: they must be reduced together.

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
                # The other half of what is held here has its own turn later.
                parts.append((residue | 1 << bits, bits + 1))
                bits += 1
                held = [part_of(held[0])]
            size = held[0].nbytes
            # As much again is held before the next reduction: else reducing takes quadratic time.
            limit = max(max_bytes, 2 * size)
        if any(table.num_rows for table in held):
            yield route.reduce(concat(held))


def _has_crowded_hash(table: pa.Table, route: Route) -> bool:
    """Tells whether about half of the rows or more have the same hash."""
    step = max(1, table.num_rows // _SAMPLE_ROWS)
    sample = route(table.take(to_arrow(np.arange(0, table.num_rows, step))))
    return 2 * int(np.unique(sample, return_counts=True)[1].max()) >= len(sample)


def num_buckets_for(rows: int) -> int:
    """Returns a number of buckets for about this many rows, so that a bucket is as large as a few
    batches.

    >>> num_buckets_for(1_000), num_buckets_for(20_000_000), num_buckets_for(10**12)
    (16, 33, 4096)
    """
    return min(max(rows // _BUCKET_ROWS, _FEWEST), 4096)


def buckets_by_size(num_buckets: int, rows: int, size: int, most_held: int) -> tuple[int, int]:
    """Lowers the result of ``num_buckets_for`` where the rows' size in bytes allows it.

    Returns the number of buckets and how many bytes of a bucket a thread should hold: twice a
    bucket. Each batch has a piece for each bucket, and each piece its dictionaries, so larger
    buckets replace very many small ones if a thread may hold more than MAX_HELD_BYTES
    (``most_held``).

    >>> buckets_by_size(160, rows=1_000, size=12_000, most_held=0)
    (68, 33554432)
    >>> buckets_by_size(800, rows=1_000, size=12_000, most_held=1 << 30)[0]
    192
    """
    total = num_buckets * _BUCKET_ROWS * size // max(rows, 1)
    held = max(MAX_HELD_BYTES, min(2 * total // _MANY_BUCKETS, most_held))
    return min(num_buckets, max(2 * total // held, _FEWEST)), held


def pack(table: pa.Table, compress: bool = True) -> bytes:
    """Returns a table of plain columns or codes (see ``columns``) as bytes. Compression to one or
    two thirds of the size takes about ten times as long."""
    schema = np.frombuffer(table.schema.serialize(), np.uint8)
    buffers = [schema, *(part for column in table.columns for part in _buffers(single(column)))]
    sizes = [(buffer.itemsize, len(buffer)) for buffer in buffers]
    header = np.array([len(buffers), *itertools.chain.from_iterable(sizes)], _NUMBER)
    parts = [header.tobytes()]
    for buffer in buffers:
        parts += [buffer.tobytes(), bytes(-buffer.nbytes % _ALIGNMENT)]
    # All at once: preparing zstd for a small buffer takes longer than compressing it.
    return compressed(b"".join(parts)) if compress else b"".join([_NOT_COMPRESSED, *parts])


def unpack(data: bytes) -> pa.Table:
    """Returns the packed table."""
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
    """Compresses a stream, and puts its length before it."""
    size = len(stream).to_bytes(_SIZE_BYTES, "little")
    content: bytes = pa.Codec("zstd").compress(stream, asbytes=True)
    return size + content


def decompressed(data: bytes) -> pa.Buffer:
    size = int.from_bytes(data[:_SIZE_BYTES], "little")
    return pa.Codec("zstd").decompress(memoryview(data)[_SIZE_BYTES:], size)


def _buffers(array: pa.Array) -> Iterator[npt.NDArray[np.integer]]:
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
