"""Directories of several releases of one job."""

import itertools

import pytest

import dp_transforms as dp
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


def test_a_job_refuses_the_days_of_another_one(job, tmp_path, failure):
    assert job("lists of days") == SUCCESS
    later = "--periods=2026-01-06..2026-01-07"
    for days in (later, "--periods=2026-01-08..2026-01-08"):
        failure(FAILURE, "out holds the release of another job", job, "lists of days", days)
    assert not (tmp_path / "out/2026-01-07").exists()


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
