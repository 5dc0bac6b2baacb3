"""Gives equal values one form, whatever types of a file hold them.

Users and partitions are compared as strings, binary or int64 (see ``dp_transforms.columnar``).
Values of other types become text that depends on the value alone: not on the scale of a decimal
number, nor on the unit or zone of a timestamp. Arrow's UUIDs are strings, as those of Avro are, and
PostgreSQL's numbers without a precision are decimals. Values of different logical types are never
equal, so all files must have the same logical types; their schemas tell.

A release states the types of names only where a schema states them whatever rows there are. JSON
lines, expressions in SQLite and Python values have no such schema: their type is that of the first
value, and without a value there is none. A reader of "integer" would know with certainty that there
is a record, perhaps of one user, which (epsilon, delta)-privacy allows with probability delta. The
same holds for a frame in memory, whose library may have found the types in the rows:
``pandas.DataFrame(rows)`` has integers, or no column at all if there are no rows. So all these are
stated as text (``stated_type``), which is what a file of names holds anyway, and values without a
schema in files and databases become text when they are read (``as_text``). In Python a released
name keeps its own type: it is a part of the name, which was selected under (epsilon, delta) among
values of all types. Without any name the column is text, whatever the records are.

Records of an unfit type, or of several types in one column, are an error of their form, which is
not protected: it says that there are records.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import cast, described, plain_type, single
from dp_transforms.errors import InputError
from dp_transforms.runtime.python_values import column_of

_NAME, _UNSTATED = b"logical type", b"type of the values"
NO_VALUES = "of no values"
_OF_VALUES = (pa.string(), pa.int64(), pa.bool_(), pa.binary())
# The scale of all decimal numbers: 38 digits before the point, and 38 behind it.
_DECIMAL = pa.decimal256(76, 38)


class _Logical(NamedTuple):
    """A logical type has several physical types; the first one that can reads a value from text."""

    covers: Callable[[pa.DataType], bool]
    read_as: list[pa.DataType]
    example: str


_LOGICAL = {
    "unsigned 64-bit integer": _Logical(pa.types.is_uint64, [pa.uint64()], "7"),
    "integer": _Logical(pa.types.is_integer, [pa.int64()], "7"),
    "boolean": _Logical(pa.types.is_boolean, [pa.bool_()], "true"),
    "date": _Logical(pa.types.is_date, [pa.date32()], "2026-01-31"),
    "timestamp": _Logical(
        lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
        [pa.timestamp("us"), pa.timestamp("ns")],
        "2026-01-31 23:59:59",
    ),
    "timestamp of a time zone": _Logical(
        pa.types.is_timestamp,
        [pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")],
        "2026-01-31 23:59:59Z",
    ),
    "decimal": _Logical(
        lambda kind: (
            pa.types.is_decimal(kind) and kind.scale <= 38 and kind.precision - kind.scale <= 38
        ),
        [_DECIMAL],
        "1.5",
    ),
}
"""Beside strings and binary, the logical type of a type is the first one that covers it."""


def logical_name(field: pa.Field) -> str:
    """Returns the logical type of a column that ``record_schema`` made, or else its type."""
    return (field.metadata or {}).get(_NAME, str(field.type).encode()).decode()


def stated_type(field: pa.Field) -> str:
    """Returns the type of a column that a release may state: the logical type, or "string" if only
    values have a type."""
    return "string" if _is_unstated(field) else logical_name(field)


def unstated(schema: pa.Schema, valueless: Container[str] = ()) -> pa.Schema:
    """Returns a ``record_schema`` marked as one whose types come from values. The logical type of
    ``valueless`` columns, in which no value shows a type, is ``NO_VALUES``."""
    fields = []
    for field in schema:
        name = NO_VALUES if field.name in valueless else logical_name(field)
        fields.append(field.with_metadata({_NAME: name.encode(), _UNSTATED: b""}))
    return pa.schema(fields)


def as_text(table: pa.Table) -> pa.Table:
    """Writes the integers of the columns that ``unstated`` has marked as text, so that nothing
    behind depends on whether there is a value that shows their type."""
    for place, field in enumerate(table.schema):
        if _is_unstated(field) and pa.types.is_integer(field.type):
            text = table.column(place).cast(pa.string())
            table = table.set_column(place, field.with_type(pa.string()), text)
    return table


def schema_as_text(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of a table after ``as_text``."""
    # An empty table would do, but making one imports pandas.
    text = (
        field.with_type(pa.string())
        if _is_unstated(field) and pa.types.is_integer(field.type)
        else field
        for field in schema
    )
    return pa.schema(text)


