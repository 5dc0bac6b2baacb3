"""Converts values to one form in which equal values are equal, whatever types a file holds them in.

Users and partitions are compared as strings, binary or int64 (see ``dp_transforms.columnar``).
Values of other types become text that depends on the value alone: not on the scale of a decimal
number, nor on the unit or zone of a timestamp. Arrow's UUIDs are strings, as those of Avro are, and
PostgreSQL's numbers without a precision are decimals. Values of different logical types are never
equal. So all files must have the same logical types, which is checked by their schemas.

Privacy of types. A release states the type of names only if a schema states it, whatever rows there
are. JSON lines, expressions in SQLite and Python values have no such schema: their type is that of
the first value, and without a value there is none. If a release stated "integer", its reader would
know with certainty that there is a record, perhaps of one user. (epsilon, delta)-privacy allows
this with probability delta only. The same holds for a frame in memory, whose library may have found
the types in the rows: ``pandas.DataFrame(rows)`` has integers, or no column at all if there are no
rows. So:

* All these types are stated as text (``stated_type``), which is what a file of names holds anyway.
* Values without a schema in files and databases become text when they are read (``as_text``).
* In Python a released name keeps its own type. The type is a part of the name, which was selected
  under (epsilon, delta) among values of all types. If there is no name, the column is text,
  whatever the records are.

Records of an unfit type, or of several types in one column, are an error in the form of the data.
That is not protected: the error shows that there are records.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.columns import cast, described, plain_type, single
from dp_transforms.errors import InputError, UnfitColumnError
from dp_transforms.runtime.python_values import column_of

_NAME, _UNSTATED = b"logical type", b"type of the values"
NO_VALUES = "of no values"
_OF_VALUES = (pa.string(), pa.int64(), pa.bool_(), pa.binary())
# The type for all decimal numbers: 38 digits before the point, and 38 after it.
_DECIMAL = pa.decimal256(76, 38)


class _Logical(NamedTuple):
    """What is known of a logical type.

    Attributes:
      covers: returns whether an Arrow type has this logical type.
      read_as: Arrow types that read a value from text, tried in this order.
      example: a value as text, for errors.
    """

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
"""The logical types other than string and binary. The first one that covers an Arrow type is its
logical type."""


def logical_name(field: pa.Field) -> str:
    """Returns the logical type of a column of a ``record_schema``; of any other column the type."""
    return (field.metadata or {}).get(_NAME, str(field.type).encode()).decode()


def stated_type(field: pa.Field) -> str:
    """Returns the type that a release may state for a column: the logical type, or "string" if the
    type comes from values."""
    return "string" if _is_unstated(field) else logical_name(field)


def unstated(schema: pa.Schema, valueless: Container[str] = ()) -> pa.Schema:
    """Returns a ``record_schema`` with the mark that its types come from values. The logical type
    of ``valueless`` columns, in which no value has been seen, becomes ``NO_VALUES``."""
    fields = []
    for field in schema:
        name = NO_VALUES if field.name in valueless else logical_name(field)
        fields.append(field.with_metadata({_NAME: name.encode(), _UNSTATED: b""}))
    return pa.schema(fields)


def as_text(table: pa.Table) -> pa.Table:
    """Returns the table with text in place of the integers of the columns that ``unstated`` marked.
    So no later step depends on whether there is a value that shows their type."""
    for place, field in enumerate(table.schema):
        if _is_unstated(field) and pa.types.is_integer(field.type):
            text = table.column(place).cast(pa.string())
            table = table.set_column(place, field.with_type(pa.string()), text)
    return table


def schema_as_text(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of a table after ``as_text``."""
    # ``as_text`` of an empty table would have this schema, but making one imports pandas.
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
    """Returns the schema of records of some columns of a file: types are string, binary or int64,
    and the logical type is in the metadata of a field.

    Raises:
      InputError: a column is missing, is there twice, or is of an unfit type.
    """
    fields = []
    for column in columns:
        matches = fields_at(schema, column)
        if not matches:
            # The names of other columns may be values: of a table that was pivoted, for example.
            raise UnfitColumnError.missing(
                column, f"{path} has no column {column!r}: check the name"
            )
        if len(matches) > 1:
            raise InputError(f"{path} has more than one column {column!r}: rename all but one")
        kind = matches[0].type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        logical = _logical(kind)
        if logical is None:
            # Errors show no names of fields and no numbers of digits, which may reveal values.
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
    """Returns a table converted to the types of a ``record_schema``, or to dictionaries of them.

    If a struct is null, its fields are null. A value that does not fit raises pa.ArrowInvalid, such
    as a date with a time of day, or a time beyond the year 32767.
    """
    columns, fields = [], []
    for field in schema:
        flat = table
        while field.name not in flat.column_names:
            flat = flat.flatten()
        column = flat[field.name]
        if pa.types.is_integer(column.type):
            # All chunks are joined: converting a chunk costs as much as thousands of rows.
            column = pa.chunked_array([single(column)])
        columns.append(pa.chunked_array([_canonical(chunk) for chunk in column.chunks]))
        fields.append(field.with_type(columns[-1].type))
    return pa.table(columns, schema=pa.schema(fields))


def fields_at(fields: Iterable[pa.Field], column: str) -> list[pa.Field]:
    """Returns the columns of this name. If there is none, it returns fields of structs: "user.id"
    is the field "id" of the column "user".

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
    """Returns a column of values of the type ``kind``, in which None is null. For pa.null() as the
    type, the values may be strings, integers, booleans or bytes, all of one type.

    Raises:
      TypeError, ValueError: a value is of another type, or is an integer beyond 64 bits.
    """
    array = column_of(values, name)
    if pa.types.is_null(array.type):
        return pa.nulls(len(values), kind)
    if array.type not in _OF_VALUES or kind not in (array.type, pa.null()):
        raise TypeError
    return array


def from_text(text: str, field: pa.Field) -> Any:
    """Returns the value in a column that a text such as 1.50 stands for, in any notation. The
    column is one of a ``record_schema``, or one of strings. Raises a ValueError if the text is not
    of the column's logical type.

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
    """Returns the name of the logical type of an Arrow type, and the type of its values in records;
    None for an unfit type."""
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
    """Returns whether a type is that of PostgreSQL's numbers of any precision, which the driver
    gives as text."""
    name = getattr(kind, "extension_name", None), getattr(kind, "type_name", None)
    return name == ("arrow.opaque", "numeric") and pa.types.is_string(kind.storage_type)


def _canonical(array: pa.Array) -> pa.Array:
    """Returns the values of an array in the form of records, perhaps as dictionary codes."""
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
    """Returns the values of an array, which is no dictionary, in the form of records."""
    kind = array.type
    if pa.types.is_decimal(kind):
        text = array.cast(_DECIMAL).cast(pa.string())
        # Removes trailing zeros after the point, and then a trailing point.
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+(E.*)?$", r"\1\2")
        text = pc.replace_substring_regex(text, r"\.(E|$)", r"\1")
        return pc.replace_substring_regex(text, "^0E-38$", "0")
    if pa.types.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        # The instants are the same, but are printed in UTC.
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
