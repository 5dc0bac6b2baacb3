"""The proof of the corner-weighted mechanism's price, step by step in exact rationals, and the rate
that an epsilon buys."""

import itertools
import math
from fractions import Fraction

import pytest

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.integer_partition.corner_price import (
    RATE_UNIT,
    loss_enclosure,
    rate_of,
)
from tests import enumeration
from tests.labelled_reference import cells, chain_weight, corner_weight, peaks

QUARTER = Fraction(1, 4)
FIRST = Fraction(1, 3)
RATIOS = [Fraction(1, 3), Fraction(2, 5), Fraction(1, 2), Fraction(2, 3), Fraction(9, 10)]
INTERVALS = [
    ((), (3, 3, 3)),
    ((), (4, 4)),
    ((), (4, 2, 1, 1)),
    ((2, 1), (4, 4, 2)),
    ((1, 1, 1), (5, 2, 1)),
]


def between(lower, upper):
    """All diagrams of an interval, as tuples of one length."""
    low = [*lower, *[0] * (len(upper) - len(lower))]
    return [
        x
        for x in enumeration.partitions(len(upper), max(upper))
        if all(a <= value <= b for a, value, b in zip(low, x, upper, strict=True))
    ]


def share(q):
    """k."""
    return (q - FIRST) / (q * (1 + FIRST))


def product(q, factors=80):
    """G from below: its factors are above 1."""
    return math.prod(1 + share(q) * q**i / (1 - q**i) for i in range(1, factors))


def ratio_bound(q):
    """R from below."""
    return 1 + (1 / q - 1) * (1 - (1 + q * share(q)) / product(q))


def with_cell(values, row):
    return (*values[:row], values[row] + 1, *values[row + 1 :])


def addable(values, space):
    return [row for row in range(len(values)) if with_cell(values, row) in space]


def distance(x, f):
    return len(cells(x) ^ cells(f))


def test_chains_at_one_quarter_have_a_closed_form():
    assert all(chain_weight(m, QUARTER) == Fraction(m + 2, 2 ** (m + 1)) for m in range(100))


@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_corner_weights_at_the_first_ratio_need_no_normalizer(lower, upper):
    space = between(lower, upper)
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    for f in space:
        assert sum(FIRST ** distance(x, f) * weights[x] for x in space) == 1


@pytest.mark.parametrize(("lower", "upper"), INTERVALS[1:4])
def test_first_step_probability_that_a_set_of_cells_is_wrong(lower, upper):
    """Pr[S in X xor F] = first**d(Y, F) / (1 + first)**m, or 0 where Y is no diagram."""
    space = between(lower, upper)
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    everything = cells(upper) - cells(lower)
    for f in space:
        inside = cells(f)
        chances = {x: FIRST ** distance(x, f) * weights[x] for x in space}
        for size in (1, 2, 3):
            for wrong in itertools.combinations(sorted(everything), size):
                out = [b for b in wrong if b in inside]
                new = [b for b in wrong if b not in inside]
                least = [b for b in out if not any(_below(a, b) for a in out)]
                largest = [b for b in new if not any(_below(b, a) for a in new)]
                y = {b for b in inside if not any(_at_most(a, b) for a in out)} | {
                    b for b in cells(upper) if any(_at_most(b, a) for a in new)
                }
                expected = FIRST ** len(y ^ inside) / (1 + FIRST) ** (len(least) + len(largest))
                if any(_at_most(a, b) for a in out for b in new):
                    expected = 0
                found = sum(
                    chance for x, chance in chances.items() if set(wrong) <= cells(x) ^ inside
                )
                assert found == expected


def _at_most(a, b):
    return a[0] <= b[0] and a[1] <= b[1]


def _below(a, b):
    return a != b and _at_most(a, b)


@pytest.mark.parametrize("q", RATIOS, ids=str)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_first_step_total_weight_without_corner_weights(lower, upper, q):
    space = between(lower, upper)
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    for f in space:
        assert sum(q ** distance(x, f) * weights[x] for x in space) == sum(
            q ** distance(x, f) * share(q) ** peaks(x, f) for x in space
        )


