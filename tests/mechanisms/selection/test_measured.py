"""A choice by private numbers of users: what they cost, what they decide, and that it is exact."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.mechanisms.selection import MeasuredSelection
from dp_transforms.mechanisms.selection.measured import users_in_classes
from dp_transforms.mechanisms.selection.renyi_calibration import (
    statistic_divergence,
    total_budget,
)
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.strategy import REPLACE
from dp_transforms.runtime.selecting import users_by_partitions
from tests.beam_runs import table_of
from tests.mechanisms.selection.renyi_bounds import bound
from tests.tapes import InsecureSeededTape

RECORDS = [(0, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (3, "a"), (3, "b"), (3, "c")]


class _NoisyCounts(MeasuredSelection):
    """Shows the noisy counts instead of a plan."""

    def plan_of(self, noisy):
        return list(noisy)


@pytest.mark.parametrize("neighbours", ["add_or_remove", REPLACE])
@pytest.mark.parametrize("balance", [-3, 0, 2])
def test_the_difference_at_kappa_one_has_the_noise_that_its_epsilon_asks_for(balance, neighbours):
    # 3,000 draws, each test within 4.5 standard deviations: false alarms in 1 of 20,000 runs.
    strategy = MeasuredSelection(200, 1e-5, neighbours=neighbours)
    rest = {strategy.branch(RoundPlan(1, rounds, 1)).epsilon for rounds in (1, 6)}
    (epsilon,) = (Fraction(200) - Fraction(one) for one in rest)
    assert epsilon == strategy.statistic_epsilon == 1
    # Users exchanged move it by two.
    q = math.exp(-epsilon / (2 if neighbours == REPLACE else 1))
    # P[X > x] = q**(x + 1) / (1 + q) for x >= 0, and X is symmetric.
    chance = q ** (1 - balance) / (1 + q) if balance <= 0 else 1 - q**balance / (1 + q)
    draws = 3000
    several = sum(
        strategy.plan([10, 10 + balance], InsecureSeededTape(i)).rounds == 6 for i in range(draws)
    )
    deviation = math.sqrt(draws * chance * (1 - chance))
    assert abs(several - draws * chance) < 4.5 * deviation


@pytest.mark.parametrize("neighbours", ["add_or_remove", REPLACE])
def test_every_count_has_the_noise_of_the_whole_statistic(neighbours):
    # 4,000 draws of each of 7 counts; the mean of |X| is 2 q / (1 - q**2) and that of X**2
    # 2 q / (1 - q)**2. Within 5 standard errors: false alarms in 1 of 250,000 runs.
    strategy = _NoisyCounts(64, 1e-5, 3, neighbours=neighbours)
    assert strategy.statistic_epsilon == 1
    exact = list(range(len(strategy.edges) + 1))
    draws = 4000
    noise = np.array([strategy.plan(exact, InsecureSeededTape(i)) for i in range(draws)]) - exact
    q = math.exp(-1 / (2 if neighbours == REPLACE else 1))
    mean, square = 2 * q / (1 - q**2), 2 * q / (1 - q) ** 2
    error = 5 * math.sqrt((square - mean**2) / draws)
    assert np.all(np.abs(np.abs(noise).mean(axis=0) - mean) < error)
    # No two counts share a draw.
    assert np.all(np.abs(np.corrcoef(noise.T) - np.eye(len(exact))) < 5 / math.sqrt(draws))


def test_other_users_have_other_noise_on_the_same_tape():
    # Of 60 fair bits by one tape, all would be equal if the noise were; else with chance 2**-59.
    strategy, tape = MeasuredSelection(1, 1e-5), InsecureSeededTape(0)
    assert {strategy.plan([users, users], tape).rounds for users in range(60)} == {1, 6}
    counts = _NoisyCounts(1, 1e-5, 3)
    first, second = ([0] * (len(counts.edges) + 1) for _ in range(2))
    second[0] = 1
    assert counts.plan(second, tape)[1:] != counts.plan(first, tape)[1:]


@pytest.mark.parametrize("neighbours", ["add_or_remove", REPLACE])
@pytest.mark.parametrize(
    ("epsilon", "max_partitions"), [(1, 3), (1, 100), (Fraction(1, 4), 10), (4, 10)]
)
def test_every_plan_stays_within_the_budget(epsilon, max_partitions, neighbours):
    delta = Fraction(1, 10**5)
    strategy = MeasuredSelection(epsilon, delta, max_partitions, neighbours=neighbours)
    twice = 2 if neighbours == REPLACE else 1
    branches = []
    plans = {
        strategy.plan_of([size * (i in chosen) for i in range(len(strategy.edges) + 1)])
        for size in (100, 100_000)
        for chosen in itertools.combinations(range(len(strategy.edges) + 1), 2)
    } | {
        strategy.plan_of([size * (i == one) for i in range(len(strategy.edges) + 1)])
        for size in (100, 100_000)
        for one in range(len(strategy.edges) + 1)
    }
    assert len(plans) > 5
    for plan in plans:
        budgets = strategy.branch(plan).budgets
        assert len(budgets) == plan.rounds <= strategy.most_rounds
        assert plan.partitions <= max_partitions and {one.order for one in budgets} == {
            strategy.order
        }
        branches.append(budgets)
    # Either ratio takes its worst plan.
    whole = at_worst(branches, float(epsilon), float(strategy.statistic_epsilon), twice)
    assert 0.9 * delta < whole <= delta


def at_worst(branches, epsilon, first, twice=1):
    """The bound on delta of plans that noisy counts of ``first``-DP choose among.

    They are e**first or e**-first times as likely, which leaves the chance of the former at
    1 / (1 + e**first).
    """
    more, less = (
        max(bound(budgets, epsilon, twice, math.exp(ratio)) for budgets in branches)
        for ratio in (first, -first)
    )
    return (more + math.exp(first) * less) / (1 + math.exp(first))


def test_plans_may_differ_in_what_they_spend_before_the_last_round():
    # One has all in a single round, and the other three tenths of the divergence before it.
    epsilon, delta, first = Fraction(607, 100), Fraction(1, 10**5), Fraction(1, 4)
    branches = []
    for part in (Fraction(1), Fraction(7, 10)):
        total = total_budget(3, epsilon, delta, (part, Fraction(1)), statistic=first)
        branches.append([total.share(1 - part, Fraction(0)), total.share(part, Fraction(1))])
    assert 0.9 * delta < at_worst(branches, float(epsilon), float(first)) <= delta


def test_the_divergence_of_the_statistic_is_the_largest_that_its_epsilon_allows():
    # Noise of q = e**-epsilon on a count reaches it: the ratio is e**epsilon or e**-epsilon.
    epsilon = Fraction(1, 64)
    for order in (2, 15, 60):
        q = math.exp(-epsilon)
        up = 1 / (1 + math.exp(epsilon))
        moment = up * q**-order + (1 - up) * q**order
        stated = float(statistic_divergence(order, epsilon))
        assert math.isclose(math.log(moment) / (order - 1), stated, rel_tol=1e-9)
        assert stated <= order * float(epsilon) ** 2 / 2


def test_one_user_moves_one_count_by_one():
    def counts(records, edges):
        return users_by_partitions(distinct_pairs(table_of(records)), edges)

    for edges, whole in (((1,), [2, 2]), ((1, 2), [2, 1, 1]), ((3, 7), [4, 0, 0])):
        assert counts(RECORDS, edges) == whole
        for user in range(4):
            rest = [record for record in RECORDS if record[0] != user]
            moved = np.subtract(whole, counts(rest, edges))
            assert sorted(moved) == [0] * len(edges) + [1]


def test_users_decide_which_rounds_are_taken():
    # 4,000 users against noise of 57 and 64 at most: a wrong choice has probability below 1e-20.
    tape = InsecureSeededTape(1)
    for has, max_partitions, rounds, growth in (
        (1, 1, 1, 1),
        (2, 1, 6, 1),
        (2, 2, 3, 16),
        (3, 2, 3, 16),
        (9, 2, 6, 1),
        (1, 9, 3, 32),
    ):
        strategy = MeasuredSelection(5 if max_partitions == 1 else 1, 1e-5, max_partitions)
        plan = strategy.plan(users_in_classes(np.full(4000, has), strategy.edges), tape)
        assert (plan.rounds, plan.growth) == (rounds, growth)


def test_the_plan_follows_from_the_counts():
    strategy = MeasuredSelection(1, 1e-5, 100)
    assert strategy.edges == (12, 18, 25, 37, 50, 75, 100, 175, 250, 400)
    for counts, plan in (
        ([0] * 11, RoundPlan(12, 3, 32, 6)),
        ([-9] * 10 + [1000], RoundPlan(100, 6, 1, 6)),
        ([0] * 9 + [600, 500], RoundPlan(100, 6, 2, 6)),
        ([0] * 8 + [600, 0, 500], RoundPlan(100, 6, 2, 6)),
        # Equally many: 50 of 100, by few users and by many.
        ([20, 0, 0, 0, 1900, 0, 0, 0, 0, 0, 0], RoundPlan(50, 3, 32, 6)),
        ([20, 0, 0, 0, 19_000, 0, 0, 0, 0, 0, 0], RoundPlan(30, 3, 32, 3)),
        ([0] * 7 + [1900, 0, 0, 0], RoundPlan(100, 3, 32, 6)),
        # The first class is wide, and most users of a partition are in it.
        ([10_000, 300, 200, 0, 0, 0, 0, 0, 0, 0, 0], RoundPlan(12, 3, 32, 3)),
        ([300, 300, 300, 300, 300, 300, 300, 900, 0, 0, 0], RoundPlan(100, 3, 32, 6)),
    ):
        assert strategy.plan_of(counts) == plan
