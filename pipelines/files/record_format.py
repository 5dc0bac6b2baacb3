"""What all formats of record files have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pipelines.files import text_lines
from pipelines.files.paths import FileRange


class RecordFormat(ABC):
    """How files hold records, of which some columns are read as Arrow tables.

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
        """About how many records a file of this many bytes has."""

    @abstractmethod
    def split(self, path: str, size: int) -> Iterator[FileRange]:
        """Ranges that cover a file of this many bytes, to be read in any order."""

    @abstractmethod
    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of the records that begin in the range."""


class TextFormat(RecordFormat):
    """Of records that have a line, or some lines, each."""

    multiline: bool = False

    def estimated_rows(self, path: str, size: int) -> int:
        return text_lines.estimated_lines(path, size)

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        return text_lines.split(path, size, whole=self.multiline)
