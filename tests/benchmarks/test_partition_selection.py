import math

import pytest

from benchmarks.count_intervals import coverage, forgetful
from benchmarks.partition_selection import NAMES, PUBLISHED, Released, findings, made, released
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.counting import count_pairs
from dp_transforms.mechanisms.selection import STRATEGIES, LaplaceSelection
from tests.beam_runs import table_of
from tests.cases import thorough_unless


@pytest.mark.parametrize(
    "name", thorough_unless(sorted(set(NAMES) - set(STRATEGIES)), ["weighted_gaussian", "renyi"])
)
def test_what_is_sure_to_be_released_is_counted(name):
    # At this budget 60 users are enough for any strategy, and a single one hardly ever is.
    records = [(user, item) for user in range(60) for item in ("jazz", "rock")]
    records += [(user, f"own {user}") for user in range(60)] + records[:30]
    pairs = distinct_pairs(table_of(records))
    strategy = made(name, 20, 1e-9, 3)
    secret = JobSecret.insecure_for_testing(1)
    assert released(strategy, count_pairs(pairs), pairs, secret) == 2


def measured(max_partitions, **means):
    runs = {name: [mean - 3, mean + 3] for name, mean in means.items()}
    return Released("records", 1.0, max_partitions, "measured", runs, {})


def test_auto_is_compared_with_the_best_published_strategy():
    rest = dict.fromkeys(PUBLISHED, 60)
    release = measured(1, **rest | {"optimal": 100, "sips": 80, "auto": 90, "measured": 110})
    assert release.best == "optimal"
    # Both means have a standard error of 3.
    ratio, error = release.beside_best
    assert ratio == 0.9 and error == pytest.approx(0.9 * math.hypot(3 / 90, 3 / 100))


def test_rows_in_which_no_published_strategy_names_anything_have_no_ratio():
    runs = {name: [0, 0] for name in PUBLISHED} | {"auto": [20, 22]}
    none = Released("other", 1.0, 3, "measured", runs, {})
    some = measured(3, **dict.fromkeys(PUBLISHED, 60), auto=90)
    text = findings([none, some])
    assert "records" in text and "other" not in text and "1.50 in the geometric mean" in text


def test_intervals_hold_and_those_of_the_noise_alone_do_not():
    strategy = LaplaceSelection(1, 1e-5)
    for users in (1, 12, 40):
        assert coverage(strategy, strategy.count_intervals, users) >= 0.95
    assert coverage(strategy, forgetful(strategy), 1) == 0
    assert coverage(strategy, forgetful(strategy), 40) >= 0.95