def _is_unstated(field: pa.Field) -> bool:
    return _UNSTATED in (field.metadata or {})


def record_schema(path: str, schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Returns the schema of records, in string, binary or int64, for some columns of a file; an
    InputError if a column is missing, is there twice, or is of an unfit type."""
    fields = []
    for column in columns:
        matches = fields_at(schema, column)
        if not matches:
            some = ", ".join(schema.names[:10]) + (", ..." if len(schema.names) > 10 else "")
            raise InputError(f"{path} has no column {column!r}: its columns are {some}")
        if len(matches) > 1:
            raise InputError(f"{path} has more than one column {column!r}: rename all but one")
        kind = matches[0].type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        logical = _logical(kind)
        if logical is None:
            # Names of fields, and numbers of digits, may reveal values.
            named = "decimal of so many digits" if pa.types.is_decimal(kind) else described(kind)
            if pa.types.is_struct(kind):
                named = f"struct {named}"
            known = "a type" if pa.types.is_null(kind) else f"the type {named},"
            raise InputError(
                f"{path}: column {column!r} has {known} in which it is not clear which values are "
                "equal: store it as a string or an integer"
            )
        name, record_type = logical
        fields.append(pa.field(column, record_type, metadata={_NAME: name.encode()}))
    return pa.schema(fields)


def record_table(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Converts a table to the types of ``record_schema``, or to dictionary codes of these. Where a
    struct is null, so are its fields. A value that does not fit, such as a date with a time of day,
    or a time beyond the year 32767, raises pa.ArrowInvalid."""
    columns, fields = [], []
    for field in schema:
        flat = table
        while field.name not in flat.column_names:
            flat = flat.flatten()
        column = flat[field.name]
        if pa.types.is_integer(column.type):
            # At once: a chunk costs as much as thousands of rows.
            column = pa.chunked_array([single(column)])
        columns.append(pa.chunked_array([_canonical(chunk) for chunk in column.chunks]))
        fields.append(field.with_type(columns[-1].type))
    return pa.table(columns, schema=pa.schema(fields))


def fields_at(fields: Iterable[pa.Field], column: str) -> list[pa.Field]:
    """Returns the columns of this name or, if there is none, the fields of structs: user.id is the
    field id of the column user.

    >>> schema = pa.schema([("user", pa.struct([("id", pa.int64())]))])
    >>> [field.type for field in fields_at(schema, "user.id")]
    [DataType(int64)]
    """
    fields = list(fields)
    columns = [field for field in fields if field.name == column]
    if columns:
        return columns
    inner = []
    for field in fields:
        if column.startswith(f"{field.name}.") and pa.types.is_struct(field.type):
            inner += fields_at(field.type, column[len(field.name) + 1 :])
    return inner


def typed_column(values: Sequence[Any], name: str, kind: pa.DataType) -> pa.Array:
    """Makes a column of this type or, for pa.null(), of one type: strings, integers, booleans or
    bytes. None is null. A value of another type is a TypeError or ValueError, and so is an integer
    that does not fit 64 bits."""
    array = column_of(values, name)
    if pa.types.is_null(array.type):
        return pa.nulls(len(values), kind)
    if array.type not in _OF_VALUES or kind not in (array.type, pa.null()):
        raise TypeError
    return array


def from_text(text: str, field: pa.Field) -> Any:
    """Parses a text such as 1.50, in any notation, into a value of a column of strings, or of one
    that ``record_schema`` made; a ValueError if it is not of the column's logical type.

    >>> file = pa.schema([("time", pa.timestamp("ms", "Asia/Tokyo"))])
    >>> from_text("2026-01-31T10:00+02:00", record_schema("a.parquet", file, ["time"]).field(0))
    '2026-01-31 08:00:00Z'
    """
    name = stated_type(field)
    if name not in _LOGICAL:
        return text.encode() if pa.types.is_binary(field.type) else text
    for kind in _LOGICAL[name].read_as:
        with contextlib.suppress(pa.ArrowInvalid):
            return _values(pa.array([text]).cast(kind))[0].as_py()
    raise ValueError(
        f"{text!r} is not of the type {name} that column {field.name!r} of the records has: "
        f"write it like {_LOGICAL[name].example}"
    )


def _logical(kind: pa.DataType) -> tuple[str, pa.DataType] | None:
    """Returns the name of a type's logical type, and the type that stands for it in records."""
    if _is_uuid(kind):
        return str(pa.string()), pa.string()
    if _is_numeric(kind):
        return "decimal", pa.string()
    for name, logical in _LOGICAL.items():
        if logical.covers(kind):
            return name, pa.int64() if name == "integer" else pa.string()
    plain = plain_type(kind)
    return None if plain is None else (str(plain), plain)


def _is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", None) == "arrow.uuid"


def _is_numeric(kind: pa.DataType) -> bool:
    """Tells whether PostgreSQL's driver gives numbers of any precision, as text."""
    name = getattr(kind, "extension_name", None), getattr(kind, "type_name", None)
    return name == ("arrow.opaque", "numeric") and pa.types.is_string(kind.storage_type)


def _canonical(array: pa.Array) -> pa.Array:
    if _is_uuid(array.type):
        encoded = array.storage.dictionary_encode()
        texts = [str(uuid.UUID(bytes=value)) for value in encoded.dictionary.to_pylist()]
        values = pa.array(texts, pa.string())
        return pa.DictionaryArray.from_arrays(encoded.indices, values, safe=False)
    if _is_numeric(array.type):
        return _canonical(array.storage.cast(_DECIMAL))
    if pa.types.is_dictionary(array.type):
        values = _values(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values, safe=False)
    logical, record_type = _logical(array.type)  # type: ignore[misc]
    if logical == record_type or record_type == pa.int64():
        return _values(array)
    if pa.types.is_decimal(array.type) and array.type.bit_width < 128:  # Arrow encodes none of them
        array = array.cast(_DECIMAL)
    # Finding distinct values takes less time than writing text.
    return _canonical(array.dictionary_encode())


def _values(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_decimal(kind):
        text = array.cast(_DECIMAL).cast(pa.string())
        # Drops trailing zeros behind the point, and then a trailing point.
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+(E.*)?$", r"\1\2")
        text = pc.replace_substring_regex(text, r"\.(E|$)", r"\1")
        return pc.replace_substring_regex(text, "^0E-38$", "0")
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        # The same instants, in UTC.
        text = _printed(array.view(pa.timestamp(kind.unit)))
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
        return pc.binary_join_element_wise(pc.utf8_rtrim(text, "."), zone, "")
    if pa.types.is_date(kind):
        return _printed(array.cast(pa.date32()))
    return cast(array, _logical(kind)[1])  # type: ignore[index]


def _printed(times: pa.Array) -> pa.Array:
    text = times.cast(pa.string())
    # Arrow prints a time out of range as its raw number, which differs between units.
    if pc.any(pc.match_substring(text, "out of range")).as_py():
        raise pa.ArrowInvalid
    return text
