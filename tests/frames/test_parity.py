"""What jobs can do, functions and sessions in Python can do as well."""

import inspect
from functools import partial

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.budget import Ledger, PrivacyBudget
from dp_transforms.mechanisms.selection import MeasuredSelection, TruncatedGeometricSelection
from pipelines import release_all
from pipelines.__main__ import main
from tests.jobs import job_flags

RANDOM = np.random.default_rng(5)
VISITS = {
    "who": RANDOM.integers(0, 400, 3_000).tolist(),
    "page": [f"p{number:.0f}" for number in RANDOM.pareto(1, 3_000) * 2],
    "when": [f"2026-01-0{day}" for day in RANDOM.integers(1, 4, 3_000)],
}
NAMES = {"epsilon": 2, "delta": 1e-5, "max_partitions_per_user": 3}
PERIODS = {"time": "when", "period": "day", "periods": "2026-01-01..2026-01-05"}
PAID = [
    "release", "select", "release_and_select", "release_by_period", "select_by_period",
    "release_counts", "degrees", "release_groups", "choose_kappa",
]  # fmt: skip


@pytest.mark.parametrize("name", PAID)
def test_a_sessions_methods_have_the_parameters_of_functions(name):
    function, method = (inspect.signature(getattr(of, name)) for of in (dp, dp.Session))
    expected = ["self", *(name for name in function.parameters if name != "session")]
    assert list(method.parameters) == expected
    assert method.return_annotation == function.return_annotation
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [
        parameter.name for parameter in function.parameters.values() if parameter.kind is positional
    ]
    data = {"release_counts": ["counts"], "degrees": ["edges", "source", "target"]}
    assert given == data.get(name, ["data", "user", "partition"])
    session = dp.Session(1)
    with pytest.raises(TypeError, match="leave out session"):
        getattr(session, name)(VISITS, session=session)


def test_a_list_and_names_are_those_of_the_job(tmp_path):
    session = dp.Session(epsilon=2, delta=1e-5)
    both = session.release_and_select(VISITS, "who", "page", **NAMES, counts=True)
    frequency_list, names = both
    assert (frequency_list.statement["epsilon"], names.statement["epsilon"]) == (1, 1)
    assert session.spent == PrivacyBudget(2, 1e-5)
    both.save(tmp_path / "saved")
    assert dp.load(tmp_path / "saved") == both
    pl.DataFrame(VISITS).write_csv(tmp_path / "visits.csv")
    flags = ["--user_column=who", "--epsilon=2", "--delta=1e-5", "--max_partitions_per_user=3"]
    flags = job_flags(tmp_path, f"--input={tmp_path}/visits.csv", *flags, "--noisy_counts")
    assert release_all.main(flags) == 0
    job = dp.load(tmp_path / "out")
    for ours, theirs in zip(both, job, strict=True):
        differ = {"versions", "budget", "noisy_counts_are_of"}
        assert ours.statement.keys() | differ == theirs.statement.keys() | differ
        for name in ours.statement.keys() - differ:
            assert ours.statement[name] == theirs.statement[name]
    with pytest.raises(ValueError, match="selection_share must be between 0 and 1, got 1"):
        dp.release_and_select(VISITS, "who", "page", **NAMES, selection_share=1)


