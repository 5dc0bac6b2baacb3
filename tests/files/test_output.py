import csv
import errno
import functools
import io
import json
import os

import pyarrow as pa
import pytest

from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    FREQUENCIES_FILE,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    REPORT_FILES,
)
from dp_transforms.files.output import ReleaseDirectory, csv_lines
from dp_transforms.files.paths import LocalFiles
from pipelines.release_job import Writer, name_tables

STATEMENT = {"epsilon": 1.0}


def contents(directory):
    return {path.name: path.read_text() for path in directory.iterdir()}


def published(text):
    return {"list.csv": text, PRIVACY_FILE: '{\n  "epsilon": 1.0\n}\n'}


def test_a_release_and_its_statement_appear(tmp_path):
    directory = ReleaseDirectory(str(tmp_path / "a" / "b"), "list.csv")
    directory.check()
    assert not (tmp_path / "a").exists(), "a check leaves nothing behind"
    directory.publish({"list.csv": [b"one\n", b"two\n"]}, STATEMENT)
    assert contents(tmp_path / "a" / "b") == published("one\ntwo\n")


@pytest.mark.parametrize("epsilon", [1.0, 2.0])  # the same job twice, or another one
@pytest.mark.parametrize("links", [True, False])
def test_of_two_jobs_at_once_one_writes(tmp_path, monkeypatch, epsilon, links):
    one, other = (ReleaseDirectory(str(tmp_path), "list.csv", beside=("b.csv",)) for _ in range(2))
    begun = []

    def exists(path):
        found = os.path.exists(path)
        if path.endswith("list.csv") and not begun:  # the last that is looked for
            begun.append(path)
            other.publish(tables("other"), {"epsilon": epsilon})
        return found

    def tables(text):
        return {name: [text.encode()] for name in ("list.csv", "b.csv")}

    def no_link(source, target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(LocalFiles, "exists", exists)
    if links:
        with pytest.raises(InputError, match="has appeared while the job ran"):
            one.publish(tables("one"), STATEMENT)
        written = "other"
    else:  # nothing tells of the other there, but a release is made
        monkeypatch.setattr(os, "link", no_link)
        one.publish(tables("one"), STATEMENT)
        written, epsilon = "one", 1.0
    told = f'{{\n  "epsilon": {epsilon}\n}}\n'
    whole = {"list.csv": written, "b.csv": written, PRIVACY_FILE: told}
    assert contents(tmp_path) == whole


def test_no_text_makes_lines_of_its_own():
    # A name with a carriage return would be read as two, of which none was selected.
    names = ["ann\rbob", "\r", "a\r\nb", "a\nb\r", "", '"', ","]
    rows = [[name, str(place)] for place, name in enumerate(names)]
    text = csv_lines(rows).decode()
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == rows
    assert text.startswith('"ann\rbob",0\n"\r",1\n')


def test_an_earlier_release_is_not_replaced_by_accident(tmp_path):
    ReleaseDirectory(str(tmp_path), "list.csv").publish({"list.csv": [b"one"]}, STATEMENT)
    other = ReleaseDirectory(str(tmp_path), "list.csv")
    with pytest.raises(InputError, match=r"list\.csv exists: give another --output, or --overwr"):
        other.check()
    with pytest.raises(InputError, match="has appeared while the job ran"):
        other.publish({"list.csv": [b"two"]}, STATEMENT)
    assert contents(tmp_path) == published("one")


def test_a_statement_alone_is_an_earlier_release_too(tmp_path):
    (tmp_path / PRIVACY_FILE).write_text("{}")
    with pytest.raises(InputError, match=r"privacy\.json exists"):
        ReleaseDirectory(str(tmp_path), "list.csv").check()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_repeated_step_leaves_a_finished_release_alone(tmp_path, monkeypatch, overwrite):
    directory = ReleaseDirectory(str(tmp_path), "list.csv", overwrite)
    directory.publish({"list.csv": [b"one"]}, STATEMENT)
    (tmp_path / "report.html").write_text("of it")
    before = (tmp_path / "list.csv").stat()
    # Neither gone for a moment, nor gone for good where the disk fails.
    fail_at(monkeypatch, "rename", 1)
    directory.publish({"list.csv": [b"one"]}, STATEMENT)
    assert (tmp_path / "list.csv").stat() == before
    assert contents(tmp_path) == published("one") | {"report.html": "of it"}


def test_a_step_that_died_between_its_files_is_completed(tmp_path, monkeypatch):
    directory = ReleaseDirectory(str(tmp_path), "list.csv")
    with monkeypatch.context() as patched:
        fail_at(patched, "rename", 2)
        with pytest.raises(InputError):
            directory.publish({"list.csv": [b"one"]}, STATEMENT)
    directory.publish({"list.csv": [b"one"]}, STATEMENT)
    assert contents(tmp_path) == published("one")


@pytest.mark.parametrize("overwrite", [False, True])
def test_one_directory_holds_one_job_s_release(tmp_path, overwrite):
    ReleaseDirectory(str(tmp_path), FREQUENCIES_FILE).publish(
        {FREQUENCIES_FILE: [b"one"]}, STATEMENT
    )
    before = contents(tmp_path)
    other = ReleaseDirectory(str(tmp_path), PARTITIONS_FILE, overwrite)
    for attempt in (
        other.check,
        lambda: other.publish({PARTITIONS_FILE: [b"two"]}, {"epsilon": 2}),
    ):
        with pytest.raises(InputError, match=r"released_frequencies\.csv is another job's release"):
            attempt()
    assert contents(tmp_path) == before


def test_a_report_goes_with_its_release(tmp_path):
    ReleaseDirectory(str(tmp_path), "list.csv").publish({"list.csv": [b"one"]}, {"epsilon": 2})
    for name in REPORT_FILES:
        (tmp_path / name).write_text("of one")
    directory = ReleaseDirectory(str(tmp_path), "list.csv", overwrite=True)
    directory.check()
    directory.publish({"list.csv": [b"two"]}, STATEMENT)
    assert contents(tmp_path) == published("two")
    # Nor is one left that has lost its release.
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "report.html").write_text("of one")
    with pytest.raises(InputError, match=r"report\.html exists"):
        ReleaseDirectory(str(tmp_path / "alone"), "list.csv").check()


