"""Hands pipelines to engines that run them elsewhere, and cancels them."""

from __future__ import annotations

import contextlib
import importlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from dp_transforms.beam.flink_rest import cancel_on_flink, has_rest
from dp_transforms.errors import (
    Cancelled,
    InputError,
    JobCancelledError,
    NotStartedError,
    before_any_record,
)

SECONDS_TO_CANCEL = 20.0
"""How long an interrupted job waits until its engine reports that it is cancelled."""
_SECONDS_BETWEEN_LOOKS = 0.2
_REFUSALS = (400, 401, 403, 404)
"""HTTP status codes by which a service says that it has refused a request. After other codes, such
as 409 or 500, it may have carried the request out."""
_DATAFLOW_CLIENT = "apache_beam.runners.dataflow.internal.apiclient"


def submits(runner: PipelineRunner) -> bool:
    """Returns whether ``run`` of a runner hands the job to an engine, and returns before the job
    has ended. ``run`` of any other runner reads records."""
    # The class is compared by name, since importing it needs an extra.
    return isinstance(runner, PortableRunner) or type(runner).__name__ == "DataflowRunner"


def run_on_engine(
    pipeline: beam.Pipeline, before_it_runs: Callable[[], None] = lambda: None
) -> PipelineResult:
    """Has an engine run a pipeline, and waits for it. An interrupt cancels the job.

    Args:
      pipeline: a pipeline with a runner for which ``submits`` is true.
      before_it_runs: a function that is called once, right before the engine is asked to run the
        job. If that moment cannot be observed, it is called before the job is handed over.

    Raises:
      NotStartedError: the job never runs: it failed before the engine was asked to run it, or the
        engine refused it.
      InputError: the job could not be started, but the engine may have got the request.
      JobCancelledError: the job was interrupted.
      Exception: the job failed; see ``wait_until_finish`` of Beam's results.
    """
    # Without a result there is nothing to cancel yet, so interrupts wait until there is one.
    with _keeping_interrupts() as deliver_interrupts:
        result = _submitted(pipeline, before_it_runs)
        try:
            deliver_interrupts()
            result.wait_until_finish()
        except KeyboardInterrupt:
            raise JobCancelledError(_cancel(result, pipeline)) from None
    return result


def _submitted(pipeline: beam.Pipeline, before_it_runs: Callable[[], None]) -> PipelineResult:
    """Hands a pipeline to its engine, and returns the result to wait for. Errors are those of
    ``run_on_engine``."""
    request = _Request(before_it_runs)
    try:
        with _noticed(request, pipeline.runner), before_any_record():
            try:
                return pipeline.run()
            except Exception as error:
                request.status = _status(error)
                raise
    except InputError as error:
        if request.may_have_been_carried_out:
            raise
        raise NotStartedError(str(error)) from None


class _Request:
    """What is known about the request that asks an engine to run a job.

    Attributes:
      attempts: how often Dataflow's client sent it; 0 on other engines.
      status: the HTTP status of the last answer, if it was an error with one.
    """

    def __init__(self, before: Callable[[], None]):
        self._before = before
        self._is_made = False
        self.attempts = 0
        self.status: int | None = None

    def make(self) -> None:
        """Notes that the request is about to be made. Only the first call has an effect."""
        if not self._is_made:
            self._before()
            self._is_made = True

    @property
    def may_have_been_carried_out(self) -> bool:
        """Whether the engine may have got the request and not refused it. If there was a second
        attempt, its answer says nothing about the first one."""
        is_refused = self.attempts == 1 and self.status in _REFUSALS
        return self._is_made and not is_refused


def _cancel(result: PipelineResult, pipeline: beam.Pipeline) -> Cancelled:
    """Cancels a job, waits for its end for ``SECONDS_TO_CANCEL`` at most, and returns who
    confirmed it."""
    until = time.monotonic() + SECONDS_TO_CANCEL
    master = pipeline.options.view_as(FlinkRunnerOptions).flink_master
    is_portable = isinstance(pipeline.runner, PortableRunner)
    has_ended = False
    try:
        if is_portable and has_rest(master):
            # The id of a job on Beam's job server is its name on Flink, "_" and a random part.
            name = vars(result)["_job_id"].rpartition("_")[0]
            has_ended = cancel_on_flink(master, name, until)
        result.cancel()
        while not PipelineState.is_terminal(result.state):
            if time.monotonic() > until:
                return Cancelled.UNKNOWN
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except Exception:
        return Cancelled.UNKNOWN  # the engine does not answer
    if is_portable and not has_ended:
        return Cancelled.BY_JOB_SERVER
    return Cancelled.BY_ENGINE


@contextlib.contextmanager
def _noticed(request: _Request, runner: PipelineRunner) -> Iterator[None]:
    """Calls ``request.make`` when a runner asks its engine, within the block, to run a job.

    It replaces the method that sends this request, and restores it at the end of the block. If
    there is no such method, ``request.make`` is called at once.
    """
    if isinstance(runner, PortableRunner):
        handle = _noticing_handle(runner.create_job_service_handle, request)
        with _replaced(runner, "create_job_service_handle", handle):
            yield
        return
    try:
        client = importlib.import_module(_DATAFLOW_CLIENT).DataflowApplicationClient
        submit = client.submit_job_description
    except (ImportError, AttributeError):
        request.make()
        yield
        return
    with _replaced(client, "submit_job_description", _noticing_submit(submit, request)):
        yield


def _noticing_handle(make_handle: Callable[..., Any], request: _Request) -> Callable[..., Any]:
    """Returns ``create_job_service_handle`` with handles that call ``request.make`` before they
    ask a job service to run a job."""

    def noticing_handle(*arguments: Any) -> Any:
        handle = make_handle(*arguments)
        run = handle.run

        def noticed_run(*arguments: Any) -> Any:
            request.make()
            return run(*arguments)

        setattr(handle, "run", noticed_run)  # noqa: B010
        return handle

    return noticing_handle


def _noticing_submit(submit: Callable[..., Any], request: _Request) -> Callable[..., Any]:
    """Returns ``submit_job_description`` of Dataflow's client, with a call of ``request.make``
    before the first attempt, and a count of the attempts."""

    def noticing_submit(client: Any, *arguments: Any) -> Any:
        service = client._jobs_client
        create = service.create_job

        def counted_create(*arguments: Any, **options: Any) -> Any:
            request.attempts += 1
            return create(*arguments, **options)

        service.create_job = counted_create
        request.make()
        return submit(client, *arguments)

    return noticing_submit


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replaces an attribute of an object or a class within the block."""
    had_own, earlier = name in vars(owner), getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if had_own:
            setattr(owner, name, earlier)
        else:
            delattr(owner, name)


def _status(error: Exception) -> int | None:
    """Returns the HTTP status with which a service answered, if the error has one."""
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return status
    return None


@contextlib.contextmanager
def _keeping_interrupts() -> Iterator[Callable[[], None]]:
    """Delays the first SIGINT or SIGTERM until the block calls the function that it is given.

    A second signal is handled at once, and so is every signal after that call. A signal that is
    still delayed at the end of the block is dropped.

    Only the main thread handles signals: in other threads nothing is delayed. A signal without a
    handler in Python is not delayed either.
    """
    handlers: dict[int, Callable[[int, Any], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
    seen: list[tuple[int, Any]] = []

    def delay_first(number: int, frame: Any) -> None:
        seen.append((number, frame))
        if len(seen) > 1:
            handlers[number](number, frame)

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def deliver() -> None:
        restore()
        if seen:
            number, frame = seen[0]
            handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, delay_first)
    try:
        yield deliver
    finally:
        restore()
