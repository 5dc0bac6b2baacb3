"""Records to counts in this process, without Beam.

The same kernels under the same keys as ``BoundContributions`` and ``CountDistinctUsers``, and so
the same counts. Beam's import and its in-process runner take seconds, however few the records are.

What is shuffled is packed: up to some twenty bytes a record. What is more than a share of the
memory goes to disk (see ``spilling``), and from then on it is compressed to about half.
"""

from __future__ import annotations

import collections
import functools
import itertools
import os
import pathlib
import resource
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from dp_transforms.columnar.attributes import LIST, bound_periods, histograms, listed
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import (
    COUNT,
    PARTITION,
    USER,
    check_alike,
    coded_table,
    decoded,
    is_full,
    single,
    types_of,
)
from dp_transforms.columnar.counting import (
    SOURCE,
    TARGET,
    count_pairs,
    histogram,
    neighbours,
    sum_counts,
    user_degrees,
)
from dp_transforms.columnar.scattering import (
    MAX_HELD_BYTES,
    Reduce,
    by_hash,
    gather,
    num_buckets_by_size,
    scatter,
)
from dp_transforms.mechanisms.degree_projection import (
    OUT,
    UNDIRECTED,
    project_degrees,
    project_directed_degrees,
)
from dp_transforms.runtime.spilling import Buckets
from dp_transforms.runtime.threads import map_ahead

if TYPE_CHECKING:
    from dp_transforms.job_secret import JobSecret
    from dp_transforms.mechanisms.frequency_list import FrequencyList

# Of the memory, for the records of one shuffle. Two may hold theirs at a time.
_HELD_SHARE = 16
_CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def count_distinct_users(
    records: Iterable[pa.Table], max_partitions_per_user: int, secret: JobSecret, num_buckets: int
) -> collections.Counter[int]:
    """Counts the partitions with each number of users, of records that are bounded first.

    Args:
      records: tables with the columns ``user`` and ``partition``.
      max_partitions_per_user: kappa; see ``BoundContributions``.
      secret: the job's; decides which partitions of a user are kept.
      num_buckets: into how many parts users, and then partitions, are split at most.

    Returns:
      {number of users: partitions}.

    Raises:
      ValueError, TypeError: see ``BoundContributions``.
      SpillError: records that are too many for the memory do not fit on the disk either.
    """
    counts = partition_counts(records, max_partitions_per_user, secret, num_buckets)
    return _added(map(histogram, counts))


def partition_counts(
    records: Iterable[pa.Table], max_partitions_per_user: int, secret: JobSecret, num_buckets: int
) -> Iterator[pa.Table]:
    """Tables of ``partition`` and ``count``, in which each partition is once; in no order.

    Args, Raises: see ``count_distinct_users``.
    """
    pairs = _bounded(records, max_partitions_per_user, secret, num_buckets)
    return _counts(pairs, secret, num_buckets)


def all_pairs(
    records: Iterable[pa.Table], secret: JobSecret, num_buckets: int
) -> Iterator[pa.Table]:
    """Tables of the distinct pairs of users and partitions, with all of a user in one of them.

    Args, Raises: see ``count_distinct_users``.
    """
    key = secret.key("route users")
    return _reduced(records, (USER, PARTITION), distinct_pairs, key, num_buckets)


def count_user_degrees(
    records: Iterable[pa.Table], max_degree: int, secret: JobSecret, num_buckets: int
) -> collections.Counter[int]:
    """Counts users by their number of distinct partitions; numbers above max_degree count as it:
    {number of partitions: users}. Args, Raises: see ``count_distinct_users``."""
    # All of a user's pairs are in one of the tables.
    return _added(map(user_degrees, _bounded(records, max_degree, secret, num_buckets)))


def count_degrees(
    edges: Iterable[pa.Table], degree: str, secret: JobSecret, num_buckets: int
) -> collections.Counter[int]:
    """Counts the nodes of each degree, as ``CountDegrees`` counts them.

    Args:
      edges: tables whose ``user`` is the source and whose ``partition`` is the target.
      degree: see ``columnar.counting.neighbours``.
      secret, num_buckets: see ``count_distinct_users``.

    Returns:
      {degree: nodes}.

    Raises: see ``count_distinct_users``.
    """
    pairs = all_pairs(_neighbours(edges, degree), secret, num_buckets)
    return _added(map(histogram, _counts(pairs, secret, num_buckets)))


