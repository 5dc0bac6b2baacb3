from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost, PrivacyFilter, zcdp_of

TINY = Fraction(1, 10**40)


def pure(epsilon, delta=0):
    return Cost(PrivacyBudget(epsilon, delta))


def test_basic_rule_at_equality():
    rule = PrivacyFilter(PrivacyBudget(1, 1e-6))
    spent = [pure(0.1)] * 9
    assert rule.admits(spent, pure(0.1))
    assert not rule.admits(spent, pure(Fraction(1, 10) + TINY))
    assert rule.admits(spent, pure(0, 1e-6))
    assert not rule.admits(spent, pure(0, Fraction(1, 10**6) + TINY))
    assert rule.remaining(spent) == PrivacyBudget(0.1, 1e-6)


def test_zcdp_rule_at_equality():
    rule = PrivacyFilter(PrivacyBudget(1, 3e-6), composition_delta=2e-6)
    limit = rule.rho_limit
    # A hundred lists that together spend the limit but for one unit, far above basic composition.
    small = Cost(PrivacyBudget(0.04), loss_range=0.04)
    spent = [small] * int(limit / small.rho)
    assert sum(cost.budget.epsilon for cost in spent) > 3
    left = limit - sum(cost.rho for cost in spent)
    most = rule.remaining(spent, ranges=1).epsilon
    assert most**2 / 8 <= left < (most + Fraction(1, 10**12)) ** 2 / 8
    assert rule.admits(spent, Cost(PrivacyBudget(most), most))
    assert not rule.admits(spent, Cost(PrivacyBudget(most)))
    assert not rule.admits([*spent, small], Cost(PrivacyBudget(0)))
    # Deltas of mechanisms draw on the rest of delta only.
    assert rule.admits(spent, pure(0, 1e-6))
    assert not rule.admits(spent, pure(0, Fraction(1, 10**6) + TINY))


def test_a_loss_range_between_epsilon_and_twice_that():
    budget = PrivacyBudget("0.3", "1e-9")
    assert Cost(budget).rho == Cost(budget, 2).rho == Fraction(9, 200)
    assert Cost(budget, "0.4").rho == Fraction(1, 50)
    with pytest.raises(ValueError, match=r"loss_range must not be below epsilon=0\.3, got 0\.29"):
        Cost(budget, 0.29)
    rule = PrivacyFilter(PrivacyBudget(5, 1e-6), composition_delta=1e-6)
    spent = [Cost(PrivacyBudget("0.1"), "0.15")] * 60  # 6 by the first rule
    for ranges in (1, Fraction(4, 3), 2):
        most = rule.remaining(spent, ranges).epsilon
        assert rule.admits(spent, Cost(PrivacyBudget(most), most * ranges))
        more = most + Fraction(2, 10**12)
        assert not rule.admits(spent, Cost(PrivacyBudget(more), more * ranges))
    with pytest.raises(ValueError, match="ranges must be between 1 and 2, got 3"):
        rule.remaining([], 3)


def test_one_large_request_goes_by_the_basic_rule():
    rule = PrivacyFilter(PrivacyBudget(1, 1e-6), composition_delta=1e-6)
    assert pure(1).rho > rule.rho_limit
    assert rule.admits([], pure(1))
    assert not rule.admits([pure(1)], pure(TINY))
    assert rule.remaining([pure(1)]) == PrivacyBudget(0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1, 10])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_the_rho_limit_is_valid_and_nearly_the_best(epsilon, delta):
    rho = float(zcdp_of(epsilon, delta))

    def library_epsilon(rho):
        orders = 1 + np.geomspace(1e-2, 1e8, 20_000)
        return RdpAccountant(orders).compose(dp_event.ZCDpEvent(rho)).get_epsilon(delta)

    # The library's epsilon is from a grid of orders, so it is a little high.
    assert library_epsilon(rho) <= epsilon * (1 + 1e-5)
    assert library_epsilon(rho * 1.001) > epsilon


def test_no_rho_is_left_of_a_tiny_delta():
    assert zcdp_of(0, 1e-250) == zcdp_of(1e-12, 1e-300) == 0


def test_composition_delta_is_a_part_of_delta():
    with pytest.raises(ValueError, match=r"composition_delta must be between 0 and delta=0.000001"):
        PrivacyFilter(PrivacyBudget(1, 1e-6), composition_delta=1e-5)
