import numpy as np
import pytest

from dp_transforms import evaluation, sample_data
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.distributions import expected_l1
from tests.cases import slow_unless
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape


def test_expectation_on_rockyou_is_the_published_exact_value():
    """37.23: the exact dist at q = e**-4, the paper's for epsilon = 8; its Table II has 28.8."""
    assert round(expected_l1(sample_data.rockyou(), 4.0) / 2, 2) == 37.23


@pytest.mark.parametrize(
    ("name", "epsilon", "dist"),
    [
        *[("rockyou", 1, 1396.35), ("rockyou", 0.5, 2644.02), ("rockyou", 8, 0.685)],
        *[("yahoo", 1, 1767.61), ("yahoo", 0.5, 3371.32)],
    ],
)
def test_expectations_at_the_exact_price_are_those_worked_out_elsewhere(name, epsilon, dist):
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    expected_dist = evaluation.expected_l1(mechanism, getattr(sample_data, name)()) / 2
    assert expected_dist == pytest.approx(dist, abs=6e-3)


def test_rates_of_any_size():
    private = sample_data.rockyou()
    assert 0 < evaluation.expected_l1(IntegerPartitionMechanism(epsilon=60), private) < 1e-8
    assert evaluation.expected_l1(IntegerPartitionMechanism(epsilon=3000), private) == 0


@pytest.mark.skipif(
    np.finfo(np.longdouble).maxexp <= 1024, reason="longdouble is float64 on this machine"
)
@pytest.mark.parametrize(
    "rate", slow_unless([4.0, 0.5, 0.1, 0.02, 1 / 260, 1 / 1000], [4.0, 0.1, 0.02])
)
def test_a_large_square_costs_three_unrestricted_partitions(rate):
    """Its corners are far apart: one sticks out, and two lie beside it. E|x| = sum n / (e**cn - 1).
    The walk goes as far as ln(2) / c from zero there, beyond float64's range."""
    square, n = FrequencyList([10**7], [10**7]), np.arange(1, int(50 / rate))
    unrestricted = (n / np.expm1(rate * n)).sum()
    assert expected_l1(square, rate) == pytest.approx(3 * unrestricted, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [8, 4, 2, 1, 0.5, 0.25, 0.2, 0.1])
def test_mean_of_200_releases_is_within_four_standard_errors(epsilon):
    """Seeded; for another seed each fails with probability 6e-5."""
    private, mechanism = sample_data.rockyou(), IntegerPartitionMechanism(epsilon=epsilon)
    released = mechanism.release_many(private, 200, map(InsecureSeededTape, range(200)))
    distances = [private.l1_distance(x) for x in released]
    assert abs(distributions.score(distances, evaluation.expected_l1(mechanism, private))) < 4
