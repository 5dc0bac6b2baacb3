"""The exact expectation against enumeration, and against the mean of releases."""

import statistics

import numpy as np
import pytest

from dp_transforms import sample_data
from dp_transforms.mechanisms import IntegerPartitionMechanism
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests import enumeration


@pytest.mark.parametrize("private", [(), (1,), (3, 1), (2, 2, 2), (4, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_expectation_is_that_of_the_enumeration(private, epsilon):
    q = np.exp(-epsilon / 2)
    distances = np.array(
        [enumeration.l1_distance(x, private) for x in enumeration.partitions_of_at_most(34)]
    )
    weights = q**distances
    exact = (weights * distances).sum() / weights.sum()
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    assert mechanism.expected_l1(enumeration.as_list(private)) == pytest.approx(exact, rel=1e-3)


def test_expectation_on_rockyou_is_the_published_exact_value():
    """37.23: the exact dist at epsilon = 8; Table II of the NDSS paper prints 28.8."""
    exact = IntegerPartitionMechanism(epsilon=8).expected_l1(sample_data.rockyou()) / 2
    assert round(exact, 2) == 37.23


def test_rates_of_any_size_are_expected_or_refused():
    private = sample_data.rockyou()
    assert 0 < IntegerPartitionMechanism(epsilon=60).expected_l1(private) < 1e-8
    assert IntegerPartitionMechanism(epsilon=3000).expected_l1(private) == 0
    with pytest.raises(ValueError, match="too small"):
        IntegerPartitionMechanism(epsilon=0.002).expected_l1(private)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [8, 4, 2, 1, 0.5, 0.25, 0.2, 0.1])
def test_mean_of_200_releases_is_within_four_standard_errors(epsilon):
    """Seeded; for another seed each fails with probability 6e-5."""
    private = sample_data.rockyou()
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    released = mechanism.release_many(private, 200, map(InsecureSeededTape, range(200)))
    distances = [private.l1_distance(x) for x in released]
    error = statistics.stdev(distances) / 200**0.5
    assert abs(statistics.fmean(distances) - mechanism.expected_l1(private)) < 4 * error
