"""Bounds for corner-weighted releases hold at every small list, step by step in exact rationals
between walls, and marginals are those of all releases."""

import itertools
import math
import operator
from collections import defaultdict
from fractions import Fraction

import pytest

from dp_transforms.mechanisms.laws.corner_law import CornerMarginals, CornerWeightedLaw
from tests import enumeration
from tests.labelled_reference import cells, corner_weight

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


BOXES = [((), (3, 3, 3)), ((), (4, 2, 1, 1)), ((2, 1), (4, 4, 2))]
FIRST = Fraction(1, 3)
QUARTER = Fraction(1, 4)


def between(lower, upper):
    low = [*lower, *[0] * (len(upper) - len(lower))]
    return [
        x
        for x in enumeration.partitions(len(upper), max(upper))
        if all(a <= value <= b for a, value, b in zip(low, x, upper, strict=True))
    ]


def extremes(y, f):
    """The maximal cells of y outside f, and the minimal cells of f outside y."""
    new, gone = cells(y) - cells(f), cells(f) - cells(y)
    return {(i, j) for i, j in new if not {(i + 1, j), (i, j + 1)} & new} | {
        (i, j) for i, j in gone if not {(i - 1, j), (i, j - 1)} & gone
    }


def share(q):
    """k."""
    return (q - FIRST) / (q * (1 + FIRST))


def products(q):
    """The products of the first 0, 1, ..., 80 factors of G."""
    factors = (1 + share(q) * q**i / (1 - q**i) for i in range(1, 81))
    return list(itertools.accumulate(factors, operator.mul, initial=Fraction(1)))


def first_stage_tails(q, count):
    """t_0, ..., t_count, from below."""
    found = products(q)
    beyond = (found[-1] - found[j - 1] for j in range(1, count + 1))
    return [Fraction(1), *(g / (1 + g) for g in beyond)]


def tail_bound(q, n):
    """What the law says of Pr[x_i >= f_i + n]."""
    steps = [min(Fraction(1), FIRST ** (n - j) * 4 / 3) for j in range(n + 1)]
    rises = [b - a for a, b in itertools.pairwise([Fraction(0), *steps])]
    return sum(map(operator.mul, rises, first_stage_tails(q, n)))


@pytest.mark.parametrize(("lower", "upper"), BOXES)
def test_second_stage_strays_from_the_first_as_said(lower, upper):
    """(1): Pr_y[x_i - y_i is n | x agrees with y at the extreme cells] <= a**n (1 + a)."""
    space = between(lower, upper)
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    largest = 0
    for f, y in itertools.product(space, repeat=2):
        kept = extremes(y, f)
        chances = {
            x: FIRST ** enumeration.l1_distance(x, y) * weights[x]
            for x in space
            if not kept & (cells(x) ^ cells(y))
        }
        total = sum(chances.values())
        assert total == 1 / (1 + FIRST) ** len(kept)
        for row, side, n in itertools.product(range(len(y)), (-1, 1), (1, 2, 3)):
            moved = sum(p for x, p in chances.items() if side * (x[row] - y[row]) >= n)
            assert moved <= total * FIRST**n * (1 + FIRST)
            largest = max(largest, moved / total / FIRST**n)
    assert largest == 1 + FIRST


@pytest.mark.parametrize("q", [Fraction(2, 5), Fraction(2, 3)], ids=str)
@pytest.mark.parametrize(("lower", "upper"), BOXES)
def test_both_stages_and_heads_have_the_tails_of_the_proof(lower, upper, q):
    """(2), (3) and ``log_head``."""
    space, k, total = between(lower, upper), share(q), products(q)[-1]
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    stage, release = first_stage_tails(q, 3), [tail_bound(q, n) for n in range(4)]
    for f in space:
        distances = {x: enumeration.l1_distance(x, f) for x in space}
        first = {x: q ** distances[x] * k ** len(extremes(x, f)) for x in space}
        law = {x: q ** distances[x] * weights[x] for x in space}
        normalizer = sum(law.values())
        assert sum(first.values()) == normalizer
        for row, side, n in itertools.product(range(len(f)), (-1, 1), (1, 2, 3)):
            for chances, bounds in ((first, stage), (law, release)):
                strays = sum(p for x, p in chances.items() if side * (x[row] - f[row]) >= n)
                assert strays <= bounds[n] * normalizer
        for ranks, s in itertools.product((1, 2, len(f)), (Fraction(6, 5), (1 + 1 / q) / 2)):
            mean = sum(
                p * s ** enumeration.l1_distance(x[:ranks], f[:ranks]) for x, p in law.items()
            )
            power = ((1 + q * s) / (1 - q * s)) ** ranks
            assert mean <= normalizer * power * (1 + (total - 1) / k) / k


@pytest.mark.parametrize("q", [Fraction(2, 5), Fraction(2, 3)], ids=str)
def test_the_law_says_what_the_proof_does(q):
    law = CornerWeightedLaw(-math.log(q))
    for failure in (0.3, 0.05, 1e-3, 1e-6):
        n = law.largest_excess(failure)
        assert float(tail_bound(q, n + 1)) <= failure * (1 + 1e-8)
        assert n == 0 or float(tail_bound(q, n)) > failure * (1 - 1e-8)
    k, total = share(q), products(q)[-1]
    assert math.exp(law.log_head) == pytest.approx(float((1 + (total - 1) / k) / k), rel=1e-7)


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
