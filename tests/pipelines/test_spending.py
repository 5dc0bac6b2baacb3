"""Budget faults as a job meets them: never overspent, never silently lost."""

import contextlib
import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import sys
from fractions import Fraction
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

from dp_transforms.budget import Cost, Ledger, Origin, PrivacyBudget, Request, ledger_file
from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.engines.in_process import InProcess
from dp_transforms.errors import InputError, NothingDrawnError, UnsuitableListError, ValuesError
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.paths import LocalFiles
from dp_transforms.mechanisms.partition.restricted import ExactTotalMechanism
from pipelines import ledger as ledger_command
from pipelines import release_job, worker_pool
from pipelines.job_context import Price, Progress
from pipelines.release_frequency_list import main
from pipelines.spending import spending
from tests.jobs import instead, job_flags, statement

PARTS = [
    Request("a list", Cost(PrivacyBudget("0.3"), 0.45)),
    Request("names", Cost(PrivacyBudget("0.2"))),
]


@pytest.fixture
def path(tmp_path):
    """The path of a ledger of epsilon 1."""
    Ledger.create(tmp_path / "ledger", 1)
    return str(tmp_path / "ledger")


def states(path):
    return [line.state.value for line in Ledger.open(path).lines()]


def flags(tmp_path, path, output="out"):
    """The flags of a job that is done without Beam."""
    (tmp_path / "records.csv").write_text("user,page\n1,a\n2,a\n2,b\n")
    return job_flags(tmp_path, "--epsilon=0.4", f"--ledger={path}", f"--output={tmp_path}/{output}")


def test_all_parts_are_reserved_before_the_block_and_committed_after_it(path):
    Ledger.open(path).reserve("0.1", purpose="of somebody else")
    with spending(path, PARTS) as entry:
        assert states(path) == ["reserved"] * 3
        ledger = entry.statement["budget"]["ledger"]
        assert [line["purpose"] for line in ledger[1:]] == ["a list", "names"]
        assert [line["loss_range"] for line in ledger[1:]] == ["0.45", "0.4"]
        # What is released will be paid for, and nobody sees what became of another job.
        assert [line["state"] for line in ledger] == ["committed"] * 3
    assert states(path) == ["reserved", "committed", "committed"]


def test_no_statement_shows_that_an_earlier_job_failed(path):
    with pytest.raises(KeyError), spending(path, PARTS):
        raise KeyError
    Ledger.open(path).reserve("0.05", purpose="of nothing").abandon()
    with spending(path, [PARTS[0]]) as entry:
        stated = entry.statement["budget"]["ledger"]
    assert states(path) == ["failed", "failed", "abandoned", "committed"]
    assert [(line["purpose"], line["state"]) for line in stated] == [("a list", "committed")]


def test_no_statement_shows_that_a_job_failed_which_is_not_given_back(tmp_path):
    """Neither the job's rows, nor their state, tell it from one that came out."""
    stated = []
    for name, error in (("fails", KeyError), ("comes out", None)):
        path = str(tmp_path / name)
        Ledger.create(path, 1, free_failures=0)
        with contextlib.suppress(KeyError), spending(path, [PARTS[0]]):
            if error is not None:
                raise error
        with spending(path, [PARTS[1]]) as entry:
            stated.append(entry.statement["budget"]["ledger"])
    assert states(str(tmp_path / "fails"))[0] != states(str(tmp_path / "comes out"))[0]
    assert stated[0] == stated[1] and len(stated[0]) == 2


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize(
    ("error", "state"),
    [
        (KeyError(), "reserved"),
        (KeyboardInterrupt(), "reserved"),
        # By the noise: to draw again has its price.
        (NothingDrawnError("none"), "charged"),
        (RuntimeError("NothingDrawnError: no"), "charged"),
        # By values: "is the total at most 9?" has its price too.
        (UnsuitableListError("contradicts"), "charged"),
        (ValuesError("the --query failed"), "charged"),
    ],
)
def test_what_fails_is_given_back_if_nothing_can_have_come_out(path, begins, error, state):
    with pytest.raises(type(error)), spending(path, PARTS) as entry:
        if begins:
            # As in a worker, to which it was sent.
            pickle.loads(pickle.dumps(entry)).begin()
        raise error
    free = not begins and state == "reserved"
    assert states(path) == ["failed" if free else state] * 2
    if free:
        with pytest.raises(InputError, match=r"nothing was released: .* already failed"):
            entry.begin()


