"""Records of (user, partition), in the three kinds that the transforms take and give back.

* tuples ``(user, partition)``;
* rows: ``beam.Row`` or a NamedTuple with the fields ``user`` and ``partition``;
* Arrow tables: ``pa.Table`` with the columns ``user`` and ``partition``, many records to an
  element.

Which kind a PCollection has is told by its element type when the pipeline is built; one without a
declared type counts as tuples. Users and partitions are strings, bytes or integers, of one type in
a PCollection. A partition may be composite: a tuple, or in a table a struct column.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import Coder, registry
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import TupleConstraint
from apache_beam.utils.windowed_value import WindowedValue

from dp_transforms.columnar import columns
from dp_transforms.columnar.columns import COUNT as COUNT
from dp_transforms.columnar.columns import PARTITION as PARTITION
from dp_transforms.columnar.columns import USER as USER

_BATCH_ROWS = 1 << 20
_BATCH_BYTES = 1 << 25
_BATCH_OBJECTS = 1 << 17


class Kind(enum.Enum):
    """What the elements of a PCollection are."""

    TUPLES = "tuples"
    ROWS = "rows"
    TABLES = "tables"

    @classmethod
    def of(cls, pcoll: beam.PCollection) -> Kind:
        """The kind that a PCollection's element type declares."""
        declared = pcoll.element_type
        if declared == pa.Table:
            return cls.TABLES
        if isinstance(declared, RowTypeConstraint) or hasattr(declared, "_fields"):
            return cls.ROWS
        return cls.TUPLES


