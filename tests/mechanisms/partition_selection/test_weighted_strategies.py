"""Weights, thresholds and rounds of the weighted strategies, and their laws on records."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_transforms.mechanisms.partition_selection import (
    GaussianSelection,
    SipsSelection,
    WeightedGaussianSelection,
    weights,
)
from dp_transforms.mechanisms.partition_selection.gaussian_calibration import GaussianBudget
from dp_transforms.mechanisms.partition_selection.normal import gaussian_delta
from dp_transforms.mechanisms.partition_selection.sips_calibration import rounds_are_private
from dp_transforms.mechanisms.partition_selection.weighted_round import UNIT
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests.statistical import laws


def test_weights_have_at_most_norm_one():
    partitions = np.concatenate([np.arange(1, 3000), [10**5, 10**6 + 7, 10**9]])
    units = weights(partitions).astype(object)
    assert all(units**2 * partitions <= UNIT**2)
    assert all((units + 1) ** 2 * partitions > UNIT**2)
    assert weights([[4, 1], [9, 16]]).tolist() == [[UNIT // 2, UNIT], [UNIT // 3, UNIT // 4]]


@pytest.mark.parametrize("kappa", [1, 2, 10, 1000])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-10), (10.0, 0.01)])
def test_no_user_exposes_more_than_delta_by_partitions_of_their_own(epsilon, delta, kappa):
    law = WeightedGaussianSelection(epsilon, delta, kappa).rounds[0].law
    sigma = math.sqrt(law.sigma2)
    counts = np.arange(1, kappa + 1)
    selected = stats.norm.sf((law.threshold - weights(counts)) / sigma)
    exposed = -np.expm1(counts * np.log1p(-selected))
    assert exposed.max() <= delta
    # Some number of partitions needs this threshold; delta is not left unused.
    assert exposed.max() > 0.99999 * delta


@pytest.mark.parametrize("kappa", [1, 3, 10, 100])
def test_weights_cost_nothing_against_plain_gaussian_thresholds(kappa):
    weighted = WeightedGaussianSelection(1, 1e-5, kappa)
    plain = GaussianSelection(1, 1e-5, kappa)
    # Where all users have kappa partitions it is the same mechanism, save the threshold's rounding.
    assert weighted.rounds[0].sigma * math.sqrt(kappa) == pytest.approx(plain.sigma)
    assert plain.median_users - 1 <= weighted.median_users <= plain.median_users


@pytest.mark.parametrize("options", [{}, {"number_of_rounds": 1}, {"number_of_rounds": 5}])
def test_rounds_compose_within_the_budget(options):
    epsilon, delta = 1.0, 1e-5
    rounds = SipsSelection(epsilon, delta, 20, **options).rounds
    mu2 = sum(1 / round_.sigma**2 for round_ in rounds)
    mu = math.sqrt(mu2)
    noise = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
        -mu / 2 - epsilon / mu
    )
    exposed = sum(float(round_.budget.exposure) for round_ in rounds)
    assert noise + exposed <= delta * (1 + 1e-4)
    assert noise + exposed > 0.98 * delta


def test_rounds_grow():
    sigmas = [round_.sigma for round_ in SipsSelection(1, 1e-5, 20, growth=9).rounds]
    assert sigmas[0] / sigmas[1] == pytest.approx(3) == sigmas[1] / sigmas[2]


def test_an_overspent_total_is_found_out():
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    mu2 = Fraction(1, 16)
    left = delta - Fraction(*map(int, gaussian_delta(mu2, epsilon).as_integer_ratio()))
    assert rounds_are_private(GaussianBudget(mu2, left * Fraction(99, 100)), epsilon, delta)
    assert not rounds_are_private(GaussianBudget(mu2, left * Fraction(101, 100)), epsilon, delta)


def select(strategy, records, seed):
    users, partitions = zip(*records, strict=True)
    return set(strategy.select(users, partitions, InsecureSeededTape(seed)).tolist())


def runs(strategy, records, count):
    return [select(strategy, records, seed) for seed in range(count)]


def test_the_law_of_the_weighted_gaussian():
    strategy = WeightedGaussianSelection(2, 0.05, 4)
    # Partition 1 has three users of their own and two with four partitions each.
    shared = [(user, partition) for user in (8, 9) for partition in (1, 2, 3, 4)]
    records = [(0, 1), (1, 1), (2, 1), *shared, (0, 1)]
    count = 4000
    selected = runs(strategy, records, count)
    law = strategy.rounds[0].law
    for partition, total in ((1, 3 * UNIT + UNIT), (2, UNIT)):
        kept = sum(partition in names for names in selected)
        laws.assert_probability(kept, count, law.keep_enclosure(total, 128))


def test_the_law_of_two_rounds():
    strategy = SipsSelection(3, 0.1, 2, number_of_rounds=2, growth=2)
    # Users of both partitions, and some of A alone: B gains weight once A is selected.
    records = [(user, "AB".index(p)) for user in range(5) for p in "AB"]
    records += [(user, 0) for user in range(5, 9)]
    half, whole = (int(w) for w in weights([2, 1]))
    first, second = (round_.law for round_ in strategy.rounds)

    def keep(law, total):
        return law.keep_probability(total)

    a_first, b_first = keep(first, 5 * half + 4 * whole), keep(first, 5 * half)
    a_alone, b_alone = keep(second, 9 * whole), keep(second, 5 * whole)
    a_both, b_both = keep(second, 5 * half + 4 * whole), keep(second, 5 * half)
    neither = (1 - a_first) * (1 - b_first)
    expected = {
        (0,): a_first * (1 - b_first) * (1 - b_alone) + neither * a_both * (1 - b_both),
        (1,): (1 - a_first) * b_first * (1 - a_alone) + neither * (1 - a_both) * b_both,
        (): neither * (1 - a_both) * (1 - b_both),
    }
    expected[0, 1] = 1 - sum(expected.values())
    drawn = [tuple(sorted(names)) for names in runs(strategy, records, 6000)]
    laws.assert_follows(drawn, expected)


def test_a_planted_user_above_kappa_weighs_no_more_than_kappa_partitions():
    """Enough budget to select anything two users have, and nothing that one has."""
    strategy = WeightedGaussianSelection(60, 1e-6, 3)
    alone = [(0, partition) for partition in range(1000)]
    assert all(select(strategy, alone, seed) == set() for seed in range(5))
    # Of 1000 partitions that five such users share, each user gives to three at random.
    crowd = [(user, partition) for user in range(5) for partition in range(1000)]
    selected = runs(strategy, crowd, 20)
    assert max(len(names) for names in selected) <= 5 * 3 // 2
    # With as many users for as few partitions, everything is selected.
    few = [(user, partition) for user in range(40) for partition in range(3)]
    assert select(strategy, few, 1) == {0, 1, 2}


def test_the_pre_threshold_needs_that_many_users():
    strategy = WeightedGaussianSelection(5, 0.01, 2, pre_threshold=6)
    records = [(user, partition) for partition in (1, 2) for user in range(5)]
    assert all(select(strategy, records, seed) == set() for seed in range(200))
    assert strategy.keep_probability(5) == 0 < strategy.keep_probability(40)
    assert strategy.median_users > WeightedGaussianSelection(5, 0.01, 2).median_users


def test_no_records_select_nothing():
    strategy = SipsSelection(1, 1e-5, 3)
    assert strategy.select([], [], InsecureSeededTape(1)).shape == (0,)


def test_selections_repeat_under_the_same_tape():
    strategy = SipsSelection(2, 0.05, 3)
    records = [(user, (user * i) % 97) for user in range(200) for i in range(1, 6)]
    assert select(strategy, records, 5) == select(strategy, records[::-1], 5)
    assert len({frozenset(names) for names in runs(strategy, records, 8)}) > 1


@pytest.mark.parametrize("field", ["number_of_rounds", "growth"])
@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_rounds_are_checked(field, value):
    with pytest.raises(ValueError, match=f"{field} must be a positive integer"):
        SipsSelection(1, 1e-5, 2, **{field: value})
