"""Writes a release as a whole or not at all, and never replaces another one by accident."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    OTHER_TABLES,
    PRIVACY_FILE,
    RELEASED_FILES,
    REPORT_FILES,
)
from dp_transforms.files.paths import (
    LocalFiles,
    as_filesystem_error,
    filesystem,
    join,
    local_path,
    matching_paths,
    read_bytes,
    write_bytes,
)

JSON_LINES = "jsonl"
FORMATS = ("parquet", JSON_LINES)

_PROBE_BYTES = 1 << 18


class CsvTable(NamedTuple):
    """A table of a release: a header, and rows of text and, in the last columns, of integers."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def content(self) -> bytes:
        """Returns the bytes of its CSV file.

        >>> CsvTable(("page", "users"), [("home", 7)]).content()
        b'page,users\\nhome,7\\n'
        """
        return csv_lines([self.header, *self.rows])

    def converted(self, name: str, integer_columns: int) -> bytes:
        """Returns the bytes of its file in another of ``FORMATS``, in which so many last columns
        are integers, and the others text.

        >>> table = CsvTable(("page", "users"), [("home", 7)])
        >>> print(table.converted("jsonl", 1).decode(), end="")
        {"page": "home", "users": 7}
        """
        texts = len(self.header) - integer_columns
        rows = [(*map(str, row[:texts]), *map(int, row[texts:])) for row in self.rows]
        if name == JSON_LINES:
            objects = (dict(zip(self.header, row, strict=True)) for row in rows)
            return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in objects).encode()
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = [pa.string()] * texts + [pa.int64()] * integer_columns
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(columns, list(self.header)), sink)
        return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class ReleaseDirectory:
    """A directory of a Beam filesystem receives a released file and its privacy.json.

    Attributes:
      path: the directory, see ``directory_path``; it is made when the release is written.
      file_name: the released file's name in it.
      overwrite: replace an earlier release of that name, and the files made from it.
      formats: of ``FORMATS``, in which tables of the release are written beside these.
      integer_columns: how many last columns of each table are integers in these formats.
    """

    path: str
    file_name: str
    overwrite: bool = False
    formats: tuple[str, ...] = ()
    integer_columns: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", directory_path(self.path))

    def check(self) -> None:
        """Raises an InputError, before anything is read or spent, if the directory holds any
        release or cannot be written."""
        with as_filesystem_error(f"{self.path} cannot be written"):
            self._refuse_other_jobs()
            for name in (self.file_name, PRIVACY_FILE, *self._made_of_it):
                if not self.overwrite and self._files.exists(self.file(name)):
                    raise InputError(
                        f"{self.file(name)} exists: give another --output, or --overwrite to "
                        f"replace it"
                    )
            local = self._files is LocalFiles
            # Only writing makes the directory: a failed job leaves none.
            self._probe(_first_there(self.path) if local else self.path, b"")

    def statement(self) -> dict[str, Any] | None:
        """Returns the directory's privacy.json, or None without a complete release."""
        try:
            if not all(self._files.exists(self.file(name)) for name in self.files):
                return None
            statement = json.loads(read_bytes(self.file(PRIVACY_FILE)))
            return statement if isinstance(statement, dict) else None
        except (OSError, ValueError):
            return None

    def publish(
        self,
        tables: Callable[[], Mapping[str, CsvTable]],
        statement: dict[str, Any],
        budget_entry: BudgetEntry,
    ) -> None:
        """Writes the tables and the statement under temporary names, then renames them; an
        InputError if that fails, or another release is there.

        The ledger of ``budget_entry`` notes that the release begins before ``tables`` makes the
        tables of the files: a failure that depends on noise is paid for. The statement is renamed
        first. Where an earlier release is replaced, that one and the files made from it are removed
        before: no release is ever seen with another one's statement or report. A runner may repeat
        this step, which leaves untouched what is there already.
        """
        token = uuid.uuid4().hex
        failed = f"{self.path} cannot be written"
        with as_filesystem_error(failed):
            if self._files is LocalFiles:
                # A full disk fails before anything depends on the noise.
                self._probe(self.path, bytes(_PROBE_BYTES))
            budget_entry.begin()
        contents = self._contents(tables(), statement)
        with as_filesystem_error(failed), contextlib.ExitStack() as at_end:
            parts = {name: self.file(f".{name}.{token}.part") for name in contents}
            at_end.callback(_remove, parts.values())
            for name, content in contents.items():
                write_bytes(parts[name], content)
            self._refuse_other_jobs()
            present = [name for name in contents if self._files.exists(self.file(name))]
            done = [name for name in present if read_bytes(self.file(name)) == contents[name]]
            if not self.overwrite and done != present:
                raise self._appeared(next(name for name in present if name not in done))
            if len(done) == len(contents):
                return
            if self.overwrite:
                # A different file is part of the replaced release, or was made from it.
                old = [self.file(name) for name in (self.file_name, *self._made_of_it)]
                self._files.delete([path for path in old if self._files.exists(path)])
            for name, part in parts.items():
                if not self.overwrite and name not in done:
                    self._claim(name, part, contents[name])
                elif self.overwrite and (name not in done or name != PRIVACY_FILE):
                    self._files.rename([part], [self.file(name)])

    def _contents(
        self, tables: Mapping[str, CsvTable], statement: dict[str, Any]
    ) -> dict[str, bytes]:
        contents = {PRIVACY_FILE: (json.dumps(statement, indent=2) + "\n").encode()}
        # The main table is the last to appear.
        others = [name for name in tables if name != self.file_name]
        for table in [*others, self.file_name]:
            contents[table] = tables[table].content()
            for name, other in zip(self.formats, names_beside(table, self.formats), strict=True):
                contents[other] = tables[table].converted(name, self.integer_columns)
        return contents

    def _claim(self, name: str, part: str, content: bytes) -> None:
        """Renames a file, or raises an InputError if another job's is there: of several jobs that
        write at the same time, the first one has the file."""
        target = self.file(name)
        if self._files is not LocalFiles:
            self._files.rename([part], [target])
            return
        try:
            LocalFiles.rename([part], [target], replace=False)
        except FileExistsError:
            # A runner may repeat this step while it is under way.
            if read_bytes(target) != content:
                raise self._appeared(name) from None

    def _appeared(self, name: str) -> InputError:
        return InputError(
            f"{self.file(name)} has appeared while the job ran, and is another release: give "
            f"another --output"
        )

    def file(self, name: str) -> str:
        """Returns the path of a file in the directory."""
        return join(self.path, name)

    @property
    def files(self) -> list[str]:
        """Returns the names of the main table's files, CSV first. Other tables appear before."""
        return [self.file_name, *names_beside(self.file_name, self.formats)]

    @property
    def _made_of_it(self) -> list[str]:
        """Returns other files that an earlier release may have left in this directory."""
        tables = (self.file_name, *OTHER_TABLES)
        in_other_formats = [name for table in tables for name in names_beside(table)]
        return [*OTHER_TABLES, *in_other_formats, *REPORT_FILES]

    @property
    def _files(self) -> Any:
        return filesystem(self.path)

    def _probe(self, directory: str, content: bytes) -> None:
        probe = join(directory, f".{uuid.uuid4().hex}.probe")
        try:
            write_bytes(probe, content)
        finally:
            _remove([probe])

    def _refuse_other_jobs(self) -> None:
        for path in matching_paths(self.file(RELEASED_FILES)):
            name = os.path.basename(path)
            if name != self.file_name:
                raise InputError(
                    f"{self.file(name)} is another job's release, which would lose its statement: "
                    f"give another --output"
                )


