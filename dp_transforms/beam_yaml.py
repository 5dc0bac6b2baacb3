"""The transforms as Beam YAML knows them: over rows, with plain parameters, and rows as results.

``beam_yaml_providers.yaml`` names them for a pipeline's ``providers``. No secret can be given: each
job draws its own.
"""

# Beam YAML reads these signatures' types, so they are not deferred.

import apache_beam as beam
from apache_beam.typehints.row_type import RowTypeConstraint

from dp_transforms.contributions import BoundContributions
from dp_transforms.counting import CountDistinctUsers
from dp_transforms.frequency_release import ReleaseFrequencyList
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.records import ToRecords
from dp_transforms.selection import SelectPartitions


def to_records(user: str, partition: list[str], drop_nulls: bool = False) -> beam.PTransform:
    """Rows with the fields user and partition, from rows in which these are called otherwise.

    Args:
      user: the field that says whose record it is.
      partition: the field, or the fields together, that say what the record is counted for.
      drop_nulls: leave out records without a user or without a partition.
    """
    return ToRecords(user, partition, drop_nulls)


def bound_contributions(
    max_partitions_per_user: int, num_buckets: int | None = None
) -> beam.PTransform:
    """Keeps at most so many distinct partitions of each user, at random.

    Args:
      max_partitions_per_user: how many.
      num_buckets: how many parts users are split into.
    """
    return BoundContributions(max_partitions_per_user, num_buckets=num_buckets)


def count_distinct_users(cap: int | None = None, num_buckets: int | None = None) -> beam.PTransform:
    """Rows of partition and count: how many distinct users each partition has. Private.

    Args:
      cap: a count stops at this.
      num_buckets: how many parts users, or partitions, are split into.
    """
    return CountDistinctUsers(cap, num_buckets=num_buckets)


def select_partitions(
    epsilon: float,
    delta: float,
    max_partitions_per_user: int,
    strategy: str = "auto",
    noisy_counts: bool = False,
    num_buckets: int | None = None,
) -> beam.PTransform:
    """Rows of partition (and noisy_count): the partitions that may be named.

    Args:
      epsilon: the privacy loss, for adding or removing all records of one user.
      delta: the probability with which it may be exceeded.
      max_partitions_per_user: how many partitions of each user count.
      strategy: how to select; auto takes the best for these parameters.
      noisy_counts: release noisy counts with the names.
      num_buckets: how many parts users and partitions are split into.
    """
    return SelectPartitions(
        epsilon, delta, max_partitions_per_user, strategy, noisy_counts, num_buckets=num_buckets
    )


def release_frequency_list(epsilon: float, max_partitions_per_user: int) -> beam.PTransform:
    """Rows of frequency and multiplicity: how many partitions have how many users, released.

    Args:
      epsilon: the privacy loss, for adding or removing all records of one user.
      max_partitions_per_user: how many partitions a user was bounded to.
    """
    row = RowTypeConstraint.from_fields([("frequency", int), ("multiplicity", int)])
    return ReleaseFrequencyList(
        epsilon=epsilon, max_partitions_per_user=max_partitions_per_user
    ) | "Rows" >> beam.FlatMap(_rows).with_output_types(row)


def _rows(released: FrequencyList) -> list[beam.Row]:
    return [beam.Row(frequency=int(f), multiplicity=int(m)) for f, m in released]
