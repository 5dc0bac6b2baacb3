"""Bounds how many partitions a user contributes to, and counts the users of each partition."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.batching import FromTables, ToTables
from dp_transforms.beam.bounds import Bound, BoundAware, bound_of, refuse_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.shuffle import ReduceByHash, on_threads
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.columnar.counting import count_pairs, sum_counts
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.runtime.job_secret import JobSecret


class BoundContributions(BoundAware, beam.PTransform):
    """Keeps at most ``max_partitions_per_user`` distinct partitions of each user.

    The partitions kept are a uniform sample, decided by a pseudorandom function of (secret, user,
    partition). Duplicates are dropped.

    In the output, adding or removing all records of one user changes the number of users of at most
    ``max_partitions_per_user`` partitions, by one each: for every value of the secret, only the
    user's own records decide which are kept. Later steps know the bound (see ``runtime.bounds``).

    Takes tuples, rows or Arrow tables, and returns the same kind (see ``records``). Columns of
    returned tables are dictionary-encoded.

    Args:
      max_partitions_per_user: kappa, at least 1.
      secret: the job's secret; by default each application of the transform draws a fresh one.
      num_buckets: the number of parts that users are split into, see
        ``columnar.scattering.num_buckets_for``.

    Raises:
      ValueError: an argument is out of range, the input is unbounded or windowed or holds counts,
        the job is a classic template; at run time, there are nulls.
      TypeError, at run time: users or partitions are not strings, bytes or integers of one type.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")])
    ...     bounded = records | BoundContributions(max_partitions_per_user=1)
    ...     users = bounded | beam.Keys() | beam.combiners.ToList()
    ...     _ = users | beam.Map(lambda names: print(sorted(names)))
    ['ann', 'bob']
    """

    def __init__(
        self,
        max_partitions_per_user: int,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_counts(records, "BoundContributions")
        secret = secret_for(records.pipeline, self._secret)
        bound = functools.partial(
            distinct_pairs, at_most=self._max_partitions, key=secret.key("bound contributions")
        )
        return (
            records
            | "ToTables" >> ToTables()
            | "ByUser" >> ReduceByHash(bound, (USER,), secret.key("route users"), self._num_buckets)
            | "FromTables" >> FromTables(records)
        )

    def bound(self, before: Bound) -> Bound:
        return Bound(self._max_partitions, counted=False, distinct=True, unit=before.unit)

    def display_data(self) -> dict[str, int]:
        return {"max_partitions_per_user": self._max_partitions}


class DeclareBounded(BoundAware, beam.PTransform):
    """Declares that the contributions of users to records or counts are bounded already.

    In records, no user has more than ``max_partitions_per_user`` (kappa) distinct partitions. In
    counts, each partition occurs once, and no user is in more than kappa, once in each. The steps
    before must treat one user's records independently of other users. Nothing checks this: a
    release after a wrong declaration is less private than it says.

    Raises:
      ValueError: kappa is not a positive integer, or is below the known bound of the input.

    >>> with beam.Pipeline() as pipeline:
    ...     counts = pipeline | beam.Create([("jazz", 40), ("rock", 3)]) | DeclareBounded(2)
    ...     _ = counts | beam.Map(print)
    ('jazz', 40)
    ('rock', 3)
    """

    def __init__(self, max_partitions_per_user: int):
        super().__init__()
        self._max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        known = bound_of(pcoll).partitions
        if known is not None and known > self._max_partitions:
            raise ValueError(
                f"DeclareBounded({self._max_partitions}) contradicts what is known of its input, "
                f"of which up to {known} partitions are one user's: use BoundContributions"
            )
        return (pcoll,) | beam.Flatten()

    def bound(self, before: Bound) -> Bound:
        return dataclasses.replace(before, partitions=self._max_partitions)

    def display_data(self) -> dict[str, int]:
        return {"max_partitions_per_user": self._max_partitions}


class CountDistinctUsers(BoundAware, beam.PTransform):
    """Counts the distinct users of each partition; returns (partition, count), of the same kind.

    The counts are exact and private, and have the bound of the records (see ``runtime.bounds``).

    Args:
      cap: counts stop at this number. Unless pairs are distinct already, memory for one partition
        is then O(cap), whatever the number of its users.
      already_distinct: whether each (user, partition) pair occurs once. By default only the output
        of ``BoundContributions`` is known to be distinct. If this is wrongly declared, duplicates
        are counted, and a release from the counts is less private than it says.
      secret: keys the hashes that spread the load; a fresh one by default. No count depends on it.
      num_buckets: the number of parts that users, or partitions, are split into.

    Raises:
      ValueError, TypeError: as ``BoundContributions``; or pairs are declared distinct after a
        Flatten.

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
        pairs = records
        if not known or records.element_type != pa.Table:
            pairs |= "ToTables" >> ToTables()
        if not distinct:
            pairs |= "Distinct" >> self._distinct(secret)
        add = functools.partial(sum_counts, cap=self._cap)
        return (
            pairs
            | "Count" >> on_threads(functools.partial(count_pairs, cap=self._cap))
            | "Batch" >> ToTables((PARTITION, COUNT))
            | "ByPartition"
            >> ReduceByHash(add, (PARTITION,), secret.key("route partitions"), self._num_buckets)
            | "FromTables" >> FromTables(records, (PARTITION, COUNT))
        )

    def _distinct(self, secret: JobSecret) -> beam.PTransform:
        if self._cap is None:
            # Only equal pairs must meet, so that a hot user spreads over all buckets.
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
