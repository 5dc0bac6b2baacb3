"""Writes a release: all of its files or none, and never over another release by accident."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, NamedTuple

from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    DIGESTS,
    OTHER_TABLES,
    PRIVACY_FILE,
    RELEASED_FILES,
    REPORT_FILES,
)
from dp_transforms.files.paths import (
    LocalFiles,
    as_filesystem_error,
    delete_present,
    filesystem,
    join,
    local_path,
    matching_paths,
    read_bytes,
    write_bytes,
)
from dp_transforms.files.several_releases import (
    FLAGS,
    OptionNames,
    SeveralReleases,
    refuse_part_of_several,
    refuse_releases_below,
)

JSON_LINES = "jsonl"
OUTPUT_FORMATS = ("parquet", JSON_LINES)

_PROBE_BYTES = 1 << 18


class CsvTable(NamedTuple):
    """A table of a release: a header and rows. First columns are text, and last ones integers."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def content(self) -> bytes:
        """Returns the bytes of the table as a CSV file: UTF-8, a header, and lines that end with
        a line feed.

        >>> CsvTable(("page", "users"), [("home", 7)]).content()
        b'page,users\\nhome,7\\n'
        """
        return csv_lines([self.header, *self.rows])

    def converted(self, name: str, integer_columns: int) -> bytes:
        """Returns the bytes of the table as a file of another format.

        Args:
          name: the format, of ``OUTPUT_FORMATS``.
          integer_columns: how many of the last columns are integers; the others are text.

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
    """A directory, on a Beam filesystem, for a release and its privacy.json.

    Attributes:
      path: the directory, see ``directory_path``; it is made when the release is written.
      file_name: the name of the main table's CSV file.
      overwrite: whether to replace an earlier release of that name, and the files made from it.
      formats: names of ``OUTPUT_FORMATS``; each table is also written as a file of each of them.
      integer_columns: in these formats, how many of the last columns of each table are integers.
      several: the directory that holds this one, if the job makes several releases.
      options: what the caller calls the directory and ``overwrite``, for errors.
      period: the period of the release, if it is one of several and is written by itself.
    """

    path: str
    file_name: str
    overwrite: bool = False
    formats: tuple[str, ...] = ()
    integer_columns: int = 2
    several: SeveralReleases | None = None
    options: OptionNames = FLAGS
    period: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", directory_path(self.path))

    def check(self) -> None:
        """Raises an InputError, before anything is read or spent, if the directory holds any
        release or cannot be written."""
        with as_filesystem_error(f"{self.path} cannot be written"):
            self._refuse_other_jobs()
            earlier = map(self.file, (self.file_name, PRIVACY_FILE, *self._made_of_it))
            for path in (*earlier, *self._made_of_all):
                if not self.overwrite and self._files.exists(path):
                    raise InputError(
                        f"{path} exists: give another {self.options.directory}, or "
                        f"{self.options.overwrite} to replace it"
                    )
            local = self._files is LocalFiles
            # Only writing makes the directory: a failed job leaves none.
            self._probe(_first_there(self.path) if local else self.path, b"")

    def statement(self) -> dict[str, Any] | None:
        """Returns the content of the directory's privacy.json, or None if there is no complete
        release."""
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
        """Writes the tables, and the statement with their digests, under temporary names, then
        renames them.

        The ledger of ``budget_entry`` notes that the release begins before ``tables`` makes the
        tables: so a failure that depends on noise is paid for. The statement is renamed first. If
        an earlier release is replaced, that release and the files made from it are removed before;
        of several releases, so are those that this job does not write. So no release is ever seen
        with another one's statement or report. A runner may repeat this step: files that are there
        already, with the same content, are left untouched.

        Raises:
          InputError: a file cannot be written, or another release is there.
        """
        token = uuid.uuid4().hex
        failed = f"{self.path} cannot be written"
        with as_filesystem_error(failed):
            if self._files is LocalFiles:
                # This finds a full disk before anything depends on the noise.
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
                # A main table with other content, and all files made from it, are removed.
                old = [self.file(name) for name in (self.file_name, *self._made_of_it)]
                delete_present([*old, *self._made_of_all])
                if self._first_of is not None:
                    self._first_of.remove_earlier([self.file_name, *self._made_of_it])
            for name, part in parts.items():
                if not self.overwrite and name not in done:
                    self._claim(name, part, contents[name])
                elif self.overwrite and (name not in done or name != PRIVACY_FILE):
                    self._files.rename([part], [self.file(name)])

    def _contents(
        self, tables: Mapping[str, CsvTable], statement: dict[str, Any]
    ) -> dict[str, bytes]:
        """Returns the content of each file, in the order in which they are to appear. The statement
        has the digests of the others, which tell nothing besides what these files hold."""
        contents = {}
        # The main table is the last to appear.
        others = [name for name in tables if name != self.file_name]
        for table in [*others, self.file_name]:
            contents[table] = tables[table].content()
            for name, other in zip(self.formats, names_beside(table, self.formats), strict=True):
                contents[other] = tables[table].converted(name, self.integer_columns)
        digests = {name: sha256(content).hexdigest() for name, content in contents.items()}
        whole_statement = statement | {DIGESTS: digests}
        return {PRIVACY_FILE: (json.dumps(whole_statement, indent=2) + "\n").encode(), **contents}

    def _claim(self, name: str, part: str, content: bytes) -> None:
        """Renames a file to its final name, or raises an InputError if another job's file is there.
        If several jobs write at the same time, the first one gets the name."""
        target = self.file(name)
        if self._files is not LocalFiles:
            self._files.rename([part], [target])
            return
        try:
            LocalFiles.rename([part], [target], replace=False)
        except FileExistsError:
            # A runner may run this step twice at the same time: then the content is the same.
            if read_bytes(target) != content:
                raise self._appeared(name) from None

    def _appeared(self, name: str) -> InputError:
        return InputError(
            f"{self.file(name)} has appeared while the job ran, and is another release: give "
            f"another {self.options.directory}"
        )

    def file(self, name: str) -> str:
        """Returns the path of a file in the directory."""
        return join(self.path, name)

    @property
    def files(self) -> list[str]:
        """The names of the main table's files, CSV first. All other tables appear before them."""
        return [self.file_name, *names_beside(self.file_name, self.formats)]

    @property
    def _made_of_it(self) -> list[str]:
        """The names of other files that an earlier release may have left in this directory."""
        tables = (self.file_name, *OTHER_TABLES)
        in_other_formats = [name for table in tables for name in names_beside(table)]
        return [*OTHER_TABLES, *in_other_formats, *REPORT_FILES]

    @property
    def _first_of(self) -> SeveralReleases | None:
        """The directory of several releases, if this is the first of them; None otherwise. What is
        in it is looked at and removed with the first one alone, since there may be thousands."""
        several = self.several
        if several is None or self.path != join(several.path, several.names[0]):
            return None
        return several

    @property
    def _made_of_all(self) -> list[str]:
        """The paths of files about all of the job's releases that an earlier job may have left, if
        this is the first of them."""
        several = self._first_of
        return [] if several is None else several.made_of_all

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
                    f"give another {self.options.directory}"
                )
        if self.several is None:
            refuse_releases_below(self.path, self.options)
            refuse_part_of_several(self.path, self.period, self.options)
        elif self._first_of is not None:
            self._first_of.refuse_other_jobs(self.file_name, self.overwrite, self.options)


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
    """Returns a reader of the rows of a CSV file, with fields of any length."""
    # The limit is one of the process. By default Python refuses fields above 131,072 characters.
    csv.field_size_limit(2**31 - 1)
    return csv.reader(io.StringIO(text, newline=""), **options)


def names_beside(file_name: str, formats: tuple[str, ...] = OUTPUT_FORMATS) -> list[str]:
    """Returns the names of the files that a table has in other formats, beside its CSV file.

    >>> names_beside("list.csv")
    ['list.parquet', 'list.jsonl']
    """
    return [f"{file_name.removesuffix('.csv')}.{name}" for name in formats]


def _first_there(path: str) -> str:
    """Returns the path, or its nearest parent that exists. Raises an OSError for an impossible
    path."""
    path = os.path.abspath(path)
    try:
        os.lstat(path)
    except FileNotFoundError:
        return _first_there(os.path.dirname(path))
    return path


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        # An error here would hide an earlier one, which says more.
        with contextlib.suppress(OSError, ValueError):
            delete_present([path])
