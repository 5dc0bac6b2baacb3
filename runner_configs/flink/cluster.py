"""A Flink session cluster with Beam's job server: started, asked, broken and stopped."""

from __future__ import annotations

import http
import json
import os
import pathlib
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from typing import Any

from pipelines.endpoints import listens
from runner_configs.flink.staging import HOME, LIBRARIES, STAGE, stage
from runner_configs.parts import alive, end, java, running, wait_until

REST = "http://localhost:8081"
JOB_ENDPOINT = "localhost:8099"
TASK_MANAGERS = 2

CONF, LOGS, PIDS = STAGE / "conf", STAGE / "log", STAGE / "pid"
# The job server's copy of what jobs are made of.
ARTIFACTS = STAGE / "artifacts"

_HERE = pathlib.Path(__file__).parent
_CONFIG, _JOB_SERVER_SOURCE = _HERE / "config.yaml", _HERE / "JobServer.java"
_JOB_MANAGER, _TASK_MANAGERS, _JOB_SERVER = (
    PIDS / name
    for name in ("flink--standalonesession.pid", "flink--taskexecutor.pid", "job-server.pid")
)


def up() -> None:
    """Starts a job manager, two task managers and a job server; what is up already stays up.

    Raises:
      Unavailable: something that they are made of cannot be had.
      TimeoutError: they do not answer.
    """
    stage()
    for directory in (CONF, LOGS, PIDS):
        directory.mkdir(exist_ok=True)
    for template in (HOME / "conf").glob("log4j*.properties"):
        shutil.copy(template, CONF)
    shutil.copy(_CONFIG, CONF)
    if not running(_JOB_MANAGER):
        _script("jobmanager.sh", "start")
    for _ in range(TASK_MANAGERS - len(task_managers())):
        start_task_manager()
    if not running(_JOB_SERVER):
        _start_job_server()
    wait_until(lambda: _answers() and len(ask("/taskmanagers")["taskmanagers"]) >= TASK_MANAGERS)
    wait_until(lambda: listens(JOB_ENDPOINT))


def down() -> None:
    """Stops them, and all that their process groups hold."""
    for pid in [*running(_JOB_SERVER), *task_managers(), *running(_JOB_MANAGER)]:
        end(pid)
    shutil.rmtree(PIDS, ignore_errors=True)


def task_managers() -> list[int]:
    """The process ids of the task managers."""
    return running(_TASK_MANAGERS)


def processes() -> dict[str, list[int]]:
    """The process ids of each part."""
    return {
        "task managers": task_managers(),
        "job manager": running(_JOB_MANAGER),
        "job server": running(_JOB_SERVER),
    }


def start_task_manager() -> None:
    """Starts one more task manager."""
    _script("taskmanager.sh", "start")


def kill_task_manager() -> int:
    """Kills the task manager that was started last, as a machine's failure would; its id."""
    pid = task_managers()[-1]
    _kill(pid)
    return pid


def kill_job_manager() -> None:
    """Kills the job manager."""
    for pid in running(_JOB_MANAGER):
        _kill(pid)


def cancel(job: str) -> None:
    """Cancels a job, if it has not ended meanwhile."""
    request = urllib.request.Request(f"{REST}/jobs/{job}?mode=cancel", method="PATCH")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.CONFLICT:
            raise


def ask(path: str) -> Any:
    """What the REST interface answers."""
    return json.loads(ask_text(path))


def ask_text(path: str) -> bytes:
    """The same as it came; an error's text if there is nothing at the path."""
    try:
        with urllib.request.urlopen(REST + path, timeout=10) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        return error.read()


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid))


def _start_job_server() -> None:
    job_host, _, job_port = JOB_ENDPOINT.partition(":")
    command = [
        *(java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        # What is mended goes before what it replaces.
        *("-cp", ":".join(map(str, sorted(LIBRARIES.glob("*.jar"))))),
        f"-Dlog.file={LOGS / 'job-server.log'}",
        f"-Dlog4j.configurationFile={CONF / 'log4j.properties'}",
        str(_JOB_SERVER_SOURCE),
        f"--flink-master={REST.rpartition('/')[2]}",
        f"--job-host={job_host}",
        f"--job-port={job_port}",
        # Any free port.
        *("--artifact-port=0", "--expansion-port=0"),
        f"--artifacts-dir={ARTIFACTS}",
    ]
    with open(LOGS / "job-server.out", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    _JOB_SERVER.write_text(str(process.pid))


def _script(name: str, *arguments: str) -> None:
    directories = {"FLINK_CONF_DIR": CONF, "FLINK_LOG_DIR": LOGS, "FLINK_PID_DIR": PIDS}
    environment = {**os.environ, **{name: str(path) for name, path in directories.items()}}
    subprocess.run(
        [str(HOME / "bin" / name), *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _answers() -> bool:
    try:
        ask("/overview")
    except OSError:
        return False
    return True
