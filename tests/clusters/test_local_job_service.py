"""The jobs behind a job service, in its simplest form: Beam's own in Python, without Java."""

import os
import random
import socket
import subprocess
import sys
import time

import pytest

from dp_transforms.job_secret import JobSecret
from pipelines import release_frequency_list, select_partitions
from pipelines.workers import WorkerPool

SECRET = JobSecret.insecure_for_testing(11)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = ["--user_column=user", "--partition_column=page", "--max_partitions_per_user=2"]
JOBS = {
    "frequency list": (release_frequency_list.main, ["--epsilon=1"], "released_frequencies.csv"),
    "names": (
        select_partitions.main,
        ["--epsilon=4", "--delta=1e-2", "--noisy_counts"],
        "released_partitions.csv",
    ),
}


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


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    rng = random.Random(2)
    path = tmp_path_factory.mktemp("records") / "visits.csv"
    lines = [f"user{rng.randrange(300)},page{rng.randrange(9) ** 2}" for _ in range(2_000)]
    path.write_text("\n".join(["user,page", *lines]) + "\n")
    return path


@pytest.fixture(autouse=True)
def same_secret(monkeypatch):
    monkeypatch.setattr(JobSecret, "from_os", lambda: SECRET)
    # Workers of other processes must find this package.
    monkeypatch.setenv("PYTHONPATH", ROOT, prepend=os.pathsep)


def run(job, records, output, *flags):
    main, own, file_name = JOBS[job]
    assert main([f"--input={records}", f"--output={output}", *FLAGS, *own, *flags]) == 0
    return (output / file_name).read_bytes(), (output / "privacy.json").read_bytes()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("environment", ["LOOPBACK", "EXTERNAL"])
def test_agrees_with_the_in_process_runner(job, environment, job_service, pool, records, tmp_path):
    flags = [
        "--runner=PortableRunner",
        f"--job_endpoint={job_service}",
        f"--environment_type={environment}",
        *([f"--environment_config={pool}"] if environment == "EXTERNAL" else []),
    ]
    released = run(job, records, tmp_path / "portable", *flags)
    assert released == run(job, records, tmp_path / "in_process")
    assert released[0].count(b"\n") > 1


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
def test_what_is_missing_is_said_at_once(flags, code, says, job_service, records, tmp_path, capsys):
    flags = [flag.replace("SERVICE", job_service) for flag in flags]
    output = tmp_path / "release"
    common = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS]
    assert release_frequency_list.main([*common, "--runner=PortableRunner", *flags]) == code
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
    assert not output.exists()


class Request:
    """What a runner asks a pool."""

    worker_id = "1-1"

    def __init__(self, port):
        from apache_beam.portability.api import endpoints_pb2

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
