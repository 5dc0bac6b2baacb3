"""Keeps a job's secret out of the descriptions that an engine stores: there it is encrypted.

A job server keeps each pipeline, and hands it out to whoever asks; engines copy it into logs of
jobs, blob stores and staging buckets. The steps in it hold the job's secret, and keys and tapes
derived from it. A *seal* is a key of 256 bits that the submitting process shares with its workers,
on a way that does not lead through the engine: from a pool to the workers that it starts, or in a
file that only their owner can read. Where a runner has a seal, secrets are pickled as AES-256-GCM
under it, with a fresh nonce of 96 bits each. A pipeline has some dozens of these, so a seal in a
file serves far more pipelines than are ever run before nonces collide with probability 2**-32 (some
2**32 / 100). What is stored then tells, besides the lengths, nothing to whoever lacks the seal.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import weakref
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dp_transforms.errors import InputError

SEAL_FILE_VARIABLE = "DP_SEAL_FILE"
"""The environment variable that names the file with the seal, for jobs and for workers."""

SEAL_BYTES = 32
_NONCE_BYTES = 12

# The seals that this process can open, and the names of those under which runners submit.
_seals: dict[str, bytes] = {}
_names_by_runner: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class SecretBytes(bytes):
    """Secret bytes that no text shows, such as that of an error about a step that holds them. They
    are pickled under a seal, by whose name workers find it, or as they are if there is none."""

    seal_name: str | None

    def __new__(cls, content: bytes, seal_name: str | None) -> SecretBytes:
        made = super().__new__(cls, content)
        made.seal_name = seal_name
        return made

    def __repr__(self) -> str:
        return "<hidden>"

    __str__ = __repr__

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if self.seal_name is None:
            return SecretBytes, (bytes(self), None)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        encrypted = AESGCM(_seals[self.seal_name]).encrypt(nonce, bytes(self), None)
        return open_sealed, (self.seal_name, nonce, encrypted)


def open_sealed(seal_name: str, nonce: bytes, encrypted: bytes) -> SecretBytes:
    """Returns what was sealed.

    Raises:
      InputError: this process has no seal of that name, or the bytes were changed.
    """
    if seal_name not in _seals:
        seal_from_environment()
    content = None
    if seal_name in _seals:
        try:
            content = AESGCM(_seals[seal_name]).decrypt(nonce, encrypted, None)
        except InvalidTag:
            pass
    if content is None:
        raise InputError(
            f"this worker cannot open the job's secret: set {SEAL_FILE_VARIABLE} to the same file "
            "for the job and for the pools of its workers, or for neither"
        )
    return SecretBytes(content, seal_name)


def draw_seal() -> bytes:
    """Draws a fresh seal from the operating system's generator."""
    return secrets.token_bytes(SEAL_BYTES)


def learn_seal(seal: bytes) -> str:
    """Makes this process able to open what is sealed; returns the seal's name, a hash of it."""
    name = hashlib.blake2b(seal, digest_size=16, person=b"name of a seal").hexdigest()
    _seals[name] = seal
    return name


def seal_runner(runner: Any, seal: bytes) -> None:
    """Makes the secrets of pipelines with a runner be pickled under a seal."""
    _names_by_runner[runner] = learn_seal(seal)


def seal_name_of(runner: Any) -> str | None:
    """Returns the name of a runner's seal; by default that in the environment; else None.

    Raises:
      InputError: see ``seal_from_environment``.
    """
    return _names_by_runner.get(runner) or seal_from_environment()


def seal_from_environment() -> str | None:
    """Learns the seal in the file that the environment names; returns the seal's name, or None if
    no file is named.

    Raises:
      InputError: the file cannot be read, has another length, or can be read by other users.
    """
    path = os.environ.get(SEAL_FILE_VARIABLE)
    if not path:
        return None
    trouble = "is no file that can be read"
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            seal = file.read(SEAL_BYTES + 1)
    except OSError:
        pass
    else:
        if len(seal) != SEAL_BYTES:
            trouble = f"does not have {SEAL_BYTES} bytes"
        elif mode & (stat.S_IRWXG | stat.S_IRWXO):
            trouble = "is open to other users: chmod 600"
        else:
            return learn_seal(seal)
    raise InputError(
        f"{SEAL_FILE_VARIABLE} names a file that {trouble}; to make one: "
        f"(umask 077; head -c {SEAL_BYTES} /dev/urandom > FILE)"
    )
