"""Records of users with attributes, of any kind, as tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.columnar.attributes import NO_VALUE, attribute_text, only
from dp_transforms.columnar.columns import PARTITION, USER, plain, single
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.python_values import is_row
from dp_transforms.runtime.records import Kind, check_known_fields, table_from


@dataclass(frozen=True)
class Attribute:
    """An attribute by whose values users are grouped.

    A record without a value (a null, or an empty text) says nothing about it, and a user without
    any is in no group of it.

    Attributes:
      name: the column or field of its values, which are text, integers, booleans or dates.
      groups: the values that are public, as text. Each gets a list, whether it has users or not,
        and users with other values are in no group. None if groups are to be selected.

    Raises:
      ValueError: the name is taken, or a group is given twice or is empty.
    """

    name: str
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name or self.name in (USER, PARTITION):
            raise ValueError(f"an attribute cannot be called {self.name!r}: rename the column")
        if self.groups is None:
            return
        object.__setattr__(self, "groups", tuple(self.groups))
        if not self.groups or "" in self.groups or len(set(self.groups)) < len(self.groups):
            raise ValueError(
                f"groups of {self.name!r} must be different names, one at least, got "
                f"{list(self.groups)}"
            )


class ToAttributeTables(beam.PTransform):
    """Records of any kind as tables with plain users and partitions, and text of each attribute."""

    def __init__(self, attributes: tuple[Attribute, ...]):
        super().__init__()
        self._attributes = attributes

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        kind = Kind.of(records)
        names = [attribute.name for attribute in self._attributes]
        if kind is not Kind.TUPLES:
            check_known_fields(records, [USER, PARTITION, *names])
        if kind is Kind.TABLES:
            return records | beam.Map(self._of_table).with_output_types(pa.Table)
        # Partition and values travel as a composite partition until they are a table.
        pairs = records | "Pairs" >> beam.Map(self._pair)
        return (
            pairs
            | "Batch" >> ToTables()
            | "Split" >> beam.Map(self._of_composite).with_output_types(pa.Table)
        )

    def _pair(self, record: Any) -> tuple[Any, tuple[Any, ...]]:
        names = (USER, PARTITION, *(attribute.name for attribute in self._attributes))
        if is_row(type(record)):
            record = tuple(getattr(record, name) for name in names if hasattr(record, name))
        elif isinstance(record, dict):
            # Which keys it has may be private.
            record = tuple(record[name] for name in names if name in record)
        if not isinstance(record, (tuple, list)) or len(record) != 2 + len(self._attributes):
            raise ValueError(
                f"records must have {2 + len(self._attributes)} parts: user, partition and a value "
                "of each attribute"
            )
        user, partition, *values = record
        texts = (
            _text(value, attribute.name)
            for value, attribute in zip(values, self._attributes, strict=True)
        )
        return user, (partition, *texts)

    def _of_composite(self, table: pa.Table) -> pa.Table:
        partition, *values = single(table[PARTITION]).flatten()
        return self._table(table[USER], partition, values)

    def _of_table(self, batch: Any) -> pa.Table:
        names = [USER, PARTITION, *(attribute.name for attribute in self._attributes)]
        table = table_from(batch, names)
        user, partition, *values = (table[name] for name in names)
        texts = [
            attribute_text(column, attribute.name)
            for column, attribute in zip(values, self._attributes, strict=True)
        ]
        return self._table(plain(user, USER), plain(partition, PARTITION), texts)

    def _table(self, user: Any, partition: Any, values: Sequence[pa.Array]) -> pa.Table:
        columns = {USER: user, PARTITION: partition}
        for i, (attribute, texts) in enumerate(zip(self._attributes, values, strict=True)):
            # A user's values are bounded to one of those that can be released.
            known = texts if attribute.groups is None else only(texts, attribute.groups)
            columns[attribute_column(i)] = known
        return pa.table(columns)


def _text(value: Any, name: str) -> str:
    """Returns the same text as ``attribute_text`` of a column of such values."""
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, datetime.date)):
        raise TypeError(
            f"values of attribute {name!r} must be text, integers, booleans or dates, got "
            f"{type(value).__name__}"
        )
    return str(value)


def attribute_column(index: int) -> str:
    """The column of an attribute's values."""
    return f"attribute {index}"
