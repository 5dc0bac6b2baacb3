"""The geometric mechanism's walk: its exact distribution, with and without walls."""

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from dp_transforms.mechanisms.partition.walk import geometric_walk
from dp_transforms.mechanisms.partition.walk.geometric_walk import GeometricSampler
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests import enumeration
from tests.cases import slow_unless
from tests.geometric_reference import probability, rational_decay, releases
from tests.list_strategies import frequency_lists
from tests.tapes import InsecureSeededTape, NearlyUndecidable

RATIOS = [Fraction(1, 3), Fraction(1, 4), Fraction(1, 10)]
ROUNDING = Fraction(1, 2**100)
NARROW = [
    *[((0, 0, 0), (2, 2, 2), 3), ((2, 1, 0), (3, 3, 1), 3), ((3, 0, 0), (3, 2, 2), 3)],
    ((1, 1), (1, 1), 3),
]
WIDE = [((0, 0, 0), (4, 4, 4), 8), ((3, 0, 0, 0), (3, 2, 2, 2), 8), ((0,) * 4, (5, 2, 1, 1), 8)]


def total_of(enclosed, q, private, walls=None):
    """The probability of releases, all different, each of which is enclosed as it should be."""
    seen, total = set(), Fraction(0)
    for released, (lo, hi) in enclosed:
        values = np.repeat(released.frequencies, released.multiplicities).tolist()
        exact = probability(q, values, private, walls)
        assert lo <= exact <= hi <= lo + ROUNDING and released not in seen
        seen.add(released)
        total += exact
    return total


@pytest.mark.parametrize("q", RATIOS, ids=str)
@pytest.mark.parametrize(("most", "least"), slow_unless([(5, 100), (8, 1000)], [(5, 100)]))
def test_releases_of_small_lists_have_the_probability_of_the_definition(q, most, least):
    for private in enumeration.partitions_of_at_most(most):
        blocks = Blocks.of(enumeration.as_list(private))
        enclosed = releases(blocks, rational_decay(q), Fraction(1, least))
        assert Fraction(2, 5) < total_of(enclosed, q, private) < 1


@pytest.mark.parametrize("q", RATIOS, ids=str)
@pytest.mark.parametrize(
    ("lower", "upper", "largest"), slow_unless([*NARROW, *WIDE], NARROW), ids=str
)
def test_between_walls_all_probabilities_are_those_of_the_definition(q, lower, upper, largest):
    bounds = PartitionBounds.of_runs(lower, upper, [1] * len(lower))
    for private in enumeration.partitions(len(lower), largest):
        clipped = tuple(np.clip(private, lower, upper).tolist())
        blocks = Blocks.of(enumeration.as_list(private), bounds)
        enclosed = list(releases(blocks, rational_decay(q)))
        assert all(bounds.contain(released) for released, _ in enclosed)
        assert total_of(enclosed, q, clipped, (lower, upper)) == 1


def test_a_step_between_neighbours_costs_exactly_one_factor():
    """Probabilities of every list change by q or 1 / q, and by nothing else."""
    q, walls = Fraction(1, 3), ((0, 0, 0), (3, 3, 3))
    outcomes = list(enumeration.partitions(3, 3))
    changed = {
        probability(q, x, (2, 1, 1), walls) / probability(q, x, (2, 1, 0), walls) for x in outcomes
    }
    assert changed == {q, 1 / q}


@pytest.mark.parametrize("q", [Fraction(1, 3), Fraction(1, 10)], ids=str)
@given(private=frequency_lists(), seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_what_floats_settle_enclosures_settle_alike(q, private, seed):
    sampler = GeometricSampler(Blocks.of(private), rational_decay(q))
    released = sampler.release(InsecureSeededTape(seed))
    with mock.patch.object(geometric_walk, "_MARGIN", 2.0):
        assert sampler.release(InsecureSeededTape(seed)) == released


@pytest.mark.parametrize("above", [0, 1])
def test_a_number_close_to_a_threshold_is_compared_exactly(above):
    """The first move of the empty list: x has cells with probability t = q / (1 + q) = 1 / 5, which
    the number is below by less than 2**-300, or above."""
    sampler = GeometricSampler(Blocks.of(FrequencyList()), rational_decay(RATIOS[1]))
    number = Fraction(2**300 // 5 + above, 2**300)
    released = sampler.release(NearlyUndecidable(0, "steps", 0, number, 300))
    assert (len(released) > 0) == (above == 0)
