"""Reducing tables by hash: the one shuffle that every transform is made of.

Tables are cut into buckets by a hash of their rows and travel as (bucket, Arrow IPC bytes). All
rows that must meet are in one bucket, where they are compared by their true values: the hash
routes, it decides nothing.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms.columnar.columns import single, sorted_by, value_types
from dp_transforms.columnar.hashing import Hashes, hash_rows, prf
from dp_transforms.columnar.scattering import Reduce, Route, gather, scatter
from dp_transforms.runtime import threads
from dp_transforms.runtime.threads import thread_pool

DEFAULT_BUCKETS = 64
_TYPES = -1
MAX_BUCKETS = 1 << 16
MAX_HELD_BYTES = 32 << 20
"""About how much of a bucket a thread holds at a time; a larger one is gone through in parts.

With the columns of intermediate results, a thread needs up to twelve times this. So the memory of a
worker depends on its threads, and not on how many records a user or a partition has, except where
all distinct partitions of one user are needed at once: for a ``max_partitions_per_user`` as large
as that, and in selection by several rounds.
"""


def num_buckets_for(rows: int) -> int:
    """A number of buckets for about this many rows: each is a few tables as large as one batch.

    >>> num_buckets_for(1_000), num_buckets_for(20_000_000), num_buckets_for(10**12)
    (16, 33, 4096)
    """
    return min(max(rows // 600_000, 16), 4096)


def hash_columns(table: pa.Table, names: tuple[str, ...], key: bytes) -> Hashes:
    """A route (see ``columnar.scattering``): the hash of one or more columns of a row."""
    hashes = _hash_column(single(table[names[0]]), key)
    for name in names[1:]:
        hashes = prf(key, hashes, _hash_column(single(table[name]), key))
    return hashes


def _hash_column(array: pa.Array, key: bytes) -> Hashes:
    if pa.types.is_dictionary(array.type):
        return hash_rows(array.dictionary, key)[array.indices.to_numpy()]
    return hash_rows(array, key)


def _cut(
    table: pa.Table, route: Route, num_buckets: int, reduce: Reduce
) -> Iterator[tuple[int, bytes]]:
    yield _TYPES, ", ".join(map(str, value_types(table))).encode()
    yield from scatter(table, route, num_buckets, reduce)


class ReduceByHash(beam.PTransform):
    """Brings rows together by hash and reduces them: plain tables in, reduced tables out.

    Each output table covers its hashes alone: no other has rows of the same. The types of all
    tables meet as well, since a value of another type would not meet its equals.

    Args:
      reduce: an idempotent, mergeable function of tables (see ``columnar.scattering``).
      names: the columns whose values send a row to its bucket.
      key: keys the hash; from ``JobSecret.key``.
      num_buckets: how many buckets; the default suits some ten million rows.

    Raises:
      ValueError: num_buckets is out of range.
      TypeError, at run time: two tables have different types in the same column.
    """

    def __init__(
        self, reduce: Reduce, names: tuple[str, ...], key: bytes, num_buckets: int | None = None
    ):
        super().__init__()
        self._reduce = reduce
        self._route: Route = functools.partial(hash_columns, names=names, key=key)
        self._num_buckets = DEFAULT_BUCKETS if num_buckets is None else num_buckets
        if not 1 <= self._num_buckets <= MAX_BUCKETS:
            raise ValueError(
                f"num_buckets must be between 1 and {MAX_BUCKETS}, got {self._num_buckets}"
            )

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        cut = functools.partial(
            _cut, route=self._route, num_buckets=self._num_buckets, reduce=self._reduce
        )
        return (
            tables
            | "Scatter" >> beam.ParDo(OnThreads(cut)).with_output_types(tuple[int, bytes])
            | "Group" >> beam.GroupByKey()
            | "Reduce" >> beam.ParDo(_Gather(self._route, self._reduce)).with_output_types(pa.Table)
        )


class InOrder(beam.PTransform):
    """Puts rows into the order of a column, on one worker: plain tables in, sorted tables out.

    In whatever order rows came, and in however many tables, they leave in the same. So the order of
    a release is a function of what is released.

    Args:
      name: the column. No two rows have the same value.
      key: keys the hash by which more rows than fit in a table are divided into several.
    """

    def __init__(self, name: str, key: bytes):
        super().__init__()
        self._name = name
        self._key = key

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        in_order = functools.partial(sorted_by, name=self._name)
        return tables | "Sort" >> ReduceByHash(in_order, (self._name,), self._key, num_buckets=1)


class OnThreads(beam.DoFn):
    """Applies a kernel to each element on a few threads: Arrow and numpy run without the GIL.

    A result may come out with a later element of its bundle, or at the bundle's end.

    Args:
      kernel: maps an element to any number of results.
    """

    def __init__(self, kernel: Callable[[Any], Iterable[Any]]):
        self._kernel = kernel

    def start_bundle(self) -> None:
        self._running: collections.deque[Future[list[Any]]] = collections.deque()

    def process(self, element: Any) -> Iterator[Any]:
        yield from self.submit(self._kernel, element)

    def submit(self, kernel: Callable[[Any], Iterable[Any]], element: Any) -> Iterator[Any]:
        """Starts the kernel, and yields results once enough others are running."""
        self._running.append(thread_pool().submit(lambda: list(kernel(element))))
        while len(self._running) > threads.THREADS:
            yield from self._running.popleft().result()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._running:
            for result in self._running.popleft().result():
                yield in_global_window(result)


def in_global_window(result: Any) -> WindowedValue:
    """What ``finish_bundle`` yields a result as."""
    return WindowedValue(result, GlobalWindow().max_timestamp(), (GlobalWindow(),))


def _check_types(found: set[str]) -> None:
    if len(found) > 1:
        raise TypeError(
            f"records differ in type ({' and '.join(sorted(found))}): give all users one type, and "
            "all partitions one type"
        )


class _Gather(OnThreads):
    def __init__(self, route: Route, reduce: Reduce):
        super().__init__(
            functools.partial(gather, route=route, reduce=reduce, max_bytes=MAX_HELD_BYTES)
        )

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[pa.Table]:
        bucket, pieces = element
        if bucket == _TYPES:
            _check_types({piece.decode() for piece in pieces})
            return
        held, size = [], 0
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size > MAX_HELD_BYTES:
                break
        else:
            yield from self.submit(self._kernel, held)
            return
        del held
        # Too large to hold. The runner may fetch it in parts, in this thread alone.
        yield from self._kernel(pieces)
