"""The source of the records of a data frame, or of another object in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import operator
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from typing import Any, NamedTuple

import pyarrow as pa

from dp_transforms.errors import (
    ColumnError,
    InputError,
    UnfitColumnError,
    ValuesError,
    as_input_error,
)
from dp_transforms.files.arrow_columns import CHUNK_RECORDS, SEVERAL_TYPES, table_of
from dp_transforms.files.logical_types import (
    fields_at,
    logical_name,
    record_schema,
    record_table,
    unstated,
)
from dp_transforms.files.record_files import RecordFiles, RecordSource, check_different
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.runtime.python_values import (
    column_name,
    nested_value,
    several_names,
)

_BATCH_ROWS = 1 << 20
_FRAMES = ("pandas", "polars")
_ADVICE = {
    "numpy": "a NumPy array, whose columns have no names: give a dictionary of arrays, such as "
    "{'user': array[:, 0], 'item': array[:, 1]}",
    "dask": "of Dask, whose values are not computed yet: give data.compute()",
    "pyspark": "of Spark, whose values are not computed yet: give data.toPandas(), or write them "
    "to Parquet files and give their path",
}
"""What data of some modules are, and what to give instead, for errors."""
_A_COLUMN = f"a column of {SEVERAL_TYPES}"

Names = str | int | Sequence[str | int]
"""The name or position of one column, or those of several."""


class ArgumentNames(NamedTuple):
    """What a function calls the arguments that name records, for errors."""

    data: str = "data"
    user: str = "user"
    partition: str = "partition"


_CALLED = ArgumentNames()


@dataclasses.dataclass(frozen=True, eq=False)
class RecordArguments:
    """The arguments by which functions name records: an object in memory or a path, and columns.

    They are checked when this is made, as far as that needs no look at the data.

    Attributes:
      data, user, partition, drop_nulls: see ``dp_transforms.release``.
      groups: further columns to read: groups of users, or levels of a hierarchy.
      time: a further column to read: times, which are replaced by the names of their periods.
      period: the kind of these periods, such as "day".
      span: the days of the periods, as ``filenames.days_of`` takes them.
      attributes: columns of attributes of users, in place of ``partition``.
      public: public names of partitions, which must have the types of the records' partitions.
      called: what the caller calls data, user and partition.

    Raises:
      ValueError: a column is not named or named twice, or drop_nulls is no bool.
      InputError: the data are an iterator that an earlier release has read.
      TypeError: the data are of no kind that can be read.
    """

    data: Any = dataclasses.field(repr=False)  # it may be private
    user: str | int
    partition: Names | None
    drop_nulls: bool
    groups: Sequence[str] = ()
    time: str | None = None
    period: str | None = None
    span: str | None = None
    attributes: Sequence[str] | None = None
    public: pa.Array | None = dataclasses.field(default=None, repr=False)
    called: ArgumentNames = _CALLED

    def __post_init__(self) -> None:
        boolean("drop_nulls", self.drop_nulls)
        _check_kind(self.data, self.called.data)
        with self._listed_names():
            check_different([self._user, *self._partitions, *self._others])
        self.check_unread()

    @property
    def _user(self) -> str:
        return str(column_name(self.called.user, self.user))

    @property
    def _partitions(self) -> list[str]:
        if self.attributes is not None:
            return []
        return [*map(str, several_names(self.partition, self.called.partition))]

    @property
    def _others(self) -> tuple[str, ...]:
        """The further columns."""
        named: list[tuple[str, Any]] = [("groups", name) for name in self.groups]
        named += [("attributes", name) for name in self.attributes or ()]
        if self.period is not None:
            named.append(("time", self.time))
        return tuple(str(column_name(argument, name)) for argument, name in named)

    def _listed_names(self) -> contextlib.AbstractContextManager[None]:
        """Hides names in errors if several partition columns are given. See ``listed_names``."""
        is_list = isinstance(self.partition, (list, tuple))
        return listed_names(self.called.partition, self._partitions if is_list else ())

    def check_unread(self) -> None:
        """Raises an InputError if the data can be read once, and an earlier release has read them.
        They would look like data without records."""
        if _is_read_once(self.data) and self.data in _READ:
            raise InputError(
                "the data are an iterator, which an earlier release has read to its end: give a "
                "list, a table or a file, which can be read again"
            )

    def open(self) -> RecordSource:
        """Returns the source of the records.

        Raises:
          InputError, TypeError: see ``FrameRecords``, ``RecordFiles``, and
            ``check_public_partitions``.
        """
        self.check_unread()
        data, columns = self.data, (self._user, self._partitions)
        options: dict[str, Any] = {
            "drop_nulls": self.drop_nulls,
            "attribute_columns": self._others,
            "drop_option": "drop_nulls=True",
        }
        source: RecordSource
        with self._listed_names():
            if isinstance(data, (str, os.PathLike)):
                source = RecordFiles(os.fspath(data), *columns, **options)
            else:
                if _is_read_once(data):
                    _READ.add(data)
                source = FrameRecords(data, *columns, **options)
        if self.period is not None:
            source.name_periods(self.period, self.span)
        if self.public is not None:
            source.check_public_partitions(self.public)
        return source


_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""The iterators that were read, for as long as they live."""


