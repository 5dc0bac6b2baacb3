"""The format of delimited text (CSV, TSV, ...): reads files as Arrow tables, in ranges that workers
share."""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dp_transforms.errors import InputError, UnfitColumnError
from dp_transforms.files import text_lines
from dp_transforms.files.paths import FileRange
from dp_transforms.threads import map_ahead

_QUOTE = b'"'
_FIRST_RECORD: Any = re.compile(rb'(?:[^"\n]+|"[^"]*"?)*\n?')
_BYTE_ORDER_MARK = "\ufeff"
_CARRIAGE_RETURNS = "has carriage returns inside a line: end lines with \\n or \\r\\n"
_STRUCTURE = ',"\r\n'
# Bytes that switch the state of some encodings, or that some encodings read as escapes. In such an
# encoding one record would change how the next one is read.
_SHIFTS = b"+ACI- ~{!!~} \x1b$B!!\x1b(B \x0e!!\x0f \\u0022"
# The first bytes of files that are not text, whatever their names say.
_SIGNATURES = {
    b"PK\x03\x04": "is a zip archive: unpack it, or compress text with gzip, bzip2 or zstd",
    b"\x1f\x8b\x08": "is compressed with gzip: end its name with .gz",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd: end its name with .zst",
    b"PAR1": "is a Parquet file: give --input_format=parquet",
    b"\xff\xfe": "is UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8",
}


