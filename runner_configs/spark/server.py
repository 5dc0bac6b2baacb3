"""Beam's job server with Spark's local master in it: started and stopped."""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

from pipelines.endpoints import listens
from runner_configs.parts import (
    BEAM_VERSION,
    MENDED,
    ROOT,
    check_java,
    end,
    java,
    maven,
    running,
    stage_mended,
    wait_until,
)

JOB_ENDPOINT = "localhost:8199"

STAGE = ROOT / "out" / "spark"
LIBRARIES = STAGE / f"lib-{BEAM_VERSION}"
LOG, PID = STAGE / "job-server.log", STAGE / "job-server.pid"

_POM = pathlib.Path(__file__).parent / "pom.xml"
# What Spark has Java 17 open to it.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch"),
    *("sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)


def up() -> None:
    """Starts the job server if it is not up.

    Raises:
      Unavailable: something that it is made of cannot be had.
      TimeoutError: it does not answer.
    """
    check_java()
    STAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STAGE) as scratch:
        if not LIBRARIES.exists():
            arguments = ("dependency:copy-dependencies", "-DincludeScope=runtime")
            project = maven(_POM, pathlib.Path(scratch), *arguments)
            (project / "target" / "dependency").rename(LIBRARIES)
        stage_mended(STAGE, pathlib.Path(scratch))
    if not running(PID):
        _start()
    wait_until(lambda: listens(JOB_ENDPOINT))


def down() -> None:
    """Stops it."""
    for pid in running(PID):
        end(pid)
    PID.unlink(missing_ok=True)


def _start() -> None:
    host, _, port = JOB_ENDPOINT.partition(":")
    command = [
        *(java(), "-Xmx1g"),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        # Nothing of it listens on other interfaces.
        *("-Dspark.driver.host=localhost", "-Dspark.driver.bindAddress=127.0.0.1"),
        "-Dspark.ui.enabled=false",
        *(
            "-cp",
            f"{STAGE / MENDED}:{LIBRARIES}/*",
            "org.apache.beam.runners.spark.SparkJobServerDriver",
        ),
        "--spark-master-url=local[2]",
        *(f"--job-host={host}", f"--job-port={port}", "--artifact-port=0", "--expansion-port=0"),
        f"--artifacts-dir={STAGE / 'artifacts'}",
    ]
    with open(LOG, "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    PID.write_text(str(process.pid))
