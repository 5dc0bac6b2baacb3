import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms.files.filenames import NAMED_USERS_FILE
from dp_transforms.mechanisms.selection import MeasuredSelection
from dp_transforms.mechanisms.selection.measured import MOST_PARTITIONS
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from dp_transforms.releases.name_answers import NameCount
from dp_transforms.releases.name_statements import strategy_of
from tests.jobs import without_digests
from tests.postprocessing.test_all_records import random_pairs
from tests.tapes import InsecureSeededTape

PAIRS = random_pairs(7, users=1_500, things=800)
KAPPA = 4
TRUTH = np.bincount(PAIRS[:, 1])
DATA = {"who": PAIRS[:, 0], "page": [f"/{page}" for page in PAIRS[:, 1]]}
OF = {"user": "who", "partition": "page", "max_partitions_per_user": KAPPA}
DEGREES = UserDegreeMechanism(2).release(
    dict(
        zip(
            *np.unique(np.bincount(PAIRS[:, 0])[np.unique(PAIRS[:, 0])], return_counts=True),
            strict=True,
        )
    ),
    InsecureSeededTape(3),
)


@pytest.mark.thorough
def test_a_name_of_another_type_is_not_taken_for_one_that_is_not_named():
    records = {"who": range(200), "page": [7] * 200, "at": ["x"] * 200, "flag": [True] * 200}
    options = {"epsilon": 8, "delta": 1e-3, "max_partitions_per_user": 1}
    by_number = dp.select(records, user="who", partition="page", **options)
    assert by_number[np.int64(7)].is_named and 7 in by_number and 8 not in by_number
    with pytest.raises(TypeError, match="'page' are integers, got str: give it as the table"):
        by_number["7"]
    by_text = dp.select(records, user="who", partition="flag", **options)
    assert by_text["true"].is_named
    with pytest.raises(TypeError, match="'flag' are text, got bool: give it as the table shows"):
        assert True in by_text
    both = dp.select(records, user="who", partition=["page", "at"], **options)
    assert both[7, "x"].is_named
    for wrong in ((7, 7), (7,), "x"):
        with pytest.raises(TypeError, match=r"'at' are text, got int|must be a tuple of page, at"):
            both[wrong]
    # Without any name, the types of names are not known.
    nobody = dp.select({"who": [], "page": []}, user="who", partition="page", **options)
    assert not nobody[7].is_named and not nobody["7"].is_named


@pytest.mark.thorough
def test_words_say_which_records_a_plan_lets_count():
    # All users have 60 things, and the plan lets fewer of them count than were declared.
    pairs = np.indices((3_000, 60)).reshape(2, -1)
    records = {"who": pairs[0], "page": pairs[1]}
    options = {"epsilon": 1, "delta": 1e-6, "max_partitions_per_user": 60, "counts": True}
    names = dp.select(records, "who", "page", **options)
    plan, shown = names.statement["plan"], repr(names)
    assert 0 < plan["partitions"] < 60 and plan["counted"] > 0
    assert f"at most {plan['partitions']} partition" in shown and "at most 60 p" not in shown
    assert f"counts: at most {plan['counted']} named ones of each user" in shown
    assert f"each in at most {plan['counted']} named partitions" in names.privacy


def secret(number):
    return dp.JobSecret(number.to_bytes(32, "big"))


def select(number=1, **options):
    options = {"epsilon": 1, "delta": 1e-5, "counts": True} | options
    return dp.select(DATA, **OF, secret=secret(number), **options)


@pytest.fixture(scope="module")
def names():
    return select(strategy="gaussian")


@pytest.fixture(scope="module")
def frequencies():
    return dp.release(DATA, **OF, epsilon=1, secret=secret(2))


@pytest.fixture(scope="module")
def with_list(names, frequencies):
    return names.beside(frequencies, of_one_job=True)


@pytest.fixture(scope="module")
def of_all(names, frequencies):
    return names.beside(frequencies, DEGREES)


def of_name(name):
    return int(TRUTH[int(name[1:])])


def test_names_are_a_collection(names):
    every = names.names["page"].to_pylist()
    assert list(names) == every and len(names) == len(every) > 10
    assert every[0] in names and "/none" not in names
    first = names[every[0]]
    noisy, low, high = (names.names[name][0].as_py() for name in ("noisy_count", "low", "high"))
    assert first == NameCount(True, noisy, low, high, of="count")
    assert [name for name, _ in names.top(3)] == every[:3]
    assert len(names.top(10_000)) == len(names)
    for k in (0, -1, 1.5):
        with pytest.raises(ValueError, match="k must be a positive integer"):
            names.top(k)


