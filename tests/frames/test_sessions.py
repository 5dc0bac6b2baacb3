"""Sessions: what they spend, what they refuse, and which data they know again."""

import itertools
import pickle

import numpy as np
import polars as pl
import pytest

import dp_transforms as dp
from dp_transforms.budget import BudgetExceededError, Ledger, PrivacyBudget, PrivacyUnitError
from dp_transforms.errors import NoChoiceError
from pipelines.__main__ import main
from tests.jobs import job_flags, python

RANDOM = np.random.default_rng(4)
VISITS = pl.DataFrame(
    {
        "who": RANDOM.integers(0, 900, 5_000),
        "page": (RANDOM.pareto(1, 5_000) * 2).astype(int),
    }
)
LIST = {"user": "who", "partition": "page", "epsilon": 1, "max_partitions_per_user": 4}
NAMES = LIST | {"delta": 1e-6, "counts": True}


@pytest.mark.thorough
def test_a_session_spends_and_refuses_before_it_reads():
    session = dp.Session(epsilon=1, delta=1e-5)
    session.release(VISITS, **LIST | {"epsilon": 0.5})
    names = session.select(VISITS, **NAMES | {"epsilon": 0.25})
    assert session.remaining == PrivacyBudget(0.25, "0.000009")
    budget = names.statement["budget"]
    assert [line["epsilon"] for line in budget["ledger"]] == ["0.5", "0.25"]
    assert (budget["epsilon"], budget["delta"]) == ("1", "0.00001")
    # [7] would be refused as soon as it is looked at.
    for data in ([7], VISITS):
        with pytest.raises(BudgetExceededError, match=r"only epsilon 0\.25"):
            session.release(data, **LIST | {"epsilon": 0.26})
    with pytest.raises(BudgetExceededError):
        session.select(VISITS, **NAMES | {"epsilon": 0.1, "delta": 1e-5})
    with pytest.raises(ValueError, match="unit must be one of user, replaced-user, edge, node"):
        dp.Session(1, unit="users")
    with pytest.raises(PrivacyUnitError):
        session.degrees([("a", "b")], source=0, target=1, epsilon=0.1)
    with pytest.raises(ValueError, match="no column"):
        session.release(VISITS, **LIST | {"epsilon": 0.1, "partition": "url"})
    assert session.remaining == PrivacyBudget(0.25, "0.000009")
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(session)
    left, whole = "epsilon 0.25, delta 0.000009", "epsilon 1, delta 0.00001"
    spent = "epsilon 0.75, delta 0.000001"
    assert repr(session) == f"<Session: {spent} spent so far, {left} left of {whole}>"


@pytest.mark.parametrize("on_ledger", [False, True])
def test_a_cell_that_runs_twice_is_told_that_it_spends_twice(tmp_path, on_ledger):
    Ledger.create(tmp_path / "ledger", 200, 1e-5)
    session = dp.Session.open(tmp_path / "ledger") if on_ledger else dp.Session(200, 1e-5)
    again = pytest.warns(UserWarning, match="a second release of the same data")
    eight = LIST | {"epsilon": 8}
    session.release(VISITS, **eight)
    with again:
        session.release(VISITS, **eight)
    with again:
        session.release(VISITS, **eight)
    # Other data, other arguments, another kind.
    for data, options in ((VISITS.clone(), eight), (VISITS, LIST | {"epsilon": 16})):
        session.release(data, **options)
    session.select(VISITS, **NAMES | {"epsilon": 8, "strategy": "laplace"})
    counts = [3, 2, 1]
    session.release_counts(counts, epsilon=8, max_partitions_per_user=1)
    with again:
        session.release_counts(counts, epsilon=8, max_partitions_per_user=1)
    assert session.spent.epsilon == 9 * 8


MAKERS = [
    lambda month: VISITS.filter(VISITS["who"] % 3 == month),
    lambda month: VISITS.filter(VISITS["who"] % 3 == month).to_arrow(),
    lambda month: VISITS.filter(VISITS["who"] % 3 == month).to_pandas(),
    lambda month: {name: VISITS[name].to_numpy() + month for name in ("who", "page")},
    lambda month: {name: (VISITS[name] + month).to_list() for name in ("who", "page")},
    lambda month: [{"who": user, "page": user % 5 + month} for user in range(90)],
]


@pytest.mark.parametrize("make", MAKERS)
def test_other_data_in_the_same_place_of_memory_are_other_data(make, recwarn):
    session, options = dp.Session(100), LIST | {"epsilon": 8}
    for month in range(6):
        session.release(make(month), **options)
    assert not recwarn.list
    data = make(0)
    session.release(data, **options)
    with pytest.warns(UserWarning, match="a second release of the same data"):
        session.release(data, **options)


