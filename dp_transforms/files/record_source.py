"""The base classes of all sources of records, and of all formats of their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa

from dp_transforms.columnar.attributes import LIST, attribute_text
from dp_transforms.columnar.columns import PARTITION, USER, without_nulls
from dp_transforms.errors import InputError
from dp_transforms.files.logical_types import from_text
from dp_transforms.files.paths import FileRange
from dp_transforms.files.period_names import check_times, periods_of


class RecordFormat(ABC):
    """A format of files of records, of which some columns are read as Arrow tables.

    Raises, in every method:
      InputError: the file cannot be opened, is not of this format, or cannot be read to its end;
        the message says nothing of what records hold.
    """

    @abstractmethod
    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        """The names and types of some of a file's columns, from its beginning or end.

        Raises:
          InputError: it has no such columns, or they are of unfit types.
        """

    @abstractmethod
    def estimated_rows(self, path: str, size: int) -> int:
        """The approximate number of records in a file of this many bytes."""

    @abstractmethod
    def split(self, path: str, size: int) -> Iterator[FileRange]:
        """Ranges that cover a file of this many bytes, to be read in any order."""

    @abstractmethod
    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of the records that begin in the range."""


class RecordSource(ABC):
    """A source of records: tables with the columns user and partition.

    Args:
      pattern: what to call it in errors.
      user_column: the column of users.
      partition_columns: the column of partitions; several make a composite partition.
      drop_nulls: leave out records with a null in one of these columns, rather than fail.
      attribute_columns: columns to keep beside these, under their own names. Nulls may be in them.

    Raises:
      ValueError: a column is given twice.
    """

    _schema: pa.Schema
    estimated_rows: int
    """The approximate number of records; 0 if it is not known."""
    num_buckets: int
    """The number of buckets to shuffle the records into."""
    drop_option: str = "--drop_nulls"
    """The option by which a user asks for ``drop_nulls``."""
    _period: str | None = None

    def __init__(
        self,
        pattern: str,
        user_column: str,
        partition_columns: Sequence[str],
        drop_nulls: bool = False,
        attribute_columns: Sequence[str] = (),
    ):
        self.pattern = pattern
        self._columns = (user_column, *partition_columns, *attribute_columns)
        # The user, the partition's columns, and then attributes.
        self._needed = 1 + len(partition_columns)
        self._drop_nulls = drop_nulls
        if len(set(self._columns)) < len(self._columns):
            raise ValueError(
                "users, partitions, groups and times must be different columns, got "
                f"{', '.join(self._columns)}"
            )

    @abstractmethod
    def tables(self) -> Iterator[pa.Table]:
        """The records, read in this process.

        Raises:
          InputError: they cannot be read; the message says nothing of what they hold.
        """

    @property
    def user_field(self) -> pa.Field:
        """The user column, with the type that it has in the files."""
        return self._schema.field(0)

    @property
    def partition_fields(self) -> list[pa.Field]:
        """The partition columns, with the types that they have in the files."""
        return list(self._schema)[1 : self._needed]

    @property
    def attribute_fields(self) -> list[pa.Field]:
        """The attribute columns, with the types that they have in the files."""
        return list(self._schema)[self._needed :]

    def name_periods(self, period: str) -> None:
        """Has tables say of each record in which "day", or the like, it is: in the column ``list``,
        in the place of its time, which is the last column.

        Raises:
          InputError: the column cannot hold times.
        """
        check_times(self.pattern, self.attribute_fields[-1])
        self._period = period

    def check_groups(self, groups: Sequence[Sequence[str]]) -> None:
        """Refuses names of groups of each attribute that no record can have: lists of them would be
        empty.

        Raises:
          InputError: there is such a name.
        """
        for names, field in zip(groups, self.attribute_fields, strict=True):
            for name in names:
                try:
                    value = from_text(name, field)
                except ValueError as error:
                    raise InputError(f"groups: {error}") from None
                text = attribute_text(pa.array([value]), field.name)[0].as_py()
                if text != name:
                    raise InputError(
                        f"groups: {name!r} has the text {text!r} in column {field.name!r} of the "
                        "records: name it so"
                    )

    def _records(self, path: str, table: pa.Table) -> pa.Table:
        whole = without_nulls(table, self._columns[: self._needed])
        if whole.num_rows < table.num_rows and not self._drop_nulls:
            raise InputError(
                f"{path} has records without a user or without a partition: fill these in, or "
                f"leave them out with {self.drop_option}"
            )
        table = whole
        user, *parts = table.columns[: self._needed]
        if len(parts) > 1:
            arrays = [part.combine_chunks() for part in parts]
            parts = [pa.StructArray.from_arrays(arrays, names=self._columns[1 : self._needed])]
        names, more = (
            [USER, PARTITION, *self._columns[self._needed :]],
            table.columns[self._needed :],
        )
        if self._period is not None:
            names[-1], more[-1] = LIST, periods_of(self.pattern, more[-1], self._period)
        return pa.table([user, *parts, *more], names=names)
