"""Counting the distinct users of each partition."""

from __future__ import annotations

import functools
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import is_plain_dictionary, plain_table
from dp_transforms.columnar.counting import count_pairs, sum_counts
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.runtime.batching import FromTables, ToTables
from dp_transforms.runtime.bounds import Bound, TellsBound, refuse_counts
from dp_transforms.runtime.job_secret import JobSecret, secret_for
from dp_transforms.runtime.records import COUNT, PARTITION, USER, refuse_windows
from dp_transforms.runtime.shuffle import OnThreads, ReduceByHash


class CountDistinctUsers(TellsBound, beam.PTransform):
    """Counts the distinct users of each partition: (partition, count), of the same kind as the
    records.

    The counts are exact and private. What is known of the records' bound is known of the counts
    (see ``runtime.bounds``).

    Args:
      cap: K, at which a count stops. Where users' records are not together, memory is then O(K) for
        a partition, whatever the number of its users.
      already_distinct: whether each (user, partition) pair is there once. By default that is known
        of what ``BoundContributions`` gave and is not assumed of anything else. If it is wrongly
        declared, duplicates are counted, and a release from the counts is less private than it
        says.
      secret: keys the hashes that spread the load; a fresh one by default. Counts do not depend on
        it.
      num_buckets: how many parts users, or partitions, are split into.

    Raises:
      ValueError: an argument is out of range, the input is unbounded or windowed or holds counts,
        pairs are declared distinct after a Flatten, the job is a classic template; at run time,
        there are nulls.
      TypeError, at run time: users or partitions are not strings, bytes or integers of one type.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "jazz"), ("bob", "jazz")])
    ...     _ = records | CountDistinctUsers() | beam.Map(print)
    ('jazz', 2)
    """

    def __init__(
        self,
        cap: int | None = None,
        *,
        already_distinct: bool | None = None,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._cap = None if cap is None else positive_integer("cap", cap)
        self._already_distinct = already_distinct
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        known = refuse_counts(records, "CountDistinctUsers").distinct
        if self._already_distinct and known is False:
            raise ValueError(
                "already_distinct cannot be known of collections that were put together by "
                "Flatten: a pair may be in several of them"
            )
        secret = secret_for(records.pipeline, self._secret)
        distinct = bool(known) if self._already_distinct is None else self._already_distinct
        if distinct and records.element_type == pa.Table:
            pairs = records
        else:
            pairs = records | "ToTables" >> ToTables()
        if not distinct:
            pairs |= "Distinct" >> self._distinct(secret)
        add = functools.partial(sum_counts, cap=self._cap)
        return (
            pairs
            | "Count"
            >> beam.ParDo(OnThreads(functools.partial(_count, cap=self._cap))).with_output_types(
                pa.Table
            )
            | "Batch" >> ToTables((PARTITION, COUNT))
            | "ByPartition"
            >> ReduceByHash(add, (PARTITION,), secret.key("route partitions"), self._num_buckets)
            | "FromTables" >> FromTables(records, (PARTITION, COUNT))
        )

    def _distinct(self, secret: JobSecret) -> beam.PTransform:
        if self._cap is None:
            # Equal pairs must meet, and nothing else: a hot user spreads over all buckets.
            return ReduceByHash(
                distinct_pairs, (USER, PARTITION), secret.key("route pairs"), self._num_buckets
            )
        # Any K distinct users of a partition are enough to know that its count is K.
        some = functools.partial(
            distinct_pairs, at_most=self._cap, key=secret.key("users to count"), per=PARTITION
        )
        return ReduceByHash(
            some, (PARTITION,), secret.key("route capped partitions"), self._num_buckets
        )

    def bound(self, before: Bound) -> Bound:
        return Bound(before.partitions, counted=True, distinct=True, unit=before.unit)

    def display_data(self) -> dict[str, Any]:
        return {} if self._cap is None else {"cap": self._cap}


def _count(pairs: pa.Table, cap: int | None) -> list[pa.Table]:
    # Grouping by partition is done already where the column is a dictionary, as after bounding.
    if not all(is_plain_dictionary(pairs[name]) for name in (USER, PARTITION)):
        pairs = plain_table(pairs, (USER, PARTITION))
    return [count_pairs(pairs, cap)]
