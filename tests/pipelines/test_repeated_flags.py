import pytest

from dp_transforms.beam.reading import ReadRecords
from dp_transforms.files.record_files import RecordFiles
from dp_transforms.mechanisms import FrequencyList
from pipelines import release_frequency_list, select_partitions
from pipelines.__main__ import main
from tests.beam_runs import rows_of, run
from tests.jobs import job_flags


@pytest.mark.parametrize("flag", ["--ledger=a.db", "--epsilon=2"])
def test_a_flag_of_one_value_is_not_given_twice(tmp_path, failure, flag):
    name = flag.partition("=")[0]
    flags = [*job_flags(tmp_path), "--ledger=b.db", name.replace("_", "-"), flag.partition("=")[2]]
    failure(2, f"{name} is given 2 times", release_frequency_list.main, flags)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("ledger", ["create", "a.ledger", "--epsilon=1"]),
        ("plan", ["--users=1000", "--epsilon=1"]),
        ("sample", ["--output=a.csv", "--users=10"]),
        ("evaluate", ["--original=a.csv", "--released=a.csv"]),
        ("report", ["out", "--about=pages"]),
        ("audit", ["--mechanism=frequency_list", "--epsilon=1", "--input=a.csv"]),
    ],
)
def test_nor_is_it_by_commands_that_are_no_jobs(tmp_path, monkeypatch, failure, command, flags):
    monkeypatch.chdir(tmp_path)
    flag, _, value = flags[-1].partition("=")
    message = f"{flag} is given 2 times, and takes one value"
    failure(2, message, main, [command, *flags, flag, value])
    assert not list(tmp_path.iterdir())


def test_a_list_in_a_config_is_no_value(tmp_path, failure):
    (tmp_path / "a.yaml").write_text("ledger: [a.db, b.db]")
    flags = [*job_flags(tmp_path), f"--config={tmp_path}/a.yaml"]
    failure(2, "--ledger is given 2 times", release_frequency_list.main, flags)


@pytest.fixture
def days(tmp_path):
    """Files of three days, with 90 users of a page in all, and 30 in each."""
    for day in range(3):
        users = range(30 * day, 30 * day + 30)
        lines = "".join(f"{user},news\n" for user in users)
        (tmp_path / f"day-{day}.csv").write_text("user,page\n" + lines)
    return tmp_path


def several(directory, *globs):
    usual = job_flags(directory, "--epsilon=100", "--input=")
    return [*usual[:-1], *(f"--input={directory}/{glob}" for glob in globs)]


def released(directory):
    return FrequencyList.from_csv(directory / "out" / "released_frequencies.csv")


OVERLAPPING = ["day-0.csv", "day-[01].csv", "day-*.csv"]


@pytest.mark.parametrize("more", [[], ["--runner=FnApiRunner"]])
@pytest.mark.parametrize(("globs", "users"), [(["day-0.csv", "day-2.csv"], 60), (OVERLAPPING, 90)])
def test_several_inputs_are_read_and_a_record_in_two_counts_once(days, globs, users, more):
    assert release_frequency_list.main([*several(days, *globs), *more]) == 0
    assert released(days) == FrequencyList.from_counts([users])


def test_several_inputs_in_a_config(days):
    globs = [f"{days}/day-0.csv", f"{days}/day-1.csv"]
    (days / "a.yaml").write_text(f"input: {globs}")
    assert release_frequency_list.main([*several(days), f"--config={days}/a.yaml"]) == 0
    assert released(days) == FrequencyList.from_counts([60])


def test_a_file_that_several_globs_match_is_read_once(days):
    source = RecordFiles([f"{days}/{glob}" for glob in OVERLAPPING], "user", ["page"])
    records = sorted((str(user), "news") for user in range(90))
    assert sorted(rows_of(source.tables())) == records
    assert {*rows_of(run(lambda pipeline: pipeline | ReadRecords(source)))} == {*records}


def test_each_input_matches_a_file(days, failure):
    flags = several(days, "day-*.csv", "night-*.csv")
    failure(1, f"no file matches {days}/night-*.csv", release_frequency_list.main, flags)


def test_a_query_has_one_database(days, failure):
    flags = [*several(days, "a.db", "b.db"), "--query=SELECT 1"]
    failure(2, "--query goes with one --input", release_frequency_list.main, flags)


@pytest.mark.parametrize("job", [release_frequency_list.main, select_partitions.main])
def test_a_dry_run_says_what_is_read(days, capsys, job):
    delta = ["--delta=1e-9"] if job is select_partitions.main else []
    for globs, line in (
        (["day-0.csv"], f"1 file: {days}/day-0.csv"),
        (["day-[12].csv"], f"2 files: {days}/day-1.csv, {days}/day-2.csv"),
        (["*.csv"], f"4 files: {days}/day-0.csv, {days}/day-1.csv, {days}/day-2.csv, ..."),
    ):
        (days / "day-3.csv").write_text("user,page\n")
        assert job([*several(days, *globs), *delta, "--dry_run"]) == 0
        assert capsys.readouterr().out.splitlines()[0] == f"records: {line}"
