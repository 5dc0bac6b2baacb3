"""The shuffle of one process, without Beam: what ``ReduceByHash`` does on workers.

What is shuffled stays in memory, packed: up to some ten bytes a record, and twice that while it is
little of the memory there is.
"""

from __future__ import annotations

import collections
import itertools
import os
import pathlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from dp_transforms.columnar.columns import check_alike, coded_table, is_full
from dp_transforms.columnar.routing import (
    MAX_HELD_BYTES,
    by_hash,
    num_buckets_by_size,
    types_of,
)
from dp_transforms.columnar.scattering import Reduce, gather, scatter
from dp_transforms.runtime.threads import map_ahead

# Of the memory, for records that are not compressed: that takes up to a sixth of the time.
_PLAIN_SHARE = 32
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
      MemoryError: packed rows take more than half of ``memory_limit``.
    """
    route = by_hash(names[:1], key)

    def cut(batch: list[pa.Table]) -> tuple[tuple[str, str], list[tuple[int, bytes]]]:
        table = coded_table(batch, names)
        pieces = scatter(table, route, num_buckets, reduce, compress=held > limit // _PLAIN_SHARE)
        return types_of(table), list(pieces)

    def gathered(pieces: list[bytes]) -> list[pa.Table]:
        return list(gather(pieces, route, reduce, MAX_HELD_BYTES))

    limit, held = memory_limit(), 0
    kinds: set[tuple[str, str]] = set()
    buckets: dict[int, list[bytes]] = collections.defaultdict(list)
    batches = _batches(tables)
    first = list(itertools.islice(batches, 1))
    for batch in first:
        rows, size = sum(map(len, batch)), sum(table.nbytes for table in batch)
        num_buckets = num_buckets_by_size(num_buckets, rows, size)
    for kind, pieces in map_ahead(cut, itertools.chain(first, batches)):
        kinds.add(kind)
        for bucket, piece in pieces:
            buckets[bucket].append(piece)
            held += len(piece)
        if held > limit // 2:
            raise MemoryError("packed records take more than half of the memory")
    check_alike(kinds)
    # What is done is not held.
    rest = (buckets.popitem()[1] for _ in range(len(buckets)))
    for found in map_ahead(gathered, rest):
        yield from found


def memory_limit() -> int:
    """Returns the bytes of memory this process may have, by the machine and its control group."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
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
        rows, size = rows + table.num_rows, size + table.nbytes
        if is_full(rows, size, table):
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held
