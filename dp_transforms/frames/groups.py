"""Releases a list for each group of users, for each group of a hierarchy, or for each attribute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.errors import hiding_originals
from dp_transforms.files.frame_records import Names, RecordArguments, listed_names
from dp_transforms.files.public_groups import read_groups, text_of_name
from dp_transforms.frames.lists import survey_options
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import run_spec
from dp_transforms.mechanisms.arguments import listed
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.releases import (
    Attribute,
    AttributeReleases,
    AttributesSpec,
    GroupAllRecordsReleases,
    GroupAllRecordsSpec,
    GroupReleases,
    GroupsSpec,
    HierarchyReleases,
    HierarchySpec,
)
from dp_transforms.releases.groups import GroupedSpec
from dp_transforms.releases.hierarchy import PartitionGroups
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.python_values import column_name, several_names


@hiding_originals
def release_groups(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    groups: Mapping[str, Sequence[str] | None],
    epsilon_all: Number,
    epsilon_groups: Number,
    max_partitions_per_user: int | None = None,
    survey: bool | Number | None = None,
    largest_degree: int | None = None,
    epsilon_selection: Number | None = None,
    delta: Number | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> GroupReleases:
    """Releases the list of all users and that of each group of users, under one budget.

    The privacy unit is one user: neighbouring data differ by all records of one user.
    ``beam.grouped`` has the proof.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      groups: maps each column of groups, such as "gender", to its public values, or to None if
        values are to be selected. Each value gets a list.
      epsilon_all: the cost of the list of all users.
      epsilon_groups: the cost of the lists of all groups; each column gets an equal part.
      max_partitions_per_user, survey, largest_degree: see ``release``. By default each list has a
        survey and a kappa of its own, and answers are about all records.
      epsilon_selection, delta: the cost of selecting values, for columns with None.

    Returns:
      A mapping from (column, value) to a ``ListRelease``, or with surveys to an
      ``AllRecordsRelease``; all users are at ("", "").

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 2, 3], "page": ["a", "a", "b"], "sex": ["f", "m", "m"]}
    >>> lists = dp.release_groups(
    ...     visits, user="who", partition="page", groups={"sex": ["f", "m"]}, epsilon_all=100,
    ...     epsilon_groups=100, max_partitions_per_user=1,
    ... )
    >>> list(lists["", ""].released), list(lists["sex", "m"].released)
    ([(2, 1), (1, 1)], [(1, 2)])
    """
    if not isinstance(groups, Mapping):
        raise TypeError("groups must map columns to their values, such as {'sex': ['f', 'm']}")
    if not groups:
        raise ValueError("groups must map one column at least to its values")
    for name in groups:
        column_name("groups", name)
    selection = None
    if epsilon_selection is not None and delta is not None:
        selection = PrivacyBudget(epsilon_selection, delta)
    selects = any(values is None for values in groups.values())
    if (epsilon_selection is not None) != selects or (delta is not None) != selects:
        raise ValueError("epsilon_selection and delta go with None as the groups of a column")
    options: dict[str, Any] = {
        "attributes": [
            Attribute(str(name), _group_names(values)) for name, values in groups.items()
        ],
        "epsilon_all": epsilon_all,
        "epsilon_groups": epsilon_groups,
        "max_partitions_per_user": max_partitions_per_user,
        "selection": selection,
        "mechanism": mechanism,
    }
    spec: GroupedSpec
    of_survey = survey_options(max_partitions_per_user, survey, largest_degree)
    if of_survey is None:
        spec = GroupsSpec(**options)
    else:
        spec = GroupAllRecordsSpec(**options, **of_survey)
    records = RecordArguments(data, user, partition, drop_nulls, groups=[*groups])
    (lists,), statement = run_spec(spec, session, secret, records)
    released = {(attribute, group): element for attribute, group, element in lists}
    if isinstance(spec, GroupAllRecordsSpec):
        statement |= spec.tables.entries(lists)
        return GroupAllRecordsReleases.of_surveyed(released, statement)
    return GroupReleases.of(released, statement)


def _group_names(values: Any) -> Any:
    """Returns the texts that the values of a column of groups have in records.

    Anything else than several values is returned as it is: None, or what ``Attribute`` refuses.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        return values
    return tuple(map(text_of_name, values))


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

    Groups lie in levels below the list of everything, for example states and the counties in each.
    The released list of a group has the partitions of its children's lists together. All lists are
    decoded together: small groups borrow the shape of the group above, the more the larger the
    noise of their own numbers is.

    The release is epsilon-DP for adding or removing all records of one user; ``releases.hierarchy``
    has the proof. A level costs its share of epsilon, whatever the number of its groups.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      levels: names of the levels, from the top down. They are columns of the records, and of
        ``groups``. A partition with records in two groups counts in each, as two partitions.
      groups: the public groups of the lowest level, made without looking at the records: a list of
        tuples with a name for each level; or a table (a frame, a dictionary of columns, or the path
        of a CSV file) with these columns. Records of other groups are left out. The table may have
        the column of partitions as well, and so say in which group each partition is. Then records
        need no columns of levels, and records of other partitions are left out.
      epsilon: the cost of all lists together.
      max_partitions_per_user: kappa, the most partitions in which one user counts, in all groups
        together.
      shares: how epsilon is divided: a number for everything and one for each level; equally by
        default. They are public: choose them without looking at the records.
      most_partitions: public upper bounds on the numbers of partitions of the groups, in their
        order, such as the numbers of homes of counties. They cost nothing, and make the lists of
        small groups much more accurate. By default they are counted in ``groups`` if it has the
        partitions. No released list exceeds its bound.

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
    levels = listed("levels", levels)
    paths, of_partitions = read_groups(groups, levels, several_names(partition), user)
    partition_groups = None if of_partitions is None else PartitionGroups(*of_partitions)
    spec = HierarchySpec(
        levels=levels,
        groups=paths,
        epsilon=epsilon,
        max_partitions_per_user=max_partitions_per_user,
        shares=shares,
        most_partitions=most_partitions,
        partition_groups=partition_groups,
    )
    columns = [] if partition_groups is not None else [*spec.levels]
    records = RecordArguments(data, user, partition, drop_nulls, groups=columns)
    (lists,), statement = run_spec(spec, session, secret, records)
    return HierarchyReleases(dict(lists), statement)


