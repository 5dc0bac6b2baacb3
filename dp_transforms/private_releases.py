"""From records to a release in one step: contributions are bounded, counted and released."""

from __future__ import annotations

import apache_beam as beam

from dp_transforms.budget import PrivacyBudget
from dp_transforms.contributions import BoundContributions
from dp_transforms.counting import CountDistinctUsers
from dp_transforms.frequency_release import ReleaseFrequencyList
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.partition_selection.choice import AUTO
from dp_transforms.runtime.bounds import Releases
from dp_transforms.selection import SelectPartitions


class PrivateFrequencyList(Releases, beam.PTransform):
    """Records in, one ``ReleasedList`` out: how many users partitions have, without their names.

    It is ``BoundContributions``, ``CountDistinctUsers`` and ``ReleaseFrequencyList``: epsilon-DP
    with delta = 0, for adding or removing all records of one user.

    Args:
      epsilon: what the release costs.
      max_partitions_per_user: kappa, to which each user is bounded, at random.
      budget: instead of epsilon, such as a share of ``BudgetShares``. A list spends no delta.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users, or partitions, are split into.

    Raises:
      ValueError: as the three transforms; both or none of epsilon and budget are given.

    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     records = pipeline | beam.Create([(user, user % 2) for user in range(50)])
    ...     released = records | PrivateFrequencyList(epsilon=60, max_partitions_per_user=1)
    ...     _ = released | beam.Map(print)
    frequency,multiplicity
    25,2
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        max_partitions_per_user: int,
        budget: PrivacyBudget | None = None,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        if (epsilon is None) == (budget is None):
            raise ValueError("give either epsilon or budget")
        self._epsilon = epsilon if budget is None else budget.epsilon
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


class PrivatePartitions(SelectPartitions):
    """Records in, the partitions that may be named out: ``SelectPartitions``, bounding included.

    Args:
      epsilon, delta: what the release costs.
      max_partitions_per_user: kappa, to which each user is bounded, at random.
      budget: instead of epsilon and delta, such as a share of ``BudgetShares``.
      strategy, noisy_counts, secret, num_buckets: see ``SelectPartitions``.

    Raises:
      ValueError: as ``SelectPartitions``; both or none of epsilon and budget are given.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        max_partitions_per_user: int,
        budget: PrivacyBudget | None = None,
        strategy: str = AUTO,
        noisy_counts: bool = False,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        if (epsilon is None) == (budget is None) or (delta is not None and budget is not None):
            raise ValueError("give either epsilon and delta, or budget")
        if budget is not None:
            epsilon, delta = budget.epsilon, budget.delta
        super().__init__(
            epsilon,
            delta,
            max_partitions_per_user,
            strategy,
            noisy_counts,
            secret=secret,
            num_buckets=num_buckets,
        )
