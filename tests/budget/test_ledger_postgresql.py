"""Ledgers in PostgreSQL: names, rights, locks, lost connections, a crash, and damage."""

import contextlib
import sys
import threading

import psycopg
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
    ledger_postgresql,
)
from dp_transforms.budget.budget import Cost
from dp_transforms.errors import InputError
from tests.budget.conftest import stored

HALF = [Request("half", Cost(PrivacyBudget(0.5)))]


def execute(url, *statements):
    """Changes the database of a ledger; NAME stands for the ledger's."""
    address, _, schema = url.partition("#")
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.replace("NAME", schema))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me:hunter2@localhost/shop", "PGPASSWORD"),
        ("postgres://localhost/shop?password=hunter2", "PGPASSFILE"),
        ("postgresql://localhost/shop#Budget", "name of its schema"),
        ("postgresql://localhost/shop#a;drop", "name of its schema"),
        ("postgresql://localhost/shop?nonsense=1", "cannot be read"),
    ],
)
def test_urls_that_are_refused(url, words):
    for use in (Ledger.open, lambda url: Ledger.create(url, 1)):
        with pytest.raises((ValueError, OSError), match=words) as refused:
            use(url)
        assert "hunter2" not in str(refused.value)


def test_a_driver_that_is_missing(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"pip install 'dp-frequency-lists\[ledger\]'"):
        Ledger.open(url)


def test_the_name_of_a_schema_may_be_a_word_of_sql(postgresql):
    url = f"{postgresql.url}#select"
    Ledger.create(url, epsilon=1).reserve(1, purpose="all of it")
    assert Ledger.open(url).remaining() == PrivacyBudget(0)


def test_what_is_not_there_is_not_made(url):
    with pytest.raises(FileNotFoundError, match="there is no ledger"):
        Ledger.open(url)
    ledger = Ledger.create(url, epsilon=1)
    with pytest.raises(FileExistsError):
        Ledger.create(url, epsilon=2)
    assert Ledger.open(url).identity == ledger.identity
    execute(url, "DROP SCHEMA NAME CASCADE")
    with pytest.raises(FileNotFoundError):
        ledger.reserve(0.5, purpose="list")


def test_several_who_create_a_ledger_at_the_same_time_make_one(url):
    made = []

    def create():
        with contextlib.suppress(FileExistsError):
            made.append(Ledger.create(url, epsilon=1))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (ledger,) = made
    assert Ledger.open(url).identity == ledger.identity


def test_a_ledger_is_not_replaced_under_a_running_job(url):
    ledger = Ledger.create(url, epsilon=1)
    execute(url, "DROP SCHEMA NAME CASCADE")
    Ledger.create(url, epsilon=1)
    with pytest.raises(CorruptedLedgerError, match="another ledger than when it was opened"):
        ledger.reserve(1, purpose="more")


def test_the_rights_that_jobs_need(url):
    Ledger.create(url, epsilon=1)
    job = url.replace("//postgres@", "//job@")
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        execute(url, "CREATE ROLE job LOGIN")
    with pytest.raises(OSError, match="may not read and write"):
        Ledger.open(job)
    execute(
        url,
        "GRANT USAGE ON SCHEMA NAME TO job",
        "GRANT SELECT ON NAME.budget TO job",
        "GRANT SELECT, INSERT, UPDATE ON NAME.reservations TO job",
    )
    (made,) = Ledger.open(job).reserve_all(HALF, announces=True)
    Ledger.open(job).begin([made.id])
    made.commit()
    assert Ledger.open(url).spent() == PrivacyBudget(0.5)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(job, "UPDATE NAME.budget SET epsilon = '9'")
    with pytest.raises(OSError, match="read-only"):
        Ledger.open(job.replace("#", "?options=-cdefault_transaction_read_only%3Don#"))


def test_rows_that_a_policy_hides_are_missed(url):
    Ledger.create(url, epsilon=1).reserve(1, purpose="all of it").commit()
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        execute(url, "CREATE ROLE restricted LOGIN")
    execute(
        url,
        "GRANT USAGE ON SCHEMA NAME TO restricted",
        "GRANT SELECT ON NAME.budget TO restricted",
        "GRANT SELECT, INSERT, UPDATE ON NAME.reservations TO restricted",
        "ALTER TABLE NAME.reservations ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY others ON NAME.reservations USING (state <> 'committed')",
    )
    with pytest.raises(OSError, match="may not read and write"):
        Ledger.open(url.replace("//postgres@", "//restricted@"))