def test_names_of_several_columns_are_tuples():
    many = {"who": list(range(300)), "page": ["a"] * 300, "day": [1] * 300}
    names = dp.select(
        many, user="who", partition=["page", "day"], epsilon=4, delta=1e-3,
        max_partitions_per_user=1,
    )  # fmt: skip
    assert list(names) == [("a", 1)] and ("a", 1) in names
    assert str(names["a", 1]) == "named: there is no count"
    with pytest.raises(ValueError, match="have no counts: release them with counts=True"):
        names.top(1)


def test_what_is_not_named_has_at_most_so_many_users(names):
    bound = names.at_most("/none")
    strategy = strategy_of(names.statement)
    assert not bound.is_named and bound.of == "count" and bound == names["/none"]
    assert strategy.keep_probability(bound.high) < 0.95 <= strategy.keep_probability(bound.high + 1)
    assert names.at_most("/none", 0.5).high < bound.high < names.at_most("/none", 0.999).high
    assert f"not named has at most {bound.high} users that count (95% confidence)" in repr(names)
    named = next(iter(names))
    with pytest.raises(ValueError, match=r"is named: names\[name\] tells its users") as error:
        names.at_most(named)
    assert named not in str(error.value)


@pytest.mark.thorough
def test_rounds_speak_of_users_with_few_partitions_or_not_at_all():
    rounds = select(11, strategy="renyi_rounds", counts=False)
    assert rounds["/none"].of == KAPPA and "users of at most 4 partitions each" in repr(rounds)
    plan = select(12, strategy="measured", counts=False)
    # As version 0.2 stated it.
    plan.statement.pop("plan")
    assert str(plan["/none"]) == "not named: nothing can be said about its users"
    assert "not named" not in repr(plan)


def test_another_librarys_strategy_is_not_taken_for_ours(names):
    assert strategy_of(names.statement) is not None
    for change in ({"sigma": 3.0}, {"strategy": "other"}, {"threshold": 1}):
        changed = dict(names.statement) | change
        changed.pop("not_named")
        assert strategy_of(changed) is None
        silent = dataclasses.replace(names, statement=changed)
        assert silent["/none"].high == np.inf and not silent.has_estimates


def test_a_list_gives_estimates_about_the_records_that_count(names, frequencies, with_list):
    assert not names.has_estimates
    assert with_list.has_estimates and not with_list.is_about_all_records
    table = with_list.to_arrow()
    assert table.column_names == ["page", "users", "low", "high"]
    users = table["users"].to_numpy()
    assert (np.diff(users) <= 0).all()
    assert (table["low"].to_numpy() <= users).all() and (users <= table["high"].to_numpy()).all()
    assert with_list.names == names.names and "about the records that count" in repr(with_list)
    name, count = with_list.top(1)[0]
    assert (
        with_list[name]
        == count
        == NameCount(True, *(table[c][0].as_py() for c in table.column_names[1:]), of="count")
    )
    agreeing = with_list.list_that_agrees
    for t in range(1, int(users.max()) + 2):
        assert (users >= t).sum() <= agreeing.partitions_with_at_least(t).value
    assert users.sum() <= agreeing.total().value
    for k in (1, 3, len(users)):
        assert users[:k].sum() <= agreeing.sum_of_top(k).value
        assert users[k - 1] <= agreeing.frequency_at(k).value


def test_a_survey_gives_estimates_about_all_records(names, of_all):
    assert of_all.is_about_all_records and "estimates about all records" in repr(of_all)
    truth = np.array([of_name(name) for name in of_all])
    errors = [
        np.abs([count.users - of_name(name) for name, count in release.top(10**6)]).mean()
        for release in (names, of_all)
    ]
    assert 3 * errors[1] < errors[0]
    held = [of_all[name].low <= of_name(name) <= of_all[name].high for name in of_all]
    assert all(held) and len(truth) == len(held)
    unnamed = of_all.at_most("/none")
    assert unnamed.of == "all" and unnamed.high > names.at_most("/none").high
    low, high = of_all.model_intervals()
    wide = np.array([of_all[name].high - of_all[name].low for name in of_all])
    assert (high - low < wide).mean() > 0.9
    with pytest.raises(ValueError, match="need noisy counts, and a list or a survey"):
        names.model_intervals()


