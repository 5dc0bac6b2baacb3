"""Both jobs on Spark, whose local master these tests start in Beam's job server if it is not up.

Skipped where Java, Maven or a download is not to be had; everything else is a failure.
"""

import pytest

from runner_configs.parts import Unavailable, running
from runner_configs.spark import server
from tests.clusters.agreement import (
    JOBS,
    ROOT,
    check_agreement,
    check_formats,
    check_stored_pipeline,
    run,
    write_records,
)
from tests.clusters.ports import open_to_others, watched_ports
from tests.secret_search import collect_keys

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark():
    was_up = bool(running(server.PID))
    try:
        server.up()
    except Unavailable as reason:
        pytest.skip(f"no Spark: {reason}")
    yield
    if not was_up:
        server.down()


@pytest.mark.parametrize("job", JOBS)
def test_agrees_with_the_in_process_runner(job, spark, same_secret, tmp_path):
    check_agreement(job, tmp_path, f"--config={ROOT}/runner_configs/spark/local.yaml")


def test_nothing_listens_on_other_interfaces(spark, same_secret, tmp_path):
    records = write_records(tmp_path / "visits.csv")
    config = f"--config={ROOT}/runner_configs/spark/local.yaml"
    with watched_ports(running(server.PID)) as addresses:
        before = set(addresses)
        run("frequency list", records, tmp_path / "release", config)
    # The job server's port is seen, and those that Spark opens for workers.
    assert 8199 in {port for _, port in addresses} and len(addresses) > len(before)
    assert open_to_others(addresses) == set()


def test_the_job_server_stores_no_secret(spark, same_secret, tmp_path, monkeypatch):
    config = f"--config={ROOT}/runner_configs/spark/local.yaml"
    check_stored_pipeline(server.JOB_ENDPOINT, collect_keys(monkeypatch), tmp_path, config)


def test_every_format_is_released_alike(spark, same_secret, tmp_path):
    check_formats(tmp_path, f"--config={ROOT}/runner_configs/spark/local.yaml")