def test_a_lock_that_is_never_released(url, monkeypatch):
    ledger = Ledger.create(url, epsilon=1)
    monkeypatch.setattr(ledger_postgresql, "_SETTINGS", ["SET LOCAL lock_timeout = '100ms'"])
    address, _, schema = url.partition("#")
    with psycopg.connect(address) as other:
        other.execute(f"LOCK TABLE {schema}.reservations IN SHARE ROW EXCLUSIVE MODE")
        with pytest.raises(OSError, match="another job has held the ledger's lock"):
            ledger.reserve(0.5, purpose="list")
        # Readers do not wait.
        assert ledger.lines() == ()
    monkeypatch.undo()
    ledger.reserve(1, purpose="all of it")


def test_a_job_that_stops_while_it_has_the_lock_loses_it_with_all_that_it_wrote(url, monkeypatch):
    ledger = Ledger.create(url, epsilon=1)
    (setting,) = (
        statement for statement in ledger_postgresql._SETTINGS if "idle_in_transaction" in statement
    )
    monkeypatch.setattr(ledger_postgresql, "_SETTINGS", [setting.replace("60s", "100ms")])
    stopped, woken, faults = threading.Event(), threading.Event(), []

    def stop():
        line = LedgerLine(1, "list", HALF[0].cost, PrivacyUnit.USER, Origin(), True)
        try:
            with ledger._store.transaction(writes=True) as contents:
                contents.write([line])
                stopped.set()
                woken.wait(60)
        except OSError as error:
            faults.append(str(error))

    thread = threading.Thread(target=stop)
    thread.start()
    stopped.wait(60)
    monkeypatch.undo()
    ledger.reserve(1, purpose="all of it")
    woken.set()
    thread.join()
    assert "the server ended its turn" in faults[0] or "terminat" in faults[0], faults
    assert ledger.spent() == PrivacyBudget(1)


def test_a_connection_that_is_lost_reserves_nothing(url, monkeypatch):
    ledger = Ledger.create(url, epsilon=1)

    def lose(connection):
        with psycopg.connect(url.partition("#")[0], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        commit(connection)

    commit = ledger_postgresql._commit
    monkeypatch.setattr(ledger_postgresql, "_commit", lose)
    with pytest.raises(OSError, match="the database failed"):
        ledger.reserve(0.5, purpose="list")
    monkeypatch.undo()
    assert ledger.lines() == ()


@pytest.mark.slow
def test_a_crash_of_the_server_loses_nothing(url, postgresql):
    ledger = Ledger.create(url, epsilon=1)
    (made,) = ledger.reserve_all(HALF, announces=True)
    ledger.begin([made.id])
    postgresql.stop()
    with pytest.raises(OSError, match="the database failed"):
        ledger.reserve(0.5, purpose="more")
    postgresql.start()
    assert ledger.spent() == PrivacyBudget(0.5) and ledger.lines()[0].begun
    with pytest.raises(BudgetExceededError):
        ledger.reserve(0.6, purpose="too much")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE NAME.reservations SET state = 'abandoned' WHERE id = 2",
        "DELETE FROM NAME.reservations WHERE id = 1",
        "UPDATE NAME.reservations SET id = 7 WHERE id = 2",
        "UPDATE NAME.reservations SET begun = 1",
        "UPDATE NAME.reservations SET leased_until = '2020-01-01T00:00:00Z'",
        "UPDATE NAME.budget SET epsilon = '9'",
        "DELETE FROM NAME.budget",
        "INSERT INTO NAME.budget SELECT * FROM NAME.budget",
        "ALTER TABLE NAME.reservations DROP COLUMN begun",
        "UPDATE NAME.budget SET version = 7",
    ],
)
def test_a_damaged_ledger_refuses_everything(url, change):
    ledger = Ledger.create(url, epsilon=1)
    ledger.reserve(0.5, purpose="first")
    ledger.reserve(0.25, purpose="second")
    execute(url, change)
    before = stored(url)
    for attempt in (
        lambda: Ledger.open(url),
        lambda: ledger.reserve(0.1, purpose="third"),
        lambda: ledger.commit(2),
        lambda: ledger.begin([2]),
        lambda: ledger.give_back([2]),
        ledger.spent,
    ):
        with pytest.raises(CorruptedLedgerError, match=r"damaged|not a privacy ledger"):
            attempt()
    assert stored(url) == before