def test_names_and_a_survey_need_no_list(names, of_all):
    alone = dataclasses.replace(names, degrees=DEGREES)
    assert alone.has_estimates and alone.missing() is None
    for name, count in alone.top(5):
        assert count.users == pytest.approx(of_name(name), rel=0.25)


def test_counts_that_follow_the_selection_are_about_all_records_too(names, frequencies):
    """Counts with noise of their own, of one of a user's named partitions. A list tells which."""
    random = np.random.default_rng(1)
    of_named = PAIRS[np.isin(PAIRS[:, 1], [int(name[1:]) for name in names])]
    order = random.permutation(len(of_named))
    counted = of_named[order][np.unique(of_named[order][:, 0], return_index=True)[1]]
    counts = np.bincount(counted[:, 1], minlength=len(TRUTH))
    noisy = [int(counts[int(name[1:])] + round(random.normal(0, 3))) for name in names]
    table = names.names.set_column(1, "noisy_count", [noisy])
    noise = {"sigma2_exact": "9", "max_partitions_per_user": 1, "of": "named partitions"}
    release = dataclasses.replace(
        names, names=table, statement=names.statement | {"count_noise": noise}
    ).beside(frequencies, DEGREES)
    alone = dataclasses.replace(release, frequency_list=None, degrees=DEGREES)
    assert not alone.has_estimates
    errors = [abs(count.users - of_name(name)) for name, count in release.top(10**6)]
    plain = [abs(y - of_name(name)) for y, name in zip(noisy, names, strict=True)]
    assert 3 * np.mean(errors) < np.mean(plain)
    assert np.mean([release[n].low <= of_name(n) <= release[n].high for n in names]) >= 0.95


def test_what_is_missing_is_bounded_by_the_list(with_list, of_all):
    bounded = with_list.missing()
    everything = len(np.unique(PAIRS[:, 1]))
    of_list = with_list.list_that_agrees.number_of_partitions().value
    assert bounded.partitions.value == of_list - len(with_list)
    assert bounded.share.low <= bounded.share.value <= bounded.share.high < 1
    assert bounded.contributions.low <= bounded.contributions.value <= bounded.contributions.high
    assert bounded.partitions.low <= everything - len(with_list)
    assert f"Partitions that are not named: {bounded.partitions}" in repr(with_list)
    of_survey = with_list.beside(
        dp.release(DATA, user="who", partition="page", epsilon=2, secret=secret(5))
    )
    share = 1 - sum(map(of_name, with_list)) / len(PAIRS)
    missing = of_survey.missing()
    assert missing.share.low <= share <= missing.share.high
    assert missing.share.value == pytest.approx(share, abs=0.1)


def test_a_selection_that_names_nothing_is_saved_beside_a_list(tmp_path):
    # Two users of each page are too few to be named.
    data = {"who": list(range(60)), "page": [f"/{user // 2}" for user in range(60)]}
    columns = {"user": "who", "partition": "page", "max_partitions_per_user": 1}
    both = dp.release_and_select(data, **columns, epsilon=1, delta=1e-9, counts=True)
    assert len(both.names) == 0
    both.save(tmp_path / "both")
    assert len(dp.load(tmp_path / "both").names) == 0
    assert (tmp_path / "both/partitions" / NAMED_USERS_FILE).read_text().count("\n") == 1


@pytest.mark.thorough
def test_names_beside_a_list_that_noise_left_empty_are_saved(tmp_path):
    # Of one user the list is empty in about half of all releases.
    columns = {"user": "who", "partition": "page", "max_partitions_per_user": 1}
    lengths = set()
    for seed in range(2, 6):
        both = dp.release_and_select(
            {"who": [1], "page": ["/a"]},
            **columns,
            epsilon="0.05",
            delta=1e-2,
            counts=True,
            secret=dp.JobSecret.insecure_for_testing(seed),
        )
        both.save(tmp_path / str(seed))
        loaded = dp.load(tmp_path / str(seed))
        assert repr(loaded.names) == repr(both.names)
        lengths.add(len(loaded.frequency_list.released))
    assert 0 in lengths and len(lengths) > 1


