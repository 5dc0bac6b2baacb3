"""Releases a list, a survey and a list, or names, for each public period under one budget.

The lists of all periods together are epsilon-DP, with delta = 0. The names of all periods together
are (epsilon, delta)-DP. Below, w is the most periods in which a user counts, and kappa the most
partitions in each of them. ``PeriodAllRecordsSpec`` has the argument for surveys.

Neighbours: one input is the other with all records of one user added, in any periods. Proof, for
any value of the secret that keys the bounding:

1. The periods are public: their names are given. A period without records has an empty list, which
   is released like any other, so the existence of a release discloses nothing. Whether a record is
   left out, as its period is not among them, depends on its own time alone.
2. A user's own records alone decide which periods (at most w), and which partitions in each of them
   (at most kappa), are kept. So the bounded inputs are equal except for that user, who is in at
   most w periods.
3. In a period in which that user counts, the list moves by at most kappa in L1, and its release is
   (epsilon / w)-DP. The lists of all other periods are the same. Each release has random numbers of
   its own, so the probability of all of them together is a product, and at most w of its factors
   differ. This is sequential composition over the periods of that user, and parallel composition
   over all others.
4. Names are selected as pairs of a period and a partition, all at once. By 2. one user has at most
   w * kappa of these pairs, and a selection with that bound is (epsilon, delta)-DP. The budget is
   not divided among periods: strategies account for all pairs of a user together. If kappa is not
   declared, a user has any number of pairs in at most w periods, and the selection chooses how many
   of them count: see ``PeriodNamesSpec``. QED.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam.all_records import release_surveyed_lists
from dp_transforms.beam.batching import ToTables
from dp_transforms.beam.bounds import ReleaseTransform, refuse_bounded, refuse_counts
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import RecordKind, refuse_windows
from dp_transforms.beam.release import release_named_lists
from dp_transforms.beam.selection import SelectPartitions, displayed
from dp_transforms.beam.shuffle import ReduceByHash, on_threads
from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.engines import list_kernels
from dp_transforms.engines.survey_kernels import surveys_of_periods
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.mechanisms.selection.choice import AUTO as SELECTION_AUTO
from dp_transforms.mechanisms.tape_contexts import route_by
from dp_transforms.postprocessing.survey_plan import SURVEY_MAX_DEGREE
from dp_transforms.releases import PeriodAllRecordsSpec, PeriodListsSpec, PeriodNamesSpec
from dp_transforms.releases.base import arguments
from dp_transforms.releases.periods import PeriodSpec
from dp_transforms.releases.surveys import SurveyedList
from dp_transforms.runtime.job_secret import JobSecret


class ByPeriod(ReleaseTransform, beam.PTransform):
    """The common part of the releases by period: bounds users' contributions in public periods.

    The column ``list`` of tables has the name of each record's period.
    """

    spec: PeriodSpec

    def __init__(self, spec: PeriodSpec, secret: JobSecret | None, num_buckets: int | None):
        super().__init__()
        self.spec = spec
        self._secret = secret
        self._num_buckets = num_buckets

    def _bounded(self, tables: beam.PCollection) -> tuple[beam.PCollection, JobSecret]:
        """Returns distinct (user, {``list``, ``partition``}) pairs, and the secret."""
        name = type(self).__name__
        refuse_windows(tables)
        refuse_counts(tables, name)
        if RecordKind.of(tables) is not RecordKind.TABLES:
            raise ValueError(f"{name} takes Arrow tables: declare them as pa.Table")
        secret = secret_for(tables.pipeline, self._secret)
        names = (USER, PARTITION, LIST)
        known = functools.partial(list_kernels.in_known_periods, periods=self.spec.periods)
        bound = list_kernels.bounds_of_periods(self.spec, secret)
        pairs = (
            tables
            | "ToTables" >> ToTables(names)
            | "Known" >> on_threads(known)
            | "Bound" >> ReduceByHash(bound, (USER,), secret.key(route_by(USER)), self._num_buckets)
            | "InLists" >> on_threads(list_kernels.in_periods)
        )
        return pairs, secret

    def display_data(self) -> dict[str, Any]:
        partitions = self.spec.partitions_per_period
        bound = {} if partitions is None else {"partitions_per_user_and_period": partitions}
        return {
            "periods": len(self.spec.periods),
            "max_periods_per_user": self.spec.periods_per_user,
            **bound,
        }


class ReleaseListsByPeriod(ByPeriod):
    """Releases a list for each public period: takes tables, returns (period, ReleasedList).

    All lists together are epsilon-DP, with delta = 0; the module has the proof. Takes Arrow tables
    with the columns ``user``, ``partition`` and ``list``, which is the period's name.

    Args:
      periods: the names of all periods, which are public; each has a release, in this order.
        Records of other periods are left out.
      epsilon: the privacy loss of all releases together.
      max_periods_per_user: w, the most periods in which one user counts.
      max_partitions_per_user: kappa, the most partitions in which one user counts in each period.
      mechanism: see ``partition_mechanism``.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``PeriodListsSpec`` with these arguments.

    Raises:
      ValueError: an argument is out of range, or two periods have one name; the input is unbounded
        or windowed, holds counts, or is not declared as tables.
    """

    spec: PeriodListsSpec

    def __init__(
        self,
        periods: Sequence[str],
        *,
        epsilon: Number,
        max_periods_per_user: int,
        max_partitions_per_user: int,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        spec = PeriodListsSpec(
            periods=periods,
            epsilon=epsilon,
            max_periods_per_user=max_periods_per_user,
            max_partitions_per_user=max_partitions_per_user,
            mechanism=mechanism,
        )
        super().__init__(spec, secret, num_buckets)

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        bounded, secret = self._bounded(tables)
        lists = list_kernels.lists_of_periods(self.spec)
        kind = tuple[str, ReleasedList]
        return release_named_lists(
            bounded, lists, None, lists.__getitem__, kind, secret, self._num_buckets
        )

    def display_data(self) -> dict[str, Any]:
        return super().display_data() | {
            "mechanism": type(self.spec.of_each).__name__,
            "epsilon_of_each_period": self.spec.of_each.epsilon_cost,
        }


class ReleaseAllRecordsByPeriod(ByPeriod):
    """Releases a survey and a list for each public period: takes tables, returns (period,
    SurveyedList).

    All of them together are epsilon-DP, with delta = 0: see ``PeriodAllRecordsSpec``. The survey of
    a period chooses the kappa of this period. Takes tables as ``ReleaseListsByPeriod`` does.

    Args:
      periods, epsilon, max_periods_per_user: see ``ReleaseListsByPeriod``.
      max_partitions_per_user, max_degree, survey_share, largest_degree, mechanism: see
        ``ReleaseAllRecords``; the same for each period.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``PeriodAllRecordsSpec`` with these arguments.

    Raises:
      ValueError: as ``ReleaseListsByPeriod`` and ``ReleaseAllRecords``.
    """

    spec: PeriodAllRecordsSpec

    def __init__(
        self,
        periods: Sequence[str],
        *,
        epsilon: Number,
        max_periods_per_user: int,
        max_partitions_per_user: int | None = None,
        max_degree: int = SURVEY_MAX_DEGREE,
        survey_share: Number | None = None,
        largest_degree: int | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        spec = PeriodAllRecordsSpec(
            periods=periods,
            epsilon=epsilon,
            max_periods_per_user=max_periods_per_user,
            max_partitions_per_user=max_partitions_per_user,
            max_degree=max_degree,
            survey_share=survey_share,
            largest_degree=largest_degree,
            mechanism=mechanism,
        )
        super().__init__(spec, secret, num_buckets)

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        refuse_bounded(tables, "ReleaseAllRecordsByPeriod")
        bounded, secret = self._bounded(tables)
        lists = surveys_of_periods(self.spec)
        kind = tuple[str, SurveyedList]
        return release_surveyed_lists(
            bounded, lists, None, lists.__getitem__, kind, secret, self._num_buckets
        )

    def display_data(self) -> dict[str, Any]:
        return super().display_data() | {
            "epsilon_of_each_period": float(self.spec.of_each.cost.epsilon)
        }


class SelectPartitionsByPeriod(ByPeriod):
    """Selects the partitions that may be named in each public period: takes and returns tables.

    The names of all periods together are (epsilon, delta)-DP; the module has the proof. Takes
    tables as ``ReleaseListsByPeriod`` does. Returns tables with the columns ``list`` and
    ``partition``. ``noisy_counts`` adds ``noisy_count``, and ``intervals`` adds ``low`` and
    ``high``.

    Args:
      epsilon, delta: the cost of all periods together.
      periods: see ``ReleaseListsByPeriod``.
      max_periods_per_user: the most periods in which one user counts. By default a user counts in
        all periods; this needs no ``max_partitions_per_user``.
      max_partitions_per_user: the most partitions in which one user counts in each period. By
        default a look at the records chooses how many partitions of a user count in all periods
        together.
      strategy, noisy_counts, intervals, pre_threshold, neighbours, with_entries: see
        ``SelectPartitions``. The strategy is given by its name.
      secret, num_buckets: see ``BoundContributions``.

    Attributes:
      spec: the ``PeriodNamesSpec`` with these arguments. In ``spec.names.strategy``,
        ``max_partitions_per_user`` is the number of partitions in all periods together.

    Raises:
      ValueError: as ``SelectPartitions`` and ``ReleaseListsByPeriod``.
    """

    spec: PeriodNamesSpec

    def __init__(
        self,
        periods: Sequence[str],
        *,
        epsilon: Number,
        delta: Number,
        max_periods_per_user: int | None = None,
        max_partitions_per_user: int | None = None,
        strategy: str = SELECTION_AUTO,
        noisy_counts: bool = False,
        intervals: bool = False,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        with_entries: bool = False,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        spec = PeriodNamesSpec(
            periods=periods,
            epsilon=epsilon,
            delta=delta,
            max_periods_per_user=max_periods_per_user,
            max_partitions_per_user=max_partitions_per_user,
            strategy=strategy,
            noisy_counts=noisy_counts,
            intervals=intervals,
            pre_threshold=pre_threshold,
            neighbours=neighbours,
        )
        super().__init__(spec, secret, num_buckets)
        self._with_entries = boolean("with_entries", with_entries)

    def expand(self, tables: beam.PCollection) -> Any:
        bounded, secret = self._bounded(tables)
        select = SelectPartitions(
            **arguments(self.spec.names),
            with_entries=self._with_entries,
            secret=secret,
            num_buckets=self._num_buckets,
        )
        split = beam.Map(list_kernels.names_of_periods).with_output_types(pa.Table)
        return names_through(bounded | "Select" >> select, "OfPeriods" >> split)

    def display_data(self) -> dict[str, Any]:
        return super().display_data() | displayed(self.spec.names.strategy)


def names_through(selected: Any, step: beam.PTransform) -> Any:
    """Returns the output of a selection, with or without entries, with its names put through a
    step."""
    if isinstance(selected, dict):
        return selected | {"partitions": selected["partitions"] | step}
    return selected | step
