"""The parsed command line of a job, and how far the job has come."""

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
"""A function that returns Beam's options, and parses them when it is first called."""


class Written(enum.Enum):
    """Whether a release was written. The value is a part of the message about an interrupt."""

    NO = ": no release was written"
    PERHAPS = ": the output directory tells whether a release was written"
    YES = " after the release was written"


class Price(enum.Enum):
    """What became of a failed job's reservations in a shared ledger. The value is a part of the
    message about an interrupt, and SPENT is a part of the message about every error."""

    NONE = ""
    GIVEN_BACK = ", and nothing was spent"
    SPENT = "; what the job reserved stays spent"


@dataclass
class Progress:
    """The state of a running job.

    Attributes:
      written: whether its release was written.
      price: after an error, what became of its reservations.
    """

    written: Written = Written.NO
    price: Price = Price.NONE


@dataclass(frozen=True)
class JobContext:
    """The parsed command line of a job.

    Attributes:
      command: the name of the job's module, such as "release_frequency_list".
      flags: the job's own flags.
      options: a function that returns Beam's options; by default they name the in-process runner.
      on_beam: whether an option of Beam was given. If not, Beam has not been loaded.
      progress: the job's state, which the job updates. It is read after an error.
    """

    command: str
    flags: argparse.Namespace
    options: Options
    on_beam: bool
    progress: Progress = field(default_factory=Progress)


Prepare = Callable[[JobContext], Job]