@pytest.mark.parametrize("q", RATIOS[1:4], ids=str)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_second_and_third_step_for_one_cell(lower, upper, q):
    space = between(lower, upper)
    known = set(space)
    limit = 1 - (1 + q * share(q)) / product(q)
    for f in space:
        weights = {x: q ** distance(x, f) * share(q) ** peaks(x, f) for x in space}
        total = sum(weights.values())
        for row in addable(f, known):
            b = row, f[row]
            beyond, lacking = 0, 0
            for x, weight in weights.items():
                seen = cells(x)
                if b in seen and any(_below(b, a) for a in seen):
                    beyond += weight
                if any(_below(a, b) for a in cells(f) - seen):
                    lacking += weight
            more = with_cell(f, row)
            there = sum(q ** distance(x, more) * share(q) ** peaks(x, more) for x in space)
            assert there == total + (1 / q - 1) * beyond - (1 - q) * lacking
            assert beyond <= limit * total


@pytest.mark.parametrize("q", RATIOS, ids=str)
@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
def test_totals_of_lists_that_differ_in_up_to_three_cells(lower, upper, q):
    space = between(lower, upper)
    weights = {x: corner_weight(x, QUARTER, lower, upper) for x in space}
    totals = {f: sum(q ** distance(x, f) * weights[x] for x in space) for f in space}
    bound = ratio_bound(q)
    for f, g in itertools.permutations(space, 2):
        cells_apart = distance(f, g)
        if cells_apart <= 3:
            assert totals[g] <= totals[f] * bound**cells_apart


def test_the_bound_is_attained_at_the_empty_list():
    """As the box grows, Z({b}) / Z(empty) rises to R."""
    q = Fraction(2, 5)
    ratios = []
    for size in (1, 2, 3, 4, 5):
        upper = (size,) * size
        space = between((), upper)
        empty, one = (0,) * size, (1, *(0,) * (size - 1))
        totals = [
            sum(q ** distance(x, f) * corner_weight(x, QUARTER, (), upper) for x in space)
            for f in (empty, one)
        ]
        ratios.append(totals[1] / totals[0])
    assert ratios == sorted(ratios)
    assert 0 < ratio_bound(q) - ratios[-1] < Fraction(1, 100)


def test_third_step_the_sum_over_all_diagrams_in_the_quadrant_is_the_product():
    q = Fraction(2, 5)
    found = sum(
        q ** sum(x) * share(q) ** len(set(x)) for x in enumeration.partitions_of_at_most(22)
    )
    assert 0 < product(q) - found < Fraction(1, 10**5)


@pytest.mark.parametrize(
    ("loss", "rate"), [("1", 0.893297), ("0.8", 0.545804), ("0.6", 0.335706), ("0.4", 0.203881)]
)
def test_rates_are_those_of_the_theorem(loss, rate):
    assert abs(float(rate_of(Fraction(loss))) - rate) < 1e-6


@pytest.mark.parametrize("loss", ["0.55", "0.8", "1", "1.0986122886681", "1.09861228866810969"])
def test_a_rate_is_on_the_safe_side_and_no_larger_one_is(loss):
    loss = Fraction(loss)
    rate = rate_of(loss)
    assert Fraction(*loss_enclosure(rate, 256)[1].as_integer_ratio()) <= loss
    above = rate + 2 * RATE_UNIT
    assert Decay(above).is_at_most_one_third() or loss_enclosure(above, 256)[0] > loss


@pytest.mark.parametrize("q", RATIOS[1:4], ids=str)
def test_loss_enclosures_contain_the_rational_bound(q):
    """At a rate next to -ln q, whose q is within 2**-50 of the rational one."""
    rate = Fraction(-math.log(q))
    lo, hi = loss_enclosure(rate)
    expected = -math.log(q) + math.log(ratio_bound(q))
    assert hi - lo < 1e-30
    assert abs(float(lo) - expected) < 1e-13


def test_precision_narrows_the_product():
    coarse, fine = (loss_enclosure(Fraction(9, 10), bits) for bits in (64, 200))
    assert coarse[0] <= fine[0] <= fine[1] <= coarse[1]


def test_log_three_is_compared_exactly():
    below = Fraction(math.log(3)) - Fraction(1, 2**60)
    assert Decay(Fraction(math.log(3)) + Fraction(1, 2**52)).is_at_most_one_third()
    assert not Decay(below - Fraction(1, 2**52)).is_at_most_one_third()
