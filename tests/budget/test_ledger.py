"""The shared budget: never overspent, never forgotten, whatever happens to the jobs and the
disk."""

import json
import multiprocessing
import os
import resource
import signal
from fractions import Fraction

import pytest

from dp_transforms.budget import (
    BudgetExceededError,
    CorruptedJournalError,
    Ledger,
    PrivacyBudget,
    PrivacyUnit,
    PrivacyUnitError,
)
from dp_transforms.budget.filter import zcdp_of
from dp_transforms.budget.journal import Journal
from dp_transforms.budget.ledger import State
from dp_transforms.mechanisms.integer_partition.choice import partition_mechanism

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.jsonl"


def run(target, *args):
    """Runs target in a child process, and returns its exit code (negative: killed by that
    signal)."""
    child = FORK.Process(target=target, args=args)
    child.start()
    child.join()
    return child.exitcode


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


def test_users_are_the_unit_if_nothing_is_said(path):
    ledger = Ledger.create(path, epsilon=1)
    ledger.reserve(0.5, purpose="list")
    assert ledger.unit is ledger.lines()[0].unit is PrivacyUnit.USER


def test_a_ledger_without_a_unit_is_read_and_takes_no_more(path):
    header = {"epsilon": "1", "delta": "0", "composition_delta": "0"}
    journal = Journal.create(path, {"format": "dp-frequency-lists privacy ledger 1"} | header)
    entry = {"purpose": "list", "epsilon": "0.25", "delta": "0", "bounded_range": True}
    with journal.appending() as appender:
        appender.append(entry)
    ledger = Ledger.open(path)
    assert ledger.unit is None and ledger.remaining() == PrivacyBudget("0.75")
    assert "unit" not in ledger.lines()[0].to_json()
    for unit in PrivacyUnit:
        with pytest.raises(PrivacyUnitError, match="does not say what its neighbours are"):
            ledger.reserve(0.25, purpose="more", unit=unit)
    # What has begun may still end.
    ledger.commit(2)
    assert states(ledger) == [State.COMMITTED]


@pytest.mark.parametrize("unit", [None, "edge"])
def test_a_reservation_of_another_unit_is_damage(path, unit):
    Ledger.create(path, epsilon=1)
    entry = {"purpose": "list", "epsilon": "0.25", "delta": "0", "bounded_range": True}
    with Journal(path).appending() as appender:
        appender.append(entry if unit is None else entry | {"unit": unit})
    with pytest.raises(CorruptedJournalError, match="line 2"):
        Ledger.open(path)


@pytest.mark.parametrize("unit", ["users", None, 1, ["user"]])
def test_a_unit_that_is_none_is_damage(path, unit):
    header = {"epsilon": "1", "delta": "0", "composition_delta": "0", "unit": unit}
    Journal.create(path, {"format": "dp-frequency-lists privacy ledger 2"} | header)
    with pytest.raises(CorruptedJournalError, match="line 1: not a privacy ledger"):
        Ledger.open(path)


def test_many_lists_under_a_composition_delta(path):
    ledger = Ledger.create(path, epsilon=1, delta=1e-6, composition_delta=1e-6)
    # rho = 0.02435 holds 19 lists of 0.1**2 / 8; the epsilons alone would hold ten.
    for _ in range(19):
        ledger.reserve(0.1, purpose="one list", loss_range=0.1)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(0.1, purpose="one list", loss_range=0.1)
    assert ledger.spent() == PrivacyBudget("1.9")
    assert Ledger.open(path).remaining(ranges=1).epsilon < 0.1
    # What is known by its epsilon only costs four times as much.
    assert ledger.remaining().epsilon == pytest.approx(
        ledger.remaining(ranges=1).epsilon / 2, rel=1e-6
    )


@pytest.mark.parametrize("epsilon", ["0.25", "0.3", "0.5", "0.55", "0.8", "1", "1.09", "1.1"])
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


def test_ledgers_of_format_2_are_read_and_go_on(path):
    header = {"epsilon": "1", "delta": "1e-6", "composition_delta": "1e-6", "unit": "user"}
    journal = Journal.create(path, {"format": "dp-frequency-lists privacy ledger 2"} | header)
    entry = {"purpose": "list", "epsilon": "0.25", "delta": "0", "unit": "user"}
    with journal.appending() as appender:
        appender.append(entry | {"bounded_range": True})
        appender.append(entry | {"bounded_range": False})
    ledger = Ledger.open(path)
    ledger.reserve("0.3", purpose="list", loss_range="0.4")
    ranges = [line.cost.loss_range for line in Ledger.open(path).lines()]
    assert ranges == [Fraction(1, 4), Fraction(1, 2), Fraction(2, 5)]


