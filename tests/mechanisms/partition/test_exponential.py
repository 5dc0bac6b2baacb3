"""The mechanism: square corners, its parameters, and its errors."""

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism
from tests.tapes import InsecureSeededTape


@pytest.mark.parametrize(
    ("private", "epsilon"),
    [
        (FrequencyList([10**6], [10**6]), 8),
        (FrequencyList([10**6], [10**6]), 0.02),
        (FrequencyList([10**9], [1]), 1),
        (FrequencyList([1], [10**9]), 0.1),
        (FrequencyList([5, 4, 3, 2, 1], [1] * 5), 0.02),
        (FrequencyList([5, 4, 3, 2, 1], [1] * 5), 1),
        (FrequencyList(), 0.1),
    ],
)
def test_square_corners(private, epsilon):
    mechanism = IntegerPartitionMechanism(epsilon)
    tapes = map(InsecureSeededTape, range(50))
    distances = [x.l1_distance(private) for x in mechanism.release_many(private, 50, tapes)]
    # Each corner adds sum_n n q**n / (1 - q**n) or less: two of them, and the two infinite runs.
    q = np.exp(-mechanism.rate)
    corners = 2 * len(private) + 1
    one = sum(n * q**n / (1 - q**n) for n in range(1, 2000))
    assert np.mean(distances) <= 2 * corners * one + 1
    assert any(distances) or epsilon == 8


def test_sensitivity_divides_the_rate():
    private = FrequencyList([100, 7, 1], [1, 30, 500])
    one = IntegerPartitionMechanism(epsilon=0.5).release(private, InsecureSeededTape(1))
    four = IntegerPartitionMechanism(epsilon=2.0, sensitivity=4)
    assert four.release(private, InsecureSeededTape(1)) == one


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": 1e-12}, "epsilon"),
        ({"epsilon": 1.0, "sensitivity": 0}, "sensitivity"),
        ({"epsilon": 1.0, "sensitivity": 1.5}, "sensitivity"),
        ({"epsilon": 1.0, "eta": Eta(1, 1, 1)}, "eta"),
        ({"epsilon": "a tenth"}, "epsilon"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        IntegerPartitionMechanism(**arguments)
