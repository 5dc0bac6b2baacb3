"""The mechanism near the private list: its distribution, its delta, and that both keep what they
promise."""

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import DistanceBoundedPartitionMechanism, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.restricted import probability_outside
from tests import enumeration
from tests.cases import refused
from tests.tapes import InsecureSeededTape


@pytest.mark.parametrize("rate", [Fraction(2), Fraction(4)], ids=str)
def test_releases_leave_no_ball_more_often_than_said(rate):
    """The exact probability, for all lists of up to 6 users."""
    for target in enumeration.partitions_of_at_most(6):
        near = enumeration.partitions_of_at_most(sum(target) + 16)
        distances = np.array([enumeration.l1_distance(x, target) for x in near])
        weights = math.exp(-rate) ** distances
        for distance in range(12):
            outside = weights[distances > distance].sum() / weights.sum()
            assert outside <= probability_outside(Decay(rate), 6, distance)


def test_the_bound_is_that_of_its_series():
    """Term by term, far enough for what follows not to matter."""
    rate, total = Fraction(1, 2), 1000
    root = math.pi * math.sqrt(2 / 3)
    for distance in (300, 400, 600):
        series = sum(
            (m + 1) * math.exp(root * math.sqrt(total + m) - float(rate) * m)
            for m in range(distance + 1, distance + 3000)
        )
        probability = probability_outside(Decay(rate), total, distance)
        assert min(series, 1) <= probability <= min(1.05 * series, 1)
    mechanism = DistanceBoundedPartitionMechanism(2 * rate, max_total=total, delta=1e-9)
    distance, decay = mechanism.distance, mechanism.decay
    assert decay == Decay(rate)
    same = DistanceBoundedPartitionMechanism(2 * rate, max_total=total, distance=distance)
    assert same.delta == probability_outside(decay, total, distance)
    assert same.delta <= 1e-9 < probability_outside(decay, total, distance - 1)


def test_a_bound_below_the_least_float_is_not_0():
    """Its factor e**epsilon may be large."""
    for rate in range(730, 800, 3):
        with gmpy2.context(precision=100):
            first_term = 2 * gmpy2.exp(gmpy2.const_pi() * gmpy2.sqrt(gmpy2.mpfr(2) / 3) - rate)
        assert probability_outside(Decay(Fraction(rate)), 0, 0) >= first_term
    with pytest.raises(ValueError, match="promises nothing"):
        DistanceBoundedPartitionMechanism(20_000, 100, max_total=3, distance=10)


@pytest.mark.slow
@pytest.mark.parametrize("distance", [2, 4])
def test_neighbours_keep_epsilon_and_delta_prime(distance):
    """Exact distributions; delta is the largest exact total variation, not the bound, so as to be
    tight."""
    candidates, delta, inside = list(enumeration.partitions_of_at_most(20)), 0, {}
    for target in enumeration.partitions_of_at_most(4):
        ball = PartitionBounds.within_distance(enumeration.as_list(target), distance)
        near = [x for x in candidates if ball.contain(enumeration.as_list(x))]
        everything, inside[target] = (
            enumeration.distribution(Fraction(1, 8), target, some) for some in (candidates, near)
        )
        delta = max(delta, 1 - sum(everything[x] for x in inside[target]))
    assert delta > 0
    for a, b in enumeration.neighbours(inside):
        # q = e**(-epsilon / 2).
        excess = sum(max(p - 64 * inside[b].get(x, 0), 0) for x, p in inside[a].items())
        assert excess <= delta * (1 + 64)


PRICE = {"epsilon": 1, "max_total": 1000}
test_bad_parameters_are_refused_by_name = refused(
    lambda more: DistanceBoundedPartitionMechanism(**PRICE | more),
    ({"max_total": -1, "delta": 0.1}, "max_total must be an integer"),
    ({}, "give either delta or distance"),
    ({"delta": 0.1, "distance": 4}, "give either delta or distance"),
    *[({"delta": bad}, "delta must be a float between 0 and 1") for bad in (0.0, math.nan)],
    ({"distance": -4}, "distance must be an integer"),
    ({"distance": 2**60}, r"distance must be at most 2\*\*40"),
    *[({name: n}, "is not below 1, which") for name, n in (("distance", 4), ("delta", 0.5))],
    ({"delta": 0.1, "epsilon": -1}, "epsilon"),
)


def test_releases_are_in_the_ball_of_a_list_that_is_not_above_the_bound():
    mechanism = DistanceBoundedPartitionMechanism(max_total=10, delta=1e-6, epsilon=1)
    private = FrequencyList([5, 2, 1], [1, 2, 1])
    ball = PartitionBounds.within_distance(private, mechanism.distance)
    tapes = map(InsecureSeededTape, range(20))
    assert all(ball.contain(released) for released in mechanism.release_many(private, 20, tapes))
    with pytest.raises(ValueError, match="above max_total"):
        mechanism.release(FrequencyList([11], [1]))
