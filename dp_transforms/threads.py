"""Runs kernels on a few threads. This helps since Arrow and numpy release Python's global lock."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

THREADS = min(4, os.cpu_count() or 1)

S = TypeVar("S")
T = TypeVar("T")


@functools.cache
def thread_pool() -> ThreadPoolExecutor:
    """Returns the thread pool of this process. No task on it may wait for another task."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="columnar")


# A forked process inherits the pool but not its threads, and would wait for them forever.
os.register_at_fork(after_in_child=thread_pool.cache_clear)


def map_ahead(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yields the function's values for the items in order, and computes a few ahead of their use.

    It computes no more values after an error, or once the iterator is closed.

    >>> list(map_ahead(abs, range(-3, 3)))
    [3, 2, 1, 0, 1, 2]
    """
    running: collections.deque[Future[T]] = collections.deque()
    try:
        for item in items:
            running.append(thread_pool().submit(function, item))
            if len(running) > THREADS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        wait([future for future in running if not future.cancel()])
