"""Puts records into the leaf groups of a hierarchy, and releases the lists of all of its groups.

Beam and the engine of one process share these kernels. A leaf group is named by its place in
``HierarchySpec.groups``, as text. ``releases.hierarchy`` has the privacy argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import attribute_text
from dp_transforms.columnar.columns import PARTITION, USER, plain
from dp_transforms.engines.list_kernels import listed
from dp_transforms.errors import without_originals
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.partition.hierarchy import release_lists_of_tree
from dp_transforms.releases import HierarchySpec
from dp_transforms.releases.hierarchy import Path
from dp_transforms.runtime.job_secret import JobSecret, tape_of_list


def columns_of(spec: HierarchySpec) -> tuple[str, ...]:
    """Returns the columns of records that the release reads."""
    return USER, PARTITION, *(() if spec.partition_groups else spec.levels)


def in_leaf_groups(table: pa.Table, spec: HierarchySpec) -> pa.Table:
    """Returns the pairs of users and partitions, as by ``listed``, in their leaf groups.

    A record outside of all groups is dropped, before it can take the place of another one when
    users are bounded. Two groups that have a partition make two pairs of it.
    """
    columns = {name: plain(table[name], name) for name in (USER, PARTITION)}
    if spec.partition_groups is not None:
        text = attribute_text(columns[PARTITION], "partition")
        known = pa.array(spec.partition_groups.partitions, pa.string())
        row = pc.index_in(text, value_set=known)
        place = pa.array(spec.partition_groups.groups, pa.int64()).take(row)
    else:
        # Level by level: the place of a record's path among those of the level.
        place = pa.repeat(0, table.num_rows)
        for depth, level in enumerate(spec.levels, 1):
            named = [
                f"{parent} {path[-1]}"
                for parent, path in zip(spec.parents[depth - 1], spec.paths[depth], strict=True)
            ]
            text = attribute_text(table[level], level)
            found = pc.binary_join_element_wise(place.cast(pa.string()), text, " ")
            place = pc.index_in(found, value_set=pa.array(named, pa.string()))
        order = {path: place for place, path in enumerate(spec.groups)}
        given = pa.array([order[path] for path in spec.paths[-1]], pa.int64())
        place = given.take(place)
    is_known = place.is_valid()
    kept = pa.table(columns).filter(is_known)
    return listed(kept, place.filter(is_known).cast(pa.string()))


def claim(spec: HierarchySpec, secret: JobSecret, data: object) -> None:
    """Notes that the secret serves the lists of a hierarchy of some data: see ``JobSecret``."""
    for depth, mechanism in enumerate(spec.mechanisms):
        secret.claim(data, f"{_purpose(depth)} by {identifier(mechanism)}")


@without_originals()
def release_histograms(
    histograms: Mapping[str, Mapping[int, int]], spec: HierarchySpec, secret: JobSecret
) -> list[tuple[Path, ReleasedList]]:
    """Releases the lists of all groups, from the top down, from {count: number of partitions} of
    the leaf groups that have any."""
    paths = spec.paths
    sums: list[dict[Path, Counter[int]]] = [{path: Counter() for path in level} for level in paths]
    for place, leaf in enumerate(spec.groups):
        histogram = histograms.get(str(place), {})
        for depth, level in enumerate(sums):
            level[leaf[:depth]].update(histogram)
    lists = [[FrequencyList.from_histogram(level[path]) for path in level] for level in sums]
    tapes = [
        [
            tape_of_list(frequency_list, mechanism, secret, f"{_purpose(depth)} {path!r}")
            for path, frequency_list in zip(paths[depth], lists[depth], strict=True)
        ]
        for depth, mechanism in enumerate(spec.mechanisms)
    ]
    most = None
    if spec.most_partitions is not None:
        of_group = dict(zip(spec.groups, spec.most_partitions, strict=True))
        most = [of_group[path] for path in paths[-1]]
    released = release_lists_of_tree(lists, spec.parents, spec.mechanisms, tapes, most)
    return [
        labelled
        for level, of_level in zip(paths, released, strict=True)
        for labelled in zip(level, of_level, strict=True)
    ]


def _purpose(depth: int) -> str:
    return f"lists of level {depth} of a hierarchy"
