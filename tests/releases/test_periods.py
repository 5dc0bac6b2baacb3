"""Lists of periods, with a bound that is declared or with a survey of each period."""

import collections
import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dp_transforms as dp
from dp_transforms.engines import survey_kernels
from dp_transforms.engines.list_kernels import listed
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.releases import (
    AllRecordsRelease,
    AllRecordsSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
)
from tests.beam_runs import table_of
from tests.in_process_engine import in_process

DAYS = [f"2026-01-0{day}" for day in range(1, 4)]
COLUMNS = {"user": "user", "partition": "item", "time": "day", "period": "day"}
SPAN = {"periods": f"{DAYS[0]}..{DAYS[-1]}"}


def records(seed=3, users=900):
    """Users whose days have different numbers of items: few on the first, many on the last."""
    rng = np.random.default_rng(seed)
    rows = {"user": [], "item": [], "day": []}
    for user, (place, day) in itertools.product(range(users), enumerate(DAYS)):
        degree = min(1 + int(rng.pareto(2.5 - place)), 50)
        for item in rng.choice(200, degree, replace=False):
            rows["user"].append(user)
            rows["item"].append(int(item))
            rows["day"].append(day)
    return rows


DATA = records()


def truth(day):
    pairs = {(user, item) for user, item, of in zip(*DATA.values(), strict=True) if of == day}
    return FrequencyList.from_counts(collections.Counter(item for _, item in pairs).values())


def secret(seed):
    return dp.JobSecret.insecure_for_testing(seed)


@pytest.mark.parametrize("spec_type", [PeriodListsSpec, PeriodAllRecordsSpec])
def test_no_stated_cost_is_below_the_exact_one(spec_type):
    spec = spec_type(
        periods=("2026-01-01", "2026-01-02"),
        epsilon=Fraction(1, 3),
        max_periods_per_user=2,
        max_partitions_per_user=1,
    )
    statement = spec.statement(None)
    of_all = statement["periods"]
    assert of_all["epsilon_of_all_exact"] == "1/3"
    assert Fraction(of_all["epsilon_of_all"]) >= Fraction(1, 3)
    if spec_type is PeriodListsSpec:
        assert statement["epsilon_exact"] == "1/6"
        assert Fraction(statement["epsilon"]) >= Fraction(1, 6)
    else:
        assert spec.of_each.cost.epsilon == Fraction(1, 6)
    assert spec.cost.epsilon == Fraction(1, 3)


def test_each_period_is_released_as_if_it_were_alone():
    # With next to no noise: a survey and a list of the day's records, at the kappa of the day.
    released = dp.release_by_period(DATA, **COLUMNS, **SPAN, epsilon=9000, max_periods_per_user=3)
    for day, release in released.items():
        assert isinstance(release, AllRecordsRelease)
        degrees = collections.Counter(
            user for user, of in zip(DATA["user"], DATA["day"], strict=True) if of == day
        )
        assert release.degrees.users == tuple(
            AllRecordsSpec(epsilon=3000).survey.cells(collections.Counter(degrees.values()))
        )
        kept = sum(min(degree, release.kappa) for degree in degrees.values())
        assert release.bounded.released.total == kept
        costs = [release.statement[part]["epsilon_exact"] for part in ("survey", "list")]
        counted = release.statement.get("users_beyond_the_bound", {"epsilon_exact": "0"})
        assert sum(map(Fraction, [*costs, counted["epsilon_exact"]])) == 3000
        assert release.released.l1_distance(truth(day)) < truth(day).total / 20
    kappas = [release.kappa for release in released.values()]
    assert kappas[0] < kappas[-1], "the survey of a day chooses its own bound"


@pytest.mark.slow
def test_intervals_of_periods_hold():
    # 27 intervals with 95% confidence; fixed seeds. More than 6 failures have a probability below
    # 0.001 if each fails with probability 0.05.
    failures = 0
    for seed in range(3):
        released = dp.release_by_period(
            DATA, **COLUMNS, **SPAN, epsilon=3, max_periods_per_user=3, secret=secret(seed)
        )
        for day, release in released.items():
            true = truth(day)
            answers = {
                release.number_of_partitions(): true.distinct,
                release.total(): true.total,
                release.frequency_at(5): true.at_ranks(np.array([5])).item(),
            }
            failures += sum(
                not answer.low <= number <= answer.high for answer, number in answers.items()
            )
    assert failures <= 6


@pytest.mark.thorough
def test_surveys_of_periods_have_independent_noise():
    # Equal records on each day: equal noise would show in equal surveys.
    rows = [(user, item, day) for user in range(50) for item in range(user % 3) for day in DAYS]
    columns = dict(zip(("user", "item", "day"), zip(*rows, strict=True), strict=True))
    released = dp.release_by_period(columns, **COLUMNS, **SPAN, epsilon=1, max_periods_per_user=3)
    assert len({release.degrees.users for release in released.values()}) == 3
    assert len({release.bounded.released.coordinates for release in released.values()}) == 3


