import itertools
import operator
from fractions import Fraction

import gmpy2
import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dp_transforms.mechanisms.enclosure import Enclosure, enclosed, exactly

# Numbers with and without bounds of so few bits that are equal to them.
RATIONALS = st.builds(Fraction, st.integers(-(10**12), 10**12), st.just(1) | st.integers(1, 10**12))
ENDS = st.just(Fraction(0)) | st.builds(Fraction, st.integers(0, 10**6), st.integers(1, 10**12))
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
PRECISION = 40


def around(value, below, above):
    return Enclosure(enclosed(value - below, PRECISION)[0], enclosed(value + above, PRECISION)[1])


@pytest.mark.parametrize("sign", OPERATIONS)
@given(RATIONALS, RATIONALS, ENDS, ENDS, st.sampled_from(["both", "right", "left", "rational"]))
def test_every_operation_holds_the_exact_result(sign, x, y, below, above, kind):
    operation = OPERATIONS[sign]
    left = x if kind == "left" else around(x, below, above)
    right = y if kind == "right" else around(y, above, below)
    if kind == "rational":
        right = right.rational()
    if sign == "/":
        assume(y != 0 and (kind == "right" or not right.lower <= 0 <= right.upper))
    lower, upper = operation(left, right)
    assert lower <= operation(x, y) <= upper
    assert operation(exactly(x), exactly(y)) == exactly(operation(x, y))


@pytest.mark.parametrize("sign", OPERATIONS)
def test_operations_on_numbers_that_fill_their_precision(sign):
    """Without any width of their own that would hide a result which is rounded inwards."""
    numbers = [s * Fraction(2**39 + 2 * k + 1, 32**k) for k in range(5) for s in (1, -1)]
    for x, y in itertools.product(numbers, repeat=2):
        lower, upper = OPERATIONS[sign](enclosed(x, PRECISION), enclosed(y, PRECISION))
        assert lower <= OPERATIONS[sign](x, y) <= upper


@given(RATIONALS)
def test_what_is_known_exactly_is_as_narrow_as_its_precision(x):
    lower, upper = enclosed(x, PRECISION)
    assert lower <= x <= upper
    assert gmpy2.mpq(upper) - gmpy2.mpq(lower) <= abs(x) * Fraction(2, 2**PRECISION)
    assert (lower.precision, upper.precision) == (PRECISION, PRECISION)


def test_a_divisor_that_may_be_zero_is_refused():
    with pytest.raises(ZeroDivisionError):
        enclosed(1, PRECISION) / around(Fraction(0), Fraction(1, 9), Fraction(1, 9))


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "sqrt", "erfc"])
@given(st.builds(Fraction, st.integers(1, 10**4), st.integers(1, 10**3)), ENDS, ENDS)
def test_functions_hold_the_value(name, x, below, above):
    assume(x > below)
    lower, upper = getattr(around(x, below, above), name)()
    with mpmath.workprec(400):
        value = getattr(mpmath, name)(mpmath.mpf(x.numerator) / x.denominator)
    assert lower <= gmpy2.mpq(*mpmath.libmp.to_rational(value._mpf_)) <= upper


@given(st.builds(Fraction, st.integers(0, 10**6), st.integers(1, 10**6)), st.integers(0, 40))
def test_powers(x, exponent):
    lower, upper = enclosed(x, PRECISION) ** exponent
    assert lower <= x**exponent <= upper
