"""A choice by a private statistic: what it costs, what it decides, and that it is exact."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.mechanisms.partition_selection import MeasuredSelection
from dp_transforms.mechanisms.partition_selection.strategy import REPLACE
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.weighted_rounds import added, users_by_partitions
from tests.beam_runs import table_of

RECORDS = [(0, "a"), (1, "a"), (1, "b"), (2, "b"), (2, "b"), (3, "a"), (3, "b"), (3, "c")]


@pytest.mark.parametrize("neighbours", ["add_or_remove", REPLACE])
@pytest.mark.parametrize("balance", [-3, 0, 2])
def test_the_statistic_has_the_noise_that_its_epsilon_asks_for(balance, neighbours):
    # 3,000 draws, each test within 4.5 standard deviations: false alarms in 1 of 20,000 runs.
    strategy = MeasuredSelection(200, 1e-5, neighbours=neighbours)
    rest = {strategy.branch(bit).epsilon for bit in (False, True)}
    (epsilon,) = (Fraction(200) - Fraction(one) for one in rest)
    # Users exchanged move it by two.
    q = math.exp(-epsilon / (2 if neighbours == REPLACE else 1))
    # P[X > x] = q**(x + 1) / (1 + q) for x >= 0, and X is symmetric.
    chance = q ** (1 - balance) / (1 + q) if balance <= 0 else 1 - q**balance / (1 + q)
    draws = 3000
    several = sum(
        strategy.has_several(10, 10 + balance, InsecureSeededTape(i)) for i in range(draws)
    )
    deviation = math.sqrt(draws * chance * (1 - chance))
    assert abs(several - draws * chance) < 4.5 * deviation


def test_other_users_have_other_noise_on_the_same_tape():
    # Of 60 fair bits by one tape, all would be equal if the noise were; else with chance 2**-59.
    strategy, tape = MeasuredSelection(1, 1e-5), InsecureSeededTape(0)
    assert {strategy.has_several(users, users, tape) for users in range(60)} == {False, True}


def test_the_whole_budget_is_spent_once():
    strategy = MeasuredSelection(1, 1e-5)
    described = strategy.describe()
    for bit, key in ((False, "if_not_positive"), (True, "if_positive")):
        branch = strategy.branch(bit)
        assert Fraction(branch.epsilon) + Fraction(1, 200) == 1 and branch.delta == strategy.delta
        assert described[key]["epsilon"] == 0.995
    assert described["epsilon"] == 1 and described["statistic_epsilon"] == 0.005


def test_one_user_moves_the_statistic_by_one():
    def balance(records, kappa):
        few, several = users_by_partitions(distinct_pairs(table_of(records)), kappa)
        return several - few

    for kappa, whole in ((1, 0), (2, -2), (3, -4)):
        assert balance(RECORDS, kappa) == whole
        for user in range(4):
            rest = [record for record in RECORDS if record[0] != user]
            assert abs(balance(rest, kappa) - whole) == 1
    assert added([(1, 2), (3, 4)]) == (4, 6) and added([]) == (0, 0)


def test_users_decide_which_strategy_is_taken():
    # 4,000 users against noise of 57: a wrong choice has probability below 1e-30.
    users, tape = np.arange(4000), InsecureSeededTape(1)
    pairs, triples, fours = ((np.repeat(users, n), np.tile(np.arange(n), 4000)) for n in (2, 3, 4))
    for records, kappa, bit in (
        ((users, users % 7), 1, False),
        (pairs, 1, True),
        (pairs, 2, False),
        (triples, 2, False),
        (fours, 2, True),
    ):
        strategy = MeasuredSelection(5, 1e-5, kappa)
        expected = strategy.branch(bit).select(*records, tape).tolist()
        assert strategy.select(*records, tape).tolist() == expected != []
