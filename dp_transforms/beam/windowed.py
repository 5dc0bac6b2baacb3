"""Transforms that release a frequency list, or names, for each window of time, under one budget.

A window is a period that is named by its start: all windows that begin in a given range are public,
and ``beam.periods`` has the guarantee and its proof. Whether a record is in one of them depends on
its own time alone.

Session windows are refused, since their ends would disclose when a user was active. Triggers that
fire again are refused, since they would release the same records again. Unbounded input is refused,
since the number of windows to pay for would have no end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.trigger import AfterWatermark, DefaultTrigger
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp, TimestampTypes

from dp_transforms.beam.batching import ToTables, objects, parts_of
from dp_transforms.beam.bounds import ReleaseTransform, refuse_bounded, refuse_counts
from dp_transforms.beam.periods import (
    ByPeriod,
    ReleaseAllRecordsByPeriod,
    ReleaseListsByPeriod,
    SelectPartitionsByPeriod,
    names_through,
)
from dp_transforms.beam.records import (
    RecordKind,
    check_known_fields,
    is_batch,
    put_together,
    table_from,
)
from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import MOST_PERIODS
from dp_transforms.mechanisms.arguments import as_the_caller_names_it
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.mechanisms.selection.choice import AUTO as SELECTION_AUTO
from dp_transforms.postprocessing.survey_plan import SURVEY_MAX_DEGREE
from dp_transforms.runtime.job_secret import JobSecret


class _ByWindow(ReleaseTransform, beam.PTransform):
    """The common part of the releases by window: names each window, and releases by that name.

    Args:
      start, stop: see ``ReleaseWindowedLists``.
      release: makes the release by period that gets the named records, given the names of all
        windows.
    """

    def __init__(
        self,
        start: TimestampTypes,
        stop: TimestampTypes,
        release: Callable[[Sequence[str]], ByPeriod],
    ):
        super().__init__()
        try:
            self._start, self._stop = Timestamp.of(start), Timestamp.of(stop)
            # Windows are named by their dates.
            _ = self._start.to_utc_datetime(), self._stop.to_utc_datetime()
        except (OverflowError, TypeError, ValueError):
            raise ValueError(
                "start and stop must be seconds since 1970, times with a zone or Timestamps, in "
                "the years 1 to 9999"
            ) from None
        if self._start >= self._stop:
            raise ValueError("start must be before stop")
        self._release = release
        # This checks the arguments now, with one made-up period.
        with as_the_caller_names_it("max_periods_per_user", "max_windows_per_user"):
            release(["a window"])

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_counts(records, type(self).__name__)
        names = self._names(_windows_of(records))
        check_known_fields(records, (USER, PARTITION))
        label = beam.ParDo(_Label(names)).with_output_types(
            pa.Table if RecordKind.of(records) is RecordKind.TABLES else Any
        )
        return (
            records
            | "Label" >> label
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Batch" >> ToTables((USER, PARTITION, LIST))
            | "ByWindow" >> self._release(list(names.values()))
        )

    def _names(self, windows: FixedWindows) -> dict[int, str]:
        """Returns {start in microseconds: name} of each window to release."""
        size, offset = windows.size.micros, windows.offset.micros
        first = -((offset - self._start.micros) // size)
        if (self._stop.micros - self._start.micros) // size > MOST_PERIODS:
            raise ValueError(f"there are more than {MOST_PERIODS:,} windows from start to stop")
        begins = range(first * size + offset, self._stop.micros, size)
        if not begins:
            raise ValueError("no window begins from start on and before stop")
        return {micros: Timestamp(micros=micros).to_rfc3339() for micros in begins}


class ReleaseWindowedLists(_ByWindow):
    """Releases a list for each fixed window: takes records, returns (start, ReleasedList).

    All lists together are epsilon-DP, with delta = 0, for adding or removing all records of one
    user. The input is a bounded PCollection in ``FixedWindows`` with the default trigger, of any
    kind that ``BoundContributions`` takes. All records of an Arrow table are in the window of the
    table. The start of a window is text, such as 2026-01-31T00:00:00Z.

    Args:
      epsilon: the cost of all releases together; each costs epsilon / max_windows_per_user.
      start, stop: each a Beam Timestamp, or seconds since 1970 (UTC). A window is released if it
        begins at or after start, and before stop. Public: choose them without looking at the
        records.
      max_windows_per_user: the most windows in which one user counts, chosen at random.
      max_partitions_per_user: kappa, the most partitions in which one user counts in each window.
      mechanism, secret, num_buckets: see ``ReleaseListsByPeriod``.

    Raises:
      ValueError: an argument is out of range; no window begins in the range, or more than
        ``MOST_PERIODS`` do; or the input is unbounded, is not in fixed windows, has a trigger that
        fires again, holds counts, or has a record without an event time.

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
    ...         epsilon=200, start=0, stop=3 * day,
    ...         max_windows_per_user=2, max_partitions_per_user=1,
    ...     )
    ...     released = windowed | release
    ...     _ = released | beam.MapTuple(lambda begin, members: print(begin, list(members)))
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
        release = functools.partial(
            ReleaseListsByPeriod,
            epsilon=epsilon,
            max_periods_per_user=max_windows_per_user,
            max_partitions_per_user=max_partitions_per_user,
            mechanism=mechanism,
            secret=secret,
            num_buckets=num_buckets,
        )
        super().__init__(start, stop, release)


