"""Budgets in exact numbers, in natural units and in base 2."""

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.budget import PrivacyBudget
from dp_transforms.mechanisms.decimals import decimal_text, exact_fraction, round_down, round_up
from dp_transforms.mechanisms.eta import Eta

positive = st.fractions(Fraction(1, 10**6), 10**6)


def test_numbers_are_what_they_print_as():
    assert PrivacyBudget(0.1).epsilon == Fraction(1, 10)
    assert PrivacyBudget("1/3", "1e-6").delta == Fraction(1, 10**6)
    assert PrivacyBudget(Decimal("0.30")) == PrivacyBudget(0.1) + PrivacyBudget(0.2)
    assert sum([PrivacyBudget(0.1, 1e-7)] * 10, PrivacyBudget(0)) == PrivacyBudget(1, 1e-6)


def test_covers_at_equality_and_beyond():
    budget = PrivacyBudget(1, 1e-6)
    assert budget.covers(budget)
    assert not budget.covers(PrivacyBudget(1 + Fraction(1, 10**30), 0))
    assert not budget.covers(PrivacyBudget(0, Fraction(1, 10**6) + Fraction(1, 10**30)))
    with pytest.raises(ValueError, match="epsilon must not be negative"):
        budget - PrivacyBudget(1.5)


@given(positive, st.integers(1, 50))
def test_shares_make_up_the_whole(epsilon, parts):
    budget = PrivacyBudget(epsilon, 1e-5)
    assert sum([budget.split(parts)] * parts, PrivacyBudget(0)) == budget


@given(positive)
def test_base_2_there_and_back_rounds_to_the_safe_side(epsilon):
    # What a base-2 mechanism costs is rounded up, what a budget grants in base 2 down.
    with mpmath.workdps(60):
        natural = mpmath.mpf(epsilon.numerator) / epsilon.denominator * mpmath.log(2)
        cost = PrivacyBudget.from_base2(epsilon).epsilon
        excess = mpmath.mpf(cost.numerator) / cost.denominator / natural - 1
        assert 0 <= excess < 1e-14
    assert PrivacyBudget.from_base2(PrivacyBudget(epsilon).base2_epsilon).epsilon <= epsilon * (
        1 + Fraction(1, 10**14)
    )
    granted = PrivacyBudget(epsilon).base2_epsilon
    assert float(granted) == pytest.approx(float(epsilon) / math.log(2), rel=1e-13)


def test_cost_of_eta():
    # q = 3/4 and kappa = 5: probabilities change by at most (4/3)**(2 * 5).
    cost = PrivacyBudget.from_eta(Eta(3, 2, 1), sensitivity=5).epsilon
    assert float(cost) == pytest.approx(10 * math.log(4 / 3), rel=1e-14)
    with mpmath.workdps(40):
        assert mpmath.mpf(cost.numerator) / cost.denominator >= 10 * mpmath.log(mpmath.mpf(4) / 3)
    with pytest.raises(ValueError, match="sensitivity must be positive"):
        PrivacyBudget.from_eta(Eta(1, 1, 1), sensitivity=0)


@pytest.mark.parametrize("epsilon", [-1, "-1e-9", float("nan"), float("inf"), "one", "1/0", None])
def test_epsilons_that_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon must"):
        PrivacyBudget(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5])
def test_deltas_that_are_refused(delta):
    with pytest.raises(ValueError, match="delta must be at least 0 and below 1"):
        PrivacyBudget(1, delta)


@given(st.fractions())
def test_text_reads_back(value):
    assert exact_fraction("value", decimal_text(value)) == value


@given(positive, st.integers(1, 20))
def test_rounding_is_directed(value, digits):
    below, above = round_down(value, digits), round_up(value, digits)
    assert below <= value <= above
    assert above - below <= value * Fraction(10) ** (2 - digits)
    assert round_down(below, digits + 1) == below
