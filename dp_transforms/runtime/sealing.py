"""Encrypts a job's secret in the descriptions of pipelines that an engine stores.

A job server keeps the description of each pipeline, and gives it to everybody who asks. Engines
copy it into logs of jobs, blob stores and staging buckets. The steps in it hold the job's secret,
and keys and tapes derived from it.

A *seal* is a key of 256 bits that the submitting process shares with its workers. It does not pass
through the engine: a pool gives it to the workers that it starts, or it is in a file that only its
owner can read. If a runner has a seal, secrets are pickled encrypted by AES-256-GCM under it, each
with a fresh nonce of 96 bits. A pipeline has some dozens of secrets. So it takes some 2**32 / 100
pipelines under one seal, far more than are ever run, until nonces collide with probability 2**-32.
Without the seal, nothing but the lengths can then be learnt from what is stored.
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

# The seals that this process knows by their names, and the name of each runner's own seal.
_seals: dict[str, bytes] = {}
_names_by_runner: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class SecretBytes(bytes):
    """Secret bytes, which no text shows: errors show the content of the steps that hold them.

    They are pickled encrypted under the seal with the name ``seal_name``, by which workers find the
    seal; or as they are if it is None.
    """

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
    """Returns the secret bytes that were encrypted under a seal.

    Raises:
      InputError: this process has no seal of that name, or the encrypted bytes were changed.
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
    """Returns a fresh seal from the operating system's generator."""
    return secrets.token_bytes(SEAL_BYTES)


def learn_seal(seal: bytes) -> str:
    """Stores a seal in this process, and returns its name, which is a hash of it."""
    name = hashlib.blake2b(seal, digest_size=16, person=b"name of a seal").hexdigest()
    _seals[name] = seal
    return name


def seal_runner(runner: Any, seal: bytes) -> None:
    """Gives a runner a seal, under which the secrets of its pipelines are pickled."""
    _names_by_runner[runner] = learn_seal(seal)


def seal_name_of(runner: Any) -> str | None:
    """Returns the name of a runner's seal; or of the seal that the environment names; or None.

    Raises:
      InputError: see ``seal_from_environment``.
    """
    return _names_by_runner.get(runner) or seal_from_environment()


def seal_from_environment() -> str | None:
    """Stores the seal in the file that the environment names, and returns the seal's name; or
    returns None if no file is named.

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