class ReleaseWindowedAllRecords(_ByWindow):
    """Releases a survey and a list for each fixed window: takes records, returns (start,
    SurveyedList).

    All of them together are epsilon-DP, with delta = 0. ``AllRecordsRelease.of`` turns a
    ``SurveyedList`` into a value with methods for questions.

    Args:
      epsilon, start, stop, max_windows_per_user: see ``ReleaseWindowedLists``.
      max_partitions_per_user, max_degree, survey_share, largest_degree, mechanism: see
        ``ReleaseAllRecords``; the same for each window. By default the survey of a window chooses
        kappa.
      secret, num_buckets: see ``BoundContributions``.

    Raises:
      ValueError: as ``ReleaseWindowedLists`` and ``ReleaseAllRecords``.

    >>> visits = [("ann", "home", 5), ("bob", "home", 7), ("bob", "news", 8), ("bob", "home", 70)]
    >>> with beam.Pipeline() as pipeline:
    ...     windowed = (
    ...         pipeline
    ...         | beam.Create(visits)
    ...         | beam.Map(lambda v: beam.window.TimestampedValue(v[:2], v[2]))
    ...         | beam.WindowInto(beam.window.FixedWindows(60))
    ...     )
    ...     release = ReleaseWindowedAllRecords(
    ...         epsilon=400, start=0, stop=120, max_windows_per_user=2, max_degree=3
    ...     )
    ...     surveyed = windowed | release
    ...     _ = surveyed | beam.MapTuple(lambda begin, made: print(begin, list(made.released)))
    1970-01-01T00:00:00Z [(2, 1), (1, 1)]
    1970-01-01T00:01:00Z [(1, 1)]
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        start: TimestampTypes,
        stop: TimestampTypes,
        max_windows_per_user: int,
        max_partitions_per_user: int | None = None,
        max_degree: int = SURVEY_MAX_DEGREE,
        survey_share: Number | None = None,
        largest_degree: int | None = None,
        mechanism: str = AUTO,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        release = functools.partial(
            ReleaseAllRecordsByPeriod,
            epsilon=epsilon,
            max_periods_per_user=max_windows_per_user,
            max_partitions_per_user=max_partitions_per_user,
            max_degree=max_degree,
            survey_share=survey_share,
            largest_degree=largest_degree,
            mechanism=mechanism,
            secret=secret,
            num_buckets=num_buckets,
        )
        super().__init__(start, stop, release)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_bounded(records, "ReleaseWindowedAllRecords")
        return super().expand(records)


def _tuples(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return objects(table, RecordKind.TUPLES, tuple(table.column_names))


class SelectWindowedPartitions(_ByWindow):
    """Selects the partitions that may be named in each fixed window: returns (start, partition).

    With ``noisy_counts`` it returns (start, partition, noisy_count). See ``ReleaseWindowedLists``
    for the records, start and stop. See ``SelectPartitionsByPeriod`` for the other arguments and
    the privacy: ``max_windows_per_user`` is its ``max_periods_per_user``.

    >>> visits = [(user, "home", 5) for user in range(50)] + [(1, "home", 70)]
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(visits)
    ...         | beam.Map(lambda v: beam.window.TimestampedValue(v[:2], v[2]))
    ...         | beam.WindowInto(beam.window.FixedWindows(60))
    ...         | SelectWindowedPartitions(
    ...             epsilon=1, delta=1e-9, start=0, stop=120,
    ...             max_windows_per_user=1, max_partitions_per_user=1,
    ...         )
    ...         | beam.Map(print)
    ...     )
    ('1970-01-01T00:00:00Z', 'home')
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        start: TimestampTypes,
        stop: TimestampTypes,
        max_windows_per_user: int | None = None,
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
        release = functools.partial(
            SelectPartitionsByPeriod,
            epsilon=epsilon,
            delta=delta,
            max_periods_per_user=max_windows_per_user,
            max_partitions_per_user=max_partitions_per_user,
            strategy=strategy,
            noisy_counts=noisy_counts,
            intervals=intervals,
            pre_threshold=pre_threshold,
            neighbours=neighbours,
            with_entries=with_entries,
            secret=secret,
            num_buckets=num_buckets,
        )
        super().__init__(start, stop, release)

    def expand(self, records: beam.PCollection) -> Any:
        return names_through(self.tables(records), "Tuples" >> beam.FlatMap(_tuples))

    def tables(self, records: beam.PCollection) -> Any:
        """Returns what ``expand`` returns, with the names in tables that have the columns ``list``
        (the start of the window), ``partition`` and, if asked for, those of noisy counts."""
        return super().expand(records)


