"""The mechanism: its range, its tapes, its means on real lists, and its privacy loss."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms import sample_data
from dp_transforms.evaluation import expected_l1
from dp_transforms.evaluation.auditing import epsilon_lower_bound
from dp_transforms.mechanisms import (
    CornerWeightedPartitionMechanism,
    Eta,
    FrequencyList,
    PartitionBounds,
)
from dp_transforms.mechanisms.laws import labelled_sums
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests import enumeration
from tests.labelled_reference import corner_weight

MEANS = {
    ("rockyou", "1"): 933.14,
    ("rockyou", "0.8"): 1501.93,
    ("rockyou", "0.6"): 2219.71,
    ("yahoo", "1"): 1175.94,
    ("yahoo", "0.8"): 1898.62,
    ("yahoo", "0.6"): 2818.73,
}
"""Means of ||x - f||_1 / 2, from an independent computation."""


@pytest.mark.parametrize(("name", "epsilon"), MEANS)
def test_expected_distances_are_the_known_ones(name, epsilon):
    private = getattr(sample_data, name)()
    mechanism = CornerWeightedPartitionMechanism(epsilon=Fraction(epsilon))
    assert abs(expected_l1(mechanism, private) / 2 - MEANS[name, epsilon]) < 0.006


@pytest.mark.parametrize(
    ("name", "epsilon", "releases"),
    [
        ("rockyou", "1", 20),
        *(pytest.param(*case, 200, marks=pytest.mark.slow) for case in MEANS),
    ],
)
def test_releases_have_the_known_means(name, epsilon, releases):
    """At 4 standard errors a right sampler fails with a probability below 1e-4; seeded."""
    private = getattr(sample_data, name)()
    mechanism = CornerWeightedPartitionMechanism(epsilon=Fraction(epsilon))
    tapes = map(InsecureSeededTape, range(releases))
    distances = [
        released.l1_distance(private) / 2
        for released in mechanism.release_many(private, releases, tapes)
    ]
    error = np.std(distances, ddof=1) / math.sqrt(releases)
    assert abs(np.mean(distances) - MEANS[name, epsilon]) < 4 * error


@pytest.mark.parametrize(
    ("counts", "walled"),
    [((3, 1, 1, 1), False), ((3, 1, 1, 1), True), ((6, 1, 1, 1), True)],
    ids=["all lists", "between bounds", "from outside them"],
)
def test_expected_distance_is_the_sum_over_all_lists(counts, walled):
    lower, upper = ((2, 1, 1, 1), (4, 2, 2, 2)) if walled else ((), None)
    bounds = PartitionBounds.of_runs([2, 1], [4, 2], [1, 3]) if walled else None
    mechanism = CornerWeightedPartitionMechanism(epsilon=1, bounds=bounds)
    total = mean = 0.0
    for released in enumeration.partitions_of_at_most(10 if walled else 28):
        if walled and not (
            len(released) == 4
            and all(a <= x <= b for a, x, b in zip(lower, released, upper, strict=True))
        ):
            continue
        distance = enumeration.l1_distance(released, counts)
        weight = float(corner_weight(released, Fraction(1, 4), lower, upper))
        weight *= math.exp(-mechanism.rate * distance)
        total, mean = total + weight, mean + weight * distance
    found = expected_l1(mechanism, FrequencyList.from_counts(counts))
    assert found == pytest.approx(mean / total, rel=1e-12 if walled else 1e-5)


def test_a_law_between_bounds_does_not_know_what_depends_on_them():
    bounds = PartitionBounds.of_total(10)
    law = CornerWeightedPartitionMechanism(epsilon=1, bounds=bounds).law
    for known_of_all_lists in (law.expected_l1, law.marginals):
        with pytest.raises(ValueError, match="between bounds depends on them"):
            known_of_all_lists(FrequencyList([3], [1]))


def test_rate_follows_epsilon_and_sensitivity():
    one = CornerWeightedPartitionMechanism(epsilon=1)
    assert float(one.decay.rate) == pytest.approx(0.893297, abs=1e-6)
    two = CornerWeightedPartitionMechanism(epsilon=2, sensitivity=2)
    assert two.decay == one.decay
    assert one.epsilon_cost == 1
    private = FrequencyList([100, 7, 1], [1, 30, 500])
    tape = InsecureSeededTape(1)
    assert one.release(private, tape) == two.release(private, tape)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"epsilon": 1.1}, "GeometricPartitionMechanism"),
        ({"epsilon": 2.2, "sensitivity": 2}, "GeometricPartitionMechanism"),
        ({"epsilon": 0.5}, "IntegerPartitionMechanism"),
        ({"epsilon": 1, "sensitivity": 2}, "IntegerPartitionMechanism"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "sensitivity": 0}, "sensitivity"),
        ({"eta": Eta(1, 1, 1)}, "eta"),
        ({"epsilon": 1, "bounds": PartitionBounds(beyond=2**61)}, "bounds"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        CornerWeightedPartitionMechanism(**arguments)


@pytest.mark.parametrize("epsilon", ["0.55", "1.098"])
@pytest.mark.parametrize(
    "private",
    [
        FrequencyList(),
        FrequencyList([10**6], [10**6]),
        FrequencyList([10**15], [1]),
        FrequencyList([1], [10**15]),
        FrequencyList([5, 4, 3, 2, 1], [1] * 5),
        FrequencyList(range(400, 0, -1), [1] * 400),
    ],
    ids=["empty", "square", "one item", "singletons", "stairs", "long stairs"],
)
def test_all_shapes_of_lists_are_released(private, epsilon):
    mechanism = CornerWeightedPartitionMechanism(epsilon=Fraction(epsilon))
    tapes = map(InsecureSeededTape, range(20))
    distances = [x.l1_distance(private) for x in mechanism.release_many(private, 20, tapes)]
    mean, error = expected_l1(mechanism, private), np.std(distances, ddof=1) / math.sqrt(20)
    assert abs(np.mean(distances) - mean) < 4.5 * error


def test_releases_lie_between_bounds():
    private = FrequencyList([1000, 300, 1], [1, 2, 5000])
    bounds = PartitionBounds.around(private, 2)
    mechanism = CornerWeightedPartitionMechanism(epsilon=1, bounds=bounds)
    released = mechanism.release_many(private, 30, map(InsecureSeededTape, range(30)))
    assert all(map(bounds.contain, released))
    assert len(set(released)) > 10
    assert mechanism.possible_lists()["possible_lists"] == "between public bounds"


def test_release_is_a_function_of_the_tape():
    private = FrequencyList([100, 7, 1], [1, 30, 500])
    mechanism = CornerWeightedPartitionMechanism(epsilon=1)
    first = mechanism.release(private, InsecureSeededTape(5))
    assert first == mechanism.release(private, InsecureSeededTape(5))
    assert mechanism.release_many(private, 2, iter(map(InsecureSeededTape, (5, 6))))[0] == first
    assert len({mechanism.release(private) for _ in range(20)}) > 1


@pytest.mark.parametrize("epsilon", ["0.55", "1"])
def test_the_first_user_of_all_costs_exactly_epsilon(epsilon):
    """Pr[empty | empty] / Pr[empty | one user]: q**-1 times the quotient of the total weights."""
    rate = float(CornerWeightedPartitionMechanism(epsilon=Fraction(epsilon)).decay.rate)
    sums = labelled_sums.LabelledSums(rate, rate, labelled_sums.window_for(rate))
    empty, one = (
        sums.log_total(Blocks.of(FrequencyList.from_counts(counts))).real for counts in ([], [1])
    )
    assert rate + one - empty == pytest.approx(float(epsilon), abs=1e-10)


@pytest.mark.slow
def test_an_audit_finds_most_of_epsilon_and_no_more():
    """What it certifies is too large with a probability of at most 1e-4; seeded."""
    mechanism = CornerWeightedPartitionMechanism(epsilon=1)
    outputs = [
        [
            len(released) == 0
            for released in mechanism.release_many(
                FrequencyList.from_counts(counts),
                5000,
                map(InsecureSeededTape, range(first, 10**6)),
            )
        ]
        for first, counts in ((0, []), (10**5, [1]))
    ]
    assert 0.75 < epsilon_lower_bound(*outputs, error_rate=1e-4).epsilon <= 1