def test_a_user_changes_no_other_period_and_no_more_than_kappa_pairs_of_one():
    # By enumeration: users with one to four items on each of some days, under each kappa.
    kept_of = collections.defaultdict(dict)
    for days, degree in itertools.product(itertools.combinations(DAYS, 2), (1, 2, 4)):
        pairs = [(7, item, day) for day in days for item in range(degree)]
        pairs += [(8, 0, DAYS[0]), (8, 1, DAYS[1])]
        users, items, names = zip(*pairs, strict=True)
        table = listed(table_of(list(zip(users, items, strict=True))), pa.array(names))
        for kappas in itertools.product((1, 3), repeat=3):
            of_day = dict(zip(DAYS, kappas, strict=True))
            kept = survey_kernels.bounded_by_surveys(table, of_day, bytes(32))
            rows = [
                (user, pair["list"])
                for user, pair in zip(*(column.to_pylist() for column in kept.columns), strict=True)
            ]
            counted = collections.Counter(rows)
            for day in days:
                assert counted[7, day] == min(degree, of_day[day])
            # The other user's pairs are the same, whatever user 7 has.
            others = sorted(row for row in rows if row[0] == 8)
            assert others == [(8, DAYS[0]), (8, DAYS[1])]
            kept_of[kappas][days, degree] = counted
    assert len(kept_of) == 8


@pytest.mark.thorough
def test_periods_with_surveys_are_saved_and_read_as_those_of_one_job(tmp_path):
    options = {"epsilon": 3, "max_periods_per_user": 2}
    released = dp.release_by_period(DATA, **COLUMNS, **SPAN, **options, secret=secret(1))
    kappas = {release.statement["max_partitions_per_user"] for release in released.values()}
    assert len(kappas) > 1, "the statements of days differ by more than the day"
    released.save(tmp_path / "out")
    read = dp.load(tmp_path / "out")
    assert read.statement == released.statement and repr(read) == repr(released)
    assert read.privacy == released.privacy
    assert "as many partitions as its survey chose" in read.privacy
    assert "of at most 2 days of each user" in repr(read[DAYS[0]])
    assert "max_partitions_per_user" not in read.statement
    # Without a largest degree, no end of a change is known.
    page, _ = released.page()
    assert "no bound is proved" in page and "inf" not in page.split("Privacy statement")[0][-5000:]
    assert "no bound is proved" in str(released.series("total").changes[0])
    # A day of another job costs more than any statement says.
    dp.release_by_period(DATA, **COLUMNS, **SPAN, **options | {"epsilon": 4})[DAYS[1]].save(
        tmp_path / "out" / DAYS[1], overwrite=True
    )
    with pytest.raises(ValueError, match="periods of several jobs"):
        dp.load(tmp_path / "out")


def test_a_bound_may_be_declared_beside_the_surveys():
    released = dp.release_by_period(
        DATA, **COLUMNS, **SPAN, epsilon=3, max_periods_per_user=3, max_partitions_per_user=2,
        survey=0.25,
    )  # fmt: skip
    for release in released.values():
        assert release.kappa == 2 and release.statement["survey"]["epsilon_exact"] == "0.25"
    assert released.statement["max_partitions_per_user"] == 2
    assert "at most 2 partitions of the list" in released.privacy
    page, _ = released.page()
    assert "The list of each day, estimated" in page and "Each is of at most 3 days of each" in page
    with pytest.raises(ValueError, match="survey=False goes with max_partitions_per_user"):
        dp.release_by_period(
            DATA, **COLUMNS, **SPAN, epsilon=3, max_periods_per_user=3, survey=False
        )
    with pytest.raises(ValueError, match="largest_degree goes with a survey"):
        dp.release_by_period(
            DATA, **COLUMNS, **SPAN, epsilon=3, max_periods_per_user=3, max_partitions_per_user=2,
            largest_degree=9,
        )  # fmt: skip


def test_surveys_of_periods_on_records_without_any():
    spec = PeriodAllRecordsSpec(periods=DAYS, epsilon=1, max_periods_per_user=1)
    ((*released,),) = in_process([]).all_records_by_period(spec)
    assert [day for day, _ in released] == DAYS


@pytest.mark.parametrize("kappa", [None, 3])
def test_what_is_printed_says_in_how_many_periods_a_user_counts(kappa):
    options = {"epsilon": 2, "max_periods_per_user": 2, "max_partitions_per_user": kappa}
    days = dp.release_by_period(records(), **COLUMNS, **SPAN, **options)
    for shown in (repr(days), repr(days[DAYS[0]])):
        assert shown.endswith("; records of at most 2 days of each user count")
