"""A list for each period of time, with a budget over all of them."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger
from dp_transforms.files.filenames import period_names, periods_of
from dp_transforms.mechanisms import FrequencyList
from pipelines import select_partitions, show
from pipelines.command_line import FAILURE, SUCCESS
from pipelines.release_frequency_list import main
from tests.jobs import flags_over, job_flags, statement

PERIODS = {
    "--user_column": "visitor",
    "--period": "day",
    "--time_column": "at",
    "--periods": "2026-01-05..2026-01-08",
    "--max_periods_per_user": "2",
}
VISITS = """visitor,page,at
1,home,2026-01-05 10:00
1,home,2026-01-06T11:00:00Z
2,home,2026-01-06
2,help,2026-01-07
3,help,2027-01-07
"""


def command(path, *more):
    flags = flags_over(
        PERIODS, f"--input={path}", "--epsilon=90", "--max_partitions_per_user=2", *more
    )
    return main(job_flags(path.parent, *flags))


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(VISITS)
    return path


def test_each_period_has_its_list_and_all_have_one_price(tmp_path, visits, capsys):
    book = tmp_path / "book.ledger"
    Ledger.create(book, 100)
    assert command(visits, f"--ledger={book}") == SUCCESS
    days = [f"2026-01-0{day}" for day in (5, 6, 7, 8)]
    files = [tmp_path / "out" / day / "released_frequencies.csv" for day in days]
    combined = tmp_path / "out" / "all_periods.csv"
    assert capsys.readouterr().out.split() == list(map(str, [*files, combined]))
    assert combined.read_text().splitlines() == [
        "period,frequency,multiplicity", f"{days[0]},1,1", f"{days[1]},2,1", f"{days[2]},1,1"
    ]  # fmt: skip
    lists = [list(FrequencyList.from_csv(file)) for file in files]
    assert lists == [[(1, 1)], [(2, 1)], [(1, 1)], []]
    assert Ledger.open(book).remaining().epsilon == 10
    said = statement(tmp_path, f"out/{days[1]}")
    assert (said["epsilon"], said["period"]) == (45, days[1])
    assert said["periods"] == {
        "of": "day",
        "first": days[0],
        "last": days[-1],
        "max_periods_per_user": 2,
        "epsilon_of_all": 90,
        "epsilon_of_all_exact": "90",
    }


def test_periods_that_an_earlier_job_has_left_are_not_taken_for_those_of_one(visits, capsys):
    assert command(visits) == SUCCESS
    assert command(visits, "--periods=2026-01-06..2026-01-09", "--overwrite") == SUCCESS
    assert show.main([f"{visits.parent}/out"]) == FAILURE
    assert "out holds periods of several jobs" in capsys.readouterr().err


def test_times_of_parquet_files(tmp_path):
    path = tmp_path / "visits.parquet"
    moment = datetime.datetime(2026, 1, 31, 23, 30, tzinfo=datetime.timezone.utc)
    times = pa.array([moment, moment], pa.timestamp("ns", "Asia/Tokyo"))
    pq.write_table(pa.table({"visitor": [1, 2], "page": ["a", "a"], "at": times}), path)
    span = "--periods=2026-01-15..2026-02-01"
    assert command(path, "--period=month", span) == SUCCESS
    # In UTC.
    released = FrequencyList.from_csv(tmp_path / "out/2026-01/released_frequencies.csv")
    assert list(released) == [(2, 1)]
    pq.write_table(pa.table({"visitor": [1], "page": ["a"], "at": [1.7e9]}), path)
    assert command(path, "--overwrite") == FAILURE
    pq.write_table(pa.table({"visitor": [1], "page": ["a"], "at": [1_700_000_000]}), path)
    assert command(path, "--overwrite") == FAILURE


def test_names_are_those_of_the_calendar():
    hours = period_names("hour", "2024-02-28..2024-03-01")
    assert len(hours) == 72 and hours[24] == "2024-02-29T00"
    weeks = period_names("week", "2024-01-01..2024-12-31")
    assert len(weeks) == 53 and {datetime.date.fromisoformat(w).weekday() for w in weeks} == {0}
    days = period_names("day", "2024-12-30..2025-01-02")
    times = pa.chunked_array([[f"{day}T05:06:07.8+02:00" for day in days]])
    for period, names in (
        ("day", days),
        ("week", ["2024-12-30"] * 4),
        ("month", ["2024-12"] * 2 + ["2025-01"] * 2),
        ("hour", [f"{day}T05" for day in days]),
    ):
        found = periods_of("a.csv", times, period).to_pylist()
        assert found == names
        assert set(found) <= set(period_names(period, "2024-12-30..2025-01-02"))


def test_periods_reach_the_last_day_of_the_calendar():
    assert period_names("day", "9999-12-30..9999-12-31") == ["9999-12-30", "9999-12-31"]
    assert period_names("hour", "9999-12-31..9999-12-31")[-1] == "9999-12-31T23"


def select_command(path, *more):
    columns = ["--partition_column=page", "--partition_column=part"]
    privacy = ["--epsilon=20", "--delta=1e-6", "--max_partitions_per_user=2"]
    usual = PERIODS | {"--periods": "2026-01-05..2026-01-07"}
    flags = flags_over(usual, f"--input={path}", *columns, *privacy, *more)
    return select_partitions.main(job_flags(path.parent, *flags))


@pytest.fixture
def many_visits(tmp_path):
    path = tmp_path / "visits.csv"
    lines = (f"{u},p{d},{c},2026-01-0{d}\n" for u in range(40) for d in (5, 6) for c in "xy")
    path.write_text("visitor,page,part,at\n" + "".join(lines) + "7,rare,x,2026-01-06\n")
    return path


def test_each_period_has_its_names_and_all_have_one_price(tmp_path, many_visits, capsys):
    book = tmp_path / "book.ledger"
    Ledger.create(book, 30, 1e-5)
    assert select_command(many_visits, f"--ledger={book}") == SUCCESS
    files = [tmp_path / f"out/2026-01-0{day}/released_partitions.csv" for day in (5, 6, 7)]
    combined = tmp_path / "out" / "all_periods.csv"
    assert capsys.readouterr().out.split() == list(map(str, [*files, combined]))
    texts = [file.read_text() for file in files]
    assert texts == ["page,part\np5,x\np5,y\n", "page,part\np6,x\np6,y\n", "page,part\n"]
    assert Ledger.open(book).remaining().epsilon == 10
    said = statement(tmp_path, "out/2026-01-07")
    assert (said["epsilon"], said["max_partitions_per_user"]) == (20, 4)
    assert said["period"] == "2026-01-07"
    assert said["periods"]["max_partitions_per_user_and_period"] == 2
    assert select_command(many_visits, "--overwrite", "--noisy_counts") == SUCCESS
    header, *rows = files[0].read_text().splitlines()
    assert header == "page,part,noisy_count,low,high" and len(rows) == 2
    for row in rows:
        noisy, low, high = map(int, row.split(",")[2:])
        assert abs(noisy - 40) < 15 and low <= noisy <= high
