"""Frequency lists of overlapping groups of the same users, under one composed budget.

Records carry attributes of their users, such as gender, age band and language. Released are the
list of all users and one for each value of each attribute, as of the Yahoo! passwords (Bonneau,
"The science of guessing", IEEE S&P 2012; Blocki, Datta and Bonneau, NDSS 2016).

Neighbours: one input is the other with all records of one user added. The argument, for any value
of the secret that keys the bounding:

1. Which partitions are kept of a user (at most kappa), and which value of each attribute (at most
   one), depends on the user's own records alone. So the bounded inputs are equal but for that user.
2. The list of all users moves by at most kappa in L1. Its release is epsilon_all-DP.
3. For one attribute, the user is in one group at most. That group's list moves by at most kappa,
   and the lists of the other groups are the same. Each is released with random numbers of its own,
   so the lists of one attribute are together as private as one of them: parallel composition.
4. Each of the a attributes gets epsilon_groups / a, and these add up: sequential composition.
5. Group names are public, or else selected: a user counts in one group of each attribute to select,
   so (epsilon, delta)-DP for all names together. A name that no user has is never selected, and the
   lists of names that are not selected are dropped, whatever they are: that is post-processing.

Altogether (epsilon_all + epsilon_groups + selection.epsilon, selection.delta)-DP, and pure if all
names are public. All consumers read the same bounded records.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.attributes import bound_users, in_lists_by, listed, users_of_lists
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.frequency_release import NamedList, ReleaseNamedLists
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Real
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.integer_partition.choice import AUTO, partition_mechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.runtime.attribute_tables import Attribute as Attribute
from dp_transforms.runtime.attribute_tables import ToAttributeTables, attribute_column
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.bounds import Releases
from dp_transforms.runtime.records import refuse_windows
from dp_transforms.runtime.shuffle import OnThreads, ReduceByHash
from dp_transforms.selection import SelectPartitions

ALL_USERS = ""
"""The attribute and the group of the list of all users."""
SELECTION = "names of groups"
ALL_USERS_LIST = "list of all users"


def list_purpose(attribute: str, group: str) -> str:
    """The purpose under which a group's list is released (see ``release_frequency_list``)."""
    return f"frequency list of {attribute!r} {group!r}"


