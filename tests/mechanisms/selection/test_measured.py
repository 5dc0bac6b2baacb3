"""A choice by private numbers of users: what they cost, what they decide, and that it is exact."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.engines.selection_kernels import users_by_partitions
from dp_transforms.mechanisms.selection import MeasuredSelection
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.strategy import REPLACE
from tests.beam_runs import table_of
from tests.mechanisms.selection.shared import bound
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

RECORDS = [(0, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (3, "a"), (3, "b"), (3, "c")]


class _NoisyCounts(MeasuredSelection):
    """Shows the noisy counts instead of a plan."""

    def plan_of(self, noisy):
        return list(noisy)


@pytest.mark.parametrize("neighbours", ["add_or_remove", REPLACE])
@pytest.mark.parametrize("max_partitions", [1, 3])
def test_every_count_has_the_noise_of_the_whole_statistic(max_partitions, neighbours):
    strategy = _NoisyCounts(100, 1e-5, max_partitions, neighbours=neighbours)
    assert strategy.statistic_epsilon == 1
    exact = list(range(len(strategy.edges) + 1))
    draws = 4000
    noise = np.array([strategy.plan(exact, InsecureSeededTape(i)) for i in range(draws)]) - exact
    q = math.exp(-1 / (2 if neighbours == REPLACE else 1))
    expected = {x: (1 - q) / (1 + q) * q ** abs(x) for x in range(-50, 51)}
    distributions.assert_follows(noise.ravel(), expected)
    # No two counts share a draw: 5 standard errors.
    assert np.all(np.abs(np.corrcoef(noise.T) - np.eye(len(exact))) < 5 / math.sqrt(draws))


def test_other_users_have_other_noise_on_the_same_tape():
    counts, tape = _NoisyCounts(1, 1e-5, 3), InsecureSeededTape(0)
    first, second = (counts.plan([n] + [0] * len(counts.edges), tape) for n in (0, 1))
    assert first[1:] != second[1:]


@pytest.mark.parametrize(
    ("epsilon", "max_partitions", "neighbours"),
    [
        (1, 1, REPLACE),
        (1, 3, REPLACE),
        (1, 100, "add_or_remove"),
        (Fraction(1, 4), 10, REPLACE),
        (4, 10, "add_or_remove"),
    ],
)
def test_every_plan_stays_within_the_budget(epsilon, max_partitions, neighbours):
    delta = Fraction(1, 10**5)
    strategy = MeasuredSelection(epsilon, delta, max_partitions, neighbours=neighbours)
    left = float(epsilon) * (1 - 0.01)
    classes = range(len(strategy.edges) + 1)
    some = [*itertools.combinations(classes[::5], 2), *itertools.combinations(classes, 1)]
    plans = {
        strategy.plan_of([size * (i in chosen) for i in classes])
        for size in (100, 100_000)
        for chosen in some
    }
    assert len(plans) > 5 or (max_partitions == 1 and len(plans) == 3)
    for plan in plans | {RoundPlan(1, 1, 1)}:
        branch = strategy.branch(plan)
        assert len(branch.rounds) == plan.rounds <= strategy.most_rounds
        assert plan.partitions == branch.max_partitions_per_user <= max_partitions
        assert float(branch.epsilon) == pytest.approx(left) and branch.delta == delta
        if plan.rounds > 1:
            whole = bound(branch.budgets, left, 2 if neighbours == REPLACE else 1)
            assert 0.9 * delta < whole <= delta


def test_one_user_moves_one_count_by_one():
    def counts(records, edges):
        return users_by_partitions(distinct_pairs(table_of(records)), edges)

    for edges, whole in (((1,), [2, 2]), ((1, 2), [2, 1, 1]), ((3, 7), [4, 0, 0])):
        assert counts(RECORDS, edges) == whole
        for user in range(4):
            rest = [record for record in RECORDS if record[0] != user]
            moved = np.subtract(whole, counts(rest, edges))
            assert sorted(moved) == [0] * len(edges) + [1]


def test_the_plan_follows_from_the_counts():
    usual = RoundPlan(100, 3, 32, 6)
    for max_partitions, users, plan in (
        (1, {1: 4000}, RoundPlan(1, 1, 1)),
        (1, {4: 4000}, RoundPlan(1, 3, 128)),
        (1, {math.inf: 4000}, RoundPlan(1, 6, 1)),
        (2, {2: 4000}, RoundPlan(2, 3, 16, 2)),
        (2, {3: 4000}, RoundPlan(2, 3, 16, 2)),
        (2, {math.inf: 4000}, RoundPlan(2, 6, 1)),
        (9, {1: 4000}, RoundPlan(1, 1, 1)),
        (9, {4: 4000}, RoundPlan(4, 3, 32)),
        # Numbers that may all be noise.
        (100, {}, usual),
        (100, {1: 200, 100: 100}, usual),
        (100, {math.inf: 1000}, RoundPlan(100, 6, 1, 6)),
        (100, {400: 600, math.inf: 500}, RoundPlan(100, 6, 2, 6)),
        (100, {250: 600, math.inf: 500}, RoundPlan(100, 6, 2, 6)),
        # Equally many: 50 of 100, by few users and by many.
        (100, {50: 1900}, RoundPlan(50, 3, 32, 6)),
        (100, {50: 19_000}, RoundPlan(30, 3, 32, 3)),
        (100, {175: 1900}, usual),
        # Most have one or two, and then more and more.
        (100, {1: 9_000, 2: 3_000, 8: 300}, RoundPlan(1, 1, 1)),
        (100, {1: 9_000, 12: 30_000}, RoundPlan(8, 3, 32, 3)),
        (100, {25: 3_000, 50: 3_000, 100: 3_000, 175: 9_000}, usual),
    ):
        strategy = MeasuredSelection(1, 1e-5, max_partitions)
        counts = [users.get(edge, 0) for edge in (*strategy.edges, math.inf)]
        assert strategy.plan_of(counts) == plan, users
