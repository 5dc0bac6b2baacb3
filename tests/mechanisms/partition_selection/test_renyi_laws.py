"""The exact worst-case delta of Renyi laws, by a dynamic program over what an adversary can do.

Of one user, who has d partitions, the adversary chooses one after the other how many others each
has, or that nobody has it, knowing what was decided before; this covers every fixed choice and
every round. With V_0(z) = max(0, z - e**epsilon) and z the likelihood ratio so far,

    V_j(z) = max over partitions of E[V_(j-1)(z * the ratio of the decision about it)]

V_d(1) is the worst delta of d partitions. V is convex in z, so that interpolation between the nodes
of a grid errs upwards, and its slope is at most 1, which bounds it beyond the grid.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.partition_selection import RenyiRoundsSelection, RenyiSelection
from dp_transforms.mechanisms.partition_selection.renyi_calibration import (
    RenyiBudget,
    converted_delta,
    largest_divergence,
)
from dp_transforms.mechanisms.partition_selection.renyi_law import RenyiLaw

EPSILON, DELTA = 1.0, 1e-5
LOGS = np.linspace(-3, 7, 1001)
NODES = np.exp(LOGS)
ROUNDING = 1 + 1e-9
"""Of floats; interpolation only errs upwards, and stays within delta."""


def interpolated(values, points):
    beyond = np.maximum(points - NODES[-1], 0)
    below = np.minimum(points / NODES[0], 1)
    return np.interp(points, NODES, values) * below + beyond


def game(values, law, partitions, gone, step=None):
    """V before a round in which the user has so many partitions, from V after it.

    Args:
      gone: whether the likelihood ratio is that of the records without the user to those with.
      step: what the user adds to each partition, if it is not the law's.
    """
    step = step or law.step(partitions)
    # From there on pi stays what it is.
    end = law.reach + 1
    keep = np.array([law.keep_probability(x) for x in range(end + step)])
    drop = np.array([law.drop_probability(x) for x in range(end + step)])
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
        values = np.max(
            [
                keep[x] * interpolated(values, NODES * (keep[y] / keep[x]))
                + drop[x] * interpolated(values, NODES * (drop[y] / drop[x]))
                for x, y in zip(before.tolist(), after.tolist(), strict=True)
            ],
            axis=0,
        )
    return np.max(options, axis=0)


def worst_delta(laws, kappa, step=None):
    worst = []
    for gone in (False, True):
        values = np.maximum(NODES - math.exp(EPSILON), 0)
        for law in reversed(laws):
            values = np.max([game(values, law, d, gone, step) for d in range(1, kappa + 1)], axis=0)
        worst.append(float(np.interp(1, NODES, values)))
    return max(worst)


@pytest.mark.parametrize("kappa", [1, 3, 10])
def test_worst_delta_of_counts(kappa):
    law = RenyiSelection(EPSILON, DELTA, kappa).law
    values = np.maximum(NODES - math.exp(EPSILON), 0)
    deltas = [np.interp(1, NODES, game(values, law, kappa, gone)) for gone in (False, True)]
    assert 0.9 * DELTA < max(deltas) <= ROUNDING * DELTA


@pytest.mark.parametrize(("kappa", "rounds"), [(4, 1), (2, 2)])
def test_worst_delta_of_rounds(kappa, rounds):
    strategy = RenyiRoundsSelection(EPSILON, DELTA, kappa, number_of_rounds=rounds)
    laws = [round_.law for round_ in strategy.rounds]
    delta = worst_delta(laws, kappa)
    assert DELTA / 2 < delta <= ROUNDING * DELTA


@pytest.mark.parametrize(("kappa", "rounds"), [(1, 3), (10, 2), (100, 4)])
def test_rounds_share_the_budget(kappa, rounds):
    strategy = RenyiRoundsSelection(EPSILON, DELTA, kappa, number_of_rounds=rounds)
    for named in (0, 10**6):
        budgets = [strategy.round_after(i, named).law.budget for i in range(rounds)]
        (order,) = {budget.order for budget in budgets}
        divergence = float(sum(budget.divergence for budget in budgets))
        # Canonne, Kamath, Steinke (2020), Proposition 12.
        noise = math.exp((order - 1) * (divergence - EPSILON)) * (1 - 1 / order) ** (order - 1)
        exposure = float(sum(budget.exposure for budget in budgets))
        assert 0.999 * DELTA < noise / order + exposure <= DELTA * ROUNDING


def test_a_step_too_long_is_found_out():
    law = RenyiSelection(EPSILON, DELTA, 2).law
    assert worst_delta([law], 2, step=2) > 2 * DELTA


def test_laws_do_not_fall_and_end():
    strategy = RenyiRoundsSelection(EPSILON, DELTA, 7)
    for law, bits in ((strategy.rounds[0].law, 10), *((r.law, 64) for r in strategy.rounds[2:])):
        drops = [law.drop_enclosure(x, 64)[0] for x in range(3 * law.median)]
        assert drops == sorted(drops, reverse=True)
        assert 0 < law.drop_enclosure(10**9, 64)[0] <= 2.0**-bits
        assert law.reach < 3 * law.median


def test_steps():
    law = RenyiLaw(RenyiBudget(15, Fraction(1, 3), Fraction(1, 10**5)), 100, 4)
    steps = [law.step(d) for d in range(1, 101)]
    assert steps == [math.floor(4 * (100 / d) ** (1 / 3) + 1e-9) for d in range(1, 101)]
    # The constraints are the largest d of each step.
    assert law.constraints == [
        (s, max(d for d in range(1, 101) if steps[d - 1] == s)) for s in sorted(set(steps))
    ]


@pytest.mark.parametrize("kappa", [10, 30, 100])
def test_one_bit_needs_fewer_users_than_gaussian_noise(kappa):
    # Found elsewhere, by one order of fewer to choose from: 43, 62 and 96 instead of 61, 110, 207.
    assert RenyiSelection(1, 1e-5, kappa).median_users <= {10: 43, 30: 62, 100: 96}[kappa]


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (8.0, 1e-9), (30.0, 0.5), (1.0, 0.3)])
def test_conversion_of_divergence(epsilon, delta):
    for order in (2, 5, 40):
        divergence = largest_divergence(order, Fraction(epsilon), Fraction(delta))
        direct = (1 - 1 / order) ** (order - 1) / order
        direct *= math.exp((order - 1) * (float(divergence) - epsilon))
        assert direct == pytest.approx(delta)
        assert converted_delta(order, divergence, Fraction(epsilon)) >= delta * (1 - 1e-15)
