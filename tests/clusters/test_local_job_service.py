"""The jobs behind a job service, in its simplest form: Beam's own in Python, without Java."""

import socket
import subprocess
import sys
import time

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


class Request:
    """What a runner asks a pool."""

    worker_id = "1-1"

    def __init__(self, port):
        self.control_endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{port}")


def test_nodes_can_share_a_pool(monkeypatch):
    # Two nodes have a worker of the same number. One asks to stop its own, the other dies.
    monkeypatch.setattr("pipelines.workers._SECONDS_BETWEEN_LOOKS", 0.2)
    pool = WorkerPool()
    nodes = [socket.create_server(("localhost", 0)) for _ in range(2)]
    try:
        for node in nodes:
            pool.StartWorker(Request(node.getsockname()[1]), None)
        workers = list(pool._processes)
        assert len(workers) == 2
        pool.StopWorker(Request(nodes[0].getsockname()[1]), None)
        time.sleep(1)
        assert [worker.poll() for worker in workers] == [None, None]
        nodes[1].close()
        deadline = time.monotonic() + 20
        while len(pool._processes) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(pool._processes) == 1
    finally:
        pool.stop()
        for node in nodes:
            node.close()


def test_a_pool_that_is_told_to_end_takes_its_workers_along():
    command = [sys.executable, "-m", "pipelines.worker_pool", "--port=0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process, socket.create_server(("localhost", 0)) as node:
        address = process.stdout.readline().split()[-1]
        with grpc.insecure_channel(address) as channel:
            pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
            port = node.getsockname()[1]
            endpoint = endpoints_pb2.ApiServiceDescriptor(url=f"localhost:{port}")
            pool.StartWorker(
                beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", control_endpoint=endpoint)
            )
        # The worker reports for work.
        node.settimeout(60)
        worker, _ = node.accept()
        process.terminate()
        assert process.wait(20) == 0
        worker.settimeout(20)
        with worker:
            while worker.recv(1024):
                pass


def test_a_pool_that_is_started_again_has_the_workers_of_the_earlier_one(tmp_path):
    journal = tmp_path / "workers"
    with socket.create_server(("localhost", 0)) as node, socket.socket() as gone:
        # One node waits for a worker, and one does not listen any more.
        gone.bind(("localhost", 0))
        pool = WorkerPool(journal=str(journal))
        for place in (node, gone):
            pool.StartWorker(Request(place.getsockname()[1]), None)
        pool.stop()
        again = WorkerPool(journal=str(journal))
        try:
            assert len(again._processes) == 1
            assert journal.read_text() == f"1-1 localhost:{node.getsockname()[1]}\n"
        finally:
            again.stop()


def test_a_pool_on_a_taken_port_is_refused(capsys):
    pool = WorkerPool()
    try:
        assert worker_pool.main([f"--port={pool.address.rpartition(':')[2]}"]) == 1
    finally:
        pool.stop()
    assert capsys.readouterr().err.startswith(f"error: {pool.address}: ")
