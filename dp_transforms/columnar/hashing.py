"""Keyed pseudorandom functions of values, computed for whole columns.

Hashes are made by AES with a key of 256 bits. Pairs of hashes are encrypted as one block. Values of
any length are hashed by CMAC (NIST SP 800-38B; T. Iwata and K. Kurosawa, "OMAC: one-key CBC MAC",
FSE 2003). Both are pseudorandom functions if AES is a pseudorandom permutation. So somebody who
chooses values without knowing the key can neither make their hashes collide nor influence the
decisions that are made by hashes. AES runs in hardware; for short values it is faster than a hash
made of numpy operations.

The uniform numbers of partitions, on which privacy rests, come from BLAKE2b (J.-P. Aumasson, S.
Neves, Z. Wilcox-O'Hearn, C. Winnerlein, "BLAKE2: simpler, smaller, fast as MD5", ACNS 2013). Key
and name determine a number, so it is the same on every worker and in every retry. To somebody
without the key it looks independent of the numbers of other names.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC

from dp_transforms.mechanisms.arrays import BoolArray, IntArray, WordArray

Hashes = WordArray

KEY_BYTES = 32
_BLAKE_BITS = 512

# Temporary arrays of this many rows stay in the cache.
_CHUNK_ROWS = 1 << 14
# Longer values are hashed one by one. Together, each of their blocks would need a pass over arrays.
_LONG_BYTES = 256
_BLOCK = 16
_WORD = np.dtype("<u8")


def hash_rows(array: pa.Array, key: bytes) -> Hashes:
    """Returns the first 64 bits of the AES-CMAC of every value, the same on every machine.

    Strings and binary are hashed as their bytes, integers as 8 bytes in little-endian order, and a
    struct as the hashes of its fields, under a key derived from this one.

    Args:
      array: plain values or codes (see ``columns``), n rows.
      key: 32 bytes.

    Returns:
      uint64, shape (n,).
    """
    if pa.types.is_dictionary(array.type):
        of_rows: Hashes = hash_rows(array.dictionary, key)[to_numpy(array.indices)]
        return of_rows
    if pa.types.is_struct(array.type):
        words = np.column_stack([hash_rows(field, key) for field in array.flatten()])
        return _hash_words(words, _derived(key, b"struct"))
    if pa.types.is_integer(array.type):
        return _hash_words(to_numpy(array).astype(_WORD, copy=False)[:, None], key)
    if not len(array):
        return np.empty(0, np.uint64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    return _hash_bytes(offsets, np.frombuffer(data_buffer or b"", np.uint8), key)


def prf(key: bytes, left: Hashes, right: Hashes) -> Hashes:
    """Returns the first 64 bits of the AES encryption of the blocks (left[i], right[i]).

    Args:
      key: 32 bytes; the key of the cipher is derived from them.
      left: n words, the first eight bytes of the blocks in little-endian order.
      right: n words, the last eight bytes.

    Returns:
      uint64, shape (n,).
    """
    encryptor = _encryptor(_derived(key, b"pair"))
    out = np.empty(len(left), np.uint64)
    blocks, encrypted = _buffers(len(left))
    for rows in _chunks(len(left)):
        size = rows.stop - rows.start
        blocks[:size, 0] = left[rows]
        blocks[:size, 1] = right[rows]
        _encrypt(encryptor, blocks, encrypted, size)
        out[rows] = encrypted[:size, 0]
    return out


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=KEY_BYTES).digest()


def _encryptor(key: bytes) -> CipherContext:
    # ECB encrypts the block of each row by itself: here AES is a function of one block.
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()


def _buffers(rows: int) -> tuple[Hashes, Hashes]:
    """Returns an array for the blocks of a chunk of rows, each of two words, and one for encrypted
    blocks, with a block more, which the cipher demands."""
    rows = min(rows, _CHUNK_ROWS)
    return np.empty((rows, 2), _WORD), np.empty((rows + 1, 2), _WORD)


def _encrypt(encryptor: CipherContext, blocks: Hashes, encrypted: Hashes, rows: int) -> None:
    encryptor.update_into(blocks[:rows].data.cast("B"), encrypted.data.cast("B"))


def _chunks(rows: int) -> list[slice]:
    starts = range(0, rows, _CHUNK_ROWS)
    return [slice(start, min(start + _CHUNK_ROWS, rows)) for start in starts]


def _hash_words(words: Hashes, key: bytes) -> Hashes:
    """Returns the hash of each row of words: shape (n, words of a row)."""
    width = words.itemsize * words.shape[1]
    data = np.ascontiguousarray(words).view(np.uint8).reshape(-1)
    hashes = np.empty(len(words), np.uint64)
    encryptor = _encryptor(key)
    for rows in _chunks(len(words)):
        _hash_even(data, rows.start * width, width, key, encryptor, hashes[rows])
    return hashes


def _hash_even(
    data: npt.NDArray[np.uint8],
    start: int,
    width: int,
    key: bytes,
    encryptor: CipherContext,
    hashes: Hashes,
) -> None:
    """Writes to ``hashes`` those of adjacent values of ``width`` bytes each, from ``start`` on."""
    rows = len(hashes)
    masks, ends = _last_blocks(key)
    blocks, encrypted = _buffers(rows)
    for place in range(0, max(width, 1), _BLOCK):
        left = min(width - place, _BLOCK + 1)
        for half in (0, 1):
            blocks[:, half] = ends[half, left]
            if left > 8 * half:
                words = np.ndarray(rows, _WORD, data, start + place + 8 * half, (width,))
                blocks[:, half] ^= words & masks[half, left]
        if place:
            blocks ^= encrypted[:rows]
        _encrypt(encryptor, blocks, encrypted, rows)
    hashes[:] = encrypted[:rows, 0]


def _hash_bytes(
    offsets: npt.NDArray[np.integer], data: npt.NDArray[np.uint8], key: bytes
) -> Hashes:
    """Returns the hash of each value, whose bytes are between two offsets.

    All values of a chunk are hashed together, block by block. Values that end drop out.
    """
    if len(data) < int(offsets[-1]) + _BLOCK:
        # A block that starts at the last byte must not end outside of the buffer.
        data = np.concatenate([data[: offsets[-1]], np.zeros(_BLOCK, np.uint8)])
    # The element at i has the eight bytes from position i on; it need not be aligned.
    words_at = np.ndarray((len(data) - 7,), _WORD, buffer=data, strides=(1,))
    encryptor = _encryptor(key)
    masks, ends = _last_blocks(key)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    blocks, encrypted = _buffers(len(hashes))
    for chunk in _chunks(len(hashes)):
        edges = offsets[chunk.start : chunk.stop + 1].astype(np.int64)
        starts, left = edges[:-1], np.diff(edges)
        of_chunk = hashes[chunk]
        width = int(left[0])
        if width <= _LONG_BYTES and (left == width).all():
            _hash_even(data, int(starts[0]), width, key, encryptor, of_chunk)
            continue
        rows: slice | IntArray = slice(None)
        if left.max() > _LONG_BYTES:
            for row in np.flatnonzero(left > _LONG_BYTES).tolist():
                of_chunk[row] = _long_hash(data[edges[row] : edges[row + 1]].tobytes(), key)
            rows = np.flatnonzero(left <= _LONG_BYTES)
            starts, left = starts[rows], left[rows]
        before: Hashes | int = 0
        while len(left):
            block = blocks[: len(left)]
            # The number of bytes left selects columns of ``_last_blocks``, in which 17 stands for
            # any larger number.
            kind = np.minimum(left, _BLOCK + 1)
            for half in (0, 1):
                words = words_at[starts + 8 * half] & masks[half][kind]
                words ^= ends[half][kind]
                block[:, half] = words
            block ^= before
            _encrypt(encryptor, blocks, encrypted, len(left))
            of_chunk[rows] = encrypted[: len(left), 0]
            going = np.flatnonzero(left > _BLOCK)
            before = encrypted[going]
            rows = going if isinstance(rows, slice) else rows[going]
            starts, left = starts[going] + _BLOCK, left[going] - _BLOCK
    return hashes


@functools.lru_cache(maxsize=16)
def _last_blocks(key: bytes) -> tuple[Hashes, Hashes]:
    """Returns what CMAC does to a block before it is encrypted, as masks and ends.

    It depends on the number of bytes of the value that are left: 0 to 16, or more, which is 17
    here. The last block is padded and combined with a subkey.

    Returns:
      masks, ends: uint64, shape (2, 18), for both words of a block and numbers of bytes. The words
      of a block become ``block & masks ^ ends``.
    """
    subkey = int.from_bytes(_encryptor(key).update(bytes(_BLOCK)), "big")
    subkeys = []
    for _ in range(2):
        subkey = (subkey << 1) & (2**128 - 1) ^ (0x87 if subkey >> 127 else 0)
        subkeys.append(subkey.to_bytes(_BLOCK, "big"))
    masks, ends = np.zeros((2, 18, _BLOCK), np.uint8)
    for size in range(_BLOCK + 2):
        masks[size, :size] = 0xFF
        if size < _BLOCK:
            ends[size, size] = 0x80
        if size <= _BLOCK:
            ends[size] ^= np.frombuffer(subkeys[size < _BLOCK], np.uint8)
    return tuple(np.ascontiguousarray(table.view(_WORD).T) for table in (masks, ends))  # type: ignore[return-value]


def _long_hash(value: bytes, key: bytes) -> int:
    mac = CMAC(algorithms.AES(key))
    mac.update(value)
    return int.from_bytes(mac.finalize()[:8], "little")


def to_arrow(numbers: npt.NDArray[np.number]) -> pa.Array:
    """Returns the numbers as a column of the same type. It shares their memory, so they must not be
    changed any more.

    >>> to_arrow(np.arange(3, dtype=np.uint8)).type
    DataType(uint8)
    """
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, data])


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Returns a column of numbers without nulls as a read-only array. ``Array.to_numpy`` would load
    pandas where that is installed, which takes half a second.

    >>> to_numpy(pa.array([1, 2, 3])[1:])
    array([2, 3])
    """
    return np.from_dlpack(array)


