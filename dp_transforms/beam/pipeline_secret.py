"""Gives a pipeline its secret, and lets it run once."""

from __future__ import annotations

import re
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
)

from dp_transforms.runtime.job_secret import JobSecret, claimed
from dp_transforms.runtime.sealing import seal_name_of

_FLEX_LAUNCH = re.compile(r"/template_launches/[^/]+/job_object$")


def secret_for(pipeline: beam.Pipeline, secret: JobSecret | None) -> JobSecret:
    """Returns the secret of a transform in a pipeline, which can run only once from now on.

    Random decisions are fixed when a transform is applied, and a second run would repeat them on
    data that may have changed. Running a description from ``Pipeline.to_runner_api`` twice is not
    noticed: do not do it.

    Args:
      pipeline: where the transform is applied.
      secret: the caller's; a fresh one is drawn by default.

    Raises:
      ValueError: the pipeline could run again, since its description is kept (see
        ``refuse_reruns``) or its runner runs parts of it; the secret serves another pipeline.
      TypeError: the secret is no JobSecret.
      InputError: the file with the seal is unsuitable, see ``sealing``.
    """
    refuse_reruns(pipeline.options)
    # Asked for by name, since importing the class needs IPython.
    if type(pipeline.runner).__name__ == "InteractiveRunner":
        raise ValueError(
            "the InteractiveRunner runs parts of a pipeline again, and each run would repeat the "
            "random numbers of the first: name another runner"
        )
    _run_only_once(pipeline)
    secret = claimed(secret, pipeline)
    secret.seal(seal_name_of(pipeline.runner))
    return secret


def _run_only_once(pipeline: beam.Pipeline) -> None:
    if "run" in vars(pipeline):
        return
    first = [pipeline.run]

    def run(*args: Any, **options: Any) -> Any:
        if not first:
            raise ValueError(
                "this pipeline has run: a second run would repeat its random numbers, on data that "
                "may have changed, so that their noise cancels; build a new pipeline"
            )
        return first.pop()(*args, **options)

    pipeline.run = run  # type: ignore[method-assign]


def refuse_reruns(options: PipelineOptions) -> None:
    """Refuses a job description that could run many times under the same secret.

    A Flex Template is accepted: its launcher uses the option of classic templates, but with a new
    directory for each launch, which builds the job and draws a secret anew.

    Raises:
      ValueError: ``--template_location`` asks for a classic Dataflow template, or
        ``--output_executable_path`` for a jar that holds the job.

    >>> from apache_beam.options.pipeline_options import PipelineOptions
    >>> launch = "gs://bucket/staging/template_launches/2026-01-01_00_00_00-17/job_object"
    >>> refuse_reruns(PipelineOptions(template_location=launch))
    """
    if options.view_as(PortableOptions).output_executable_path:
        raise ValueError(
            "--output_executable_path makes a jar, whose runs would all share one secret, so that "
            "their noise on changed data could cancel. Submit each job instead"
        )
    location = options.view_as(GoogleCloudOptions).template_location
    if location and not _FLEX_LAUNCH.search(location):
        raise ValueError(
            "--template_location makes a classic template, whose runs would all share one "
            "secret, so that their noise on changed data could cancel. Launch each job, or use a "
            "flex template: it builds the job, and draws a secret, for every launch"
        )