def _is_read_once(data: Any) -> bool:
    """Returns whether data can be read once only, such as a generator, and are known again."""
    # There are no weak references to some iterators of Python, such as that of zip.
    kind = type(data)
    return isinstance(data, Iterator) and kind.__weakrefoffset__ != 0 and kind.__hash__ is not None


@contextlib.contextmanager
def listed_names(argument: str, names: Sequence[str]) -> Iterator[None]:
    """Hides names in errors of the block, since a list of names may hold the values of a column.

    If an error is about a column that ``argument`` lists, or shows its name, an InputError is
    raised in its place, which gives the name's place in the list.
    """
    try:
        yield
    except ColumnError as error:
        if error.column not in names:
            raise
        raise _about_listed(argument, names, error.column, error.fault) from None
    except ValueError as error:
        for name in names:
            # The name is searched as a whole word: words of the message may contain a short name.
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error)):
                fault = "of a column that cannot be used: give names of columns of text or integers"
                raise _about_listed(argument, names, name, fault) from None
        raise


def _about_listed(argument: str, names: Sequence[str], name: str, fault: str) -> InputError:
    place = f"number {names.index(name) + 1} of {len(names)}"
    return InputError(f"{argument} lists a name ({place}) {fault}")


class FrameRecords(RecordSource):
    """Reads the records of an object into tables with the columns user and partition.

    Args:
      data: an object with ``__arrow_c_stream__``, such as a frame of pandas or polars, a relation
        of DuckDB or a table of pyarrow; a dictionary of columns; or an iterable of dictionaries or
        named tuples, whose columns have names, or of tuples, whose columns are positions from 0.
      user_column, partition_columns, **options: see ``RecordSource``.

    Raises:
      InputError: a column is missing, or of an unfit type.
      TypeError: the object is none of these.
    """

    _public_error = ValuesError
    _index: Sequence[str] = ()  # the names of a frame's index

    def __init__(self, data: Any, *columns: Any, **options: Any):
        super().__init__("the table", *columns, **options)
        self.estimated_rows, tables = self._read(data)
        # Without records there are no types to check.
        untyped = pa.schema([(name, pa.string()) for name in self._columns])
        first = next(tables, None)
        if first is None:
            self._without_values = frozenset(self._columns)
            first = untyped.empty_table()
        else:
            kinds = zip(first.schema.names, first.schema.types, strict=True)
            self._without_values = frozenset(name for name, kind in kinds if pa.types.is_null(kind))
        first = _typed(first, untyped)
        for column in self._columns:
            if any(pa.types.is_floating(field.type) for field in fields_at(first.schema, column)):
                fault = (
                    "holds floats, in which it is not clear which values are equal: make it "
                    "integers or text"
                )
                raise UnfitColumnError.about(
                    column,
                    f"of a column that {fault}",
                    f"column {column!r} {fault}. pandas makes floats of integers with missing "
                    "values, which .astype('Int64') undoes",
                )
        # The library that made a frame may have found its types in its rows.
        self._schema = unstated(record_schema(self.pattern, first.schema, self._columns))
        rest = (_typed(table, first.schema) for table in tables)
        self._tables: Iterator[pa.Table] = itertools.chain([first], rest)

    def tables(self) -> Iterator[pa.Table]:
        """Yields the records; it can be called once."""
        tables, self._tables = self._tables, iter(())
        for table in _parts(tables):
            schema = record_schema(self.pattern, table.schema, self._columns)
            if list(map(logical_name, schema)) != list(map(logical_name, self._schema)):
                raise InputError(_A_COLUMN)
            with as_input_error(
                f"{self.pattern} has values that its types do not allow, such as text that is not "
                "UTF-8",
                (pa.ArrowException, UnicodeError),
            ):
                records = record_table(table, schema)
            yield self._records(self.pattern, records)

    def _read(self, data: Any) -> tuple[int, Iterator[pa.Table]]:
        """Returns the number of records (0 if unknown), and an iterator of their tables. The first
        table of a stream is empty and has the stream's types."""
        if type(data).__module__.partition(".")[0] in _ADVICE:
            raise _unknown(data)
        if hasattr(data, "collect_schema") and hasattr(data, "collect"):
            data = self._collected(data)
        labels = self._labels_of(data)
        if labels is not None:
            return self._read_columns(data, labels)
        if hasattr(data, "__arrow_c_stream__"):
            return 0, _tables_of_stream(data)
        if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
            size = len(data) if isinstance(data, Sized) else 0
            return size, self._of_objects(_one_by_one(data))
        raise _unknown(data)

    def _collected(self, lazy_frame: Any) -> Any:
        """Returns the needed columns of a lazy frame as a frame."""
        known = lazy_frame.collect_schema().names()
        needed = lazy_frame.select(self._needed_of(known)) if known else lazy_frame
        with _errors_of_data():
            return needed.collect()

    def _labels_of(self, data: Any) -> list[Any] | None:
        """Returns the labels of the columns of a frame, an Arrow table or a dictionary; None for
        other data. Of a frame it notes the names of the index."""
        if type(data).__module__.partition(".")[0] in _FRAMES and hasattr(data, "columns"):
            index = getattr(data, "index", None)
            self._index = [str(name) for name in getattr(index, "names", ()) if name is not None]
            return list(data.columns)
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            return list(data.schema.names)
        if isinstance(data, Mapping) and not isinstance(data, Set):
            if not all(map(_is_column, data.values())):
                # It may be a Counter, whose keys may be private.
                raise _unknown(data)
            return list(data)
        return None

    def _read_columns(self, data: Any, labels: list[Any]) -> tuple[int, Iterator[pa.Table]]:
        """Returns the number of records, and their only table, of data with columns."""
        names = [str(label) for label in labels]
        if not names and not len(data):
            # A frame that was made of a list of no rows has no columns.
            return 0, iter([])
        # Only needed columns are read, since others may have types that Arrow lacks.
        columns = {name: data[labels[names.index(name)]] for name in self._needed_of(names)}
        if len({len(values) for values in columns.values() if isinstance(values, Sized)}) > 1:
            raise InputError("the table has columns that are not equally long")
        table = table_of(columns)
        return table.num_rows, iter([table])

    def _needed_of(self, columns: Sequence[str]) -> list[str]:
        """Returns the columns of the data that are needed, or that hold needed fields.

        Raises an InputError if one is missing. The error shows no names of other columns, since
        these may be values: in a pivoted frame, or in a dictionary whose keys are users.
        """
        needed, known = [], [(name, pa.string()) for name in columns]
        for column in self._columns:
            if column in columns:
                needed.append(column)
            elif within := [name for name in columns if column.startswith(f"{name}.")]:
                known.append((column, pa.string()))
                needed += within
        names = {name for name, _ in known}
        for column in self._columns:
            if column not in names:
                raise self._missing(column)
        record_schema(self.pattern, pa.schema(known), self._columns)
        return list(dict.fromkeys(needed))

    def _missing(self, column: str) -> InputError:
        advice = "check the name"
        if column in self._index:
            advice = "it is in the frame's index, which .reset_index() makes a column"
        message = f"{self.pattern} has no column {column!r}: {advice}"
        return UnfitColumnError.missing(column, message)

    def _of_objects(self, records: Iterator[Any]) -> Iterator[pa.Table]:
        """Yields tables of the needed columns of dictionaries, named tuples or tuples."""
        fault = (
            f"not all records have {', '.join(self._columns)}: give the keys of dictionaries, the "
            "fields of named tuples, or positions from 0 of tuples"
        )
        kinds = KeyError, IndexError, AttributeError, TypeError, ValueError
        while chunk := list(itertools.islice(records, CHUNK_RECORDS)):
            with as_input_error(fault, kinds):
                values = {name: _values(chunk, name) for name in self._columns}
            yield table_of(values)


