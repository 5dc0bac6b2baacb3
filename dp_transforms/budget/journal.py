"""An append-only file of checked lines that several processes share.

One JSON object per line, with a SHA-256 over it and over the checksum of the line before, so that a
changed, missing, repeated or moved line shows. Nothing is ever rewritten. Checksums find damage,
not fraud: whoever may write the file can also forge it. A file whose last lines are cut off
cleanly, or that is replaced by an older copy, cannot be told from one that never had them.

Locking is flock(2), held only while a line is read or written. On Linux it also works over NFS
(version 4, or version 3 with its lock daemon, where it becomes a byte-range lock); it does not on a
mount with ``nolock`` or ``local_lock``, nor on most object stores that pose as file systems. POSIX
only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Entry = dict[str, Any]


class CorruptedJournalError(ValueError):
    """The file is not what this module wrote. The message names the first bad line."""


class Journal:
    """A journal on disk.

    Args:
      path: of a file that ``create`` made.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str], first: Entry) -> Journal:
        """Makes the file with its first entry; it appears whole or not at all.

        Raises:
          FileExistsError: there is something at the path already.
          OSError: the file cannot be written.
        """
        journal = cls(path)
        folder, name = os.path.split(os.path.abspath(journal.path))
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            try:
                _write_all(descriptor, _encode(first, previous="")[0])
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            # Unlike a rename, a link refuses to replace what is there.
            os.link(temporary, journal.path)
        finally:
            os.unlink(temporary)
        _sync_folder(folder)
        return journal

    def read(self) -> list[Entry]:
        """All entries, the first one first.

        Raises:
          FileNotFoundError: there is no such file.
          CorruptedJournalError: a line is damaged.
        """
        with self._locked(fcntl.LOCK_SH) as descriptor:
            return _parse(self.path, _read_all(descriptor)).entries

    @contextlib.contextmanager
    def appending(self) -> Iterator[Appender]:
        """Holds the file for a decision about the next line: no other process can add one
        meanwhile.

        Raises:
          FileNotFoundError, CorruptedJournalError: as ``read``.
        """
        with self._locked(fcntl.LOCK_EX) as descriptor:
            yield Appender(descriptor, _parse(self.path, _read_all(descriptor)))

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[int]:
        while True:
            descriptor = os.open(self.path, os.O_RDWR if kind == fcntl.LOCK_EX else os.O_RDONLY)
            try:
                fcntl.flock(descriptor, kind)
                if _is_still(descriptor, self.path):
                    yield descriptor
                    return
                # The file was replaced while this process waited for the lock: take the new one.
            finally:
                os.close(descriptor)


@dataclass
class _Contents:
    """What a journal holds: its entries, the last one's checksum, and the bytes they take.

    ``missing`` is the newline, if the last of them lacks it.
    """

    entries: list[Entry] = field(default_factory=list)
    checksum: str = ""
    size: int = 0
    missing: bytes = b""

    def add(self, entry: Entry, checksum: str, size: int) -> None:
        self.entries.append(entry)
        self.checksum = checksum
        self.size += size


class Appender:
    """Adds lines to a journal that is locked."""

    def __init__(self, descriptor: int, contents: _Contents):
        self._descriptor = descriptor
        self._contents = contents

    @property
    def entries(self) -> list[Entry]:
        """Those in the file so far, the first one first."""
        return list(self._contents.entries)

    def append(self, entry: Entry) -> None:
        """Adds one entry. It is on the disk when this returns.

        Raises:
          OSError: it could not be written (a full disk, say); the journal is as it was.
        """
        contents = self._contents
        line, checksum = _encode(entry, contents.checksum)
        data = contents.missing + line
        try:
            # What a crashed writer left unfinished goes first; see _parse.
            os.ftruncate(self._descriptor, contents.size)
            os.lseek(self._descriptor, contents.size, os.SEEK_SET)
            _write_all(self._descriptor, data)
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, contents.size)
            raise
        contents.add(entry, checksum, len(data))
        contents.missing = b""


def _encode(entry: Entry, previous: str) -> tuple[bytes, str]:
    """The line of an entry, and its checksum.

    One entry has one form only: sorted keys, no spaces, ASCII.
    """
    body = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256((previous + body).encode()).hexdigest()
    return f'{{"entry":{body},"sha256":"{checksum}"}}\n'.encode(), checksum


def _decode(line: bytes, previous: str) -> tuple[Entry, str] | None:
    """The entry and checksum of a line, if it is exactly what ``_encode`` writes after
    ``previous``."""
    try:
        entry = json.loads(line)["entry"]
        expected, checksum = _encode(entry, previous)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return (entry, checksum) if isinstance(entry, dict) and line + b"\n" == expected else None


def _parse(path: str, data: bytes) -> _Contents:
    """Checks every line.

    A writer that is killed in the middle leaves a last line that has no end. Its append had not
    returned, so nothing was done on the strength of it: the line counts as never written. But what
    cannot be the beginning of a line is damage, wherever it stands.
    """
    contents = _Contents()
    lines = data.split(b"\n")
    tail = lines.pop()
    for number, line in enumerate(lines, start=1):
        decoded = _decode(line, contents.checksum)
        if decoded is None:
            raise _corrupted(path, number)
        contents.add(*decoded, len(line) + 1)
    if decoded := _decode(tail, contents.checksum):
        contents.add(*decoded, len(tail))
        contents.missing = b"\n"
    elif tail and not _may_be_unfinished(tail):
        raise _corrupted(path, len(lines) + 1)
    if not contents.entries:
        # ``create`` never leaves such a file.
        raise _corrupted(path, 1)
    return contents


def _may_be_unfinished(tail: bytes) -> bool:
    """Whether more bytes could make a line of it."""
    start = b'{"entry":{'
    if not tail.startswith(start[: len(tail)]):
        return False
    if any(byte < 0x20 or byte > 0x7E for byte in tail):
        return False
    try:
        json.JSONDecoder().raw_decode(tail.decode())
    except ValueError:
        return True
    except RecursionError:  # no entry is nested so deeply
        pass
    return False


def _corrupted(path: str, line: int) -> CorruptedJournalError:
    return CorruptedJournalError(
        f"{path}, line {line}: damaged, or not written by this library. Nothing is read past it. "
        "Restore the file from where it is intact; do not start an empty one in its place"
    )


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_all(descriptor: int) -> bytes:
    return b"".join(iter(lambda: os.read(descriptor, 2**20), b""))


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        written = os.write(descriptor, data)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        data = data[written:]


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
