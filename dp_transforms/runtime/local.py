"""The shuffle of one process, without Beam: what ``ReduceByHash`` does on workers.

What is shuffled is packed: up to some twenty bytes a record. What is more than a share of the
memory goes to disk (see ``spilling``), and from then on it is compressed to about half.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import resource
from collections.abc import Iterable, Iterator

import pyarrow as pa

from dp_transforms.columnar.columns import check_alike, coded_table, is_full, size_of, types_of
from dp_transforms.columnar.scattering import (
    MAX_HELD_BYTES,
    Reduce,
    by_hash,
    gather,
    num_buckets_by_size,
    pack,
    scatter,
    unpack,
)
from dp_transforms.runtime.spilling import Buckets
from dp_transforms.runtime.threads import map_ahead

# Of the memory, for the records of one shuffle or one ``Held``. Three may have theirs at a time.
_HELD_SHARE = 16
_CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def reduced(
    tables: Iterable[pa.Table], names: tuple[str, ...], reduce: Reduce, key: bytes, num_buckets: int
) -> Iterator[pa.Table]:
    """Brings rows together by hash and reduces them: see ``ReduceByHash``.

    Args:
      tables: any Arrow tables.
      names: their columns, of which the first sends a row to its bucket.
      reduce, key: see ``ReduceByHash``.
      num_buckets: into how many parts rows are split at most.

    Raises:
      ValueError, TypeError: there are nulls, or several types in one column.
      SpillError: rows that are too many for the memory do not fit on the disk either.
    """
    route = by_hash(names[:1], key)

    def cut(batch: list[pa.Table]) -> tuple[tuple[str, str], list[tuple[int, bytes]]]:
        table = coded_table(batch, names)
        # Compressing takes up to a sixth of the time.
        pieces = scatter(table, route, num_buckets, reduce, compress=buckets.spilled)
        return types_of(table), list(pieces)

    def gathered(pieces: Iterable[bytes]) -> list[pa.Table]:
        return list(gather(pieces, route, reduce, MAX_HELD_BYTES))

    kinds: set[tuple[str, str]] = set()
    batches = _batches(tables)
    first = list(itertools.islice(batches, 1))
    for batch in first:
        rows, size = sum(map(len, batch)), sum(map(size_of, batch))
        num_buckets = num_buckets_by_size(num_buckets, rows, size)
    with Buckets(memory_limit() // _HELD_SHARE) as buckets:
        for kind, pieces in map_ahead(cut, itertools.chain(first, batches)):
            kinds.add(kind)
            buckets.add(pieces)
        check_alike(kinds)
        for found in map_ahead(gathered, buckets.take()):
            yield from found


class Held(Iterable[pa.Table]):
    """Tables to be gone through repeatedly: in memory, or all on disk if they are more than a share
    of it. A context manager.

    Args:
      tables: of plain columns or codes, see ``pack``.

    Raises:
      SpillError: they are too many for the memory, and do not fit on the disk either.
    """

    def __init__(self, tables: Iterable[pa.Table]):
        self._tables: list[pa.Table] = []
        self._buckets = Buckets(0)
        rest, size, most = iter(tables), 0, memory_limit() // _HELD_SHARE
        for table in rest:
            self._tables.append(table)
            size += size_of(table)
            if size > most:
                while self._tables:
                    self._buckets.add([(0, pack(self._tables.pop(0)))])
                for more in rest:
                    self._buckets.add([(0, pack(more))])
        self._pieces = list(self._buckets.take())

    def __iter__(self) -> Iterator[pa.Table]:
        yield from self._tables
        yield from map(unpack, itertools.chain.from_iterable(self._pieces))

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *error: object) -> None:
        self._buckets.__exit__(*error)


def memory_limit() -> int:
    """Returns the bytes of memory this process may have, by the machine, its control group and its
    own limits (``ulimit -v`` and ``-d``)."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    own = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limits += [limit for limit in own if limit != resource.RLIM_INFINITY]
    for path in _CONTROL_GROUPS:
        try:
            limits.append(int(pathlib.Path(path).read_text()))
        except (OSError, ValueError):  # there is none, or no number in it
            continue
    return min(limits)


def _batches(tables: Iterable[pa.Table]) -> Iterator[list[pa.Table]]:
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + size_of(table)
        if is_full(rows, size, table):
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held
