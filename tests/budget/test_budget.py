from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms.decimals import round_down
from tests.cases import refused

positive = st.fractions(Fraction(1, 10**6), 10**6)


def test_what_is_left_is_not_negative():
    assert PrivacyBudget(1, 1e-6) - PrivacyBudget(1, 1e-6) == PrivacyBudget(0)
    with pytest.raises(ValueError, match="epsilon must not be negative"):
        PrivacyBudget(1, 1e-6) - PrivacyBudget(1 + Fraction(1, 10**30))


@given(positive, st.integers(1, 50))
def test_shares_make_up_the_whole(epsilon, parts):
    budget = PrivacyBudget(epsilon, 1e-5)
    assert sum([budget.split(parts)] * parts, PrivacyBudget(0)) == budget


def test_shares_by_weights_make_up_the_whole():
    whole = PrivacyBudget(1, 1e-6)
    shares = whole.split_by({"a": 0.1, "b": 0.2, "c": "1/3"}, {"b": 1, "c": 2})
    assert sum(shares.values(), PrivacyBudget(0)) == whole
    assert shares["b"].epsilon == 2 * shares["a"].epsilon
    assert shares["a"].delta == 0 and shares["c"].delta == 2 * shares["b"].delta


NO_WEIGHTS = [({},), ({"a": 0},), ({"a": -1, "b": 2},), ({"a": 1}, {}), ({"a": 1}, {"b": 1})]
test_weights_that_are_none = refused(
    PrivacyBudget(1).split_by, *((*weights, "weight") for weights in NO_WEIGHTS)
)
NO_EPSILONS = [-1, "-1e-9", float("nan"), float("inf"), "one", "1/0", None]
test_budgets_that_are_none = refused(
    PrivacyBudget,
    *((epsilon, "epsilon must") for epsilon in NO_EPSILONS),
    *((1, delta, "delta must be at least 0 and below 1") for delta in (-1e-9, 1, 1.5)),
)


@given(positive, st.integers(1, 20))
def test_rounding_is_directed(value, digits):
    below = round_down(value, digits)
    assert below <= value <= below + value * Fraction(10) ** (2 - digits)
    assert round_down(below, digits + 1) == below