@pytest.mark.thorough
def test_a_list_and_names_of_all_records_are_those_of_each_alone(tmp_path):
    """Under one secret, without a kappa, both are what two functions release one by one."""
    cost = {"delta": 1e-5, "counts": True}
    secret = [dp.JobSecret.insecure_for_testing(5) for _ in range(3)]
    both = dp.release_and_select(VISITS, "who", "page", epsilon=20, **cost, secret=secret[0])
    alone = dp.release(VISITS, "who", "page", epsilon=10, secret=secret[1])
    names = dp.select(VISITS, "who", "page", epsilon=10, **cost, secret=secret[2])
    assert isinstance(both.names.frequency_list, dp.AllRecordsRelease)
    assert both.names.frequency_list.released == alone.released
    assert both.names.frequency_list.bounded.released == alone.bounded.released
    assert both.names.names == names.names and len(names) > 1
    assert both.names.is_about_all_records
    both.save(tmp_path / "saved")
    assert dp.load(tmp_path / "saved") == both
    # The job makes the same kinds of files.
    pl.DataFrame(VISITS).write_csv(tmp_path / "visits.csv")
    flags = ["release-all", f"--input={tmp_path}/visits.csv", f"--output={tmp_path}/out"]
    flags += ["--user_column=who", "--partition_column=page", "--epsilon=20", "--delta=1e-5"]
    assert main([*flags, "--noisy_counts"]) == 0
    saved, written = (
        {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*.*")}
        for name in ("saved", "out")
    )
    assert saved == written
    assert isinstance(dp.load(tmp_path / "out").names.frequency_list, dp.AllRecordsRelease)


@pytest.mark.thorough
def test_names_of_periods_need_no_bound():
    """Under one secret they are those of users who count in as many periods as there are."""
    (alone, bounded) = (
        dp.select_by_period(
            VISITS, "who", "page", **PERIODS, epsilon=8, delta=1e-6, counts=True, **bound,
            secret=dp.JobSecret.insecure_for_testing(4),
        )
        for bound in ({}, {"max_periods_per_user": 5})
    )  # fmt: skip
    assert dict(alone) == dict(bounded) and alone.statement == bounded.statement
    assert alone.statement["periods"]["max_periods_per_user"] == 5 and any(map(len, alone.values()))
    with pytest.raises(ValueError, match="max_periods_per_user is needed"):
        dp.select_by_period(
            VISITS, "who", "page", **PERIODS, epsilon=8, delta=1e-6, max_partitions_per_user=2
        )


@pytest.mark.thorough
@pytest.mark.parametrize("kappa", [3, None])
def test_names_of_periods_are_saved_and_loaded(kappa, tmp_path):
    options = NAMES | {"max_partitions_per_user": kappa, "max_periods_per_user": 2}
    days = dp.select_by_period(VISITS, "who", "page", **PERIODS, **options, counts=True)
    assert list(days) == [f"2026-01-0{day}" for day in range(1, 6)]
    assert len(days["2026-01-01"]) > 2 and len(days["2026-01-05"]) == 0
    days.save(tmp_path / "days")
    loaded = dp.load(tmp_path / "days")
    assert dict(loaded) == dict(days) and loaded.statement == days.statement
    assert "2 periods" not in days.privacy and "in at most 2 of them" in days.privacy
    assert ("in at most 3 partitions of each, chosen" in days.privacy) == (kappa is not None)
    assert ("A noisy look at the records" in days.privacy) == (kappa is None)
    first = days["2026-01-01"]
    if kappa is None:
        # The plan of the look is the same for all days, and so is its cost.
        plans = [names.statement["plan"] for names in days.values()]
        assert all(plan == plans[0] for plan in plans)
        total = first.statement["max_partitions_per_user"]
        assert total == plans[0]["partitions"] and first.statement["epsilon"] == 2
        assert "of each user over at most 2 days, chosen at random" in first.page()[0]
    else:
        assert "of each user in each of at most 2 days, chosen at random" in first.page()[0]


def test_public_names_with_counts_are_all_there():
    empty = [f"nobody {number}" for number in range(30)]
    options = NAMES | {"public_partitions": ["p0", *empty], "others_share": "0.25"}
    names = dp.select(VISITS, "who", "page", **options, counts=True)
    rows = {row.pop("page"): row for row in names.to_arrow().to_pylist()}
    counts = [rows[name] for name in empty]
    # Each interval of 95% holds; of 30, fewer than 22 do once in 90,000 runs.
    assert sum(row["low"] == 0 for row in counts) >= 22
    assert min(row["high"] for row in counts) < 12
    assert min(row["noisy_count"] for row in counts) == 0 < max(r["noisy_count"] for r in counts)
    assert names.statement["epsilon"] == 1.5
    assert names.statement["other_partitions"]["epsilon"] == 0.5
    users = len(set(VISITS["who"]))
    assert 0 < names.statement["users_of_other_partitions"] < users + 40
    # Without counts a name says that there are users.
    assert dp.select(VISITS, "who", "page", **options).names.num_rows < 31
    few = dp.select(VISITS, "who", "page", **options, counts=True, public_threshold=5)
    assert few.names["noisy_count"].to_pylist()[-1] > 5


def test_public_names_of_several_columns_are_tuples():
    data = VISITS | {"day": [int(when[-1]) for when in VISITS["when"]]}
    listed = [(1, "p0"), (9, "nobody")]
    options = NAMES | {"counts": True, "public_partitions": listed}
    names = dp.select(data, "who", ["day", "page"], **options)
    lows = {(row["day"], row["page"]): row["low"] for row in names.to_arrow().to_pylist()}
    assert lows[1, "p0"] > 10 > lows[9, "nobody"]


@pytest.mark.parametrize("public", [[1, 2], [b"p0"]])
def test_public_names_of_another_type_are_no_free_answer(public, tmp_path):
    """Such an error says that there is a record, unless a schema has the type without records."""
    options = NAMES | {"public_partitions": public}

    def spent(data):
        session = dp.Session(epsilon=2, delta="1e-3")
        with pytest.raises(ValueError, match="public_partitions are of the type") as error:
            session.select(data, "who", "page", **options)
        return session.spent.epsilon, str(error.value)

    assert spent({"who": [1], "page": ["a"]})[0] == NAMES["epsilon"]
    schema = pa.schema({"who": pa.int64(), "page": pa.string()})
    frames = [pa.table({"who": [1] * rows, "page": ["a"] * rows}, schema) for rows in (0, 1)]
    assert spent(frames[0]) == spent(frames[1])
    texts = []
    for rows in (0, 1):
        (tmp_path / "visits.csv").write_text("who,page\n" + "1,a\n" * rows)
        texts.append(spent(str(tmp_path / "visits.csv")))
    assert texts[0] == texts[1] and texts[0][0] == 0


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("ann.smith", "several names, such as a list or one column, got str"),
        ([], "has no names"),
        (["ann.smith", None], "a name that is None"),
        (["ann.smith", 1], "of one type"),
        ([("ann.smith", "b")], "must be names"),
        ([7], "of the type int64, but column 'page' of the table is read as string"),
    ],
)
def test_public_names_that_cannot_be_are_refused(names, says):
    with pytest.raises((TypeError, ValueError), match=says) as error:
        dp.select(VISITS, "who", "page", **NAMES, public_partitions=names)
    assert "ann.smith" not in str(error.value)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-12), ("0.3", 1e-6), (1, 0.1)])
