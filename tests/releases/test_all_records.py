"""Lists with a survey: kappa follows from the survey, and answers are about all records."""

import collections
import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.mechanisms.users_beyond import UsersBeyond
from dp_transforms.postprocessing import all_records
from dp_transforms.postprocessing.survey_plan import candidates
from dp_transforms.releases import AllRecordsRelease, AllRecordsSpec, ListSpec
from dp_transforms.releases import all_records as module
from dp_transforms.releases.surveys import Survey
from dp_transforms.reports.phrases import Words
from pipelines.release_frequency_list import main
from tests.beam_runs import table_of
from tests.in_process_engine import in_process

COLUMNS = {"user": "user", "partition": "item"}


def records(seed=1, users=3000, most=60, items=400):
    """Users with Pareto numbers of items, which are Zipf's."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum(1 + rng.pareto(1.1, users).astype(int), most)
    weights = 1 / np.arange(1, items + 1)
    owners = np.repeat(np.arange(users), degrees)
    chosen = np.concatenate(
        [rng.choice(items, degree, replace=False, p=weights / weights.sum()) for degree in degrees]
    )
    return {"user": owners.tolist(), "item": chosen.tolist()}


def counts(data):
    pairs = set(zip(data["user"], data["item"], strict=True))
    return FrequencyList.from_counts(collections.Counter(item for _, item in pairs).values())


DATA = records()
TRUTH = counts(DATA)


def secret(seed):
    return dp.JobSecret.insecure_for_testing(seed)


@pytest.mark.parametrize("kappa", [1, 3, 7, 40])
def test_the_list_is_that_of_records_bounded_by_the_chosen_kappa(monkeypatch, kappa):
    # Of users with more partitions than the survey looks at, too.
    spec = AllRecordsSpec(epsilon=40, max_degree=10)
    monkeypatch.setattr(AllRecordsSpec, "kappa_after", lambda *_: kappa)
    monkeypatch.setattr(AllRecordsSpec, "most_partitions", 40)
    table = table_of(list(zip(DATA["user"], DATA["item"], strict=True)))
    ((surveyed,),) = in_process([table]).all_records(spec)
    ((alone,),) = in_process([table]).frequency_list(ListSpec(spec.list_mechanism(surveyed.survey)))
    assert list(surveyed.released) == list(alone)
    assert surveyed.entries["max_partitions_per_user"] == kappa


def test_kappa_and_cost_follow_from_public_numbers_alone():
    session = dp.Session(epsilon=3)
    release = session.release(DATA, **COLUMNS, epsilon=2)
    assert session.remaining.epsilon == 1
    spec = AllRecordsSpec(epsilon=2)
    spent = spec.spent_on(release.degrees)
    assert [Fraction(line["epsilon"]) for line in release.statement["budget"]["ledger"]] == [2]
    assert release.kappa in candidates(2 - spent)
    # The choice can be made again from what was released.
    assert spec.kappa_after(release.degrees) == release.kappa
    assert spent in spec.survey.epsilons
    statement = release.statement
    assert statement["epsilon"] == 2
    assert Fraction(statement["survey"]["epsilon_exact"]) == spent
    # Where the survey happens to be rough, the users beyond kappa are counted too.
    counted = statement.get("users_beyond_the_bound", {"epsilon_exact": "0"})
    costs = [statement[part]["epsilon_exact"] for part in ("survey", "list")]
    assert sum(map(Fraction, [*costs, counted["epsilon_exact"]])) == 2


@pytest.mark.parametrize("counted", [None, UsersBeyond(3, 0.07)], ids=["not counted", "counted"])
def test_what_was_released_decides_what_is_left_for_the_list(monkeypatch, counted):
    # Whatever floats say elsewhere, as on another worker of a pipeline.
    spec = AllRecordsSpec(epsilon=2)
    monkeypatch.setattr(module, "margin_of_count", lambda *_: 0 if counted is None else np.inf)
    spent = spec.survey.epsilons[1]
    lowest = spec.survey.lowest
    survey = Survey(ReleasedDegrees(lowest, (1,) * len(lowest), float(spent)), 3, counted)
    mechanism = spec.list_mechanism(survey)
    parts = {"survey", "list"} | ({"users_beyond_the_bound"} if counted else set())
    entries = spec.surveyed(survey, mechanism.release(FrequencyList([2], [1]))).entries
    costs = {part: Fraction(entries[part]["epsilon_exact"]) for part in parts}
    assert sum(costs.values()) == 2 and ("users_beyond_the_bound" in entries) == bool(counted)
    assert Fraction(mechanism.epsilon) == costs["list"]


@pytest.mark.parametrize("kappa", [1, 3, 12, 60])
def test_users_beyond_the_bound_are_counted_up_to_any_kappa(kappa):
    # With next to no noise, after a rough survey. Of users with more partitions than that looks at,
    # too.
    spec = AllRecordsSpec(
        epsilon=3000, max_partitions_per_user=kappa, max_degree=10, survey_share="0.0001"
    )
    table = table_of(list(zip(DATA["user"], DATA["item"], strict=True)))
    ((surveyed,),) = in_process([table]).all_records(spec)
    degrees = np.unique(DATA["user"], return_counts=True)[1]
    assert surveyed.survey.users_beyond.users == (degrees > kappa).sum()


def test_no_users_are_beyond_a_bound_that_is_the_largest_degree(tmp_path):
    release = dp.release(
        DATA, **COLUMNS, epsilon=1, max_partitions_per_user=5, survey=True, largest_degree=5
    )
    assert release.users_beyond is None
    costs = [Fraction(release.statement[part]["epsilon_exact"]) for part in ("survey", "list")]
    assert sum(costs) == 1 and "users_beyond_the_bound" not in release.statement
    release.save(tmp_path / "release")
    assert dp.load(tmp_path / "release").users_beyond is None


def test_where_a_rough_survey_is_enough_users_beyond_the_bound_are_counted(tmp_path):
    # Nobody has more than three things: one number tells better than a sum of many cells that
    # hardly anybody has more.
    data = {"user": [n // 3 for n in range(30_000)], "item": [n * n % 997 for n in range(30_000)]}
    release = dp.release(data, **COLUMNS, epsilon=1, secret=secret(5))
    release.save(tmp_path / "release")
    assert dp.load(tmp_path / "release").users_beyond == release.users_beyond
    costs = [
        Fraction(release.statement[part]["epsilon_exact"])
        for part in ("survey", "users_beyond_the_bound", "list")
    ]
    assert sum(costs) == 1 and costs[1] == (1 - costs[0]) / 25
    without = dataclasses.replace(release, users_beyond=None)
    short, long = release.frequency_at(20), without.frequency_at(20)
    assert short.low == long.low and short.high < long.high - 200


@pytest.mark.thorough
def test_a_release_is_about_all_records_and_errs_less():
    # With fixed seeds. The bounded list alone misses all that bounding dropped.
    errors = []
    for seed in range(3):
        release = dp.release(
            DATA, **COLUMNS, epsilon=1, max_partitions_per_user=4, survey=True, secret=secret(seed)
        )
        errors.append(
            [release.bounded.released.l1_distance(TRUTH), release.released.l1_distance(TRUTH)]
        )
        assert release.released.total >= release.bounded.released.total
    bounded, estimated = np.mean(errors, axis=0)
    assert estimated < 0.5 * bounded


def test_proved_intervals_hold_all_records():
    # Each of 8 x 7 intervals fails with 5% at most: more than 10 of 56 with less than 1e-3, if they
    # were independent; the seeds are fixed.
    missed = 0
    for seed in range(8):
        release = dp.release(DATA, **COLUMNS, epsilon=1, secret=secret(seed))
        for answer, true in (
            (release.number_of_partitions(), TRUTH.distinct),
            (release.total(), TRUTH.total),
            (release.partitions_with_at_least(10), int(TRUTH.at_least([10])[0])),
            (release.frequency_at(1), int(TRUTH.at_ranks([1])[0])),
            (release.frequency_at(50), int(TRUTH.at_ranks([50])[0])),
            (release.sum_of_top(10), int(TRUTH.at_ranks(range(1, 11)).sum())),
            (release.share_of_top(10), TRUTH.at_ranks(range(1, 11)).sum() / TRUTH.total),
        ):
            assert answer.kind == "proved" and answer.low <= answer.value <= answer.high
            missed += not answer.low <= true <= answer.high
    assert missed <= 10


@pytest.mark.thorough
def test_a_largest_degree_closes_intervals():
    for seed in range(3):
        release = dp.release(DATA, **COLUMNS, epsilon=1, largest_degree=60, secret=secret(seed))
        assert release.statement["survey"]["largest_degree"] == 60
        for answer, true in (
            (release.number_of_partitions(), TRUTH.distinct),
            (release.total(), TRUTH.total),
        ):
            assert answer.low <= true <= answer.high < 10**6
        assert release.kept_share().low > 0


@pytest.mark.parametrize("kappa", [None, 9])
def test_a_largest_degree_is_enforced_also_on_the_survey(kappa):
    # Whoever has more counts with so many, whether it is true or not, and under a larger kappa too.
    spec = AllRecordsSpec(
        epsilon=4000, max_partitions_per_user=kappa, survey_share="0.5", largest_degree=5
    )
    table = table_of(list(zip(DATA["user"], DATA["item"], strict=True)))
    ((surveyed,),) = in_process([table]).all_records(spec)
    degrees = np.unique(DATA["user"], return_counts=True)[1]
    survey = surveyed.survey
    seen = zip(survey.degrees.lowest, survey.degrees.users, strict=True)
    assert dict(seen)[5] == (degrees >= 5).sum()
    assert degrees.max() > 9
    assert surveyed.released.total <= np.minimum(degrees, 5).sum()


def test_what_a_transform_makes_is_a_release_without_a_statement_of_its_own():
    table = table_of(list(zip(DATA["user"], DATA["item"], strict=True)))
    ((surveyed,),) = in_process([table]).all_records(AllRecordsSpec(epsilon=1))
    release = AllRecordsRelease.of(surveyed)
    assert release.total().low <= TRUTH.total <= release.total().high
    assert release.kappa == surveyed.survey.kappa


def test_no_noise_is_added_for_more_partitions_than_the_largest_degree_leaves():
    options = {"epsilon": 1, "survey": True, "largest_degree": 3}
    release = dp.release(DATA, **COLUMNS, **options, max_partitions_per_user=50)
    assert release.kappa == release.statement["sensitivity"] == 3


def test_with_a_largest_degree_all_records_are_said_to_be_those_that_it_leaves():
    few = dp.release(DATA, **COLUMNS, epsilon=1, largest_degree=5, secret=secret(1))
    every = dp.release(DATA, **COLUMNS, epsilon=1, secret=secret(2))
    meant = "of at most 5 partitions of each user"
    assert f"All records {meant}: partitions: " in repr(few)
    assert "All records: partitions: " in repr(every)
    text, _ = few.page(Words("pages", "visitors"))
    assert "all records of at most 5 pages of each visitor" in " ".join(text.split())
    assert "Nobody was thought to have more than 5 partitions" in few.privacy
    different = dp.compare(few, every).different_records
    assert f"first is about all records {meant}, second about all records: " in different


def test_where_every_user_has_one_thing_kappa_is_one_and_nothing_is_added():
    data = {"user": list(range(20_000)), "item": [n * n % 997 for n in range(20_000)]}
    release = dp.release(data, **COLUMNS, epsilon=1, secret=secret(3))
    assert release.kappa == 1
    assert abs(release.released.total - release.bounded.released.total) < 0.02 * 20_000


def test_what_is_saved_is_what_was_returned(tmp_path):
    release = dp.release(DATA, **COLUMNS, epsilon=1)
    release.save(tmp_path / "out")
    loaded = dp.load(tmp_path / "out")
    assert repr(loaded) == repr(release) and loaded.released == release.released
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"survey_of_degrees.csv", "all_records.csv", "released_frequencies.csv"} <= names
    assert repr(release).index("All records") < repr(release).index("Kept by bounding")
    assert "Numbers of all records are estimates" in release.privacy
    release.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.index("<h2>All records</h2>") < page.index("<h2>What bounding kept</h2>")


def test_the_estimate_is_made_once_and_follows_from_the_other_files(tmp_path, monkeypatch):
    release = dp.release(DATA, **COLUMNS, epsilon=1, secret=secret(6))
    with monkeypatch.context() as patched:
        patched.setattr(all_records, "estimate_all_records", None)
        release.save(tmp_path / "out")
        loaded = dp.load(tmp_path / "out")
    again = all_records.estimate_all_records(loaded.bounded.released, loaded.kappa, loaded.survey)
    assert loaded.released == release.released == again


def test_a_job_makes_the_same_files(tmp_path):
    lines = (f"{user},{item}\n" for user, item in zip(*DATA.values(), strict=True))
    (tmp_path / "records.csv").write_text("user,item\n" + "".join(lines))
    flags = [
        f"--input={tmp_path}/records.csv",
        "--user_column=user",
        "--partition_column=item",
        "--epsilon=1",
    ]
    assert main([*flags, f"--output={tmp_path}/out"]) == 0
    loaded = dp.load(tmp_path / "out")
    statement = json.loads((tmp_path / "out/privacy.json").read_text())
    assert statement["max_partitions_per_user"] == loaded.kappa
    assert statement["max_partitions_per_user_is"].startswith("chosen by the survey")
    assert main([*flags, "--max_partitions_per_user=3", f"--output={tmp_path}/bounded"]) == 0
    assert not isinstance(dp.load(tmp_path / "bounded"), dp.AllRecordsRelease)
    share = ["--survey_share=0.3", "--max_partitions_per_user=3"]
    assert main([*flags, *share, f"--output={tmp_path}/surveyed"]) == 0
    assert dp.load(tmp_path / "surveyed").kappa == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 1, "survey": False}, "survey=False goes with max_partitions_per_user"),
        (
            {"epsilon": 1, "survey": 1.5},
            "between 0 and 1, got 1.5",
        ),
        ({"epsilon": 1, "mechanism": "geometric"}, "declare max_partitions_per_user"),
        ({"epsilon": "1e-300"}, "epsilon must be at least 9.55e-07"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": 1, "largest_degree": 0}, "largest_degree must be a positive integer"),
        (
            {"epsilon": 1, "max_partitions_per_user": 2, "largest_degree": 9},
            "largest_degree goes with a survey",
        ),
        ({"epsilon": 1, "max_partitions_per_user": 0, "survey": True}, "max_partitions_per_user"),
    ],
)
def test_arguments_are_refused_before_anything_is_spent(options, words):
    session = dp.Session(epsilon=5)
    with pytest.raises(ValueError, match=words):
        session.release(DATA, **COLUMNS, **options)
    assert session.remaining.epsilon == 5


@pytest.mark.thorough
def test_empty_data_and_one_user_are_released_alike():
    statement = dp.release(DATA, **COLUMNS, epsilon="0.5").statement
    for data in ({"user": [], "item": []}, {"user": [1], "item": [2]}):
        release = dp.release(data, **COLUMNS, epsilon="0.5", secret=secret(1))
        # The survey's noise decides whether this number is released.
        sometimes = {"users_beyond_the_bound"}
        assert {*release.statement} | sometimes == {*statement} | sometimes
        assert repr(release)