def bools_to_numpy(array: pa.Array) -> BoolArray:
    """Returns a column of bools without nulls as an array. See ``to_numpy``.

    >>> bools_to_numpy(pa.array([True, False, True])[1:])
    array([False,  True])
    """
    bools: BoolArray = to_numpy(array.cast(pa.uint8())).view(np.bool_)
    return bools


class KeyedUniforms:
    """The uniform numbers U in [0, 1) of the rows of a column, one for each row.

    Args:
      names: a plain column (see ``columns``), n rows.
      key: 32 secret bytes; different keys give independent numbers.
      needed: bools of shape (n,): the rows whose numbers are needed, by default all. In ``words``,
        the other rows are 0.

    Raises:
      ValueError: the key does not have 32 bytes.

    >>> first, second = (KeyedUniforms(pa.array(names), bytes(32)) for names in ("ab", "b"))
    >>> bool(first.words[1] == second.words[0]), first.prefix(1, 512) >> 448 == int(first.words[1])
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
        """Returns floor(U * 2**64) for each row; uint64 of shape (n,)."""
        # Copying a keyed state costs less than keying a new one.
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
        """Returns floor(U * 2**bits) for the number U of a row."""
        name = self._names[int(np.searchsorted(self._rows, row))]
        blocks = -(-bits // _BLAKE_BITS)
        # ``words`` has the beginning of block 0, since no salt is the same as a salt of zeros.
        digests = [
            hashlib.blake2b(name, key=self._key, salt=block.to_bytes(16, "little")).digest()
            for block in range(blocks)
        ]
        return int.from_bytes(b"".join(digests), "big") >> (blocks * _BLAKE_BITS - bits)


def name_bytes(values: pa.Array) -> list[bytes]:
    """Returns each value of a plain column as bytes. Different values of one type have different
    bytes."""
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
    names: list[bytes] = values.cast(pa.binary()).to_pylist()
    return names
