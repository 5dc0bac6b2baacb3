"""A transform that releases the lists of overlapping groups of the same users, under one budget.

Records carry attributes of their users, such as gender, age band and language. The release has the
list of all users, and one list for each value of each attribute. The release of the Yahoo!
passwords has this form (Bonneau, "The science of guessing", IEEE S&P 2012; Blocki, Datta and
Bonneau, NDSS 2016). It is (epsilon_all + epsilon_groups + selection.epsilon, selection.delta)-DP.
If all names of groups are public, nothing is selected, and it is pure.

Neighbours: one input is the other with all records of one user added. Proof, for any value of the
secret that keys the bounding:

1. A user's own records alone decide which partitions (at most kappa), and which value of each
   attribute (at most one), are kept. All later steps read the bounded inputs only, and these are
   equal except for that user.
2. The list of all users moves by at most kappa in L1. Its release is epsilon_all-DP.
3. For one attribute, the user is in at most one group. That group's list moves by at most kappa,
   and the lists of the other groups are the same. Each is released with random numbers of its own,
   so the lists of one attribute are together as private as one of them: parallel composition.
4. Each of the a attributes gets epsilon_groups / a, and these add up: sequential composition.
5. Group names are public, or else selected. A user counts in one group of each attribute to select,
   which makes all names together (epsilon, delta)-DP. A name that no user has is never selected,
   and to drop the lists of names that were not selected is post-processing. QED.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.all_records import release_surveyed_lists
from dp_transforms.beam.batching import ToNamedTables, ToTables
from dp_transforms.beam.bounds import ReleaseTransform, refuse_bounded, refuse_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import refuse_windows
from dp_transforms.beam.release import release_named_lists
from dp_transforms.beam.selection import SelectPartitions
from dp_transforms.beam.shuffle import OnThreads, ReduceByHash, on_threads
from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.columns import USER
from dp_transforms.engines import list_kernels
from dp_transforms.engines.survey_kernels import survey_of_group
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.mechanisms.tape_contexts import route_by
from dp_transforms.postprocessing.survey_plan import SURVEY_MAX_DEGREE
from dp_transforms.releases import Attribute, GroupAllRecordsSpec, GroupsSpec
from dp_transforms.releases.base import arguments
from dp_transforms.releases.groups import GroupedSpec
from dp_transforms.releases.surveys import SurveyedList
from dp_transforms.runtime.job_secret import JobSecret


class _ByGroup(ReleaseTransform, beam.PTransform):
    """The common part of the releases by group: bounds users and selects groups."""

    spec: GroupedSpec

    def __init__(self, spec: GroupedSpec, secret: JobSecret | None, num_buckets: int | None):
        super().__init__()
        self.spec = spec
        self._secret = secret
        self._num_buckets = num_buckets

    def _listed(
        self, records: beam.PCollection, secret: JobSecret
    ) -> tuple[beam.PCollection, beam.PCollection | None]:
        """Returns the pairs of bounded users in all lists, and the selected names of lists; the
        latter are None if all groups are public."""
        spec = self.spec
        bound = list_kernels.bounds_of_groups(spec, secret)
        names = list_kernels.columns_of(spec)
        attribute_table = functools.partial(
            list_kernels.attribute_table, attributes=spec.attributes
        )
        bounded = (
            records
            | "Named" >> ToNamedTables(names)
            | "Attributes" >> beam.Map(attribute_table).with_output_types(pa.Table)
            | "ToTables" >> ToTables(names)
            | "Bound" >> ReduceByHash(bound, (USER,), secret.key(route_by(USER)), self._num_buckets)
        )
        selected = None
        if spec.names is not None:
            users = functools.partial(list_kernels.users_of_lists, spec=spec)
            select = SelectPartitions(
                **arguments(spec.names), secret=secret, num_buckets=self._num_buckets
            )
            selected = bounded | "UsersOfGroups" >> on_threads(users) | "Select" >> select
        in_lists = OnThreads(functools.partial(list_kernels.in_all_lists, spec=spec))
        listed = bounded | "InLists" >> beam.ParDo(in_lists).with_output_types(pa.Table)
        return listed, selected


class ReleaseGroupedLists(_ByGroup):
    """Releases the list of all users and the list of each group.

    Returns a tuple (attribute, group, ReleasedList) for each list. For the list of all users the
    attribute and the group are "". The module has the guarantee and its proof.

    Takes Arrow tables with the columns ``user``, ``partition`` and one for each attribute; rows
    with fields of these names; or tuples (user, partition, value, ...) in the order of the
    attributes. A user with several values of an attribute is in the group of one of them, which is
    chosen at random.

    Args:
      attributes: at least one ``Attribute``.
      epsilon_all: the cost of the list of all users.
      epsilon_groups: the cost of the lists of all groups; each attribute gets an equal part.
      max_partitions_per_user: kappa.
      selection: the budget by which names of groups are selected. It is needed if the groups of an
        attribute are not public.
      mechanism: see ``partition_mechanism``.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``GroupsSpec`` with these arguments.

    Raises:
      ValueError, TypeError: as ``BoundContributions``; an argument is missing, two attributes have
        the same name, or, at run time, values have a type that cannot be used.

    >>> records = [("ann", "jazz", "f"), ("bob", "jazz", "m"), ("cy", "rock", "m")]
    >>> release = ReleaseGroupedLists(
    ...     [Attribute("gender", ("f", "m", "x"))],
    ...     epsilon_all=50, epsilon_groups=50, max_partitions_per_user=1,
    ... )
    >>> with beam.Pipeline() as pipeline:
    ...     lists = pipeline | beam.Create(records) | release
    ...     named = lists | beam.MapTuple(lambda of, group, released: (group, list(released)))
    ...     _ = named | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [('', [(2, 1), (1, 1)]), ('f', [(1, 1)]), ('m', [(1, 2)]), ('x', [])]
    """

    spec: GroupsSpec

    def __init__(
        self,
        attributes: Sequence[Attribute],
        *,
        epsilon_all: Number,
        epsilon_groups: Number,
        max_partitions_per_user: int,
        selection: PrivacyBudget | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        spec = GroupsSpec(
            attributes=attributes,
            epsilon_all=epsilon_all,
            epsilon_groups=epsilon_groups,
            max_partitions_per_user=max_partitions_per_user,
            selection=selection,
            mechanism=mechanism,
        )
        super().__init__(spec, secret, num_buckets)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_counts(records, "ReleaseGroupedLists")
        secret = secret_for(records.pipeline, self._secret)
        listed, selected = self._listed(records, secret)
        public = list_kernels.public_lists(self.spec)
        of_name = functools.partial(list_kernels.list_of_group, spec=self.spec)
        kind = tuple[str, str, ReleasedList]
        return release_named_lists(
            listed, public, selected, of_name, kind, secret, self._num_buckets
        )

    def display_data(self) -> dict[str, Any]:
        spec = self.spec
        return {
            "attributes": ", ".join(attribute.name for attribute in spec.attributes),
            "mechanism_of_all": type(spec.for_all).__name__,
            "mechanism_of_groups": type(spec.for_group).__name__,
            "epsilon_all": spec.for_all.epsilon_cost,
            "epsilon_of_each_attribute": spec.for_group.epsilon_cost,
            "max_partitions_per_user": spec.max_partitions_per_user,
        }


class ReleaseGroupedAllRecords(_ByGroup):
    """Releases a survey and a list of all users, and of each group: no kappa has to be declared.

    Returns a tuple (attribute, group, SurveyedList) for each list, as ``ReleaseGroupedLists`` does
    for lists without surveys. ``releases.grouped_all_records`` has the guarantee and its argument.
    ``AllRecordsRelease.of`` turns a ``SurveyedList`` into a value with methods for questions.

    Args:
      attributes, epsilon_all, epsilon_groups, selection: see ``ReleaseGroupedLists``. Epsilons pay
        for the surveys too.
      max_partitions_per_user, max_degree, survey_share, largest_degree, mechanism: see
        ``ReleaseAllRecords``; the same for each list.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``GroupAllRecordsSpec`` with these arguments.

    Raises:
      ValueError, TypeError: as ``ReleaseGroupedLists`` and ``ReleaseAllRecords``.

    >>> records = [("ann", "jazz", "f"), ("bob", "jazz", "m"), ("bob", "rock", "m")]
    >>> release = ReleaseGroupedAllRecords(
    ...     [Attribute("gender", ("f", "m"))], epsilon_all=200, epsilon_groups=200, max_degree=3
    ... )
    >>> with beam.Pipeline() as pipeline:
    ...     lists = pipeline | beam.Create(records) | release
    ...     named = lists | beam.MapTuple(lambda of, group, made: (group, list(made.released)))
    ...     _ = named | beam.combiners.ToList() | beam.Map(sorted) | beam.Map(print)
    [('', [(2, 1), (1, 1)]), ('f', [(1, 1)]), ('m', [(1, 2)])]
    """

    spec: GroupAllRecordsSpec

    def __init__(
        self,
        attributes: Sequence[Attribute],
        *,
        epsilon_all: Number,
        epsilon_groups: Number,
        max_partitions_per_user: int | None = None,
        selection: PrivacyBudget | None = None,
        max_degree: int = SURVEY_MAX_DEGREE,
        survey_share: Number | None = None,
        largest_degree: int | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        spec = GroupAllRecordsSpec(
            attributes=attributes,
            epsilon_all=epsilon_all,
            epsilon_groups=epsilon_groups,
            max_partitions_per_user=max_partitions_per_user,
            selection=selection,
            max_degree=max_degree,
            survey_share=survey_share,
            largest_degree=largest_degree,
            mechanism=mechanism,
        )
        super().__init__(spec, secret, num_buckets)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        refuse_bounded(records, "ReleaseGroupedAllRecords")
        secret = secret_for(records.pipeline, self._secret)
        listed, selected = self._listed(records, secret)
        public = list_kernels.public_lists(self.spec)
        of_name = functools.partial(survey_of_group, spec=self.spec)
        kind = tuple[str, str, SurveyedList]
        return release_surveyed_lists(
            listed, public, selected, of_name, kind, secret, self._num_buckets
        )

    def display_data(self) -> dict[str, Any]:
        spec = self.spec
        return {
            "attributes": ", ".join(attribute.name for attribute in spec.attributes),
            "epsilon_all": float(spec.for_all.cost.epsilon),
            "epsilon_of_each_attribute": float(spec.for_group.cost.epsilon),
        }