@dataclass(frozen=True)
class DelimitedText(text_lines.TextFormat):
    """Reads text files with one record per line and delimiters between fields.

    Fields are taken as text, so that 007 and 7 stay different. An empty field is null; an empty
    quoted field ("") is the empty string. Files whose names end in .gz, .bz2 or .zst are
    decompressed, each by one worker; workers share other files, in ranges.

    Attributes:
      delimiter: one ASCII character between fields.
      header: whether the first line of every file names the columns. Without a header, columns are
        given by position, counted from 1.
      quotes: whether fields may be quoted as in RFC 4180. If not, a quote is an ordinary character.
      multiline: whether quoted fields may contain line breaks. If so, quotes must follow RFC 4180:
        they stand around a whole field, and are doubled inside it. Each file is then read by one
        worker, since the beginning of a record is known only after reading the file up to there.
      encoding: a stateless Python codec in which ASCII characters are single bytes.

    Raises:
      ValueError: an attribute is not as described.
    """

    delimiter: str = ","
    header: bool = True
    quotes: bool = True
    multiline: bool = False
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise ValueError(
                f"delimiter must be one ASCII character other than a quote or a line end, "
                f"got {self.delimiter!r}"
            )
        if self.multiline and not self.quotes:
            raise ValueError("multiline needs quotes: without them a line end always ends a record")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(
                f"encoding must be the name of a Python codec such as utf-8, latin-1 or cp1252, "
                f"got {self.encoding!r}"
            ) from None
        if not self._keeps_ascii():
            raise ValueError(
                f"encoding {self.encoding} does not keep ASCII characters as single bytes: convert "
                f"the files, for example with iconv -f {self.encoding} -t UTF-8"
            )

    def _keeps_ascii(self) -> bool:
        """Returns whether ASCII characters are single bytes in the encoding, and none of the bytes
        of ``_SHIFTS`` switches its state or is an escape."""
        text = f'a{self.delimiter}"\n'
        try:
            if text.encode(self.encoding) != text.encode("ascii"):
                return False
            shifts = _SHIFTS.decode(self.encoding)
        except (UnicodeError, LookupError):
            return False
        return len(shifts) == len(_SHIFTS) and not set(_STRUCTURE) & set(shifts)

    def schema(self, path: str, columns: Sequence[str]) -> pa.Schema:
        self._layout(path, columns)
        return pa.schema([(column, pa.string()) for column in columns])

    def read(self, part: FileRange, columns: Sequence[str]) -> Iterator[pa.Table]:
        layout = self._layout(part.path, columns)
        tables: Iterator[pa.Table]
        with text_lines.text_bytes(part.path) as file:
            try:
                if self.multiline:
                    file.read(layout.data_start)
                    checked = _StrictQuotes(part.path, self, has_mark=layout.data_start == 0)
                    stream = pa.TransformInputStream(pa.PythonFile(file, "r"), checked)
                    options = self._options(layout, text_lines.BLOCK_BYTES)
                    batches = pa.csv.open_csv(stream, **options)
                    tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
                else:
                    # Arrow reads each block as a file, and drops a byte-order mark at its
                    # beginning.
                    mark = _BYTE_ORDER_MARK.encode(self.encoding, "ignore")
                    blocks = text_lines.blocks(part, file, layout.data_start, mark)
                    tables = map_ahead(functools.partial(self._table, part.path, layout), blocks)
                for table in tables:
                    yield table.rename_columns(list(columns))
            except (pa.ArrowInvalid, UnicodeError) as error:
                raise InputError(f"{part.path}: {self._fault(error, layout)}") from None

    def _layout(self, path: str, columns: Sequence[str]) -> _Layout:
        """Returns the layout of a file, by its first line or, with ``multiline``, first record."""
        if not self.header:
            check_positions(columns)
        with text_lines.text_bytes(path) as file:
            line = text_lines.line(path, file)
            for signature, fault in _SIGNATURES.items():
                if line.startswith(signature):
                    raise InputError(f"{path} {fault}")
            while not self.header and line and not line.strip(b"\r\n"):
                line = text_lines.line(path, file)
            # An empty file is not refused: a program without a record to write may write no names
            # of columns either.
            is_empty = not line.strip(b"\r\n") and not file.read(1)
            if self.multiline and line.count(_QUOTE) % 2:
                line = _FIRST_RECORD.match(line + file.read(text_lines.BLOCK_BYTES))[0]
        if not line.strip(b"\r\n"):
            if self.header and not is_empty:
                raise InputError(
                    f"{path} has nothing on its first line: it must name the columns, or give "
                    "--no_header"
                )
            return _Layout(len(columns), tuple(range(len(columns))), 0)
        read = pa.csv.ReadOptions(
            encoding=self.encoding, use_threads=False, block_size=len(line) + 2
        )
        try:
            if self.multiline:
                checked = _StrictQuotes(path, self, has_mark=True)
                for piece in (line, b""):
                    checked(piece)
            elif line.count(b"\r") != line.count(b"\r\n"):
                raise InputError(f"{path} {_CARRIAGE_RETURNS}")
            file = pa.BufferReader(line + b"\n")
            names = pa.csv.read_csv(file, read, self._parse_options).column_names
        except (pa.ArrowException, UnicodeError) as error:
            raise InputError(f"{path}: {self._fault(error, None)}") from None
        positions = tuple(self._position(path, column, names) for column in columns)
        return _Layout(len(names), positions, len(line) if self.header else 0)

    def _position(self, path: str, column: str, names: list[str]) -> int:
        """Returns the position of a column, from 0, among the fields of the first line."""
        some = "1 column" if len(names) == 1 else f"{len(names)} columns"
        width = f"{some} with the delimiter {self.delimiter!r}"
        if not self.header:
            if int(column) > len(names):
                raise InputError(
                    f"{path} has no column {column}: it has {width}; check --delimiter"
                )
            return int(column) - 1
        if names.count(column) > 1:
            raise InputError(f"{path} has more than one column {column!r}: rename all but one")
        if column not in names:
            # The error does not quote the first line: without a header it is somebody's record.
            raise UnfitColumnError.missing(
                column,
                f"{path} has no column {column!r} on its first line ({width}): check the name, "
                "--delimiter and --no_header",
            )
        return names.index(column)

    @property
    def _parse_options(self) -> Any:
        return pa.csv.ParseOptions(
            delimiter=self.delimiter,
            quote_char='"' if self.quotes else False,
            newlines_in_values=self.multiline,
        )

    def _options(self, layout: _Layout, block_bytes: int) -> dict[str, Any]:
        """Returns the options of Arrow's reader of CSV."""
        names = [f"f{i}" for i in range(layout.width)]
        wanted = [names[i] for i in layout.positions]
        return {
            "read_options": pa.csv.ReadOptions(
                column_names=names,
                # Several blocks are read in parallel already, by other threads or workers.
                use_threads=False,
                block_size=block_bytes,
            ),
            "parse_options": self._parse_options,
            "convert_options": pa.csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
                quoted_strings_can_be_null=False,
            ),
        }

    def _table(self, path: str, layout: _Layout, block: bytes) -> pa.Table:
        """Returns the records of a block of whole lines, each of which must be a record."""
        if codecs.lookup(self.encoding).name != "utf-8":
            block = block.decode(self.encoding).encode()
        block = block if block.endswith(b"\n") else block + b"\n"
        has_quotes = self.quotes and _QUOTE in block
        if has_quotes:
            # Appends a line of empty fields. A quote that is still open would make this line a part
            # of the last record, and the number of records too small.
            block += self.delimiter.encode("ascii") * (layout.width - 1) + b"\n"
        elif b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            # Arrow would end a record there, and begin one that is perhaps another user's.
            raise InputError(f"{path} {_CARRIAGE_RETURNS}")
        table = pa.csv.read_csv(pa.BufferReader(block), **self._options(layout, len(block) + 1))
        if not has_quotes:
            return table
        # A range begins at a line, which is the beginning of a record only if every line before it
        # is a whole record. Every range checks its own lines, so a job that succeeds has checked
        # them all.
        if table.num_rows != _records_if_lines(block):
            raise InputError(
                f"{path}: a quoted field has a line break in it, or a quote is not closed: give "
                "--multiline for line breaks, or --no_quotes if quotes are ordinary characters"
            )
        return table.slice(0, table.num_rows - 1)

    def _fault(self, error: Exception, layout: _Layout | None) -> str:
        """Returns the message to the user about an error of Arrow or a codec. The error's own text
        may quote a private line, so it is not shown, but only searched for known words."""
        text = str(error)
        if isinstance(error, UnicodeError) or "invalid UTF8" in text:
            return f"not all text is valid {self.encoding}: give --encoding, for example latin-1"
        if layout and "columns, got" in text:
            return (
                f"a line does not have {layout.width} fields as the first one does: check "
                f"--delimiter, or --no_quotes if quotes are ordinary characters"
            )
        if "straddling" in text:
            return (
                f"a record is longer than {text_lines.BLOCK_BYTES >> 20} MiB, or a quote is not "
                f"closed: check --multiline and --no_quotes"
            )
        return "cannot be read as delimited text: check --input_format, --delimiter and --encoding"


