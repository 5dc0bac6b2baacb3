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
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms import threads
from dp_transforms.columnar.columns import single
from dp_transforms.columnar.hashing import Hashes, hash_rows
from dp_transforms.columnar.scattering import Reduce, Route, gather, scatter
from dp_transforms.threads import thread_pool

DEFAULT_BUCKETS = 64
MAX_BUCKETS = 1 << 16
MAX_HELD_BYTES = 32 << 20
"""About how much of a bucket a thread holds at a time; a larger one is gone through in parts.

With the columns of intermediate results, a thread needs up to twelve times this. So the memory of a
worker depends on its threads, and not on how many records a user or a partition has, except where
all distinct partitions of one user are needed at once: for a ``max_partitions_per_user`` as large
as that, and in selection by several rounds.
"""


def num_buckets_for(rows: int) -> int:
    """A number of buckets for about this many rows: a bucket's columns should fit a cache.

    >>> num_buckets_for(1_000), num_buckets_for(20_000_000), num_buckets_for(10**12)
    (16, 133, 4096)
    """
    return min(max(rows // 150_000, 16), 4096)


def hash_columns(table: pa.Table, names: tuple[str, ...], key: bytes) -> Hashes:
    """A route (see ``columnar.scattering``): the hash of one or more columns of a row."""
    hashes = hash_rows(single(table[names[0]]), key)
    for name in names[1:]:
        hashes *= np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hash_rows(single(table[name]), key)
    return hashes


class ReduceByHash(beam.PTransform):
    """Brings rows together by hash and reduces them: plain tables in, reduced tables out.

    Each output table covers its hashes alone: no other has rows of the same.

    Args:
      reduce: an idempotent, mergeable function of tables (see ``columnar.scattering``).
      names: the columns whose values send a row to its bucket.
      key: keys the hash; from ``JobSecret.key``.
      num_buckets: how many buckets; the default suits some ten million rows.

    Raises:
      ValueError: num_buckets is out of range.
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
            scatter, route=self._route, num_buckets=self._num_buckets, reduce=self._reduce
        )
        return (
            tables
            | "Scatter" >> beam.ParDo(OnThreads(cut)).with_output_types(tuple[int, bytes])
            | "Group" >> beam.GroupByKey()
            | "Reduce" >> beam.ParDo(_Gather(self._route, self._reduce)).with_output_types(pa.Table)
        )


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
                yield WindowedValue(result, GlobalWindow().max_timestamp(), (GlobalWindow(),))


class _Gather(OnThreads):
    def __init__(self, route: Route, reduce: Reduce):
        super().__init__(
            functools.partial(gather, route=route, reduce=reduce, max_bytes=MAX_HELD_BYTES)
        )

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[pa.Table]:
        _, pieces = element
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
