"""The secret from which one job derives its random decisions, and the check that it serves once."""

from __future__ import annotations

import hashlib
import os
import secrets
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dp_transforms.errors import without_originals
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape, tape_key
from dp_transforms.mechanisms.tape_contexts import FREQUENCY_LIST, context_of_list
from dp_transforms.runtime.sealing import SecretBytes

if TYPE_CHECKING:
    from dp_transforms.mechanisms.frequency_list import ReleasedList
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism

SECRET_BYTES = 32


class _Uses:
    """The data that secrets with the same 32 bytes serve, by use.

    Attributes:
      process: the process in which the first of these secrets was made; None for copies from
        another process, which serve nothing.
      data: weak references to the data, by the name of the use.
    """

    def __init__(self, process: int | None):
        self.process = process
        self.data: dict[str, weakref.ref[Any]] = {}


# The uses by a hash of the secret's bytes. Those of a secret that serves something are kept, even
# after the secret itself is gone.
_uses_by_secret: weakref.WeakValueDictionary[bytes, _Uses] = weakref.WeakValueDictionary()
_kept_uses: set[_Uses] = set()


@dataclass(frozen=True)
class JobSecret:
    """The 32 secret bytes from which every random decision of a job is derived.

    A secret serves one pipeline, which runs once: with the same noise on changed data, the noise of
    two releases would cancel. Copies of it, such as those in workers and forks, cannot serve
    another pipeline. Two secrets with the same bytes count as one. By default each job draws a
    fresh secret.

    On Beam the secret is a part of the job's description. It is encrypted if there is a seal (see
    ``sealing``). Otherwise the description is as confidential as the data.

    Decisions for different purposes are independent. A retried bundle repeats its decisions, and
    two consumers of the same purpose agree.

    Args:
      secret: 32 bytes. Use ``from_os`` rather than making them yourself.

    Raises:
      ValueError: the secret has another length.

    >>> JobSecret.from_os()
    JobSecret(<hidden>)
    """

    secret: bytes = field(repr=False)
    _uses: _Uses = field(init=False, repr=False, compare=False)
    _seal_name: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != SECRET_BYTES:
            raise ValueError(f"secret must be {SECRET_BYTES} bytes, see JobSecret.from_os()")
        digest = hashlib.blake2b(self.secret, digest_size=16).digest()
        uses = _uses_by_secret.setdefault(digest, _Uses(os.getpid()))
        object.__setattr__(self, "_uses", uses)

    @classmethod
    def from_os(cls) -> JobSecret:
        """Returns a fresh secret from the operating system's generator."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def insecure_for_testing(cls, seed: int) -> JobSecret:
        """Returns a secret for tests alone: anyone can make it again from the seed, and it serves
        any number of pipelines."""
        return _InsecureSecret(hashlib.sha256(b"insecure test secret %d" % seed).digest())

    def tape(self, context: str) -> RandomTape:
        """Returns the random tape of a context; raises a ValueError if that is empty."""
        return RandomTape(SecretBytes(tape_key(self.secret, context), self._seal_name))

    def key(self, context: str) -> bytes:
        """Returns 32 bytes, which key the pseudorandom functions of ``columnar`` in a context.
        Raises a ValueError if the context is empty."""
        if not context:
            raise ValueError("purpose must name what the key is for, got an empty string")
        key = hashlib.blake2b(context.encode(), key=self.secret, digest_size=32).digest()
        return SecretBytes(key, self._seal_name)

    def seal(self, seal_name: str | None) -> None:
        """Makes the secret be pickled under a seal, with all keys and tapes that are derived from
        now on."""
        object.__setattr__(self, "_seal_name", seal_name)

    def claim(self, data: Any, use: str = "pipeline") -> None:
        """Notes that a use of the secret is about these data, by a weak reference.

        Raises:
          ValueError: the same use was about other data; or this is a copy or a fork of the secret.
        """
        served = self._uses.data.setdefault(use, weakref.ref(data))()
        _kept_uses.add(self._uses)
        if served is not data or self._uses.process != os.getpid():
            raise ValueError(
                f"this secret serves another {use}, or is a copy, and equal random numbers would "
                "show how both differ: draw one for each with JobSecret.from_os(), or give none"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _travelled, (type(self), SecretBytes(self.secret, self._seal_name), self._seal_name)

    def __repr__(self) -> str:
        return "JobSecret(<hidden>)"


def _travelled(kind: type[JobSecret], secret: bytes, seal_name: str | None) -> JobSecret:
    """Returns a copy of a secret, as it is unpickled. The copy serves nothing. Neither does a
    secret that is made of its bytes, unless the original is in this process."""
    uses = _Uses(None)
    _uses_by_secret.setdefault(hashlib.blake2b(secret, digest_size=16).digest(), uses)
    copied = kind(bytes(secret))
    object.__setattr__(copied, "_uses", uses)
    copied.seal(seal_name)
    return copied


class _InsecureSecret(JobSecret):
    def claim(self, data: Any, use: str = "pipeline") -> None:
        pass


def release_frequency_list(
    frequency_list: FrequencyList,
    mechanism: PartitionMechanism,
    secret: JobSecret,
    context: str = FREQUENCY_LIST,
) -> ReleasedList:
    """Returns one released list under a job's secret, as ``ReleaseFrequencyList`` does.

    The mechanism's tape is derived from the secret, the context, the mechanism and the list itself.
    So a repeated release is the same. Releases of other lists or by other mechanisms under the same
    secret are independent, as composition assumes, and noise on changed data cannot cancel.

    Args:
      frequency_list: the private list.
      mechanism: a mechanism whose parameters are all stated by ``identifier``.
      secret: the job's secret.
      context: a name, which must differ for each list under one secret. In the same context, equal
        lists would have equal releases, which would show that they are equal.

    Raises:
      ValueError, TypeError: see ``PartitionMechanism.release``.
    """
    tape = tape_of_list(frequency_list, mechanism, secret, context)
    return mechanism.release(frequency_list, tape=tape)


def tape_of_list(
    frequency_list: FrequencyList, mechanism: PartitionMechanism, secret: JobSecret, context: str
) -> RandomTape:
    """Returns the tape of a release: see ``release_frequency_list``."""
    return secret.tape(context_of_list(context, frequency_list, mechanism))


@without_originals()
def release_histogram(
    histogram: Mapping[int, int],
    mechanism: PartitionMechanism,
    secret: JobSecret,
    context: str = FREQUENCY_LIST,
) -> ReleasedList:
    """Returns the release, by ``release_frequency_list``, of the list with a histogram {count:
    number of partitions}. Raises a ValueError if a count is not a positive integer."""
    try:
        frequency_list = FrequencyList.from_histogram(histogram)
    except (TypeError, ValueError):
        # The original message names the entry.
        raise ValueError("counts must be positive integers, and partitions be counted") from None
    return release_frequency_list(frequency_list, mechanism, secret, context)


def claimed(secret: JobSecret | None, pipeline: Any) -> JobSecret:
    """Returns the secret, or a fresh one if it is None, which serves a pipeline or a source from
    now on. See ``beam.pipeline_secret.secret_for`` for errors."""
    check_secret(secret)
    secret = JobSecret.from_os() if secret is None else secret
    secret.claim(pipeline)
    return secret


def check_secret(secret: Any) -> None:
    """Raises a TypeError unless this is a secret, or None for a fresh one."""
    if not isinstance(secret, JobSecret | None):
        raise TypeError(
            f"secret must be a JobSecret, such as JobSecret.from_os(), got {type(secret).__name__}"
        )