class _Layout(NamedTuple):
    """How the fields of a file are laid out.

    Attributes:
      width: the number of fields of each record.
      positions: the positions of the needed columns, from 0.
      data_start: the number of bytes of the header.
    """

    width: int
    positions: tuple[int, ...]
    data_start: int


class _StrictQuotes:
    """Returns pieces of text in UTF-8, and raises an InputError unless quotes follow RFC 4180.

    The idea: count quotes from the beginning of the file. Every odd quote opens a field, or is the
    second of a doubled pair. Every even quote closes a field, or is the first of a pair. So the
    bytes beside each quote show whether fields are opened at their beginning and closed at their
    end. After a stray quote of one user, text outside of quotes would be read as text between
    quotes, and the other way round, also for other users. It is refused, unless that text between
    quotes looks like whole fields as well.
    """

    def __init__(self, path: str, text_format: DelimitedText, has_mark: bool):
        self._path = path
        self._decoder = codecs.getincrementaldecoder(text_format.encoding)()
        self._has_mark = has_mark
        ends = _QUOTE + b"\r\n" + text_format.delimiter.encode("ascii")
        self._at_end = np.isin(np.arange(256), list(ends))
        self._quotes = 0
        self._last = b"\n\n"
        self._begun = self._ended = False

    def __call__(self, piece: Any) -> bytes:
        """Returns a piece of the file in UTF-8. The last piece has to be empty."""
        text: str = self._decoder.decode(bytes(piece), final=not piece)
        mark = b""
        if not self._begun and (text or not piece):
            # Arrow leaves out a first byte-order mark, so it is given one. The mark of the file
            # itself is before the header, if there is a header.
            mark = _BYTE_ORDER_MARK.encode()
            text = text.removeprefix(_BYTE_ORDER_MARK) if self._has_mark else text
            self._begun = True
        if not piece and not self._ended:
            text += "\n"
            self._ended = True
        content = text.encode()
        self._check(content)
        if self._ended and self._quotes % 2:
            raise InputError(
                f"{self._path}: a quote is not closed: give --no_quotes if quotes are ordinary "
                "characters"
            )
        return mark + content

    def _check(self, text: bytes) -> None:
        """Raises an InputError for a misplaced quote or carriage return in the next piece of text.
        Quotes are checked when the byte after them is known."""
        window = np.frombuffer(self._last + text, np.uint8)
        before, here, after = window[:-2], window[1:-1], window[2:]
        quotes = np.flatnonzero(here == ord(_QUOTE))
        first = self._quotes % 2
        opening, closing = quotes[first::2], quotes[1 - first :: 2]
        if not (self._at_end[before[opening]].all() and self._at_end[after[closing]].all()):
            raise InputError(
                f"{self._path}: a quote is inside a field, or text follows a quoted field: put "
                f"quotes around the whole field and double those inside it, or give --no_quotes if "
                f"quotes are ordinary characters"
            )
        returns = np.flatnonzero((here == ord("\r")) & (after != ord("\n")))
        if ((self._quotes + np.searchsorted(quotes, returns)) % 2 == 0).any():
            raise InputError(f"{self._path} {_CARRIAGE_RETURNS}")
        self._quotes += len(quotes)
        self._last = window[-2:].tobytes()


def check_positions(columns: Sequence[str]) -> None:
    """Raises a ValueError if one of the columns is not a position, as text without a header needs.

    >>> check_positions(["1", "12"])
    """
    for column in columns:
        if not (column.isascii() and column.isdigit() and 1 <= int(column) <= 1_000_000):
            raise ValueError(
                f"columns must be positions counted from 1 when there is no header, got {column!r}"
            )


def _records_if_lines(block: bytes) -> int:
    """Returns the number of records of a block if each non-blank line is one: the number of such
    lines; or -1 if there are carriage returns within lines."""
    if b"\r" in block:
        if block.count(b"\r") != block.count(b"\r\n"):
            return -1
        block = block.replace(b"\r\n", b"\n")
    ends = np.frombuffer(block, np.uint8) == ord("\n")
    # The end of a line counts unless the byte before it is the end of another line.
    return int(np.count_nonzero(ends[1:] > ends[:-1]))
