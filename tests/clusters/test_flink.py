"""Both jobs on a real Flink session cluster, which these tests start if it is not up.

Skipped where Java, Maven or a download is not to be had; everything else is a failure.
"""

import signal
import subprocess
import sys
import time

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from dp_transforms.budget import Ledger
from runner_configs.flink import cluster
from runner_configs.parts import Unavailable
from tests.clusters.agreement import (
    JOBS,
    ROOT,
    SECRET,
    check_agreement,
    check_failure,
    check_formats,
    check_stored_pipeline,
    run,
    worker_pool_process,
    write_records,
)
from tests.clusters.leaks import leaks, logs, needles, rest_answers
from tests.clusters.ports import open_to_others, watched_ports
from tests.secret_search import collect_keys

pytestmark = pytest.mark.flink

SESSION, EXTERNAL = (
    f"--config={ROOT}/runner_configs/flink/{name}.yaml" for name in ("session", "external")
)


@pytest.fixture(scope="module")
def flink():
    was_up = bool(cluster.task_managers())
    try:
        cluster.up()
    except Unavailable as reason:
        pytest.skip(f"no Flink cluster: {reason}")
    yield
    if not was_up:
        cluster.down()


@pytest.fixture(scope="module")
def pool():
    with worker_pool_process():
        yield


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("config", [SESSION, EXTERNAL])
def test_agrees_with_the_in_process_runner(config, job, flink, pool, same_secret, tmp_path):
    check_agreement(job, tmp_path, config)
    # Both task managers took part.
    assert len(cluster.ask("/taskmanagers")["taskmanagers"]) == cluster.TASK_MANAGERS


@pytest.mark.parametrize("config", [SESSION, EXTERNAL])
def test_nothing_listens_on_other_interfaces(config, flink, pool, same_secret, tmp_path):
    processes = [pid for pids in cluster.processes().values() for pid in pids]
    records = write_records(tmp_path / "visits.csv")
    with watched_ports(processes) as addresses:
        before = set(addresses)
        run("frequency list", records, tmp_path / "release", config)
    ports = {port for _, port in addresses}
    # The cluster's own ports are seen, and those that task managers open for workers.
    assert {6123, 8081, 8099} <= ports and len(addresses) > len(before)
    assert open_to_others(addresses) == set()


def test_the_job_server_stores_no_secret(flink, same_secret, tmp_path, monkeypatch):
    keys = collect_keys(monkeypatch)
    check_stored_pipeline(cluster.JOB_ENDPOINT, keys, tmp_path / "loopback", SESSION)
    # With a pool of its own, the seal is in a file.
    seal = tmp_path / "seal"
    seal.write_bytes(bytes(range(32)))
    seal.chmod(0o600)
    monkeypatch.setenv("DP_SEAL_FILE", str(seal))
    with worker_pool_process("--port=0") as (_, address):
        flags = EXTERNAL, f"--environment_config={address}"
        check_stored_pipeline(cluster.JOB_ENDPOINT, keys, tmp_path / "external", *flags)


@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_an_interrupt_cancels_the_job_on_the_cluster(flink, tmp_path, sent, code, word):
    """Beam's job server alone lets it run on: it held two slots for a minute, or published."""
    records = write_records(tmp_path / "visits.csv")
    Ledger.create(tmp_path / "ledger", 1)
    earlier = {job["id"] for job in cluster.ask("/jobs")["jobs"]}
    command = [sys.executable, "-m", "pipelines.release_frequency_list", SESSION, "--epsilon=1"]
    command += [f"--input={records}", f"--output={tmp_path}/out", f"--ledger={tmp_path}/ledger"]
    command += ["--user_column=user", "--partition_column=page", "--max_partitions_per_user=2"]
    # Background jobs ignore SIGINT, and so do their children.
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    options = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True, **heard}
    with subprocess.Popen(command, **options) as process:
        while not (job := {job["id"] for job in cluster.ask("/jobs")["jobs"]} - earlier):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(sent)
        _, message = process.communicate(timeout=120)
    outcome = "no release was written, and nothing was spent"
    assert message == f"error: {word}, and the job was cancelled: {outcome}\n"
    assert process.returncode == code
    assert cluster.ask(f"/jobs/{job.pop()}")["state"] == "CANCELED"
    overview = cluster.ask("/overview")
    assert overview["slots-available"] == overview["slots-total"]
    assert Ledger.open(tmp_path / "ledger").spent().epsilon == 0
    assert not (tmp_path / "out").exists()


def test_every_format_is_released_alike(flink, same_secret, tmp_path):
    check_formats(tmp_path, SESSION)


def test_a_step_makes_more_than_fits_into_a_task_manager(flink):
    options = ["--runner=PortableRunner", f"--job_endpoint={cluster.JOB_ENDPOINT}"]
    options += ["--environment_type=LOOPBACK", "--execution_mode_for_batch=BATCH"]
    options += ["--parallelism=1"]
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        made = pipeline | beam.Create([600]) | beam.FlatMap(lambda n: map(bytes, n * [1 << 20]))
        sizes = made | beam.Reshuffle() | beam.Map(len) | beam.CombineGlobally(sum)
        assert_that(sizes, equal_to([600 << 20]))


def test_nothing_of_the_data_or_the_secret_is_shown(flink, pool, same_secret, tmp_path, capfd):
    # Not even by a job that fails at a record, of which the engine shows the exception.
    earlier = {job["id"] for job in cluster.ask("/jobs")["jobs"]}
    printed = check_failure(tmp_path, capfd, EXTERNAL)
    # A second attempt would have failed alike.
    (job,) = {job["id"] for job in cluster.ask("/jobs")["jobs"]} - earlier
    assert len(cluster.ask(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]) == 1
    shown = [("printed", printed.encode()), *logs(cluster.LOGS), *rest_answers()]
    # The search sees the failure, and would see its records.
    assert any(b"has records without a user" in text for name, text in shown if name != "printed")
    assert leaks(needles(SECRET.secret, [rb"\buser[0-9]+\b", rb"\bpage[0-9]+\b"]), shown) == {}
