"""Supplies the random tape, from which every random decision of a release reads its own number.

A tape is a family of independent uniform numbers U in [0, 1), addressed by a channel (the number's
purpose) and an index (which decision of that kind). A number has infinitely many bits; a decision
reads 64 of them, and more only if they leave it open. If a decision is repeated at a higher
precision, it reads the same number again. So a release is a function of the tape alone, and its
distribution is exact (see ``walk``).

The numbers are the output of SHAKE-256 under a secret key of 256 bits. The key comes from the
operating system, or is derived from a job's secret and a purpose. In the latter case a retried
bundle repeats its decisions, and two purposes never share a number. Statements such as "exactly
epsilon-differentially private" are about ideal uniform numbers. With the numbers of a tape they
hold against any adversary who cannot tell SHAKE-256 under an unknown key from random bits.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
from collections.abc import Callable
from typing import Any

import gmpy2
import numpy as np

from dp_transforms.mechanisms.arrays import WordArray
from dp_transforms.mechanisms.enclosure import Enclosure, refine_until_decided

KEY_BYTES = 32
WORD_BITS = 64
_WORDS_PER_BLOCK = 64


class RandomTape:
    """Supplies independent uniform numbers in [0, 1), addressed by (channel, index).

    Args:
      key: 32 secret bytes. Use ``from_os`` or ``from_secret`` rather than making a key yourself.

    Raises:
      ValueError: the key does not have 32 bytes.
    """

    def __init__(self, key: bytes):
        if len(key) != KEY_BYTES:
            raise ValueError(f"a tape's key must have {KEY_BYTES} bytes, got {len(key)}")
        # A subclass of bytes is kept as it is, since it may be pickled in a way of its own.
        self._key = key if isinstance(key, bytes) else bytes(key)
        self._claimed: set[str] = set()
        self._process: int | None = os.getpid()

    @classmethod
    def from_os(cls) -> RandomTape:
        """Returns a fresh tape under a key from the operating system's generator."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_secret(cls, secret: bytes, context: str) -> RandomTape:
        """Returns the tape of one purpose under a job's secret: equal arguments give equal tapes.

        Raises:
          ValueError: the secret has fewer than 32 bytes, or the purpose is empty.
        """
        return cls(tape_key(secret, context))

    def claim(self, release: str) -> RandomTape:
        """Returns the tape itself, after noting that this release uses it.

        Raises:
          ValueError: a release of this name has claimed the tape before, so that both would get
            the same numbers; or the tape is a copy, or the process was forked after the tape was
            made. It is not known then which releases the original serves.
        """
        if release in self._claimed:
            raise ValueError(
                f"a release ({release}) has claimed this tape, and its numbers would be the same "
                "again: give each release a tape of its own, such as RandomTape.from_os()"
            )
        if self._process != os.getpid():
            raise ValueError(
                "this tape is a copy, or from before a fork, and its original may serve a release "
                "with the same numbers: make a tape in each process, by RandomTape.from_os()"
            )
        self._claimed.add(release)
        return self

    def branch(self, context: str) -> RandomTape:
        """Returns the tape for one part of this tape's purpose, such as one of several tries. It is
        independent of this tape and of its branches with other contexts."""
        tape = RandomTape.from_secret(self._key, context)
        # A branch of a copy is a copy too, and serves no release: see ``claim``.
        tape._process = self._process
        return tape

    def __getstate__(self) -> dict[str, Any]:
        # ``claim`` refuses a copy, since no process has the number None.
        return vars(self) | {"_process": None}

    def words(self, channel: str, count: int, start: int = 0) -> WordArray:
        """Returns the leading 64 bits of ``count`` numbers of a channel, as a uint64 array. Element
        i is floor(U * 2**64) for the number U at (channel, start + i)."""
        first, last = start // _WORDS_PER_BLOCK, -(-(start + count) // _WORDS_PER_BLOCK)
        blocks = b"".join(
            self._bytes(b"words", block, channel, 8 * _WORDS_PER_BLOCK)
            for block in range(first, last)
        )
        # Byte order is fixed so that a tape reads the same on every machine.
        words = np.frombuffer(blocks, dtype=">u8").astype(np.uint64)
        offset = start - first * _WORDS_PER_BLOCK
        return words[offset : offset + count]

    def uniform(self, channel: str, index: int) -> Uniform:
        """Returns the number at (channel, index), to be read bit by bit."""
        return Uniform(self, channel, index)

    def prefix(self, channel: str, index: int, bits: int) -> int:
        """Returns floor(U * 2**bits) for the number U at (channel, index)."""
        word = int(self.words(channel, 1, index)[0])
        if bits <= WORD_BITS:
            return word >> (WORD_BITS - bits)
        extra = bits - WORD_BITS
        size = -(-extra // 8)
        tail = int.from_bytes(self._bytes(b"tails", index, channel, size), "big")
        return word << extra | tail >> (8 * size - extra)

    def _bytes(self, kind: bytes, index: int, channel: str, size: int) -> bytes:
        # The only field of variable length comes last, so that no two addresses give equal bytes.
        address = self._key + kind + index.to_bytes(16, "big") + channel.encode()
        return hashlib.shake_256(address).digest(size)


def tape_key(secret: bytes, context: str) -> bytes:
    """Returns the key of a purpose's tape; see ``RandomTape.from_secret``, also for errors."""
    if len(secret) < KEY_BYTES:
        raise ValueError(f"a secret must have at least {KEY_BYTES} bytes, got {len(secret)}")
    if not context:
        raise ValueError("purpose must name what the tape is for, got an empty string")
    # The secret's length comes first, so that no two (secret, context) pairs give equal bytes.
    prefix = len(secret).to_bytes(8, "big")
    return hashlib.shake_256(prefix + secret + context.encode()).digest(KEY_BYTES)


class Uniform:
    """Reads one uniform number U in [0, 1) of a tape, to any number of bits."""

    def __init__(self, tape: RandomTape, channel: str, index: int):
        self._prefix = functools.partial(tape.prefix, channel, index)

    def prefix(self, bits: int) -> int:
        """Returns floor(U * 2**bits)."""
        return self._prefix(bits)

    def enclosure(self, bits: int) -> Enclosure:
        """Returns (lo, hi) with lo <= U < hi, exact rationals 2**-bits apart."""
        return known_from(self.prefix(bits), bits)


def known_from(prefix: int, bits: int) -> Enclosure:
    """Returns (lo, hi) with lo <= U < hi, where prefix = floor(U * 2**bits)."""
    scale = gmpy2.mpz(1) << bits
    return Enclosure(gmpy2.mpq(prefix, scale), gmpy2.mpq(prefix + 1, scale))


def is_below(uniform: Uniform, probability: Callable[[int], Enclosure]) -> bool:
    """Tells exactly whether U < p, which is true with probability p.

    Args:
      probability: encloses p at a precision in bits, more narrowly at a higher one.
    """
    return refine_until_decided(lambda bits: uniform.enclosure(bits).is_below(probability(bits)))


def draw_below(total: int, tape: RandomTape, channel: str, min_retries: int = 1) -> Any:
    """Returns a uniform integer in [0, total), as gmpy2.mpz.

    Numbers of K bits are drawn until one is below the total (Ilvento 2019, Algorithm 2). K is the
    smallest integer with total <= 2**K, so each is rejected with probability below 1/2. The running
    time shows how many numbers were drawn. So at least ``min_retries`` = k are drawn in any case.
    More are needed with probability below 2**-k; otherwise, the time says nothing about the total.
    Attempt a reads the number at (channel, a).
    """
    length = int((gmpy2.mpz(total) - 1).bit_length())
    accepted = None
    attempt = 0
    while accepted is None or attempt < min_retries:
        drawn = gmpy2.mpz(tape.prefix(channel, attempt, length))
        if accepted is None and drawn < total:
            accepted = drawn
        attempt += 1
    return accepted
