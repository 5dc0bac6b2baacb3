"""What both kinds of ledger have in common."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from dp_transforms.budget import (
    BudgetExceededError,
    JobExistsError,
    Ledger,
    Origin,
    PrivacyBudget,
    PrivacyUnit,
    PrivacyUnitError,
    Request,
    State,
    ledger_rows,
)
from dp_transforms.budget.budget import Cost, zcdp_of
from dp_transforms.budget.failures import FailuresUsedUpError
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from tests.budget.conftest import stored
from tests.budget.forks import run

HALF = Cost(PrivacyBudget(0.5))


def states(ledger):
    return [line.state for line in ledger.lines()]


def test_a_reservation_pays_for_one_release(path):
    ledger = Ledger.create(path, epsilon=1)
    used = ledger.reserve(0.25, purpose="list")
    with used:
        pass
    given_back, failed = ledger.reserve(0.25, purpose="a"), ledger.reserve(0.25, purpose="b")
    given_back.abandon()
    with pytest.raises(RuntimeError), failed:
        raise RuntimeError
    for reservation in (used, given_back, failed):
        with pytest.raises(ValueError, match="reserve again for another release"), reservation:
            raise AssertionError("the block must not run")
    assert ledger.spent() == PrivacyBudget(0.5)


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
    before = stored(path)
    for epsilon, delta in [(Fraction(1, 10**50), 0), (0, "1e-50")]:
        with pytest.raises(BudgetExceededError, match="only epsilon 0, delta 0 is left"):
            ledger.reserve(epsilon, delta, purpose="a little more")
    assert stored(path) == before


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_a_ledger_has_one_unit(path, unit):
    Ledger.create(path, epsilon=1, unit=unit)
    ledger = Ledger.open(path)
    assert ledger.unit is unit
    with ledger.reserve(0.25, purpose="the ledger's", unit=unit):
        pass
    before = stored(path)
    for other in set(PrivacyUnit) - {unit}:
        with pytest.raises(PrivacyUnitError, match=f"{unit.neighbours}.*{other.neighbours}"):
            ledger.reserve(0.25, purpose="another's", unit=other)
    assert stored(path) == before
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
    expected = {"id": 1, "state": "committed", "unit": "user", "purpose": "all users"}
    assert first == expected | {"epsilon": "1/3", "delta": "0", "loss_range": "0.4"}
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


def test_concurrent_jobs_spend_all_of_it_and_no_more(ledger):
    def spend_all():
        with contextlib.suppress(BudgetExceededError):
            while True:
                with ledger.reserve("1/20", purpose="a part") as reservation:
                    if reservation.id % 3 == 0:
                        reservation.abandon()

    assert run(spend_all, processes=4) == 0
    assert ledger.spent() == PrivacyBudget(1)
    assert set(states(ledger)) == {State.COMMITTED, State.ABANDONED}


def test_what_is_given_back_cannot_be_begun_and_what_is_begun_not_given_back(ledger):
    requests = [Request("a", HALF), Request("b", HALF)]
    first = [reservation.id for reservation in ledger.reserve_all(requests, announces=True)]
    assert ledger.give_back(first)
    with pytest.raises(ValueError, match="is already failed"):
        ledger.begin(first)
    second = [reservation.id for reservation in ledger.reserve_all(requests, announces=True)]
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
        return [
            reservation.id for reservation in ledger.reserve_all([tenth] * requests, announces=True)
        ]

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


@pytest.mark.thorough
def test_failures_answer_a_bounded_number_of_questions_whatever_they_cost(path):
    """Somebody who may choose parameters asks by jobs that fail where a condition holds."""
    ledger = Ledger.create(path, epsilon=1, free_failures=3)

    def ask(epsilon):
        (asked,) = ledger.reserve_all([Request("?", Cost(PrivacyBudget(epsilon)))], announces=True)
        ledger.charge(asked.id)

    for left in (2, 1, 0):
        ask("1e-9")
        assert ledger.free_failures_left() == left
    with pytest.raises(FailuresUsedUpError, match=r"epsilon 0\.01, where this .* 0\.000000001\. "):
        ask("1e-9")
    with pytest.raises(FailuresUsedUpError):
        ledger.check_price([Cost(PrivacyBudget("0.0099"))])
    # A caller that does not announce gets nothing back, and answers for its own failures.
    ledger.reserve("1e-9", purpose="a library's release").commit()
    answers = 0
    with pytest.raises(BudgetExceededError):
        while True:
            ask("0.01")
            answers += 1
    assert answers == 99
    assert set(states(ledger)) == {State.CHARGED, State.COMMITTED}


def test_a_job_that_ends_while_it_writes_uses_up_a_free_failure(path):
    ledger = Ledger.create(path, epsilon=1, free_failures=1)
    tenth = Request("a tenth", Cost(PrivacyBudget("0.1")))

    def reserve_begin_and_die():
        (reservation,) = ledger.reserve_all([tenth], announces=True)
        ledger.begin([reservation.id])
        os.kill(os.getpid(), signal.SIGKILL)

    run(reserve_begin_and_die)
    assert ledger.free_failures_left() == 0 and ledger.spent() == PrivacyBudget("0.1")
    # Unless its release turns out to be there.
    ledger.commit(1)
    assert ledger.free_failures_left() == 1


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
    with pytest.raises(FileNotFoundError):
        Ledger.open(path)


@pytest.mark.parametrize("announces", [False, True])
@pytest.mark.parametrize("begins", [False, True])
def test_what_a_killed_process_reserved(ledger, announces, begins):
    def reserve_and_die():
        (reservation,) = ledger.reserve_all(
            [Request("killed", HALF)], Origin(job_id="j"), announces
        )
        if begins:
            ledger.begin([reservation.id])
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
    monkeypatch.setattr(ledger_rows, "has_ended", lambda process: next(answers, True))
    with pytest.raises(BudgetExceededError):
        ledger.reserve_all(whole)
    assert len(ledger.lines()) == 1
    ledger.begin([reservation.id])
    assert ledger.remaining() == PrivacyBudget(0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "rounds", "events"),
    # Six rounds on a busy machine may give nothing back.
    [("file", 40, {"begun", "killed", "given back"}), ("postgresql", 6, {"begun", "killed"})],
)
def test_what_is_begun_stays_within_the_budget_when_jobs_and_workers_are_killed(
    kind, rounds, events
):
    command = [sys.executable, "-m", "tests.budget.ledger_kills"]
    command += [f"--store={kind}", f"--rounds={rounds}"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if "no ledgers in PostgreSQL" in ran.stdout:
        pytest.skip(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = {word: int(count) for word, count in re.findall(r"([a-z][a-z ]*): (\d+)", ran.stdout)}
    assert seen["rounds"] == rounds
    assert min(seen[word] for word in events) > 0


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
