"""Reduces tables by hash: the one shuffle that all transforms use.

Tables are cut into buckets by a hash of their rows, and travel as (bucket, Arrow IPC bytes). All
rows with equal values are in one bucket. There the values themselves are compared, so no result
depends on collisions of the hash.
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

from dp_transforms import threads
from dp_transforms.columnar.columns import check_alike, sorted_by, types_of
from dp_transforms.columnar.scattering import (
    DEFAULT_BUCKETS,
    MAX_BUCKETS,
    MAX_HELD_BYTES,
    Reduce,
    Route,
    Routed,
    gather,
)
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.threads import thread_pool

_TYPES = -1


def _cut(table: pa.Table, route: Route, num_buckets: int) -> Iterator[tuple[int, bytes]]:
    yield _TYPES, "\n".join(types_of(table)).encode()
    yield from Routed(table, route).cut(num_buckets)


class ReduceByHash(beam.PTransform):
    """Brings rows together by hash and reduces them: takes plain tables, returns reduced tables.

    No two output tables have rows of the same hash. The types of all tables are compared too, since
    equal values of two types have different hashes, and would not be brought together.

    Args:
      reduce: an idempotent, mergeable function of tables (see ``columnar.scattering``).
      names: the columns whose values are hashed.
      key: the key of the hash, from ``JobSecret.key``.
      num_buckets: the number of buckets; the default suits some ten million rows.

    Raises:
      ValueError: num_buckets is out of range.
      TypeError, at run time: two tables have different types in the same column.
    """

    def __init__(
        self, reduce: Reduce, names: tuple[str, ...], key: bytes, num_buckets: int | None = None
    ):
        super().__init__()
        self._route = Route(names, key, reduce)
        self._num_buckets = DEFAULT_BUCKETS
        if num_buckets is not None:
            self._num_buckets = positive_integer("num_buckets", num_buckets)
        if not 1 <= self._num_buckets <= MAX_BUCKETS:
            raise ValueError(
                f"num_buckets must be between 1 and {MAX_BUCKETS}, got {self._num_buckets}"
            )

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        cut = functools.partial(_cut, route=self._route, num_buckets=self._num_buckets)
        return (
            tables
            | "Scatter" >> beam.ParDo(OnThreads(cut)).with_output_types(tuple[int, bytes])
            | "Group" >> beam.GroupByKey()
            | "Reduce" >> beam.ParDo(_Gather(self._route)).with_output_types(pa.Table)
        )


def in_order(name: str, key: bytes) -> ReduceByHash:
    """Returns a step that sorts the rows of plain tables by a column, on one worker. No two values
    of the column may be equal.

    The order of a release is then a function of the released rows alone. Rows that do not fit in
    one table are split into several by keyed hashes.
    """
    return ReduceByHash(functools.partial(sorted_by, name=name), (name,), key, num_buckets=1)


class OnThreads(beam.DoFn):
    """Applies a kernel to each element, on a few threads, and yields all results of the kernel.

    The results of an element may be yielded together with those of a later element of the bundle,
    or at its end.
    """

    def __init__(self, kernel: Callable[..., Iterable[Any]]):
        self._kernel = kernel

    def start_bundle(self) -> None:
        self._running: collections.deque[Future[list[Any]]] = collections.deque()

    def process(self, element: Any) -> Iterator[Any]:
        yield from self.submit(self._kernel, element)

    def submit(self, kernel: Callable[[Any], Iterable[Any]], element: Any) -> Iterator[Any]:
        """Starts the kernel for an element, and yields results of earlier elements until at most
        ``threads.THREADS`` are running."""
        self._running.append(thread_pool().submit(lambda: list(kernel(element))))
        while len(self._running) > threads.THREADS:
            yield from self._running.popleft().result()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._running:
            for result in self._running.popleft().result():
                yield in_global_window(result)


def in_global_window(result: Any) -> WindowedValue:
    """Wraps a result so that ``finish_bundle`` can yield it."""
    return WindowedValue(result, GlobalWindow().max_timestamp(), (GlobalWindow(),))


class _OnThreadsWithSideInputs(OnThreads):
    def process(
        self, element: Any, named: Any = None, public_names: Any = None, choice: Any = None
    ) -> Iterator[Any]:
        given = {"named": named, "public_names": public_names, "choice": choice}
        side_inputs = {name: value for name, value in given.items() if value is not None}
        yield from self.submit(functools.partial(self._kernel, **side_inputs), element)


def on_threads(kernel: Callable[..., pa.Table], **side_inputs: Any) -> beam.ParDo:
    """Returns a step that maps each table to a table by a kernel, and leaves out empty results.

    The kernel runs on a few threads. It gets the side inputs ``named``, ``public_names`` and
    ``choice``, if they are given: see ``round_kernels`` and ``selection_kernels``.
    """
    step = _OnThreadsWithSideInputs if side_inputs else OnThreads
    kernel = functools.partial(_unless_empty, kernel)
    return beam.ParDo(step(kernel), **side_inputs).with_output_types(pa.Table)


def _unless_empty(
    kernel: Callable[..., pa.Table], table: pa.Table, **side_inputs: Any
) -> list[pa.Table]:
    result = kernel(table, **side_inputs)
    return [result] if result.num_rows else []


class _Gather(OnThreads):
    """Reduces the pieces of each bucket, and compares the types of all tables."""

    def __init__(self, route: Route):
        super().__init__(functools.partial(gather, route=route, max_bytes=MAX_HELD_BYTES))

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[pa.Table]:
        bucket, pieces = element
        if bucket == _TYPES:
            kinds = (piece.decode().partition("\n") for piece in pieces)
            check_alike((described, named) for described, _, named in kinds)
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
        # The pieces are too large to hold. The runner may fetch them in parts, but only in this
        # thread.
        yield from self._kernel(pieces)
