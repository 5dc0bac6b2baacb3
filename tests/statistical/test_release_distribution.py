"""Distributions of releases, for every list of up to 8 users, against the distribution by rows.

Each statistic of a release is tested for each list, and for all lists together, with the
false-alarm rate of ``distributions``: with the distribution tests of other modules 39 checks, 4e-8.

With 10,000 releases of each of 67 lists these are found with a probability of 99%, of the
distribution of a statistic with 10 cells: 5.2% of total variation in one list, or 1.2% in all; of a
mean: 9.2% of a standard deviation in one list, or 1.04% in all. Four times as many find half as
much.
"""

import functools
import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, IntegerPartitionMechanism
from dp_transforms.mechanisms.partition.walk.levels import Sampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests import enumeration
from tests.cases import slow_unless
from tests.row_distribution import RowDistribution
from tests.statistical.distributions import assert_all_follow, assert_scores, fit, score
from tests.statistical.draws import RELEASES, Numbers, drawn_lists

# Each with q, and ranks and values so many that the rest weighs less than 1e-12 of all.
MECHANISMS = {
    "q=1/2": (IntegerPartitionMechanism(eta=Eta(1, 1, 1)), 0.5, 70),
    "q=3/4": (IntegerPartitionMechanism(eta=Eta(3, 2, 1)), 0.75, 150),
    "q=e^-0.05": (IntegerPartitionMechanism(epsilon=Fraction(1, 10)), math.exp(-0.05), 900),
}

SOME = [(), (1,), (3, 1), (2, 2, 2), (4, 2, 1, 1), (8,), (1,) * 8]
# Every mechanism is in a quick case.
QUICK = list(zip(SOME[1:], MECHANISMS, strict=False))


@pytest.mark.parametrize(
    ("private", "name"), slow_unless(itertools.product(SOME, MECHANISMS), QUICK), ids=str
)
def test_1000_releases(private, name):
    check_releases([private], name, 1000)


@pytest.mark.law
@pytest.mark.parametrize("name", MECHANISMS)
def test_many_releases_of_each_list(name):
    check_releases(list(enumeration.partitions_of_at_most(8)), name, RELEASES)


def check_releases(lists, name, count):
    mechanism, q, reach = MECHANISMS[name]
    fits, scores = defaultdict(dict), defaultdict(dict)
    for number, private in enumerate(lists):
        sampler = Sampler(Blocks.of(enumeration.as_list(private)), mechanism.decay)
        # No two lists have a tape in common, so that they are independent.
        drawn = drawn_lists(sampler, count, first=number * count)
        distribution, numbers = RowDistribution(private, q, reach), Numbers(drawn, private)
        for rank in (1, 2, 3):
            fits[rank][private] = fit(numbers.values[:, rank - 1], distribution.of_rank(rank))
        width = 1 if q < 0.9 else 12
        pairs = map(tuple, (numbers.values[:, :2] // width).tolist())
        fits["two largest"][private] = fit(pairs, distribution.of_two_largest(width))
        fits["distinct"][private] = fit(numbers.distinct, distribution.of_length())
        few_users = {
            released: q ** enumeration.l1_distance(x, private) / distribution.total
            for x, released in small_lists().items()
        }
        fits["list"][private] = fit(drawn, few_users)
        scores["distance"][private] = score(numbers.distance, distribution.expected_l1)
        scores["total"][private] = score(numbers.total, distribution.expected_total)
    for of_lists in fits.values():
        assert_all_follow(of_lists)
    for of_lists in scores.values():
        assert_scores(of_lists)


@functools.cache
def small_lists():
    """The lists of up to 12 users."""
    return {x: enumeration.as_list(x) for x in enumeration.partitions_of_at_most(12)}


def test_the_distribution_by_rows_is_that_of_enumeration():
    """Restricted to few small values, where all lists can be written down."""
    private, q, reach = (3, 1), 0.75, 5
    outcomes = np.array(list(enumeration.partitions(reach, reach)))
    distances = [enumeration.l1_distance(x, private) for x in outcomes.tolist()]
    weights = q ** np.array(distances)
    distribution = RowDistribution(private, q, reach)
    assert distribution.total == pytest.approx(weights.sum())
    chances = weights / weights.sum()
    assert distribution.expected_l1 == pytest.approx(chances @ distances)
    assert distribution.expected_total == pytest.approx(chances @ outcomes.sum(axis=1))
    claims = [
        *[(distribution.of_rank(rank), outcomes[:, rank - 1]) for rank in (1, 2, 5)],
        (distribution.of_length(), (outcomes > 0).sum(axis=1)),
        (distribution.of_two_largest(2), map(tuple, (outcomes[:, :2] // 2).tolist())),
    ]
    for claimed, statistic in claims:
        by_value = defaultdict(float)
        for value, chance in zip(statistic, chances, strict=True):
            by_value[value] += chance
        for value, probability in claimed.items():
            assert probability == pytest.approx(by_value[value])
