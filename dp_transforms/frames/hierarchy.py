"""Releases the lists of a public hierarchy from records of this process, or of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.errors import hiding_originals
from dp_transforms.files.frame_records import Names
from dp_transforms.files.public_groups import read_groups
from dp_transforms.frames.api import run_spec
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.releases import HierarchyReleases, HierarchySpec
from dp_transforms.releases.hierarchy import PartitionGroups
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.python_values import several_names

if TYPE_CHECKING:
    from dp_transforms.frames.payer import Payer


@hiding_originals
def release_hierarchy(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    levels: Sequence[str],
    groups: Any,
    epsilon: Number,
    max_partitions_per_user: int,
    shares: Sequence[Number] | None = None,
    most_partitions: Sequence[int] | None = None,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> HierarchyReleases:
    """Releases the lists of all groups of a public hierarchy; they add up exactly.

    Groups lie in levels: counties in states, say, below the list of everything. The released list
    of each group has the partitions of its children's together. All lists are decoded together:
    small groups borrow the shape of the group above, as much as the noise of their own numbers
    asks for.

    It is epsilon-DP for adding or removing all records of one user; ``releases.hierarchy`` has the
    proof. A level costs its share of epsilon, whatever the number of its groups.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      levels: names of the levels, from the top down: columns of the records, and of ``groups``. A
        partition with records in two groups counts in each, as two partitions.
      groups: the public groups of the lowest level, made without looking at the records: a list of
        tuples with a name for each level; or a table (a frame, a dictionary of columns, or the path
        of a CSV file) with these columns. Records of other groups are left out. If it has the
        column of partitions as well, it says in which group each partition is: then records need
        no columns of levels, and records of other partitions are left out.
      epsilon: the cost of all lists together.
      max_partitions_per_user: kappa, the most partitions in which one user counts, in all groups
        together.
      shares: how epsilon is divided, as numbers for everything and for each level; equal by
        default. Public: choose them without looking at the records.
      most_partitions: public upper bounds on the numbers of partitions of the groups, in their
        order, such as the numbers of homes of counties. They cost nothing, and small groups come
        out much nearer. By default they are counted in ``groups`` if it has the partitions. A
        released list may exceed its bound where it must for lists to add up.

    Returns:
      A mapping from the path of each group, such as ("Texas", "Harris"), to its ``ListRelease``;
      everything is at ().

    >>> import dp_transforms as dp
    >>> homes = {
    ...     "person": list(range(7)), "home": [1, 1, 1, 2, 3, 3, 4],
    ...     "state": ["TX"] * 6 + ["UT"], "county": ["Harris"] * 4 + ["Travis"] * 2 + ["Utah"],
    ... }
    >>> lists = dp.release_hierarchy(
    ...     homes, user="person", partition="home", levels=["state", "county"],
    ...     groups=[("TX", "Harris"), ("TX", "Travis"), ("UT", "Utah")],
    ...     epsilon=150, max_partitions_per_user=1,
    ... )
    >>> list(lists["TX",].released), list(lists["TX", "Harris"].released)
    ([(3, 1), (2, 1), (1, 1)], [(3, 1), (1, 1)])
    """
    paths, of_partitions = read_groups(groups, levels, several_names(partition))
    spec = HierarchySpec(
        levels=levels,
        groups=paths,
        epsilon=epsilon,
        max_partitions_per_user=max_partitions_per_user,
        shares=shares,
        most_partitions=most_partitions,
        partition_groups=of_partitions and PartitionGroups(*of_partitions),
    )
    columns = [] if of_partitions else [*spec.levels]
    records = data, user, partition, drop_nulls, columns
    (lists,), statement = run_spec(spec, session, secret, *records)
    return HierarchyReleases(dict(lists), statement)
