"""Directories of every kind of release, read back whole and damaged."""

import hashlib
import json
import random
import re
import shutil

import pytest

import dp_transforms as dp
from dp_transforms import JobSecret
from dp_transforms.budget.entry import NO_BUDGET
from dp_transforms.engines.in_process import InProcess
from dp_transforms.files.filenames import NAMED_USERS_FILE, PARTITIONS_FILE, PRIVACY_FILE
from dp_transforms.files.frame_records import RecordArguments
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.reports.phrases import Words
from tests.cases import thorough_unless
from tests.jobs import without_digests
from tests.release_cases import CASES, each_period

SECRET = JobSecret.insecure_for_testing(5)
LOADED = [
    name
    for name, case in CASES.items()
    # No job releases counts without intervals, as this case has them.
    if (case.period is None or case.parts is each_period) and name != "public names"
]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("records") / "records.csv", random.Random(3)
    rows = [
        f"{rng.randrange(90)},{int(rng.paretovariate(0.6))},{rng.choice('fm')},2026-01-0{day}\n"
        for day in rng.choices(range(1, 5), k=900)
    ]
    path.write_text("user,page,sex,day\n" + "".join(rows))
    return path


LOADED_FIRST = [
    next(name for name in LOADED if type(CASES[name].spec) is kind)
    for kind in dict.fromkeys(type(CASES[name].spec) for name in LOADED)
]
"""The first case of each kind."""


@pytest.fixture(scope="module", params=thorough_unless(LOADED, LOADED_FIRST))
def directory(request, records, tmp_path_factory):
    """The directory of a release, or of the first part of several."""
    case, path = CASES[request.param], tmp_path_factory.mktemp("release")
    columns = {"groups": case.columns}
    if case.period is not None:
        columns = {"time": "day", "period": case.period}
    source = RecordArguments(str(records), "user", "page", False, **columns).open()
    released = case.spec.release(InProcess(source, SECRET, num_buckets=3))
    for spec, elements, entries in case.parts(case.spec, released):
        statement = spec.statement(source.partition_fields) | entries
        statement |= spec.tables.entries(elements)
        tables = spec.tables.make(elements, statement)
        place = ReleaseDirectory(str(path), spec.tables.file_name)
        place.publish(lambda tables=tables: tables, statement, NO_BUDGET)
        return path


def tables_in(directory):
    """The names of the tables that ``load`` reads."""
    return sorted({path.name for path in directory.glob("*.csv")} - {NAMED_USERS_FILE})


def test_a_missing_file_is_named(directory, tmp_path):
    dp.load(directory)
    for name in [*tables_in(directory), PRIVACY_FILE]:
        copy = shutil.copytree(directory, tmp_path / name)
        (copy / name).unlink()
        with pytest.raises(ValueError, match=rf"{re.escape(name)} cannot be read: no such file"):
            dp.load(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff"], ids=repr)
def test_a_damaged_file_is_named(directory, tmp_path, content):
    for name in [*tables_in(directory), PRIVACY_FILE]:
        copy = without_digests(shutil.copytree(directory, tmp_path / name))
        # A table of names may be so short.
        (copy / name).write_bytes(b"\xff" if name == PARTITIONS_FILE else content)
        with pytest.raises(ValueError, match=rf"/{re.escape(name)} is not as it was released"):
            dp.load(copy)


def test_a_table_that_was_cut_or_changed_is_named(directory, tmp_path):
    for name in tables_in(directory):
        copy = shutil.copytree(directory, tmp_path / name)
        path = copy / name
        header, *lines = path.read_bytes().splitlines(keepends=True)
        cut, doubled = lines[:-1], lines[-1:] + lines
        for rows in (cut, doubled, [row.replace(b"\n", b"\r\n") for row in lines]):
            path.write_bytes(b"".join([header, *rows]))
            with pytest.raises(ValueError, match=rf"/{re.escape(name)} is not as it was released"):
                dp.load(copy)


def test_a_release_of_an_earlier_version_has_no_digests(directory, tmp_path):
    earlier = dp.load(without_digests(shutil.copytree(directory, tmp_path / "earlier")))
    now = dp.load(directory)
    assert repr(earlier) == repr(now) and earlier.statement == now.statement


def test_digests_are_those_of_all_files(directory):
    digests = json.loads((directory / PRIVACY_FILE).read_text())["sha256"]
    assert digests == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if path.name != PRIVACY_FILE
    }


def test_a_page_has_the_words_that_were_given_for_partitions_and_users(directory):
    page, _ = dp.load(directory).page(Words("articles", "visitors"))
    content, _, statement = re.sub('src="[^"]*"', "", page).partition("Privacy statement")
    assert not re.search("partition|user", content, re.IGNORECASE)
    is_of_graph = "degree" in dp.load(directory).statement
    assert ("Here a partition is an article, and a user is a visitor." in statement) != is_of_graph


def test_a_release_that_was_loaded_is_saved_as_it_was(directory, tmp_path):
    dp.load(directory).save(tmp_path)
    for path in directory.iterdir():
        if path.name != NAMED_USERS_FILE:
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