def test_a_file_is_the_same_data_by_its_path(tmp_path):
    session = dp.Session(2)
    VISITS.write_csv(tmp_path / "visits.csv")
    session.release(tmp_path / "visits.csv", **LIST | {"epsilon": 0.1})
    with pytest.warns(UserWarning, match="a second release of the same data"):
        session.release(str(tmp_path / "visits.csv"), **LIST | {"epsilon": 0.1})


def test_a_session_in_memory_has_so_many_free_failures():
    session, bad = dp.Session(epsilon=1, free_failures=2), VISITS.rename({"page": "url"})
    options = LIST | {"epsilon": 0.1}
    for spent in (0, 0, "0.1", "0.2"):
        with pytest.raises(ValueError, match="no column"):
            session.release(bad, **options)
        assert session.spent == PrivacyBudget(spent)
    with pytest.raises(ValueError, match="must be integers from 1"):
        session.release_counts([0], epsilon=0.1, max_partitions_per_user=1)
    assert session.spent == PrivacyBudget("0.3")
    with pytest.raises(ValueError, match="free_failures must be an integer from 0"):
        dp.Session(epsilon=1, free_failures=-1)


FORK = """
import os, dp_transforms as dp
session, kept = dp.Session(epsilon=1), dp.Session.open("budget.db")
page = {"who": [1], "page": ["home"]}
options = dict(user="who", partition="page", epsilon=1, max_partitions_per_user=1)
if os.fork():
    os.wait()
    print(kept.remaining)
else:
    try:
        session.release(page, **options)
    except TypeError as error:
        print(error, flush=True)
    kept.release(page, **options)
"""


@pytest.mark.thorough
def test_a_fork_does_not_spend_the_budget_once_more(tmp_path):
    Ledger.create(tmp_path / "budget.db", epsilon=3)
    refused, left = python("-c", FORK, cwd=tmp_path, check=True).stdout.splitlines()
    assert "share a ledger's file" in refused and left == "epsilon 2, delta 0"


def test_a_session_shares_a_ledger_with_jobs(tmp_path, capsys):
    path = tmp_path / "budget.db"
    Ledger.create(path, epsilon=2, delta=1e-5)
    VISITS.write_csv(tmp_path / "visits.csv")
    flags = ["--user_column=who", "--max_partitions_per_user=4", f"--ledger={path}"]
    job = ["release", *job_flags(tmp_path, f"--input={tmp_path}/visits.csv", *flags)]
    assert main(job) == 0
    session = dp.Session.open(path)
    assert session.remaining == PrivacyBudget(1, 1e-5)
    release = session.release(VISITS, **LIST | {"epsilon": 0.75})
    assert session.remaining.epsilon == PrivacyBudget(0.25).epsilon
    states = [line["state"] for line in release.statement["budget"]["ledger"]]
    assert states == ["committed", "committed"]
    with pytest.raises(BudgetExceededError):
        session.release(VISITS, **LIST)
    assert main([*job, "--overwrite"]) == 4
    with pytest.raises(FileNotFoundError):
        dp.Session.open(tmp_path / "nowhere.db")


@pytest.mark.parametrize("on_ledger", [False, True])
def test_a_session_takes_back_what_fails(on_ledger, tmp_path):
    Ledger.create(tmp_path / "ledger", 1)
    session = dp.Session.open(tmp_path / "ledger") if on_ledger else dp.Session(epsilon=1)
    kept = session.release(VISITS, **LIST | {"epsilon": 0.25})
    seen = []

    def broken():
        yield {"who": "ann", "page": "home"}
        seen.append(str(session.remaining))
        yield {"who": "ann"}

    # More records than are looked at before anything is spent.
    records = itertools.chain([{"who": "ann", "page": "home"}] * (1 << 17), broken())
    with pytest.raises(ValueError, match="not all records have"):
        session.release(records, **LIST | {"epsilon": 0.5})
    assert seen == ["epsilon 0.25, delta 0"]
    assert str(session.remaining) == "epsilon 0.75, delta 0"
    lines = kept.statement["budget"]["ledger"]
    assert [(line["epsilon"], line["state"]) for line in lines] == [("0.25", "committed")]


