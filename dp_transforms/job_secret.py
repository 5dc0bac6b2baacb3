"""The secret under which one job makes its random decisions."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field

from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from dp_transforms.mechanisms.randomness import RandomTape

SECRET_BYTES = 32

_FLEX_LAUNCH = re.compile(r"/template_launches/[^/]+/job_object$")


@dataclass(frozen=True)
class JobSecret:
    """32 secret bytes from which every random decision of a job follows.

    Each use has a purpose of its own, and different purposes are independent. A retried bundle
    repeats its decisions, and two consumers of the same purpose agree. A secret travels to the
    workers inside the job's description, so that description is as confidential as the data.

    One secret, one input: do not keep a secret for other data. A fresh one is drawn for each job
    when none is given.

    Args:
      secret: 32 bytes. Use ``from_os`` rather than making them yourself.

    Raises:
      ValueError: there are not 32 bytes.

    >>> JobSecret.from_os()
    JobSecret(<hidden>)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != SECRET_BYTES:
            raise ValueError(f"secret must be {SECRET_BYTES} bytes, see JobSecret.from_os()")

    @classmethod
    def from_os(cls) -> JobSecret:
        """A fresh secret from the operating system's generator."""
        return cls(secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def insecure_for_testing(cls, seed: int) -> JobSecret:
        """A secret that anyone can repeat from a small seed. For tests; never for a release."""
        return cls(hashlib.sha256(b"insecure test secret %d" % seed).digest())

    def tape(self, purpose: str) -> RandomTape:
        """The random tape of a purpose.

        Raises:
          ValueError: the purpose is empty.
        """
        return RandomTape.from_secret(self.secret, purpose)

    def key(self, purpose: str) -> bytes:
        """32 bytes that key the pseudorandom functions of ``columnar`` for a purpose.

        Raises:
          ValueError: the purpose is empty.
        """
        if not purpose:
            raise ValueError("purpose must name what the key is for, got an empty string")
        return hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=32).digest()

    def __repr__(self) -> str:
        return "JobSecret(<hidden>)"


def makes_template(options: PipelineOptions) -> bool:
    """Whether the job's description is kept as a classic Dataflow template.

    A Flex Template's launcher uses the same option, with a new directory for each launch: it builds
    the job, and draws a secret, every time.

    >>> makes_template(PipelineOptions(template_location="gs://bucket/template"))
    True
    >>> launch = "gs://bucket/staging/template_launches/2026-01-01_00_00_00-17/job_object"
    >>> makes_template(PipelineOptions(template_location=launch))
    False
    """
    location = options.view_as(GoogleCloudOptions).template_location
    return bool(location) and not _FLEX_LAUNCH.search(location)


def refuse_templates(options: PipelineOptions) -> None:
    """Refuses a job description that could be run many times under the same secret.

    Raises:
      ValueError: ``--template_location`` asks for a classic Dataflow template.
    """
    if makes_template(options):
        raise ValueError(
            "--template_location makes a classic template, whose runs would all share one "
            "secret, so that their noise on changed data could cancel. Launch each job, or use a "
            "flex template: it builds the job, and draws a secret, for every launch"
        )
