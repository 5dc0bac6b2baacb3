"""Defines the four kinds of (user, partition) records that the transforms take and give back.

* tuples ``(user, partition)``;
* rows: ``beam.Row`` or a NamedTuple with the fields ``user`` and ``partition``;
* dictionaries with these keys;
* Arrow tables: ``pa.Table`` with the columns ``user`` and ``partition``, many records to an
  element. Record batches and pandas data frames are taken as tables.

The kind of a PCollection is known when the pipeline is built: from its element type, or else from
the Beam connector that reads it. Elements without a declared type may be of any kind, and come back
as tuples. All users of a PCollection have one type, and so have all partitions: strings, bytes or
integers. A partition may be composite: a tuple in tuples, a row in rows, a dictionary in
dictionaries, a struct in tables.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.coders import Coder, registry
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import TypeOptions
from apache_beam.pvalue import PValue
from apache_beam.transforms.display import DisplayData
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import DictHint, TupleConstraint

from dp_transforms.columnar import columns
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.runtime.python_values import (
    column_name,
    frame_column,
    has_null,
    is_row,
    nested_value,
    several_names,
)

_PARQUET_TABLES = (beam.io.ReadFromParquetBatched,)
_AVRO = (beam.io.ReadFromAvro,)
_DICTS = (beam.io.ReadFromParquet, beam.io.ReadFromBigQuery, *_AVRO)


class RecordKind(enum.Enum):
    """The kinds of records; the values are their names in messages."""

    TUPLES = "tuples"
    ROWS = "rows"
    DICTS = "dictionaries"
    TABLES = "tables"

    @classmethod
    def of(cls, pcoll: beam.PCollection) -> RecordKind:
        """Returns the kind of a PCollection, by its element type or its connector.

        Raises:
          ValueError: the pipeline has the option by which Beam leaves out all element types.
        """
        if not pcoll.pipeline.options.view_as(TypeOptions).pipeline_type_check:
            raise ValueError(
                "with --no_pipeline_type_check Beam leaves out the types of elements, by which "
                "transforms tell tables from other records: leave this option out"
            )
        declared = pcoll.element_type
        if declared in (pa.Table, pa.RecordBatch) or declared is _frame_type():
            return cls.TABLES
        if isinstance(declared, RowTypeConstraint) or hasattr(declared, "_fields"):
            return cls.ROWS
        if isinstance(declared, DictHint.DictConstraint) or declared is dict:
            return cls.DICTS
        if declares_nothing(pcoll):
            connectors = connectors_of(pcoll)
            if all(isinstance(connector, _PARQUET_TABLES) for connector in connectors):
                return cls.TABLES
            if all(isinstance(connector, _DICTS) for connector in connectors):
                return cls.DICTS
        return cls.TUPLES


def declares_nothing(pcoll: beam.PCollection) -> bool:
    """Returns whether a PCollection has no declared element type, so that any may be in it."""
    return pcoll.element_type in (None, Any, object, beam.typehints.Any)


class TableCoder(Coder):
    """A coder that writes Arrow tables as IPC streams. Beam's default is pickling, which would
    write a whole table in place of a slice of it."""

    def encode(self, value: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, checked_table(value).schema) as writer:
            writer.write_table(value)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.Table:
        return pa.ipc.open_stream(encoded).read_all()

    def estimate_size(self, value: pa.Table) -> int:
        # Beam asks for the sizes of some elements, for its metrics. By default it encodes them.
        return columns.size_of(checked_table(value))

    def is_deterministic(self) -> bool:
        return False

    def to_type_hint(self) -> type:
        return pa.Table


def checked_table(element: Any) -> pa.Table:
    """Returns the element, which is declared to be a table; raises a TypeError if it is not."""
    if not isinstance(element, pa.Table):
        raise TypeError(f"expected Arrow tables, as declared, got {type(element).__name__}")
    return element


def is_batch(element: Any) -> bool:
    """Returns whether an element is an Arrow table, a record batch or a pandas data frame."""
    frame = _frame_type()
    return isinstance(element, (pa.Table, pa.RecordBatch)) or (
        frame is not None and isinstance(element, frame)
    )


def table_from(batch: Any, names: Sequence[str]) -> pa.Table:
    """Returns the named columns of a table, a record batch or a data frame.

    Raises:
      ValueError: a column is missing, or is there twice.
      TypeError: the batch is of another type, or a frame's column has values of several types.
    """
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    is_frame = is_batch(batch) and not isinstance(batch, pa.Table)
    if is_frame:
        columns = list(batch.columns)
    else:
        columns = checked_table(batch).column_names
    for name in names:
        if columns.count(name) != 1:
            # The names of other columns may be private.
            how_many = "more than one" if name in columns else "no"
            raise ValueError(f"the table has {how_many} column {name!r}: {how_to_name(names)}")
    if not is_frame:
        return batch.select(names)
    return pa.table({name: frame_column(batch[name], name) for name in names})


def how_to_name(names: Iterable[str]) -> str:
    """Returns the advice of an error about records that lack one of the named parts."""
    if set(names) == {USER, PARTITION}:
        return "name yours with ToRecords(user=..., partition=...)"
    return "check the name, or rename yours in a step before"


def check_known_fields(pcoll: beam.PCollection, names: Sequence[str]) -> None:
    """Raises a ValueError if a name is no field of declared rows, or no column of read files."""
    known = [("the file has no column", columns) for columns in _file_columns_of(pcoll)]
    if RecordKind.of(pcoll) is RecordKind.ROWS:
        known.append(("rows have no field", list(field_types(pcoll.element_type))))
    for missing, fields in known:
        for name in names:
            if name not in fields:
                # These names are public.
                raise ValueError(
                    f"{missing} {name!r}, only {', '.join(map(str, fields))}: {how_to_name(names)}"
                )


def connectors_of(pcoll: PValue) -> list[beam.PTransform | None]:
    """Returns the connectors that read the elements of a PCollection, if no step changed them.

    Finds only the connectors for whose elements Beam declares no type. In the list, None stands for
    any other source.
    """
    step = pcoll.producer
    while step is not None and (step is pcoll.producer or pcoll in step.outputs.values()):
        if isinstance(step.transform, (*_PARQUET_TABLES, *_DICTS)):
            return [step.transform]
        if isinstance(step.transform, (beam.Flatten, beam.Reshuffle)) or is_filter(step.transform):
            inputs = step.main_inputs.values()
            connectors = [connector for inner in inputs for connector in connectors_of(inner)]
            return connectors if connectors else [None]
        step = step.parent
    return [None]


def _file_columns_of(pcoll: PValue) -> Iterator[list[str]]:
    """Yields the columns of one file of each connector that the elements were read by.

    A connector without a file that can be read now is passed over: if it has none when the pipeline
    runs, Beam raises an error.
    """
    for connector in filter(None, connectors_of(pcoll)):
        items = DisplayData.create_from(connector).items
        for pattern in [str(item.value) for item in items if item.key == "file_pattern"]:
            columns = _columns_of_first_file(pattern, isinstance(connector, _AVRO))
            if columns is not None:
                yield columns


def _columns_of_first_file(pattern: str, is_avro: bool) -> list[str] | None:
    """Returns the columns of the first file that matches; None if none can be read now."""
    try:
        matching = FileSystems.match([pattern], [1])[0].metadata_list
        if not matching:
            return None
        with FileSystems.open(matching[0].path) as file:
            return _columns_in(file, is_avro)
    except (BeamIOError, OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _columns_in(file: Any, is_avro: bool) -> list[str]:
    if is_avro:
        schema: Any = fastavro.reader(file).writer_schema
        return [field["name"] for field in schema["fields"]]
    return pq.read_schema(file).names


def is_filter(transform: beam.PTransform | None) -> bool:
    """Returns whether a transform is known to be a ``beam.Filter`` without side inputs.

    Beam makes such a filter by a ParDo around a function of its own, which has a known name.
    """
    if not isinstance(transform, beam.ParDo) or transform.side_inputs:
        return False
    decide = getattr(transform.fn, "_fn", None)
    module, name = getattr(decide, "__module__", ""), getattr(decide, "__qualname__", "")
    return (module, name) == (beam.Filter.__module__, "Filter.<locals>.<lambda>")


def _frame_type() -> Any:
    """Returns the type of pandas data frames; None unless pandas is imported."""
    return getattr(sys.modules.get("pandas"), "DataFrame", None)


registry.register_coder(pa.Table, TableCoder)


def require_one_collection(pcoll: Any) -> None:
    """Raises a TypeError if the input of a transform is no PCollection."""
    if not isinstance(pcoll, beam.PCollection):
        raise TypeError(
            f"this transform takes one PCollection, got {type(pcoll).__name__}: apply it to "
            "records, and beam.Flatten() to several PCollections first"
        )


def refuse_windows(pcoll: beam.PCollection) -> None:
    """Raises a ValueError if the input is unbounded, or has windows or triggers.

    Each window would be bounded and released by itself. A user with records in several windows
    would be protected less than the release states.

    Raises:
      TypeError: the input is no PCollection.
    """
    require_one_collection(pcoll)
    merged = put_together(pcoll)
    if not all(part.is_bounded for part in merged):
        raise ValueError(
            "a user's contributions are bounded over the whole input, and unbounded input has no "
            "end: give bounded input"
        )
    if not all(part.windowing.is_default() for part in merged):
        raise ValueError(
            "a user's contributions are bounded over the whole input, so it must be bounded and in "
            "the global window, and so must all inputs of a Flatten that made it: apply "
            "beam.WindowInto(beam.window.GlobalWindows()) first, or ReleaseWindowedLists for a "
            "list of each window"
        )


def put_together(pcoll: beam.PCollection) -> list[beam.PCollection]:
    """Returns a PCollection, and all inputs of each ``Flatten`` among the steps that made it.

    The output of a ``Flatten`` has the windows of its first input, whatever those of the others
    are. So the other inputs have to be checked too. The search goes through all steps before, as
    far back as a ``WindowInto``.
    """
    merged, waiting, seen = [pcoll], [pcoll], set()
    while waiting:
        step = waiting.pop().producer
        if step is None or step in seen or isinstance(step.transform, beam.WindowInto):
            continue
        seen.add(step)
        before = [
            inner for inner in step.main_inputs.values() if isinstance(inner, beam.PCollection)
        ]
        waiting += before
        if isinstance(step.transform, beam.Flatten):
            merged += before
    return merged


class ToRecords(beam.PTransform):
    """Returns records of the user and the partition alone, of the same kind as the given records.

    Args:
      user: the user's column, field or key; for tuples, its position. In dictionaries, "user.id" is
        the key "id" of the dictionary that is the value of "user".
      partition: the partition's column, field, key or position. Several of them make a composite
        partition.
      drop_nulls: leave out records with a null user or partition, which are an error otherwise.

    Raises:
      ValueError: names are given for tuples, or positions for other records; or rows, or files that
        are read, have no such field. At run time: a table has no such column, a dictionary no such
        key, or a tuple is too short.

    >>> visits = pa.table({"account": [1, 2], "country": ["NO", "IT"], "device": ["tv", "tv"]})
    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([visits]) | ToRecords("account", ["country", "device"])
    ...     _ = records | beam.Map(lambda table: print(table.column_names))
    ['user', 'partition']
    """

    def __init__(
        self,
        user: str | int = USER,
        partition: str | int | Sequence[str | int] = PARTITION,
        *,
        drop_nulls: bool = False,
    ):
        super().__init__()
        # ``expand`` checks that all of these are names, or all are positions.
        self._user: Any = column_name("user", user)
        self._partition = several_names(partition)
        if len({*self._names}) < len(self._names):
            raise ValueError("user and partition must be different columns")
        self._drop_nulls = boolean("drop_nulls", drop_nulls)

    @property
    def _names(self) -> list[Any]:
        return [self._user, *self._partition]

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        require_one_collection(pcoll)
        kind = RecordKind.of(pcoll)
        self._check_names(kind, is_declared=not declares_nothing(pcoll))
        by_position = isinstance(self._user, int)
        if not by_position:
            check_known_fields(pcoll, self._names)
        if kind is RecordKind.TABLES:
            return pcoll | beam.Map(self._of_table).with_output_types(pa.Table)
        if kind is RecordKind.DICTS:
            return pcoll | beam.FlatMap(self._of_dict).with_output_types(dict[str, Any])
        if kind is RecordKind.ROWS:
            return pcoll | beam.FlatMap(self._of_row).with_output_types(self._row_type(pcoll))
        if by_position:
            return pcoll | beam.FlatMap(self._of_tuple).with_output_types(tuple[Any, Any])
        return pcoll | beam.FlatMap(self._of_any).with_output_types(Any)

    def _check_names(self, kind: RecordKind, is_declared: bool) -> None:
        """Raises a ValueError unless there are positions for tuples and names for other records.

        Records without a declared type, whose kind is taken to be tuples, may be of any kind: they
        can have all positions or all names.
        """
        positions = [isinstance(name, int) for name in self._names]
        may_be_of_any_kind = kind is RecordKind.TUPLES and not is_declared
        if may_be_of_any_kind and any(positions) == all(positions):
            return
        needs_positions = kind is RecordKind.TUPLES
        for name in self._names:
            if isinstance(name, int) != needs_positions:
                raise ValueError(
                    f"user and partition are given by {'position' if needs_positions else 'name'} "
                    f"for {kind.value}, got {name!r}"
                )

    def _of_any(self, element: Any) -> list[Any]:
        if is_batch(element):
            return [self._of_table(element)]
        if isinstance(element, dict):
            return self._of_dict(element)
        if is_row(type(element)):
            return self._of_row(element)
        raise TypeError(
            f"records in which user and partition have names must be rows, dictionaries or tables, "
            f"got {type(element).__name__}"
        )

    def _of_table(self, batch: Any) -> pa.Table:
        table = table_from(batch, list(dict.fromkeys(self._names)))
        chosen = pa.table(
            [table[name] for name in self._names], names=list(map(str, range(len(self._names))))
        )
        if self._drop_nulls:
            chosen = columns.without_nulls(chosen)
        user, *parts = map(columns.single, chosen.columns)
        if len(parts) > 1:
            fields = [columns.plain(part, PARTITION) for part in parts]
            parts = [pa.StructArray.from_arrays(fields, names=self._partition)]
        return pa.table({USER: user, PARTITION: parts[0]})

    def _of_tuple(self, row: tuple[Any, ...]) -> list[tuple[Any, Any]]:
        if not isinstance(row, (tuple, list)):
            raise TypeError(
                "records in which user and partition have positions must be tuples, got "
                f"{type(row).__name__}"
            )
        if len(row) <= max(self._names):
            raise ValueError(f"a record has no position {max(self._names)}")
        return self._parts(row.__getitem__, tuple)

    def _of_dict(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        def value(name: str) -> Any:
            try:
                return nested_value(record, name)
            except (KeyError, TypeError):
                # Its keys may be private.
                raise ValueError(f"a record has no key {name!r}") from None

        pairs = self._parts(value, self._fields)
        return [{USER: user, PARTITION: partition} for user, partition in pairs]

    def _of_row(self, row: Any) -> list[beam.Row]:
        pairs = self._parts(
            functools.partial(getattr, row), lambda parts: beam.Row(**self._fields(parts))
        )
        return [beam.Row(user=user, partition=partition) for user, partition in pairs]

    def _fields(self, parts: list[Any]) -> dict[str, Any]:
        return dict(zip(self._partition, parts, strict=True))

    def _parts(
        self, value: Callable[[Any], Any], composed: Callable[[list[Any]], Any]
    ) -> list[tuple[Any, Any]]:
        """Returns a list of the pair of user and partition, empty if nulls are dropped and one of
        both is null.

        Args:
          value: returns the value of a name in the record.
          composed: makes a composite partition of its parts.
        """
        user, *parts = map(value, self._names)
        if self._drop_nulls and has_null((user, *parts)):
            return []
        return [(user, parts[0] if len(parts) == 1 else composed(parts))]

    def _row_type(self, rows: beam.PCollection) -> RowTypeConstraint:
        types = field_types(rows.element_type)
        fields = [(name, types[name]) for name in self._partition]
        partition = RowTypeConstraint.from_fields(fields) if len(fields) > 1 else fields[0][1]
        named: list[Any] = [(USER, types[self._user]), (PARTITION, partition)]
        return RowTypeConstraint.from_fields(named)


def field_types(declared: Any, names: Sequence[str] = (USER, PARTITION)) -> dict[str, Any]:
    """Returns the types of fields by their names: those of the fields of rows, or those of the two
    parts of tuples, which are called by ``names``. It is empty for other declared types."""
    if isinstance(declared, TupleConstraint) and len(declared.tuple_types) == 2:
        # A row or a dictionary in a tuple is a composite partition, and comes back as a tuple.
        types = (Any if _is_named(t) else t for t in declared.tuple_types)
        return dict(zip(names, types, strict=True))
    if isinstance(declared, type):
        declared = RowTypeConstraint.from_user_type(declared)
    return dict(declared._fields) if isinstance(declared, RowTypeConstraint) else {}


def _is_named(declared: Any) -> bool:
    named = isinstance(declared, (DictHint.DictConstraint, RowTypeConstraint))
    return named or declared in (dict, beam.Row) or hasattr(declared, "_fields")