def _errors_of_data(
    but: type[Exception] = InputError,
) -> contextlib.AbstractContextManager[None]:
    """Raises an InputError in place of an error that the data raise.

    It names only the type of that error, whose text may show a value. Memory errors, and errors of
    the type ``but``, pass unchanged.
    """

    def message(error: Exception) -> str:
        return (
            f"the data raised {type(error).__name__} while they were read: its text, which may "
            "show a value, is not repeated here"
        )

    return as_input_error(message, keep=(but, MemoryError))


def _tables_of_stream(data: Any) -> Iterator[pa.Table]:
    """Returns the tables of an Arrow stream. The first one is empty and has the stream's types."""
    try:
        with _errors_of_data(but=pa.ArrowInvalid):
            reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid:  # the data are a series
        raise _unknown(data) from None
    tables = (pa.Table.from_batches([batch]) for batch in _one_by_one(reader))
    return itertools.chain([reader.schema.empty_table()], tables)


def _one_by_one(items: Iterable[Any]) -> Iterator[Any]:
    """Yields the items, with errors as in ``_errors_of_data``."""
    with _errors_of_data():
        yield from items


def _values(records: list[Any], name: str) -> list[Any]:
    """Returns the values of a column: a key of dictionaries, a field of named tuples, or a position
    of tuples. Raises a TypeError for other records."""
    kinds = set(map(type, records))
    if all(issubclass(kind, Mapping) for kind in kinds):
        return [nested_value(record, name) for record in records]
    if all(hasattr(kind, "_fields") for kind in kinds) and not name.isdigit():
        return [getattr(record, name) for record in records]
    if all(issubclass(kind, (tuple, list)) for kind in kinds):
        return list(map(operator.itemgetter(int(name)), records))
    raise TypeError


