"""Jobs that an engine refuses, fails or cancels, and their price. The engine is a fake one."""

import contextlib
import http.server
import json
import os
import signal
import sys
import threading
import time
import types
from fractions import Fraction

import pytest
from apache_beam.runners.portability import portable_runner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from dp_transforms.beam import submission
from dp_transforms.beam.flink_rest import cancel_on_flink
from dp_transforms.budget import Ledger
from pipelines import worker_pool
from pipelines.release_frequency_list import main
from tests.jobs import instead, job_flags

LOOPBACK, DOCKER = "--environment_type=LOOPBACK", "--environment_type=DOCKER"
REACH = "--workers_reach_ledger"


class ServiceError(Exception):
    """An answer of a service with a status of HTTP."""

    def __init__(self, code):
        super().__init__(f"status {code}")
        self.code = code


class Running(PipelineResult):
    """A job that goes on until it is cancelled."""

    def __init__(self, engine):
        super().__init__(PipelineState.RUNNING)
        self._engine = engine

    def wait_until_finish(self, duration=None):
        if self._engine.when_waiting is not None:
            self._engine.when_waiting()
        for _ in range(600):
            time.sleep(0.1)

    def cancel(self):
        self._engine.cancels += 1
        if self._engine.answers:
            self._state = PipelineState.CANCELLED


class FakeEngine(portable_runner.PortableRunner):
    """Does at each step what it is told."""

    cancels, answers = 0, True
    when_prepared = when_run = when_waiting = None

    def run_pipeline(self, pipeline, options):
        handle = self.create_job_service_handle(None, options)
        if self.when_prepared is not None:
            self.when_prepared()
        handle.run("job")
        return Running(self)

    def create_job_service_handle(self, job_service, options):
        class Handle:
            def run(_, name):
                if self.when_run is not None:
                    self.when_run()

        return Handle()


def fails(error):
    def fail():
        raise error

    return fail


def interrupted_by(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.fixture
def engine(monkeypatch):
    made = FakeEngine()
    monkeypatch.setattr(worker_pool, "make_runner", lambda flags, options: made)
    monkeypatch.setattr(submission, "SECONDS_TO_CANCEL", 0.3)
    # Background jobs ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield made
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def job(tmp_path):
    """The flags of a job on an engine."""
    Ledger.create(tmp_path / "ledger", 1)
    (tmp_path / "records.csv").write_text("user,page\n1,a\n2,a\n2,b\n")
    flags = ("--runner=PortableRunner", "--job_endpoint=localhost:1", "--epsilon=0.4")
    return job_flags(tmp_path, *flags, f"--ledger={tmp_path}/ledger")


def row(tmp_path):
    (line,) = Ledger.open(tmp_path / "ledger").lines()
    return line.state.value, line.begun


@pytest.mark.parametrize(
    ("step", "error", "flags", "state"),
    [
        # It was never asked to run the job: the failure is not even counted.
        ("when_prepared", RuntimeError("no jar"), [LOOPBACK], ("abandoned", False)),
        ("when_prepared", RuntimeError("no jar"), [DOCKER], ("abandoned", False)),
        # It may have started.
        ("when_run", RuntimeError("lost"), [DOCKER], ("reserved", True)),
        # It has failed, and a worker may be writing.
        ("when_waiting", RuntimeError("FAILED"), [DOCKER], ("reserved", True)),
        # A worker that is about to write asks the ledger, which forbids it from now on.
        ("when_run", RuntimeError("lost"), [LOOPBACK], ("failed", False)),
        ("when_waiting", RuntimeError("FAILED"), [LOOPBACK], ("failed", False)),
        ("when_waiting", RuntimeError("FAILED"), [DOCKER, REACH], ("failed", False)),
    ],
)
def test_the_price_of_a_job_that_fails(tmp_path, engine, job, step, error, flags, state):
    setattr(engine, step, fails(error))
    assert main([*job, *flags]) == 1
    assert row(tmp_path) == state
    ledger = Ledger.open(tmp_path / "ledger")
    assert ledger.spent().epsilon == (Fraction(2, 5) if state[0] == "reserved" else 0)
    assert ledger.free_failures_left() == 20 - (state[0] == "failed")


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ([403], "abandoned"),
        # It may have carried out this request, or the one before it.
        ([409], "reserved"),
        ([503, 403], "reserved"),
        # Without Beam's extra, or if Beam moves the method, nothing is known of the request.
        (None, "reserved"),
    ],
)
@pytest.mark.usefixtures("without_buckets")
def test_a_job_that_dataflow_refuses_costs_nothing(tmp_path, job, monkeypatch, answers, state):
    rows = []

    class Service:
        def create_job(self, request):
            rows.append(row(tmp_path))
            raise ServiceError(rest.pop(0))

    class Client:
        def __init__(self):
            self._jobs_client = Service()

        def submit_job_description(self, name):
            while len(rest) > 1:
                with contextlib.suppress(ServiceError):
                    self._jobs_client.create_job(request=name)
            self._jobs_client.create_job(request=name)

    class DataflowRunner(PipelineRunner):
        def run_pipeline(self, pipeline, options):
            rows.append(row(tmp_path))
            Client().submit_job_description("job")

    rest = answers or [403]
    module = types.ModuleType("client_of_dataflow")
    if answers:
        module.DataflowApplicationClient = Client
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(submission, "_DATAFLOW_CLIENT", module.__name__)
    monkeypatch.setattr(worker_pool, "make_runner", lambda flags, options: DataflowRunner())
    before = Client.submit_job_description
    flags = ["--runner=DataflowRunner", "--project=project-1", "--region=r"]
    assert main([*instead(job, *flags), "--temp_location=gs://bucket-1/tmp"]) == 1
    assert rows[:2] == [("reserved", answers is None), ("reserved", True)]
    assert row(tmp_path) == (state, True)
    assert Client.submit_job_description is before


