"""Puts records into the leaf groups of a hierarchy, and releases the lists of all its groups.

Beam and the engine of one process share these kernels. In tables, the name of a leaf group is its
place in ``HierarchySpec.groups``, as text. ``releases.hierarchy`` has the privacy argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.attributes import attribute_text
from dp_transforms.columnar.columns import PARTITION, USER, plain
from dp_transforms.engines.list_kernels import listed
from dp_transforms.errors import without_originals
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.partition.hierarchy import release_lists_of_tree
from dp_transforms.mechanisms.tape_contexts import purpose_of_group, purpose_of_level
from dp_transforms.releases import HierarchySpec
from dp_transforms.releases.hierarchy import Path
from dp_transforms.runtime.job_secret import JobSecret, tape_of_list


def columns_of(spec: HierarchySpec) -> tuple[str, ...]:
    """Returns the columns of records that the release reads."""
    if spec.partition_groups is not None:
        return USER, PARTITION
    return USER, PARTITION, *spec.levels


class LeafGroups:
    """Puts records into the leaf groups of a hierarchy.

    The constructor turns the names of groups into arrays, once. For many groups that takes longer
    than to look up a batch of records.
    """

    def __init__(self, spec: HierarchySpec):
        self._partitions: _PlaceOf | None = None
        self._levels: list[_Level] = []
        if spec.partition_groups is not None:
            partitions, groups = spec.partition_groups
            self._partitions = _PlaceOf(
                pa.array(partitions, pa.string()), pa.array(groups, pa.int64())
            )
            return
        self._levels = [
            _Level(level, parents, [path[-1] for path in paths])
            for level, parents, paths in zip(spec.levels, spec.parents, spec.paths[1:], strict=True)
        ]
        place_of_path = {path: place for place, path in enumerate(spec.groups)}
        self._leaves = pa.array([place_of_path[path] for path in spec.paths[-1]], pa.int64())

    def __call__(self, table: pa.Table) -> pa.Table:
        """Returns the users and partitions of records with their leaf groups, in the form of
        ``listed``.

        A record outside of all groups is dropped here, before users are bounded. So it cannot take
        the place of another record then. A partition in two groups makes two different pairs.
        """
        columns = {name: plain(table[name], name) for name in (USER, PARTITION)}
        if self._partitions is not None:
            place = self._partitions(attribute_text(columns[PARTITION], "partition"))
        else:
            # From the list of everything, which is the only one at its level, down to the leaves.
            place = pa.repeat(pa.scalar(0, pa.int64()), table.num_rows)
            for level in self._levels:
                place = level.places(attribute_text(table[level.column], level.column), place)
            place = self._leaves.take(place)
        is_known = place.is_valid()
        kept = pa.table(columns).filter(is_known)
        return listed(kept, place.filter(is_known).cast(pa.string()))


class _PlaceOf(NamedTuple):
    """Maps each of ``keys`` to the number at its index in ``place``, and other keys to null."""

    keys: pa.Array
    place: pa.Array

    def __call__(self, keys: pa.Array) -> pa.Array:
        return self.place.take(pc.index_in(keys, value_set=self.keys))


class _Level:
    """One level of a hierarchy, which finds a group by its name and the group above it.

    Args:
      column: the column of records that names the groups of the level.
      parents: for each group the place of the group above, in the level above.
      names: the name of each group.
    """

    def __init__(self, column: str, parents: Sequence[int], names: Sequence[str]):
        self.column = column
        self._names = pa.array(sorted(set(names)), pa.string())
        codes = pc.index_in(pa.array(names, pa.string()), value_set=self._names)
        self._groups = self._keys(pa.array(parents, pa.int64()), codes)

    def places(self, names: pa.Array, parents: pa.Array) -> pa.Array:
        """Returns for each name the place of its group in this level, or null if there is none.

        Args:
          names: names of groups of this level.
          parents: for each name the place of the group above.
        """
        codes = pc.index_in(names, value_set=self._names)
        return pc.index_in(self._keys(parents, codes), value_set=self._groups)

    def _keys(self, parents: pa.Array, codes: pa.Array) -> pa.Array:
        """Returns a different number for each pair of a group above and the code of a name."""
        return pc.add(pc.multiply(parents.cast(pa.int64()), len(self._names)), codes)


def claim(spec: HierarchySpec, secret: JobSecret, data: object) -> None:
    """Claims the secret for the lists of a hierarchy of some data: see ``JobSecret.claim``."""
    for depth, mechanism in enumerate(spec.mechanisms):
        secret.claim(data, f"{purpose_of_level(depth)} by {identifier(mechanism)}")


@without_originals()
def release_histograms(
    histograms: Mapping[str, Mapping[int, int]], spec: HierarchySpec, secret: JobSecret
) -> list[tuple[Path, ReleasedList]]:
    """Returns (path, released list) for all groups, from the top down.

    Args:
      histograms: for each leaf group that has partitions, by its name in tables (see the module):
        how many partitions have each count of users.
      spec: the hierarchy.
      secret: all random numbers are derived from it.
    """
    paths = spec.paths
    sums: list[dict[Path, Counter[int]]] = [{path: Counter() for path in level} for level in paths]
    for place, leaf in enumerate(spec.groups):
        histogram = histograms.get(str(place), {})
        for depth, sums_of_level in enumerate(sums):
            sums_of_level[leaf[:depth]].update(histogram)
    lists = [[FrequencyList.from_histogram(total) for total in level.values()] for level in sums]
    tapes = [
        [
            tape_of_list(frequency_list, mechanism, secret, purpose_of_group(depth, path))
            for path, frequency_list in zip(paths[depth], lists[depth], strict=True)
        ]
        for depth, mechanism in enumerate(spec.mechanisms)
    ]
    most = None
    if spec.most_partitions is not None:
        of_group = dict(zip(spec.groups, spec.most_partitions, strict=True))
        most = [of_group[path] for path in paths[-1]]
    released = release_lists_of_tree(lists, spec.parents, spec.mechanisms, tapes, most)
    labelled: list[tuple[Path, ReleasedList]] = []
    for paths_of_level, lists_of_level in zip(paths, released, strict=True):
        labelled.extend(zip(paths_of_level, lists_of_level, strict=True))
    return labelled