def test_intervals_of_public_counts_hold_for_every_number_of_users(epsilon, delta):
    strategy = TruncatedGeometricSelection(epsilon, delta)
    lowest = strategy.lowest_public_threshold
    for threshold in (lowest, lowest + 1, 0, -lowest - 1):
        rule = strategy.public_distribution(threshold)
        for users in (0, 1, 2, 5, -lowest, -3 * lowest):
            noise = np.arange(lowest + 1, -lowest)
            noise = noise[users + noise > threshold]
            weights = [float(rule.noise.probability(int(x), 64).lower) for x in noise]
            low, high = rule.count_intervals(users + noise)
            held = (low <= users) & (users <= high)
            assert np.dot(weights, held) >= 0.95 * sum(weights)
    assert rule.noise.k == -lowest - 1
    assert strategy.public_distribution(lowest).keep_enclosure(0, 64).lower == 1


@pytest.mark.parametrize("on_ledger", [False, True])
def test_a_session_has_a_history(tmp_path, on_ledger):
    session = dp.Session(2, 1e-5)
    if on_ledger:
        session = dp.Session.create(tmp_path / "ledger", 2, 1e-5, free_failures=3)
        assert Ledger.open(tmp_path / "ledger").free_failures == 3
        with pytest.raises(FileExistsError, match=r"open it, or give another path: '[^']*ledger'$"):
            dp.Session.create(tmp_path / "ledger", 2)
    assert len(session.history) == 0
    session.release(VISITS, "who", "page", epsilon="0.5", max_partitions_per_user=1)
    with pytest.raises(ValueError, match="no column"):
        session.release(VISITS, "who", "url", epsilon="0.25", max_partitions_per_user=1)
    session.select(VISITS, "who", "page", **NAMES | {"epsilon": "0.3"})
    table = pl.DataFrame(session.history)
    assert table["epsilon"].to_list() == ["0.5", "0.25", "0.3"]
    assert table["state"].to_list() == ["committed", "failed", "committed"]
    assert [line.purpose for line in session.history][2] == "names of partitions"
    assert session.spent == PrivacyBudget("0.8", 1e-5)
    with pytest.raises(TypeError, match="unit must be a name, got list"):
        dp.Session.create(tmp_path / "other", 1, unit=[])
    assert not (tmp_path / "other").exists()


def test_a_second_release_is_told_where_it_is_asked_for():
    session = dp.Session(1)
    options = {"epsilon": "0.1", "max_partitions_per_user": 1}
    session.release(VISITS, "who", "page", **options)
    for again in (session.release, partial(dp.release, session=session)):
        with pytest.warns(UserWarning, match="second release") as warned:
            again(VISITS, "who", "page", **options)
        assert warned[0].filename == __file__


@pytest.mark.thorough
def test_results_are_tables_of_other_libraries():
    both = dp.release_and_select(VISITS, "who", "page", **NAMES)
    for result in (*both, dp.compare(both[0], both[0])):
        expected = result.to_arrow()
        assert pa.table(result) == expected
        assert pl.DataFrame(result).equals(pl.from_arrow(expected))
        rows = duckdb.sql("SELECT count(*) FROM result").fetchall()
        assert rows == [(len(expected),)]


@pytest.mark.parametrize("counts", [1, "yes", -(2**63), None])
def test_counts_are_wanted_or_not(counts):
    """A number would multiply the share of the budget that counts get."""
    bound = {"user": "who", "partition": "page", "max_partitions_per_user": 2, "epsilon": 1}
    data = {"who": [1, 2], "page": ["a", "b"]}
    for make in (dp.select, dp.release_and_select):
        with pytest.raises(ValueError, match="counts must be True or False"):
            make(data, **bound, delta=1e-5, counts=counts)
    with pytest.raises(ValueError, match="counted must be True or False"):
        MeasuredSelection(1, 1e-5, counted=counts)
