"""Tables as compact bytes, to be sent between workers.

The bytes are the schema and all buffers, one after the other, compressed with zstd unless asked
otherwise. Integers that are codes or lengths take as few bytes as the largest one needs. Strings
and binary go as the lengths of their values beside all their bytes, rather than as offsets, which
hardly compress: records take about a quarter of the space of Arrow's own columns. A runner holds,
copies or sends every byte of a shuffle.

Bytes, rather than tables: pickling a slice of a table would serialise the whole table. And no Arrow
IPC stream: reading and writing one takes as long as all the rest for a thousand rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_transforms.columnar.columns import single
from dp_transforms.columnar.hashing import to_arrow, to_numpy

_SIZE_BYTES = 8
_NOT_COMPRESSED = bytes(_SIZE_BYTES)
# Buffers begin at multiples of this, as Arrow likes it.
_ALIGNMENT = 8
_NUMBER = np.dtype("<i8")


def pack(table: pa.Table, compress: bool = True) -> bytes:
    """The table as bytes.

    Args:
      table: plain columns, or codes (see ``columns``).
      compress: to a third or two thirds of the bytes, which takes some ten times as long.
    """
    schema = np.frombuffer(table.schema.serialize(), np.uint8)
    buffers = [schema, *(part for column in table.columns for part in _buffers(single(column)))]
    sizes = [(buffer.itemsize, len(buffer)) for buffer in buffers]
    header = np.array([len(buffers), *itertools.chain.from_iterable(sizes)], _NUMBER)
    parts = [header.tobytes()]
    for buffer in buffers:
        parts += [buffer.tobytes(), bytes(-buffer.nbytes % _ALIGNMENT)]
    if not compress:
        return b"".join([_NOT_COMPRESSED, *parts])
    stream = b"".join(parts)
    # All at once: to prepare zstd for every buffer takes longer than to compress a small one.
    return len(stream).to_bytes(_SIZE_BYTES, "little") + pa.Codec("zstd").compress(
        stream, asbytes=True
    )


def unpack(data: bytes) -> pa.Table:
    """The table that was packed."""
    stream = memoryview(data)[_SIZE_BYTES:]
    if not data.startswith(_NOT_COMPRESSED):
        size = int.from_bytes(data[:_SIZE_BYTES], "little")
        stream = memoryview(pa.Codec("zstd").decompress(stream, size))
    many = int(np.frombuffer(stream, _NUMBER, 1)[0])
    header = np.frombuffer(stream, _NUMBER, 1 + 2 * many)
    place, buffers = header.nbytes, []
    for width, length in header[1:].reshape(many, 2).tolist():
        kind = _NUMBER if width == _NUMBER.itemsize else np.dtype(f"<u{width}")
        buffers.append(np.frombuffer(stream, kind, length, place))
        place += width * length + -width * length % _ALIGNMENT
    rest = iter(buffers)
    schema = pa.ipc.read_schema(pa.py_buffer(next(rest)))
    return pa.table([_column(kind, rest) for kind in schema.types], schema=schema)


def _buffers(array: pa.Array) -> Iterator[npt.NDArray[np.integer]]:
    if pa.types.is_dictionary(array.type):
        narrow = np.min_scalar_type(max(len(array.dictionary) - 1, 0))
        yield to_numpy(array.indices).astype(narrow)
        yield from _buffers(array.dictionary)
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _buffers(field)
    elif pa.types.is_integer(array.type):
        yield to_numpy(array)
    else:
        _, offset_buffer, data = array.buffers()
        offsets = np.zeros(1, np.int32)
        if len(array):
            offsets = np.frombuffer(offset_buffer, np.int32)
            offsets = offsets[array.offset : array.offset + len(array) + 1]
        lengths = np.diff(offsets)
        yield lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))))
        yield np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]


def _column(kind: pa.DataType, buffers: Iterator[npt.NDArray[np.integer]]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        codes = to_arrow(next(buffers).astype(np.int32))
        return pa.DictionaryArray.from_arrays(codes, _column(kind.value_type, buffers), safe=False)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [_column(field.type, buffers) for field in kind], fields=list(kind)
        )
    values = next(buffers)
    if pa.types.is_integer(kind):
        return to_arrow(values)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, out=offsets[1:])
    data = pa.py_buffer(next(buffers))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), data])