def test_lines_for_a_privacy_statement(path):
    ledger = Ledger.create(path, epsilon=1)
    with ledger.reserve("1/3", purpose="all users", loss_range="2/5"):
        pass
    ledger.reserve(0.5, purpose="ages")
    assert json.loads(json.dumps([line.to_json() for line in ledger.lines()])) == [
        {
            "line": 2,
            "state": "committed",
            "unit": "user",
            "purpose": "all users",
            "epsilon": "1/3",
            "delta": "0",
            "loss_range": "0.4",
        },
        {
            "line": 4,
            "state": "reserved",
            "unit": "user",
            "purpose": "ages",
            "epsilon": "0.5",
            "delta": "0",
            "loss_range": "1",
        },
    ]


def test_a_reservation_is_closed_once(path):
    ledger = Ledger.create(path, epsilon=1)
    first = ledger.reserve(0.1, purpose="first")
    first.commit()
    with pytest.raises(ValueError, match=r"line 2 of .* is already committed"):
        first.abandon()
    second = ledger.reserve(0.1, purpose="second")
    # After a restart, by its number.
    Ledger.open(path).abandon(second.number)
    with pytest.raises(ValueError, match="already abandoned"):
        second.commit()
    with pytest.raises(ValueError, match=r"line 3 of .* is not a reservation"):
        ledger.commit(3)
    assert ledger.spent() == PrivacyBudget(0.1)


def spend_all(path, share):
    ledger = Ledger.open(path)
    try:
        while True:
            with ledger.reserve(share, purpose=f"process {os.getpid()}") as reservation:
                if reservation.number % 3 == 0:
                    reservation.abandon()
    except BudgetExceededError:
        pass


def test_concurrent_jobs_spend_all_of_it_and_no_more(path):
    share = Fraction(1, 40)
    ledger = Ledger.create(path, epsilon=1)
    children = [FORK.Process(target=spend_all, args=(path, share)) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert ledger.spent() == PrivacyBudget(1)
    assert states(ledger).count(State.COMMITTED) == 40
    assert set(states(ledger)) == {State.COMMITTED, State.ABANDONED}
    numbers = [line.number for line in ledger.lines()]
    assert len(set(numbers)) == len(numbers)


def job(path, output, fatal_call):
    """Reserve, release, commit; killed with kill -9 at the given call to the operating system.

    A write is killed when half of it is done.
    """
    calls = 0

    def counted(name, function):
        def call(*args):
            nonlocal calls
            calls += 1
            if calls > fatal_call:
                if name == "write":
                    function(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args)

        return call

    ledger = Ledger.open(path)
    for name in ("open", "read", "write", "fsync", "ftruncate", "close"):
        setattr(os, name, counted(name, getattr(os, name)))
    with ledger.reserve(0.5, purpose="killed"):
        with open(output, "xb", buffering=0) as file:
            file.write(b"released")
    os._exit(0)


def test_kill_9_between_any_two_steps(tmp_path):
    seen = set()
    for fatal_call in range(100):
        path, output = tmp_path / f"{fatal_call}.jsonl", tmp_path / f"{fatal_call}.released"
        ledger = Ledger.create(path, epsilon=1)
        ledger.reserve(0.25, purpose="before").commit()
        exit_code = run(job, path, output, fatal_call)
        after = states(ledger)[1:]
        if output.exists():
            # A release never goes unrecorded.
            assert after in ([State.RESERVED], [State.COMMITTED])
        # What was spent stays spent, and the ledger goes on working.
        spent = PrivacyBudget(0.75 if after else 0.25)
        assert ledger.spent() == spent
        ledger.reserve((ledger.budget - spent).epsilon, purpose="after").commit()
        with pytest.raises(BudgetExceededError):
            ledger.reserve("1e-9", purpose="too much")
        seen.add((output.exists(), *after))
        if exit_code == 0:
            break
        assert exit_code == -signal.SIGKILL
    assert seen == {
        (False,),
        (False, State.RESERVED),
        (True, State.RESERVED),
        (True, State.COMMITTED),
    }


def reserve_on_a_full_disk(path, output, free_bytes):
    size = os.path.getsize(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + free_bytes, resource.RLIM_INFINITY))
    try:
        with Ledger.open(path).reserve(0.5, purpose="does not fit on the disk"):
            output.touch()
    except OSError:
        os._exit(3)
    os._exit(0)


