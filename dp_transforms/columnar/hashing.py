"""Keyed hashes of rows, and a keyed pseudorandom function of pairs of hashes, on whole columns.

``hash_rows`` decides where a row travels; a collision sends two values the same way and changes no
result. ``prf`` decides which records a user keeps.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

# Temporaries of this many rows stay in the cache.
_CHUNK_ROWS = 1 << 14
# Longer values are hashed one by one: a column of words would have a loop for each word.
_LONG_BYTES = 256
_WORD = np.dtype("<u8")


def hash_rows(array: pa.Array, key: bytes) -> Hashes:
    """A 64-bit hash of every row, the same for equal rows on every machine.

    Args:
      array: a plain column (see ``columns``), n rows.
      key: at least 16 bytes; other keys give other hashes.

    Returns:
      uint64, shape (n,).
    """
    seed, multiplier = (np.uint64(word) for word in np.frombuffer(key[:16], _WORD))
    multiplier |= np.uint64(1)
    if pa.types.is_struct(array.type):
        hashes = np.full(len(array), seed)
        for field in array.flatten():
            # Not symmetric in the fields: (a, b) and (b, a) go different ways.
            hashes = _mixed(hashes * multiplier ^ hash_rows(field, key), multiplier)
        return hashes
    if pa.types.is_integer(array.type):
        words = array.to_numpy(zero_copy_only=False).view(np.uint64)
        hashes = np.empty(len(array), np.uint64)
        for rows in _chunks(len(array)):
            hashes[rows] = _mixed(_mixed(words[rows] ^ seed, multiplier), multiplier)
        return hashes
    return _hash_bytes(array, key, seed, multiplier)


def prf(key: bytes, left: Hashes, right: Hashes) -> Hashes:
    """SipHash-2-4 of the 16-byte messages (left[i], right[i]), as uint64 of shape (n,).

    J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.

    Args:
      key: 16 bytes or more, of which 16 are used.
      left: n words, the first eight bytes of the messages in little-endian order.
      right: n words, the last eight bytes.
    """
    k0, k1 = (np.uint64(word) for word in np.frombuffer(key[:16], _WORD))
    out = np.empty(len(left), np.uint64)
    spare = np.empty(min(_CHUNK_ROWS, len(left)), np.uint64)
    length_word = np.uint64(16 << 56)
    for rows in _chunks(len(left)):
        size = rows.stop - rows.start
        state = [
            np.full(size, k ^ np.uint64(constant))
            for k, constant in (
                (k0, 0x736F6D6570736575),
                (k1, 0x646F72616E646F6D),
                (k0, 0x6C7967656E657261),
                (k1, 0x7465646279746573),
            )
        ]
        for word in (left[rows], right[rows], length_word):
            state[3] ^= word
            _sip_rounds(state, 2, spare[:size])
            state[0] ^= word
        state[2] ^= np.uint64(0xFF)
        _sip_rounds(state, 4, spare[:size])
        out[rows] = state[0] ^ state[1] ^ state[2] ^ state[3]
    return out


def _sip_rounds(state: list[Hashes], rounds: int, spare: Hashes) -> None:
    v0, v1, v2, v3 = state
    for _ in range(rounds):
        v0 += v1
        v2 += v3
        _rotate(v1, 13, spare)
        _rotate(v3, 16, spare)
        v1 ^= v0
        v3 ^= v2
        _rotate(v0, 32, spare)
        v2 += v1
        v0 += v3
        _rotate(v1, 17, spare)
        _rotate(v3, 21, spare)
        v1 ^= v2
        v3 ^= v0
        _rotate(v2, 32, spare)


def _rotate(words: Hashes, bits: int, spare: Hashes) -> None:
    np.right_shift(words, np.uint64(64 - bits), out=spare)
    words <<= np.uint64(bits)
    words |= spare


def _mixed(hashes: Hashes, multiplier: np.uint64) -> Hashes:
    hashes = hashes * multiplier
    hashes ^= hashes >> np.uint64(32)
    return hashes


def _chunks(rows: int) -> list[slice]:
    starts = range(0, rows, _CHUNK_ROWS)
    return [slice(start, min(start + _CHUNK_ROWS, rows)) for start in starts]


def _hash_bytes(array: pa.Array, key: bytes, seed: np.uint64, multiplier: np.uint64) -> Hashes:
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.empty(0, np.uint64)
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if len(data) < int(offsets[-1]) + 8:
        # A word that starts at the last byte must not end outside the buffer.
        data = np.concatenate([data[: offsets[-1]], np.zeros(8, np.uint8)])
    # The eight bytes from every position on, whatever its alignment.
    words = np.ndarray((len(data) - 7,), _WORD, buffer=data, strides=(1,))
    hashes = np.empty(len(array), np.uint64)
    for rows in _chunks(len(array)):
        edges = offsets[rows.start : rows.stop + 1].astype(np.int64)
        hashes[rows] = _hash_chunk(edges, words, data, key, seed, multiplier)
    return hashes


def _hash_chunk(
    edges: npt.NDArray[np.int64],
    words: npt.NDArray[np.uint64],
    data: npt.NDArray[np.uint8],
    key: bytes,
    seed: np.uint64,
    multiplier: np.uint64,
) -> Hashes:
    starts = edges[:-1]
    lengths = np.diff(edges)
    hashes = lengths.astype(np.uint64)
    hashes ^= seed
    longest = int(lengths.max())
    if longest > _LONG_BYTES:
        long = np.flatnonzero(lengths > _LONG_BYTES)
        hashes[long] = [
            _long_hash(data[starts[i] : starts[i] + lengths[i]].tobytes(), key) for i in long
        ]
        lengths[long] = 0
        longest = int(lengths.max())
    shortest = int(lengths.min())
    for done in range(0, longest, 8):
        if done + 8 <= shortest:
            hashes = _mixed(hashes ^ words[starts + done], multiplier)
            continue
        rows = np.flatnonzero(lengths > done) if done >= shortest else slice(None)
        found = words[starts[rows] + done]
        # Little-endian: the bytes after the value's end are the high ones, and are shifted out.
        surplus = np.maximum(8 * (done + 8) - 8 * lengths[rows], 0)
        found <<= surplus.view(np.uint64)
        hashes[rows] = _mixed(hashes[rows] ^ found, multiplier)
    return _mixed(hashes, multiplier)


def _long_hash(value: bytes, key: bytes) -> int:
    digest = hashlib.blake2b(value, key=key[:64], digest_size=8).digest()
    return int.from_bytes(digest, "little")
