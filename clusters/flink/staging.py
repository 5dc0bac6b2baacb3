"""Flink from PyPI and Beam's job server for it from Maven Central, put together in a directory."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

FLINK_VERSION = "1.19.3"
# The newest Flink runner that is to be had wherever these tests run. A job server may be older than
# the SDK: what they speak is Beam's portability protocol.
BEAM_VERSION = "2.62.0"

_HERE = pathlib.Path(__file__).parent
ROOT = _HERE.parents[1]
STAGE = ROOT / "out" / "flink"
HOME = STAGE / f"flink-{FLINK_VERSION}"
JOB_SERVER_JAR = STAGE / f"flink-job-server-{BEAM_VERSION}.jar"

_JAVA_VERSIONS = (11, 17)
# What a session cluster needs of Flink's libraries; the others are for its SQL and Python.
_LIBRARIES = ("flink-dist", "log4j")


class Unavailable(Exception):
    """Something that the cluster is made of can not be had here."""


def stage() -> None:
    """Downloads what is not there yet.

    Raises:
      Unavailable: there is no Java, or a download failed.
    """
    _check_java()
    STAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STAGE) as scratch:
        if not HOME.exists():
            _stage_flink(pathlib.Path(scratch))
        if not JOB_SERVER_JAR.exists():
            _stage_job_server(pathlib.Path(scratch))


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True)
    except OSError:
        raise Unavailable("there is no java: install version 17, or set JAVA_HOME") from None
    version = re.search(r'version "(\d+)', done.stderr)
    if not version or int(version[1]) not in _JAVA_VERSIONS:
        raise Unavailable("java is of another version than 11 or 17: set JAVA_HOME to one of these")


def _stage_flink(scratch: pathlib.Path) -> None:
    # The scripts are in a wheel for certain Pythons, of which nothing is run here.
    scripts = ("apache-flink", "--only-binary=:all:", "--python-version=3.11")
    for package, *flags in (scripts, ("apache-flink-libraries",)):
        command = ["-m", "pip", "download", "--quiet", "--no-deps", *flags, f"--dest={scratch}"]
        _run([sys.executable, *command, f"{package}=={FLINK_VERSION}"], "PyPI has no {0}", package)
    home = scratch / "home"
    (wheel,) = scratch.glob("apache_flink-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("pyflink/bin/", "pyflink/conf/")) and not name.endswith("/"):
                archive.extract(name, home)
    home /= "pyflink"
    (libraries,) = scratch.glob("apache*flink*libraries*")
    with tarfile.open(libraries) as archive:
        for member in archive:
            path = pathlib.PurePath(member.name)
            folder, name = path.parent.name, path.name
            wanted = folder == "bin" or (folder == "lib" and name.startswith(_LIBRARIES))
            if member.isfile() and wanted:
                target = home / folder / name
                target.parent.mkdir(exist_ok=True)
                with archive.extractfile(member) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file)
    for script in (home / "bin").iterdir():
        script.chmod(0o755)
    home.rename(HOME)


def _stage_job_server(scratch: pathlib.Path) -> None:
    if not shutil.which("mvn"):
        raise Unavailable("there is no mvn, which downloads Beam's job server: install Maven")
    project = scratch / "job_server"
    project.mkdir()
    shutil.copy(_HERE / "pom.xml", project)
    line = FLINK_VERSION.rpartition(".")[0]
    command = ["mvn", "-q", "-B", f"-Dbeam.version={BEAM_VERSION}", f"-Dflink.line={line}"]
    _run([*command, f"--file={project}", "package"], "Maven can not make the {0}", "job server")
    (project / "target" / JOB_SERVER_JAR.name).rename(JOB_SERVER_JAR)


def _run(command: list[str], failure: str, what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unavailable(": ".join([failure.format(what), *lines[:1]]))
