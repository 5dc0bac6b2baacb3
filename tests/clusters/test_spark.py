"""Both jobs on Spark, whose local master these tests start in Beam's job server if it is not up.

Skipped where Java, Maven or a download is not to be had; everything else is a failure.
"""

import pytest

from runner_configs.parts import Unavailable, running
from runner_configs.spark import server
from tests.clusters.agreement import JOBS, ROOT, check_agreement, check_formats

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


def test_every_format_is_released_alike(spark, same_secret, tmp_path):
    check_formats(tmp_path, f"--config={ROOT}/runner_configs/spark/local.yaml")