def test_other_records_are_refused(names, frequencies):
    other = dp.release(DATA, user="who", partition="page", epsilon=1, max_partitions_per_user=2)
    with pytest.raises(ValueError, match="at most 2 partitions of each user, and the names 4"):
        names.beside(other)
    assert names.beside(other, DEGREES).has_estimates
    columns = {"who": DATA["who"], "url": DATA["page"]}
    renamed = dp.release(columns, user="who", partition="url", epsilon=1, max_partitions_per_user=4)
    with pytest.raises(ValueError, match="of the same partition columns"):
        names.beside(renamed)


@pytest.mark.thorough
def test_names_of_a_period_go_beside_no_list():
    # 1,000 users of six pages keep three of them. A survey knows of nobody with more than six, the
    # kappa of both weeks together, so that nothing would seem to be dropped.
    pairs = [(user, f"p{page}", "2026-01-05") for user in range(1_000) for page in range(6)]
    columns = dict(zip(("who", "page", "when"), zip(*pairs, strict=True), strict=True))
    of_weeks = {"time": "when", "period": "week", "periods": "2026-01-05..2026-01-18"}
    of_weeks |= {"epsilon": 4, "max_periods_per_user": 2}
    (names, _) = dp.select_by_period(
        columns, "who", "page", **of_weeks, delta=1e-6, max_partitions_per_user=3, counts=True
    ).values()
    (survey, _) = dp.release_by_period(columns, "who", "page", **of_weeks).values()
    assert "p0" in names and names.statement["max_partitions_per_user"] == 6
    with pytest.raises(ValueError, match="names of a period are not of the same records"):
        names.beside(survey)


@pytest.mark.thorough
@pytest.mark.parametrize("kappa", [None, 3])
def test_unnamed_of_periods_have_at_most_so_many_users_of_few_partitions(kappa):
    # On each of four days, page n has n users with this page alone. Others have 40 pages of their
    # own on each day, so that a look lets few of them count.
    days = [f"2026-01-0{day}" for day in range(1, 5)]
    pairs = [
        (f"{page} {day} {number}", page, day)
        for day in days
        for page in range(1, 160)
        for number in range(page)
    ]
    pairs += [(user, 1_000 + 40 * user + page, day)
              for user in range(50) for day in days for page in range(40)]  # fmt: skip
    users, pages, times = zip(*pairs, strict=True)
    data = {"who": [*map(str, users)], "page": pages, "when": times}
    of_days = {"time": "when", "period": "day", "periods": f"{days[0]}..{days[-1]}"}
    missed = 0
    for number in range(3):
        selected = dp.select_by_period(
            data, "who", "page", **of_days, epsilon=1, delta=1e-6, max_periods_per_user=2,
            max_partitions_per_user=kappa, strategy="measured",
            secret=secret(70 + 10 * (kappa or 0) + number),
        )  # fmt: skip
        for names in selected.values():
            bound = names.at_most(-1)
            counted = names.statement["plan"]["partitions"]
            assert f"of at most {counted} partition" in str(bound)
            in_each = "" if kappa is None else ", at most 3 in each"
            assert f"each over at most 2 days{in_each} (95%" in str(bound)
            assert bound.high < 150
            missed += bound.high + 1 not in names
    # Of 12 pages with one user more than the bound, each is missed with a probability of at most
    # 0.05: more than 4 are in one of 5,000 runs. The secrets are fixed.
    assert missed <= 4


def test_the_estimates_are_saved_beside_the_noisy_counts(with_list, tmp_path):
    with_list.save(tmp_path / "names")
    lines = (tmp_path / "names" / NAMED_USERS_FILE).read_text().splitlines()
    assert lines[0] == "page,users,low,high" and len(lines) == len(with_list) + 1
    first = with_list.to_arrow().slice(0, 1).to_pylist()[0]
    assert lines[1] == ",".join(map(str, first.values()))
    plain = dp.load(tmp_path / "names")
    assert plain.names == with_list.names and plain.beside(with_list.frequency_list) == with_list


def test_the_estimates_are_loaded_with_their_names(with_list, of_all, tmp_path):
    for place, names in enumerate((of_all, with_list)):
        directory = tmp_path / str(place)
        names.save(directory)
        loaded = dp.load(directory)
        assert loaded.to_arrow() == names.to_arrow()
        assert [loaded[name] for name in loaded] == [names[name] for name in names]
        assert loaded.top(5) == names.top(5) and loaded.page()[0].count("Estimates of")
        assert loaded.is_about_all_records == names.is_about_all_records == (place == 0)
        assert loaded.missing() is None
        # Degrees beside them give estimates about all records, which follow from nothing else.
        surveyed = loaded.with_degrees(DEGREES)
        assert surveyed.is_about_all_records and surveyed.to_arrow() != loaded.to_arrow()
        stated = surveyed.statement["estimates"]
        assert stated["about"] == "all records"
        assert stated["epsilon"] == pytest.approx(names.statement["epsilon"] + DEGREES.epsilon)
        loaded.save(tmp_path / "again", overwrite=True)
        for path in directory.iterdir():
            assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


