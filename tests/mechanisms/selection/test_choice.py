import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.selection import STRATEGIES, choose_strategy, explain, make_strategy
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal
from tests.cases import slow_unless, thorough_unless
from tests.mechanisms.selection.shared import COUNTS, NOISY, select_with_counts
from tests.tapes import InsecureSeededTape

NAMES = ["optimal", "truncated_geometric", "laplace", "gaussian", "renyi_rounds", "measured"]


def test_names():
    assert list(STRATEGIES) == NAMES
    with pytest.raises(ValueError, match=r"strategy must be 'auto' or one of .*'renyi_rounds'"):
        make_strategy("magic", 1, 1e-5)
    with pytest.raises(ValueError, match="'optimal' has no noisy counts; take 'auto' or one of"):
        make_strategy("optimal", 1, 1e-5, noisy_counts=True)
    with pytest.raises(ValueError, match="composition must be 'tight' or 'naive'"):
        make_strategy("optimal", 1, 1e-5, composition="loose")


@pytest.mark.thorough
def test_at_a_delta_of_one_half_a_single_user_is_the_median():
    # With a tie of 1/2 the probability is exactly that, whatever epsilon is.
    made = make_strategy("laplace", 1, 0.5)
    assert made.distribution.tie == Fraction(1, 2) and made.median_users == 1
    assert make_strategy("auto", 1, 0.5, noisy_counts=True, already_bounded=True).has_noisy_counts


# The rounds of "measured" are those of "renyi_rounds".
@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in NAMES if name != "renyi_rounds"])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    slow_unless(
        [(1e6, 1e-5), (10**6, 0.5), (1e-9, 1e-300), (1, 5e-324), (1e-15, 1e-5), (1e-18, 0.5)],
        [(1e6, 1e-5), (1, 5e-324), (1e-15, 1e-5)],
    ),
)
def test_extreme_budgets_make_a_strategy_or_are_refused(name, epsilon, delta):
    try:
        made = make_strategy(name, epsilon, delta, max_partitions_per_user=2)
    except StrategyRefusal:
        assert (name, epsilon > 1) in (("measured", True), ("measured", False), ("laplace", False))
    else:
        # What a constructor leaves for later does not fail either.
        assert made.keep_probability(2**48) <= 1
        assert name == "measured" or made.median_users > 0


@pytest.mark.parametrize(
    ("epsilon", "delta", "max_partitions"), [(1.0, 1e-5, 1), (0.5, 1e-4, 3), (5.0, 1e-3, 20)]
)
def test_auto_looks_at_records_or_takes_the_smallest_median(epsilon, delta, max_partitions):
    options = {"max_partitions_per_user": max_partitions}
    for noisy, single in ((False, COUNTS), (True, NOISY)):
        chosen = choose_strategy(epsilon, delta, noisy, **options)
        assert chosen.name == "measured" and chosen.counted == noisy
        medians = [strategy(epsilon, delta, max_partitions).median_users for strategy in single]
        bounded = choose_strategy(epsilon, delta, noisy, already_bounded=True, **options)
        rounds = bounded.name == "renyi_rounds"
        assert rounds == (max_partitions > 1 and not noisy)
        assert rounds or bounded.median_users == min(medians)


def test_auto_leaves_out_what_refuses_a_tiny_epsilon():
    assert choose_strategy(1e-15, 1e-5).name == "optimal"
    assert choose_strategy(1e-15, 1e-5, noisy_counts=True).name == "truncated_geometric"


def test_auto_knows_what_is_bounded():
    chosen = choose_strategy(1, 1e-5, already_bounded=True, max_partitions_per_user=2)
    assert chosen.name == "renyi_rounds"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_partitions", thorough_unless([1, 3, 7], [3]))
def test_keeping_grows_with_users_to_more_than_half_at_the_median(name, max_partitions):
    strategy = make_strategy(name, 0.7, 1e-4, max_partitions_per_user=max_partitions)
    kept = [strategy.keep_probability(n) for n in range(200)]
    assert kept == sorted(kept) and kept[0] == 0 < kept[1] <= 1e-4
    assert kept[strategy.median_users - 1] < 0.5 <= kept[strategy.median_users]
    lo, hi = strategy.keep_enclosure(20, 100)
    assert float(lo) <= kept[20] <= float(hi) and hi - lo < 2.0**-90


@pytest.mark.parametrize("name", NAMES[:4])
def test_a_pre_threshold_shifts_the_distribution(name):
    plain, shifted = (make_strategy(name, 1, 1e-3, pre_threshold=t) for t in (1, 5))
    for n in range(40):
        assert shifted.keep_probability(n) == plain.keep_probability(max(0, n - 4))
    users, tape = np.arange(2000) % 40, InsecureSeededTape(2)
    beyond = np.maximum(users - 4, 0)
    assert np.array_equal(shifted.select(users, tape), plain.select(beyond, tape))
    assert shifted.median_users == plain.median_users + 4
    if plain.saturation_count is not None:
        assert shifted.saturation_count == plain.saturation_count + 4
    if shifted.has_noisy_counts:
        keep, noisy = select_with_counts(plain, beyond, tape)
        later, moved = select_with_counts(shifted, users, tape)
        assert np.array_equal(keep, later) and np.array_equal(noisy[keep] + 4, moved[keep])
        assert moved[keep].min() >= shifted.describe()["threshold"]
        assert shifted.describe()["threshold"] == plain.describe()["threshold"] + 4


