import math
from decimal import Decimal
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_transforms.mechanisms import Eta, IntegerPartitionMechanism, OptimalSelection

parameters = st.integers(1, 80).flatmap(
    lambda y: st.tuples(st.integers(1, 2**y - 1), st.just(y), st.integers(1, 20))
)
etas = parameters.map(lambda xyz: Eta(*xyz))


@given(parameters)
def test_base_is_the_exact_power(parameters):
    x, y, z = parameters
    eta = Eta(x, y, z)
    assert eta.base == gmpy2.mpq(Fraction(x, 2**y) ** z)
    # Its denominator is 2**bits exactly: x is odd, and equal bases make equal parameters.
    assert eta.x % 2 == 1 and eta.base.denominator == 2**eta.bits


@given(etas, st.integers(2, 300))
@example(Eta(2**500 - 1, 500, 1), 60)
def test_log_enclosure_holds_and_is_tight(eta, precision):
    lo, hi = eta.log_enclosure(precision)
    assert lo.precision == hi.precision == precision
    with gmpy2.context(precision=precision + 700):
        exact = -gmpy2.log(gmpy2.mpfr(eta.x) / 2**eta.y) * eta.z
        assert lo < exact < hi
        assert hi - lo <= 8 * exact / gmpy2.mpfr(2) ** precision


@given(etas)
def test_epsilon_is_the_next_float_above(eta):
    lo, _ = eta.log_enclosure(200)
    assert gmpy2.next_below(gmpy2.mpfr(eta.epsilon)) <= lo < gmpy2.mpfr(eta.epsilon)


@given(st.one_of(st.floats(1e-6, 50), st.fractions(Fraction(1, 10**6), 50, max_denominator=10**9)))
def test_from_epsilon_default_is_close_and_never_above(epsilon):
    lo, hi = Eta.from_epsilon(epsilon).log_enclosure(200)
    assert gmpy2.mpq(epsilon) * gmpy2.mpq(999, 1000) <= lo < hi <= gmpy2.mpq(epsilon)


def test_from_epsilon_against_all_parameters_of_few_bits():
    sizes = [(y, z) for y in range(1, 7) for z in range(1, 6 // y + 1)]
    candidates = [Eta(x, y, z) for y, z in sizes for x in range(1, 2**y)]
    for epsilon in [0.02, 0.3, 0.5, 1, 2, 3, 4, 10]:
        best = min(c.base for c in candidates if c.log_enclosure(99)[1] <= epsilon)
        assert Eta.from_epsilon(epsilon, max_bits=6).base == best


def test_from_epsilon_takes_numbers_for_what_they_are():
    assert len({Eta.from_epsilon(half) for half in (0.5, Decimal("0.5"), Fraction(1, 2))}) == 1
    # At ln 2 rounded up, eta = 1 is within; at ln 2 rounded down, it is not.
    below, above = Eta(1, 1, 1).log_enclosure(53)
    assert Eta.from_epsilon(float(above), max_bits=20).base == gmpy2.mpq(1, 2)
    assert Eta.from_epsilon(float(below), max_bits=20).base > gmpy2.mpq(1, 2)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, None, "1"])
def test_bad_integers_are_named(bad):
    for name in "xyz":
        with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
            Eta(**({"x": 1, "y": 2, "z": 1} | {name: bad}))


def test_what_is_out_of_range_is_named():
    for x, y in ((2, 1), (3, 1), (8, 3)):
        with pytest.raises(ValueError, match=r"x must be below 2\*\*y"):
            Eta(x, y, 1)
    for bad in (0, -1.0, math.nan, math.inf, None, "one", True):
        with pytest.raises(ValueError, match="epsilon must be a positive finite number"):
            Eta.from_epsilon(bad)
    with pytest.raises(ValueError, match="max_bits must be a positive integer"):
        Eta.from_epsilon(1, max_bits=0)
    with pytest.raises(ValueError, match="y must be at most 10,000"):
        Eta(1, 10**12, 1)
    assert repr(Eta(2**10_000 - 1, 10_000, 1)) and Eta(1 << 10**4, 10**4 + 1, 1) == Eta(1, 1, 1)
    for arguments in ((1e300,), (1, 10**12)):
        with pytest.raises(ValueError, match="up to 10,000 bits"):
            Eta.from_epsilon(*arguments)


def test_too_few_bits_says_how_many_are_needed():
    for bits in (10, 19):
        with pytest.raises(ValueError, match=rf"max_bits={bits} .* at least 20"):
            Eta.from_epsilon(1e-6, max_bits=bits)
    assert Eta.from_epsilon(1e-6, max_bits=20).epsilon < 1e-6


def test_integers_of_numpy_are_integers():
    assert IntegerPartitionMechanism(epsilon=np.int8(3)) == IntegerPartitionMechanism(epsilon=3)
    assert OptimalSelection(np.int64(1), 1e-5).median_users == 12