class TableCoder(Coder):
    """Arrow tables as IPC streams: unlike pickling, a slice does not carry its whole parent."""

    def encode(self, value: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as writer:
            writer.write_table(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.Table:
        return pa.ipc.open_stream(encoded).read_all()

    def estimate_size(self, value: pa.Table) -> int:
        # Beam samples sizes for its metrics, by encoding unless it is told otherwise.
        return value.nbytes

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type:
        return pa.Table


registry.register_coder(pa.Table, TableCoder)


def refuse_windows(pcoll: beam.PCollection) -> None:
    """Refuses input whose groups would come in several parts.

    Raises:
      ValueError: the input is unbounded, or has windows or triggers: each window would be bounded
        and released by itself, and a user in several windows would be protected less than stated.
    """
    if not pcoll.is_bounded or not pcoll.windowing.is_default():
        raise ValueError(
            "a user's contributions are bounded over the whole input, so it must be bounded and "
            "in the global window: apply beam.WindowInto(beam.window.GlobalWindows()) first"
        )


class ToRecords(beam.PTransform):
    """Names the user and the partition of each record, whatever else it has. The kind stays.

    Args:
      user: the user's column or field; for tuples, its position.
      partition: the partition's, likewise; several make a composite partition.
      drop_nulls: leave out records with a null user or partition. Otherwise these are an error,
        when the records are used.

    Raises:
      ValueError: a tuple's position is given by name, or a name by position.
      KeyError, at run time: a table has no such column.

    >>> visits = pa.table({"account": [1, 2], "country": ["NO", "IT"], "device": ["tv", "tv"]})
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     records = pipeline | beam.Create([visits]) | ToRecords("account", ["country", "device"])
    ...     _ = records | beam.Map(lambda table: print(table.column_names))
    ['user', 'partition']
    """

    def __init__(
        self,
        user: str | int = USER,
        partition: str | int | Sequence[str | int] = PARTITION,
        drop_nulls: bool = False,
    ):
        super().__init__()
        self._user = user
        composite = not isinstance(partition, (str, int))
        self._partition: list[str | int] = list(partition) if composite else [partition]
        if not self._partition:
            raise ValueError("partition must name at least one column")
        self._drop_nulls = drop_nulls

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        kind = Kind.of(pcoll)
        by_position = kind is Kind.TUPLES
        for name in (self._user, *self._partition):
            if isinstance(name, int) != by_position:
                raise ValueError(
                    f"user and partition are given by {'position' if by_position else 'name'} for "
                    f"{kind.value}, got {name!r}"
                )
        if kind is Kind.TABLES:
            return pcoll | beam.Map(self._of_table).with_output_types(pa.Table)
        field = (lambda row, i: row[i]) if by_position else getattr
        rows = pcoll | beam.Map(self._of_row, field)
        if self._drop_nulls:
            rows |= beam.Filter(_has_no_null)
        if by_position:
            return rows | beam.Map(lambda pair: pair).with_output_types(tuple[Any, Any])
        return rows | beam.MapTuple(_record_row).with_output_types(record_type(kind))

    def _of_table(self, table: pa.Table) -> pa.Table:
        parts = [table[name] for name in self._partition]
        chosen = pa.table(
            [table[self._user], *parts], names=[str(i) for i in range(len(parts) + 1)]
        )
        if self._drop_nulls:
            chosen = columns.without_nulls(chosen)
        user, *parts = (column.combine_chunks() for column in chosen.columns)
        partition = (
            parts[0]
            if len(parts) == 1
            else pa.StructArray.from_arrays(
                [columns.plain(part, PARTITION) for part in parts], names=map(str, self._partition)
            )
        )
        return pa.table({USER: user, PARTITION: partition})

    def _of_row(self, row: Any, field: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
        parts = tuple(field(row, name) for name in self._partition)
        return field(row, self._user), parts[0] if len(parts) == 1 else parts


def _has_no_null(pair: tuple[Any, Any]) -> bool:
    user, partition = pair
    fields = partition if isinstance(partition, tuple) else (partition,)
    return user is not None and all(field is not None for field in fields)


def _record_row(user: Any, partition: Any) -> beam.Row:
    return beam.Row(user=user, partition=partition)


def record_type(kind: Kind, names: Sequence[str] = (USER, PARTITION), like: Any = None) -> Any:
    """The element type of records of a kind.

    Args:
      kind: the kind.
      names: what a record's two parts are called.
      like: an element type of the same kind, from which the parts' types are taken where it has
        them.
    """
    if kind is Kind.TABLES:
        return pa.Table
    types: dict[str, Any] = {}
    if isinstance(like, TupleConstraint) and len(like.tuple_types) == 2:
        types = dict(zip((USER, PARTITION), like.tuple_types, strict=True))
    elif row_type := RowTypeConstraint.from_user_type(like) if isinstance(like, type) else like:
        types = dict(getattr(row_type, "_fields", ()))
    types[COUNT] = int
    fields = [(name, types.get(name, Any)) for name in names]
    if kind is Kind.ROWS:
        return RowTypeConstraint.from_fields(fields)
    return tuple[fields[0][1], fields[1][1]]  # type: ignore[misc]


T = TypeVar("T")


class ToTables(beam.PTransform):
    """Records of any kind as plain tables (see ``columnar.columns``) of a good size.

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


class FromTables(beam.PTransform):
    """Tables as records of a kind.

    Args:
      kind: the kind.
      names: what a record's two parts are called.
      like: see ``record_type``.
    """

    def __init__(self, kind: Kind, names: Sequence[str] = (USER, PARTITION), like: Any = None):
        super().__init__()
        self._kind = kind
        self._names = tuple(names)
        self._type = record_type(kind, names, like)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        if self._kind is Kind.TABLES:
            return pcoll
        return pcoll | "Unbatch" >> beam.FlatMap(
            _objects, self._kind, self._names
        ).with_output_types(self._type)


class _Batch(beam.DoFn, Generic[T]):
    """Collects elements of a bundle until there are enough of them for one table."""

    def __init__(self, names: tuple[str, ...], kind: Kind):
        self._names = names
        self._kind = kind

    def start_bundle(self) -> None:
        self._held: list[T] = []
        self._rows = 0
        self._bytes = 0

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for table in self._flush():
            yield WindowedValue(table, GlobalWindow().max_timestamp(), (GlobalWindow(),))

    def _flush(self) -> list[pa.Table]:
        held = self._held
        self.start_bundle()
        return [self._table(held)] if held else []

    def _table(self, held: list[T]) -> pa.Table:
        raise NotImplementedError


class _BatchTables(_Batch[pa.Table]):
    def process(self, element: pa.Table) -> Iterable[pa.Table]:
        if not isinstance(element, pa.Table):
            raise TypeError(f"expected Arrow tables, as declared, got {type(element).__name__}")
        table = columns.plain_table(element, self._names)
        if not table.num_rows:
            return ()
        self._held.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
            return self._flush()
        return ()

    def _table(self, held: list[pa.Table]) -> pa.Table:
        return columns.concat(held)


class _BatchRows(_Batch[Any]):
    def process(self, element: Any) -> Iterable[pa.Table]:
        self._held.append(element)
        if len(self._held) >= _BATCH_OBJECTS:
            return self._flush()
        return ()

    def _table(self, held: list[Any]) -> pa.Table:
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
        return pa.table(
            {
                name: columns.plain(_column(part, name), name)
                for name, part in zip(self._names, parts, strict=True)
            }
        )


def _column(values: list[Any], name: str) -> pa.Array:
    """Python objects as a column; tuples as a struct."""
    try:
        if isinstance(values[0], (tuple, list)):
            fields = zip(*values, strict=True)
            arrays = [_column(list(field), name) for field in fields]
            return pa.StructArray.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        # The original message may show a value.
        if any(value is None for value in values):
            return pa.nulls(len(values))
        raise TypeError(
            f"the values of {name!r} must be of one type, strings, bytes or 64-bit integers (a "
            "composite partition: tuples of these, equally long)"
        ) from None


def _objects(table: pa.Table, kind: Kind, names: tuple[str, ...]) -> Iterator[Any]:
    first, second = (_python_values(columns.single(table[name])) for name in names)
    pairs = zip(first, second, strict=True)
    if kind is Kind.TUPLES:
        return pairs
    return (beam.Row(**dict(zip(names, pair, strict=True))) for pair in pairs)


def _python_values(array: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        values = _python_values(array.dictionary)
        return [values[code] for code in array.indices.to_numpy()]
    if pa.types.is_struct(array.type):
        return list(zip(*map(_python_values, array.flatten()), strict=True))
    return array.to_pylist()