def project(
    edges: Iterable[pa.Table], degree: str, degree_bound: int, secret: JobSecret, num_buckets: int
) -> FrequencyList:
    """The degrees of a projection, as ``CountProjectedDegrees`` gives them.

    Args:
      degree_bound: public, see ``mechanisms.degree_projection``.
      edges, degree, secret, num_buckets: see ``count_degrees``.

    Raises: see ``count_distinct_users``.
    """
    pairs = map(decoded, all_pairs(_neighbours(edges, OUT), secret, num_buckets))
    # Of edges out of them, sources are the partitions.
    ends = (
        zip(table[PARTITION].to_pylist(), table[USER].to_pylist(), strict=True) for table in pairs
    )
    order = secret.key("order of edges")
    every = itertools.chain.from_iterable(ends)
    if degree == UNDIRECTED:
        return project_degrees(every, degree_bound, order)
    return project_directed_degrees(every, degree_bound, order)[degree == OUT]


def _neighbours(edges: Iterable[pa.Table], degree: str) -> Iterator[pa.Table]:
    for edge in edges:
        ends = coded_table([edge], (USER, PARTITION)).rename_columns([SOURCE, TARGET])
        yield neighbours(ends, degree)


def count_by_period(
    records: Iterable[pa.Table],
    max_periods_per_user: int,
    max_partitions_per_user: int,
    secret: JobSecret,
    num_buckets: int,
) -> dict[str, collections.Counter[int]]:
    """Counts the partitions with each number of users in each period, of bounded users.

    Args:
      records: tables with the columns ``user``, ``partition`` and ``list``, the period's name.
      max_periods_per_user, max_partitions_per_user: see ``columnar.attributes.bound_periods``.
      secret, num_buckets: see ``count_distinct_users``.

    Returns:
      {period: {number of users: partitions}}, of periods that have records.

    Raises: see ``count_distinct_users``.
    """

    def bounded(table: pa.Table) -> pa.Table:
        keys = secret.key("periods of users"), secret.key("bound contributions")
        return bound_periods(decoded(table), max_periods_per_user, max_partitions_per_user, *keys)

    names = (USER, PARTITION, LIST)
    kept = map(decoded, _reduced(records, names, bounded, secret.key("route users"), num_buckets))
    in_lists = (listed(table, single(table[LIST])) for table in kept)
    found: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for counts in _counts(in_lists, secret, num_buckets):
        for name, one in histograms(counts):
            found[name].update(one)
    return found


def _counts(pairs: Iterable[pa.Table], secret: JobSecret, num_buckets: int) -> Iterator[pa.Table]:
    # Nobody is in two of the tables, so the counts of partitions in them add.
    key = secret.key("route partitions")
    return _reduced(map(count_pairs, pairs), (PARTITION, COUNT), sum_counts, key, num_buckets)


def _added(histograms: Iterable[Mapping[int, int]]) -> collections.Counter[int]:
    found: collections.Counter[int] = collections.Counter()
    for one in histograms:
        found.update(one)
    return found


def _bounded(
    records: Iterable[pa.Table], at_most: int, secret: JobSecret, num_buckets: int
) -> Iterator[pa.Table]:
    """Bounds records as ``BoundContributions`` does."""
    bound = functools.partial(
        distinct_pairs, at_most=at_most, key=secret.key("bound contributions")
    )
    return _reduced(records, (USER, PARTITION), bound, secret.key("route users"), num_buckets)


def _reduced(
    tables: Iterable[pa.Table], names: tuple[str, ...], reduce: Reduce, key: bytes, num_buckets: int
) -> Iterator[pa.Table]:
    """Reduces tables as ``ReduceByHash`` does, by the first of these columns."""
    route = by_hash(names[:1], key)

    def cut(batch: list[pa.Table]) -> tuple[tuple[str, str], list[tuple[int, bytes]]]:
        table = coded_table(batch, names)
        # Compressing takes up to a sixth of the time.
        pieces = scatter(table, route, num_buckets, reduce, compress=buckets.spilled)
        return types_of(table), list(pieces)

    def reduced(pieces: Iterable[bytes]) -> list[pa.Table]:
        return list(gather(pieces, route, reduce, MAX_HELD_BYTES))

    kinds: set[tuple[str, str]] = set()
    batches = _batches(tables)
    first = list(itertools.islice(batches, 1))
    for batch in first:
        rows, size = sum(map(len, batch)), sum(table.nbytes for table in batch)
        num_buckets = num_buckets_by_size(num_buckets, rows, size)
    with Buckets(memory_limit() // _HELD_SHARE) as buckets:
        for kind, pieces in map_ahead(cut, itertools.chain(first, batches)):
            kinds.add(kind)
            buckets.add(pieces)
        check_alike(kinds)
        for found in map_ahead(reduced, buckets.take()):
            yield from found


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
        rows, size = rows + table.num_rows, size + table.nbytes
        if is_full(rows, size, table):
            yield held
            held, rows, size = [], 0, 0
    if held:
        yield held