def test_a_ledger_that_cannot_be_read_after_a_reservation_gives_it_back(path, monkeypatch):
    def unreadable(ledger):
        raise OSError("the disk is gone")

    progress = Progress()
    with monkeypatch.context() as patched, pytest.raises(InputError, match="ledger cannot be"):
        patched.setattr(Ledger, "lines", unreadable)
        with spending(path, PARTS, progress=progress):
            pytest.fail("the release must not begin")
    assert progress.price is Price.GIVEN_BACK and not Ledger.open(path).spent().epsilon


def test_a_worker_does_not_begin_in_another_ledger_of_the_same_name(path):
    with spending(path, PARTS) as entry:
        os.replace(path, f"{path}.right")
        # As on a machine that does not share the file system.
        other = Ledger.create(path, 9)
        with pytest.raises(InputError, match=r"nothing was released: .* is another ledger here"):
            other.reserve_all(PARTS, announces=True)
            entry.begin()
        assert not any(line.begun for line in other.lines())
        os.replace(f"{path}.right", path)


def test_a_job_without_a_shared_ledger_states_its_parts():
    with spending(None, PARTS) as entry:
        budget = entry.statement["budget"]
    assert budget["epsilon"] == "0.5"
    assert [line["purpose"] for line in budget["ledger"]] == ["a list", "names"]
    # The cost of a single part is that of the release, which each statement has.
    with spending(None, PARTS[:1]) as entry:
        assert entry.statement == {}


@pytest.mark.parametrize("released", [False, True])
def test_a_disk_that_is_full_for_the_ledger(tmp_path, path, monkeypatch, capsys, released):
    full = mock.Mock(side_effect=sqlite3.OperationalError("database or disk is full"))
    publish = ReleaseDirectory.publish

    def then_full(*arguments):
        publish(*arguments)
        monkeypatch.setattr(ledger_file, "write", full)

    if released:
        monkeypatch.setattr(ReleaseDirectory, "publish", then_full)
    else:
        monkeypatch.setattr(ledger_file, "write", full)
    assert main(flags(tmp_path, path)) == 1
    message = "the release was made, but " if released else "the ledger cannot be written: no space"
    assert capsys.readouterr().err.startswith(f"error: {message}")
    monkeypatch.undo()
    out = tmp_path / "out"
    assert out.exists() == (out / "released_frequencies.csv").exists() == released
    assert states(path) == ["reserved"] * released
    assert Ledger.open(path).remaining() == PrivacyBudget("0.6" if released else 1)


ON_BEAM = "--runner=FnApiRunner"
ENGINES = pytest.mark.parametrize("engine", [[], [ON_BEAM]], ids=["here", "on Beam"])
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, "apache_beam.runners.portability.fn_api_runner"])


def job_that_stops(step, when, sent, arguments, printed):
    """A job that sends itself a signal before or after a step."""
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    where = BudgetEntry if step == "begin" else ReleaseDirectory
    function = getattr(where, step)

    def stopped(*given):
        if when == "after":
            function(*given)
        os.kill(os.getpid(), sent)

    setattr(where, step, stopped)
    sys.exit(main(arguments))


def stopped_job(tmp_path, step, when, sent, arguments):
    """Returns the exit code of such a job, in a process of its own, and what it printed."""
    printed = tmp_path / "printed"
    job = SERVER.Process(target=job_that_stops, args=(step, when, sent, arguments, printed))
    job.start()
    job.join(120)
    return job.exitcode, printed.read_text()


@pytest.mark.parametrize(
    ("step", "when", "free", "flag"),
    [
        ("begin", "before", True, ON_BEAM),
        ("begin", "after", False, ON_BEAM),
        ("publish", "after", False, "--progress"),
    ],
)
def test_kill_9_and_its_price(tmp_path, path, step, when, free, flag):
    job = [*flags(tmp_path, path), flag]
    code, _ = stopped_job(tmp_path, step, when, signal.SIGKILL, job)
    assert code == -signal.SIGKILL
    assert (tmp_path / "out" / "released_frequencies.csv").exists() == (step == "publish")
    assert states(path) == ["reserved"]
    assert Ledger.open(path).spent().epsilon == (0 if free else Fraction(2, 5))
    # The next jobs have what is left, and no more.
    assert main(flags(tmp_path, path, "second")) == 0
    assert main(flags(tmp_path, path, "third")) == (0 if free else 4)
    assert states(path) == (["failed"] if free else ["reserved"]) + ["committed"] * (1 + free)


