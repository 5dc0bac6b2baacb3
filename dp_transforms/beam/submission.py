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
"""How long an interrupted job waits for its engine to say that it is cancelled."""
_SECONDS_BETWEEN_LOOKS = 0.2
_REFUSALS = (400, 401, 403, 404)
"""Status codes of HTTP of a service that has refused a request. With others, such as 409 or 500, it
may have carried out a first attempt at it."""
_DATAFLOW_CLIENT = "apache_beam.runners.dataflow.internal.apiclient"


def submits(runner: PipelineRunner) -> bool:
    """Tells whether a runner only hands over the job when it is told to run it. Others read records
    meanwhile."""
    # Asked for by name, since importing the class needs an extra.
    return isinstance(runner, PortableRunner) or type(runner).__name__ == "DataflowRunner"


def run_on_engine(
    pipeline: beam.Pipeline, before_it_runs: Callable[[], None] = lambda: None
) -> PipelineResult:
    """Has an engine run a pipeline, and waits for it. An interrupt cancels the job.

    Args:
      pipeline: its runner ``submits``.
      before_it_runs: is called once, right before the engine is asked to run what it was given, or
        before that is given to it if it cannot be seen when that is.

    Raises:
      NotStartedError: the job never runs: it failed before the engine was asked to run it, or the
        engine refused it.
      InputError: it could not be started, as far as can be seen.
      JobCancelledError: it was interrupted.
      Exception: it failed; see ``wait_until_finish`` of Beam's results.
    """
    # While there is no result, there is nothing to cancel.
    with _keeping_interrupts() as deliver_interrupts:
        result = _submitted(pipeline, before_it_runs)
        try:
            deliver_interrupts()
            result.wait_until_finish()
        except KeyboardInterrupt:
            raise JobCancelledError(_cancel(result, pipeline)) from None
    return result


def _submitted(pipeline: beam.Pipeline, before_it_runs: Callable[[], None]) -> PipelineResult:
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
    """What is known of a request to an engine to run a job."""

    def __init__(self, before: Callable[[], None]):
        self._before = before
        self._is_made = False
        self.attempts = 0
        self.status: int | None = None

    def make(self) -> None:
        """Notes that the request is about to be made, perhaps repeatedly."""
        if not self._is_made:
            self._before()
            self._is_made = True

    @property
    def may_have_been_carried_out(self) -> bool:
        """Tells whether the engine may have got the request, and not refused it. What a service
        answers to a second attempt says nothing of the first one."""
        is_refused = self.attempts == 1 and self.status in _REFUSALS
        return self._is_made and not is_refused


def _cancel(result: PipelineResult, pipeline: beam.Pipeline) -> Cancelled:
    """Cancels a job, and waits for a while until it has ended."""
    until = time.monotonic() + SECONDS_TO_CANCEL
    master = pipeline.options.view_as(FlinkRunnerOptions).flink_master
    is_portable = isinstance(pipeline.runner, PortableRunner)
    has_ended = False
    try:
        if is_portable and has_rest(master):
            # Beam's job server makes the ids of its jobs of Flink's names for them.
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
    """Notices when a runner asks its engine in the block to run a job."""
    if isinstance(runner, PortableRunner):
        owner, name = runner, "create_job_service_handle"
        make_handle = runner.create_job_service_handle

        def noticing_handle(*arguments: Any) -> Any:
            handle = make_handle(*arguments)
            run = handle.run

            def noticed_run(*arguments: Any) -> Any:
                request.make()
                return run(*arguments)

            setattr(handle, "run", noticed_run)  # noqa: B010
            return handle

        replacement: Callable[..., Any] = noticing_handle
    else:
        try:
            owner = importlib.import_module(_DATAFLOW_CLIENT).DataflowApplicationClient
            name = "submit_job_description"
            submit = getattr(owner, name)
        except (ImportError, AttributeError):
            request.make()
            yield
            return

        def noticing_submit(client: Any, *arguments: Any) -> Any:
            service = client._jobs_client
            create = service.create_job

            def counted_create(*arguments: Any, **options: Any) -> Any:
                request.attempts += 1
                return create(*arguments, **options)

            service.create_job = counted_create
            request.make()
            return submit(client, *arguments)

        replacement = noticing_submit
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
    """Gives the block a function, and delays the first SIGINT or SIGTERM until the block calls it.
    A second signal is handled at once, and so are all after that call. A signal that is still
    delayed at the end of the block is dropped.

    Only the main thread handles signals: in others nothing is delayed. A signal without a handler
    in Python is not delayed either.
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
