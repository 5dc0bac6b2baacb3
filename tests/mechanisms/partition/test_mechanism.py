from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import Eta, ExactTotalMechanism, IntegerPartitionMechanism


@settings(max_examples=300)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 10**4), st.data())
def test_a_cost_in_base_2_is_rounded_up(y, z, sensitivity, data):
    x = data.draw(st.integers(1, 2**y - 1 - (2**y >> 5)))
    price = {"eta": Eta(x, y, z), "sensitivity": sensitivity}
    mechanism = ExactTotalMechanism(total=1, **price)
    cost = mechanism.loss_range
    assert IntegerPartitionMechanism(**price).epsilon_cost <= cost == mechanism.epsilon_cost
    with mpmath.workdps(60):
        true = -2 * sensitivity * z * mpmath.log(mpmath.mpf(x) / 2**y)
        # The number itself, and the decimal that privacy.json and the ledger write. Fifteen digits
        # are at most 1e-14 too many, and the float next to them less than another 2^-52.
        for written in (Fraction(cost), Fraction(repr(cost))):
            excess = mpmath.mpf(written.numerator) / written.denominator / true - 1
            assert 0 <= excess <= mpmath.mpf("1e-14") + mpmath.mpf(2) ** -52


@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(1, 4)])
def test_a_cost_in_natural_units_is_the_parameter(epsilon):
    assert IntegerPartitionMechanism(epsilon=epsilon, sensitivity=7).epsilon_cost == epsilon
    # What narrows the lists does not change what one costs.
    assert ExactTotalMechanism(epsilon=epsilon, total=3).epsilon_cost == epsilon
