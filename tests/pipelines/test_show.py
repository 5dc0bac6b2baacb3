"""What is said of releases: as JSON, of a choice of kappa, of the time, and in the help."""

import datetime
import json
import os

import pytest

import dp_transforms as dp
from pipelines.__main__ import main
from tests.jobs import job_flags, statement

RECORDS = "\n".join(
    ["user,page,at", *(f"{n % 40},p{n % 7},2026-01-0{n % 3 + 1}" for n in range(400))]
)
DAYS = "--period=day --time_column=at --periods=2026-01-01..2026-01-03 --max_periods_per_user=2"
COMMANDS = {
    "release": [],
    "release, all records": [],
    "release by day": DAYS.split(),
    "select": ["--delta=1e-2", "--noisy_counts"],
    "release-all": ["--delta=1e-2"],
    "choose-kappa": ["--for_epsilon=1", "--max_degree=9"],
}


@pytest.fixture(params=COMMANDS)
def job(request, tmp_path):
    """A command with its flags, on records that are written."""
    (tmp_path / "records.csv").write_text(RECORDS)
    flags = [*job_flags(tmp_path, "--max_partitions_per_user=3"), *COMMANDS[request.param]]
    if request.param in ("release, all records", "choose-kappa"):
        flags = [flag for flag in flags if not flag.startswith("--max_partitions")]
    return [request.param.partition(",")[0].partition(" ")[0], *flags]


