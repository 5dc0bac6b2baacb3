"""The baseline must be right to be a fair one."""

import math
from fractions import Fraction

import pytest

from benchmarks.row_dynamic_program import (
    FloatRowProgram,
    distance_bounds,
)
from dp_transforms.mechanisms import Eta, PartitionTable
from tests import enumeration
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

TARGETS = [(1,), (3, 1), (4, 4, 4), (5, 2, 2, 1, 1), (9,)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("distance", [0, 1, 5])
def test_distance_bounds_are_those_of_all_lists_within_the_distance(target, distance):
    lower, upper = distance_bounds(enumeration.as_list(target), distance)
    ranks = len(target) + distance
    reached = [
        y
        for y in enumeration.partitions_of_at_most(sum(target) + distance)
        if enumeration.l1_distance(y, target) <= distance
    ]
    values = list(zip(*((*y, *[0] * (ranks - len(y))) for y in reached), strict=True))
    assert [max(v) for v in values if max(v)] == upper.tolist()
    assert [min(v) for v in values if max(v)] == lower.tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_float_samples_follow_the_exact_distribution_within_the_bounds(target):
    eta = Eta(5, 3, 1)
    private = enumeration.as_list(target)
    lower, upper = distance_bounds(private, 4)
    program = FloatRowProgram.build(private, -2 * math.log(eta.base), lower, upper)
    tape = InsecureSeededTape(1)
    samples = [program.sample(tape, f"sample {i}") for i in range(5_000)]
    distribution = enumeration.distribution(
        Fraction(5, 8),
        target,
        enumeration.partitions(len(upper), int(upper[0])),
        lambda y: all(low <= v <= high for low, v, high in zip(lower, y, upper, strict=True)),
    )
    distributions.assert_follows(samples, distribution)
    exact = PartitionTable(private, eta, upper.tolist(), lower.tolist())
    assert all(exact.probability(y) == p for y, p in distribution.items())
