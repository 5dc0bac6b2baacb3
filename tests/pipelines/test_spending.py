"""Budget faults as a job meets them: never overspent, never silently lost."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from dp_transforms.budget import Ledger, PrivacyBudget, PrivacyUnit
from pipelines import progress, release_frequency_list
from pipelines.spending import Part, spending
from pipelines.errors import InputError
from pipelines.release_degree_list import main

WHOLE = PrivacyBudget(1)
PARTS = [Part("a list", PrivacyBudget("0.3"), 0.45), Part("names", PrivacyBudget("0.2"))]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ledger")


def states(path):
    return [line.state.value for line in Ledger.open(path).lines()]


def flags(tmp_path, path, output="out"):
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n2,3\n")
    return [
        f"--input={tmp_path}/edges.csv",
        "--source_column=a",
        "--target_column=b",
        "--epsilon=0.4",
        f"--ledger={path}",
        f"--output={tmp_path}/{output}",
    ]


def test_all_parts_are_reserved_before_the_block_and_committed_after_it(path):
    Ledger.create(path, 1)
    with spending(path, WHOLE, PARTS) as statement:
        assert states(path) == ["reserved", "reserved"]
        ledger = statement["budget"]["ledger"]
        assert [line["purpose"] for line in ledger] == ["a list", "names"]
        assert [line["loss_range"] for line in ledger] == ["0.45", "0.4"]
    assert states(path) == ["committed", "committed"]


def test_a_part_that_does_not_fit_gives_the_others_back(path):
    Ledger.create(path, "0.4")
    with pytest.raises(InputError, match=r"only epsilon 0\.1"), spending(path, WHOLE, PARTS):
        pytest.fail("nothing may be released")
    assert states(path) == ["abandoned"]


def test_what_fails_stays_spent(path):
    Ledger.create(path, 1)
    with pytest.raises(KeyError), spending(path, WHOLE, PARTS):
        raise KeyError
    assert states(path) == ["reserved", "reserved"]


def test_a_job_without_a_shared_ledger_has_one_of_its_own():
    with spending(None, WHOLE, PARTS) as statement:
        assert statement["budget"]["epsilon"] == "1"
        assert [line["epsilon"] for line in statement["budget"]["ledger"]] == ["0.3", "0.2"]
    with pytest.raises(InputError, match="only epsilon 0"), spending(None, WHOLE, PARTS * 3):
        pytest.fail("more than the whole")


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_before_the_release(tmp_path, path, monkeypatch, capsys):
    Ledger.create(path, 1, unit=PrivacyUnit.EDGE)
    with monkeypatch.context() as patch:
        # Nothing else of the job waits for the disk.
        patch.setattr(os, "fsync", no_space)
        assert main(flags(tmp_path, path)) == 1
    assert "the ledger cannot be written: no space left" in capsys.readouterr().err
    assert states(path) == []
    assert not (tmp_path / "out").exists()


def test_a_full_disk_after_the_release(tmp_path, path, monkeypatch, capsys):
    Ledger.create(path, 1, unit=PrivacyUnit.EDGE)
    run_to_end = progress.run_to_end

    def then_full(*arguments):
        run_to_end(*arguments)
        monkeypatch.setattr(os, "fsync", no_space)

    monkeypatch.setattr(progress, "run_to_end", then_full)
    assert main(flags(tmp_path, path)) == 1
    assert "the release was made and its budget is spent" in capsys.readouterr().err
    monkeypatch.undo()
    assert (tmp_path / "out" / "released_frequencies.csv").exists()
    # On record, and spent.
    assert states(path) == ["reserved"]
    assert Ledger.open(path).remaining() == PrivacyBudget("0.6")


def test_a_damaged_ledger_stops_the_job(tmp_path, path, capsys):
    Ledger.create(path, 1, unit=PrivacyUnit.EDGE).reserve(
        0.5, purpose="earlier", unit=PrivacyUnit.EDGE
    )
    with open(path, "rb+") as file:
        damaged = file.read().replace(b'"0.5"', b'"0.1"')
        file.seek(0)
        file.write(damaged)
    assert main(flags(tmp_path, path)) == 1
    err = capsys.readouterr().err
    assert "line 2: damaged" in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    with open(path, "rb") as file:
        assert file.read() == damaged


def list_flags(tmp_path, path, output="out"):
    """Of a job that is done without Beam."""
    (tmp_path / "records.csv").write_text("user,page\n1,a\n2,a\n2,b\n")
    return [
        f"--input={tmp_path}/records.csv",
        "--user_column=user",
        "--partition_column=page",
        "--max_partitions_per_user=1",
        "--epsilon=0.4",
        f"--ledger={path}",
        f"--output={tmp_path}/{output}",
    ]


KILLED_JOB = """
import os, signal, sys
from pipelines import release_frequency_list
from pipelines.files.output import ReleaseDirectory

publish = ReleaseDirectory.publish

def killed(*arguments):
    if sys.argv[1] == "after":
        publish(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

ReleaseDirectory.publish = killed
release_frequency_list.main(sys.argv[2:])
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_9_before_and_after_the_release(tmp_path, path, repository, when):
    Ledger.create(path, 1)
    command = [sys.executable, "-c", KILLED_JOB, when, *list_flags(tmp_path, path)]
    killed = subprocess.run(command, cwd=repository, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "out" / "released_frequencies.csv").exists() == (when == "after")
    assert states(path) == ["reserved"]
    # The next job has what is left, and no more.
    assert release_frequency_list.main(list_flags(tmp_path, path, "second")) == 0
    assert release_frequency_list.main(list_flags(tmp_path, path, "third")) == 1
    assert states(path) == ["reserved", "committed"]


def test_jobs_at_the_same_time_share_what_there_is(tmp_path, path, repository):
    Ledger.create(path, "0.7")
    jobs = [
        subprocess.Popen(
            [sys.executable, "-m", "pipelines", "release", *list_flags(tmp_path, path, f"out{i}")],
            cwd=repository,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    errors = [job.communicate(timeout=120)[1] for job in jobs]
    assert sorted(job.returncode for job in jobs) == [0, 1]
    assert [error for error in errors if "only epsilon 0.3" in error]
    assert states(path) == ["committed"]
    assert sum((tmp_path / f"out{i}").exists() for i in range(2)) == 1
