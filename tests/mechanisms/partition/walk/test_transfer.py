"""Transfer weights against powers of the one-step matrix, in exact rationals."""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import as_fraction
from dp_transforms.mechanisms.partition.walk.precise import PreciseTransfer
from dp_transforms.mechanisms.partition.walk.transfer import (
    INDEPENDENCE_BITS,
    FloatTransfer,
    independence_length,
)

WINDOW = 5
LENGTHS = (1, 2, 3, 4, 7, 12, 33)
ETAS = [Eta(1, 1, 1), Eta(3, 2, 1), Eta(15, 4, 1)]


def exact_power(base, length):
    """T_length on the window; a path never leaves it and comes back, so cutting it off is exact."""
    states = range(-WINDOW, WINDOW + 1)
    power = {(a, b): gmpy2.mpq(a == b) for a in states for b in states}
    for _ in range(length):
        power = {
            (a, b): base ** abs(b) * (power[a, b] + power.get((a, b - 1), 0))
            for a in states
            for b in states
        }
    return power


def enclosures(eta, length):
    """For each entry: the exact one, and its enclosures in float64 and in 100 bits."""
    exact, decay = exact_power(gmpy2.mpq(eta.base), length), Decay(base=eta)
    floats = FloatTransfer(decay, WINDOW).matrix(length)
    transfer = PreciseTransfer(decay, WINDOW, 100)
    identity = np.array([[gmpy2.mpfr(a == b) for b in range(11)] for a in range(11)])
    # Step by step, by matrices of powers of two, or by that of all long runs.
    carried = [transfer.forward(length, identity, bound) for bound in (0, 1)]
    slack = Fraction(floats.error)
    for (a, b), weight in exact.items():
        row, column = a + WINDOW, b + WINDOW
        if column < row:
            continue
        in_floats = Fraction(0), Fraction(0)
        if column - row <= length:
            unit = Fraction(2) ** floats.exponents.item(row, column - row)
            lo, hi = map(Fraction, floats.bounds[:, row, column - row].tolist())
            in_floats = lo * (1 - slack) * unit, hi * (1 + slack) * unit
        for table in (transfer.matrix(length), carried):
            yield (a, b), weight, in_floats, [as_fraction(side[row, column]) for side in table]


@pytest.mark.parametrize(
    ("eta", "length"),
    [*((ETAS[0], length) for length in LENGTHS), (ETAS[1], 12), (ETAS[2], 7), (ETAS[2], 33)],
    ids=str,
)
def test_enclosures_contain_the_exact_power(eta, length):
    for _, weight, (low, high), (lo, hi) in enclosures(eta, length):
        assert low <= weight <= high
        assert high - low <= weight * Fraction(1, 2**44) + Fraction(1e-268)
        assert lo <= weight <= hi
        assert hi - lo <= weight * Fraction(1, 2**90)


@pytest.mark.parametrize(
    ("eta", "bits", "extra"),
    [
        (ETAS[0], INDEPENDENCE_BITS, 0),
        (ETAS[0], 100, 1),
        (ETAS[1], INDEPENDENCE_BITS, 100),
        (ETAS[1], 100, 0),
    ],
    ids=str,
)
def test_all_long_runs_share_an_enclosure(eta, bits, extra):
    """From the wrong side of zero, and to it, runs weigh next to nothing."""
    length = independence_length(Decay(base=eta), WINDOW, bits) + extra
    for (a, b), weight, (low, high), (lo, hi) in enclosures(eta, length):
        assert low <= weight <= high
        assert lo <= weight <= hi
        if a <= 0 <= b:
            assert high - low <= weight * Fraction(1, 2**44)
            assert hi - lo <= weight * Fraction(1, 2**90)
        else:
            assert low == 0 and high < Fraction(1, 2**80)
            assert hi < Fraction(1, 2**80)
