import csv
import errno
import functools
import io
import itertools
import json
import os
from hashlib import sha256
from unittest import mock

import pytest

from dp_transforms.budget.entry import NO_BUDGET
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    FREQUENCIES_FILE,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    REPORT_FILES,
)
from dp_transforms.files.output import CsvTable, ReleaseDirectory, csv_lines
from dp_transforms.files.paths import LocalFiles

STATEMENT = {"epsilon": 1.0}
ONE, TWO = (functools.partial(dict, {"list.csv": CsvTable((text,), [])}) for text in ("one", "two"))


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def published(text, epsilon=1.0):
    statement = {"epsilon": epsilon, "sha256": {"list.csv": sha256(text.encode()).hexdigest()}}
    return {"list.csv": text, PRIVACY_FILE: json.dumps(statement, indent=2) + "\n"}


def written(path):
    """Which file it is, and when it was written; reading it may change when it was last read."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


@pytest.fixture
def place(tmp_path):
    return lambda name="list.csv", **options: ReleaseDirectory(str(tmp_path), name, **options)


def test_a_release_and_its_statement_appear(tmp_path):
    directory = ReleaseDirectory(str(tmp_path / "a" / "b"), "list.csv")
    directory.check()
    assert not (tmp_path / "a").exists(), "a check leaves nothing behind"
    directory.publish(ONE, STATEMENT, NO_BUDGET)
    assert contents(tmp_path / "a" / "b") == published("one\n")


@pytest.mark.parametrize("epsilon", [1.0, 2.0])  # the same job twice, or another one
@pytest.mark.parametrize("links", [True, False])
def test_of_two_jobs_at_once_one_writes(tmp_path, place, monkeypatch, epsilon, links):
    begun = []

    def exists(path):
        is_there = os.path.exists(path)
        if path.endswith("list.csv") and not begun:  # the last that is looked for
            begun.append(path)
            place().publish(TWO, {"epsilon": epsilon}, NO_BUDGET)
        return is_there

    def no_link(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(LocalFiles, "exists", exists)
    if links:
        with pytest.raises(InputError, match="has appeared while the job ran"):
            place().publish(ONE, STATEMENT, NO_BUDGET)
        assert contents(tmp_path) == published("two\n", epsilon)
    else:  # nothing tells of the other there, but a release is made
        monkeypatch.setattr(os, "link", no_link)
        place().publish(ONE, STATEMENT, NO_BUDGET)
        assert contents(tmp_path) == published("one\n")


def test_no_text_makes_lines_of_its_own():
    # A name with a carriage return would be read as two, of which none was selected.
    names = ["ann\rbob", "\r", "a\r\nb", "a\nb\r", "", '"', ","]
    rows = [[name, str(place)] for place, name in enumerate(names)]
    text = csv_lines(rows).decode()
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == rows
    assert text.startswith('"ann\rbob",0\n"\r",1\n')


def test_an_earlier_release_is_not_replaced_by_accident(tmp_path, place):
    place().publish(ONE, STATEMENT, NO_BUDGET)
    with pytest.raises(InputError, match="has appeared while the job ran"):
        place().publish(TWO, STATEMENT, NO_BUDGET)
    assert contents(tmp_path) == published("one\n")


@pytest.mark.parametrize("name", ["list.csv", PRIVACY_FILE, "report.html"])
def test_what_is_left_of_an_earlier_release_is_one_too(tmp_path, place, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=f"{name} exists: give another --output, or --overwrite"):
        place().check()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_repeated_step_leaves_a_finished_release_alone(tmp_path, place, monkeypatch, overwrite):
    place().publish(ONE, STATEMENT, NO_BUDGET)
    (tmp_path / "report.html").write_text("of it")
    before = written(tmp_path / "list.csv")
    # Neither gone for a moment, nor gone for good where the disk fails.
    fail_at(monkeypatch, "rename", 1)
    place(overwrite=overwrite).publish(ONE, STATEMENT, NO_BUDGET)
    assert written(tmp_path / "list.csv") == before
    assert contents(tmp_path) == published("one\n") | {"report.html": "of it"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_one_directory_holds_one_job_s_release(tmp_path, place, overwrite):
    first = {FREQUENCIES_FILE: CsvTable(("one",), [])}
    place(FREQUENCIES_FILE).publish(lambda: first, STATEMENT, NO_BUDGET)
    before, tables = contents(tmp_path), {PARTITIONS_FILE: CsvTable(("two",), [])}
    other = place(PARTITIONS_FILE, overwrite=overwrite)
    for attempt in (other.check, lambda: other.publish(lambda: tables, {"epsilon": 2}, NO_BUDGET)):
        with pytest.raises(InputError, match=r"released_frequencies\.csv is another job's release"):
            attempt()
    assert contents(tmp_path) == before


def test_overwrite_replaces_a_release_with_its_report_and_nothing_else(tmp_path, place):
    place().publish(ONE, {"epsilon": 2}, NO_BUDGET)
    for name in (*REPORT_FILES, "notes.txt"):
        (tmp_path / name).write_text("of one")
    place(overwrite=True).check()
    place(overwrite=True).publish(TWO, STATEMENT, NO_BUDGET)
    assert contents(tmp_path) == published("two\n") | {"notes.txt": "of one"}


def fail_at(monkeypatch, method, call):
    """Makes one call of a method of LocalFiles fail, counting from 1."""
    first = [mock.DEFAULT] * (call - 1) + [OSError(28, "No space left on device")]
    effects = itertools.chain(first, itertools.repeat(mock.DEFAULT))
    failing = mock.Mock(wraps=getattr(LocalFiles, method), side_effect=effects)
    monkeypatch.setattr(LocalFiles, method, failing)


@pytest.mark.parametrize(
    ("method", "call", "earlier", "left"),
    [
        ("create", 1, False, set()),
        ("create", 2, False, set()),
        ("rename", 1, False, set()),
        # The statement goes first: a release without its statement is never seen.
        ("rename", 2, False, {PRIVACY_FILE}),
        # Nor is an old release with a new statement.
        ("rename", 1, True, {PRIVACY_FILE}),
    ],
)
def test_a_failure_leaves_no_part_of_a_release(
    tmp_path, place, monkeypatch, method, call, earlier, left
):
    if earlier:
        place().publish(TWO, {"epsilon": 2}, NO_BUDGET)
    with monkeypatch.context() as patched:
        fail_at(patched, method, call)
        with pytest.raises(InputError, match="cannot be written: no space left on device"):
            place(overwrite=earlier).publish(ONE, STATEMENT, NO_BUDGET)
    assert set(contents(tmp_path)) == left
    # A step that died between its files is completed.
    place(overwrite=earlier).publish(ONE, STATEMENT, NO_BUDGET)
    assert contents(tmp_path) == published("one\n")


def test_a_filesystem_that_is_not_there():
    with pytest.raises(InputError, match="no filesystem for such a path"):
        ReleaseDirectory("nosuch://bucket/release", "list.csv").check()
