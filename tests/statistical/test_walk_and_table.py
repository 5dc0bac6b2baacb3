"""The walk and the table are two samplers of one law, and share no code but the uniform numbers.

The walk samples all lists, the table those within bounds: given that the walk's list is within
them, it has the table's law; and how often it is within them is the ratio of two tables' totals.
"""

from fractions import Fraction

import pytest

from dp_transforms.mechanisms import Eta, PartitionTable
from dp_transforms.mechanisms.integer_partition import IntegerPartitionMechanism, Level, Sampler
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests import enumeration
from tests.statistical import laws

RELEASES = 4_000
CASES = [
    ((), Eta(1, 1, 1), [3, 2, 1]),
    ((3, 1), Eta(1, 1, 1), [6, 4, 2, 1]),
    ((2, 2, 2), Eta(3, 2, 1), [5, 5, 5, 3, 2]),
    ((5, 1, 1, 1), Eta(5, 3, 2), [8, 3, 2, 2, 1]),
    ((4, 4), Eta(7, 3, 1), [9, 9, 4, 4]),
    ((7, 3), Eta(3, 3, 1), [12, 8, 4, 3]),
]


@pytest.mark.parametrize(("target", "eta", "upper"), CASES, ids=str)
def test_walks_within_the_bounds_have_the_law_of_the_table(target, eta, upper):
    private = enumeration.as_list(target)
    sampler = Sampler(private, IntegerPartitionMechanism(eta=eta).decay)
    table = PartitionTable(private, eta, upper)
    law = {
        released: probability
        for y in enumeration.partitions(len(upper), max(upper))
        if (probability := table.probability(released := enumeration.as_list(y)))
    }
    assert sum(law.values()) == 1
    walks = [sampler.release(InsecureSeededTape(seed)) for seed in range(RELEASES)]
    laws.assert_follows([released for released in walks if released in law], law)


@pytest.mark.parametrize(("target", "eta", "upper"), CASES[:4], ids=str)
def test_both_leave_the_bounds_equally_often(target, eta, upper):
    private = enumeration.as_list(target)
    sampler = Sampler(private, IntegerPartitionMechanism(eta=eta).decay)
    tight = PartitionTable(private, eta, upper)
    # So loose that what is still outside does not matter beside the noise of the draws.
    loose = PartitionTable(private, eta, [max(upper) + 80] * (len(upper) + 80))
    inside = tight.total_weight / loose.total_weight
    walks = [sampler.release(InsecureSeededTape(seed)) for seed in range(RELEASES)]
    kept = sum(tight.probability(released) > 0 for released in walks)
    laws.assert_probability(
        kept, RELEASES, Fraction(int(inside.numerator), int(inside.denominator))
    )


SMALL_LISTS = [x for total in range(9) for x in enumeration.partitions_of_at_most(total)]


@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1)], ids=str)
def test_the_walks_total_weight_is_the_tables(eta):
    """For every list of up to 8 users: Pr[x] = q**||x - f||_1 / Z, so this is the law of each x."""
    for target in sorted(set(SMALL_LISTS)):
        private = enumeration.as_list(target)
        sampler = Sampler(private, IntegerPartitionMechanism(eta=eta).decay)
        lo, hi = sampler.at_level(Level(40, 128)).total_weight()
        assert hi - lo < lo * 2.0**-90
        # The table misses only lists with a frequency or a number of items above its bounds.
        table = PartitionTable(private, eta, [70] * 70).total_weight
        assert lo * (1 - 2.0**-20) <= table <= hi