def directory_path(path: str) -> str:
    """Returns the path of an output directory, with a leading ~ expanded; raises a ValueError if it
    is empty or contains characters of a glob."""
    if not path or set(path) & set("*?[]"):
        raise ValueError(
            f"output must be a directory without any of the characters * ? [ ], got {path!r}"
        )
    return local_path(path)


def csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """Returns the lines of a released CSV file.

    >>> csv_lines([("a", 1), ("b\\r", 20)])
    b'a,1\\n"b\\r",20\\n'
    """
    lines: list[str] = []
    # Before Python 3.13 a carriage return is only quoted if lines end with one.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    writer.writerows(rows)
    return "".join(f"{line[:-2]}\n" for line in lines).encode()


def csv_rows(text: str, **options: Any) -> Any:
    """Returns a reader of the rows of a CSV file, whose names may be of any length."""
    csv.field_size_limit(2**31 - 1)  # of the process; by itself Python refuses 131,073 characters
    return csv.reader(io.StringIO(text, newline=""), **options)


def names_beside(file_name: str, formats: tuple[str, ...] = FORMATS) -> list[str]:
    """Returns the names of the files beside a CSV file.

    >>> names_beside("list.csv")
    ['list.parquet', 'list.jsonl']
    """
    return [f"{file_name.removesuffix('.csv')}.{name}" for name in formats]


def _first_there(path: str) -> str:
    """Returns the path or the nearest parent that exists; an impossible path is an error."""
    path = os.path.abspath(path)
    try:
        os.lstat(path)
    except FileNotFoundError:
        return _first_there(os.path.dirname(path))
    return path


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        # An earlier error, if any, says more than this one would.
        with contextlib.suppress(OSError, ValueError):
            if filesystem(path).exists(path):
                filesystem(path).delete([path])
