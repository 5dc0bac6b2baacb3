"""Transforms that bound the partitions of each user, and that count the users of each partition."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.batching import FromTables, ToTables
from dp_transforms.beam.bounds import Bound, BoundAware, bound_of, refuse_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows, require_one_collection
from dp_transforms.beam.shuffle import ReduceByHash, on_threads
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.columnar.counting import count_pairs, sum_counts
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS, route_by
from dp_transforms.runtime.job_secret import JobSecret


class BoundContributions(BoundAware, beam.PTransform):
    """Keeps at most ``max_partitions_per_user`` distinct partitions of each user.

    The partitions kept are a uniform sample, decided by a pseudorandom function of (secret, user,
    partition). Duplicates are dropped.

    If all records of one user are added or removed, at most ``max_partitions_per_user`` partitions
    of the output change their numbers of users, by one each. The reason: for every value of the
    secret, a user's own records alone decide which of them are kept. Later steps know the bound
    (see ``beam.bounds``).

    Takes tuples, rows, dictionaries or Arrow tables, and returns the same kind (see ``records``).
    Columns of returned tables are dictionary-encoded.

    Args:
      max_partitions_per_user: kappa, at least 1.
      secret: the job's secret; by default each application of the transform draws a fresh one.
      num_buckets: the number of buckets that users are shuffled into, see
        ``columnar.scattering.num_buckets_for``.

    The steps before must treat one user's records independently of other users, as a ``Map`` or a
    ``Filter`` of single records does. Nothing checks this: otherwise one user decides about records
    of others, and a release is less private than it says.

    Raises:
      ValueError: an argument is out of range, the input is unbounded or windowed or holds counts,
        or the job is a classic template; at run time, there are nulls.
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
            distinct_pairs, at_most=self._max_partitions, key=secret.key(BOUND_CONTRIBUTIONS)
        )
        route_key = secret.key(route_by(USER))
        return (
            records
            | "ToTables" >> ToTables()
            | "ByUser" >> ReduceByHash(bound, (USER,), route_key, self._num_buckets)
            | "FromTables" >> FromTables(records)
        )

    def bound(self, before: Bound) -> Bound:
        return Bound(self._max_partitions, counted=False, distinct=True, unit=before.unit)

    def display_data(self) -> dict[str, int]:
        return {"max_partitions_per_user": self._max_partitions}


class DeclareBounded(BoundAware, beam.PTransform):
    """Declares that the contributions of users to records or counts are bounded already.

    For records, you declare that no user has more than ``max_partitions_per_user`` (kappa) distinct
    partitions. For counts, you declare that each partition occurs once, and that each user is
    counted in at most kappa partitions, once in each. The steps before must treat one user's
    records independently of other users. Nothing checks this: a release after a wrong declaration
    is less private than it says.

    Say by ``counted`` which of both the elements are. A release of counts refuses elements that may
    be records: it would take users for partitions, and partitions that are integers for counts.

    Args:
      max_partitions_per_user: kappa.
      counted: whether the elements are counts (True) or records (False); by default as the steps
        before say.

    Raises:
      ValueError: an argument is out of range, kappa is below the known bound of the input, or the
        input is known to be of the other kind.

    >>> with beam.Pipeline() as pipeline:
    ...     given = pipeline | beam.Create([("jazz", 40), ("rock", 3)])
    ...     _ = given | DeclareBounded(2, counted=True) | beam.Map(print)
    ('jazz', 40)
    ('rock', 3)
    """

    def __init__(self, max_partitions_per_user: int, *, counted: bool | None = None):
        super().__init__()
        self._max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._counted = None if counted is None else boolean("counted", counted)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        require_one_collection(pcoll)
        known = bound_of(pcoll)
        if known.partitions is not None and known.partitions > self._max_partitions:
            raise ValueError(
                f"DeclareBounded({self._max_partitions}) contradicts its input, in which one user "
                f"can be in up to {known.partitions} partitions: use BoundContributions"
            )
        if None not in (known.counted, self._counted) and known.counted != self._counted:
            kind = "counts" if known.counted else "records of users"
            raise ValueError(
                f"DeclareBounded(counted={self._counted}) contradicts its input, which is {kind}"
            )
        return (pcoll,) | beam.Flatten()

    def bound(self, before: Bound) -> Bound:
        counted = before.counted if self._counted is None else self._counted
        return dataclasses.replace(before, partitions=self._max_partitions, counted=counted)

    def display_data(self) -> dict[str, int]:
        return {"max_partitions_per_user": self._max_partitions}


