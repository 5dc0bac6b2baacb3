"""Getting what engines are made of, and their processes."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).parents[1]

# The newest Beam whose runners are to be had wherever these tests run. A job server may be older
# than the SDK: what they speak is Beam's portability protocol.
BEAM_VERSION = "2.62.0"
MENDED = f"beam-mended-{BEAM_VERSION}.jar"
"""The name of what goes before Beam's own jars on a class path."""

_JAVA_VERSIONS = (11, 17)
_SECONDS_TO_START = 90.0


class Unavailable(Exception):
    """Something that an engine is made of cannot be had here."""


def check_java() -> None:
    """Makes sure of a Java that the engines run on.

    Raises:
      Unavailable: there is none.
    """
    try:
        done = subprocess.run([java(), "-version"], capture_output=True, text=True)
    except OSError:
        raise Unavailable("there is no java: install version 17, or set JAVA_HOME") from None
    version = re.search(r'version "(\d+)', done.stderr)
    if not version or int(version[1]) not in _JAVA_VERSIONS:
        raise Unavailable("java is of another version than 11 or 17: set JAVA_HOME to one of these")


def java() -> str:
    """The command for Java."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def maven(pom: pathlib.Path, scratch: pathlib.Path, *arguments: str) -> pathlib.Path:
    """Runs Maven on a copy of a project; the copy's directory.

    Raises:
      Unavailable: there is no Maven, or something cannot be downloaded.
    """
    if not shutil.which("mvn"):
        raise Unavailable("there is no mvn, which downloads Beam's job servers: install Maven")
    project = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    shutil.copy(pom, project)
    run(
        ["mvn", "-q", "-B", f"-Dbeam.version={BEAM_VERSION}", f"--file={project}", *arguments],
        "Maven cannot make the job server",
    )
    return project


def stage_mended(directory: pathlib.Path, scratch: pathlib.Path) -> None:
    """Puts a jar of what is mended in Beam into a directory, unless it is there; see its pom.xml.

    Raises:
      Unavailable: something that it is made of cannot be had.
    """
    pom = ROOT / "runner_configs" / "beam" / "pom.xml"
    if not is_made_from(directory / MENDED, pom):
        (maven(pom, scratch, "package") / "target" / MENDED).rename(directory / MENDED)


def is_made_from(file: pathlib.Path, source: pathlib.Path) -> bool:
    """Tells whether a file is there, and not older than its source."""
    return file.exists() and file.stat().st_mtime >= source.stat().st_mtime


def run(command: list[str], failure: str) -> None:
    """Runs a command that downloads something.

    Raises:
      Unavailable: it failed; with the first line of its error.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(": ".join([failure, *lines[:1]]))


def wait_until(condition: Callable[[], bool], seconds: float = _SECONDS_TO_START) -> None:
    """Waits for a condition.

    Raises:
      TimeoutError: it did not come true.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s; see the logs in {ROOT / 'out'}")
        time.sleep(0.2)


def running(file: pathlib.Path) -> list[int]:
    """Those process ids in a file that are alive."""
    if not file.exists():
        return []
    return [pid for pid in map(int, file.read_text().split()) if alive(pid)]


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end(pid: int) -> None:
    """Ends a process, kindly first."""
    os.kill(pid, signal.SIGTERM)
    try:
        wait_until(lambda: not alive(pid), 15)
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
