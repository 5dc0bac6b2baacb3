"""The tables about estimates of guessing metrics tell what they say they tell."""

import math

import pytest

from benchmarks import guessing_estimates, guessing_limits
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.postprocessing.guessing_metrics import success_rate_bits
from dp_transforms.postprocessing.smoothing import thinned
from dp_transforms.sample_data import rockyou
from tests import enumeration


@pytest.mark.slow
def test_the_distance_of_releases_is_the_exact_one():
    """Seeded; five standard errors. At epsilon 4 a list beyond 14 has a probability below 1e-9."""
    one, other, mechanism = (3, 1), (2, 2), IntegerPartitionMechanism(epsilon=4)
    candidates = list(enumeration.partitions_of_at_most(14))
    laws = []
    for private in (one, other):
        weights = [
            math.exp(-mechanism.rate * enumeration.l1_distance(y, private)) for y in candidates
        ]
        laws.append([weight / sum(weights) for weight in weights])
    exact = sum(abs(p - q) for p, q in zip(*laws, strict=True)) / 2
    found, error = guessing_limits.total_variation(
        enumeration.as_list(one), enumeration.as_list(other), mechanism, draws=4_000
    )
    assert 0.3 < exact < 0.99 and abs(found - exact) < 5 * error


@pytest.mark.slow
def test_pairs_are_as_far_apart_as_releases_allow():
    mechanism = IntegerPartitionMechanism(epsilon=0.1)
    private = thinned(rockyou(), 20_000)
    apart, distance, _ = guessing_limits.limit(
        private, mechanism, lambda one: success_rate_bits(one, 100), draws=60
    )
    assert 0 < distance <= guessing_limits.MOST_DISTANCE
    assert 0.05 < apart < 1


@pytest.mark.parametrize("reference", [None, FrequencyList([40, 2, 1], [1, 9, 90])])
def test_without_noise_there_are_no_errors(reference):
    private = FrequencyList([50, 3, 1], [1, 8, 70])
    case = guessing_estimates.Case("plain", private, 100.0, reference)
    rows = [row.split(" | ") for row in guessing_estimates.rows(case, releases=2)]
    assert [row[2] for row in rows] == guessing_estimates.NAMES
    for row in rows:
        assert row[4:] == ["+0.00", "0.00", "+0.00", "0.00", "100% |"]


@pytest.mark.slow
def test_more_lists_are_read_and_cut_to_a_million(tmp_path):
    FrequencyList([3, 1], [10, 5]).to_csv(tmp_path / "small.csv")
    *_, last = guessing_estimates.cases(tmp_path)
    assert (last.name, last.private.total) == ("small", 35)
    assert all(case.private.total < 1_010_000 for case in guessing_estimates.cases())
