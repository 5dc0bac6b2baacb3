"""Transforms that collect records of any kind into large tables, and take tables apart again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms.beam.bounds import BoundAware, bound_of
from dp_transforms.beam.records import (
    RecordKind,
    check_known_fields,
    declares_nothing,
    field_types,
    how_to_name,
    is_batch,
    table_from,
)
from dp_transforms.beam.shuffle import OnThreads, in_global_window
from dp_transforms.columnar import columns
from dp_transforms.columnar.columns import COUNT, HIGH, LOW, NOISY_COUNT, PARTITION, USER
from dp_transforms.runtime.python_values import column_of, is_row

_BATCH_OBJECTS = 1 << 17
_ITERABLE_VALUES = (str, bytes, bytearray, memoryview, tuple, dict)
"""Values that can be iterated over and are no groups."""

Column = Callable[[Sequence[Any], str], pa.Array]
"""A function that returns an Arrow column, given its values and its name."""


def plain_column(values: Sequence[Any], name: str) -> pa.Array:
    """Returns a column of Python values, in the plain types of users and partitions.

    Raises:
      ValueError, TypeError: there is a null, a value of another type, or values of several types.
    """
    return columns.plain(ungrouped_column(values, name), name)


def ungrouped_column(values: Sequence[Any], name: str) -> pa.Array:
    """Returns a column of Python values, as ``column_of`` does, but refuses lists. They are the
    groups that ``GroupByKey`` makes, and would be taken for composites if all are equally long.

    Raises:
      TypeError: there is a list or another group, a value of another type, or values of several
        types.
    """
    try:
        column = column_of(values, name)
    except TypeError:
        _refuse_groups(values, name)
        raise
    # Columns of other types cost no further look at each value.
    if pa.types.is_struct(column.type):
        _refuse_groups(values, name)
    return column


def _refuse_groups(values: Sequence[Any], name: str) -> None:
    for kind in set(map(type, values)):
        is_group = issubclass(kind, Iterable) and not issubclass(kind, _ITERABLE_VALUES)
        if is_group and not is_row(kind):
            raise TypeError(
                f"the values of {name!r} are lists or other groups, as after GroupByKey: make a "
                "record of each of their elements, or tuples of lists that are composite partitions"
            ) from None


class ToTables(BoundAware, beam.PTransform):
    """Collects records of any kind into large tables, in the form of ``columnar.columns``.

    Args:
      names: the names of a record's parts, which become columns.
      column: makes a column of the values of one part.
    """

    def __init__(self, names: Sequence[str] = (USER, PARTITION), column: Column = plain_column):
        super().__init__()
        self._names = tuple(names)
        self._column = column

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        kind = RecordKind.of(pcoll)
        check_known_fields(pcoll, self._names)
        # Elements of no declared type may be tables, but not if their bound is known: the bound may
        # have come through a filter. That keeps the bound only if it decides about records one by
        # one, and a table has records of several users.
        may_have_tables = kind is RecordKind.TABLES or (
            declares_nothing(pcoll) and bound_of(pcoll).partitions is None
        )
        batch = _Batch(self._names, kind, may_have_tables, self._column)
        return pcoll | "Batch" >> beam.ParDo(batch).with_output_types(pa.Table)


class ToNamedTables(beam.PTransform):
    """Turns records of any kind into tables with named columns of any types.

    Each table of the input gives one table; other records are collected into large tables.

    Args:
      names: the columns to take of tables and rows, or the names of the parts of tuples, in order.
    """

    def __init__(self, names: Sequence[str]):
        super().__init__()
        self._names = tuple(names)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        if RecordKind.of(records) is not RecordKind.TABLES:
            return records | "Batch" >> ToTables(self._names, ungrouped_column)
        check_known_fields(records, self._names)
        return records | "Select" >> beam.Map(table_from, self._names).with_output_types(pa.Table)


class FromTables(BoundAware, beam.PTransform):
    """Takes tables apart into records, of the same kind and types as the records ``like``.

    Args:
      like: records whose kind, and whose types of users and partitions, the output gets.
      names: the columns to take, which become the parts of each record: any of user, partition,
        count, noisy_count, low and high. Instead of a tuple of one part, that part is returned.
      like_names: the names of the two parts of ``like``, if they are tuples.
    """

    def __init__(
        self,
        like: beam.PCollection,
        names: Sequence[str] = (USER, PARTITION),
        like_names: Sequence[str] = (USER, PARTITION),
    ):
        super().__init__()
        self._kind = RecordKind.of(like)
        self._names = tuple(names)
        types = dict.fromkeys((USER, PARTITION), Any) | field_types(like.element_type, like_names)
        types |= dict.fromkeys((COUNT, NOISY_COUNT, LOW, HIGH), int)
        self._types = tuple(types[name] for name in names)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        if self._kind is RecordKind.TABLES:
            return pcoll
        made: Any = dict[str, Any]
        if self._kind is RecordKind.ROWS:
            made = RowTypeConstraint.from_fields(list(zip(self._names, self._types, strict=True)))
        elif self._kind is RecordKind.TUPLES:
            made = beam.typehints.Tuple[self._types] if len(self._types) > 1 else self._types[0]
        records = beam.FlatMap(objects, self._kind, self._names)
        return pcoll | "Unbatch" >> records.with_output_types(made)


class _Batch(OnThreads):
    """Holds records, and tables of records, until there are enough of either for a large table."""

    def __init__(
        self, names: tuple[str, ...], kind: RecordKind, may_have_tables: bool, column: Column
    ):
        super().__init__(self._of_records)
        self._names, self._kind, self._column = names, kind, column
        self._may_have_tables = may_have_tables

    def start_bundle(self) -> None:
        super().start_bundle()
        self._begin()

    def _begin(self) -> None:
        self._held: list[Any] = []
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    def process(self, element: Any) -> Iterator[pa.Table]:
        if self._is_table(element):
            table = table_from(element, self._names)
            if table.num_rows:
                self._tables.append(table)
                self._rows += table.num_rows
                self._bytes += columns.size_of(table)
            full = columns.is_full(self._rows, self._bytes, table)
        else:
            self._held.append(element)
            full = len(self._held) >= _BATCH_OBJECTS
        if full:
            yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for table in self._flush():
            yield in_global_window(table)
        yield from super().finish_bundle()

    def _is_table(self, element: Any) -> bool:
        if self._kind is RecordKind.TABLES:
            return True
        # Most elements are tuples, for which this is faster than ``is_batch``.
        if not self._may_have_tables or type(element) is tuple:
            return False
        return is_batch(element)

    def _flush(self) -> Iterator[pa.Table]:
        held, tables = self._held, self._tables
        self._begin()
        if tables:
            yield from self.submit(self._of_tables, tables)
        if held:
            yield from self.submit(self._of_records, held)

    def _of_tables(self, tables: list[pa.Table]) -> list[pa.Table]:
        return [columns.coded_table(tables, self._names)]

    def _of_records(self, held: list[Any]) -> list[pa.Table]:
        parts = zip(self._names, parts_of(held, self._names, self._kind), strict=True)
        return [pa.table({name: self._column(part, name) for name, part in parts})]


def parts_of(
    records: Sequence[Any], names: Sequence[str], kind: RecordKind = RecordKind.TUPLES
) -> list[list[Any]]:
    """Returns a list of values for each named part of records.

    Args:
      records: tuples, whose parts have the order of ``names``; or rows or dictionaries.
      names: the names of the parts.
      kind: the kind of the records; only ROWS makes a difference, as rows of any type are then
        expected.

    Raises:
      ValueError: a record has other parts.
      TypeError: elements are not records, or are of several kinds.
    """
    kinds = set(map(type, records))
    described = ", ".join(names)
    try:
        if kind is RecordKind.ROWS or all(map(is_row, kinds)):
            return [[getattr(row, name) for row in records] for name in names]
        if kinds == {dict}:
            return [[record[name] for record in records] for name in names]
    except (AttributeError, KeyError):
        raise ValueError(
            f"a record has no field {' or '.join(map(repr, names))}: {how_to_name(names)}"
        ) from None
    if not kinds <= {tuple, list}:
        raise TypeError(
            f"records must be tuples ({described}), rows, dictionaries or Arrow tables, of one "
            "kind. Of bounded tables declare the element type: .with_output_types(pa.Table)"
        )
    if set(map(len, records)) != {len(names)}:
        raise ValueError(f"records must have {len(names)} parts ({described})")
    return [list(part) for part in zip(*records, strict=True)]


def objects(table: pa.Table, kind: RecordKind, names: Sequence[str]) -> Iterable[Any]:
    """Returns the rows of the named columns of a table as records of a kind. For tuples with a
    single name, it returns the values themselves."""
    parts = [_python_values(columns.single(table[name]), kind) for name in names]
    if len(parts) == 1 and kind is RecordKind.TUPLES:
        return parts[0]
    return _composed(parts, names, kind)


def _python_values(array: pa.Array, kind: RecordKind) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        values = _python_values(array.dictionary, kind)
        return [values[code] for code in array.indices.to_pylist()]
    if pa.types.is_struct(array.type):
        parts = [_python_values(field, kind) for field in array.flatten()]
        return list(_composed(parts, [field.name for field in array.type], kind))
    return array.to_pylist()


def _composed(parts: list[list[Any]], names: Sequence[str], kind: RecordKind) -> Iterator[Any]:
    rows = zip(*parts, strict=True)
    if kind is RecordKind.TUPLES:
        return rows
    named = (dict(zip(names, values, strict=True)) for values in rows)
    return (beam.Row(**fields) for fields in named) if kind is RecordKind.ROWS else named
