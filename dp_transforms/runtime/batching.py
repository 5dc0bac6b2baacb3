"""Records of every kind as tables of a good size, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms.columnar import columns
from dp_transforms.runtime.bounds import TellsBound
from dp_transforms.runtime.records import PARTITION, USER, Kind, checked_table, record_type
from dp_transforms.runtime.shuffle import OnThreads, in_global_window

_BATCH_ROWS = 1 << 20
_BATCH_BYTES = 1 << 26
_BATCH_OBJECTS = 1 << 17

T = TypeVar("T")


class ToTables(TellsBound, beam.PTransform):
    """Records of any kind as tables in the form of ``columnar.columns``, of a good size.

    Args:
      names: what a record's two parts are called.
    """

    def __init__(self, names: Sequence[str] = (USER, PARTITION)):
        super().__init__()
        self._names = tuple(names)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        batch = _BatchTables if Kind.of(pcoll) is Kind.TABLES else _BatchRows
        return pcoll | "Batch" >> beam.ParDo(batch(self._names, Kind.of(pcoll))).with_output_types(
            pa.Table
        )


class FromTables(TellsBound, beam.PTransform):
    """Tables as records of the same kind as others.

    Args:
      like: records of the kind to give.
      names: what a record's parts are called; a tuple of one part is that part itself.
      like_names: what the two parts of ``like`` are called, if they are tuples.
    """

    def __init__(
        self,
        like: beam.PCollection,
        names: Sequence[str] = (USER, PARTITION),
        like_names: Sequence[str] = (USER, PARTITION),
    ):
        super().__init__()
        self._kind = Kind.of(like)
        self._names = tuple(names)
        self._type = record_type(self._kind, names, like.element_type, like_names)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        if self._kind is Kind.TABLES:
            return pcoll
        return pcoll | "Unbatch" >> beam.FlatMap(
            _objects, self._kind, self._names
        ).with_output_types(self._type)


class _Batch(OnThreads, Generic[T]):
    """Collects elements of a bundle until there are enough of them for one table."""

    def __init__(self, names: tuple[str, ...], kind: Kind):
        super().__init__(self._tables)
        self._names = names
        self._kind = kind

    def start_bundle(self) -> None:
        super().start_bundle()
        self._begin()

    def _begin(self) -> None:
        self._held: list[T] = []
        self._rows = 0
        self._bytes = 0

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for table in self._flush():
            yield in_global_window(table)
        yield from super().finish_bundle()

    def _flush(self) -> Iterator[pa.Table]:
        held = self._held
        self._begin()
        if held:
            yield from self.submit(self._tables, held)

    def _tables(self, held: list[T]) -> list[pa.Table]:
        raise NotImplementedError


class _BatchTables(_Batch[pa.Table]):
    def process(self, element: pa.Table) -> Iterator[pa.Table]:
        table = checked_table(element)
        columns.check_columns(table, self._names)
        if not table.num_rows:
            return
        table = table.select(self._names)
        self._held.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            yield from self._flush()

    def _tables(self, held: list[pa.Table]) -> list[pa.Table]:
        return [columns.coded_table(held, self._names)]


class _BatchRows(_Batch[Any]):
    def process(self, element: Any) -> Iterator[pa.Table]:
        self._held.append(element)
        if len(self._held) >= _BATCH_OBJECTS:
            yield from self._flush()

    def _tables(self, held: list[Any]) -> list[pa.Table]:
        first, second = self._names
        if self._kind is Kind.ROWS:
            parts = [[getattr(row, name) for row in held] for name in self._names]
        else:
            if any(kind not in (tuple, list) for kind in set(map(type, held))):
                raise TypeError(
                    f"records must be tuples ({first}, {second}), rows or Arrow tables. For rows "
                    "and tables declare the element type: .with_output_types(pa.Table)"
                )
            if set(map(len, held)) != {2}:
                raise ValueError(f"records must be pairs ({first}, {second})")
            parts = [list(part) for part in zip(*held, strict=True)]
        return [
            pa.table(
                {
                    name: columns.plain(_column(part, name), name)
                    for name, part in zip(self._names, parts, strict=True)
                }
            )
        ]


def _column(values: list[Any], name: str) -> pa.Array:
    """Python objects as a column; tuples and rows as a struct."""
    try:
        first = values[0]
        if isinstance(first, beam.Row):
            return _struct([tuple(value.as_dict().values()) for value in values], first.as_dict())
        if isinstance(first, (tuple, list)):
            # A row that was decoded is a NamedTuple.
            return _struct(values, getattr(first, "_fields", range(len(first))))
        return pa.array(values)
    except (AttributeError, OverflowError, TypeError, ValueError, pa.ArrowException):
        # The original message may show a value.
        if any(value is None for value in values):
            return pa.nulls(len(values))
        raise TypeError(
            f"the values of {name!r} must be of one type, strings, bytes or 64-bit integers, or be "
            "composite: tuples of these, or rows, all with the same fields"
        ) from None


def _struct(values: list[Any], names: Iterable[Any]) -> pa.Array:
    fields = [_column(list(field), "") for field in zip(*values, strict=True)]
    return pa.StructArray.from_arrays(fields, names=list(map(str, names)))


def _objects(table: pa.Table, kind: Kind, names: tuple[str, ...]) -> Iterable[Any]:
    parts = [_python_values(columns.single(table[name]), kind) for name in names]
    if kind is Kind.ROWS:
        return _rows(parts, names)
    return zip(*parts, strict=True) if len(parts) > 1 else parts[0]


def _python_values(array: pa.Array, kind: Kind) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        values = _python_values(array.dictionary, kind)
        return [values[code] for code in array.indices.to_numpy()]
    if pa.types.is_struct(array.type):
        parts = [_python_values(field, kind) for field in array.flatten()]
        names = [field.name for field in array.type]
        return list(_rows(parts, names) if kind is Kind.ROWS else zip(*parts, strict=True))
    return array.to_pylist()


def _rows(parts: list[list[Any]], names: Sequence[str]) -> Iterator[beam.Row]:
    for values in zip(*parts, strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))
