"""Reads lines of text files, compressed or not, in ranges that workers share."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.paths import FileRange, open_bytes
from dp_transforms.files.record_files import RecordFormat

BLOCK_BYTES = 4 << 20
RANGE_BYTES = 64 << 20
LONGEST_LINE = 64 << 20

_SAMPLE_BYTES = 1 << 16
# The usual compression ratio of files of identifiers.
_COMPRESSION_RATIO = 4
# Arrow's codecs by suffix; None for a compression that Arrow cannot read.
_CODECS = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".deflate": None,
    ".xz": None,
    ".lzma": None,
}


class TextFormat(RecordFormat):
    """A text format. Each record is one line, or may be several lines if it is ``multiline``."""

    multiline: bool = False

    def estimated_rows(self, path: str, size: int) -> int:
        """Returns the approximate number of lines of a file of this size, by its first lines."""
        with text_bytes(path) as file:
            sample = file.read(_SAMPLE_BYTES)
        if is_compressed(path):
            size *= _COMPRESSION_RATIO
        return size * sample.count(b"\n") // max(1, len(sample))

    def split(self, path: str, size: int) -> Iterator[FileRange]:
        if self.multiline or is_compressed(path):
            return iter([FileRange.whole(path)])
        return FileRange.alike(path, size, RANGE_BYTES)


def is_compressed(path: str) -> bool:
    """Returns whether a file's name shows that it is compressed."""
    return _suffix(path) in _CODECS


@contextlib.contextmanager
def text_bytes(path: str) -> Iterator[Any]:
    """Opens a text file as bytes, which are decompressed if its name shows that it is compressed.

    Raises:
      InputError: the file cannot be opened or read to its end, or has an unknown compression.
    """
    codec = _CODECS.get(_suffix(path))
    if is_compressed(path) and codec is None:
        raise InputError(f"{path}: compress text files with gzip, bzip2 or zstd, or not at all")
    opened = open_bytes(path)
    if codec is not None:
        # Where a file is cut short, Beam's reader ends silently, but Arrow's raises an error.
        opened = io.BufferedReader(pa.CompressedInputStream(opened, codec), 1 << 20)
    fault = f"{path} cannot be read to its end: it is cut short, damaged or not what its name says"
    with as_input_error(fault, (OSError, pa.ArrowException)), opened as file:
        yield file


def line(path: str, file: Any) -> bytes:
    """Returns the next line of a file, with its end; raises an InputError if it is too long."""
    line: bytes = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
        raise InputError(
            f"{path}: a line is longer than {LONGEST_LINE >> 20} MiB: is this text with line ends?"
        )
    return line


def blocks(part: FileRange, file: Any, data_start: int, mark: bytes) -> Iterator[bytes]:
    """Yields the lines that begin in the range and after the header, in blocks of a few megabytes.

    A byte-order mark at the beginning of a block is doubled, unless the file begins there. Within a
    file it is a part of somebody's record, and Arrow drops the first mark of a block.
    """
    if part.start <= data_start:
        file.read(data_start)
        position = data_start
    else:
        # One byte earlier: if that is a line end, then a line begins at part.start.
        file.seek(part.start - 1)
        position = part.start - 1 + len(line(part.path, file))
    while position < part.stop:
        block = file.read(min(BLOCK_BYTES, part.stop - position))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += line(part.path, file)
        inside = position > 0 and mark and block.startswith(mark)
        position += len(block)
        yield mark + block if inside else block


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower()
