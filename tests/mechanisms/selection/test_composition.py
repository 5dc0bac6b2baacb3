import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dp_transforms.mechanisms.selection.count_strategies import (
    best_share,
    composed_delta,
    largest_delta_share,
    response_delta,
)
from tests.mechanisms.selection.shared import SPLIT, as_mpf


def enumerated_delta(share, epsilon, parts):
    """The delta of the worst pair of distributions, by all multisets of its four outcomes, in 300
    digits."""
    with mpmath.workdps(300):
        grown = mpmath.exp(as_mpf(share[0]))
        known = as_mpf(share[1])
        first = [known, (1 - known) * grown / (1 + grown), (1 - known) / (1 + grown), 0]
        second = first[::-1]
        bound = mpmath.exp(as_mpf(epsilon))
        total = mpmath.mpf(0)
        for times in itertools.product(range(parts + 1), repeat=4):
            if sum(times) == parts:
                ways = math.factorial(parts) // math.prod(map(math.factorial, times))
                here, there = (
                    mpmath.fprod(map(pow, chances, times)) for chances in (first, second)
                )
                total += ways * max(0, here - bound * there)
        return total


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("share", "epsilon"),
    [
        ((0.5, 1e-3), 1.0),
        ((0.1, 0.0), 0.25),
        ((2.0, 1e-6), 2.0),
        ((0.3, 1e-2), 0.0),
        ((0.1, 1e-200), 1.0),
    ],
)
def test_composition_is_that_of_the_worst_pair(share, epsilon, parts):
    exact = tuple(map(Fraction, share))
    expected = enumerated_delta(exact, Fraction(epsilon), parts)
    delta = composed_delta(exact, Fraction(epsilon), parts)
    with mpmath.workdps(300):
        rounding = mpmath.mpf(10) ** -250
        assert expected * (1 - mpmath.mpf(10) ** -40) - rounding <= as_mpf(delta)
        assert as_mpf(delta) <= expected * (1 + mpmath.mpf(10) ** -20) + rounding


@pytest.mark.parametrize(
    ("epsilon0", "epsilon", "parts"),
    [
        (Fraction(1, 20), Fraction(1), 900),
        # Many terms grow before they fall, one term only, and nearly equal exponentials.
        (Fraction(3), Fraction(1), 200),
        (Fraction(1), Fraction(99, 2), 50),
        (Fraction(1, 10**6), Fraction(1, 10**5), 300),
        (Fraction(1, 300), Fraction(1, 2), 3000),
    ],
)
def test_long_sums_are_rounded_and_cut_off_on_the_safe_side(epsilon0, epsilon, parts):
    # The same number by a sum of all its terms.
    with mpmath.workdps(80):
        rate, allowed = as_mpf(epsilon0), as_mpf(epsilon)
        terms = (
            math.comb(parts, lost)
            * max(0, mpmath.exp((parts - lost) * rate) - mpmath.exp(allowed + lost * rate))
            for lost in range(parts + 1)
        )
        full = mpmath.fsum(terms) / (1 + mpmath.exp(rate)) ** parts
        delta = as_mpf(response_delta(epsilon0, epsilon, parts))
        assert full * (1 - mpmath.mpf(10) ** -60) <= delta <= full * (1 + mpmath.mpf(2) ** -60)


@pytest.mark.parametrize("parts", [2, 10, 100])
@pytest.mark.parametrize("strategy", SPLIT)
def test_shares_stay_within_the_budget_of_another_accountant(strategy, parts):
    epsilon, delta = 1.0, 1e-5
    share = strategy(epsilon, delta, parts).share
    composed = pld.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(*map(float, share)),
        value_discretization_interval=1e-4,
    ).self_compose(parts)
    # Its losses are rounded up, by 1e-4 a part.
    assert composed.get_delta_for_epsilon(epsilon + parts * 1e-4) <= delta * (1 + 1e-6)
    assert composed.get_delta_for_epsilon(epsilon) <= 1.3 * delta


@pytest.mark.parametrize("strategy", SPLIT)
@pytest.mark.parametrize("parts", [1, 2, 5, 30, 200])
def test_tight_composition_never_keeps_less_than_naive_splitting(strategy, parts):
    tight, naive = strategy(1, 1e-6, parts), strategy(1, 1e-6, parts, composition="naive")
    assert tight.median_users <= naive.median_users
    assert (tight.median_users < 0.85 * naive.median_users) == (parts >= 30)


def test_no_delta_is_left_where_epsilon_is_overspent():
    assert largest_delta_share(Fraction(1), Fraction(1), Fraction(1, 10**6), 5) is None
    least = largest_delta_share(Fraction(1, 5), Fraction(1), Fraction(1, 10**6), 5)
    assert Fraction(1, 5 * 10**6) <= least < Fraction(1, 4 * 10**6)
    assert best_share(Fraction(0), Fraction(1, 10), 2, lambda e, d: 0.0)[0] == 0


@pytest.mark.parametrize("composition", ["tight", "naive"])
@pytest.mark.parametrize("strategy", SPLIT)
def test_replacing_a_user_costs_as_much_as_twice_the_partitions(strategy, composition):
    replaced = strategy(1, 1e-5, 3, neighbours="replace", composition=composition)
    assert replaced.share == strategy(1, 1e-5, 6, composition=composition).share
