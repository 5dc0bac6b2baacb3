"""Lists of groups with a survey of each: without kappa, answers are about all records."""

import collections
from fractions import Fraction

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.releases import AllRecordsRelease, AllRecordsSpec, Attribute, GroupAllRecordsSpec
from pipelines import SUCCESS, release_grouped_lists, show
from tests.in_process_engine import in_process
from tests.jobs import job_flags, statement

COLUMNS = {"user": "user", "partition": "item"}
LABELS = [("", ""), ("age", "old"), ("age", "young"), ("sex", "f"), ("sex", "m")]
GROUPS = {"sex": ["f", "m"], "age": ["young", "old"]}


def records(seed=5, users=1500):
    """Users of two attributes; old ones have more items than young ones."""
    rng = np.random.default_rng(seed)
    rows = {"user": [], "item": [], "sex": [], "age": []}
    for user in range(users):
        sex, age = "fm"[user % 2], ("young", "old")[user % 3 == 0]
        degree = min(1 + int(rng.pareto(1.0 if age == "old" else 4.0)), 60)
        for item in rng.choice(150, degree, replace=False):
            for name, value in zip(rows, (user, int(item), sex, age), strict=True):
                rows[name].append(value)
    return rows


DATA = records()


def pairs_of(attribute, group):
    """The distinct pairs of a group's users."""
    rows = zip(DATA["user"], DATA["item"], DATA.get(attribute, DATA["user"]), strict=True)
    return {(user, item) for user, item, value in rows if not attribute or value == group}


def truth(label):
    counts = collections.Counter(item for _, item in pairs_of(*label))
    return FrequencyList.from_counts(counts.values())


def released(**options):
    options = {"epsilon_all": 1, "epsilon_groups": 2} | options
    return dp.release_groups(DATA, **COLUMNS, groups=GROUPS, **options)


@pytest.mark.thorough
def test_each_list_is_released_as_if_it_were_alone():
    # With next to no noise.
    lists = released(epsilon_all=3000, epsilon_groups=5000)
    assert sorted(lists) == LABELS
    for label, release in lists.items():
        assert isinstance(release, AllRecordsRelease)
        degrees = collections.Counter(user for user, _ in pairs_of(*label))
        by_degree = collections.Counter(degrees.values())
        survey = AllRecordsSpec(epsilon=1).survey
        assert release.degrees.users == tuple(survey.cells(by_degree))
        assert release.bounded.released.total == sum(
            min(degree, release.kappa) for degree in degrees.values()
        )
        assert release.released.l1_distance(truth(label)) < truth(label).total / 20
        costs = [release.statement[part]["epsilon_exact"] for part in ("survey", "list")]
        counted = release.statement.get("users_beyond_the_bound", {"epsilon_exact": "0"})
        assert sum(map(Fraction, [*costs, counted["epsilon_exact"]])) == (
            3000 if label == ("", "") else 2500
        )
    assert lists["age", "young"].kappa < lists["age", "old"].kappa


def test_a_group_costs_its_attribute_s_part_and_all_lists_their_sum():
    spec = GroupAllRecordsSpec(
        attributes=[Attribute("sex", ["f", "m"]), Attribute("age")],
        epsilon_all=Fraction(1, 3),
        epsilon_groups=1,
        selection=PrivacyBudget("0.1", 1e-6),
    )
    assert spec.for_all.cost.epsilon == Fraction(1, 3)
    assert spec.for_group.cost.epsilon == Fraction(1, 2)
    assert spec.cost == PrivacyBudget(Fraction(1, 3) + 1 + Fraction(1, 10), 1e-6)


