import datetime
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_transforms.budget import Ledger
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import period_names, periods_of
from dp_transforms.mechanisms import FrequencyList
from pipelines import DONE_BEFORE, FAILURE, SUCCESS, release_frequency_list, select_partitions, show
from tests.jobs import flags_over, job_flags, statement

PERIODS = {
    "--user_column": "visitor",
    "--period": "day",
    "--time_column": "at",
    "--periods": "2026-01-05..2026-01-08",
    "--max_periods_per_user": "2",
    "--max_partitions_per_user": "2",
    "--epsilon": "90",
}
VISITS = """visitor,page,at
1,home,2026-01-05 10:00
1,home,2026-01-06T11:00:00Z
2,home,2026-01-06
2,help,2026-01-07
3,help,2027-01-07
"""


def command(tmp_path, *more, job=release_frequency_list):
    return job.main(job_flags(tmp_path, *flags_over(PERIODS, *more)))


def test_each_period_has_its_list_and_all_have_one_price(tmp_path, capsys, failure):
    (tmp_path / "records.csv").write_text(VISITS)
    book = Ledger.create(tmp_path / "book.ledger", 100)
    assert command(tmp_path, f"--ledger={book.path}") == SUCCESS
    days = [f"2026-01-0{day}" for day in (5, 6, 7, 8)]
    files = [tmp_path / "out" / day / "released_frequencies.csv" for day in days]
    combined = tmp_path / "out" / "all_periods.csv"
    assert capsys.readouterr().out.split() == list(map(str, [*files, combined]))
    assert combined.read_text().splitlines() == [
        "period,frequency,multiplicity", f"{days[0]},1,1", f"{days[1]},2,1", f"{days[2]},1,1"
    ]  # fmt: skip
    lists = [list(FrequencyList.from_csv(file)) for file in files]
    assert lists == [[(1, 1)], [(2, 1)], [(1, 1)], []]
    assert book.remaining().epsilon == 10
    stated = statement(tmp_path, f"out/{days[1]}")
    assert (stated["epsilon"], stated["period"]) == (45, days[1])
    assert stated["periods"] == {
        "of": "day",
        "first": days[0],
        "last": days[-1],
        "max_periods_per_user": 2,
        "epsilon_of_all": 90,
        "epsilon_of_all_exact": "90",
    }
    # The periods of two jobs are not taken for those of one.
    assert command(tmp_path, "--epsilon=80", f"--output={tmp_path}/other") == SUCCESS
    shutil.copytree(tmp_path / "other" / days[0], tmp_path / "out" / days[0], dirs_exist_ok=True)
    failure(FAILURE, "out holds periods of several jobs", show.main, [f"{tmp_path}/out"])


def test_without_kappa_each_period_has_a_survey(tmp_path, capsys, failure):
    (tmp_path / "records.csv").write_text(VISITS)
    book = Ledger.create(tmp_path / "book.ledger", 200)
    exact = ("--epsilon=100", "--survey_share=0.5", f"--ledger={book.path}")
    flags = job_flags(tmp_path, *flags_over(PERIODS, *exact))
    flags = [flag for flag in flags if "max_partitions_per_user" not in flag]
    assert release_frequency_list.main(flags) == SUCCESS
    assert book.remaining().epsilon == 100
    out, day = tmp_path / "out", "2026-01-06"
    files = {file.name for file in (out / day).iterdir()}
    tables = {"all_records.csv", "survey_of_degrees.csv"}
    assert files == tables | {"privacy.json", "released_frequencies.csv"}
    # The file of all periods has the estimates of all records.
    combined = (out / "all_periods.csv").read_text().splitlines()
    assert combined == [
        "period,frequency,multiplicity", "2026-01-05,1,1", "2026-01-06,2,1", "2026-01-07,1,1"
    ]  # fmt: skip
    capsys.readouterr()
    assert show.main([str(out)]) == SUCCESS
    shown = capsys.readouterr().out
    assert "partitions, low" in shown and "A survey of each list" in shown
    failure(2, "--report is for one list", release_frequency_list.main, [*flags, "--report"])