def test_a_job_with_workers_of_other_machines_is_begun_when_it_is_asked_to_run(
    tmp_path, engine, job
):
    seen = []
    engine.when_prepared = engine.when_run = lambda: seen.append(row(tmp_path))
    engine.when_waiting = fails(RuntimeError("FAILED"))
    assert main([*job, DOCKER]) == 1
    assert seen == [("reserved", False), ("reserved", True)]


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
@pytest.mark.parametrize("step", ["when_prepared", "when_run", "when_waiting"])
def test_an_interrupt_cancels_the_job(tmp_path, engine, job, failure, sent, code, word, step):
    setattr(engine, step, interrupted_by(sent))
    message = f"{word}, and the job server has cancelled the job; look whether the engine has: no "
    message += "release was written, and nothing was spent\n"
    failure(code, message, main, [*job, LOOPBACK])
    assert engine.cancels == 1 and row(tmp_path) == ("failed", False)


def test_an_interrupt_of_a_job_that_may_have_written(tmp_path, engine, job, failure):
    engine.when_waiting = interrupted_by(signal.SIGTERM)
    message = (
        ": the output directory tells whether a release was written; what the job reserved stays"
    )
    failure(143, message, main, [*job, DOCKER])
    assert engine.cancels == 1 and row(tmp_path) == ("reserved", True)


def test_an_engine_that_does_not_answer(tmp_path, engine, job, failure):
    engine.when_waiting, engine.answers = interrupted_by(signal.SIGTERM), False
    failure(143, "but the engine has not said in time that", main, [*job, LOOPBACK])
    # No worker can write any more.
    assert row(tmp_path) == ("failed", False)


class Flink(http.server.BaseHTTPRequestHandler):
    """The part of Flink's REST interface that lists and cancels jobs."""

    def do_GET(self):
        if self.path == "/jobs/overview":
            jobs = [{"jid": n, "name": "mine", "state": s} for n, s in self.server.jobs.items()]
            self._answer({"jobs": [*jobs, {"jid": "x", "name": "another", "state": "RUNNING"}]})
        else:
            self._answer({"state": self.server.jobs[self.path.removeprefix("/jobs/")]})

    def do_PATCH(self):
        self.server.jobs[self.path.removeprefix("/jobs/")] = "CANCELED"
        self._answer({})

    def _answer(self, content):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_):
        pass


@pytest.mark.parametrize(
    ("jobs", "ended", "after"),
    [
        ({"1": "RUNNING"}, True, {"1": "CANCELED"}),
        ({"1": "FINISHED"}, True, {"1": "FINISHED"}),
        ({"1": "FAILED", "2": "RESTARTING"}, True, {"1": "FAILED", "2": "CANCELED"}),
        # One of them is somebody else's.
        ({"1": "RUNNING", "2": "RUNNING"}, False, {"1": "RUNNING", "2": "RUNNING"}),
        ({}, False, {}),
    ],
)
def test_the_job_of_a_name_is_cancelled_on_flink(jobs, ended, after):
    with http.server.ThreadingHTTPServer(("localhost", 0), Flink) as server:
        server.jobs = dict(jobs)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        master = f"localhost:{server.server_port}"
        assert cancel_on_flink(master, "mine", time.monotonic() + 5) == ended
        server.shutdown()
        assert server.jobs == after
