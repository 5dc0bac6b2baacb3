"""A frequency list for each window of time, under one budget over all of them.

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

Sessions would tell of a user's habits by where they begin and end; a trigger that fires again would
release the same records again, and unbounded input has no last window to charge for. These are
refused.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp, TimestampTypes

from dp_transforms.budget import PrivacyBudget
from dp_transforms.columnar.attributes import LIST, histograms
from dp_transforms.columnar.columns import PARTITION, USER, plain, single
from dp_transforms.columnar.periods import bound_periods, in_list_of_period
from dp_transforms.counting import CountDistinctUsers
from dp_transforms.frequency_release import MergeHistograms, release_histogram
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.eta import positive_integer
from dp_transforms.mechanisms.integer_partition.choice import AUTO, partition_mechanism
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.released_list import ReleasedList
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.bounds import Releases, refuse_counts
from dp_transforms.runtime.records import Kind, is_batch, put_together, refuse_windows, table_from
from dp_transforms.runtime.shuffle import OnThreads, ReduceByHash

MOST_WINDOWS = 10_000


class ReleaseListsByPeriod(Releases, beam.PTransform):
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
        super().__init__()
        if not 1 <= len(periods) <= MOST_WINDOWS or len(set(periods)) < len(periods):
            raise ValueError(
                f"there must be 1 to {MOST_WINDOWS:,} different periods, got {len(periods):,}"
            )
        self._periods = tuple(periods)
        positive_integer("max_periods_per_user", max_periods_per_user)
        self._most = min(max_periods_per_user, len(periods))
        self._kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
        each = PrivacyBudget(epsilon).epsilon / self._most
        self._mechanism = partition_mechanism(each, self._kappa, mechanism)
        self._secret = secret
        self._num_buckets = num_buckets

    @property
    def mechanism(self) -> PartitionMechanism:
        """What releases the list of one period."""
        return self._mechanism

    @property
    def periods_per_user(self) -> int:
        """In how many periods a user counts at most."""
        return self._most

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        refuse_windows(tables)
        refuse_counts(tables, "ReleaseListsByPeriod")
        if Kind.of(tables) is not Kind.TABLES:
            raise ValueError("ReleaseListsByPeriod takes Arrow tables: declare them as pa.Table")
        secret = secret_for(tables.pipeline, self._secret)
        bound = functools.partial(
            bound_periods,
            most_periods=self._most,
            at_most=self._kappa,
            period_key=secret.key("periods of users"),
            key=secret.key("bound contributions"),
        )
        found = (
            tables
            | "Known" >> beam.Map(_in_periods, self._periods).with_output_types(pa.Table)
            | "ToTables" >> ToTables((USER, PARTITION, LIST))
            | "Bound" >> ReduceByHash(bound, (USER,), secret.key("route users"), self._num_buckets)
            | "InLists" >> beam.ParDo(OnThreads(_in_lists)).with_output_types(pa.Table)
            | "Count"
            >> CountDistinctUsers(
                already_distinct=True, secret=secret, num_buckets=self._num_buckets
            )
            | "Histograms" >> beam.FlatMap(_histograms)
            | "Merge" >> beam.CombinePerKey(MergeHistograms())
        )
        places = {name: place for place, name in enumerate(self._periods)}
        wanted = tables.pipeline | "Public" >> beam.Create(list(places.items()), reshuffle=False)
        return (
            {"found": found, "wanted": wanted}
            | "OfPeriod" >> beam.CoGroupByKey()
            | "Release"
            >> beam.Map(_release, self._mechanism, secret)
            .with_output_types(tuple[int, str, ReleasedList])
            .with_resource_hints(min_ram="16GB", max_active_bundles_per_worker="1")
            # The hints above are for one step. Lists come in the order of the periods.
            | "Gather" >> beam.combiners.ToList()
            | "InOrder" >> beam.FlatMap(_in_order).with_output_types(tuple[str, ReleasedList])
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "periods": len(self._periods),
            "max_periods_per_user": self._most,
            "max_partitions_per_user": self._kappa,
            "mechanism": type(self._mechanism).__name__,
            "epsilon_of_each_period": self._mechanism.epsilon_cost,
        }


class ReleaseWindowedLists(Releases, beam.PTransform):
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
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
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
        super().__init__()
        self._start, self._stop = Timestamp.of(start), Timestamp.of(stop)
        if self._start >= self._stop:
            raise ValueError("start must be before stop")
        positive_integer("max_windows_per_user", max_windows_per_user)
        self._release = functools.partial(
            ReleaseListsByPeriod,
            epsilon=epsilon,
            max_periods_per_user=max_windows_per_user,
            max_partitions_per_user=max_partitions_per_user,
            mechanism=mechanism,
            secret=secret,
            num_buckets=num_buckets,
        )
        # Arguments are checked now.
        self._release(["one"])

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_counts(records, "ReleaseWindowedLists")
        names = {begin.micros: begin.to_rfc3339() for begin in self._begins(_windows_of(records))}
        # The partition travels with its window until it is in a table.
        label = beam.ParDo(_Label(names)).with_output_types(
            pa.Table if Kind.of(records) is Kind.TABLES else Any
        )
        tables = (
            records
            | "Label" >> label
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Batch" >> ToTables()
            | "Split" >> beam.Map(_of_composite).with_output_types(pa.Table)
        )
        return tables | "ByWindow" >> self._release(list(names.values()))

    def _begins(self, windows: FixedWindows) -> Iterator[Timestamp]:
        size, offset = windows.size.micros, windows.offset.micros
        first = -((offset - self._start.micros) // size)
        if (self._stop.micros - self._start.micros) // size > MOST_WINDOWS:
            raise ValueError(f"there are more than {MOST_WINDOWS:,} windows from start to stop")
        for micros in range(first * size + offset, self._stop.micros, size):
            yield Timestamp(micros=micros)


class _Label(beam.DoFn):
    """Users and partitions of records in the wanted windows, with the names of these."""

    def __init__(self, names: Mapping[int, str]):
        self._names = names

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        name = self._names.get(window.start.micros)
        if name is None:
            return
        if is_batch(element):
            table = table_from(element, (USER, PARTITION))
            parts = [pa.repeat(name, table.num_rows), plain(table[PARTITION], PARTITION)]
            # As a tuple of the two would be.
            partition = pa.StructArray.from_arrays(parts, names=["0", "1"])
            yield pa.table({USER: table[USER], PARTITION: partition})
            return
        if isinstance(element, beam.Row) or hasattr(element, "_fields"):
            user, partition = getattr(element, USER), getattr(element, PARTITION)
        elif isinstance(element, dict) and {USER, PARTITION} <= element.keys():
            user, partition = element[USER], element[PARTITION]
        elif type(element) in (tuple, list) and len(element) == 2:
            user, partition = element
        else:
            raise TypeError(
                f"records must be pairs ({USER}, {PARTITION}), or rows, dictionaries or tables "
                "with these"
            )
        yield user, (name, partition)


def _windows_of(records: beam.PCollection) -> FixedWindows:
    merged = put_together(records)
    windowing = merged[0].windowing
    if not all(one.is_bounded for one in merged):
        raise ValueError("unbounded input has no last window to charge for: give bounded input")
    if any(one.windowing != windowing for one in merged):
        raise ValueError("a Flatten put different windows together: apply beam.WindowInto after it")
    if type(windowing.windowfn) is not FixedWindows:
        raise ValueError(
            "records must be in beam.window.FixedWindows: sliding windows would release a record "
            "several times, and sessions tell by where they begin when a user was there"
        )
    if not isinstance(windowing.triggerfn, DefaultTrigger):
        raise ValueError("a trigger that fires again would release the same records again")
    return windowing.windowfn


def _of_composite(table: pa.Table) -> pa.Table:
    name, partition = single(table[PARTITION]).flatten()
    return pa.table({USER: table[USER], PARTITION: partition, LIST: name})


def _in_periods(table: pa.Table, periods: Sequence[str]) -> pa.Table:
    table = table_from(table, (USER, PARTITION, LIST))
    return table.filter(pc.is_in(plain(table[LIST], LIST), value_set=pa.array(periods)))


def _in_lists(table: pa.Table) -> list[pa.Table]:
    return [in_list_of_period(table)]


def _histograms(counts: pa.Table) -> Iterable[tuple[str, dict[int, int]]]:
    return histograms(counts).items()


def _release(
    element: tuple[str, Mapping[str, Iterable[Any]]],
    mechanism: PartitionMechanism,
    secret: JobSecret,
) -> tuple[int, str, ReleasedList]:
    name, parts = element
    (place,) = parts["wanted"]
    # A period without users has an empty list, which is released like any other.
    histogram: dict[int, int] = next(iter(parts["found"]), {})
    return place, name, release_histogram(histogram, mechanism, secret, f"list of period {name!r}")


def _in_order(lists: list[tuple[int, str, ReleasedList]]) -> Iterator[tuple[str, ReleasedList]]:
    for _, name, released in sorted(lists, key=operator.itemgetter(0)):
        yield name, released