@pytest.mark.thorough
def test_without_kappa_a_look_chooses_it_for_the_names_of_all_periods(tmp_path, capsys, failure):
    pairs = ((user, day) for user in range(80) for day in (5, 6))
    lines = (f"{user},p{day},2026-01-0{day}\n" for user, day in pairs)
    (tmp_path / "records.csv").write_text("visitor,page,at\n" + "".join(lines))
    book = Ledger.create(tmp_path / "book.ledger", 30, 1e-5)
    exact = ("--epsilon=20", "--delta=1e-6", "--noisy_counts", f"--ledger={book.path}")
    flags = job_flags(tmp_path, *flags_over(PERIODS, *exact))
    flags = [flag for flag in flags if "max_partitions_per_user" not in flag]
    assert select_partitions.main(flags) == SUCCESS
    assert book.remaining().epsilon == 10
    combined = (tmp_path / "out" / "all_periods.csv").read_text().splitlines()
    assert [row.split(",")[:2] for row in combined] == [
        ["period", "page"], ["2026-01-05", "p5"], ["2026-01-06", "p6"]
    ]  # fmt: skip
    statements = [statement(tmp_path, f"out/2026-01-0{day}") for day in (5, 6, 7, 8)]
    for day, stated in zip((5, 6, 7, 8), statements, strict=True):
        assert stated["period"] == f"2026-01-0{day}"
        assert stated["max_partitions_per_user"] == stated["plan"]["partitions"]
        assert stated["max_partitions_per_user_is"].startswith("chosen by the look")
        assert stated["periods"]["max_partitions_per_user_is_of"] == "all days together"
        assert 0 < stated["look_epsilon"] <= stated["look_epsilon_at_most"] < stated["epsilon"]
    assert len({json.dumps(stated["choice"]) for stated in statements}) == 1
    capsys.readouterr()
    assert show.main([str(tmp_path / "out")]) == SUCCESS
    assert "A noisy look at the records" in capsys.readouterr().out
    needed = "--max_partitions_per_user is needed"
    failure(2, needed, select_partitions.main, [*flags, "--strategy=optimal"])


def test_a_rerun_writes_the_file_of_all_periods_that_a_killed_job_has_not(tmp_path, capsys):
    (tmp_path / "records.csv").write_text(VISITS)
    book = Ledger.create(tmp_path / "book.ledger", 100)
    named = [f"--ledger={book.path}", "--job_id=january"]
    assert command(tmp_path, *named) == SUCCESS
    combined = tmp_path / "out" / "all_periods.csv"
    text = combined.read_text()
    for code, *flags in (
        (SUCCESS, "--if_exists=skip"),
        (DONE_BEFORE, *named),
        (SUCCESS, *named, "--if_exists=skip"),
    ):
        combined.unlink()
        assert command(tmp_path, *flags, "--dry_run") == code and not combined.exists()
        assert command(tmp_path, *flags) == code and combined.read_text() == text
    # Of another release, which this job has replaced, or of other periods.
    combined.write_text("period\n")
    assert command(tmp_path, "--if_exists=skip") == SUCCESS and combined.read_text() == "period\n"
    assert command(tmp_path, *named) == DONE_BEFORE and combined.read_text() == text
    combined.unlink()
    assert command(tmp_path) == DONE_BEFORE and not combined.exists()
    assert book.remaining().epsilon == 10


