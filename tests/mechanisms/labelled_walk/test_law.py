"""The sampler's law is the corner-weighted one: enclosures of it contain the exact rationals."""

import itertools
import math
from fractions import Fraction
from functools import cache

import pytest

from dp_transforms.mechanisms import PartitionBounds
from dp_transforms.mechanisms.integer_partition.corner_price import loss_enclosure
from dp_transforms.mechanisms.labelled_walk.sampler import CornerSampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from dp_transforms.mechanisms.sampler.walls import walled_blocks
from tests import enumeration
from tests.corner_reference import rational_decay
from tests.labelled_law import SamplerLaw
from tests.labelled_reference import corner_weight

RATIOS = [Fraction(2, 5), Fraction(1, 2), Fraction(2, 3)]
QUARTER = Fraction(1, 4)
MARGIN = Fraction(1, 10**9)
"""More than what floats do not know of probabilities here, and of logarithms."""
USERS = [3, pytest.param(7, marks=pytest.mark.slow)]


def walls(lower, upper):
    return PartitionBounds(lower=enumeration.as_list(lower), upper=enumeration.as_list(upper))


def between(lower, upper):
    rows = len(upper)
    low = (*lower, *[0] * (rows - len(lower)))
    for values in enumeration.partitions(rows, max(upper)):
        if all(a <= x <= b for a, x, b in zip(low, values, upper, strict=True)):
            yield values


def walled_law(private, lower, upper, q):
    """The mechanism's law by its definition; f is moved between the walls rank by rank."""
    rows = len(upper)
    low, f = ([*part, *[0] * (rows - len(part))][:rows] for part in (lower, private))
    nearest = [min(max(value, a), b) for value, a, b in zip(f, low, upper, strict=True)]
    weights = {
        x: q ** enumeration.l1_distance(x, nearest) * corner_weight(x, QUARTER, lower, upper)
        for x in between(lower, upper)
    }
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize("users", USERS)
@pytest.mark.parametrize("q", RATIOS, ids=str)
@pytest.mark.parametrize(
    ("lower", "upper"), [((), (3, 3, 2)), ((2, 1), (4, 2, 2, 1)), ((1, 1, 1), (5, 1, 1, 1))]
)
def test_floats_enclose_the_law_between_walls(q, lower, upper, users):
    for private in enumeration.partitions_of_at_most(users):
        blocks = walled_blocks(enumeration.as_list(private), walls(lower, upper))
        law = SamplerLaw(CornerSampler(blocks, rational_decay(q)))
        for released, expected in walled_law(private, lower, upper, q).items():
            lo, hi = law.probability([value for value in released if value])
            assert lo <= expected <= hi
            assert hi - lo < Fraction(1, 10**11)


@cache
def enclosures(q, users):
    """Enclosures of the probabilities of lists of up to 4 users, given each of up to ``users``."""
    found = {}
    for private in enumeration.partitions_of_at_most(users):
        sampler = CornerSampler(Blocks.of(enumeration.as_list(private)), rational_decay(q))
        law = SamplerLaw(sampler)
        released = {*enumeration.partitions_of_at_most(min(users, 4)), private}
        found[private] = {x: law.probability(x) for x in released}
    return found


@pytest.mark.parametrize("users", USERS)
@pytest.mark.parametrize("q", RATIOS, ids=str)
def test_floats_enclose_the_law_over_all_lists(q, users):
    """Two lists' probabilities have the ratio of their weights."""
    for private, known in enclosures(q, users).items():
        base = known[private]
        for released, (lo, hi) in known.items():
            distance = enumeration.l1_distance(released, private)
            share = q**distance * corner_weight(released, QUARTER) / corner_weight(private, QUARTER)
            assert lo <= base[1] * share and base[0] * share <= hi
            assert hi - lo < Fraction(1, 10**11)


@pytest.mark.parametrize("users", USERS)
@pytest.mark.parametrize("q", RATIOS, ids=str)
def test_neighbours_keep_the_ratio_of_probabilities_and_one_pair_attains_it(q, users):
    """e**epsilon for each cell by which two lists differ, epsilon being what q costs."""
    known = enclosures(q, users)
    most = Fraction(math.exp(loss_enclosure(Fraction(-math.log(q)))[1])) * (1 + MARGIN)
    largest = 0
    for (one, there), (other, here) in itertools.permutations(known.items(), 2):
        limit = most ** enumeration.l1_distance(one, other)
        for released in there.keys() & here.keys():
            assert there[released][0] <= limit * here[released][1]
            largest = max(largest, there[released][0] / here[released][1] / limit)
    assert largest > 1 - 3 * MARGIN


@pytest.mark.parametrize("q", [Fraction(2, 5), Fraction(2, 3)], ids=str)
def test_precise_numbers_enclose_the_law(q):
    lower, upper = (1,), (3, 2)
    for private in enumeration.partitions_of_at_most(2):
        blocks = walled_blocks(enumeration.as_list(private), walls(lower, upper))
        law = SamplerLaw(CornerSampler(blocks, rational_decay(q)), bits=128)
        for released, expected in walled_law(private, lower, upper, q).items():
            lo, hi = law.probability([value for value in released if value])
            assert lo <= expected <= hi
            assert hi - lo < Fraction(1, 2**100)


def test_probabilities_over_all_lists_add_up_to_one():
    sampler = CornerSampler(Blocks.of(enumeration.as_list((2, 1))), rational_decay(Fraction(2, 5)))
    law = SamplerLaw(sampler)
    known = [law.probability(values) for values in enumeration.partitions_of_at_most(11)]
    assert sum(hi for _, hi in known) > Fraction(99, 100)
    assert sum(lo for lo, _ in known) < 1
