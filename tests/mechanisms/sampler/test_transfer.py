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


def fraction(number):
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


def enclosures(eta, length):
    """For each entry: the exact one, and its enclosures in float64 and in 100 bits."""
    exact, decay = exact_power(gmpy2.mpq(eta.base), length), Decay(base=eta)
    floats = FloatTransfer(decay, WINDOW).matrix(length)
    precise = PreciseTransfer(decay, WINDOW, 100).matrix(length)
    slack = Fraction(floats.error)
    for (a, b), weight in exact.items():
        row, column = a + WINDOW, b + WINDOW
        if column < row:
            continue
        lo, hi, scale = floats.row(row, column - row + 1)
        unit = Fraction(2) ** int(scale[-1])
        in_floats = Fraction(lo[-1]) * (1 - slack) * unit, Fraction(hi[-1]) * (1 + slack) * unit
        in_bits = tuple(fraction(gmpy2.mpq(table[row, column])) for table in precise)
        yield (a, b), weight, in_floats, in_bits


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("eta", ETAS, ids=str)
def test_enclosures_contain_the_exact_power(eta, length):
    for _, weight, (low, high), (lo, hi) in enclosures(eta, length):
        assert low <= weight <= high
        assert high - low <= weight * Fraction(1, 2**44) + Fraction(1e-268)
        assert lo <= weight <= hi
        assert hi - lo <= weight * Fraction(1, 2**90)


@pytest.mark.parametrize("extra", [0, 1, 100])
@pytest.mark.parametrize("eta", ETAS[:2], ids=str)
@pytest.mark.parametrize("bits", [INDEPENDENCE_BITS, 100])
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
            assert (lo == 0 or bits < 100) and hi < Fraction(1, 2**80)


@pytest.mark.parametrize("length", [*LENGTHS, 365, 366, 900])
def test_what_leaves_the_window_is_bounded(length):
    """The exit's column bounds T_n times any messages that fall geometrically above the window."""
    eta, ratio = Eta(3, 2, 1), Fraction(9, 10)
    base = gmpy2.mpq(eta.base)
    decay = Decay(base=eta)
    precise = PreciseTransfer(decay, WINDOW, 64)
    # The last three are long.
    assert precise.long <= 365
    # Far enough above the window for the rest to be negligible beside the bound's slack.
    high = 40
    states = range(-WINDOW, high + 1)
    messages = {d: gmpy2.mpq(ratio ** (d - WINDOW) if d > WINDOW else 0) for d in states}
    for _ in range(length):
        messages = {
            d: base ** abs(d) * messages[d] + base ** abs(d + 1) * messages.get(d + 1, 0)
            for d in states
        }
    bound = precise.exit_weight(1, gmpy2.mpfr(9) / 10, length)
    above = precise.matrix(length)[1][:, -1]
    for state in range(-WINDOW, WINDOW + 1):
        at = state + WINDOW
        assert messages[state] <= gmpy2.mpq(above[at]) * gmpy2.mpq(bound)


@pytest.mark.parametrize("length", [1, 3, 16, 33, 100, 1023, 10**6])
def test_rows_and_products_are_those_of_the_matrix(length):
    """Where no matrix of that length is made, they are put together from powers of two."""
    decay, vector = Decay(Fraction(1, 20)), gmpy2.mpfr(1) / 3
    coarse, fine = (PreciseTransfer(decay, WINDOW, bits) for bits in (128, 200))
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