def test_times_of_parquet_files(tmp_path):
    path = tmp_path / "visits.parquet"
    moment = datetime.datetime(2026, 1, 31, 23, 30, tzinfo=datetime.timezone.utc)
    times = pa.array([moment, moment], pa.timestamp("ns", "Asia/Tokyo"))
    pq.write_table(pa.table({"visitor": [1, 2], "page": ["a", "a"], "at": times}), path)
    span = "--periods=2026-01-15..2026-02-01"
    assert command(tmp_path, f"--input={path}", "--period=month", span) == SUCCESS
    # In UTC.
    released = FrequencyList.from_csv(tmp_path / "out/2026-01/released_frequencies.csv")
    assert list(released) == [(2, 1)]
    for number in (1.7e9, 1_700_000_000):
        pq.write_table(pa.table({"visitor": [1], "page": ["a"], "at": [number]}), path)
        assert command(tmp_path, f"--input={path}", "--overwrite") == FAILURE


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
        periods = periods_of("a.csv", times, period).to_pylist()
        assert periods == names
        assert set(periods) <= set(period_names(period, "2024-12-30..2025-01-02"))
    # From the first day up to the last.
    for period, name in (("hour", "0999-12-31T23"), ("week", "0999-12-30"), ("month", "0999-12")):
        assert period_names(period, "0999-12-31..0999-12-31")[-1] == name
    assert period_names("day", "9999-12-30..9999-12-31") == ["9999-12-30", "9999-12-31"]
    assert period_names("hour", "9999-12-31..9999-12-31")[-1] == "9999-12-31T23"


def test_only_codes_that_rows_have_are_times():
    days = pa.DictionaryArray.from_arrays(pa.array([0, 1]), ["2026-01-31", None, "never"])
    assert periods_of("a", pa.chunked_array([days[:1]]), "month").to_pylist() == ["2026-01"]
    with pytest.raises(InputError, match="not all records have a time"):
        periods_of("a", pa.chunked_array([days]), "month")


def test_an_empty_field_is_no_time(tmp_path, capsys):
    (tmp_path / "records.csv").write_text("user,page,at\n1,a,2026-01-05\n2,a,\n")
    flags = ["--period=day", "--time_column=at", "--periods=2026-01-05..2026-01-05"]
    job = job_flags(tmp_path, *flags, "--max_periods_per_user=1", "--epsilon=99")
    assert release_frequency_list.main(job) == 1
    assert "records without a user, a partition or a time: fill" in capsys.readouterr().err
    assert release_frequency_list.main([*job, "--drop_nulls"]) == 0
    released = (tmp_path / "out" / "2026-01-05" / "released_frequencies.csv").read_text()
    assert released == "frequency,multiplicity\n1,1\n"


def test_each_period_has_its_names_and_all_have_one_price(tmp_path, capsys):
    lines = (f"{u},p{d},{c},2026-01-0{d}\n" for u in range(40) for d in (5, 6) for c in "xy")
    text = "visitor,page,part,at\n" + "".join(lines) + "7,rare,x,2026-01-06\n"
    (tmp_path / "records.csv").write_text(text)
    flags = ["--partition_column=page", "--partition_column=part", "--epsilon=20", "--delta=1e-6"]
    flags.append("--periods=2026-01-05..2026-01-07")
    book = Ledger.create(tmp_path / "book.ledger", 30, 1e-5)
    assert command(tmp_path, *flags, f"--ledger={book.path}", job=select_partitions) == SUCCESS
    files = [tmp_path / f"out/2026-01-0{day}/released_partitions.csv" for day in (5, 6, 7)]
    combined = tmp_path / "out" / "all_periods.csv"
    assert capsys.readouterr().out.split() == list(map(str, [*files, combined]))
    texts = [file.read_text() for file in files]
    assert texts == ["page,part\np5,x\np5,y\n", "page,part\np6,x\np6,y\n", "page,part\n"]
    assert book.remaining().epsilon == 10
    stated = statement(tmp_path, "out/2026-01-07")
    assert (stated["epsilon"], stated["max_partitions_per_user"]) == (20, 4)
    assert stated["period"] == "2026-01-07"
    assert stated["periods"]["max_partitions_per_user_and_period"] == 2
    noisy = [*flags, "--overwrite", "--noisy_counts"]
    assert command(tmp_path, *noisy, job=select_partitions) == SUCCESS
    header, *rows = files[0].read_text().splitlines()
    assert header == "page,part,noisy_count,low,high" and len(rows) == 2
    for row in rows:
        noisy, low, high = map(int, row.split(",")[2:])
        assert abs(noisy - 40) < 15 and low <= noisy <= high