@pytest.mark.parametrize("name", NAMES)
def test_descriptions_are_public_and_fit_json(name):
    strategy = make_strategy(name, 1, 1e-5, max_partitions_per_user=4, neighbours="replace")
    expected = {
        "strategy": name,
        "epsilon": 1,
        "max_partitions_per_user": 4,
        "neighbours": "replace",
    }
    assert json.loads(json.dumps(strategy.describe())).items() >= expected.items()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1}, "epsilon must be a finite number at or above 0"),
        *(({"epsilon": epsilon}, "epsilon must be a finite") for epsilon in (math.nan, "one")),
        ({"delta": 1}, r"delta must be in \[0, 1\)"),
        ({"max_partitions_per_user": 0}, "max_partitions_per_user must be a positive integer"),
        ({"max_partitions_per_user": 1.5}, "max_partitions_per_user must be a positive integer"),
        ({"max_partitions_per_user": 10**9}, "max_partitions_per_user must be at most 1,000,000"),
        ({"pre_threshold": 0}, "pre_threshold must be a positive integer"),
        ({"pre_threshold": 10**12 + 1}, "pre_threshold must be at most 1,000,000,000,000, got 1"),
        ({"neighbours": "swap"}, "neighbours must be 'add_or_remove' or 'replace'"),
        # Of such numbers machines hold no power.
        *(({"epsilon": e}, "must be from 1e-18 to 1,000,000") for e in (5e-324, 1e-30, 1e308)),
    ],
)
@pytest.mark.parametrize("name", [*NAMES, "auto"])
def test_arguments_are_checked(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_strategy(name, **{"epsilon": 1, "delta": 1e-5, **arguments})


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("zero", ["epsilon", "delta"])
def test_only_the_optimal_strategy_takes_zeros(name, zero):
    with pytest.raises(ValueError, match=rf'{zero} must be positive.*"optimal" has no noise'):
        make_strategy(name, **{"epsilon": 1, "delta": 1e-5, zero: 0})


def test_auto_with_zeros():
    assert choose_strategy(0, 0.01).name == choose_strategy("0", "0.01").name == "optimal"
    for arguments in ((1, 0), (0, 0.01, True)):
        with pytest.raises(ValueError, match="no partition could ever be selected"):
            choose_strategy(*arguments)


@pytest.mark.slow
def test_the_largest_kappa_works():
    assert make_strategy("optimal", 1, 1e-6, max_partitions_per_user=10**6).median_users > 50_000


@pytest.mark.slow
def test_nothing_reaches_the_largest_pre_threshold():
    strategy = STRATEGIES["renyi_rounds"](1, 1e-6, 10**6, pre_threshold=10**12)
    users, words = np.array([2**40]), np.array([2**64 - 1], np.uint64)
    assert not strategy.decide_round(0, users, users, words, lambda i, bits: 2**bits - 1)


@pytest.mark.parametrize("max_partitions", [1, 1000])
def test_budgets_for_which_there_are_not_enough_users_are_refused(max_partitions):
    message = f"2..48 users in a partition at epsilon=1e-18, delta=1e-05 and {max_partitions} part"
    with pytest.raises(ValueError, match=message):
        make_strategy("renyi_rounds", 1e-18, 1e-5, max_partitions_per_user=max_partitions)


@pytest.mark.thorough
def test_auto_and_the_explanation_leave_out_what_is_refused():
    explanation = explain(1e-14, 1e-5, users=[30])
    assert [strategy.name for strategy in explanation.strategies] == NAMES[:4]
    assert explanation.chosen == choose_strategy(1e-14, 1e-5).name in NAMES[:4]
    last = str(explanation).splitlines()[-2:]
    assert [line.split(",")[0] for line in last] == [f"left out: {name}" for name in NAMES[4:]]


def test_the_explanation_is_a_table_of_keep_probabilities():
    explanation = explain(1, 1e-5, users=[30, 12], max_partitions_per_user=3)
    lines = str(explanation).splitlines()
    assert "epsilon = 1, delta = 1e-05, 3 partitions per user" in lines[0]
    assert lines[1].split() == ["users", *NAMES, "*"]
    assert [int(line.split()[0]) for line in lines[2:4]] == [12, 30]
    for strategy, row in zip(explanation.strategies, explanation.probabilities, strict=True):
        assert row == (strategy.keep_probability(12), strategy.keep_probability(30))
    assert lines[4].split()[2:] == [str(s.median_users) for s in explanation.strategies]
    reason = "for a small part of epsilon a noisy look at users and partitions predicts how"
    assert lines[5].startswith(f'* is what strategy="auto" takes: {reason}')
    counted = explain(1, 1e-5, users=[30], noisy_counts=True)
    assert [strategy.name for strategy in counted.strategies] == [*NAMES[1:4], "measured"]
    whole = explain(1, 1e-5, max_partitions_per_user=3)
    assert whole.users[0] == 1
    assert all(row[0] <= 1e-5 and row[-1] > 0.999 for row in whole.probabilities)


@pytest.mark.parametrize("users", [[], [0, 3]])
def test_explained_users_are_checked(users):
    with pytest.raises(ValueError, match="users must be positive integers"):
        explain(1, 1e-5, users=users)
