import contextlib
import ctypes
import json
import multiprocessing
import os
import pathlib
import re
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from fractions import Fraction

import pytest

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedLedgerError,
    JobExistsError,
    Ledger,
    LedgerLine,
    Origin,
    PrivacyBudget,
    PrivacyUnit,
    PrivacyUnitError,
    Request,
    State,
    ledger_file,
)
from dp_transforms.budget.budget import Cost, zcdp_of
from dp_transforms.mechanisms.partition.registry import partition_mechanism

FORK = multiprocessing.get_context("fork")
HALF = Cost(PrivacyBudget(0.5))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1)


def run(target, *args, processes=1):
    """Runs target in child processes; returns their exit code (negative: killed by a signal)."""
    children = [FORK.Process(target=target, args=args) for _ in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    (code,) = {child.exitcode for child in children}
    return code


def states(ledger):
    return [line.state for line in ledger.lines()]


def test_the_course_of_a_reservation(path):
    ledger = Ledger.create(path, epsilon=1, delta=1e-6)
    with ledger.reserve(0.25, 1e-7, purpose="all users"):
        assert states(Ledger.open(path)) == [State.RESERVED]
        assert ledger.spent() == PrivacyBudget(0.25, 1e-7)
    assert states(ledger) == [State.COMMITTED]
    with ledger.reserve(0.5, purpose="languages") as reservation:
        reservation.abandon()
    assert states(ledger) == [State.COMMITTED, State.ABANDONED]
    assert ledger.spent() == PrivacyBudget(0.25, 1e-7)
    with pytest.raises(RuntimeError), ledger.reserve(0.75, purpose="ages"):
        raise RuntimeError
    # The job failed and nobody vouched that nothing was released.
    assert states(ledger)[-1] is State.RESERVED
    assert ledger.remaining() == PrivacyBudget(0, 9e-7)
    assert ledger.budget == Ledger.open(path).budget == PrivacyBudget(1, 1e-6)


def test_the_budget_can_be_used_up_exactly_and_not_beyond(path):
    ledger = Ledger.create(path, epsilon=1, delta="3e-7")
    for i in range(10):
        ledger.reserve(0.1, purpose=f"tenth {i}")
    for i in range(3):
        ledger.reserve(0, 1e-7, purpose=f"delta {i}")
    assert ledger.spent() == ledger.budget
    before = path.read_bytes()
    for epsilon, delta in [(Fraction(1, 10**50), 0), (0, "1e-50")]:
        with pytest.raises(BudgetExceededError, match="only epsilon 0, delta 0 is left"):
            ledger.reserve(epsilon, delta, purpose="a little more")
    assert path.read_bytes() == before


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_a_ledger_has_one_unit(path, unit):
    Ledger.create(path, epsilon=1, unit=unit)
    ledger = Ledger.open(path)
    assert ledger.unit is unit
    with ledger.reserve(0.25, purpose="the ledger's", unit=unit):
        pass
    before = path.read_bytes()
    for other in set(PrivacyUnit) - {unit}:
        with pytest.raises(PrivacyUnitError, match=f"{unit.neighbours}.*{other.neighbours}"):
            ledger.reserve(0.25, purpose="another's", unit=other)
    assert path.read_bytes() == before
    (line,) = Ledger.open(path).lines()
    assert line.unit is unit and line.to_json()["unit"] == unit.value


@pytest.mark.parametrize("epsilon", ["0.3", "0.8", "1.1"])
def test_lists_compose_by_their_range_or_by_their_epsilon(path, epsilon):
    mechanism = partition_mechanism(float(epsilon))
    ledger = Ledger.create(path, epsilon=5, delta=1e-6, composition_delta=1e-6)
    c = mechanism.rate
    # rho-zCDP with rho = (2 c)**2 / 8 by range, and epsilon**2 / 2 by epsilon.
    fits = int(float(zcdp_of(5, 1e-6)) / min(c**2 / 2, float(epsilon) ** 2 / 2))
    fits = max(fits, int(5 / float(epsilon)))
    for _ in range(fits):
        ledger.reserve(epsilon, purpose="one list", loss_range=mechanism.loss_range)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(epsilon, purpose="one list", loss_range=mechanism.loss_range)
    ranges = mechanism.loss_range / float(epsilon)
    most = [Ledger.open(path).remaining(multiple).epsilon for multiple in (ranges, 2)]
    assert most[1] <= most[0] < Fraction(epsilon)


def test_a_line_for_a_privacy_statement(ledger):
    ledger.reserve("1/3", purpose="all users", loss_range="2/5").commit()
    ledger.reserve(0.5, purpose="ages")
    first, second = json.loads(json.dumps([line.to_json() for line in ledger.lines()]))
    said = {"id": 1, "state": "committed", "unit": "user", "purpose": "all users"}
    assert first == said | {"epsilon": "1/3", "delta": "0", "loss_range": "0.4"}
    assert (second["id"], second["state"], second["loss_range"]) == (2, "reserved", "1")


def test_a_reservation_is_closed_once(path, ledger):
    first = ledger.reserve(0.1, purpose="first")
    first.commit()
    with pytest.raises(ValueError, match=r"reservation 1 of .* is already committed"):
        first.abandon()
    second = ledger.reserve(0.1, purpose="second")
    # After a restart, by its number.
    Ledger.open(path).abandon(second.id)
    with pytest.raises(ValueError, match="already abandoned"):
        second.commit()
    with pytest.raises(ValueError, match=r"reservation 3 of .* is not there"):
        ledger.commit(3)
    assert ledger.spent() == PrivacyBudget(0.1)


def test_concurrent_jobs_spend_all_of_it_and_no_more(in_memory):
    ledger = Ledger.create(in_memory / "budget", epsilon=1)

    def spend_all():
        with contextlib.suppress(BudgetExceededError):
            while True:
                with ledger.reserve("1/40", purpose="a part") as reservation:
                    if reservation.id % 3 == 0:
                        reservation.abandon()

    assert run(spend_all, processes=6) == 0
    assert ledger.spent() == PrivacyBudget(1)
    assert set(states(ledger)) == {State.COMMITTED, State.ABANDONED}


def test_a_full_disk_stops_the_job_before_its_release(ledger, tmp_path):
    output = tmp_path / "released"

    def reserve(room):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        with contextlib.suppress(OSError), ledger.reserve(0.5, purpose="list"):
            output.touch()
        os._exit(0)

    # Of its journal, which is written first, nothing or a part fits; the file itself does not grow.
    for room in (0, 1, 512, 1000, 4000):
        assert run(reserve, room) == 0
        assert ledger.lines() == () and not output.exists()
    assert run(reserve, 100_000) == 0 and output.exists()
    assert ledger.remaining() == PrivacyBudget(0.5)


def test_a_full_disk_after_the_release_leaves_it_on_record(ledger):
    def release():
        with pytest.raises(OSError, match=r"disk|space"), ledger.reserve(0.5, purpose="released"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        os._exit(3)

    assert run(release) == 3
    assert states(ledger) == [State.RESERVED]
    assert ledger.spent() == PrivacyBudget(0.5)


def test_a_file_or_directory_that_is_read_only(in_memory):
    path = in_memory / "budget"
    ledger = Ledger.create(path, epsilon=1)
    path.chmod(0o644)
    in_memory.chmod(0o555)

    def reserve(message):
        if os.geteuid() == 0:
            os.setuid(65534)
        assert Ledger.open(path).remaining() == PrivacyBudget(1)
        with pytest.raises(OSError, match=message):
            ledger.reserve(0.5, purpose="list")
        with pytest.raises(PermissionError):
            Ledger.create(in_memory / "other", epsilon=1)
        os._exit(3)

    assert run(reserve, "read-only") == 3
    path.chmod(0o666)
    assert run(reserve, "may not be opened or written|read-only") == 3
    in_memory.chmod(0o755)
    assert ledger.lines() == ()


def test_a_lock_that_is_never_released(path, ledger, monkeypatch):
    monkeypatch.setattr(ledger_file, "_WAIT_SECONDS", 0.05)
    with ledger_file.transaction(str(path), "BEGIN EXCLUSIVE"):
        with pytest.raises(OSError, match="another job has held the ledger's lock"):
            ledger.reserve(0.5, purpose="list")
    ledger.reserve(1, purpose="all of it")


def test_every_damaged_byte_is_noticed_or_means_nothing(path, ledger):
    ledger.reserve(0.5, purpose="first").commit()
    ledger.reserve(0.25, purpose="second")
    intact, lines, noticed = path.read_bytes(), ledger.lines(), 0
    # In most pages most bytes are not used.
    for place in [i for i in range(len(intact)) if intact[i] or i % 97 == 0]:
        damaged = bytearray(intact)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            opened = Ledger.open(path)
            found = opened.budget, opened.unit, opened.lines()
            assert found == (ledger.budget, ledger.unit, lines)
        except CorruptedLedgerError:
            noticed += 1
            assert path.read_bytes() == damaged
    assert noticed > 500


@pytest.mark.parametrize(
    "change",
    [
        # The length at which the file is cut off.
        *(0, 1, 100, 4096, 5000),
        "UPDATE reservations SET state = 'abandoned' WHERE id = 2",
        "DELETE FROM reservations WHERE id = 1",
        "UPDATE reservations SET id = 7 WHERE id = 2",
        "UPDATE reservations SET purpose = NULL",
        "UPDATE reservations SET purpose = x'ff'",
        "UPDATE budget SET epsilon = '9'",
        "DELETE FROM budget",
        "INSERT INTO budget SELECT * FROM budget",
        "DROP TABLE reservations",
        "ALTER TABLE reservations ADD COLUMN more",
        "PRAGMA user_version = 6",
        "PRAGMA application_id = 0",
    ],
)
def test_a_damaged_ledger_refuses_everything(path, ledger, change):
    ledger.reserve(0.5, purpose="first")
    ledger.reserve(0.25, purpose="second")
    if isinstance(change, int):
        os.truncate(path, change)
    else:
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(change)
    damaged = path.read_bytes()
    for attempt in (
        lambda: Ledger.open(path),
        lambda: ledger.reserve(0.1, purpose="third"),
        lambda: ledger.commit(2),
        lambda: ledger.begin([2]),
        lambda: ledger.give_back([2]),
        ledger.spent,
        ledger.remaining,
        ledger.lines,
    ):
        with pytest.raises(CorruptedLedgerError, match=r"damaged|not a privacy ledger"):
            attempt()
    assert path.read_bytes() == damaged


def test_reservations_beyond_the_budget_are_refused(path, ledger):
    line = LedgerLine(1, "2", Cost(PrivacyBudget(2)), PrivacyUnit.USER, Origin(), False)
    with ledger_file.transaction(str(path)) as connection:
        ledger_file.write(connection, [line])
    with pytest.raises(CorruptedLedgerError, match="its reservations exceed its budget"):
        ledger.spent()


@pytest.mark.parametrize(
    "content", [b"epsilon,1\n", b"", b'{"entry":{"budget":1},"sha256":"00"}\n']
)
def test_a_file_that_is_no_ledger_is_neither_taken_for_one_nor_changed(path, content):
    path.write_bytes(content)
    with pytest.raises(CorruptedLedgerError, match=r"is not a privacy ledger.*earlier version"):
        Ledger.open(path)
    with pytest.raises(FileExistsError):
        Ledger.create(path, epsilon=1)
    assert path.read_bytes() == content and os.listdir(path.parent) == [path.name]


def test_what_is_not_there_is_not_made(path):
    with pytest.raises(FileNotFoundError):
        Ledger.open(path)
    ledger = Ledger.create(path, epsilon=1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()
    with pytest.raises(FileNotFoundError):
        ledger.reserve(0.5, purpose="list")
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        Ledger.open(path)
    assert os.listdir(path.parent) == [path.name]


def test_a_ledger_is_not_replaced_under_a_running_job(path, ledger):
    os.replace(Ledger.create(f"{path}.new", epsilon=1).path, path)
    with pytest.raises(CorruptedLedgerError, match="another ledger than when it was opened"):
        ledger.reserve(1, purpose="more")


def test_what_is_given_back_cannot_be_begun_and_what_is_begun_not_given_back(ledger):
    requests = [Request("a", HALF), Request("b", HALF)]
    first = [one.id for one in ledger.reserve_all(requests, announces=True)]
    assert ledger.give_back(first)
    with pytest.raises(ValueError, match="is already failed"):
        ledger.begin(first)
    second = [one.id for one in ledger.reserve_all(requests, announces=True)]
    ledger.begin(second)
    ledger.begin(second)
    assert not ledger.give_back(second)
    assert ledger.spent() == PrivacyBudget(1)
    ledger.commit(*second)
    with pytest.raises(ValueError, match="is already committed"):
        ledger.begin(second)


def test_a_ledger_has_so_many_free_failures(path):
    ledger = Ledger.create(path, epsilon=1, free_failures=2)
    tenth = Request("a tenth", Cost(PrivacyBudget(0.1)))

    def reserved(requests=1):
        return [one.id for one in ledger.reserve_all([tenth] * requests, announces=True)]

    def reserve_and_die():
        reserved()
        os.kill(os.getpid(), signal.SIGKILL)

    # What a person vouches for is no failure.
    ledger.abandon(*reserved())
    assert ledger.free_failures_left() == 2
    assert ledger.give_back(reserved())
    assert ledger.free_failures_left() == 1
    # Of two reservations of a job none is given back where one could be.
    assert not ledger.give_back(reserved(2))
    assert ledger.spent() == PrivacyBudget(0.2)
    run(reserve_and_die)
    # It counts as given back before another job finds out.
    assert ledger.free_failures_left() == 0 and ledger.spent() == PrivacyBudget(0.2)
    assert not ledger.give_back(reserved()) and ledger.spent() == PrivacyBudget(0.3)
    run(reserve_and_die)
    assert ledger.spent() == PrivacyBudget(0.4)
    reserved()
    assert Ledger.open(path).spent() == PrivacyBudget(0.5)
    assert [state for state in states(ledger) if state is not State.RESERVED] == [
        State.ABANDONED,
        State.FAILED,
        State.FAILED,
    ]


def test_free_failures_end_in_the_order_of_reservations(path):
    ledger = Ledger.create(path, epsilon=1, free_failures=1)

    def reserve_and_die():
        ledger.reserve_all([Request("half", HALF)] * 2, announces=True)
        os.kill(os.getpid(), signal.SIGKILL)

    run(reserve_and_die)
    assert [line.is_lost for line in ledger.lines()] == [True, False]
    assert ledger.spent() == PrivacyBudget(0.5)


@pytest.mark.parametrize("number", [-1, 0.5, True, "20", None])
def test_a_number_of_free_failures_is_an_integer_from_0(path, number):
    with pytest.raises(ValueError, match="free_failures must be an integer from 0"):
        Ledger.create(path, epsilon=1, free_failures=number)
    assert not path.exists()


@pytest.mark.parametrize("announces", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_what_a_killed_process_reserved(ledger, announces, begins):
    def reserve_and_die():
        (one,) = ledger.reserve_all([Request("killed", HALF)], Origin(job_id="j"), announces)
        if begins:
            ledger.begin([one.id])
        os.kill(os.getpid(), signal.SIGKILL)

    assert run(reserve_and_die) == -signal.SIGKILL
    free = announces and not begins
    assert ledger.spent() == PrivacyBudget(0 if free else 0.5)
    assert len(ledger.of_job("j")) == (not free)
    # Another one of the same job may follow, or not.
    with contextlib.nullcontext() if free else pytest.raises(JobExistsError):
        ledger.reserve_all([Request("again", HALF), Request("more", HALF)], Origin(job_id="j"))
        assert states(ledger) == [State.FAILED, State.RESERVED, State.RESERVED]


def test_a_parent_that_dies_while_another_job_reserves_is_not_given_back_and_counted_on(
    ledger, monkeypatch
):
    whole = [Request("whole", Cost(PrivacyBudget(1)))]
    (reservation,) = ledger.reserve_all(whole, announces=True)
    # It dies after the first question, and its worker lives on.
    answers = iter([False])
    monkeypatch.setattr(ledger_file, "has_ended", lambda process: next(answers, True))
    with pytest.raises(BudgetExceededError):
        ledger.reserve_all(whole)
    assert len(ledger.lines()) == 1
    ledger.begin([reservation.id])
    assert ledger.remaining() == PrivacyBudget(0)


def test_what_is_begun_stays_within_the_budget_when_jobs_and_workers_are_killed():
    rounds = 40
    command = [sys.executable, "-m", "tests.budget.ledger_kills", f"--rounds={rounds}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = {word: int(count) for word, count in re.findall(r"([a-z][a-z ]*): (\d+)", ran.stdout)}
    assert seen["rounds"] == rounds
    assert min(seen[word] for word in ("begun", "killed", "given back")) > 0


def test_a_process_is_known_to_have_ended_on_this_boot_of_this_machine_only():
    here = ledger_file.this_process()
    boot, space, number, start = here.split(" ")
    child = FORK.Process(target=os._exit, args=(0,))
    child.start()
    free = child.pid
    child.join()
    # Its number is another's, or nobody's, by now.
    for ended in (f"{number} {int(start) - 1}", f"{free} {start}"):
        assert processes.has_ended(f"{boot} {space} {ended}")
    others = (f"0{boot[1:]} {space} {free}", f"{boot} pid:[1] {free}", f"{boot} {space} much")
    for other in (here, *(f"{one} {start}" for one in others), "", "x"):
        assert not processes.has_ended(other)


def test_a_row_says_when_where_and_for_which_job_in_printable_text(path, ledger):
    origin = Origin("release", "/data/out", "first try", "2026-11-23")
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    before = time.strftime(stamp, time.gmtime())
    ledger.reserve(0.5, purpose="list", origin=origin).commit()
    (line,) = Ledger.open(path).lines()
    assert line.origin == origin and line.host == socket.gethostname()
    assert before <= line.reserved_at <= line.closed_at <= time.strftime(stamp, time.gmtime())
    for name in ("command", "output", "label", "job_id"):
        with pytest.raises(ValueError, match=f"{name} must be 0 to"):
            Origin(**{name: "two\nlines"})
    for purpose in ("", "two\nlines", "x" * 201):
        with pytest.raises(ValueError, match="purpose must be 1 to 200 printable characters"):
            ledger.reserve(0.1, purpose=purpose)
    assert ledger.lines() == (line,)


LIBC = ctypes.CDLL(None, use_errno=True)
TRACE_ME, NEXT_CALL = 0, 24


def left_by_kills(directory, job):
    """The files of a directory, by name, before each call of a child to the operating system: what
    SIGKILL would leave there, which itself changes none. States that last are there once."""
    process = os.fork()
    if process == 0:
        LIBC.ptrace(TRACE_ME, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        job()
        os._exit(0)
    os.waitpid(process, 0)
    states = []
    while True:
        files = {path.name: path.read_bytes() for path in directory.iterdir()}
        if files not in states[-1:]:
            states.append(files)
        # It stops at the beginning and at the end of each.
        if LIBC.ptrace(NEXT_CALL, process, 0, 0):
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            pytest.skip("this system does not let a process trace its child")
        _, status = os.waitpid(process, 0)
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return states


@pytest.fixture
def in_memory():
    """A directory where waiting for the disk takes no time: a killed process is no power cut."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as place:
        yield pathlib.Path(place)


def test_kill_9_at_every_call_to_the_system(in_memory):
    path, output, seen = in_memory / "budget", in_memory / "released", set()
    ledger = Ledger.create(path, epsilon=1)
    ledger.reserve(0.25, purpose="before").commit()

    def job():
        (reservation,) = ledger.reserve_all([Request("killed", HALF)], announces=True)
        ledger.begin([reservation.id])
        with open(output, "xb", buffering=0) as file:
            file.write(b"released")
        reservation.commit()

    states = left_by_kills(in_memory, job)
    assert len(states) > 20
    for files in states:
        for old in in_memory.iterdir():
            old.unlink()
        for name, content in files.items():
            (in_memory / name).write_bytes(content)
        ledger = Ledger.open(path)
        lines = ledger.lines()[1:]
        begun = any(line.begun for line in lines)
        # A release never goes unrecorded, and what may have come out stays spent.
        assert begun or not output.exists()
        assert ledger.spent() == PrivacyBudget(0.75 if begun else 0.25)
        ledger.reserve((ledger.budget - ledger.spent()).epsilon, purpose="after").commit()
        with pytest.raises(BudgetExceededError):
            ledger.reserve("1e-9", purpose="too much")
        seen.add((output.exists(), begun, *(line.state for line in lines)))
    assert seen == {
        (False, False),
        (False, False, State.RESERVED),
        (False, True, State.RESERVED),
        (True, True, State.RESERVED),
        (True, True, State.COMMITTED),
    }