def add_counts(secret: JobSecret, num_buckets: int | None, cap: int | None = None) -> ReduceByHash:
    """Returns the step that adds up tables of counts, and of other sums, by partition: see
    ``counting.sum_counts``."""
    add = functools.partial(sum_counts, cap=cap)
    return ReduceByHash(add, (PARTITION,), secret.key(route_by(PARTITION)), num_buckets)


class CountDistinctUsers(BoundAware, beam.PTransform):
    """Counts the distinct users of each partition: takes records, returns (partition, count).

    Takes records as ``BoundContributions`` does, and returns the same kind. The counts are exact,
    so they are private. They have the bound of the records (see ``beam.bounds``).

    Args:
      cap: larger counts are returned as this number. Unless pairs are distinct already, memory for
        one partition is then O(cap), whatever the number of its users.
      already_distinct: whether each (user, partition) pair occurs once. By default only the output
        of ``BoundContributions`` is known to be distinct. If this is wrongly declared, duplicates
        are counted, and a release from the counts is less private than it says.
      secret: keys the hashes that spread the load; a fresh one by default. No count depends on it.
      num_buckets: the number of buckets that pairs, or partitions, are shuffled into.

    Raises:
      ValueError, TypeError: as ``BoundContributions``; or pairs are declared distinct although they
        come from a Flatten.

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
        if already_distinct is not None:
            boolean("already_distinct", already_distinct)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        known = refuse_counts(records, "CountDistinctUsers").distinct
        if self._already_distinct and known is False:
            raise ValueError(
                "already_distinct does not hold after a Flatten: a pair may be in several of the "
                "collections that it put together"
            )
        secret = secret_for(records.pipeline, self._secret)
        distinct = bool(known) if self._already_distinct is None else self._already_distinct
        pairs = records
        if not known or records.element_type != pa.Table:
            pairs |= "ToTables" >> ToTables()
        if not distinct:
            pairs |= "Distinct" >> self._distinct(secret)
        return (
            pairs
            | "Count" >> on_threads(functools.partial(count_pairs, cap=self._cap))
            | "Batch" >> ToTables((PARTITION, COUNT))
            | "ByPartition" >> add_counts(secret, self._num_buckets, self._cap)
            | "FromTables" >> FromTables(records, (PARTITION, COUNT))
        )

    def _distinct(self, secret: JobSecret) -> beam.PTransform:
        """Returns the step that drops repeated pairs. With a cap it also drops users of a partition
        beyond the cap."""
        if self._cap is None:
            # Only equal pairs must meet, so a user with many records is spread over all buckets.
            return ReduceByHash(
                distinct_pairs, (USER, PARTITION), secret.key("route pairs"), self._num_buckets
            )
        # The capped count is known from any ``cap`` distinct users of a partition.
        some = functools.partial(
            distinct_pairs, at_most=self._cap, key=secret.key("users to count"), per=PARTITION
        )
        return ReduceByHash(
            some, (PARTITION,), secret.key("route capped partitions"), self._num_buckets
        )

    def bound(self, before: Bound) -> Bound:
        return Bound(
            before.partitions,
            counted=True,
            distinct=True,
            unit=before.unit,
            largest_count=self._cap,
        )

    def display_data(self) -> dict[str, Any]:
        return {} if self._cap is None else {"cap": self._cap}