def test_overwrite_replaces_both_files_and_nothing_else(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    ReleaseDirectory(str(tmp_path), "list.csv").publish({"list.csv": [b"one"]}, {"epsilon": 2})
    directory = ReleaseDirectory(str(tmp_path), "list.csv", overwrite=True)
    directory.check()
    directory.publish({"list.csv": [b"two"]}, STATEMENT)
    assert contents(tmp_path) == published("two") | {"notes.txt": "mine"}


def fail_at(monkeypatch, method, call):
    """Makes one call of a method of LocalFiles fail, counting from 1."""
    calls = 0
    real = getattr(LocalFiles, method)

    def failing(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(LocalFiles, method, failing)


@pytest.mark.parametrize(
    ("method", "call", "left"),
    [
        ("create", 1, set()),
        ("create", 2, set()),
        ("rename", 1, set()),
        # The statement goes first: a release without its statement is never seen.
        ("rename", 2, {PRIVACY_FILE}),
    ],
)
def test_a_failure_leaves_no_part_of_a_release(tmp_path, monkeypatch, method, call, left):
    fail_at(monkeypatch, method, call)
    with pytest.raises(InputError, match="cannot be written: no space left on device"):
        ReleaseDirectory(str(tmp_path), "list.csv").publish({"list.csv": [b"one"]}, STATEMENT)
    assert set(contents(tmp_path)) == left


def test_a_failure_never_pairs_an_old_release_with_a_new_statement(tmp_path, monkeypatch):
    directory = ReleaseDirectory(str(tmp_path), "list.csv", overwrite=True)
    directory.publish({"list.csv": [b"one"]}, {"epsilon": 2})
    fail_at(monkeypatch, "rename", 1)
    with pytest.raises(InputError):
        directory.publish({"list.csv": [b"two"]}, STATEMENT)
    assert set(contents(tmp_path)) == {PRIVACY_FILE}


def test_content_that_fails_half_way(tmp_path):
    def pieces():
        yield b"one"
        raise RuntimeError("worker lost")

    with pytest.raises(RuntimeError):
        ReleaseDirectory(str(tmp_path), "list.csv").publish({"list.csv": pieces()}, STATEMENT)
    assert contents(tmp_path) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written: permission denied"):
        ReleaseDirectory(str(tmp_path), "list.csv").check()


def test_a_filesystem_that_is_not_there():
    with pytest.raises(InputError, match="no filesystem for such a path"):
        ReleaseDirectory("nosuch://bucket/release", "list.csv").check()


@pytest.mark.parametrize("names", [[], ["b", "a", "c"]])
def test_names_are_sorted_and_written_even_without_any(tmp_path, names):
    directory = ReleaseDirectory(str(tmp_path), PARTITIONS_FILE)
    write = Writer(directory, STATEMENT, functools.partial(name_tables, b"name\n", False))
    write({"budget": 1}, [pa.table({"partition": pa.array([name])}) for name in names], [7])
    assert (tmp_path / PARTITIONS_FILE).read_text().split() == ["name", *sorted(names)]
    said = json.loads((tmp_path / PRIVACY_FILE).read_text())
    assert said == STATEMENT | {"budget": 1, "users_of_other_partitions": 7}