def test_a_full_disk_stops_the_job_before_its_release(path, tmp_path):
    ledger = Ledger.create(path, epsilon=1)
    before = path.read_bytes()
    output = tmp_path / "released"
    for free_bytes in (0, 1, 100):
        assert run(reserve_on_a_full_disk, path, output, free_bytes) == 3
        assert path.read_bytes() == before
        assert not output.exists()
    # Room for the reservation but not for the commit: released, and on record as reserved.
    assert run(reserve_on_a_full_disk, path, output, 250) == 3
    assert output.exists()
    assert states(ledger) == [State.RESERVED]
    assert ledger.spent() == PrivacyBudget(0.5)
    assert run(reserve_on_a_full_disk, path, output, 10_000) == 0
    assert ledger.remaining() == PrivacyBudget(0)


def test_a_damaged_ledger_refuses_everything(path):
    ledger = Ledger.create(path, epsilon=1)
    ledger.reserve(0.5, purpose="first")
    ledger.reserve(0.25, purpose="second")
    damaged = path.read_bytes().replace(b'"0.5"', b'"0.1"')
    path.write_bytes(damaged)
    for attempt in (
        lambda: Ledger.open(path),
        lambda: ledger.reserve(0.1, purpose="third"),
        lambda: ledger.commit(3),
        ledger.spent,
        ledger.remaining,
        ledger.lines,
    ):
        with pytest.raises(CorruptedJournalError, match="line 2: damaged"):
            attempt()
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    "entry",
    [
        {"committed": 2},
        {"committed": 7},
        {"abandoned": 1},
        {"reserved": 2},
        {},
        {"unknown": 1},
        {"purpose": "negative", "epsilon": "-1", "delta": "0", "bounded_range": False},
        {"purpose": "not a number", "epsilon": "much", "delta": "0", "bounded_range": False},
        {"purpose": "small range", "epsilon": "0.2", "delta": "0", "loss_range": "0.1"},
    ],
)
def test_well_formed_lines_that_make_no_sense_are_refused(path, entry):
    ledger = Ledger.create(path, epsilon=1)
    ledger.reserve(0.5, purpose="first").commit()
    with Journal(path).appending() as appender:
        appender.append(entry)
    with pytest.raises(CorruptedJournalError, match="line 4"):
        Ledger.open(path)
    with pytest.raises(CorruptedJournalError, match="line 4"):
        ledger.reserve(0.1, purpose="second")


def test_reservations_beyond_the_budget_are_refused(path):
    ledger = Ledger.create(path, epsilon=1)
    with Journal(path).appending() as appender:
        entry = {"purpose": "2", "epsilon": "2", "delta": "0", "bounded_range": False}
        appender.append(entry | {"unit": "user"})
    with pytest.raises(CorruptedJournalError, match="its reservations exceed its budget"):
        ledger.spent()


def test_another_file_is_not_a_ledger(path, tmp_path):
    path.write_text("epsilon,1\n")
    with pytest.raises(CorruptedJournalError, match="line 1: damaged"):
        Ledger.open(path)
    journal = Journal.create(tmp_path / "other.jsonl", {"format": "something else"})
    with pytest.raises(CorruptedJournalError, match="line 1: not a privacy ledger"):
        Ledger.open(journal.path)
    with pytest.raises(FileNotFoundError):
        Ledger.open(tmp_path / "absent")


def test_a_ledger_is_never_replaced(path):
    Ledger.create(path, epsilon=1).reserve(1, purpose="all of it")
    with pytest.raises(FileExistsError):
        Ledger.create(path, epsilon=1)
    # Not by another one under a running job either.
    ledger = Ledger.open(path)
    os.replace(Ledger.create(f"{path}.new", epsilon=5)._journal.path, path)
    with pytest.raises(CorruptedJournalError, match="another budget than when it was opened"):
        ledger.reserve(1, purpose="more")


@pytest.mark.parametrize("purpose", ["", "two\nlines", "x" * 201])
def test_purposes_that_are_refused(path, purpose):
    with pytest.raises(ValueError, match="purpose must be 1 to 200 printable characters"):
        Ledger.create(path, epsilon=1).reserve(0.1, purpose=purpose)


def test_costs_that_are_refused(path):
    ledger = Ledger.create(path, epsilon=1)
    for epsilon, delta in [(-0.1, 0), (0.1, -1e-9), (float("nan"), 0), ("much", 0)]:
        with pytest.raises(ValueError, match="must"):
            ledger.reserve(epsilon, delta, purpose="bad")
    assert ledger.lines() == ()
    with pytest.raises(ValueError, match="composition_delta must be between"):
        Ledger.create(f"{path}.2", epsilon=1, delta=1e-6, composition_delta=1e-3)
