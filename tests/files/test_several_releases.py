"""Directories of several releases of one job."""

import errno
import itertools
from unittest import mock

import pytest

import dp_transforms as dp
from dp_transforms.files.filenames import GROUPS_FILE, REPORT_FILE
from dp_transforms.files.paths import LocalFiles
from pipelines import DONE_BEFORE, FAILURE, SUCCESS
from pipelines.__main__ import main
from tests.jobs import instead, job_flags
from tests.other_filesystem import SCHEME

BY_DAY = (
    "--period=day",
    "--time_column=at",
    "--periods=2026-01-05..2026-01-06",
    "--max_periods_per_user=2",
)
JOBS = {
    "a list": ("release",),
    "names": ("select", "--delta=1e-6"),
    "a list and names": ("release-all", "--delta=1e-6"),
    "lists of days": ("release", *BY_DAY),
    "names of days": ("select", "--delta=1e-6", *BY_DAY),
}


@pytest.fixture
def job(tmp_path):
    """Runs a job of ``JOBS``, with more flags."""
    lines = [f"{user},p{user % 3},2026-01-0{5 + user % 4}\n" for user in range(200)]
    (tmp_path / "records.csv").write_text("user,page,at\n" + "".join(lines))

    def run(kind, *more):
        command, *flags = JOBS[kind]
        return main([command, *job_flags(tmp_path, *instead([*flags, "--epsilon=90"], *more))])

    return run


def files_in(directory):
    """The files below a directory, with their content."""
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


@pytest.mark.thorough
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(JOBS, 2)])
def test_a_directory_refuses_a_job_of_another_kind(job, tmp_path, failure, first, second, more):
    assert job(first) == SUCCESS
    before = files_in(tmp_path / "out")
    (tmp_path / "records.csv").write_text('user,page,at\n1,"a broken record\n')
    line = failure(FAILURE, "give another --output", job, second, *more)
    # Nothing was read, so nothing was spent.
    assert f"{tmp_path}/out" in line and "another job" in line and "record" not in line
    assert files_in(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("kind", "part"),
    [("lists of days", "2026-01-05"), ("a list and names", "frequency_list")],
)
def test_one_of_several_releases_is_not_replaced(job, tmp_path, failure, monkeypatch, kind, part):
    assert job(kind) == SUCCESS
    before = files_in(tmp_path / "out")
    directory = tmp_path / "out" / part
    monkeypatch.chdir(directory)
    (tmp_path / "records.csv").write_text('user,page,at\n1,"a broken record\n')
    for output in (directory, f"{directory}/", "."):
        flags = (f"--output={output}", "--overwrite")
        line = failure(FAILURE, "holds one of several releases of a job", job, "a list", *flags)
        assert f"{tmp_path}/out: give another --output" in line and "record" not in line
    released = dp.release_counts([3, 1], epsilon=9, max_partitions_per_user=1)
    with pytest.raises(ValueError, match=r"several releases of a job.*give another directory"):
        released.save(directory, overwrite=True)
    assert files_in(tmp_path / "out") == before


def test_a_period_that_is_saved_by_itself_is_saved_again(job, tmp_path):
    assert job("lists of days") == SUCCESS
    days = dp.load(tmp_path / "out")
    for _ in range(2):
        for day, release in days.items():
            release.save(tmp_path / "copies" / day, overwrite=True)
    assert dp.load(tmp_path / "copies/2026-01-05").released == days["2026-01-05"].released


def test_a_job_refuses_the_days_of_another_one(job, tmp_path, failure):
    assert job("lists of days") == SUCCESS
    later = "--periods=2026-01-06..2026-01-07"
    for days in (later, "--periods=2026-01-08..2026-01-08"):
        failure(FAILURE, "out holds the release of another job", job, "lists of days", days)
    assert not (tmp_path / "out/2026-01-07").exists()


@pytest.mark.parametrize("place", ["", SCHEME], ids=["here", "elsewhere"])
@pytest.mark.parametrize("kind", ["lists of days", "names of days"])
def test_overwrite_replaces_all_days_with_their_page_and_nothing_else(job, tmp_path, kind, place):
    out, output = tmp_path / "out", f"--output={place}{tmp_path}/out"
    other_formats = ["--output_format=jsonl"]
    assert job(kind, output, "--periods=2026-01-05..2026-01-08", *other_formats) == SUCCESS
    assert len(list(out.glob("2026-01-*"))) == 4
    for name in (REPORT_FILE, GROUPS_FILE, f"2026-01-07/{REPORT_FILE}"):
        (out / name).write_text("of the first job")
    # Users' own files: two beside releases, and a directory that only looks like a day.
    own = {"notes.txt": b"mine", "2026-01-08/notes.txt": b"mine", "2026-01-09/list.csv": b"mine"}
    own["2026-01-10/privacy.json"] = b'{"period": "2026-01-11"}'
    for name, content in own.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(content)
    assert job(kind, output, "--periods=2026-01-05..2026-01-06", "--overwrite") == SUCCESS
    after = files_in(out)
    table = "released_frequencies.csv" if "lists" in kind else "released_partitions.csv"
    days = {f"2026-01-0{day}/{name}" for day in (5, 6) for name in (table, "privacy.json")}
    assert after.keys() == {"all_periods.csv", *days, *own}
    assert {name: after[name] for name in own} == own
    if not place:
        assert not (out / "2026-01-07").exists()
        assert [*dp.load(out)] == ["2026-01-05", "2026-01-06"]