@ENGINES
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("sent", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_ctrl_c_costs_nothing_before_anything_is_written(
    tmp_path, path, engine, when, sent, code, word
):
    job = flags(tmp_path, path) + engine
    stopped = stopped_job(tmp_path, "publish", when, sent, job)
    outcome = {
        "before": "no release was written, and nothing was spent",
        "after": "the output directory tells whether a release was written; what the job reserved "
        "stays spent",
    }
    assert stopped == (code, f"error: {word}: {outcome[when]}\n")
    assert states(path) == ["failed" if when == "before" else "reserved"]


def test_an_interrupt_while_records_are_read_says_that_there_is_no_release(
    tmp_path, path, monkeypatch, failure
):
    monkeypatch.setattr(InProcess, "frequency_list", mock.Mock(side_effect=KeyboardInterrupt))
    failure(
        130,
        "interrupted: no release was written, and nothing was spent\n",
        main,
        flags(tmp_path, path),
    )


@ENGINES
def test_a_fault_in_the_records_costs_nothing_unless_a_runner_may_go_on(
    tmp_path, path, engine, monkeypatch
):
    job = flags(tmp_path, path) + engine
    # The last record has no user.
    (tmp_path / "records.csv").write_text("user,page\n1,a\n,b\n")
    assert main(job) == 1
    monkeypatch.setattr(release_job, "DEFAULT_RUNNER", "another")
    assert main(job) == 1
    assert states(path) == ["failed", "reserved" if engine else "failed"]
    assert not (tmp_path / "out").exists()


def test_an_error_says_when_the_price_stays_spent(tmp_path, capsys):
    Ledger.create(tmp_path / "ledger", 1, free_failures=1)
    job = flags(tmp_path, tmp_path / "ledger")
    (tmp_path / "records.csv").write_text("user,page\n1,a\n,b\n")
    for is_free in (True, False):
        left = Ledger.open(tmp_path / "ledger").remaining().epsilon
        assert main(job) == 1
        was_spent = left > Ledger.open(tmp_path / "ledger").remaining().epsilon
        error = capsys.readouterr().err
        assert error.endswith("what the job reserved stays spent\n") == was_spent != is_free


@ENGINES
@pytest.mark.parametrize("total", [2, 4, 9])
def test_a_question_about_the_total_is_paid_for_whatever_the_answer(
    tmp_path, path, engine, total, capsys
):
    """Without this, a total is found exactly by halving, in failed jobs that cost nothing."""
    refused = total > 2 + 1  # one user's records are the tolerance
    assert main([*flags(tmp_path, path), f"--exact_total={total}", *engine]) == refused
    assert ("contradicts total" in capsys.readouterr().err) == refused
    assert states(path) == ["charged" if refused else "committed"]
    assert Ledger.open(path).spent().epsilon == Fraction(2, 5)


def test_a_total_is_not_found_by_halving_at_a_tiny_price(tmp_path, capsys):
    Ledger.create(tmp_path / "ledger", 1, free_failures=2)
    job = instead(flags(tmp_path, tmp_path / "ledger"), "--epsilon=0.002")
    job += ["--exact_total=9"]
    assert [main(job) for _ in range(2)] == [1, 1]
    errors = []
    for arguments in (job, [*job, "--dry_run"]):
        assert main(arguments) == 4
        errors.append(capsys.readouterr().err)
    assert all("has no free failure left, and from then on a job costs" in text for text in errors)
    assert states(tmp_path / "ledger") == ["charged", "charged"]
    # What readers see of it does not tell that they failed.
    assert main(flags(tmp_path, tmp_path / "ledger")) == 0
    lines = statement(tmp_path)["budget"]["ledger"]
    assert [line["state"] for line in lines] == ["committed"] * 3


def test_a_job_that_was_charged_is_not_run_again_by_its_name(tmp_path, path, capsys):
    job = [*flags(tmp_path, path), "--exact_total=9", "--job_id=november"]
    assert main(job) == 1
    capsys.readouterr()
    assert main(job) == 4
    assert "has failed by the values of its records, which was charged" in capsys.readouterr().err
    assert states(path) == ["charged"]


@ENGINES
def test_a_give_up_on_a_full_disk_is_paid_for(tmp_path, path, engine, monkeypatch):
    """It depends on the noise; with a disk that is full for the ledger it was free."""
    full = mock.Mock(side_effect=sqlite3.OperationalError("database or disk is full"))

    def give_up(*_):
        ledger_file.write = full
        raise NothingDrawnError("no list was found")

    monkeypatch.setattr(ledger_file, "write", ledger_file.write)
    monkeypatch.setattr(ExactTotalMechanism, "_draw", give_up)
    assert main([*flags(tmp_path, path), "--exact_total=2", *engine]) == 1
    assert full.called
    monkeypatch.undo()
    # Even if the job had ended, it would not be given back.
    (line,) = Ledger.open(path).lines()
    assert line.begun and not line.may_be_given_back


def test_a_query_that_fails_on_a_value_is_paid_for(tmp_path, path, capsys):
    with contextlib.closing(sqlite3.connect(tmp_path / "records.db")) as connection, connection:
        connection.execute("CREATE TABLE visits (user INTEGER, page TEXT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?)", [(n, "a") for n in range(2000)])
    job = flags(tmp_path, path)
    job[0] = f"--input=sqlite:{tmp_path}/records.db"
    # An overflow where user 1500 is.
    job += [
        "--query=SELECT user, IIF(user = 1500, abs(-9223372036854775808), page) AS page FROM visits"
    ]
    assert main(job) == 1
    assert "the --query failed while its records were read" in capsys.readouterr().err
    assert states(path) == ["abandoned", "charged"]
    assert Ledger.open(path).spent().epsilon == Fraction(2, 5)


def test_a_query_that_fails_before_its_price_is_known_is_a_free_failure(tmp_path, capsys, failure):
    Ledger.create(tmp_path / "budget", 1, free_failures=2)
    path = str(tmp_path / "budget")
    with contextlib.closing(sqlite3.connect(tmp_path / "records.db")) as connection, connection:
        connection.execute("CREATE TABLE visits (user INTEGER, page TEXT)")
        connection.execute("INSERT INTO visits VALUES (1, 'a')")
    job = flags(tmp_path, path)
    job[0] = f"--input=sqlite:{tmp_path}/records.db"
    failing = "--query=SELECT abs(-9223372036854775808 * user) AS user, page FROM visits"
    failure(2, "no flag", main, [*job, failing, "--pirod=day"])
    assert states(path) == []
    for dry in (["--dry_run"], []):
        assert main([*job, failing, *dry]) == 1
        assert "the --query failed while its records were read" in capsys.readouterr().err
    assert states(path) == ["failed", "failed"]
    # The answers end here.
    for query in (failing, "--query=SELECT user, page FROM visits"):
        failure(4, "has no free failures left", main, [*job, query])
    assert main(flags(tmp_path, path)) == 0


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.usefixtures("without_buckets")
def test_a_dry_run_of_dataflow_costs_nothing(tmp_path, path, monkeypatch, failure, dry):
    class DataflowRunner(PipelineRunner):
        def run_pipeline(self, pipeline, options):
            result = PipelineResult(PipelineState.DONE)
            result.wait_until_finish = lambda duration=None: None
            return result

    monkeypatch.setattr(worker_pool, "make_runner", lambda flags, options: DataflowRunner())
    job = [*flags(tmp_path, path), "--runner=DataflowRunner", "--project=project-1", "--region=r"]
    job += ["--temp_location=gs://bucket-1/tmp"] + ["--dry_run=True"] * dry
    assert main(job) == 0
    assert states(path) == ([] if dry else ["committed"])
    # What does not fit is refused all the same.
    failure(
        4, "does not fit into" if dry else "asked for, but", main, instead(job, "--epsilon=1.1")
    )
    assert states(path) == ([] if dry else ["committed"])


def test_a_list_of_counts_is_read_after_its_price_is_reserved(tmp_path, path):
    (tmp_path / "counts.csv").write_text("frequency,multiplicity\n1,1\n2,1\n")
    job = [f"--ledger={path}", "--epsilon=0.1", f"--output={tmp_path}/out"]
    job.append("--max_partitions_per_user=1")
    # A missing file tells nothing of the data.
    assert main([f"--frequency_list={tmp_path}/nowhere.csv", *job]) == 1
    assert states(path) == []
    assert main([f"--frequency_list={tmp_path}/counts.csv", *job]) == 1
    assert states(path) == ["failed"]


@pytest.mark.parametrize(
    "table", [{"user": [1]}, {"user": [1], "page": [[1]]}, {"user": [0.5], "page": ["a"]}]
)
def test_what_a_footer_knows_is_found_before_anything_is_reserved(tmp_path, path, table):
    job = flags(tmp_path, path)
    pq.write_table(pa.table(table), tmp_path / "records.parquet")
    job[0] = f"--input={tmp_path}/records.parquet"
    assert main(job) == 1
    assert states(path) == []


@pytest.mark.parametrize(
    ("engine", "fills", "state"),
    [([], False, "failed"), ([ON_BEAM], False, "failed"), ([], True, "reserved")],
)
def test_a_disk_that_is_full_costs_nothing_unless_the_release_fills_it(
    tmp_path, path, monkeypatch, engine, fills, state
):
    """A release fits or not by its noise: to draw until one does is not paid for."""
    create = LocalFiles.create

    def full(name):
        file = create(name)
        if fills and "released_frequencies" not in name:
            return file
        file.close()
        return open("/dev/full", "wb")

    monkeypatch.setattr(LocalFiles, "create", staticmethod(full))
    assert main(flags(tmp_path, path) + engine) == 1
    assert states(path) == [state]
    assert fills or not list((tmp_path / "out").iterdir())


def test_an_interrupt_after_the_release_says_that_there_is_one(tmp_path, path, monkeypatch, capsys):
    monkeypatch.setattr(release_job, "say_done", mock.Mock(side_effect=KeyboardInterrupt))
    assert main(flags(tmp_path, path)) == 130
    assert "interrupted after the release was written" in capsys.readouterr().err
    assert states(path) == ["committed"] and (tmp_path / "out" / "privacy.json").exists()


def test_a_job_with_a_name_pays_once(tmp_path, path, capsys, failure):
    job = [*flags(tmp_path, path), "--job_id=november", "--label=first try"]
    assert main(job) == 0
    budget = statement(tmp_path)["budget"]
    assert budget["reservations"] == [1] and budget["ledger_id"] == Ledger.open(path).identity
    failure(3, "--job_id=november has run, and its release is in", main, job)
    assert main([*job, "--overwrite"]) == 3
    assert main([*job, "--if_exists=skip"]) == 0
    assert "nothing was spent" in capsys.readouterr().out
    (line,) = Ledger.open(path).lines()
    assert line.state.value == "committed"
    origin = "release_frequency_list", str(tmp_path / "out"), "first try", "november"
    assert line.origin == Origin(*origin)
    failure(2, "--job_id must not be empty", main, instead(job, "--job_id="))
    # Its name is no other's.
    for other in ("--epsilon=0.3", f"--output={tmp_path}/other"):
        failure(2, "for another command, output or price", main, instead(job, other))
    shutil.rmtree(tmp_path / "out")
    failure(4, "is not in", main, job)
    assert states(path) == ["committed"]


@pytest.mark.parametrize(
    ("step", "when"), [("publish", "before"), ("begin", "after"), ("publish", "after")]
)
def test_a_job_with_a_name_is_killed_and_runs_again(tmp_path, path, capsys, step, when):
    job = [*flags(tmp_path, path), "--job_id=november"]
    stopped_job(tmp_path, step, when, signal.SIGKILL, job)
    capsys.readouterr()
    code = main(job)
    err = capsys.readouterr().err
    if when == "before":
        assert code == 0 and states(path) == ["failed", "committed"]
    elif step == "publish":
        # Its release is there, and only a note was missing.
        assert code == 3 and states(path) == ["committed"]
    else:
        assert code == 4 and "ended while it wrote its release" in err
        assert states(path) == ["reserved"]
        assert ledger_command.main(["abandon", path, "1", "--nothing_came_out"]) == 0
        assert main(job) == 0
        assert states(path) == ["abandoned", "committed"]


def test_a_job_whose_name_is_in_use(tmp_path, path, monkeypatch, capsys):
    job, codes = [*flags(tmp_path, path), "--job_id=november"], []
    monkeypatch.setattr(BudgetEntry, "begin", lambda _: codes.append(main(job)))
    assert main(job) == 0 and codes == [5]
    assert "is under way on" in capsys.readouterr().err
    assert states(path) == ["committed"]
