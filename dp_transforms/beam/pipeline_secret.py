"""Gives a pipeline its secret, and lets the pipeline run only once."""

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
    """Returns the secret of a transform, and makes its pipeline refuse a second run.

    Random decisions are fixed when a transform is applied. A second run would repeat them on data
    that may have changed. Nothing notices if a description from ``Pipeline.to_runner_api`` is run
    twice, or if a runner's own ``run_pipeline`` is called: do not do it.

    Args:
      pipeline: the pipeline to which the transform is applied.
      secret: the caller's secret; a fresh one is drawn by default.

    Raises:
      ValueError: an option stores the pipeline for later runs, see ``refuse_reruns``; the runner is
        the InteractiveRunner, which runs parts of a pipeline again; or the secret belongs to
        another pipeline.
      TypeError: the secret is not a JobSecret.
      InputError: the file with the seal is unsuitable, see ``sealing.seal_from_environment``.
    """
    refuse_reruns(pipeline.options)
    # The class is compared by name, since importing it needs IPython.
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
    """Makes ``run`` of a pipeline raise a ValueError when it is called again."""
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

    A flex template is accepted. Its launcher uses the option of classic templates too, but each
    launch has a directory of its own, builds the job and draws a secret anew.

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
