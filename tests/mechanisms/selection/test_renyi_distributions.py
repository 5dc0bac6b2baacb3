"""The exact worst-case delta of Renyi distributions, by a dynamic program over what an adversary
can do.

Of one user, who has d partitions, the adversary chooses one after the other how many others each
has, or that nobody has it, knowing what was decided before; this covers every fixed choice and
every round. With V_0(z) = max(0, z - e**epsilon) and z the likelihood ratio so far,

    V_j(z) = max over partitions of E[V_(j-1)(z * the ratio of the decision about it)]

V_d(1) is the worst delta of d partitions. V is convex in z, so that interpolation between the nodes
of a grid errs upwards, and its slope is at most 1, which bounds it beyond the grid.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize

from dp_transforms.mechanisms.selection import RenyiRoundsSelection
from dp_transforms.mechanisms.selection.renyi_calibration import (
    RenyiBudget,
    converted_delta,
    largest_divergence,
)
from dp_transforms.mechanisms.selection.renyi_distribution import RenyiDistribution, _Bound
from dp_transforms.mechanisms.selection.rounds import Calibration
from tests.cases import thorough_unless
from tests.mechanisms.selection.shared import as_mpf, bound, noise_delta

EPSILON, DELTA = 1.0, 1e-5
NODES = np.exp(np.linspace(-3, 7, 2001))


def interpolated(values, points):
    beyond = np.maximum(points - NODES[-1], 0)
    below = np.minimum(points / NODES[0], 1)
    return np.interp(points, NODES, values) * below + beyond


def game(values, distribution, partitions, gone):
    """V before a round in which the user has so many partitions, from V after it; the likelihood
    ratio is that of the records with the user to those without, or, if ``gone``, the other one."""
    step = distribution.step(partitions)
    # From there on pi stays what it is.
    end = distribution.reach + 1
    keep = np.array([distribution.keep_probability(x) for x in range(end + step)])
    drop = np.array([float(distribution.drop_enclosure(x, 256)[0]) for x in range(end + step)])
    before, after = np.arange(1, end), np.arange(1, end) + step
    if gone:
        before, after = after, before
    options = []
    for own in range(partitions, -1, -1):
        # So many partitions are the user's own, the others are shared.
        alone = values
        for _ in range(own):
            if gone:
                alone = interpolated(alone, NODES / drop[step])
            else:
                alone = keep[step] * NODES + interpolated(alone, NODES * drop[step])
        options.append(alone)
        shared = [
            keep[x] * interpolated(values, NODES * (keep[y] / keep[x]))
            + drop[x] * interpolated(values, NODES * (drop[y] / drop[x]))
            for x, y in zip(before.tolist(), after.tolist(), strict=True)
        ]
        values = np.max(shared, axis=0)
    return np.max(options, axis=0)


def distribution_of_counts(epsilon, delta, max_partitions):
    """The distribution of a single round in which every user adds one."""
    (budget,) = Calibration(Fraction(str(epsilon)), Fraction(str(delta)), max_partitions).best
    return RenyiDistribution(budget, max_partitions)


def worst_delta(distributions, partitions):
    """V_d(1) in both orders, of users who have one of these numbers of partitions in a round."""
    worst = []
    for gone in (False, True):
        values = np.maximum(NODES - math.exp(EPSILON), 0)
        for distribution in reversed(distributions):
            values = np.max([game(values, distribution, d, gone) for d in partitions], axis=0)
        worst.append(float(np.interp(1, NODES, values)))
    return max(worst)


@pytest.mark.parametrize("max_partitions", [1, 3, 10])
def test_worst_delta_of_counts(max_partitions):
    distribution = distribution_of_counts(EPSILON, DELTA, max_partitions)
    assert 0.9 * DELTA < worst_delta([distribution], [max_partitions]) <= DELTA


@pytest.mark.parametrize(
    ("max_partitions", "rounds", "growth"),
    thorough_unless([(2, 2, 1), (2, 2, 64), (1, 3, 16), (3, 2, 16)], [(1, 3, 16)]),
)
def test_worst_delta_of_rounds(max_partitions, rounds, growth):
    options = {"number_of_rounds": rounds, "growth": growth}
    distributions = RenyiRoundsSelection(EPSILON, DELTA, max_partitions, **options).rounds
    assert DELTA / 2 < worst_delta(distributions, range(1, max_partitions + 1)) <= DELTA


@pytest.mark.parametrize(("max_partitions", "rounds"), [(1, 3), (10, 2), (100, 4)])
def test_rounds_share_the_budget(max_partitions, rounds):
    strategy = RenyiRoundsSelection(EPSILON, DELTA, max_partitions, number_of_rounds=rounds)
    for named in (0, 10**6):
        budgets = [strategy.round_after(i, named).budget for i in range(rounds)]
        assert len({budget.order for budget in budgets}) == 1
        assert 0.99 * DELTA < bound(budgets, EPSILON) <= DELTA


def test_distributions_do_not_fall_and_end():
    strategy = RenyiRoundsSelection(EPSILON, DELTA, 7)
    for distribution, bits in ((strategy.rounds[0], 10), (strategy.rounds[-1], 64)):
        drops = [distribution.drop_enclosure(x, 64)[0] for x in range(3 * distribution.median)]
        assert drops == sorted(drops, reverse=True)
        assert 0 < distribution.drop_enclosure(10**9, 64)[0] <= 2.0**-bits
        assert distribution.reach < 3 * distribution.median


def log_moments(order, base, rise):
    """Logs of both moments of order a, where log-odds rise from base by this much; with mpmath."""
    z, grown = mpmath.exp(-base), mpmath.exp(rise)
    log_ratio = mpmath.log((1 + z) / (z + grown))
    there = mpmath.log((z + grown**order) / (1 + z)) + order * log_ratio
    here = mpmath.log((z + grown ** (1 - order)) / (1 + z)) - (order - 1) * log_ratio
    return there, here


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "max_partitions", "rounds"), [(0.03, 30, 1), (1e-9, 8, 2)])
def test_divergences_hold_between_knots_too(epsilon, max_partitions, rounds):
    strategy = RenyiRoundsSelection(epsilon, DELTA, max_partitions, number_of_rounds=rounds)
    distribution = strategy.rounds[-1]
    rng = np.random.default_rng(1)
    places = set((distribution.reach * rng.random(40) ** 2).astype(int).tolist()) | {0, 1, 2, 5}
    with mpmath.workdps(60):
        least = mpmath.mpf(2) ** -100

        def log_odds(x):
            drop = as_mpf(distribution.drop_enclosure(x, 160)[0])
            return mpmath.log((1 - drop) / drop)

        for step, partitions in distribution.constraints:
            order = distribution.budget.order
            allowed = (order - 1) * as_mpf(distribution.budget.divergence / partitions)
            for x in places:
                base = log_odds(x + 1)
                rise = log_odds(x + 1 + step) - base
                assert max(log_moments(order, base, rise)) <= allowed + least


@pytest.mark.parametrize("order", [3, 20])
def test_between_two_probabilities_the_largest_moment_counts(order):
    unit = 1 << 128
    ends, middle = (
        max(max(log_moments(order, base, mpmath.mpf(3) / order)) for base in bases)
        for bases in ((-4, 6), [i / 10 for i in range(-40, 60)])
    )
    assert ends < 0.9 * middle
    rise = 3 * unit // order
    for limit in (0.99 * ends, 0.99 * middle, 1.01 * middle):
        rate = Fraction(float(limit)) / (order - 1)
        bound = _Bound(RenyiBudget(order, rate, Fraction(1, 10)), 1, 1)
        assert all(bound.holds(rise, end, end) for end in (-4 * unit, 6 * unit)) == (ends < limit)
        assert bound.holds(rise, -4 * unit, 6 * unit) == (middle < limit)


@pytest.mark.thorough
def test_few_knots_lose_little():
    # One statistic after the other, each as far from the last as it may be.
    distribution = distribution_of_counts(0.05, DELTA, 20)
    order, rate = distribution.budget.order, float(distribution.budget.divergence) / 20

    def excess(rise, odds):
        return float(max(log_moments(order, odds, rise)) - (order - 1) * rate)

    odds, users = math.log(distribution.keep_probability(1)), 1
    while odds < 0:
        odds += optimize.brentq(excess, 0, 100 / order, args=(odds,))
        users += 1
    assert users <= distribution.median <= 1.01 * users


def test_steps():
    distribution = RenyiDistribution(RenyiBudget(15, Fraction(1, 3), Fraction(1, 10**5)), 100, 4)
    steps = [distribution.step(d) for d in range(1, 101)]
    assert steps == [math.floor(4 * (100 / d) ** (1 / 3) + 1e-9) for d in range(1, 101)]
    # The constraints are the largest d of each step.
    assert distribution.constraints == [
        (s, max(d for d in range(1, 101) if steps[d - 1] == s)) for s in sorted(set(steps))
    ]


@pytest.mark.parametrize(("max_partitions", "users"), [(10, 43), (30, 62), (100, 96)])
def test_one_bit_needs_fewer_users_than_gaussian_noise(max_partitions, users):
    # Found elsewhere, by one order of fewer to choose from. Gaussian noise needs 61, 110, 207.
    assert distribution_of_counts(1, 1e-5, max_partitions).median <= users


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (8.0, 1e-9), (30.0, 0.5), (1.0, 0.3)])
def test_conversion_of_divergence(epsilon, delta):
    for order in (2, 5, 40):
        divergence = largest_divergence(order, Fraction(epsilon), Fraction(delta))
        assert noise_delta(order, float(divergence), epsilon) == pytest.approx(delta)
        least, most = converted_delta(order, divergence, Fraction(epsilon))
        assert least <= delta <= most * (1 + 1e-30)
