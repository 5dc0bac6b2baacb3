"""What cannot be had is said in a line, and the tests on engines are skipped with it."""

import os

import pytest

from runner_configs.parts import Unavailable, check_java, maven
from tests.jobs import python


def install(directory, name, script):
    (directory / "bin").mkdir(exist_ok=True)
    (directory / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / "bin" / name).chmod(0o755)


def test_java_is_of_the_versions_that_engines_run_on(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for version in ('"1.8.0_402"', '"25" 2025-09-16'):
        install(tmp_path, "java", f"echo 'openjdk version {version}' >&2")
        with pytest.raises(Unavailable, match="another version than 11 or 17"):
            check_java()
    install(tmp_path, "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    check_java()


def test_without_maven(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="there is no mvn"):
        maven(tmp_path / "pom.xml", tmp_path)


def test_a_failed_download_is_quoted_in_one_line(tmp_path, monkeypatch):
    script = "echo '[INFO] Scanning'; echo '[ERROR] Could not find artifact x:y:1'; exit 1"
    install(tmp_path, "mvn", script)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "pom.xml").write_text("<project/>")
    with pytest.raises(Unavailable, match=r"job server: \[ERROR\] Could not find artifact x:y:1$"):
        maven(tmp_path / "pom.xml", tmp_path, "package")


def test_the_command_says_it_in_one_line(repository, tmp_path):
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = python("-m", "runner_configs.spark", "up", cwd=repository, env=environment)
    assert done.returncode == 1
    assert done.stderr == "error: there is no java: install version 17, or set JAVA_HOME\n"
