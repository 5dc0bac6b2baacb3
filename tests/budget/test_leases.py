"""Jobs of other machines that end without a word, or seem to."""

import contextlib
import os
import signal
import time

import pytest

from dp_transforms.budget import (
    BudgetExceededError,
    Ledger,
    Origin,
    PrivacyBudget,
    Request,
    State,
    ledger_file,
    ledger_rows,
)
from dp_transforms.budget.budget import Cost
from tests.budget.forks import FORK

WHOLE = [Request("whole", Cost(PrivacyBudget(1)))]
OVER = -10.0
"""A lease that has run out when it begins."""


@pytest.fixture
def elsewhere(monkeypatch):
    """All processes are of other machines, as seen from here."""
    monkeypatch.setattr(ledger_rows, "is_of_this_machine", lambda process: False)


def reserved(ledger, lease_seconds, job_id=""):
    origin = Origin(job_id=job_id)
    (made,) = ledger.reserve_all(WHOLE, origin, announces=True, lease_seconds=lease_seconds)
    return made.id


def test_a_reservation_whose_lease_has_run_out_is_given_back_and_cannot_be_begun(ledger, elsewhere):
    lost = reserved(ledger, OVER, "november")
    (line,) = ledger.lines()
    assert line.has_lapsed and line.is_lost and ledger.remaining() == PrivacyBudget(1)
    assert ledger.of_job("november") == ()
    # Another run of the job takes its place.
    other = reserved(ledger, 60, "november")
    assert [line.state for line in ledger.lines()] == [State.FAILED, State.RESERVED]
    ledger.renew([lost])
    with pytest.raises(ValueError, match="is already failed"):
        ledger.begin([lost])
    ledger.begin([other])
    assert ledger.spent() == PrivacyBudget(1)


def test_a_job_that_is_slow_to_renew_may_begin_if_nobody_has_taken_its_budget(ledger, elsewhere):
    slow = reserved(ledger, OVER)
    ledger.begin([slow])
    (line,) = ledger.lines()
    # From now on it counts, however long nothing is heard of it.
    assert line.has_lapsed and not line.is_lost
    with pytest.raises(BudgetExceededError):
        reserved(ledger, 60)


@pytest.mark.parametrize("lease_seconds", [None, 60])
def test_a_reservation_without_a_lease_or_within_it_stays(ledger, elsewhere, lease_seconds):
    number = reserved(ledger, lease_seconds)
    with pytest.raises(BudgetExceededError):
        reserved(ledger, 60)
    ledger.begin([number])


def test_on_its_own_machine_the_process_decides_and_not_the_lease(ledger):
    reserved(ledger, OVER)
    (line,) = ledger.lines()
    assert not line.has_lapsed
    with pytest.raises(BudgetExceededError):
        reserved(ledger, 60)


def test_a_job_renews_its_lease_while_it_runs(ledger, elsewhere):
    number = reserved(ledger, OVER)
    assert ledger.lines()[0].has_lapsed
    with ledger.held([number], lease_seconds=5):
        until = time.monotonic() + 60
        while ledger.lines()[0].has_lapsed:
            assert time.monotonic() < until
            time.sleep(0.05)
    with pytest.raises(BudgetExceededError):
        reserved(ledger, 60)


@pytest.mark.parametrize("close", [Ledger.commit, Ledger.abandon])
def test_a_renewal_reopens_nothing(ledger, elsewhere, close):
    number = reserved(ledger, OVER)
    close(ledger, number)
    before = ledger.lines()
    ledger.renew([number])
    assert ledger.lines() == before


def test_a_process_that_is_stopped_for_longer_than_its_lease_cannot_begin(ledger, elsewhere):
    def job():
        number = reserved(ledger, OVER)
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            ledger.begin([number])
        except ValueError:
            os._exit(3)
        os._exit(0)

    child = FORK.Process(target=job)
    child.start()
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    other = reserved(ledger, 60)
    os.kill(child.pid, signal.SIGCONT)
    child.join()
    assert child.exitcode == 3
    ledger.begin([other])
    assert ledger.spent() == PrivacyBudget(1)


def test_a_clock_that_is_ahead_costs_a_job_and_no_budget(tmp_path, elsewhere, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger", 1)
    early = reserved(ledger, 300)
    monkeypatch.setattr(ledger_file, "now", lambda: ledger_rows.now(3600))
    late = reserved(ledger, 300)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is already failed"):
        ledger.begin([early])
    ledger.begin([late])
    assert ledger.spent() == PrivacyBudget(1)


def test_leases_in_postgresql_go_by_the_clock_of_the_server(url, elsewhere, monkeypatch):
    ledger = Ledger.create(url, 1)
    # The clock of this machine is a year ahead.
    for module in (ledger_file, ledger_rows):
        monkeypatch.setattr(module, "now", lambda: ledger_rows.later("2027-11-27T00:00:00Z", 0))
    reserved(ledger, 300)
    (line,) = ledger.lines()
    assert not line.has_lapsed and line.reserved_at < line.leased_until < "2027"


def test_a_lapsed_lease_is_given_back_only_as_a_free_failure(path, elsewhere):
    ledger = Ledger.create(path, 1, free_failures=0)
    reserved(ledger, OVER)
    with pytest.raises(BudgetExceededError):
        reserved(ledger, 60)
    with contextlib.suppress(ValueError):
        ledger.abandon(1)
    assert ledger.remaining() == PrivacyBudget(1)
