"""The baselines that the mechanism is compared with do what they are said to do."""

import math

import numpy as np
import pytest

from benchmarks.baseline_tables import Input, Mean, measured, table
from benchmarks.baselines import (
    METHODS,
    PublicBounds,
    _descending_l1,
    l2_distance,
    two_sided_geometric,
)
from dp_transforms.mechanisms import FrequencyList
from tests import enumeration

PRIVATE = FrequencyList([900, 412, 57, 4, 3, 1], [1, 2, 1, 9, 30, 400])
BOUNDS = PublicBounds(items=600, count=1000)


@pytest.mark.parametrize("method", METHODS)
def test_without_noise_the_list_comes_back(method):
    # At epsilon 200 a noise term of sensitivity 2, doubled once, is not 0 once in e**50 times.
    released = METHODS[method](PRIVATE, 200.0, 2, BOUNDS, np.random.default_rng(1))
    assert released == PRIVATE


@pytest.mark.parametrize("method", [name for name in METHODS if name != "integer partition"])
def test_less_budget_means_more_error(method):
    rng = np.random.default_rng(2)

    def error(epsilon, sensitivity=1):
        released = [METHODS[method](PRIVATE, epsilon, sensitivity, BOUNDS, rng) for _ in range(30)]
        return np.mean([PRIVATE.l1_distance(x) for x in released])

    assert error(4) < error(1) < error(0.2)
    assert error(1) < error(1, sensitivity=8)


def test_the_noise_has_the_law_that_its_budget_asks_for():
    # 100,000 draws; a deviation of 5 standard errors happens once in 1.7 million runs.
    decay, draws = 0.7, 100_000
    noise = two_sided_geometric(decay, draws, np.random.default_rng(3))
    for k in (-2, -1, 0, 1, 2):
        p = math.tanh(decay / 2) * math.exp(-decay * abs(k))
        assert abs((noise == k).mean() - p) < 5 * math.sqrt(p * (1 - p) / draws)


def test_no_descending_list_is_nearer_in_l1():
    rng = np.random.default_rng(4)
    lists = np.array(list(enumeration.partitions(5, 6)))
    for _ in range(300):
        values = rng.integers(-2, 7, 5)
        fitted = _descending_l1(values)
        assert (np.diff(fitted) <= 0).all()
        positive = np.maximum(values, 0)
        assert np.abs(fitted - positive).sum() == np.abs(lists - positive).sum(axis=1).min()


def test_l2_distance_by_hand():
    # 5 2 1 1 against 3 2 2 and nothing: 4 + 0 + 1 + 1.
    first, second = FrequencyList([5, 2, 1], [1, 1, 2]), FrequencyList([3, 2], [1, 2])
    assert l2_distance(first, second) == l2_distance(second, first) == math.sqrt(6)
    assert l2_distance(first, FrequencyList()) == math.sqrt(25 + 4 + 2)


def test_tables_tell_means_ratios_and_standard_errors():
    case = Input("stairs", PRIVATE, 1, BOUNDS, 5)
    means = {"Hay isotonic": 30.0, "Laplace and sort": 15.0}
    errors = {
        ("stairs", method, epsilon): (Mean(means.get(method, 10.0), 0.01 * epsilon), Mean(1.0, 0.0))
        for method in METHODS
        for epsilon in (1.0, 4.0)
    }
    lines = table(case, 0, [1.0, 4.0], errors).splitlines()
    assert "of 5 releases: stairs (N = 2,307, 443 items, sensitivity 1)" in lines[0]
    assert lines[4] == "| 1 | 10 | 10 (1x) | 10 (1x) | 30 (3x) | 10 (1x) | 15 (1.5x) |"
    assert lines[-1] == "| standard error, at most | 4.0% | 4.0% | 4.0% | 4.0% | 4.0% | 4.0% |"
    dist, l2 = measured(case, "Hay isotonic", 200.0)
    assert (dist, l2) == (Mean(0.0, 0.0), Mean(0.0, 0.0))