@pytest.mark.parametrize("name", ["all_periods.csv", REPORT_FILE])
def test_what_is_left_of_earlier_releases_is_one_too(job, tmp_path, failure, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("")
    failure(FAILURE, f"{name} exists: give another --output, or", job, "lists of days")


def test_a_full_disk_leaves_the_days_of_the_earlier_job(job, tmp_path, failure, monkeypatch):
    assert job("lists of days", "--periods=2026-01-05..2026-01-08") == SUCCESS
    before, fewer = files_in(tmp_path / "out"), ("--periods=2026-01-05..2026-01-06", "--overwrite")
    with monkeypatch.context() as patched:
        full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        patched.setattr(LocalFiles, "create", full)
        failure(FAILURE, "no space left on device", job, "lists of days", *fewer)
    assert files_in(tmp_path / "out") == before
    rename, renamed = LocalFiles.rename, []

    def second_fails(sources, targets):
        renamed.append(targets)
        if len(renamed) > 2:  # the first day is done then
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(sources, targets)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "rename", second_fails)
        failure(FAILURE, "no space left on device", job, "lists of days", *fewer)
    assert not (tmp_path / "out/2026-01-08").exists()
    assert job("lists of days", *fewer) == SUCCESS
    assert len(dp.load(tmp_path / "out")) == 2


def test_a_release_that_a_user_has_put_below_is_another_one(job, tmp_path):
    out = tmp_path / "out"
    assert job("names", f"--output={out}/names of pages") == SUCCESS
    (out / "damaged").mkdir()
    (out / "damaged/privacy.json").write_text("{")
    for kind in ("a list", "lists of days"):
        assert job(kind, f"--output={out}") == SUCCESS
        for path in out.glob("*.*"):
            path.unlink()


@pytest.mark.parametrize("kind", JOBS)
def test_a_job_on_another_filesystem_finds_what_is_there(job, tmp_path, failure, kind):
    elsewhere = f"--output={SCHEME}{tmp_path}/out"
    assert job(kind, elsewhere) == SUCCESS
    before = files_in(tmp_path / "out")
    assert job(kind, elsewhere) == DONE_BEFORE
    for other in JOBS.keys() - {kind}:
        failure(FAILURE, "another job", job, other, elsewhere)
    assert files_in(tmp_path / "out") == before


def test_save_replaces_all_days(tmp_path):
    data = {"who": list(range(90)), "page": ["a", "b", "c"] * 30, "at": ["2026-01-05"] * 90}
    names = {"user": "who", "partition": "page", "max_partitions_per_user": 1, "epsilon": 50}
    span = {"time": "at", "period": "day", "max_periods_per_user": 1}
    for days in ("2026-01-05..2026-01-07", "2026-01-06..2026-01-06"):
        released = dp.release_by_period(data, **names, **span, periods=days)
        released.save(tmp_path, overwrite=True)
        assert {path.name for path in tmp_path.iterdir()} == {*released}
        assert [*dp.load(tmp_path)] == [*released]
        (tmp_path / REPORT_FILE).write_text("of these days")


def test_save_refuses_what_another_job_has_written(tmp_path):
    data = {"who": list(range(90)), "page": ["a", "b", "c"] * 30, "at": ["2026-01-05"] * 90}
    names = {"user": "who", "partition": "page", "max_partitions_per_user": 1, "epsilon": 50}
    span = {"time": "at", "period": "day", "periods": "2026-01-05..2026-01-06"}
    made = {
        "list": dp.release(data, **names),
        "both": dp.release_and_select(data, **names, delta=1e-6),
        "days": dp.release_by_period(data, **names, **span, max_periods_per_user=1),
    }
    for first, second in itertools.permutations(made, 2):
        directory = tmp_path / f"{first}, {second}"
        made[first].save(directory)
        before = files_in(directory)
        for overwrite in (False, True):
            with pytest.raises(ValueError, match=r"another job.*: give another directory"):
                made[second].save(directory, overwrite)
        assert files_in(directory) == before
        made[first].save(directory, overwrite=True)
        assert files_in(directory) == before