@hiding_originals
def release_attributes(
    data: Any,
    user: str | int,
    *,
    attributes: Sequence[str | int | Sequence[str | int]],
    epsilon: Number,
    shares: Mapping[Any, Number] | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> AttributeReleases:
    """Releases how users are distributed over the values of each attribute, without the values.

    All lists together are epsilon-DP for adding or removing all records of one user;
    ``releases.attributes`` has the proof. A user counts for each attribute with one value, chosen
    at random if the records of the user have several. A null or an empty text is no value: replace
    it, for example by "none", if users without a value are to count as equal.

    Args:
      data, user, mechanism, drop_nulls, session, secret: see ``release``, also for errors.
      attributes: for each list a column of text, integers, booleans or dates; or a tuple of
        several, whose combinations are its values.
      epsilon: the cost of all lists together.
      shares: maps attributes to their shares of epsilon, relative to one another; an attribute that
        it leaves out has the share 1. They are public: choose them without looking at the data.

    Returns:
      A mapping from each attribute, as it was given, to a ``ListRelease``.

    >>> import dp_transforms as dp
    >>> browsers = {"id": [1, 2, 3], "os": ["linux", "linux", "bsd"], "font": ["a", "b", None]}
    >>> lists = dp.release_attributes(
    ...     browsers, user="id", attributes=["os", "font", ("os", "font")], epsilon=300
    ... )
    >>> list(lists["os"].released), list(lists["os", "font"].released)
    ([(2, 1), (1, 1)], [(1, 2)])
    >>> lists["os"].unique_users().value
    1
    """
    if isinstance(attributes, (str, bytes)) or not isinstance(attributes, Sequence):
        raise TypeError("attributes must be a list of columns, such as ['os', ('os', 'fonts')]")
    if not isinstance(shares, Mapping | None):
        raise TypeError("shares must map attributes to numbers, such as {'fonts': 2}")
    if shares is not None:
        shares = {_attribute(columns): share for columns, share in shares.items()}
    spec = AttributesSpec(
        attributes=[_attribute(columns) for columns in attributes],
        epsilon=epsilon,
        shares=shares,
        mechanism=mechanism,
    )
    with listed_names("attributes", spec.columns):
        records = RecordArguments(data, user, None, drop_nulls, attributes=spec.columns)
        (lists,), statement = run_spec(spec, session, secret, records)
    return AttributeReleases(dict(lists), statement)


def _attribute(given: Any) -> str | tuple[str, ...]:
    """Returns an attribute with the names of its columns as text."""
    if isinstance(given, (list, tuple)):
        return tuple(str(column_name("attributes", name)) for name in given)
    return str(column_name("attributes", given))
