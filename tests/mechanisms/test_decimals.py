"""One exact type for parameters: equal numbers are equal mechanisms."""

import copy
import pickle
from decimal import Decimal
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms import ExactTotalMechanism, IntegerPartitionMechanism
from dp_transforms.mechanisms.decimals import ExactNumber, exact_fraction, float_above
from dp_transforms.mechanisms.selection import STRATEGIES
from tests.cases import refused

WRITTEN = [0.1, "0.1", "1e-1", "1/10"]
TYPED = [kind("0.1") for kind in (Fraction, Decimal, ExactNumber, np.float64, np.float32)]
rationals = st.fractions(Fraction(1, 10**9), 10**9)


@pytest.mark.parametrize("tenth", WRITTEN + TYPED, ids=repr)
def test_however_it_is_written_one_tenth_is_one_mechanism(tenth):
    # The nearest double to a tenth is another number.
    written, exact, double = map(IntegerPartitionMechanism, (tenth, Fraction(1, 10), Fraction(0.1)))
    assert written == exact != double and repr(written) == repr(exact) != repr(double)
    assert written.decay == exact.decay != double.decay
    assert written.decay.rate == Fraction(1, 20)
    assert written.epsilon_cost == 0.1


@pytest.mark.parametrize("make", STRATEGIES.values(), ids=STRATEGIES)
def test_however_it_is_written_one_tenth_is_one_strategy(make):
    written, exact = make(0.1, 1e-5), make(Fraction(1, 10), Fraction(1, 10**5))
    assert written == exact and repr(written) == repr(exact)
    assert written.describe() == exact.describe()
    for users in (1, 50):
        assert written.keep_enclosure(users, 64) == exact.keep_enclosure(users, 64)


@given(rationals, rationals)
def test_a_repr_says_which_number_it_is(first, second):
    for value in (first, second):
        number = ExactNumber(value)
        assert ExactNumber(eval(repr(number))) == exact_fraction("value", str(number)) == value
        assert f"{number}" == str(number)
    assert (repr(ExactNumber(first)) == repr(ExactNumber(second))) == (first == second)


@given(st.one_of(rationals, st.floats(1e-9, 1e9).map(lambda x: Fraction(repr(x)))))
def test_no_float_of_a_cost_is_below_it(value):
    cost = float_above(value)
    assert Fraction(repr(cost)) >= value
    assert cost == float_above(Fraction(repr(cost)))
    assert Fraction(cost) <= value * (1 + Fraction(2, 10**14))


def test_a_third_is_not_charged_less_than_it_spends():
    mechanism = ExactTotalMechanism(Fraction(10, 3), total=9)
    assert Fraction(repr(mechanism.epsilon_cost)) > 2 * mechanism.decay.rate == Fraction(10, 3)


@given(rationals)
def test_it_travels(value):
    number = ExactNumber(value)
    for other in (pickle.loads(pickle.dumps(number)), copy.deepcopy(number)):
        assert other == number
        assert type(other) is ExactNumber
    assert gmpy2.mpq(number) == gmpy2.mpq(value)
    assert hash(number) == hash(value)


NO_NUMBERS = ["nan", "inf", "1/0", "1e999999999", "1e-999999999", "", "x", True]
test_what_is_no_number_is_refused_at_once = refused(
    exact_fraction,
    *(("epsilon", value, "epsilon must be a finite number, got") for value in NO_NUMBERS),
)
