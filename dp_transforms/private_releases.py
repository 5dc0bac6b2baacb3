"""Makes a release from records in one step: contributions are bounded, counted and released."""

from __future__ import annotations

import apache_beam as beam

from dp_transforms.contributions import BoundContributions
from dp_transforms.counting import CountDistinctUsers
from dp_transforms.frequency_release import ReleaseFrequencyList
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.runtime.bounds import Releases
from dp_transforms.selection import SelectPartitions


class PrivateFrequencyList(Releases, beam.PTransform):
    """Records in, one ``ReleasedList`` out: how many users partitions have, without their names.

    It is ``BoundContributions``, ``CountDistinctUsers`` and ``ReleaseFrequencyList``: epsilon-DP
    with delta = 0, for adding or removing all records of one user.

    Args:
      epsilon: what the release costs.
      max_partitions_per_user: kappa, to which each user is bounded, at random.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users, or partitions, are split into.

    Raises:
      ValueError: as the three transforms.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([(user, user % 2) for user in range(50)])
    ...     released = records | PrivateFrequencyList(epsilon=60, max_partitions_per_user=1)
    ...     _ = released | beam.Map(print)
    frequency,multiplicity
    25,2
    """

    def __init__(
        self,
        epsilon: Number,
        max_partitions_per_user: int,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._epsilon = epsilon
        self._secret = secret
        self._num_buckets = num_buckets
        # Its arguments are checked now.
        self._release(None)

    def _release(self, secret: JobSecret | None) -> ReleaseFrequencyList:
        return ReleaseFrequencyList(
            epsilon=self._epsilon, max_partitions_per_user=self._kappa, secret=secret
        )

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        secret = secret_for(records.pipeline, self._secret)
        return (
            records
            | "Bound" >> BoundContributions(self._kappa, secret, self._num_buckets)
            | "Count" >> CountDistinctUsers(secret=secret, num_buckets=self._num_buckets)
            | "Release" >> self._release(secret)
        )

    def display_data(self) -> dict[str, object]:
        return self._release(None).display_data()


PrivatePartitions = SelectPartitions
"""The same for names: ``SelectPartitions`` bounds contributions itself."""