def _check_kind(data: Any, argument: str) -> None:
    """Raises a TypeError if the type of data shows that they cannot be read, without a look at
    them. The message names the argument."""
    kind = type(data)
    library = kind.__module__.partition(".")[0]
    if isinstance(data, str):
        is_known = len(data) <= 4096 and data.isprintable()  # records as text are no path
    elif isinstance(data, (bytes, type)) or library in _ADVICE:
        is_known = False
    elif library in _FRAMES:
        is_known = hasattr(kind, "columns")  # a series has none
    else:
        is_known = hasattr(data, "__arrow_c_stream__") or isinstance(data, os.PathLike | Iterable)
    if not is_known:
        raise _unknown(data, argument)


def _unknown(data: Any, argument: str = "data") -> TypeError:
    """Returns the error for data of a kind that cannot be read, with what to give instead."""
    module = type(data).__module__.partition(".")[0]
    if module in _ADVICE:
        return TypeError(f"{argument} must not be {_ADVICE[module]}")
    if isinstance(data, Mapping):
        return TypeError(
            "a dictionary of data must hold columns, such as lists or arrays, but holds single "
            "values: give counts to release_counts, and one record as a list of one dictionary"
        )
    return TypeError(
        f"{argument} must be a data frame or another object with __arrow_c_stream__, a dictionary "
        f"of columns, an iterable of records, or a path, got {type(data).__name__}"
    )


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Returns the table with a type for each column of the type null: the column's type in the
    schema, or text if the schema lacks the column."""
    for place, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            known = schema.get_field_index(field.name)
            kind = schema.field(known).type if known >= 0 else pa.string()
            table = table.set_column(place, field.name, pa.nulls(table.num_rows, kind))
    return table


def _is_column(values: Any) -> bool:
    return isinstance(values, Iterable) and not isinstance(values, (str, bytes))


def _parts(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yields the rows of tables in slices of at most a batch, which several threads can process."""
    with as_input_error(_A_COLUMN):
        for table in tables:
            for start in range(0, table.num_rows, _BATCH_ROWS):
                yield table.slice(start, _BATCH_ROWS)
