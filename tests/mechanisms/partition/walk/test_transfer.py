"""Transfer weights against powers of the one-step matrix, in exact rationals."""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import as_fraction
from dp_transforms.mechanisms.partition.walk.precise import PreciseTransfer
from dp_transforms.mechanisms.partition.walk.transfer import FloatTransfer, independence_length

WINDOW = 5
HALF, OTHER, LARGE = Eta(1, 1, 1), Eta(3, 2, 1), Eta(15, 4, 1)
SHORT = [(HALF, length) for length in (1, 2, 3, 4, 7, 12, 33)]
SHORT += [(OTHER, 12), (LARGE, 7), (LARGE, 33)]
LONG = [
    (eta, independence_length(Decay(base=eta), WINDOW, bits) + extra)
    for eta, bits, extra in [(HALF, 70, 0), (HALF, 100, 1), (OTHER, 70, 100), (OTHER, 100, 0)]
]


def exact_power(base, length):
    """T_length on the window; a path never leaves it and comes back, so cutting it off is exact."""
    states = range(-WINDOW, WINDOW + 1)
    step = [[base ** abs(b) if b - a in (0, 1) else gmpy2.mpq(0) for b in states] for a in states]
    return np.linalg.matrix_power(np.array(step, dtype=object), length)


def enclosures(eta, length):
    """For each entry: the exact one, and its enclosures in float64 and in 100 bits."""
    exact, decay = exact_power(eta.base, length), Decay(base=eta)
    floats = FloatTransfer(decay, WINDOW).matrix(length)
    transfer = PreciseTransfer(decay, WINDOW, 100)
    identity = np.array([[gmpy2.mpfr(a == b) for b in range(11)] for a in range(11)])
    # Step by step, by matrices of powers of two, or by that of all long runs.
    carried = [transfer.forward(length, identity, bound) for bound in (0, 1)]
    slack = Fraction(floats.error)
    for row, column in zip(*np.triu_indices(2 * WINDOW + 1), strict=True):
        in_floats = Fraction(0), Fraction(0)
        if column - row <= length:
            unit = Fraction(2) ** floats.exponents.item(row, column - row)
            lo, hi = map(Fraction, floats.bounds[:, row, column - row].tolist())
            in_floats = lo * (1 - slack) * unit, hi * (1 + slack) * unit
        for table in (transfer.matrix(length), carried):
            bounds = [as_fraction(side[row, column]) for side in table]
            yield row <= WINDOW <= column, exact[row, column], in_floats, bounds


@pytest.mark.parametrize(("eta", "length"), SHORT + LONG, ids=str)
def test_enclosures_contain_the_exact_power(eta, length):
    """Long runs share one: from the wrong side of zero, and to it, they weigh next to nothing."""
    short = (eta, length) in SHORT
    for crosses, weight, (low, high), (lo, hi) in enclosures(eta, length):
        assert low <= weight <= high
        assert lo <= weight <= hi
        if short or crosses:
            assert high - low <= weight * Fraction(1, 2**44) + short * Fraction(1e-268)
            assert hi - lo <= weight * Fraction(1, 2**90)
        else:
            assert low == 0 and max(high, hi) < Fraction(1, 2**80)
