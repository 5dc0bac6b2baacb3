"""A release on disk: it appears whole or not at all, and never replaces another one by accident."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    COORDINATES_FILE,
    PRIVACY_FILE,
    RELEASED_FILES,
    REPORT_FILES,
)
from dp_transforms.files.paths import LocalFiles, faults, filesystem, local_path

PARQUET, JSON_LINES = "parquet", "jsonl"
FORMATS = (PARQUET, JSON_LINES)

_CHUNK_BYTES = 1 << 20
_PROBE_BYTES = 1 << 18
_LINE_END = "\r\n"


@dataclass(frozen=True)
class ReleaseDirectory:
    """A directory of a Beam filesystem that receives a released file and its privacy.json.

    Attributes:
      path: the directory; it is made when the release is written, if it does not exist.
      file_name: the released file's name in it.
      overwrite: replace an earlier release of that name, and what was made of it.
      formats: of ``FORMATS``, in which the release is written beside that file.
      numbers: how many of its columns hold integers, the last ones.
      beside: the names of other tables of the release, with as many such columns.

    Raises:
      ValueError: the path is empty or contains characters of a glob.
    """

    path: str
    file_name: str
    overwrite: bool = False
    formats: tuple[str, ...] = ()
    numbers: int = 2
    beside: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", directory_path(self.path))

    def check(self) -> None:
        """Makes sure, before anything is read or spent, that a release can be written.

        Raises:
          InputError: a release of any job is there, or the directory cannot be written.
        """
        with faults(f"{self.path} cannot be written"):
            self._refuse_other_jobs()
            for name in (self.file_name, PRIVACY_FILE, *self._made_of_it):
                if not self.overwrite and self._files.exists(self.file(name)):
                    raise InputError(
                        f"{self.file(name)} exists: give another --output, or --overwrite to "
                        f"replace it"
                    )
            directory = self.path
            if self._files is LocalFiles:
                # It is only made when there is something to write: a failed job leaves none.
                directory = os.path.abspath(directory)
                while not _exists(directory):
                    directory = os.path.dirname(directory)
            self._probe(directory, b"")

    def statement(self) -> dict[str, Any] | None:
        """The privacy.json of the release in the directory; None if it is not complete."""
        try:
            if not all(self._files.exists(self.file(name)) for name in self.files):
                return None
            with self._files.open(self.file(PRIVACY_FILE)) as file:
                statement = json.loads(file.read())
                return statement if isinstance(statement, dict) else None
        except (OSError, ValueError):
            return None

    def publish(self, tables: Mapping[str, Iterable[bytes]], statement: dict[str, Any]) -> None:
        """Writes all files under other names, then renames them.

        ``tables`` are the pieces of each table by its name, ``file_name`` and those ``beside`` it.
        They are made once the release has begun: what fails by the noise is paid for.

        The statement is renamed first and, where an earlier release is replaced, that one is
        removed before, with what was made of it: a release is never seen with another one's
        statement or report. A runner may repeat this step: what is there already stays untouched.

        Raises:
          InputError: the files cannot be written, or another release has appeared meanwhile.
        """
        suffix = f".{uuid.uuid4().hex}.part"
        with faults(f"{self.path} cannot be written"), contextlib.ExitStack() as at_end:
            if self._files is LocalFiles:
                # A disk that is full is seen to be full before anything depends on the noise.
                self._probe(self.path, bytes(_PROBE_BYTES))
            begin_release(statement)
            contents = self._contents(tables, statement)
            parts = {name: f"{self.file('.' + name)}{suffix}" for name in contents}
            at_end.callback(_remove, parts.values())
            for name, pieces in contents.items():
                with self._files.create(parts[name]) as file:
                    for piece in pieces:
                        file.write(piece)
            self._refuse_other_jobs()
            present = [name for name in contents if self._files.exists(self.file(name))]
            done = [name for name in present if _same(self.file(name), parts[name])]
            if not self.overwrite and done != present:
                raise self._appeared(next(name for name in present if name not in done))
            if len(done) == len(contents):
                return
            if self.overwrite:
                # What differs belongs to a release that is replaced, and so does what was made of
                # it.
                old = [self.file(name) for name in (self.file_name, *self._made_of_it)]
                self._files.delete([path for path in old if self._files.exists(path)])
            for name, part in parts.items():
                if not self.overwrite and name not in done:
                    self._claim(name, part)
                elif self.overwrite and (name not in done or name != PRIVACY_FILE):
                    self._files.rename([part], [self.file(name)])

    def _claim(self, name: str, part: str) -> None:
        """Renames a file. Of several jobs that write at the same time the first one has the file,
        and the others replace nothing.

        Raises:
          InputError: another job's is there.
        """
        target = self.file(name)
        if self._files is not LocalFiles:
            self._files.rename([part], [target])
            return
        try:
            LocalFiles.rename([part], [target], replace=False)
        except FileExistsError:
            # A runner may repeat this step while it is under way.
            if not _same(target, part):
                raise self._appeared(name) from None

    def _appeared(self, name: str) -> InputError:
        return InputError(
            f"{self.file(name)} has appeared while the job ran: nothing was written; give "
            f"another --output"
        )

    def _contents(
        self, tables: Mapping[str, Iterable[bytes]], statement: dict[str, Any]
    ) -> dict[str, Iterable[bytes]]:
        """The pieces of each file by its name, in the order in which they appear."""
        told = json.dumps(statement, indent=2) + "\n"
        contents: dict[str, Iterable[bytes]] = {PRIVACY_FILE: [told.encode()]}
        for table in (*self.beside, self.file_name):
            contents[table] = tables[table]
            if self.formats:
                contents[table] = [text := b"".join(tables[table])]
                for name, other in zip(
                    self.formats, names_beside(table, self.formats), strict=True
                ):
                    contents[other] = [converted(text, name, self.numbers)]
        return contents

    def file(self, name: str) -> str:
        """The path of a file in the directory."""
        return self._files.join(self.path, name)

    @property
    def files(self) -> list[str]:
        """The names of the main table's files, the CSV file first. Other tables appear before."""
        return [self.file_name, *names_beside(self.file_name, self.formats)]

    @property
    def _made_of_it(self) -> list[str]:
        """Other files that an earlier release may have left in this directory."""
        tables = [COORDINATES_FILE, *names_beside(COORDINATES_FILE)]
        return [*names_beside(self.file_name), *tables, *REPORT_FILES]

    @property
    def _files(self) -> Any:
        return filesystem(self.path)

    def _probe(self, directory: str, content: bytes) -> None:
        """Writes and removes a file."""
        probe = self._files.join(directory, f".{uuid.uuid4().hex}.probe")
        try:
            with self._files.create(probe) as file:
                file.write(content)
        finally:
            _remove([probe])

    def _refuse_other_jobs(self) -> None:
        for name in RELEASED_FILES:
            if name != self.file_name and self._files.exists(self.file(name)):
                raise InputError(
                    f"{self.file(name)} is another job's release, which would lose its statement: "
                    f"give another --output"
                )


