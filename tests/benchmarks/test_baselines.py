"""The baselines that the mechanism is compared with do what they are said to do."""

import math

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from benchmarks.baseline_tables import Input, Mean, measured, table
from benchmarks.baselines import (
    METHODS,
    OURS,
    OURS_BOUNDED,
    PublicBounds,
    _descending_l1,
    _nearest_descending,
    _Runs,
    l2_distance,
)
from dp_transforms import evaluation
from dp_transforms.mechanisms import FrequencyList, partition_mechanism
from tests import enumeration

PRIVATE = FrequencyList([900, 412, 57, 4, 3, 1], [1, 2, 1, 9, 30, 400])
BOUNDS = PublicBounds(items=600, count=1000)


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_the_list_comes_back(method):
    # At epsilon 200 a noise term of sensitivity 2, doubled once, is not 0 once in e**50 times.
    released = METHODS[method](PRIVATE, 200.0, 2, BOUNDS, np.random.default_rng(1))
    assert released == PRIVATE


@pytest.mark.parametrize("method", [name for name in METHODS if name not in (OURS, OURS_BOUNDED)])
def test_less_budget_means_more_error(method):
    rng = np.random.default_rng(2)

    def error(epsilon, sensitivity=1):
        released = [METHODS[method](PRIVATE, epsilon, sensitivity, BOUNDS, rng) for _ in range(30)]
        return np.mean([PRIVATE.l1_distance(x) for x in released])

    assert error(4) < error(1) < error(0.2)
    assert error(1) < error(1, sensitivity=8)


@pytest.mark.parametrize("decay", [0.7, 3.0])
def test_the_noise_has_the_law_that_its_budget_asks_for(decay):
    # 100,000 draws; a deviation of 5 standard errors happens once in 1.7 million runs.
    draws = 100_000
    noisy = _Runs(np.array([9, 4]), np.array([draws // 4, draws - draws // 4]))
    noisy = noisy.with_noise(decay, np.random.default_rng(3))
    noise = np.repeat(noisy.values, noisy.sizes) - np.repeat(
        [9, 4], [draws // 4, draws - draws // 4]
    )
    for k in (-2, -1, 0, 1, 2):
        p = math.tanh(decay / 2) * math.exp(-decay * abs(k))
        assert abs((noise == k).mean() - p) < 5 * math.sqrt(p * (1 - p) / draws)


def test_no_descending_list_is_nearer_in_l1():
    rng = np.random.default_rng(4)
    lists = np.array(list(enumeration.partitions(5, 6)))
    for _ in range(300):
        values = rng.integers(-2, 7, 5)
        found = _descending_l1(_Runs.of(values))
        fitted = np.repeat(found.values, found.sizes)
        assert (np.diff(fitted) <= 0).all()
        positive = np.maximum(values, 0)
        assert np.abs(fitted - positive).sum() == np.abs(lists - positive).sum(axis=1).min()


def test_the_nearest_descending_list_is_that_of_all_values_one_by_one():
    rng = np.random.default_rng(5)
    for _ in range(200):
        values = np.repeat(rng.integers(-2, 7, 8), rng.integers(1, 4, 8))
        fitted = isotonic_regression(values.astype(float), increasing=False).x
        found = _nearest_descending(_Runs.of(values))
        expected = np.maximum(np.rint(fitted), 0)
        assert (np.repeat(found.values, found.sizes) == expected).all()


def test_releases_go_on_until_the_difference_is_plain():
    case = Input("stairs", PRIVATE, 1, BOUNDS, (3, 200))
    dist, _ = measured(case, OURS, 1.0)
    exact = evaluation.expected_l1(partition_mechanism(1.0), PRIVATE) / 2
    assert dist == Mean(exact, 0.0)
    dist, _ = measured(case, "Laplace and sort", 1.0)
    assert dist.value * dist.relative_error <= abs(dist.value - exact) / 10


def test_l2_distance_by_hand():
    # 5 2 1 1 against 3 2 2 and nothing: 4 + 0 + 1 + 1.
    first, second = FrequencyList([5, 2, 1], [1, 1, 2]), FrequencyList([3, 2], [1, 2])
    assert l2_distance(first, second) == l2_distance(second, first) == math.sqrt(6)
    assert l2_distance(first, FrequencyList()) == math.sqrt(25 + 4 + 2)


def test_tables_tell_means_ratios_and_standard_errors():
    case = Input("stairs", PRIVATE, 1, BOUNDS, (5, 9))
    means = {"Hay isotonic": 30.0, "Laplace and sort": 15.0}
    errors = {
        ("stairs", method, epsilon): (Mean(means.get(method, 10.0), 0.01 * epsilon), Mean(1.0, 0.0))
        for method in METHODS
        for epsilon in (1.0, 4.0)
    }
    lines = table(case, 0, [1.0, 4.0], errors).splitlines()
    assert "of 5 to 9 releases: stairs (N = 2,307, 443 items, sensitivity 1)" in lines[0]
    assert lines[4] == "| 1 | 10 | 10 (1x) | 10 (1x) | 10 (1x) | 30 (3x) | 10 (1x) | 15 (1.5x) |"
    assert lines[-1] == f"| standard error, at most |{' 4.0% |' * 7}"
    dist, l2 = measured(case, "Hay isotonic", 200.0)
    assert (dist, l2) == (Mean(0.0, 0.0), Mean(0.0, 0.0))
