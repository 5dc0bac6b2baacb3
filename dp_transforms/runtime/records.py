"""Records of (user, partition), in the three kinds that the transforms take and give back.

* tuples ``(user, partition)``;
* rows: ``beam.Row`` or a NamedTuple with the fields ``user`` and ``partition``;
* Arrow tables: ``pa.Table`` with the columns ``user`` and ``partition``, many records to an
  element.

Which kind a PCollection has is told by its element type when the pipeline is built; one without a
declared type counts as tuples. Users and partitions are strings, bytes or integers, of one type in
a PCollection. A partition may be composite: in tuples a tuple, in rows a row, in a table a struct.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import Coder, registry
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import TupleConstraint

from dp_transforms.columnar import columns
from dp_transforms.columnar.columns import COUNT as COUNT
from dp_transforms.columnar.columns import PARTITION as PARTITION
from dp_transforms.columnar.columns import USER as USER

NOISY_COUNT = "noisy_count"


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
        with pa.ipc.new_stream(sink, checked_table(value).schema) as writer:
            writer.write_table(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.Table:
        return pa.ipc.open_stream(encoded).read_all()

    def estimate_size(self, value: pa.Table) -> int:
        # Beam samples sizes for its metrics, by encoding unless it is told otherwise.
        return checked_table(value).nbytes

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type:
        return pa.Table


def checked_table(element: Any) -> pa.Table:
    """The element, if it is a table as its type says."""
    if not isinstance(element, pa.Table):
        raise TypeError(f"expected Arrow tables, as declared, got {type(element).__name__}")
    return element


registry.register_coder(pa.Table, TableCoder)


def refuse_windows(pcoll: beam.PCollection) -> None:
    """Refuses input whose groups would come in several parts.

    A ``Flatten`` has the windows of its first input, whatever the others have. So it is looked for
    in all steps before, as far back as one that puts its input into windows.

    Raises:
      ValueError: the input is unbounded, or has windows or triggers: each window would be bounded
        and released by itself, and a user in several windows would be protected less than stated.
    """
    merged, waiting, seen = [pcoll], [pcoll], set()
    while waiting:
        step = waiting.pop().producer
        if step is None or step in seen or isinstance(step.transform, beam.WindowInto):
            continue
        seen.add(step)
        before = [one for one in step.main_inputs.values() if isinstance(one, beam.PCollection)]
        waiting += before
        if isinstance(step.transform, beam.Flatten):
            merged += before
    if not all(one.is_bounded and one.windowing.is_default() for one in merged):
        raise ValueError(
            "a user's contributions are bounded over the whole input, so it must be bounded and in "
            "the global window, and so must all that a Flatten made it of: apply "
            "beam.WindowInto(beam.window.GlobalWindows()) first"
        )


class ToRecords(beam.PTransform):
    """Names the user and the partition of each record, whatever else it has. The kind stays.

    Args:
      user: the user's column or field; for tuples, its position.
      partition: the partition's, likewise; several make a composite partition.
      drop_nulls: leave out records with a null user or partition. Otherwise these are an error,
        when the records are used.

    Raises:
      ValueError: positions are given for rows or tables, or names for tuples; there is no such
        column or field, or a tuple is too short (for tables and tuples, at run time).

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
        # Names, or positions, and all of one sort: expand sees to that.
        self._user: Any = user
        single = isinstance(partition, (str, int))
        self._partition: list[Any] = [partition] if single else list(partition)  # type: ignore[arg-type]
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
        if kind is Kind.TUPLES:
            return pcoll | beam.FlatMap(self._of_tuple).with_output_types(tuple[Any, Any])
        return pcoll | beam.FlatMap(self._of_row).with_output_types(self._row_type(pcoll))

    def _of_table(self, table: pa.Table) -> pa.Table:
        names = [self._user, *self._partition]
        missing = [name for name in names if name not in table.column_names]
        if missing:
            raise ValueError(f"the table has no column {missing[0]!r}: it has {table.column_names}")
        parts = [table[name] for name in names]
        chosen = pa.table(parts, names=[str(i) for i in range(len(parts))])
        if self._drop_nulls:
            chosen = columns.without_nulls(chosen)
        user, *parts = map(columns.single, chosen.columns)
        if len(parts) > 1:
            fields = [columns.plain(part, PARTITION) for part in parts]
            parts = [pa.StructArray.from_arrays(fields, names=self._partition)]
        return pa.table({USER: user, PARTITION: parts[0]})

    def _of_tuple(self, row: tuple[Any, ...]) -> list[tuple[Any, Any]]:
        if len(row) <= max(self._user, *self._partition):
            raise ValueError(f"a record has no position {max(self._user, *self._partition)}")
        user, *parts = (row[i] for i in (self._user, *self._partition))
        if self._drop_nulls and None in (user, *parts):
            return []
        return [(user, parts[0] if len(parts) == 1 else tuple(parts))]

    def _of_row(self, row: Any) -> list[beam.Row]:
        user, *parts = (getattr(row, name) for name in (self._user, *self._partition))
        if self._drop_nulls and None in (user, *parts):
            return []
        composite = len(parts) > 1
        partition = (
            beam.Row(**dict(zip(self._partition, parts, strict=True))) if composite else parts[0]
        )
        return [beam.Row(user=user, partition=partition)]

    def _row_type(self, rows: beam.PCollection) -> RowTypeConstraint:
        types = _field_types(rows.element_type)
        for name in (self._user, *self._partition):
            if name not in types:
                raise ValueError(f"rows have no field {name!r}: they have {list(types)}")
        fields = [(name, types[name]) for name in self._partition]
        partition = RowTypeConstraint.from_fields(fields) if len(fields) > 1 else fields[0][1]
        named: list[Any] = [(USER, types[self._user]), (PARTITION, partition)]
        return RowTypeConstraint.from_fields(named)


def record_type(
    kind: Kind, names: Sequence[str], like: Any, like_names: Sequence[str] = (USER, PARTITION)
) -> Any:
    """The element type of records of a kind.

    Args:
      kind: the kind.
      names: what a record's parts are called, of user, partition, count and noisy_count. A tuple of
        one part is that part itself.
      like: the element type of records of the same kind that these are made from.
      like_names: what the two parts of those are called, if they are tuples.
    """
    if kind is Kind.TABLES:
        return pa.Table
    types = {
        USER: Any,
        PARTITION: Any,
        **_field_types(like, like_names),
        COUNT: int,
        NOISY_COUNT: int,
    }
    parts = tuple(types[name] for name in names)
    if kind is Kind.ROWS:
        return RowTypeConstraint.from_fields(list(zip(names, parts, strict=True)))
    return tuple[parts] if len(parts) > 1 else parts[0]  # type: ignore[valid-type]


def _field_types(declared: Any, names: Sequence[str] = (USER, PARTITION)) -> dict[str, Any]:
    if isinstance(declared, TupleConstraint) and len(declared.tuple_types) == 2:
        # A NamedTuple within a tuple is a composite like any other, and comes back as a tuple.
        types = (Any if hasattr(t, "_fields") else t for t in declared.tuple_types)
        return dict(zip(names, types, strict=True))
    if isinstance(declared, type):
        declared = RowTypeConstraint.from_user_type(declared)
    return dict(declared._fields) if isinstance(declared, RowTypeConstraint) else {}
