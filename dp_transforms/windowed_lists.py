"""A frequency list, or names, for each window of time, under one budget over all of them.

Neighbours: one input is the other with all records of one user added, in whichever windows they
are. The argument, for any value of the secret that keys the bounding:

1. Which windows there are is public: all that begin in a range that is given. A window without
   records has an empty list, which is released like any other. So that there is a release for a
   window tells nothing. Records in other windows are left out, each for its own time's sake.
2. Which windows are kept of a user (at most w), and which partitions in each of them (at most
   kappa), depends on the user's own records alone. So the bounded inputs are equal but for that
   user, who is in w windows at most.
3. The list of such a window moves by at most kappa in L1, and its release is (epsilon / w)-DP. The
   lists of all other windows are the same. Each release has random numbers of its own, so that the
   probability of all of them together is a product, of which at most w factors differ.

Altogether epsilon-DP, with delta = 0: sequential composition over the windows that one user is in,
and parallel over all others.

Names are selected as pairs of a window and a partition, all at once. By 2. one user has at most
w * kappa of these pairs, and a selection with that bound is (epsilon, delta)-DP: no share of the
budget goes to a window, and strategies account for all pairs of a user together.

Sessions would tell of a user's habits by where they begin and end; a trigger that fires again would
release the same records again, and unbounded input has no last window to charge for. These are
refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.timestamp import TimestampTypes

from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import PARTITION, decoded, single
from dp_transforms.count_selection import displayed
from dp_transforms.frequency_release import NamedList, ReleaseNamedLists
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.integer_partition.choice import AUTO, partition_mechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.runtime.batching import objects
from dp_transforms.runtime.bounds import Releases
from dp_transforms.runtime.records import Kind
from dp_transforms.runtime.windows import (
    MOST_WINDOWS,
    BoundPeriods,
    NameWindows,
    WindowRange,
    refuse_other_than_tables,
)
from dp_transforms.selection import SelectPartitions


class _ByPeriod(Releases, beam.PTransform):
    """Bounds users in public periods, whose names are in the column ``list`` of tables.

    Attributes:
      periods_per_user: in how many periods a user counts at most.
    """

    def __init__(
        self,
        periods: Sequence[str],
        most: int,
        kappa: int,
        secret: JobSecret | None,
        num_buckets: int | None,
    ):
        super().__init__()
        if not 1 <= len(periods) <= MOST_WINDOWS or len(set(periods)) < len(periods):
            raise ValueError(
                f"there must be 1 to {MOST_WINDOWS:,} different periods, got {len(periods):,}"
            )
        self._periods = tuple(periods)
        self.periods_per_user = min(positive_integer("max_periods_per_user", most), len(periods))
        self._kappa = positive_integer("max_partitions_per_user", kappa)
        self._secret = secret
        self._num_buckets = num_buckets

    def _bounded(self, tables: beam.PCollection) -> tuple[beam.PCollection, JobSecret]:
        refuse_other_than_tables(tables, type(self).__name__)
        secret = secret_for(tables.pipeline, self._secret)
        bound = BoundPeriods(
            self._periods, self.periods_per_user, self._kappa, secret, self._num_buckets
        )
        return tables | "Bound" >> bound, secret


class ReleaseListsByPeriod(_ByPeriod):
    """Releases a list for each of some public periods: tables in, (period, ReleasedList) out.

    Args:
      periods: the names of all periods, which are public; each has a release. They come out in this
        order.
      epsilon: the privacy loss of all releases together.
      max_periods_per_user: w, in how many periods a user counts.
      max_partitions_per_user: kappa, in how many partitions of each of these.
      mechanism: as for ``partition_mechanism``.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users, or partitions, are split into.

    Attributes:
      mechanism: releases the list of one period.

    Takes Arrow tables with the columns ``user``, ``partition`` and ``list``, the period's name.

    Raises:
      ValueError: an argument is out of range, or two periods have one name; the input is unbounded
        or windowed, holds counts, or is not declared as tables.
    """

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
        super().__init__(
            periods, max_periods_per_user, max_partitions_per_user, secret, num_buckets
        )
        each = PrivacyBudget(epsilon).epsilon / self.periods_per_user
        self.mechanism = partition_mechanism(each, self._kappa, mechanism)

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        bounded, secret = self._bounded(tables)
        places = {name: place for place, name in enumerate(self._periods)}
        public = dict.fromkeys(self._periods).items()
        wanted = tables.pipeline | "Public" >> beam.Create(list(public), reshuffle=False)
        of_name = functools.partial(_of_period, places=places, mechanism=self.mechanism)
        kind = tuple[str, ReleasedList]
        release = ReleaseNamedLists(wanted, of_name, kind, secret, self._num_buckets)
        return bounded | "Release" >> release

    def display_data(self) -> dict[str, Any]:
        return {
            "periods": len(self._periods),
            "max_periods_per_user": self.periods_per_user,
            "max_partitions_per_user": self._kappa,
            "mechanism": type(self.mechanism).__name__,
            "epsilon_of_each_period": self.mechanism.epsilon_cost,
        }


class _ByWindow(Releases, beam.PTransform):
    """A release by period, of records in fixed windows.

    Args:
      start, stop, max_windows_per_user: see ``ReleaseWindowedLists``.
      **options: of ``by_period``.
    """

    by_period: Callable[..., _ByPeriod]

    def __init__(
        self,
        *,
        start: TimestampTypes,
        stop: TimestampTypes,
        max_windows_per_user: int,
        **options: Any,
    ):
        super().__init__()
        self._windows = WindowRange(start, stop)
        positive_integer("max_windows_per_user", max_windows_per_user)
        self._release = functools.partial(
            self.by_period, max_periods_per_user=max_windows_per_user, **options
        )
        # Arguments are checked now.
        self._release(["one"])

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        names = self._windows.names(records, type(self).__name__)
        return records | NameWindows(names) | "ByWindow" >> self._release(list(names.values()))


class ReleaseWindowedLists(_ByWindow):
    """Releases a list for each fixed window: records in, (beginning, ReleasedList) out.

    The records are bounded input in ``FixedWindows`` with the default trigger, of any kind that
    ``BoundContributions`` takes; an Arrow table belongs to one window as a whole. Epsilon-DP with
    delta = 0 over all windows together, for adding or removing all records of one user. The
    beginnings of windows are text, as 2026-01-31T00:00:00Z.

    Args:
      epsilon: what all releases cost together; each costs epsilon / max_windows_per_user.
      start, stop: the windows that begin from start on, and before stop, are released, and no
        others. Public: choose them without looking at the records.
      max_windows_per_user: in how many windows a user counts, at random.
      max_partitions_per_user: kappa, in how many partitions of each window.
      mechanism, secret, num_buckets: see ``ReleaseListsByPeriod``.

    Raises:
      ValueError: an argument is out of range, the input is unbounded, is not in fixed windows or
        has another trigger, or holds counts.

    >>> day = 24 * 60 * 60
    >>> visits = [("ann", "home", 5), ("bob", "home", 7), ("bob", "home", day + 1)]
    >>> with beam.Pipeline() as pipeline:
    ...     windowed = (
    ...         pipeline
    ...         | beam.Create(visits)
    ...         | beam.Map(lambda v: beam.window.TimestampedValue(v[:2], v[2]))
    ...         | beam.WindowInto(beam.window.FixedWindows(day))
    ...     )
    ...     release = ReleaseWindowedLists(
    ...         epsilon=200,
    ...         start=0,
    ...         stop=3 * day,
    ...         max_windows_per_user=2,
    ...         max_partitions_per_user=1,
    ...     )
    ...     _ = windowed | release | beam.MapTuple(lambda begin, one: print(begin, list(one)))
    1970-01-01T00:00:00Z [(2, 1)]
    1970-01-02T00:00:00Z [(1, 1)]
    1970-01-03T00:00:00Z []
    """

    by_period = ReleaseListsByPeriod

    def __init__(
        self,
        *,
        epsilon: Number,
        start: TimestampTypes,
        stop: TimestampTypes,
        max_windows_per_user: int,
        max_partitions_per_user: int,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__(
            start=start,
            stop=stop,
            max_windows_per_user=max_windows_per_user,
            epsilon=epsilon,
            max_partitions_per_user=max_partitions_per_user,
            mechanism=mechanism,
            secret=secret,
            num_buckets=num_buckets,
        )


class SelectPartitionsByPeriod(_ByPeriod):
    """Selects the partitions that may be named in each of some public periods: tables in and out.

    (epsilon, delta)-DP over all periods together: see the module.

    Args:
      periods: the names of all periods, which are public. Records of others are left out.
      epsilon, delta: what all periods together cost.
      max_periods_per_user: w, in how many periods a user counts.
      max_partitions_per_user: kappa, in how many partitions of each of these.
      strategy, noisy_counts, pre_threshold, neighbours, intervals, secret, num_buckets: see
        ``SelectPartitions``.

    Attributes:
      strategy: in use; its ``max_partitions_per_user`` is that of all periods together.

    Takes Arrow tables with the columns ``user``, ``partition`` and ``list``, the period's name.
    Gives tables with the columns ``list``, ``partition`` and, if asked for, ``noisy_count``,
    ``low`` and ``high``.

    Raises:
      ValueError: as ``SelectPartitions`` and ``ReleaseListsByPeriod``.
    """

    def __init__(
        self,
        periods: Sequence[str],
        *,
        epsilon: Number,
        delta: Number,
        max_periods_per_user: int,
        max_partitions_per_user: int,
        strategy: str = AUTO,
        noisy_counts: bool = False,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        intervals: bool = False,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__(
            periods, max_periods_per_user, max_partitions_per_user, secret, num_buckets
        )
        self._select = functools.partial(
            SelectPartitions,
            epsilon,
            delta,
            self.periods_per_user * self._kappa,
            strategy,
            noisy_counts,
            already_bounded=True,
            pre_threshold=pre_threshold,
            neighbours=neighbours,
            intervals=intervals,
            num_buckets=num_buckets,
        )
        self.strategy = self._select().strategy

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        bounded, secret = self._bounded(tables)
        selected = bounded | "Select" >> self._select(secret=secret)
        return selected | "OfPeriods" >> beam.Map(_split).with_output_types(pa.Table)

    def display_data(self) -> dict[str, Any]:
        return displayed(self.strategy) | {
            "periods": len(self._periods),
            "max_periods_per_user": self.periods_per_user,
        }


def _tuples(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return objects(table, Kind.TUPLES, tuple(table.column_names))


class SelectWindowedPartitions(_ByWindow):
    """Selects the partitions that may be named in each fixed window: (beginning, partition) out.

    As ``SelectPartitionsByPeriod``, of records in windows as ``ReleaseWindowedLists`` takes them.
    With ``noisy_counts`` what comes out is (beginning, partition, noisy_count).

    Args:
      epsilon, delta: what all windows together cost.
      start, stop, max_windows_per_user, max_partitions_per_user: see ``ReleaseWindowedLists``.
      **options: strategy, noisy_counts, ... of ``SelectPartitionsByPeriod``.

    Raises:
      ValueError: as ``ReleaseWindowedLists`` and ``SelectPartitions``.

    >>> visits = [(user, "home", 5) for user in range(50)] + [(1, "home", 70)]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(visits)
    ...         | beam.Map(lambda v: beam.window.TimestampedValue(v[:2], v[2]))
    ...         | beam.WindowInto(beam.window.FixedWindows(60))
    ...         | SelectWindowedPartitions(
    ...             epsilon=1,
    ...             delta=1e-9,
    ...             start=0,
    ...             stop=120,
    ...             max_windows_per_user=1,
    ...             max_partitions_per_user=1,
    ...         )
    ...         | beam.Map(print)
    ...     )
    ('1970-01-01T00:00:00Z', 'home')
    """

    by_period = SelectPartitionsByPeriod

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        start: TimestampTypes,
        stop: TimestampTypes,
        max_windows_per_user: int,
        max_partitions_per_user: int,
        **options: Any,
    ):
        super().__init__(
            start=start,
            stop=stop,
            max_windows_per_user=max_windows_per_user,
            epsilon=epsilon,
            delta=delta,
            max_partitions_per_user=max_partitions_per_user,
            **options,
        )

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        return super().expand(records) | "Tuples" >> beam.FlatMap(_tuples)


def _split(selected: pa.Table) -> pa.Table:
    """Selected pairs of a period and a partition, as columns of their own."""
    parts = single(decoded(selected)[PARTITION])
    split = {LIST: parts.field(LIST), PARTITION: parts.field(PARTITION)}
    return pa.table(split | {name: selected[name] for name in selected.column_names[1:]})


def _of_period(name: str, places: Mapping[str, int], mechanism: PartitionMechanism) -> NamedList:
    return NamedList(places[name], (name,), mechanism, f"list of period {name!r}")
