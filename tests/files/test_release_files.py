import csv
import json
import shutil

import pytest

import dp_transforms as dp
from dp_transforms.errors import InputError
from dp_transforms.releases.directory import load, release_directories
from dp_transforms.releases.periods import write_all_periods
from pipelines.release_frequency_list import main as release
from pipelines.select_partitions import main as select
from tests.jobs import job_flags

ROWS = [(f"u{i % 500}", f'page "{i % 5}", so', i % 4, "ab"[i % 2]) for i in range(3000)]
PERIODS = ("--periods=2026-02-01..2026-02-04", "--time_column=at", "--max_periods_per_user=2")


@pytest.fixture
def flags(tmp_path):
    lines = [[user, page, f"2026-02-{1 + day:02}", group] for user, page, day, group in ROWS]
    with open(tmp_path / "records.csv", "w", newline="") as file:
        csv.writer(file).writerows([["user", "page", "at", "tongue"], *lines])
    return lambda *more: job_flags(tmp_path, "--epsilon=90", "--max_partitions_per_user=2", *more)


@pytest.mark.parametrize(
    ("job", "period", "names"),
    [
        (select, "day", [f"2026-02-{day:02}" for day in range(1, 5)]),
        (release, "week", ["2026-01-26", "2026-02-02"]),
        (release, "month", ["2026-02"]),
    ],
)
def test_periods_are_read_back_and_written_into_one_file(flags, tmp_path, job, period, names):
    more = [] if job is release else ["--delta=1e-6", "--noisy_counts"]
    assert job(flags(f"--period={period}", *PERIODS, *more)) == 0
    releases = dp.load(tmp_path / "out")
    assert (releases.kind, [*releases]) == (period, names)
    file = "released_frequencies.csv" if job is release else "released_partitions.csv"
    path = write_all_periods(str(tmp_path / "out"), names, file)
    with open(path, newline="") as opened:
        header, *rows = csv.reader(opened)
    expected = []
    for name in names:
        with open(tmp_path / "out" / name / file, newline="") as opened:
            head, *period_rows = csv.reader(opened)
        expected += [[name, *row] for row in period_rows]
        assert releases[name] == dp.load(tmp_path / "out" / name)
    assert header == ["period", *head] and rows == expected and len(rows) > 0
    shutil.rmtree(tmp_path / "out" / names[0])
    with pytest.raises(InputError, match="cannot be read"):
        write_all_periods(str(tmp_path / "out"), names, file)


def test_what_is_no_release(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load(str(tmp_path))
    (tmp_path / "day").mkdir()
    (tmp_path / "day/privacy.json").write_text('{"epsilon": 1}')
    with pytest.raises(InputError, match="cannot be read as a release: it has none of the files"):
        load(str(tmp_path))
    (tmp_path / "day/privacy.json").write_text('{"periods": {"of": "day"}}')
    with pytest.raises(InputError, match="does not hold a release for each period"):
        load(str(tmp_path))
    with pytest.raises(InputError, match="it is a file, and a release is a directory"):
        load(str(tmp_path / "day/privacy.json"))
    assert release_directories(str(tmp_path)) == [str(tmp_path)]


def test_a_release_of_an_unknown_kind_is_named(tmp_path):
    (tmp_path / "released_of_another_version.csv").write_text("users\n3\n")
    with pytest.raises(InputError, match=r"another_version\.csv is of a kind that this version"):
        load(str(tmp_path))


@pytest.mark.parametrize(("name", "shown"), [("epsilon", 0.1), ("delta", 1e-3)])
def test_an_amount_that_is_not_the_exact_one_is_refused(name, shown, tmp_path):
    data = {"who": list(range(500)), "page": ["/a"] * 500}
    columns = {"user": "who", "partition": "page", "max_partitions_per_user": 1}
    dp.select(data, **columns, epsilon="1/3", delta=1e-6).save(tmp_path / "names")
    path = tmp_path / "names" / "privacy.json"
    assert dp.load(tmp_path / "names").statement["epsilon_exact"] == "1/3"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: shown}))
    with pytest.raises(InputError, match=r"privacy\.json is not as it was released"):
        dp.load(tmp_path / "names")