@pytest.mark.thorough
def test_surveys_of_groups_have_independent_noise():
    # Both sexes have equal records, and all users have twice as many.
    rows = [(user, item, user % 2) for user in range(200) for item in range(user % 4 // 2 + 1)]
    users, items, sexes = map(list, zip(*rows, strict=True))
    data = {"user": users, "item": items, "sex": ["fm"[sex] for sex in sexes]}
    lists = dp.release_groups(
        data, **COLUMNS, groups={"sex": ["f", "m"]}, epsilon_all=1, epsilon_groups=1
    )
    women, men = lists["sex", "f"], lists["sex", "m"]
    assert women.degrees.users != men.degrees.users
    assert women.bounded.released.coordinates != men.bounded.released.coordinates


@pytest.mark.slow
def test_intervals_of_groups_hold():
    # 30 intervals with 95% confidence; fixed seeds. More than 7 failures have a probability below
    # 0.001 if each fails with probability 0.05.
    failures = 0
    for seed in range(2):
        lists = released(secret=dp.JobSecret.insecure_for_testing(seed))
        for label, release in lists.items():
            true = truth(label)
            answers = {
                release.number_of_partitions(): true.distinct,
                release.total(): true.total,
                release.partitions_with_at_least(20): int(
                    true.multiplicities[true.frequencies >= 20].sum()
                ),
            }
            failures += sum(
                not answer.low <= number <= answer.high for answer, number in answers.items()
            )
    assert failures <= 7


@pytest.mark.thorough
def test_groups_with_surveys_are_saved_and_read(tmp_path):
    lists = released()
    lists.save(tmp_path / "out")
    read = dp.load(tmp_path / "out")
    assert read.statement == lists.statement and repr(read) == repr(lists)
    assert read.privacy == lists.privacy and [*read] == [*lists]
    for label in LABELS:
        assert read[label].statement == lists[label].statement
        assert read[label].total() == lists[label].total()
        assert read[label].degrees == lists[label].degrees
    assert "1 for the list of all users, 1 for the groups by age, 1 for the groups by sex" in (
        read.privacy
    )
    assert "as many partitions as its survey chose" in read.privacy
    # Also of passwords, for which there are no guessing metrics of all records.
    passwords = {"password" if name == "item" else name: DATA[name] for name in DATA}
    columns = {"user": "user", "partition": "password"}
    page, pictures = dp.release_groups(
        passwords, **columns, groups=GROUPS, epsilon_all=1, epsilon_groups=2
    ).page()
    assert "How concentrated" in page and "number of all records with 95% confidence" in page
    page, pictures = read.page()
    assert "frequency lists of groups" in page and pictures


@pytest.mark.thorough
def test_a_bound_may_be_declared_beside_the_surveys():
    lists = released(max_partitions_per_user=2, survey=True)
    assert {release.kappa for release in lists.values()} == {2}
    assert "at most 2 partitions of the list" in lists.privacy
    with pytest.raises(ValueError, match="largest_degree goes with a survey"):
        released(max_partitions_per_user=2, largest_degree=9)


def test_groups_without_users_have_lists_too():
    spec = GroupAllRecordsSpec(
        attributes=[Attribute("sex", ["f", "m"])], epsilon_all=1, epsilon_groups=1
    )
    ((*lists,),) = in_process([]).all_records_by_group(spec)
    assert [labelled[:2] for labelled in lists] == [("", ""), ("sex", "f"), ("sex", "m")]


@pytest.mark.thorough
def test_the_job_needs_no_kappa(tmp_path, capsys, failure):
    rows = zip(DATA["user"], DATA["item"], DATA["sex"], strict=True)
    text = "".join(f"{user},{item},{sex}\n" for user, item, sex in rows)
    (tmp_path / "records.csv").write_text("user,page,sex\n" + text)
    flags = ("--group_by=sex", "--groups=sex=f,m", "--epsilon_all=1", "--epsilon_groups=1")
    usual = [flag for flag in job_flags(tmp_path, *flags) if "max_partitions" not in flag]
    usual = [flag for flag in usual if not flag.startswith("--epsilon=")]
    assert release_grouped_lists.main(usual) == SUCCESS
    tables = {"all_records.csv", "noisy_coordinates.csv", "surveys_of_degrees.csv"}
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == tables | {"privacy.json", "released_lists.csv"}
    lists = statement(tmp_path)["lists"]
    assert [(entry.get("attribute"), entry.get("group")) for entry in lists] == [
        (None, None), ("sex", "f"), ("sex", "m")
    ]  # fmt: skip
    capsys.readouterr()
    assert show.main([f"{tmp_path}/out"]) == SUCCESS
    assert "A survey of each list" in capsys.readouterr().out
    failure(
        2, "needs a survey, by --survey_share", release_grouped_lists.main,
        [*usual, "--max_partitions_per_user=2", "--largest_degree=9"],
    )  # fmt: skip
