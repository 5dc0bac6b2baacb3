"""The jobs behind a job service, in its simplest form: Beam's own in Python, without Java."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures

import grpc
import pytest
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    endpoints_pb2,
)

from pipelines import release_frequency_list, worker_pool
from pipelines.workers import WorkerPool
from tests.clusters.agreement import FLAGS, JOBS, ROOT, check_agreement, write_records


@pytest.fixture(scope="module")
def job_service(tmp_path_factory):
    directory = tmp_path_factory.mktemp("service")
    port_file = directory / "port"
    module = "apache_beam.runners.portability.local_job_service_main"
    command = [
        sys.executable,
        "-m",
        module,
        f"--port_file={port_file}",
        f"--staging_dir={directory}",
    ]
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield f"localhost:{port_file.read_text()}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def pool():
    """A pool in a process of its own, as on a cluster's node."""
    command = [sys.executable, "-m", "pipelines.worker_pool", "--port=0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("environment", ["LOOPBACK", "EXTERNAL"])
def test_agrees_with_the_in_process_runner(
    job, environment, job_service, pool, same_secret, tmp_path
):
    flags = [
        "--runner=PortableRunner",
        f"--job_endpoint={job_service}",
        f"--environment_type={environment}",
        *([f"--environment_config={pool}"] if environment == "EXTERNAL" else []),
    ]
    check_agreement(job, tmp_path, *flags)


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        ([], 2, "needs --job_endpoint"),
        (["--job_endpoint=localhost:1", "--environment_type=LOOPBACK"], 1, "nothing listens at"),
        (["--job_endpoint=rubbish", "--environment_type=LOOPBACK"], 1, "nothing listens at"),
        (["--runner=FlinkRunner", "--flink_master=localhost:1"], 1, "--flink_master=localhost:1"),
        (["--job_endpoint=SERVICE"], 2, "--environment_type is needed"),
        (["--job_endpoint=SERVICE", "--environment_type=EXTERNAL"], 2, "--environment_config"),
    ],
)
def test_what_is_missing_is_said_at_once(flags, code, says, job_service, tmp_path, capsys):
    records = write_records(tmp_path / "visits.csv")
    flags = [flag.replace("SERVICE", job_service) for flag in flags]
    output = tmp_path / "release"
    common = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS]
    assert release_frequency_list.main([*common, "--runner=PortableRunner", *flags]) == code
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not output.exists()


def test_a_failure_behind_a_job_service_is_one_line(job_service, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    records = tmp_path / "visits.csv"
    records.write_text("user,page\nzanzibar,\n")
    output = tmp_path / "release"
    flags = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS]
    service = f"--job_endpoint={job_service}"
    flags += ["--runner=PortableRunner", service, "--environment_type=LOOPBACK"]
    assert release_frequency_list.main(flags) == 1
    said = "".join(capfd.readouterr())
    assert said.startswith(f"error: {records} has records without a user") and said.count("\n") == 1
    assert not output.exists()


class Node(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """What a worker reports to; it gives it nothing to do."""

    def __init__(self):
        self.reported, self.left = threading.Event(), threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor())
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("localhost:0")
        self.server.start()

    def Control(self, request_iterator, context):
        self.reported.set()
        with contextlib.suppress(grpc.RpcError):
            yield from (None for _ in request_iterator if False)
        self.left.set()


def request(port):
    """What a runner asks a pool."""
    endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{port}")
    return beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", control_endpoint=endpoint)


@contextlib.contextmanager
def pool_in_a_process():
    command = [sys.executable, "-m", "pipelines.worker_pool", "--port=0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        with process, grpc.insecure_channel(process.stdout.readline().split()[-1]) as channel:
            yield process, beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
    finally:
        process.kill()


def test_nodes_can_share_a_pool(monkeypatch):
    # Two nodes have a worker of the same number. One asks to stop its own, the other dies.
    monkeypatch.setattr("pipelines.workers._SECONDS_BETWEEN_LOOKS", 0.2)
    pool = WorkerPool()
    nodes = [Node(), Node()]
    try:
        for node in nodes:
            assert not pool.StartWorker(request(node.port), None).error
            assert node.reported.wait(20)
        workers = list(pool._processes)
        assert len(workers) == 2
        pool.StopWorker(request(nodes[0].port), None)
        time.sleep(1)
        assert [worker.poll() for worker in workers] == [None, None]
        nodes[1].server.stop(None)
        deadline = time.monotonic() + 20
        while len(pool._processes) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(pool._processes) == 1
        assert not nodes[0].left.is_set()
    finally:
        pool.stop()
        for node in nodes:
            node.server.stop(None)


def test_a_pool_that_is_told_to_end_takes_its_workers_along():
    node = Node()
    try:
        with pool_in_a_process() as (process, pool):
            pool.StartWorker(request(node.port))
            assert node.reported.wait(20)
            process.terminate()
            assert process.wait(20) == 0
            assert node.left.wait(20)
    finally:
        node.server.stop(None)


def test_a_runner_hears_of_a_worker_that_ends_before_it_is_ready(monkeypatch):
    monkeypatch.setattr("pipelines.workers._SECONDS_BETWEEN_LOOKS", 0.2)
    pool = WorkerPool()
    try:
        with socket.socket() as gone:
            # Nobody listens here.
            gone.bind(("localhost", 0))
            answer = pool.StartWorker(request(gone.getsockname()[1]), None)
    finally:
        pool.stop()
    assert answer.error == "the worker ended before it was ready"


def test_a_runner_hears_of_a_pool_that_ends_before_its_worker_is_ready():
    # A node that does not answer keeps the worker from being ready.
    with socket.create_server(("localhost", 0)) as node, pool_in_a_process() as (process, pool):
        answer = pool.StartWorker.future(request(node.getsockname()[1]))
        node.settimeout(60)
        node.accept()[0].close()
        assert not answer.done()
        process.kill()
        assert answer.exception(20).code() is grpc.StatusCode.UNAVAILABLE


def test_a_pool_on_a_taken_port_is_refused(capsys):
    pool = WorkerPool()
    try:
        assert worker_pool.main([f"--port={pool.address.rpartition(':')[2]}"]) == 1
    finally:
        pool.stop()
    assert capsys.readouterr().err.startswith(f"error: {pool.address}: ")