# Between stages Beam keeps only the milliseconds of a time.
_END_OF_TIME = Timestamp(micros=GlobalWindow().max_timestamp().micros // 1000 * 1000)


class _Label(beam.DoFn):
    """Adds the name of its window to each record, and leaves out records of other windows."""

    def __init__(self, names: Mapping[int, str]):
        self._names = names

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Iterator[Any]:
        if timestamp == MIN_TIMESTAMP or timestamp >= _END_OF_TIME:
            # Without times no record is in a window to release. All lists would be empty, and cost
            # the whole epsilon. A step that groups records, such as BoundContributions, gives them
            # the time at which the global window ends.
            raise InputError(
                "a record has no event time: give records their times right before WindowInto, by "
                "beam.window.TimestampedValue, and after steps that group or bound them"
            )
        name = self._names.get(window.start.micros)
        if name is None:
            return
        if is_batch(element):
            table = table_from(element, (USER, PARTITION))
            yield table.append_column(LIST, pa.repeat(name, table.num_rows))
            return
        (user,), (partition,) = parts_of([element], (USER, PARTITION))
        yield user, partition, name


def _windows_of(records: beam.PCollection) -> FixedWindows:
    """Returns the windows of records; raises a ValueError if lists of them cannot be released."""
    merged = put_together(records)
    windowing = merged[0].windowing
    if not all(pcoll.is_bounded for pcoll in merged):
        raise ValueError("unbounded input has no last window to charge for: give bounded input")
    if any(pcoll.windowing != windowing for pcoll in merged):
        raise ValueError("a Flatten put different windows together: apply beam.WindowInto after it")
    if type(windowing.windowfn) is not FixedWindows:
        raise ValueError(
            "records must be in beam.window.FixedWindows: sliding windows would release a record "
            "several times, and sessions show by where they begin when a user was active"
        )
    if not _fires_once(windowing.triggerfn):
        raise ValueError("a trigger that fires again would release the same records again")
    return windowing.windowfn


def _fires_once(trigger: Any) -> bool:
    """Returns whether a trigger fires exactly once in each window of bounded input."""
    if isinstance(trigger, AfterWatermark):
        return trigger.early is None and trigger.late is None
    return isinstance(trigger, DefaultTrigger)
