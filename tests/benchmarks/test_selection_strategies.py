import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from benchmarks.selection_strategies import (
    UNIT,
    RenyiSelection,
    SipsSelection,
    WeightedGaussianSelection,
    rounds_are_private,
    weight,
)
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.engines.round_kernels import select_in_memory
from dp_transforms.mechanisms.selection import GaussianSelection
from dp_transforms.mechanisms.selection.gaussian import GaussianBudget, gaussian_delta
from tests.beam_runs import table_of
from tests.mechanisms.selection.test_audits import (
    DELTA,
    EPSILON,
    delta_of_names,
    neighbouring_counts,
    worst_transcript_delta,
)
from tests.mechanisms.selection.test_noisy_thresholds import noise_delta
from tests.statistical import distributions


def test_weights_have_at_most_norm_one():
    for partitions in [*range(1, 3000), 10**5, 10**6 + 7, 10**9]:
        each = weight(partitions)
        assert each**2 * partitions <= UNIT**2 < (each + 1) ** 2 * partitions


@pytest.mark.parametrize("max_partitions", [1, 1000])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-10), (10.0, 0.01)])
def test_no_user_exposes_more_than_delta_by_partitions_of_their_own(epsilon, delta, max_partitions):
    distribution = WeightedGaussianSelection(epsilon, delta, max_partitions).rounds[0]
    counts = np.arange(1, max_partitions + 1)
    weights = np.array([weight(d) for d in counts.tolist()])
    selected = stats.norm.sf((distribution.threshold - weights) / math.sqrt(distribution.sigma2))
    exposed = -np.expm1(counts * np.log1p(-selected))
    # Some number of partitions needs this threshold; delta is not left unused.
    assert 0.99999 * delta < exposed.max() <= delta


@pytest.mark.parametrize("max_partitions", [1, 3, 10, 100])
def test_weights_cost_nothing_against_plain_gaussian_thresholds(max_partitions):
    weighted = WeightedGaussianSelection(1, 1e-5, max_partitions)
    plain = GaussianSelection(1, 1e-5, max_partitions)
    # Where all users have kappa partitions it is the same mechanism, save the threshold's rounding.
    assert weighted.rounds[0].sigma * math.sqrt(max_partitions) == pytest.approx(plain.sigma)
    assert plain.median_users - 1 <= weighted.median_users <= plain.median_users


@pytest.mark.parametrize("options", [{}, {"number_of_rounds": 1}, {"number_of_rounds": 5}])
def test_rounds_compose_within_the_budget(options):
    epsilon, delta = 1.0, 1e-5
    rounds = SipsSelection(epsilon, delta, 20, **options).rounds
    noise = noise_delta(sum(1 / round_.sigma**2 for round_ in rounds), epsilon)
    exposed = sum(float(round_.budget.exposure) for round_ in rounds)
    assert 0.98 * delta < noise + exposed <= delta * (1 + 1e-4)


def test_an_overspent_total_is_found_out():
    epsilon, delta = Fraction(1), Fraction(1, 10**5)
    mu2 = Fraction(1, 16)
    left = delta - Fraction(*map(int, gaussian_delta(mu2, epsilon).as_integer_ratio()))
    assert rounds_are_private(GaussianBudget(mu2, left * Fraction(99, 100)), epsilon, delta)
    assert not rounds_are_private(GaussianBudget(mu2, left * Fraction(101, 100)), epsilon, delta)


def test_rounds_with_their_transcript():
    weighted = WeightedGaussianSelection(EPSILON, DELTA, 2, pre_threshold=2)
    for chosen in (weighted, SipsSelection(EPSILON, DELTA, 2)):
        assert DELTA / 10 < worst_transcript_delta(chosen) <= DELTA


def test_names_selected_by_one_round_of_renyi():
    delta = delta_of_names(RenyiSelection(EPSILON, DELTA, 2), neighbouring_counts(16), 16)
    assert DELTA / 2 < delta <= DELTA


@pytest.mark.thorough
def test_sums_of_weights_are_selected_by_the_distribution():
    strategy = WeightedGaussianSelection(2, 0.05, 4)
    # Partition 1 has three users of their own and two with four partitions each.
    shared = [(user, partition) for user in (8, 9) for partition in (1, 2, 3, 4)]
    pairs = distinct_pairs(table_of([(0, 1), (1, 1), (2, 1), *shared]))
    count = 800
    selected = [
        select_in_memory(pairs, strategy, JobSecret.insecure_for_testing(seed))[
            "partition"
        ].to_pylist()
        for seed in range(count)
    ]
    distribution = strategy.rounds[0]
    for partition, total in ((1, 3 * UNIT + UNIT), (2, UNIT)):
        kept = sum(partition in names for names in selected)
        distributions.assert_probability(kept, count, distribution.keep_enclosure(total, 128))


@pytest.mark.parametrize("value", [0, -1, 2.5, True])
def test_rounds_are_checked(value):
    with pytest.raises(ValueError, match="number_of_rounds must be a positive integer"):
        SipsSelection(1, 1e-5, 2, number_of_rounds=value)
