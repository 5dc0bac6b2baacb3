"""Uniform numbers that belong to values: a keyed function of a partition's name.

The same key and name give the same number on every worker and in every retry, whatever else is in
the table. Against anyone without the key the numbers of different names are independent, as far as
BLAKE2b is a pseudorandom function (J.-P. Aumasson, S. Neves, Z. Wilcox-O'Hearn, C. Winnerlein,
"BLAKE2: simpler, smaller, fast as MD5", ACNS 2013): privacy rests on these numbers, so that they
come from a cryptographic function and not from the hashes that route rows.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dp_transforms.columnar.hashing import BoolArray, to_arrow, to_numpy

KEY_BYTES = 32
_BLOCK_BITS = 512


class KeyedUniforms:
    """One uniform number U in [0, 1) for each row of a column.

    Args:
      names: a plain column (see ``columns``), n rows.
      key: 32 secret bytes; other keys give independent numbers.
      needed: bools of shape (n,), which rows' numbers are needed; all by default. The ``words`` of
        the others are 0.

    Raises:
      ValueError: the key does not have 32 bytes.

    >>> one, other = (KeyedUniforms(pa.array(names), bytes(32)) for names in ("ab", "b"))
    >>> bool(one.words[1] == other.words[0]), one.prefix(1, 512) >> 448 == int(one.words[1])
    (True, True)
    """

    def __init__(self, names: pa.Array, key: bytes, needed: BoolArray | None = None):
        if len(key) != KEY_BYTES:
            raise ValueError(f"key must have {KEY_BYTES} bytes, got {len(key)}")
        self._key = key
        self._rows = np.arange(len(names)) if needed is None else np.flatnonzero(needed)
        if len(self._rows) < len(names):
            names = names.take(to_arrow(self._rows))
        self._names = name_bytes(names)
        self._total = len(names) if needed is None else len(needed)

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """floor(U * 2**64), uint64 of shape (n,)."""
        # A copy of a keyed state costs less than keying a new one.
        keyed = hashlib.blake2b(key=self._key)
        leading = []
        for name in self._names:
            state = keyed.copy()
            state.update(name)
            leading.append(state.digest()[:8])
        words = np.zeros(self._total, np.uint64)
        words[self._rows] = np.frombuffer(b"".join(leading), ">u8")
        return words

    def prefix(self, row: int, bits: int) -> int:
        """floor(U * 2**bits) for the number U of a row."""
        name = self._names[int(np.searchsorted(self._rows, row))]
        blocks = -(-bits // _BLOCK_BITS)
        # Block 0 is what ``words`` reads: an absent salt is a salt of zeros.
        digests = [
            hashlib.blake2b(name, key=self._key, salt=block.to_bytes(16, "little")).digest()
            for block in range(blocks)
        ]
        return int.from_bytes(b"".join(digests), "big") >> (blocks * _BLOCK_BITS - bits)


def name_bytes(values: pa.Array) -> list[bytes]:
    """Every value of a plain column as bytes, different for different values of one type."""
    kind = values.type
    if pa.types.is_struct(kind):
        fields = [name_bytes(field) for field in values.flatten()]
        return [
            b"".join(len(part).to_bytes(8, "little") + part for part in parts)
            for parts in zip(*fields, strict=True)
        ]
    if pa.types.is_integer(kind):
        data = to_numpy(values).astype("<i8").tobytes()
        return [data[i : i + 8] for i in range(0, len(data), 8)]
    return values.cast(pa.binary()).to_pylist()
