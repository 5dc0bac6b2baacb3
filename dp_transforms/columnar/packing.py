"""Tables as compact bytes, to be sent between workers.

The bytes are an Arrow IPC stream, compressed with zstd unless asked otherwise. Strings and binary
go as the lengths of their values beside all their bytes, rather than as offsets, which hardly
compress: records take about a quarter of the space of Arrow's own columns. A runner holds, copies
or sends every byte of a shuffle.

Bytes, rather than tables: pickling a slice of a table would serialise the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dp_transforms.columnar.columns import single
from dp_transforms.columnar.hashing import to_arrow, to_numpy

_SIZE_BYTES = 8
_NOT_COMPRESSED = bytes(_SIZE_BYTES)
_SCHEMA = b"schema"


def pack(table: pa.Table, compress: bool = True) -> bytes:
    """The table as bytes.

    Args:
      table: plain columns, or codes (see ``columns``).
      compress: to a third or two thirds of the bytes, which takes some ten times as long.
    """
    # One row, in which every buffer of every column is a value.
    buffers = [buffer for column in table.columns for buffer in _buffers(single(column))]
    fields = [pa.field(str(i), buffer.type) for i, buffer in enumerate(buffers)]
    schema = pa.schema(fields, {_SCHEMA: table.schema.serialize().to_pybytes()})
    sink = pa.BufferOutputStream()
    if not compress:
        sink.write(_NOT_COMPRESSED)
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(buffers, schema=schema))
    stream = sink.getvalue()
    if not compress:
        return stream.to_pybytes()  # type: ignore[no-any-return]
    # All at once: Arrow's own compression prepares zstd anew for every buffer, which takes longer
    # than compressing a small one.
    compressed = pa.Codec("zstd").compress(stream, asbytes=True)
    return stream.size.to_bytes(_SIZE_BYTES, "little") + compressed


def unpack(data: bytes) -> pa.Table:
    """The table that was packed."""
    stream = memoryview(data)[_SIZE_BYTES:]
    if not data.startswith(_NOT_COMPRESSED):
        size = int.from_bytes(data[:_SIZE_BYTES], "little")
        stream = pa.Codec("zstd").decompress(stream, size)
    batch = pa.ipc.open_stream(stream).read_next_batch()
    schema = pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_SCHEMA]))
    buffers = iter(batch.columns)
    return pa.table([_column(kind, buffers) for kind in schema.types], schema=schema)


def _buffers(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_dictionary(array.type):
        narrow = np.min_scalar_type(max(len(array.dictionary) - 1, 0))
        yield _one_list(to_arrow(to_numpy(array.indices).astype(narrow)))
        yield from _buffers(array.dictionary)
    elif pa.types.is_struct(array.type):
        for field in array.flatten():
            yield from _buffers(field)
    elif pa.types.is_integer(array.type):
        yield _one_list(array)
    else:
        _, offset_buffer, data = array.buffers()
        offsets = np.zeros(1, np.int32)
        if len(array):
            offsets = np.frombuffer(offset_buffer, np.int32)
            offsets = offsets[array.offset : array.offset + len(array) + 1]
        lengths = np.diff(offsets)
        longest = int(lengths.max(initial=0))
        yield _one_list(to_arrow(lengths.astype(np.min_scalar_type(longest))))
        start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        data = pa.py_buffer(b"") if data is None else data.slice(start, size)
        ends = pa.py_buffer(np.array([0, size], np.int32))
        yield pa.Array.from_buffers(pa.binary(), 1, [None, ends, data])


def _one_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(to_arrow(np.array([0, len(values)], np.int32)), values)


def _column(kind: pa.DataType, buffers: Iterator[pa.Array]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        codes = next(buffers).values.cast(pa.int32(), safe=False)
        return pa.DictionaryArray.from_arrays(codes, _column(kind.value_type, buffers), safe=False)
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [_column(field.type, buffers) for field in kind], fields=list(kind)
        )
    values = next(buffers).values
    if pa.types.is_integer(kind):
        return values
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(to_numpy(values), out=offsets[1:])
    data = next(buffers).buffers()[2]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), data])