def begin_release(statement: Mapping[str, Any]) -> None:
    """Has the ledger note that writing begins, if the statement's budget is of one: see
    ``pipelines.spending.Charge``."""
    begin = getattr(statement.get("budget"), "begin", None)
    if begin is not None:
        begin()


def directory_path(path: str) -> str:
    """The path of a directory to write to, with a leading ~ expanded.

    Raises:
      ValueError: it is empty or contains characters of a glob.
    """
    if not path or set(path) & set("*?[]"):
        raise ValueError(
            f"output must be a directory without any of the characters * ? [ ], got {path!r}"
        )
    return local_path(path)


def csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    """Formats rows as the lines of a released CSV file.

    >>> csv_lines([(7, 1), (1, 20)])
    b'7,1\\n1,20\\n'
    """
    lines = _Lines()
    # Before Python 3.13 a carriage return is quoted only where it ends lines.
    csv.writer(lines, lineterminator=_LINE_END).writerows(rows)
    return "".join(f"{line.removesuffix(_LINE_END)}\n" for line in lines).encode()


class _Lines(list[str]):
    """What a CSV writer writes, which is a line at a time."""

    write = list.append


def names_beside(file_name: str, formats: tuple[str, ...] = FORMATS) -> list[str]:
    """The names of the files beside a CSV file.

    >>> names_beside("list.csv")
    ['list.parquet', 'list.jsonl']
    """
    return [f"{file_name.removesuffix('.csv')}.{name}" for name in formats]


def converted(text: bytes, name: str, numbers: int) -> bytes:
    """Converts the content of a CSV file, with its header, to another of ``FORMATS``.

    The last ``numbers`` columns hold integers, the others text.

    >>> print(converted(b"page,users\\nhome,7\\n", "jsonl", 1).decode(), end="")
    {"page": "home", "users": 7}
    """
    header, *rows = csv.reader(io.StringIO(text.decode(), newline=""))
    texts = len(header) - numbers
    records = [(*row[:texts], *map(int, row[texts:])) for row in rows]
    if name == JSON_LINES:
        objects = (dict(zip(header, record, strict=True)) for record in records)
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in objects).encode()
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = [pa.string()] * texts + [pa.int64()] * numbers
    columns = [pa.array([record[i] for record in records], kind) for i, kind in enumerate(types)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, header), sink)
    return sink.getvalue().to_pybytes()


def _exists(path: str) -> bool:
    """Works like os.path.lexists, but a path that cannot be is an error."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    files = filesystem(one)
    with files.open(one) as left, files.open(other) as right:
        while True:
            here, there = left.read(_CHUNK_BYTES), right.read(_CHUNK_BYTES)
            if here != there:
                return False
            if not here:
                return True


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        # The error on the way here, if any, says more than this one would.
        with contextlib.suppress(OSError, ValueError):
            if filesystem(path).exists(path):
                filesystem(path).delete([path])
