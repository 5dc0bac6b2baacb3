"""Flink from PyPI and Beam's runner for it from Maven Central, put together in a directory."""

from __future__ import annotations

import pathlib
import shutil
import sys
import tarfile
import tempfile
import zipfile

from runner_configs.parts import (
    BEAM_VERSION,
    ROOT,
    check_java,
    is_made_from,
    maven,
    run,
    stage_mended,
)

FLINK_VERSION = "1.19.3"

_PROJECT = pathlib.Path(__file__).parent / "pom.xml"
STAGE = ROOT / "out" / "flink"
HOME = STAGE / f"flink-{FLINK_VERSION}"
LIBRARIES = HOME / "lib"
_RUNNER = f"beam-runners-flink-{BEAM_VERSION}.jar"

# What a session cluster needs of Flink's libraries; the others are for its SQL and Python.
_LIBRARIES = ("flink-dist", "log4j")


def stage() -> None:
    """Downloads what is not there yet.

    Raises:
      Unavailable: there is no Java, or a download failed.
    """
    check_java()
    STAGE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STAGE) as scratch:
        if not HOME.exists():
            _stage_flink(pathlib.Path(scratch))
        # Of Flink's own libraries, Beam's classes outlive a task, and so do its workers. They are
        # loaded in the order of these names.
        stage_mended(LIBRARIES, pathlib.Path(scratch))
        if not is_made_from(LIBRARIES / _RUNNER, _PROJECT):
            _stage_runner(pathlib.Path(scratch))


def _stage_flink(scratch: pathlib.Path) -> None:
    # The scripts are in a wheel for certain Pythons, of which nothing is run here.
    scripts = ("apache-flink", "--only-binary=:all:", "--python-version=3.11")
    for package, *flags in (scripts, ("apache-flink-libraries",)):
        command = ["-m", "pip", "download", "--quiet", "--no-deps", *flags, f"--dest={scratch}"]
        command = [sys.executable, *command, f"{package}=={FLINK_VERSION}"]
        run(command, f"{package} cannot be downloaded from PyPI")
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


def _stage_runner(scratch: pathlib.Path) -> None:
    line = FLINK_VERSION.rpartition(".")[0]
    versions = (f"-Dflink.line={line}", f"-Dflink.version={FLINK_VERSION}")
    project = maven(_PROJECT, scratch, *versions, "package")
    (project / "target" / _RUNNER).rename(LIBRARIES / _RUNNER)
