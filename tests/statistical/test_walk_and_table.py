"""The walk and the table share no code, and give all lists of a mechanism the same total weight."""

import itertools
import math

import pytest

from dp_transforms.mechanisms import Eta, PartitionTable
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.partition.exponential import IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.walk.transfer import independence_length
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests import enumeration
from tests.row_distribution import RowDistribution
from tests.walk_reference import total_weight


def weight_of(target, mechanism, window=40):
    """The walk's enclosure of the sum of q**||x - f||_1 over all x: Pr[x] is the quotient."""
    return total_weight(Blocks.of(enumeration.as_list(target)), mechanism.decay, window)


@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1)], ids=str)
def test_the_walks_total_weight_is_the_tables(eta):
    """For every list of up to 8 users: Pr[x] = q**||x - f||_1 / Z, so this is the distribution of
    each x."""
    for target in enumeration.partitions_of_at_most(8):
        lo, hi = weight_of(target, IntegerPartitionMechanism(eta=eta))
        # The table misses only lists with a frequency or a number of items above its bounds.
        table = PartitionTable(enumeration.as_list(target), eta, [70] * 70).total_weight
        assert lo * (1 - 2.0**-20) <= table <= hi


def test_the_total_weight_of_a_list_with_long_runs():
    """Runs of 70 and more are long here, so that their two ends are taken apart."""
    eta, target = Eta(1, 6, 1), (80,) * 75
    lo, hi = weight_of(target, IntegerPartitionMechanism(eta=eta), 8)
    table = PartitionTable(enumeration.as_list(target), eta, [92] * 87).total_weight
    assert lo * (1 - 2.0**-60) <= table <= hi
    assert independence_length(Decay(base=eta), 8) <= 75


def test_the_walks_total_weight_is_that_of_the_rows_for_an_irrational_ratio():
    mechanism = IntegerPartitionMechanism(epsilon=0.1)
    for target in enumeration.partitions_of_at_most(8):
        lo, _ = weight_of(target, mechanism, 60)
        assert RowDistribution(target, math.exp(-0.05), 600).total == pytest.approx(
            float(lo), rel=1e-9
        )


@pytest.mark.parametrize(
    "mechanism",
    [
        IntegerPartitionMechanism(eta=Eta(1, 1, 1)),
        IntegerPartitionMechanism(eta=Eta(3, 2, 1)),
        IntegerPartitionMechanism(epsilon=0.1),
    ],
    ids=str,
)
def test_neighbours_keep_the_ratio_of_probabilities_of_every_list(mechanism):
    """Pr[x] / Pr'[x] = q**(||x - f|| - ||x - f'||) Z' / Z, and the exponent is at least -1."""
    _, inverse = mechanism.decay.power(-1, 128)
    totals = {
        target: weight_of(target, mechanism, 60) for target in enumeration.partitions_of_at_most(8)
    }
    pairs = 0
    for a, b in itertools.permutations(totals, 2):
        if enumeration.l1_distance(a, b) == 1:
            # At most e**epsilon = q**-2 in all, so at most q**-1 from the totals.
            assert totals[b][0] <= totals[a][1] * inverse
            pairs += 1
    # Young's lattice has sum_{k <= n} p(k) edges from n to n + 1: 120 up to n = 7, each way.
    assert pairs == 240
