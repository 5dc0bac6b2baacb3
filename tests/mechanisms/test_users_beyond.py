"""The number of users beyond a bound: its noise, its interval, and what it refuses."""

from fractions import Fraction

import pytest
from scipy import stats

from dp_transforms import JobSecret
from dp_transforms.mechanisms.users_beyond import UsersBeyond, UsersBeyondMechanism
from tests.tapes import InsecureSeededTape


@pytest.mark.parametrize("epsilon", [0.04, 0.5, 3.0])
@pytest.mark.parametrize("failure", [0.2, 0.05, 1e-4, 1e-9])
def test_the_bound_is_the_least_that_fails_seldom_enough(epsilon, failure):
    # Of 1000 true users n + 1000 are released: the bound fails if n < -margin.
    margin = UsersBeyond(1000, epsilon).at_most(failure) - 1000
    laplace = stats.dlaplace(epsilon)
    assert laplace.cdf(-margin - 1) <= failure * (1 + 1e-6)
    assert margin == 0 or laplace.cdf(-margin) > failure * (1 - 1e-6)


def test_the_noise_is_discrete_laplace():
    # A chi-squared test at 1e-6, with fixed seeds.
    mechanism = UsersBeyondMechanism("0.5", 2)
    users = {1: 100, 2: 30, 3: 7, 50: 4}
    drawn = [mechanism.release(users, InsecureSeededTape(seed)).users - 11 for seed in range(4000)]
    bins = [*range(-6, 7)]
    seen = [sum(noise <= -7 for noise in drawn), *(drawn.count(n) for n in bins)]
    seen.append(len(drawn) - sum(seen))
    laplace = stats.dlaplace(0.5)
    expected = [laplace.cdf(-7), *laplace.pmf(bins), laplace.sf(6)]
    assert stats.chisquare(seen, [len(drawn) * p for p in expected]).pvalue > 1e-6


def test_each_bound_and_number_has_noise_of_its_own():
    tapes = set()

    def tape_of(context):
        tapes.add(context)
        return JobSecret.insecure_for_testing(1).tape(context)

    for epsilon, kappa, users in [(1, 2, {3: 5}), (1, 3, {4: 5}), (2, 2, {3: 5}), (1, 2, {3: 6})]:
        UsersBeyondMechanism(epsilon, kappa).release_under(users, tape_of)
    assert len(tapes) == 4


@pytest.mark.parametrize("arguments", [(0, 1), (-1, 1), (1, 0), (1, 1.5), (Fraction(1, 10**30), 1)])
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises((TypeError, ValueError)):
        UsersBeyondMechanism(*arguments)
