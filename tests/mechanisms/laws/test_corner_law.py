"""Bounds for corner-weighted releases hold at every small list, and marginals are those of all
releases."""

import math
from collections import defaultdict
from fractions import Fraction

import pytest

from dp_transforms.mechanisms.laws.corner_law import CornerWeightedLaw
from dp_transforms.mechanisms.laws.corner_marginals import CornerMarginals
from tests import enumeration
from tests.labelled_reference import corner_weight

RATES = [0.893297, 0.29]
SIZE = 21
"""Lists above this total are left out; what they weigh is below the tests' tolerances."""

WEIGHTS = {
    x: float(corner_weight(x, Fraction(1, 4))) for x in enumeration.partitions_of_at_most(SIZE)
}


def probabilities(private, rate):
    weights = {
        x: math.exp(-rate * enumeration.l1_distance(x, private)) * weight
        for x, weight in WEIGHTS.items()
    }
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


def at(values, rank):
    return values[rank - 1] if rank <= len(values) else 0


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("private", [(), (1,), (2, 2), (3, 1, 1), (1, 1, 1, 1)], ids=str)
def test_tails_and_weights_are_bounds(private, rate):
    law = CornerWeightedLaw(rate)
    chances = probabilities(private, rate)
    for rank in range(1, 6):
        moves = defaultdict(float)
        for x, chance in chances.items():
            moves[at(x, rank) - at(private, rank)] += chance
        for failure in (0.3, 0.1, 0.01):
            most = law.largest_excess(failure)
            (least,) = law.largest_shortfalls(failure, [rank])
            assert sum(chance for move, chance in moves.items() if move > most) <= failure
            assert sum(chance for move, chance in moves.items() if move < -least) <= failure
    for x in enumeration.partitions_of_at_most(6):
        bound = law.log_weight(enumeration.as_list(x))
        assert bound == pytest.approx(math.log(WEIGHTS[x]), rel=1e-6)
        assert chances[x] <= math.exp(bound - rate * enumeration.l1_distance(x, private))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("private", [(), (2, 2), (3, 1, 1)], ids=str)
def test_heads_are_bounded(private, rate):
    law = CornerWeightedLaw(rate)
    chances = probabilities(private, rate)
    for ranks in (1, 2, 4):
        for t in (0.3 * rate, 0.7 * rate):
            u = math.exp(t - rate)
            mean = sum(
                chance
                * math.exp(t * sum(abs(at(x, i) - at(private, i)) for i in range(1, ranks + 1)))
                for x, chance in chances.items()
            )
            assert mean <= ((1 + u) / (1 - u)) ** ranks * math.exp(law.log_head)


def test_tails_are_not_far_from_the_largest_there_are():
    """At an empty list, where the first frequency strays most."""
    rate = RATES[0]
    chances = probabilities((), rate)
    for failure in (0.1, 0.01, 1e-3):
        exact = next(
            n for n in range(SIZE) if sum(p for x, p in chances.items() if at(x, 1) > n) <= failure
        )
        assert exact <= CornerWeightedLaw(rate).largest_excess(failure) <= exact + 2


@pytest.mark.parametrize("private", [(), (2, 2), (3, 1, 1), (4, 1)], ids=str)
def test_marginals_are_those_of_all_releases(private):
    rate = 1.09
    chances = probabilities(private, rate)
    marginals = CornerMarginals(enumeration.as_list(private), rate)
    for rank in range(1, 5):
        law = marginals.law_of_frequency(rank)
        for value in range(5):
            expected = sum(p for x, p in chances.items() if at(x, rank) == value)
            assert law.probability(value) == pytest.approx(expected, abs=2e-5)
    biases = [
        sum(p * (at(x, rank) - at(private, rank)) for x, p in chances.items()) for rank in (1, 2, 3)
    ]
    assert marginals.mean_differences([1, 2, 3]).tolist() == pytest.approx(biases, abs=1e-4)
    total = sum(p * (sum(x) - sum(private)) for x, p in chances.items())
    assert marginals.total_difference == pytest.approx(total, abs=1e-3)
    distinct = marginals.law_of_distinct()
    known = sum(p for x, p in chances.items() if len(x) == 2)
    assert distinct.probability(2) == pytest.approx(known, abs=2e-5)
    whole = sum(p for x, p in chances.items() if sum(x) == sum(private))
    assert marginals.law_of_total().probability(sum(private)) == pytest.approx(whole, abs=2e-5)


def test_marginals_of_long_runs():
    """Between far ends D is 0; the first frequency of a long run strays as that of one item."""
    marginals = CornerMarginals(enumeration.as_list([1000] * 1000), RATES[0])
    one = CornerMarginals(enumeration.as_list([1000]), RATES[0])
    assert marginals.law_of_frequency(500).probability(1000) == pytest.approx(1)
    assert marginals.law_of_frequency(1).probability(1001) > 0.1
    assert one.law_of_frequency(1).probability(1000) < 0.8