@pytest.fixture
def released(job, tmp_path, capsys, monkeypatch):
    """The directory of a job that was done."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert main(job) == 0
    capsys.readouterr()
    return tmp_path / "out"


@pytest.mark.thorough
def test_jobs_say_as_json_what_they_did(job, released, capsys):
    job = [*job, "--json"]
    assert main([*job, "--overwrite"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["files"] and all(map(os.path.exists, printed["files"]))
    if "privacy" in printed:
        stated = [json.loads(path.read_text()) for path in sorted(released.rglob("privacy.json"))]
        assert printed["privacy"] == stated
        assert main([*job, "--if_exists=skip"]) == 0
        assert "skipped" in json.loads(capsys.readouterr().out)
    assert main([*job, "--dry_run", "--overwrite"]) == 0
    assert "dry run" in json.loads(capsys.readouterr().out)["dry_run"][-1]


RECORDS_OF_USERS = {
    "user": [n % 40 for n in range(400)],
    "page": [f"p{n % 7}" for n in range(400)],
    "at": [f"2026-01-0{n % 3 + 1}" for n in range(400)],
}
LISTS = {
    "periods": lambda: dp.release_by_period(
        RECORDS_OF_USERS, "user", "page", time="at", period="day", epsilon=2,
        periods="2026-01-01..2026-01-03", max_periods_per_user=2, max_partitions_per_user=3,
    ),
    "groups": lambda: dp.release_groups(
        RECORDS_OF_USERS, "user", "page", groups={"at": ["2026-01-01", "2026-01-04"]},
        epsilon_all=1, epsilon_groups=1, max_partitions_per_user=3,
    ),
    "attributes": lambda: dp.release_attributes(
        RECORDS_OF_USERS, "user", attributes=["page", ("at", "page")], epsilon=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", LISTS)
def test_json_has_the_numbers_of_every_list(tmp_path, capsys, kind):
    LISTS[kind]().save(tmp_path / "out")
    assert main(["show", str(tmp_path / "out"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    release = dp.load(tmp_path / "out")
    names = []
    for entry, of_list in zip(printed["lists"], release.values(), strict=True):
        names.append(entry["list"])
        numbers = of_list.identifiability() if kind == "attributes" else of_list.numbers()
        assert entry["numbers"].keys() == numbers.keys()
        for name, number in numbers.items():
            in_json = entry["numbers"][name]
            assert (in_json["value"], in_json["low"]) == (number.value, number.low)
            assert in_json["high"] in (number.high, None) and in_json["confidence"] == 0.95
    # The same columns name each list in the table.
    rows = [{name: row[name] for name in names[0]} for row in printed["table"]]
    assert [row for place, row in enumerate(rows) if row not in rows[:place]] == [
        name for name in names if name in rows
    ]


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def test_json_says_what_show_prints(released, capsys):
    assert main(["show", "--json", str(released)]) == 0
    printed = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert main(["show", str(released)]) == 0
    text = capsys.readouterr().out
    for entry in printed if isinstance(printed, list) else [printed]:
        loaded = dp.load(entry["directory"])
        if "frequency_list" in os.listdir(released):
            # With names beside it, a list has as many partitions as were named.
            both = dp.load(str(released))
            loaded = both.names if isinstance(loaded, dp.NamesRelease) else both.frequency_list
        assert entry["statement"] == json.loads(json.dumps(loaded.statement))
        assert entry["privacy"] == loaded.privacy and entry["privacy"] in text
        assert entry["table"] == loaded.to_arrow().to_pylist()
        if isinstance(loaded, dp.ListRelease):
            total = loaded.total()
            numbers = entry["numbers"]["total"]
            assert (numbers["value"], numbers["low"]) == (total.value, total.low)
            assert numbers["high"] in (total.high, None)


@pytest.mark.parametrize(
    "flags", [["--exact_total=40"], ["--mechanism=exponential", "--bounds_total=60"]], ids=str
)
def test_a_list_without_intervals_is_shown_without_them(tmp_path, flags, capsys):
    (tmp_path / "records.csv").write_text(RECORDS)
    assert main(["release", *job_flags(tmp_path, *flags)]) == 0
    capsys.readouterr()
    directory = str(tmp_path / "out")
    assert main(["show", directory]) == 0
    shown = capsys.readouterr().out
    assert "There are no intervals: error bars are for releases that are not narrowed" in shown
    assert dp.load(directory).privacy in shown
    assert main(["show", directory, "--json"]) == 0
    shown_values = json.loads(capsys.readouterr().out)
    assert shown_values["numbers"] is None and shown_values["table"]


def test_a_statement_has_the_time_of_its_job(released):
    # To the second, and rounded down.
    now = datetime.datetime.now(datetime.timezone.utc)
    times = {json.loads(path.read_text())["created"] for path in released.rglob("privacy.json")}
    (time,) = times
    created = datetime.datetime.strptime(f"{time}+0000", "%Y-%m-%dT%H:%M:%SZ%z")
    assert now - datetime.timedelta(minutes=10) < created <= now


def test_a_choice_of_kappa_is_shown_and_reported(tmp_path, capsys):
    (tmp_path / "records.csv").write_text(RECORDS)
    flags = [flag for flag in job_flags(tmp_path) if not flag.startswith("--max_partitions")]
    flags += COMMANDS["choose-kappa"]
    assert main(["choose-kappa", *flags]) == 0
    out = str(tmp_path / "out")
    loaded = dp.load(out)
    assert isinstance(loaded, dp.DegreesOfUsers)
    assert loaded.choose_kappa(1).recommended >= 1
    loaded.save(tmp_path / "saved")
    assert dp.load(tmp_path / "saved") == loaded
    capsys.readouterr()
    assert main(["show", out]) == 0
    text = capsys.readouterr().out
    assert "partitions_from" in text and "more than 9 partitions counts as having so many" in text
    assert main(["report", out, "--users=visitors"]) == 0
    page = (tmp_path / "out/report.html").read_text()
    assert "9 or more" in page and "data:image/png" in page and "Visitors" in page
    assert statement(tmp_path)["max_degree"] == 9


@pytest.mark.parametrize("command", ["create", "show", "abandon"])
def test_help_of_a_subcommand_names_it(command, capsys):
    with pytest.raises(SystemExit):
        main(["ledger", command, "--help-all"])
    assert capsys.readouterr().out.startswith(f"usage: dp-frequency-lists ledger {command} ")
