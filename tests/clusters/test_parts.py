"""What cannot be had is said in a line, and the tests on engines are skipped with it."""

import os

import pytest

from runner_configs.parts import Unavailable, check_java, maven
from tests.jobs import python


def install(directory, name, script):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "there is no java"),
        ("echo 'openjdk version \"1.8.0_402\"' >&2", "another version than 11 or 17"),
        ("echo 'openjdk version \"25\" 2025-09-16' >&2", "another version than 11 or 17"),
        ("echo 'openjdk version \"17.0.15\" 2025-04-15' >&2", None),
    ],
)
def test_java(script, says, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if script:
        install(tmp_path / "bin", "java", script)
    if says is None:
        check_java()
    else:
        with pytest.raises(Unavailable, match=says):
            check_java()


def test_without_maven(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="there is no mvn"):
        maven(tmp_path / "pom.xml", tmp_path)


def test_a_failed_download_is_quoted_in_one_line(tmp_path, monkeypatch):
    script = "echo '[INFO] Scanning'; echo '[ERROR] Could not find artifact x:y:1'; exit 1"
    install(tmp_path / "bin", "mvn", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "pom.xml").write_text("<project/>")
    with pytest.raises(Unavailable, match=r"job server: \[ERROR\] Could not find artifact x:y:1$"):
        maven(tmp_path / "pom.xml", tmp_path, "package")


def test_the_command_says_it_in_one_line(repository, tmp_path):
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = python("-m", "runner_configs.spark", "up", cwd=repository, env=environment)
    assert done.returncode == 1
    assert done.stderr == "error: there is no java: install version 17, or set JAVA_HOME\n"
