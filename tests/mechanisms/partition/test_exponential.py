"""The parameters of the exponential mechanism."""

import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism
from tests.tapes import InsecureSeededTape


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
