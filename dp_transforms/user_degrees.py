"""Releasing how many partitions users have, from which to choose kappa: on one worker."""

from __future__ import annotations

import functools
from typing import Any

import apache_beam as beam

from dp_transforms.columnar.counting import user_degrees
from dp_transforms.contributions import BoundContributions
from dp_transforms.frequency_release import merged
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.noise.user_degrees import (
    MAX_DEGREE,
    ReleasedDegrees,
    UserDegreeMechanism,
)
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.bounds import Releases


class ReleaseUserDegrees(Releases, beam.PTransform):
    """Releases how many users have how many partitions: records in, one ReleasedDegrees out.

    Epsilon-DP with delta = 0, for adding or removing all records of one user: see
    ``noise.user_degrees``. ``postprocessing.kappa_choice`` recommends a kappa from it.

    Takes tuples (user, partition), rows, dictionaries or Arrow tables, which need not be bounded.

    Args:
      epsilon: what this release costs, beside what follows.
      max_degree: larger numbers of partitions count as this one. Public: chosen without looking at
        the records.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users are split into.
      purpose: tells several of these releases under one secret apart.

    Raises:
      ValueError, TypeError: an argument is out of range; or as ``BoundContributions``.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")])
    ...     degrees = records | ReleaseUserDegrees(epsilon=100, max_degree=3)
    ...     _ = degrees | beam.Map(lambda released: print(released.lowest, released.users))
    (1, 2, 3) (1, 1, 0)
    """

    def __init__(
        self,
        epsilon: Number,
        max_degree: int = MAX_DEGREE,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
        purpose: str = "user degrees",
    ):
        super().__init__()
        self._mechanism = UserDegreeMechanism(epsilon, max_degree)
        self._secret = secret
        self._num_buckets = num_buckets
        self._purpose = purpose

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        secret = secret_for(records.pipeline, self._secret)
        bound = BoundContributions(self._mechanism.max_degree, secret, self._num_buckets)
        # All of a user's pairs are in one of the bounded tables.
        degrees = (
            records
            | "ToTables" >> ToTables()
            | "Bound" >> bound
            | "Degrees" >> beam.Map(user_degrees)
        )
        release = functools.partial(
            self._mechanism.release_under, secret=secret.secret, purpose=self._purpose
        )
        return merged(degrees) | "Release" >> beam.Map(release).with_output_types(ReleasedDegrees)

    def display_data(self) -> dict[str, Any]:
        return {"epsilon": self._mechanism.epsilon_cost, "max_degree": self._mechanism.max_degree}
