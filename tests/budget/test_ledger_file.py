"""Ledgers in files: full disks, locks, damage, and kills at each call to the system."""

import contextlib
import ctypes
import os
import resource
import signal
import sqlite3
import stat

import pytest

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedLedgerError,
    Ledger,
    LedgerLine,
    Origin,
    PrivacyBudget,
    PrivacyUnit,
    Request,
    State,
    ledger_file,
)
from dp_transforms.budget.budget import Cost
from tests.budget.forks import run

HALF = Cost(PrivacyBudget(0.5))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


@pytest.fixture
def ledger(path):
    return Ledger.create(path, epsilon=1)


def states(ledger):
    return [line.state for line in ledger.lines()]


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


@pytest.mark.thorough
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
            contents = opened.budget, opened.unit, opened.lines()
            assert contents == (ledger.budget, ledger.unit, lines)
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
        "PRAGMA user_version = 7",
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
