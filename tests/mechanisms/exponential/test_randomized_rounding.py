import math
from decimal import Decimal
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms.exponential import round_at_random
from tests.cases import refused
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape, NearlyUndecidable

TAPE = InsecureSeededTape(1)


@pytest.mark.parametrize("value", [0.25, -0.25, 2.9, -7.1, 1e-3, 5.0, -0.5])
def test_the_probability_is_the_fractional_part(value):
    rounded = round_at_random(np.full(20_000, value), -10, 10, TAPE, f"float {value}")
    floor, up = divmod(Fraction(value), 1)
    distributions.assert_follows(rounded, {floor: 1 - up, floor + 1: up})


@given(
    st.lists(st.floats(-100, 100) | st.floats(-1e-300, 1e-300), min_size=1, max_size=20),
    st.integers(0, 1000),
)
def test_floats_and_fractions_round_alike(values, seed):
    tape = InsecureSeededTape(seed)
    by_floats = round_at_random(values, -50, 60, tape, "c")
    by_fractions = round_at_random([Fraction(v) for v in values], -50, 60, tape, "c")
    assert (by_floats == by_fractions).all()
    clamped = np.clip(values, -50, 60)
    assert ((abs(by_floats - clamped) < 1) | (abs(clamped) < 1e-10)).all()


def rounded(value, word, further):
    """A number between 0 and 1 rounded by a uniform one of these 128 bits."""
    uniform = Fraction(word << 64 | further, 2**128)
    tape = NearlyUndecidable(1, "c", 0, uniform, 128)
    return round_at_random(np.array([value]), 0, 1, tape, "c").item()


def test_equality_in_64_bits_is_settled_by_further_bits():
    # 2**-64 * 1.5: the leading word of the fractional part is 1, and a half is left over.
    value = 1.5 * 2.0**-64
    assert rounded(value, 0, 2**64 - 1) == rounded(value, 1, 2**63 - 1) == 1
    assert rounded(value, 1, 2**63) == rounded(value, 2, 0) == 0
    # U < 1/2 is strict: at U = 1/2 exactly the number is not rounded up.
    assert rounded(0.5, 2**63, 0) == 0
    assert rounded(0.5, 2**63 - 1, 2**64 - 1) == 1


@pytest.mark.parametrize(
    "values",
    [
        *[[3, -4, 9], [3, -(10**40), 10**40], (3.0, -4.0, 9.0)],
        *[np.array([3, -4, 9], dtype=kind) for kind in (np.int8, np.float32)],
        [Fraction(3), Decimal(-4), gmpy2.mpz(9)],
        [np.int64(3), np.float32(-4), gmpy2.mpfr(9)],
    ],
)
def test_integers_of_any_type_are_clamped_and_need_no_tape(values):
    for limits, expected in (((-4, 9), [3, -4, 9]), ((0, 5), [3, 0, 5])):
        rounded = round_at_random(values, *limits, None, "c")
        assert rounded.tolist() == expected and rounded.dtype == np.int64
    large = np.array([2**64 - 1, 5], dtype=np.uint64)
    assert round_at_random(large, 0, 2**62, None, "c").tolist() == [2**62, 5]


test_errors_do_not_repeat_values = refused(
    lambda values: round_at_random(values, 0, 10, TAPE, "c"),
    *(([1, bad], "finite") for bad in (-math.inf, Decimal("NaN"), gmpy2.mpfr("nan"))),
    *(([bad, 0.5], "finite") for bad in (math.nan, math.inf)),
    *(([bad], f"type {type(bad).__name__}") for bad in ("1", [1, 2], None, 1 + 2j, True)),
    (np.array([True]), "real numbers, got one of type bool"),
    (np.array([2**-60], np.longdouble) + 1, "type longdouble"),
    (np.zeros((2, 2)), "one-dimensional"),
)


def test_fractions_need_a_tape():
    for values in ([0.5], [Fraction(1, 2)]):
        with pytest.raises(ValueError, match="must be integers"):
            round_at_random(values, 0, 10, None, "c")
