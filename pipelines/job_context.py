"""Holds what a job knows of its command line, and how far it has come."""

from __future__ import annotations

import argparse
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

Job = Callable[[], None]
Options = Callable[[], "PipelineOptions"]
"""Beam's options, parsed when they are first asked for."""


class Written(enum.Enum):
    """Whether a release was written. The value is what an interrupt says of it."""

    NO = ": no release was written"
    PERHAPS = ": the output directory tells whether a release was written"
    YES = " after the release was written"


class Price(enum.Enum):
    """What became of a failed job's reservations in a shared ledger. The value is what an interrupt
    says of it, and SPENT what every error does."""

    NONE = ""
    GIVEN_BACK = ", and nothing was spent"
    SPENT = "; what the job reserved stays spent"


@dataclass
class Progress:
    """What changes of a job while it runs.

    Attributes:
      written: whether its release was written.
      price: what became of its reservations, after an error.
    """

    written: Written = Written.NO
    price: Price = Price.NONE


@dataclass(frozen=True)
class JobContext:
    """A job's command line, parsed.

    Attributes:
      command: the name of the job's module, such as "release_frequency_list".
      flags: the job's own flags. Nobody writes to them.
      options: returns Beam's options; by default they name the in-process runner.
      on_beam: whether an option of Beam was given. Without one, nothing has loaded Beam.
      progress: is updated by the job, and read after an error.
    """

    command: str
    flags: argparse.Namespace
    options: Options
    on_beam: bool
    progress: Progress = field(default_factory=Progress)


Prepare = Callable[[JobContext], Job]
