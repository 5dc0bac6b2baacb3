"""Runners behind a job service: what is checked and arranged before a job is submitted to one."""

from __future__ import annotations

from urllib.parse import urlsplit

from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    WorkerOptions,
)
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES, FlinkRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.portability.prism_runner import PrismRunner

from dp_transforms.errors import InputError
from pipelines.workers.pool import WorkerPool, listens

_EMBEDDED = "embed"
_ENVIRONMENTS = (
    "LOOPBACK starts workers on this machine, EXTERNAL uses worker pools "
    "(--environment_config=HOST:PORT), DOCKER uses an image"
)


def prepare_portable(runner: PortableRunner, options: PipelineOptions) -> None:
    """Checks that a job can be submitted, and starts a pool of workers here if it wants one.

    Beam itself waits for minutes for a service that is not there, and takes containers by default.

    Raises:
      ValueError: flags are missing.
      InputError: nothing answers where the service should be.
    """
    portable = options.view_as(PortableOptions)
    if type(runner) is PortableRunner and not portable.job_endpoint:
        raise ValueError(
            "--runner=PortableRunner needs --job_endpoint=HOST:PORT, where a job service listens"
        )
    if isinstance(runner, PrismRunner) and not portable.job_endpoint:
        return
    if portable.job_endpoint and portable.job_endpoint != _EMBEDDED:
        _check("job_endpoint", portable.job_endpoint, portable.job_endpoint)
    elif isinstance(runner, FlinkRunner):
        master = options.view_as(FlinkRunnerOptions).flink_master
        if master not in MAGIC_HOST_NAMES:
            _check("flink_master", master, urlsplit(runner.add_http_scheme(master)).netloc)
    worker = options.view_as(WorkerOptions)
    if worker.default_sdk_harness_log_level == "CRITICAL":
        # Job servers in Java refuse a level that Java does not have.
        worker.default_sdk_harness_log_level = "ERROR"
    # Beam has pip list all packages first, for workers to log how theirs differ.
    options.view_as(DebugOptions).add_experiment("disable_logging_submission_environment")
    if not portable.environment_type:
        raise ValueError(f"--environment_type is needed: {_ENVIRONMENTS}")
    if portable.environment_type == "EXTERNAL":
        if not (portable.environment_config or portable.environment_options):
            raise ValueError("--environment_type=EXTERNAL needs --environment_config=HOST:PORT")
    elif portable.environment_type == "LOOPBACK":
        # Beam's own workers for this would share this process, and one pool that several worker
        # nodes cannot share.
        portable.environment_type = "EXTERNAL"
        portable.environment_config = WorkerPool().address


def _check(flag: str, given: str, endpoint: str) -> None:
    if not listens(endpoint):
        raise InputError(
            f"nothing listens at --{flag}={given}: start the engine, or correct the flag"
        )
