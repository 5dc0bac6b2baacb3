"""Releases the lists of a public hierarchy, which add up.

``dp_transforms.releases.hierarchy`` has the privacy argument.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.batching import ToNamedTables, ToTables
from dp_transforms.beam.bounds import ReleaseTransform, refuse_counts
from dp_transforms.beam.contributions import CountDistinctUsers
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.release import ON_ONE_WORKER
from dp_transforms.beam.shuffle import ReduceByHash
from dp_transforms.columnar import counting
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.engines import hierarchy_kernels
from dp_transforms.engines.list_kernels import histograms
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS, route_by
from dp_transforms.releases import HierarchySpec
from dp_transforms.releases.hierarchy import PartitionGroups, in_order
from dp_transforms.runtime.job_secret import JobSecret


class ReleaseHierarchy(ReleaseTransform, beam.PTransform):
    """Releases the lists of all groups of a public hierarchy; they add up exactly.

    Returns (path, ReleasedList) for each group, from the top down. A group's path is a tuple of
    names: that of the group that contains it at each level, and last its own. Everything has the
    path ().

    Takes Arrow tables with the columns ``user``, ``partition`` and one for each level; rows with
    such fields; or tuples (user, partition, name, ...) in the order of the levels. With
    ``partition_groups``, records have no columns of levels.

    Args:
      levels, groups, epsilon, max_partitions_per_user, shares: see ``release_hierarchy``. Here
        groups are tuples of names.
      partition_groups: a public table of the leaf group of each partition, as a
        ``releases.hierarchy.PartitionGroups``.
      most_partitions: see ``release_hierarchy``.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``HierarchySpec`` with these arguments.

    Raises:
      ValueError, TypeError: in the cases of ``BoundContributions``; if an argument is out of range;
        or, at run time, if names of groups have a type that cannot be used.

    >>> records = [("ann", "jazz", "music"), ("bob", "jazz", "music"), ("cy", "chess", "games")]
    >>> release = ReleaseHierarchy(
    ...     levels=["topic"], groups=[("music",), ("games",)], epsilon=100,
    ...     max_partitions_per_user=1,
    ... )
    >>> with beam.Pipeline() as pipeline:
    ...     lists = pipeline | beam.Create(records) | release
    ...     named = lists | beam.MapTuple(lambda path, released: (path, list(released)))
    ...     _ = named | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [((), [(2, 1), (1, 1)]), (('games',), [(1, 1)]), (('music',), [(2, 1)])]
    """

    def __init__(
        self,
        *,
        levels: Sequence[str],
        groups: Sequence[tuple[str, ...]],
        epsilon: Number,
        max_partitions_per_user: int,
        shares: Sequence[Number] | None = None,
        partition_groups: PartitionGroups | None = None,
        most_partitions: Sequence[int] | None = None,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self.spec = HierarchySpec(
            levels=levels,
            groups=groups,
            epsilon=epsilon,
            max_partitions_per_user=max_partitions_per_user,
            shares=shares,
            partition_groups=partition_groups,
            most_partitions=most_partitions,
        )
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_counts(records, "ReleaseHierarchy")
        secret, spec = secret_for(records.pipeline, self._secret), self.spec
        hierarchy_kernels.claim(spec, secret, records)
        names = hierarchy_kernels.columns_of(spec)
        in_groups = hierarchy_kernels.LeafGroups(spec)
        bound = functools.partial(
            distinct_pairs,
            at_most=spec.max_partitions_per_user,
            key=secret.key(BOUND_CONTRIBUTIONS),
        )
        count = CountDistinctUsers(
            already_distinct=True, secret=secret, num_buckets=self._num_buckets
        )
        release = functools.partial(_release, spec=spec, secret=secret)
        return (
            records
            | "Named" >> ToNamedTables(names)
            | "InGroups" >> beam.Map(in_groups).with_output_types(pa.Table)
            | "ToTables" >> ToTables((USER, PARTITION))
            | "Bound" >> ReduceByHash(bound, (USER,), secret.key(route_by(USER)), self._num_buckets)
            | "Count" >> count
            | "Histograms" >> beam.FlatMap(histograms)
            | "Merge" >> beam.CombinePerKey(counting.add_histograms)
            | "Gather" >> beam.combiners.ToDict()
            | "Release" >> beam.FlatMap(release).with_resource_hints(**ON_ONE_WORKER)
            # This gathers the lists, so that runners do not fuse later steps with the release.
            | "Lists" >> beam.combiners.ToList()
            | "InOrder"
            >> beam.FlatMap(in_order).with_output_types(tuple[tuple[str, ...], ReleasedList])
        )

    def display_data(self) -> dict[str, Any]:
        spec = self.spec
        return {
            "levels": ", ".join(spec.levels),
            "groups": len(spec.groups),
            "epsilon": float(spec.cost.epsilon),
            "max_partitions_per_user": spec.max_partitions_per_user,
        }


def _release(
    histograms_of_groups: Mapping[str, Mapping[int, int]], spec: HierarchySpec, secret: JobSecret
) -> list[tuple[tuple[str, ...], ReleasedList]]:
    return hierarchy_kernels.release_histograms(histograms_of_groups, spec, secret)
