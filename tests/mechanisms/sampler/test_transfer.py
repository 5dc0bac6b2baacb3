"""Transfer weights against powers of the one-step matrix, in exact rationals."""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.transfer import INDEPENDENCE_BITS, independence_length

WINDOW = 5
LENGTHS = (1, 2, 3, 4, 7, 12, 33)
RATIOS = [(Eta(1, 1, 1), Eta(1, 1, 1)), (Eta(3, 2, 1), Eta(1, 2, 1)), (Eta(7, 3, 1), Eta(15, 4, 1))]


def exact_power(positive, negative, length):
    """T_length on the window; a path never leaves it and comes back, so cutting it off is exact."""

    def weight(state):
        return positive**state if state >= 0 else negative**-state

    states = range(-WINDOW, WINDOW + 1)
    power = {(a, b): gmpy2.mpq(a == b) for a in states for b in states}
    for _ in range(length):
        power = {
            (a, b): weight(b) * (power[a, b] + power.get((a, b - 1), 0))
            for a in states
            for b in states
        }
    return power


def fraction(number):
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


def enclosures(positive, negative, length):
    """For each entry: the exact one, and its enclosures in float64 and in 100 bits."""
    exact = exact_power(gmpy2.mpq(positive.base), gmpy2.mpq(negative.base), length)
    decays = Decay(base=positive), Decay(base=negative)
    floats = FloatTransfer(*decays, WINDOW).matrix(length)
    precise = PreciseTransfer(*decays, WINDOW, 100).matrix(length)
    slack = Fraction(floats.error)
    for (a, b), weight in exact.items():
        row, column = a + WINDOW, b + WINDOW
        if column < row:
            continue
        lo, hi, scale = floats.row(row, column - row + 1)
        assert scale == 0
        other_lo, other_hi, _ = floats.column(row, column)
        assert (lo[-1], hi[-1]) == (other_lo[0], other_hi[0])
        in_floats = Fraction(lo[-1]) * (1 - slack), Fraction(hi[-1]) * (1 + slack)
        in_bits = tuple(fraction(gmpy2.mpq(table[row, column])) for table in precise)
        yield (a, b), weight, in_floats, in_bits


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("positive", "negative"), RATIOS, ids=str)
def test_enclosures_contain_the_exact_power(positive, negative, length):
    for _, weight, (low, high), (lo, hi) in enclosures(positive, negative, length):
        assert low <= weight <= high
        assert high - low <= weight * Fraction(1, 2**44) + Fraction(1e-280)
        assert lo <= weight <= hi
        assert hi - lo <= weight * Fraction(1, 2**90)


@pytest.mark.parametrize("extra", [0, 1, 100])
@pytest.mark.parametrize(("positive", "negative"), RATIOS[:2], ids=str)
@pytest.mark.parametrize("bits", [INDEPENDENCE_BITS, 100])
def test_all_long_runs_share_an_enclosure(positive, negative, bits, extra):
    """From the wrong side of zero, and to it, runs weigh next to nothing."""
    decays = Decay(base=positive), Decay(base=negative)
    length = independence_length(max(decays, key=lambda q: q.base.base), WINDOW, bits) + extra
    for (a, b), weight, (low, high), (lo, hi) in enclosures(positive, negative, length):
        assert low <= weight <= high
        assert lo <= weight <= hi
        if a <= 0 <= b:
            assert high - low <= weight * Fraction(1, 2**44)
            assert hi - lo <= weight * Fraction(1, 2**90)
        else:
            assert low == 0 and high < Fraction(1, 2**80)
            assert (lo == 0 or bits < 100) and hi < Fraction(1, 2**80)


@pytest.mark.parametrize("length", [*LENGTHS, 365, 366, 900])
def test_what_leaves_the_window_is_bounded(length):
    """The exit's column bounds T_n times any messages that fall geometrically above the window."""
    eta, ratio = Eta(3, 2, 1), Fraction(9, 10)
    base = gmpy2.mpq(eta.base)
    decay = Decay(base=eta)
    transfer = FloatTransfer(decay, decay, WINDOW)
    # The last three are long.
    assert transfer.long <= 365
    # Far enough above the window for the rest to be negligible beside the bound's slack.
    high = 40
    states = range(-WINDOW, high + 1)
    messages = {d: gmpy2.mpq(ratio ** (d - WINDOW) if d > WINDOW else 0) for d in states}
    for _ in range(length):
        messages = {
            d: base ** abs(d) * messages[d] + base ** abs(d + 1) * messages.get(d + 1, 0)
            for d in states
        }
    exit_weight = transfer.exit_weight(1.0, float(ratio), length)
    column = transfer.matrix(length).hi[:, -1]
    precise = PreciseTransfer(decay, decay, WINDOW, 64)
    bound = precise.exit_weight(1, gmpy2.mpfr(9) / 10, length)
    above = precise.matrix(length)[1][:, -1]
    for state in range(-WINDOW, WINDOW + 1):
        at = state + WINDOW
        assert messages[state] <= Fraction(column[at]) * Fraction(exit_weight)
        assert messages[state] <= gmpy2.mpq(above[at]) * gmpy2.mpq(bound)


@pytest.mark.parametrize("length", [1, 3, 16, 33, 100, 1023, 10**6])
def test_rows_and_products_are_those_of_the_matrix(length):
    """Where no matrix of that length is made, they are put together from powers of two."""
    decays, vector = (Decay(Fraction(1, 20)), Decay(Fraction(1, 15))), gmpy2.mpfr(1) / 3
    coarse, fine = (PreciseTransfer(*decays, WINDOW, bits) for bits in (128, 200))
    messages = np.array([vector] * coarse.size + [gmpy2.mpfr(0)], dtype=object)
    matrices = fine.matrix(length)
    products = [coarse.apply(length, messages.copy(), bound) for bound in (0, 1)]
    for start in range(coarse.size):
        lower, upper = (coarse.row(length, start, bound) for bound in (0, 1))
        sums = [gmpy2.mpq(0), gmpy2.mpq(0)]
        for state in range(coarse.size):
            lo, hi = (matrix[start, state] for matrix in matrices)
            assert lower[state] <= hi and lo <= upper[state]
            sums = [sums[0] + gmpy2.mpq(lo), sums[1] + gmpy2.mpq(hi)]
        assert gmpy2.mpq(products[0][start]) <= sums[1] * gmpy2.mpq(vector)
        assert sums[0] * gmpy2.mpq(vector) <= gmpy2.mpq(products[1][start])
