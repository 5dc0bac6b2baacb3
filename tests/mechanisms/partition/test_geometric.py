"""The geometric mechanism: its means, its distribution by draws and in closed form, where it
exists, and its cost."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms import sample_data
from dp_transforms.mechanisms import Eta, GeometricPartitionMechanism, IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.distributions import GeometricDistribution
from dp_transforms.mechanisms.partition.exponential import least_epsilon
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from tests import enumeration
from tests.cases import slow_unless
from tests.geometric_reference import frequency_distribution, probability
from tests.list_strategies import frequency_lists
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

DIST = {
    "rockyou": {8: 0.684, 4: 37.329, 2: 277.743, 1.1: 733.94},
    "yahoo": {8: 0.864, 4: 47.107, 2: 350.145, 1.1: 924.76},
}
"""Half the expected L1 distance: the sum over cells of q**k / (1 + q), worked out elsewhere."""
QUICK = [("rockyou", 1.1, 30), ("yahoo", 4, 30)]
SLOW = [(name, epsilon, 200) for name in DIST for epsilon in DIST[name]]


@pytest.mark.parametrize(("name", "epsilon", "count"), slow_unless(QUICK + SLOW, QUICK))
def test_the_mean_distance_of_releases(name, epsilon, count):
    private = getattr(sample_data, name)()
    tapes = map(InsecureSeededTape, range(count))
    released = GeometricPartitionMechanism(epsilon=epsilon).release_many(private, count, tapes)
    dist = [frequencies.l1_distance(private) / 2 for frequencies in released]
    # Four standard errors: a false alarm in one of 16,000 were it a normal distribution.
    assert abs(distributions.score(dist, DIST[name][epsilon])) < 4


@pytest.mark.parametrize("private", [(), (3, 1), (2, 2, 1)], ids=str)
def test_1000_draws_follow_the_distribution(private):
    """2**-eta = 5/16: the distribution is rational."""
    mechanism = GeometricPartitionMechanism(eta=Eta(5, 4, 1))
    tapes = map(InsecureSeededTape, range(1000))
    drawn = mechanism.release_many(enumeration.as_list(private), 1000, tapes)
    distribution = {
        enumeration.as_list(x): probability(Fraction(5, 16), x, private)
        for x in enumeration.partitions_of_at_most(sum(private) + 4)
    }
    distributions.assert_follows(drawn, distribution)


@pytest.mark.thorough
@settings(max_examples=20)
@given(
    frequency_lists(),
    frequency_lists(),
    st.integers(0, 40),
    st.sampled_from([1.1, 2, 8, 100]),
    st.integers(0, 10**6).map(InsecureSeededTape),
)
def test_releases_keep_to_public_bounds(private, reference, width, epsilon, tape):
    kinds = GeometricPartitionMechanism, IntegerPartitionMechanism
    below = PartitionBounds(upper=reference, unbounded_ranks=width)
    of_total = PartitionBounds.of_total(private.total % 3000)
    around = PartitionBounds.around(reference, width)
    for kind, bounds in itertools.product(kinds, (below, of_total, around)):
        assert bounds.contain(kind(epsilon=epsilon, bounds=bounds).release(private, tape))


@pytest.mark.parametrize("sensitivity", [1, 2, 7, 1000])
def test_it_exists_from_sensitivity_ln_3_on(sensitivity):
    least = least_epsilon(sensitivity)
    assert least - Decimal("0.0001") < sensitivity * Decimal("1.09861228866810969") < least
    GeometricPartitionMechanism(epsilon=least, sensitivity=sensitivity)
    with pytest.raises(ValueError, match=f"raise epsilon to {least}, or use IntegerPart"):
        GeometricPartitionMechanism(epsilon=least - Decimal("0.0001"), sensitivity=sensitivity)


def test_ln_3_is_compared_exactly():
    below = 1765401882551225452024058339263501782567892822779819501416509  # floor(2**200 ln 3)
    GeometricPartitionMechanism(epsilon=Fraction(below + 1, 2**200))
    with pytest.raises(ValueError, match="ln 3"):
        GeometricPartitionMechanism(epsilon=Fraction(below, 2**200))


def test_base_2_exists_from_one_third_down_and_costs_its_eta():
    mechanism = GeometricPartitionMechanism(eta=Eta(21845, 16, 1), sensitivity=3)
    cost = 3 * -math.log(21845 / 65536)
    assert cost <= mechanism.epsilon_cost <= cost * (1 + 1e-14)
    with pytest.raises(ValueError, match="ln 3"):
        GeometricPartitionMechanism(eta=Eta(21847, 16, 1))


LISTS = [(), (1,), (3, 1), (2, 2), (3, 2, 2), (4, 1, 1)]
SMALL = 14
"""Lists of more users have a probability of 1e-5 together at q = 1/9."""


@pytest.mark.parametrize("private", LISTS, ids=str)
def test_cells_expected_distance_and_weight_are_those_of_all_lists(private):
    own, ranks = enumeration.as_list(private), np.arange(1, SMALL + 2)
    outcomes = list(enumeration.partitions_of_at_most(SMALL))
    chances = np.array([float(probability(Fraction(1, 9), x, private)) for x in outcomes])
    values = np.array([enumeration.as_list(x).at_ranks(ranks) for x in outcomes])
    for rank in (1, 2, 4):
        cells = frequency_distribution(math.log(9), own, rank, 5)
        exact = [chances @ (values[:, rank - 1] == value) for value in range(len(cells))]
        assert cells == pytest.approx(exact, abs=2e-4)
    distance = chances @ np.abs(values - own.at_ranks(ranks)).sum(axis=1)
    expected_distance = GeometricDistribution(math.log(9)).expected_l1(own)
    assert expected_distance == pytest.approx(distance, abs=1e-3)
    weight = math.log(probability(Fraction(1, 4), private, private))
    assert GeometricDistribution(math.log(4)).log_weight(own) == pytest.approx(weight)