class ReleaseGroupedLists(Releases, beam.PTransform):
    """Releases the list of all users and one for each group: (attribute, group, ReleasedList).

    See the module for what it guarantees, and why. The list of all users has the attribute and the
    group ``ALL_USERS``.

    Takes Arrow tables with the columns ``user``, ``partition`` and one for each attribute; rows
    with such fields; or tuples (user, partition, value, ...) with the values in the order of the
    attributes. A user with several values of an attribute is in one of these groups, as the secret
    decides.

    Args:
      attributes: one at least.
      epsilon_all: for the list of all users.
      epsilon_groups: for the lists of all groups; each attribute gets an equal part.
      max_partitions_per_user: kappa.
      selection: the budget for the names of groups, if any attribute's are not public.
      mechanism: what releases the lists, as for ``partition_mechanism``.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users, or partitions, are split into.

    Attributes:
      attributes, selection: as given.
      strategy: selects the names of groups; None if all of them are public.
      for_all: releases the list of all users.
      for_group: releases the list of a group.

    Raises:
      ValueError: an argument is out of range or missing, attributes have one name, the input is
        unbounded or windowed, the job is a classic template; at run time, there are nulls.
      TypeError, at run time: values have a type that cannot be used.

    >>> records = [("ann", "jazz", "f"), ("bob", "jazz", "m"), ("cy", "rock", "m")]
    >>> release = ReleaseGroupedLists(
    ...     [Attribute("gender", ("f", "m", "x"))],
    ...     epsilon_all=50, epsilon_groups=50, max_partitions_per_user=1,
    ... )
    >>> with beam.Pipeline() as pipeline:
    ...     lists = pipeline | beam.Create(records) | release
    ...     found = lists | beam.MapTuple(lambda attribute, group, found: (group, list(found)))
    ...     _ = found | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [('', [(2, 1), (1, 1)]), ('f', [(1, 1)]), ('m', [(1, 2)]), ('x', [])]
    """

    def __init__(
        self,
        attributes: Sequence[Attribute],
        *,
        epsilon_all: Real,
        epsilon_groups: Real,
        max_partitions_per_user: int,
        selection: PrivacyBudget | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._mechanism_name = mechanism
        self.attributes = tuple(attributes)
        if not all(isinstance(attribute, Attribute) for attribute in self.attributes):
            raise TypeError('attributes must be Attributes, such as Attribute("country")')
        names = [attribute.name for attribute in self.attributes]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"attributes must have different names, one at least, got {names}")
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._all_budget = PrivacyBudget(epsilon_all)
        self._attribute_budget = PrivacyBudget(epsilon_groups).split(len(names))
        self.for_all = self._mechanism(self._all_budget)
        self.for_group = self._mechanism(self._attribute_budget)
        to_select = sum(attribute.groups is None for attribute in self.attributes)
        if (selection is None) != (to_select == 0):
            raise ValueError(
                "selection must be given if, and only if, an attribute has no public groups"
            )
        self.selection = selection
        self._to_select = to_select
        # Its arguments are checked now.
        self.strategy = None if selection is None else self._select(None).strategy
        self._secret = secret
        self._num_buckets = num_buckets

    def in_buckets(self, num_buckets: int) -> ReleaseGroupedLists:
        """The same, secret included, with the work in ``num_buckets`` parts."""
        release = copy.copy(self)
        release._num_buckets = num_buckets
        return release

    @property
    def costs(self) -> dict[str, PrivacyBudget]:
        """The cost of each part of the release, by the part's name; the costs add up."""
        costs = {ALL_USERS_LIST: self._all_budget}
        for attribute in self.attributes:
            costs[f"lists of groups by {attribute.name}"] = self._attribute_budget
        if self.selection is not None:
            costs[SELECTION] = self.selection
        return costs

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        secret = secret_for(records.pipeline, self._secret)
        columns = [attribute_column(i) for i in range(len(self.attributes))]
        bound = functools.partial(
            bound_users,
            at_most=self._kappa,
            key=secret.key("bound contributions"),
            attribute_keys={
                column: secret.key(f"value of attribute {attribute.name!r}")
                for column, attribute in zip(columns, self.attributes, strict=True)
            },
        )
        bounded = (
            records
            | "ToAttributeTables" >> ToAttributeTables(self.attributes)
            | "ToTables" >> ToTables((USER, PARTITION, *columns))
            | "Bound" >> ReduceByHash(bound, (USER,), secret.key("route users"), self._num_buckets)
        )
        public = [ALL_USERS] + [
            _list_name(i, group)
            for i, attribute in enumerate(self.attributes)
            for group in attribute.groups or ()
        ]
        wanted = records.pipeline | "Public" >> beam.Create(
            [(name, None) for name in public], reshuffle=False
        )
        if self.selection is not None:
            selected = self._selected(bounded, secret)
            wanted = (wanted, selected) | "Wanted" >> beam.Flatten()
        in_lists = functools.partial(_in_lists, attributes=len(columns))
        kind = tuple[str, str, ReleasedList]
        return (
            bounded
            | "InLists" >> beam.ParDo(OnThreads(in_lists)).with_output_types(pa.Table)
            | "Release"
            >> ReleaseNamedLists(wanted, self._of_name(), kind, secret, self._num_buckets)
        )

    def _of_name(self) -> Callable[[str], NamedList]:
        names = [attribute.name for attribute in self.attributes]
        return functools.partial(
            _of_group, attributes=names, for_all=self.for_all, for_group=self.for_group
        )

    def _selected(self, bounded: beam.PCollection, secret: JobSecret) -> beam.PCollection:
        indices = [i for i, one in enumerate(self.attributes) if one.groups is None]
        users = functools.partial(_users_of_lists, attributes=indices)
        return (
            bounded
            | "UsersOfGroups" >> beam.ParDo(OnThreads(users)).with_output_types(pa.Table)
            | "Select" >> self._select(secret)
            | "Selected" >> beam.FlatMap(_selected_names)
        )

    def _select(self, secret: JobSecret | None) -> SelectPartitions:
        assert self.selection is not None
        return SelectPartitions(
            self.selection.epsilon,
            self.selection.delta,
            self._to_select,
            already_bounded=True,
            purpose=SELECTION,
            secret=secret,
        )

    def _mechanism(self, budget: PrivacyBudget) -> PartitionMechanism:
        return partition_mechanism(budget.epsilon, self._kappa, self._mechanism_name)

    def display_data(self) -> dict[str, Any]:
        return {
            "attributes": ", ".join(attribute.name for attribute in self.attributes),
            "mechanism_of_all": type(self.for_all).__name__,
            "mechanism_of_groups": type(self.for_group).__name__,
            "epsilon_all": self.for_all.epsilon_cost,
            "epsilon_of_each_attribute": self.for_group.epsilon_cost,
            "max_partitions_per_user": self._kappa,
        }


def _in_lists(table: pa.Table, attributes: int) -> Iterator[pa.Table]:
    """A table of bounded users, once for all of them and once for each attribute."""
    yield listed(table, pa.repeat(ALL_USERS, table.num_rows))
    for i in range(attributes):
        yield in_lists_by(table, attribute_column(i), _list_name(i, ""))


def _users_of_lists(table: pa.Table, attributes: Sequence[int]) -> Iterator[pa.Table]:
    for i in attributes:
        yield users_of_lists(in_lists_by(table, attribute_column(i), _list_name(i, "")))


def _selected_names(table: pa.Table) -> list[tuple[str, None]]:
    return [(name, None) for name in table[PARTITION].to_pylist()]


def _of_group(
    name: str, attributes: Sequence[str], for_all: PartitionMechanism, for_group: PartitionMechanism
) -> NamedList:
    attribute, group, mechanism = ALL_USERS, ALL_USERS, for_all
    if name != ALL_USERS:
        index, _, group = name.partition("=")
        attribute, mechanism = attributes[int(index)], for_group
    label = attribute, group
    return NamedList(label, label, mechanism, list_purpose(*label))


def _list_name(index: int, group: str) -> str:
    return f"{index}={group}"
