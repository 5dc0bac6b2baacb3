"""Predictions of what a plan names, beside drawn numbers and exact sums."""

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms.mechanisms.selection import OptimalSelection
from dp_transforms.mechanisms.selection.population import Population
from dp_transforms.mechanisms.selection.prediction import (
    Round,
    count_error,
    kept_shares,
    of_distribution,
    predict,
)


def test_a_single_round_is_predicted_by_the_sum_of_keep_probabilities():
    sizes, partitions = np.array([5.0, 12, 14, 40]), np.array([100.0, 10, 10, 1])
    population = Population.of_sizes(np.ones(1), np.array([1000.0]), sizes, partitions)
    distribution = OptimalSelection(1, 1e-5).distribution
    exact = partitions @ [distribution.keep_probability(int(size)) for size in sizes]
    predicted = predict(population, [of_distribution(distribution, 1)])
    assert predicted.names == pytest.approx(exact, rel=1e-3)


def test_a_pre_threshold_is_predicted_by_the_sum_of_keep_probabilities():
    sizes, partitions = np.array([5.0, 12, 14, 23, 40]), np.array([100.0, 10, 10, 5, 1])
    population = Population.of_sizes(np.ones(1), np.array([1000.0]), sizes, partitions)
    strategy = OptimalSelection(1, 1e-5, pre_threshold=10)
    exact = partitions @ [strategy.keep_probability(int(size)) for size in sizes]
    predicted = predict(population, [of_distribution(strategy.distribution, 1).beyond(9)])
    assert predicted.names == pytest.approx(exact, rel=0.05)


@pytest.mark.thorough
def test_no_plan_is_predicted_to_name_below_the_pre_threshold():
    rng = np.random.default_rng(4)
    visits = {
        "who": rng.integers(0, 900, 5_000),
        "page": (rng.pareto(1, 5_000) * 2).astype(int),
    }
    names = dp.select(
        visits, "who", "page", epsilon=2, delta=1e-3, max_partitions_per_user=3,
        pre_threshold=100_000, secret=dp.JobSecret.insecure_for_testing(11),
    )  # fmt: skip
    assert not len(names)
    # No partition has so many users: plans were predicted to name dozens.
    assert {plan["predicted_names"] for plan in names.statement["choice"]["compared"]} == {0}


def test_users_who_have_a_partition_by_chance_are_more_than_expected_in_some():
    # Ten thousand users have each of these partitions with the same small probability.
    sizes, partitions = np.array([2.0, 3.0, 5.0, 8.0]), np.array([400.0, 200.0, 30.0, 5.0])
    distribution = OptimalSelection(4, 1e-5).distribution
    keep = [distribution.keep_probability(n) if n else 0.0 for n in range(60)]
    users = np.random.default_rng(3).binomial(10_000, sizes / 10_000, (50_000, 4))
    exact = partitions @ np.array(keep)[users].mean(0)
    by_chance = Population(
        np.ones(1), np.array([10_000.0]), sizes[None] / 10_000, partitions, sizes_are_known=False
    )
    predicted = predict(by_chance, [of_distribution(distribution, 1)]).names
    assert predicted == pytest.approx(exact, rel=0.1)
    # Of exactly this many users each, only half of these would be named.
    known = Population.of_sizes(np.ones(1), np.array([10_000.0]), sizes, partitions)
    assert predict(known, [of_distribution(distribution, 1)]).names < 0.7 * exact


def test_weights_of_partitions_that_users_have_by_chance_vary_as_drawn():
    # Half of the users add 3 to each of their partitions, and half add 1.
    population = Population(
        np.array([1.0, 9.0]), np.array([500.0, 500.0]), np.full((2, 1), 0.008), np.ones(1)
    )
    names = []
    for threshold in (12.5, 16.5, 24.5):
        of_round = Round(
            9,
            lambda degrees: np.where(degrees < 5, 3.0, 1.0),
            lambda sums, threshold=threshold: 1 / (1 + np.exp((threshold - sums) / 2)),
        )
        drawn = np.random.default_rng(5).binomial(500, 0.008, (100_000, 2)) @ [3, 1]
        names.append((predict(population, [of_round]).names, of_round.keep(drawn).mean()))
    predicted, exact = zip(*names, strict=True)
    assert predicted == pytest.approx(exact, abs=0.02)


def test_the_part_of_users_who_count_is_that_of_their_partitions():
    # Five partitions of users who have no other, and one set of users who have all other ten.
    shares = np.array([[0.2, 0.0], [0.0, 1.0]])
    population = Population(
        np.array([1.0, 10.0]), np.array([500.0, 100.0]), shares, np.array([5.0, 10.0])
    )
    assert population.sizes == pytest.approx([100, 100])
    kept = kept_shares(population, np.ones(2), 1)
    assert kept == pytest.approx([1, 0.1])
    assert kept_shares(population, np.array([1, 0.2]), 1) == pytest.approx([1, 0.5], rel=0.15)
    # 1,000 of 1,500 users are scaled up: 100 to 250, and 10 to 25, with what chance does to them.
    shown, of_all = np.array([1.0, 1.0]), (5 * 100 + 10 * 10) / 1_500
    scaled = np.array([100.0, 10.0]) / of_all
    chance = np.sqrt([16.0, 16 + 100 * 0.1 * 0.9]) / of_all
    expected = np.hypot(scaled - 100, chance).mean()
    assert count_error(population, shown, kept, of_all, 16.0) == pytest.approx(expected)
