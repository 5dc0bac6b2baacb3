"""Numbers between numpy and Arrow, without a copy.

Arrow's own ``pa.array`` and ``to_numpy`` load pandas, if it is installed, and parts of numpy that
nothing here needs: a second, in which a million records are counted.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BoolArray = npt.NDArray[np.bool_]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


def to_arrow(numbers: npt.NDArray[np.number]) -> pa.Array:
    """The numbers as a column of the same type; they must not change any more.

    >>> to_arrow(np.arange(3, dtype=np.uint8)).type
    DataType(uint8)
    """
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, data])


def to_numpy(array: pa.Array) -> npt.NDArray:
    """A column of numbers without nulls, read-only.

    >>> to_numpy(pa.array([1, 2, 3])[1:])
    array([2, 3])
    """
    return np.from_dlpack(array)
