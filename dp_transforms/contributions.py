"""Bounding how many partitions a user contributes to."""

from __future__ import annotations

import functools

import apache_beam as beam

from dp_transforms.batching import FromTables, ToTables
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.job_secret import JobSecret, refuse_templates
from dp_transforms.mechanisms.base2 import positive_integer
from dp_transforms.records import USER, refuse_windows
from dp_transforms.shuffle import ReduceByHash


class BoundContributions(beam.PTransform):
    """Keeps each user's distinct partitions, at most ``max_partitions_per_user`` of them.

    The kept ones are a uniform sample of the user's distinct partitions, decided by a pseudorandom
    function of (secret, user, partition): the same records are kept whenever they are bounded again
    under the same secret. Duplicates are dropped.

    After this, adding or removing all records of one user changes the users of at most
    ``max_partitions_per_user`` partitions, each by one: whether a record is kept depends on its own
    user's records alone. That holds for every value of the secret.

    Takes and gives tuples, rows or Arrow tables (see ``records``). The columns of tables come back
    dictionary-encoded, in their plain types.

    Args:
      max_partitions_per_user: kappa, at least 1.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users are split into, see ``shuffle.num_buckets_for``.

    Raises:
      ValueError: an argument is out of range, the input is unbounded or windowed, the job is a
        classic template; at run time, there are nulls.
      TypeError, at run time: users or partitions are not strings, bytes or integers of one type.

    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")])
    ...     bounded = records | BoundContributions(max_partitions_per_user=1)
    ...     users = bounded | beam.Keys() | beam.combiners.ToList()
    ...     _ = users | beam.Map(lambda names: print(sorted(names)))
    ['ann', 'bob']
    """

    def __init__(
        self,
        max_partitions_per_user: int,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_templates(records.pipeline.options)
        refuse_windows(records)
        secret = self._secret or JobSecret.from_os()
        bound = functools.partial(
            distinct_pairs, at_most=self._kappa, key=secret.key("bound contributions")
        )
        return (
            records
            | "ToTables" >> ToTables()
            | "ByUser" >> ReduceByHash(bound, (USER,), secret.key("route users"), self._num_buckets)
            | "FromTables" >> FromTables(records)
        )

    def display_data(self) -> dict[str, int]:
        return {"max_partitions_per_user": self._kappa}
