"""Bounds for long runs hold for all walks through short ones, by the definition of weights."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import gmpy2
import pytest

from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.labelled_walk.decoupling import remainder, window_of
from dp_transforms.mechanisms.labelled_walk.labels import HELD_ONE, HELD_ZERO, OPEN
from dp_transforms.mechanisms.labelled_walk.precise import enclosed_powers
from tests.corner_reference import rational_decay

KINDS = {HELD_ZERO: (0, 1), OPEN: (None, 0), HELD_ONE: (1, 1)}
"""The last bit, where it counts, and the last label."""

WINDOW = 2


def all_walks(q, length, start):
    """Weights of walks through zero bits from D = start, by kinds before and (D, kind) behind."""
    found = defaultdict(Fraction)
    for bits in itertools.product((0, 1), repeat=length):
        heights = list(itertools.accumulate(bits, initial=start))
        cost = q ** sum(map(abs, heights[1:])) / 2**length
        for kind, (last, label) in KINDS.items():
            # How many ways there are to write labels, by the last of them.
            ways = {label: 1}
            for before, bit in itertools.pairwise((last, *bits)):
                zero = ways.get(0, 0) + (ways.get(1, 0) if before in (bit, None) else 0)
                ways = {0: zero, 1: sum(ways.values())}
            found[kind, heights[-1], OPEN] += cost * ways[0]
            found[kind, heights[-1], HELD_ONE if bits[-1] else HELD_ZERO] += cost * ways[1]
    return found


@pytest.mark.parametrize("length", [5, 9])
@pytest.mark.parametrize("q", [Fraction(2, 5), Fraction(2, 3)], ids=str)
def test_runs_are_their_ends_up_to_the_bound(q, length):
    """Also into and out of the states beyond the window."""
    enclosed, ends = enclosed_powers(rational_decay(q), WINDOW, 96), []
    for context, powers in zip(rounding_pair(96), enclosed, strict=True):
        with gmpy2.context(context):
            ends.append((powers.settling(), powers.leaving()))
            rest = remainder(powers, length)
    centre, widths = WINDOW + 1, []
    for start in range(-WINDOW - 2, WINDOW + 3):
        walks = all_walks(q, length, start)
        row = min(max(start + centre, 0), 2 * centre)
        into = defaultdict(Fraction)
        for (before, height, behind), weight in walks.items():
            column = min(max(height + centre, 0), 2 * centre)
            into[before, column, behind] += weight
        for (before, column, behind), weight in into.items():
            inner = 0 < row < 2 * centre and 0 < column < 2 * centre
            lo, hi = (
                fraction(settling[row, before]) * fraction(leaving[column, behind]) if inner else 0
                for settling, leaving in ends
            )
            bound = fraction(rest[row, column])
            assert lo - bound <= weight <= hi + bound
            widths.append(bound)
    assert min(widths) > 0


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.29, 1.09])
def test_weights_decrease_beyond_the_window(rate):
    q = math.exp(-rate)
    for bits in (16, 53, 128):
        assert q ** window_of(rate, bits) * (1 + q) < 1


def fraction(number):
    return Fraction(*map(int, number.as_integer_ratio()))


@pytest.mark.parametrize("q", [Fraction(2, 5), Fraction(2, 3)], ids=str)
def test_the_bound_falls_with_the_length_as_the_difference_does(q):
    powers = enclosed_powers(rational_decay(q), WINDOW, 96)[1]
    ratios = []
    for length in (6, 10):
        with gmpy2.context(rounding_pair(96)[1]):
            settling, leaving, rest = powers.settling(), powers.leaving(), remainder(powers, length)
        centre = WINDOW + 1
        weight = all_walks(q, length, -1)[OPEN, 1, OPEN]
        limit = fraction(settling[centre - 1, OPEN]) * fraction(leaving[centre + 1, OPEN])
        ratios.append(abs(weight - limit) / fraction(rest[centre - 1, centre + 1]))
    assert 0 < ratios[1] < ratios[0] < 2 * ratios[1]
