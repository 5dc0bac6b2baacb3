"""The geometric mechanism's distributions in closed form, against sums over all lists."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.distributions import GeometricDistribution
from tests import enumeration
from tests.geometric_reference import frequency_distribution, probability

LISTS = [(), (1,), (3, 1), (2, 2), (3, 2, 2), (4, 1, 1)]
SMALL = 14
"""Lists of more users have a probability of 1e-5 together at q = 1/9."""


@pytest.mark.parametrize("private", LISTS, ids=str)
def test_cells_and_the_expected_distance_are_sums_over_all_lists(private):
    q, ranks = Fraction(1, 9), np.arange(1, SMALL + 2)
    outcomes = list(enumeration.partitions_of_at_most(SMALL))
    chances = np.array([float(probability(q, x, private)) for x in outcomes])
    values = np.array([enumeration.as_list(x).at_ranks(ranks) for x in outcomes])
    own = enumeration.as_list(private).at_ranks(ranks)
    for rank in (1, 2, 4):
        cells = frequency_distribution(math.log(9), enumeration.as_list(private), rank, 5)
        for value, chance in enumerate(cells):
            exact = chances @ (values[:, rank - 1] == value)
            assert chance == pytest.approx(exact, abs=2e-4)
    distance = chances @ np.abs(values - own).sum(axis=1)
    distribution = GeometricDistribution(math.log(9))
    assert distribution.expected_l1(enumeration.as_list(private)) == pytest.approx(
        distance, abs=1e-3
    )


@pytest.mark.parametrize("private", LISTS, ids=str)
def test_the_weight_of_a_list_is_its_own_probability(private):
    distribution = GeometricDistribution(math.log(4))
    exact = probability(Fraction(1, 4), private, private)
    assert distribution.log_weight(enumeration.as_list(private)) == pytest.approx(math.log(exact))


@pytest.mark.parametrize("rate", [math.log(3), 2.0, 8.0])
@pytest.mark.parametrize("failure", [0.2, 0.05, 1e-6])
def test_tails_at_a_large_corner_are_as_bounded(rate, failure):
    most = GeometricDistribution(rate).largest_excess(failure)
    corner = FrequencyList([1000], [1000])
    *up_to, last = np.cumsum(frequency_distribution(rate, corner, 1, 1000 + most))
    assert 1 - last <= failure * (1 + 1e-6) + 1e-12
    if most:
        assert 1 - up_to[-1] > failure
