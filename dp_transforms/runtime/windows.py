"""Records by window or by period of time, of which a user counts in a number."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp, TimestampTypes

from dp_transforms.columnar.attributes import LIST, bound_periods, listed
from dp_transforms.columnar.columns import PARTITION, USER, decoded, plain, single
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.bounds import refuse_counts
from dp_transforms.runtime.records import Kind, is_batch, put_together, refuse_windows, table_from
from dp_transforms.runtime.shuffle import OnThreads, ReduceByHash

if TYPE_CHECKING:
    from dp_transforms.job_secret import JobSecret

MOST_WINDOWS = 10_000


class BoundPeriods(beam.PTransform):
    """Bounds each user's periods, and partitions in each: see ``columnar.attributes``.

    Tables with the columns ``user``, ``partition`` and ``list`` in; distinct pairs of a user and a
    struct of ``list`` and ``partition`` out, as tables. Only these periods are kept at all.
    """

    def __init__(
        self,
        periods: Sequence[str],
        most_periods: int,
        at_most: int,
        secret: JobSecret,
        num_buckets: int | None,
    ):
        super().__init__()
        self._periods = periods
        bound = functools.partial(
            bound_periods,
            most_periods=most_periods,
            at_most=at_most,
            period_key=secret.key("periods of users"),
            key=secret.key("bound contributions"),
        )
        self._reduce = ReduceByHash(bound, (USER,), secret.key("route users"), num_buckets)

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        return (
            tables
            | "Known" >> beam.Map(_in_periods, self._periods).with_output_types(pa.Table)
            | "ToTables" >> ToTables((USER, PARTITION, LIST))
            | "Reduce" >> self._reduce
            | "InLists" >> beam.ParDo(OnThreads(_in_lists)).with_output_types(pa.Table)
        )


def refuse_other_than_tables(tables: beam.PCollection, transform: str) -> None:
    """Raises a ValueError for records in windows, counts, and what is not declared as tables."""
    refuse_windows(tables)
    refuse_counts(tables, transform)
    if Kind.of(tables) is not Kind.TABLES:
        raise ValueError(f"{transform} takes Arrow tables: declare them as pa.Table")


class WindowRange:
    """The windows that begin from start on, and before stop, which is later, or a ValueError."""

    def __init__(self, start: TimestampTypes, stop: TimestampTypes):
        try:
            self._start, self._stop = Timestamp.of(start), Timestamp.of(stop)
        except OverflowError:
            raise ValueError("start and stop must be finite") from None
        if self._start >= self._stop:
            raise ValueError("start must be before stop")

    def names(self, records: beam.PCollection, transform: str) -> dict[int, str]:
        """{beginning in microseconds: its name} of each window that records may be in.

        Raises:
          ValueError: these are counts, or not in fixed windows; there are too many windows.
        """
        refuse_counts(records, transform)
        windows = _windows_of(records)
        size, offset = windows.size.micros, windows.offset.micros
        first = -((offset - self._start.micros) // size)
        if (self._stop.micros - self._start.micros) // size > MOST_WINDOWS:
            raise ValueError(f"there are more than {MOST_WINDOWS:,} windows from start to stop")
        begins = range(first * size + offset, self._stop.micros, size)
        return {micros: Timestamp(micros=micros).to_rfc3339() for micros in begins}


class NameWindows(beam.PTransform):
    """Records in windows as tables in the global one, with the window's name as ``list``. Those of
    windows that are not in ``WindowRange.names`` are left out."""

    def __init__(self, names: Mapping[int, str]):
        super().__init__()
        self._names = names

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        # The partition travels with its window until it is in a table.
        label = beam.ParDo(_Label(self._names)).with_output_types(
            pa.Table if Kind.of(records) is Kind.TABLES else Any
        )
        return (
            records
            | "Label" >> label
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Batch" >> ToTables()
            | "Split" >> beam.Map(_of_composite).with_output_types(pa.Table)
        )


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
    table = decoded(table)
    return [listed(table, single(table[LIST]))]
