"""The jobs behind a job service, in its simplest form: Beam's own in Python, without Java."""

import socket
import subprocess
import sys
import time

import pytest

from pipelines import release_frequency_list
from tests.clusters.agreement import (
    FLAGS,
    JOBS,
    check_agreement,
    check_failure,
    worker_pool_process,
    write_records,
)


@pytest.fixture(scope="module")
def job_service(tmp_path_factory):
    directory = tmp_path_factory.mktemp("service")
    port_file = directory / "port"
    module = "apache_beam.runners.portability.local_job_service_main"
    flags = [f"--port_file={port_file}", f"--staging_dir={directory}"]
    command = [sys.executable, "-m", module, *flags]
    with open(directory / "log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text()):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield ["--runner=PortableRunner", f"--job_endpoint=localhost:{port_file.read_text()}"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("environment", ["LOOPBACK", "EXTERNAL"])
def test_agrees_with_the_in_process_runner(job, environment, job_service, same_secret, tmp_path):
    flags = [*job_service, f"--environment_type={environment}"]
    with worker_pool_process("--port=0") as (_, address):
        if environment == "EXTERNAL":
            flags.append(f"--environment_config={address}")
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
def test_what_is_missing_is_said_at_once(flags, code, says, tmp_path, failure):
    records = write_records(tmp_path / "visits.csv")
    output = tmp_path / "release"
    common = [f"--input={records}", f"--output={output}", "--epsilon=1", *FLAGS]
    # Whoever listens is not asked.
    with socket.create_server(("localhost", 0)) as service:
        address = f"localhost:{service.getsockname()[1]}"
        flags = [flag.replace("SERVICE", address) for flag in flags]
        job = [*common, "--runner=PortableRunner", *flags]
        failure(code, says, release_frequency_list.main, job)
    assert not output.exists()


@pytest.mark.slow
def test_a_failure_behind_a_job_service_is_one_line(job_service, same_secret, tmp_path, capfd):
    check_failure(tmp_path, capfd, *job_service, "--environment_type=LOOPBACK")