def test_degrees_that_show_no_user_are_handed_out_since_they_are_paid_for(tmp_path):
    session = dp.Session(epsilon=1)
    secret = dp.JobSecret.insecure_for_testing(5)
    columns = {"user": "who", "partition": "page", "max_degree": 4}
    visits = {"who": ["ann"], "page": ["home"]}
    with pytest.raises(NoChoiceError, match=r"show no user.* is the attribute release") as caught:
        session.choose_kappa(visits, **columns, epsilon="0.01", for_epsilon=1, secret=secret)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert str(copied) == str(caught.value)
    assert copied.release.degrees == caught.value.release.degrees
    release = caught.value.release
    assert session.spent.epsilon == PrivacyBudget("0.01").epsilon
    assert release.degrees.lowest == (1, 2, 3, 4) and sum(release.degrees.users) < 0
    assert [line["epsilon"] for line in release.statement["budget"]["ledger"]] == ["0.01"]
    release.save(tmp_path / "degrees")
    assert dp.load(tmp_path / "degrees").degrees == release.degrees


@pytest.mark.parametrize("epsilon", [0, "0", 0.0, -1])
def test_a_budget_that_pays_for_nothing_is_refused_when_it_is_made(tmp_path, epsilon):
    refused = pytest.raises(ValueError, match="epsilon must ")
    with refused:
        dp.Session(epsilon=epsilon, delta=1e-6)
    with refused:
        dp.Session.create(tmp_path / "ledger", epsilon)
    assert not (tmp_path / "ledger").exists()


class NoData:
    """An object that is no data."""


WRONG_ARGUMENTS = {
    "no data": ({"data": None}, "data must be a data frame .* got NoneType"),
    "an object": ({"data": NoData()}, "data must be a data frame .* got NoData"),
    "a series": ({"data": VISITS["who"]}, "data must be a data frame .* got Series"),
    "an array": ({"data": np.zeros((3, 2))}, "data must not be a NumPy array"),
    "records as text": ({"data": "who,page\n1,2\n"}, "data must be a data frame"),
    "no user": ({"user": None}, "user must name a column"),
    "no partition": ({"partition": []}, "partition must name at least one column"),
    "one column for both": (
        {"partition": "who"},
        "must be different columns, and 'who' is given twice",
    ),
    "a column of users and of partitions": (
        {"partition": ["page", "who"]},
        r"^partition lists a name \(number 2 of 2\) that is given twice: users, partitions, groups "
        "and times must be different columns$",
    ),
    "a column twice": ({"partition": ["page", "page"]}, r"partition lists a name \(number 1 of 2"),
    "nulls to drop": ({"drop_nulls": "yes"}, "drop_nulls must be True or False, got 'yes'"),
    "a secret in bytes": ({"secret": b"secret"}, "secret must be a JobSecret"),
}


@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS)
def test_arguments_are_checked_before_a_price_is_reserved(wrong):
    arguments, text = WRONG_ARGUMENTS[wrong]
    session = dp.Session(epsilon=1)
    with pytest.raises((ValueError, TypeError), match=text):
        session.release(**{"data": VISITS, **LIST, **arguments})
    # Not even a free failure is used up.
    assert not len(session.history)


def test_errors_about_edges_name_the_arguments_of_edges():
    for arguments, text in (
        ({"edges": 7}, "edges must be a data frame"),
        ({"source": None}, "source must name a column"),
        ({"target": ""}, "target must name a column"),
        ({"edges": [("a",)]}, "not all records have 0, 1"),
    ):
        with pytest.raises((ValueError, TypeError), match=text):
            dp.degrees(**{"edges": [("a", "b")], "epsilon": 1, **arguments})


def test_errors_name_the_arguments_that_were_given():
    visits = {"who": ["ann"], "page": ["home"]}
    columns = {"data": visits, "user": "who", "partition": "page"}
    kappa = columns | {"epsilon": 1, "for_epsilon": 1}
    names = columns | {"epsilon": 1, "delta": 1e-6, "max_partitions_per_user": 1}
    for function, arguments, text in (
        (dp.release, columns | {"epsilon": None}, "epsilon must be .*, got None"),
        (dp.release_counts, {"counts": [1], "epsilon": None, "max_partitions_per_user": 1},
         "epsilon must be .*, got None"),
        (dp.release, columns | {"epsilon": 1, "survey": "yes"}, "survey must be True, False, or"),
        (dp.choose_kappa, kappa | {"for_epsilon": None}, "for_epsilon must be .*, got None"),
        (dp.choose_kappa, kappa | {"for_epsilon": 0}, "for_epsilon must be .*, got 0"),
        (dp.choose_kappa, kappa | {"for_delta": "x"}, "for_delta must be .*, got 'x'"),
        (dp.choose_kappa, kappa | {"for_delta": 0}, "for_delta must be between 0 and 1, got 0"),
        (dp.select, names | {"public_partitions": pl.DataFrame({"page": ["home"]})},
         "public_partitions must be several names, .* got DataFrame"),
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=text) as caught:
            function(**arguments)
        assert "eta" not in str(caught.value).split()