def test_estimates_of_other_names_are_refused(with_list, tmp_path):
    with_list.save(tmp_path / "names")
    path = without_digests(tmp_path / "names") / NAMED_USERS_FILE
    content = path.read_text()
    first = content.splitlines(keepends=True)[1]
    for damaged in ("", content.replace(first, ""), content + first, "page,low,users,high\n"):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=f"{NAMED_USERS_FILE} is not as it was released"):
            dp.load(tmp_path / "names")


@pytest.mark.slow
def test_intervals_about_all_records_hold_given_that_the_name_was_named():
    """Of 60 selections, among the names of the smaller and of the larger counts: 95% in the mean at
    least. Fewer than 93% of some 700 have probability 1% at most, if all were at 95%."""
    held = {"small": [], "large": []}
    for number in range(60):
        names = select(100 + number, strategy="laplace", epsilon=2)
        ranked = dataclasses.replace(names, degrees=DEGREES).top(10**6)
        for place, (name, count) in enumerate(ranked):
            kind = "large" if 2 * place < len(ranked) else "small"
            held[kind].append(count.low <= of_name(name) <= count.high)
    assert all(np.mean(those) >= 0.93 and len(those) > 500 for those in held.values())


def test_both_releases_of_a_directory_agree(names, frequencies, tmp_path):
    frequencies.save(tmp_path / "frequency_list")
    names.save(tmp_path / "partitions")
    both = dp.load(tmp_path)
    assert both.names.has_estimates and both.names.frequency_list == frequencies
    assert both.frequency_list == both.names.list_that_agrees
    assert dp.load(tmp_path / "frequency_list") == frequencies
    assert dp.load(tmp_path / "partitions") == names


def exact_plan(strategy, statement):
    """The plan of a statement, of the strategy that made it."""
    plan = statement["plan"]
    return strategy.planned(RoundPlan(**plan | {"counts_share": Fraction(plan["counts_share"])}))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kappa", "epsilon", "single_round"), [(None, 1, False), (KAPPA, 1, False), (1, 3, True)]
)
def test_what_a_look_planned_follows_from_the_statement(kappa, epsilon, single_round, frequencies):
    options = {"epsilon": epsilon, "delta": 1e-5, "strategy": "measured", "counts": True}
    of = OF | {"max_partitions_per_user": kappa}
    names = dp.select(DATA, **of, secret=secret(22 + (kappa or 0)), **options)
    strategy = MeasuredSelection(
        epsilon, 1e-5, kappa or MOST_PARTITIONS, counted=True, declared=kappa is not None
    )
    assert strategy_of(names.statement) == exact_plan(strategy, names.statement)
    of_all = names.beside(frequencies, DEGREES)
    assert of_all.has_estimates and of_all.is_about_all_records
    assert bool(names.statement["plan"]["by"]) == single_round
    assert ("count_noise" in names.statement) != single_round


@pytest.mark.slow
def test_estimates_of_counts_after_rounds_err_less_than_noisy_counts():
    """Over two seeded releases; noisy counts miss what bounding drops, and have all the noise."""
    errors = []
    for number in range(2):
        data = {"epsilon": 0.5, "delta": 1e-5, "strategy": "measured", "counts": True}
        names = dp.select(DATA, **OF, secret=secret(30 + number), **data)
        of_all = names.beside(
            dp.release(DATA, **OF, epsilon=0.5, secret=secret(40 + number)), DEGREES
        )
        table = of_all.to_arrow()
        truth = np.array([of_name(name) for name in table["page"].to_pylist()])
        noisy = [of_name(name) for name in names.names["page"].to_pylist()]
        noisy = np.abs(names.names["noisy_count"].to_numpy() - noisy)
        low, high = (table[end].to_numpy() for end in ("low", "high"))
        assert ((low <= truth) & (truth <= high)).mean() >= 0.9
        errors.append([np.abs(table["users"].to_numpy() - truth).mean(), noisy.mean()])
    estimated, noisy = np.mean(errors, axis=0)
    assert estimated < 0.8 * noisy
