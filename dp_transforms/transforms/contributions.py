"""Bounding how many partitions a user contributes to."""

from __future__ import annotations

import dataclasses
import functools

import apache_beam as beam

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.runtime.batching import FromTables, ToTables
from dp_transforms.runtime.bounds import Bound, TellsBound, bound_of, refuse_counts
from dp_transforms.runtime.job_secret import JobSecret, secret_for
from dp_transforms.runtime.records import USER, refuse_windows
from dp_transforms.runtime.shuffle import ReduceByHash


class BoundContributions(TellsBound, beam.PTransform):
    """Keeps each user's distinct partitions, at most ``max_partitions_per_user`` of them.

    The kept ones are a uniform sample of the user's distinct partitions, decided by a pseudorandom
    function of (secret, user, partition): the same records are kept whenever they are bounded again
    under the same secret. Duplicates are dropped.

    After this, adding or removing all records of one user changes the users of at most
    ``max_partitions_per_user`` partitions, each by one: whether a record is kept depends on its own
    user's records alone. That holds for every value of the secret. What counts or releases the
    output knows the bound (see ``runtime.bounds``).

    Takes and gives tuples, rows or Arrow tables (see ``records``). The columns of tables come back
    dictionary-encoded, in their plain types.

    Args:
      max_partitions_per_user: kappa, at least 1.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users are split into, see ``columnar.scattering.num_buckets_for``.

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


class DeclareBounded(TellsBound, beam.PTransform):
    """Declares what is not known of records or counts: that each user is bounded already.

    For records: no user has more than ``max_partitions_per_user`` distinct partitions. For counts:
    no user is counted in more than kappa partitions, once in each, and each partition is there
    once. Whatever made them, how it treats one user's records must not depend on other users.
    Nothing checks this; a release from what is wrongly declared is less private than it says.

    Args:
      max_partitions_per_user: kappa, at least 1.

    Raises:
      ValueError: kappa is out of range, or smaller than what is known of the input.

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
