"""What releases look like, for every list of up to 8 users, against the law by rows.

Statistics of a release: its three largest values, the first two together, how many values are
positive, and the mean of its distance. Each check has the false-alarm rate of ``laws``.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, IntegerPartitionMechanism
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.levels import Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.cases import slow_unless
from tests.row_law import RowLaw
from tests.statistical import laws

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
def test_3000_releases(private, name):
    check_releases(private, name, 3000)


@pytest.mark.law
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("private", list(enumeration.partitions_of_at_most(8)), ids=str)
def test_100_000_releases(private, name):
    check_releases(private, name, 100_000)


def check_releases(private, name, count):
    mechanism, q, reach = MECHANISMS[name]
    sampler = Sampler(Blocks.of(enumeration.as_list(private)), mechanism.decay)
    law = RowLaw(private, q, reach)
    top, lengths, distances = [], [], []
    for seed in range(count):
        released = sampler.release(InsecureSeededTape(seed))
        repeats = np.minimum(released.multiplicities[:3], 3)
        top.append([*np.repeat(released.frequencies[:3], repeats).tolist(), 0, 0, 0][:3])
        lengths.append(released.distinct)
        distances.append(released.l1_distance(enumeration.as_list(private)))
    largest = np.array(top)
    for rank in (1, 2, 3):
        laws.assert_follows(largest[:, rank - 1], law.of_rank(rank))
    laws.assert_follows(np.array(lengths), law.of_length())
    width = 1 if q < 0.9 else 12
    pairs = (largest[:, :2] // width).tolist()
    laws.assert_follows([tuple(pair) for pair in pairs], law.of_two_largest(width))
    error = np.std(distances) / math.sqrt(count)
    # Six and a half standard errors: 1e-10, were it a normal law; it is a little more.
    assert abs(np.mean(distances) - law.expected_l1) < 6.5 * error


def test_the_law_by_rows_is_that_of_enumeration():
    """Restricted to few small values, where all lists can be written down."""
    private, q, reach = (3, 1), 0.75, 5
    outcomes = list(enumeration.partitions(reach, reach))
    weights = np.array([q ** enumeration.l1_distance(x, private) for x in outcomes])
    law = RowLaw(private, q, reach)
    assert law.total == pytest.approx(weights.sum())
    for rank in (1, 2, 5):
        for value, probability in law.of_rank(rank).items():
            mask = [x[rank - 1] == value for x in outcomes]
            assert probability == pytest.approx(weights[mask].sum() / weights.sum())
    for length, probability in law.of_length().items():
        mask = [sum(v > 0 for v in x) == length for x in outcomes]
        assert probability == pytest.approx(weights[mask].sum() / weights.sum())
    for (a, b), probability in law.of_two_largest(2).items():
        mask = [(x[0] // 2, x[1] // 2) == (a, b) for x in outcomes]
        assert probability == pytest.approx(weights[mask].sum() / weights.sum())
    distance = sum(
        w * enumeration.l1_distance(x, private) for w, x in zip(weights, outcomes, strict=True)
    )
    assert law.expected_l1 == pytest.approx(distance / weights.sum())
