"""Both jobs on a real Flink session cluster, which these tests start if it is not up.

Skipped where Java, Maven or a download is not to be had; everything else is a failure.
"""

import subprocess
import sys

import pytest

from clusters.flink import cluster
from clusters.parts import Unavailable
from tests.clusters.agreement import JOBS, ROOT, check_agreement

pytestmark = pytest.mark.flink


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
    command = [sys.executable, "-m", "pipelines.worker_pool"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert "workers can be had" in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("config", ["session", "external"])
def test_agrees_with_the_in_process_runner(config, job, flink, pool, same_secret, tmp_path):
    check_agreement(job, tmp_path, f"--config={ROOT}/runner_configs/flink/{config}.yaml")
    # Both task managers took part.
    assert len(cluster.ask("/taskmanagers")["taskmanagers"]) == cluster.TASK_MANAGERS
