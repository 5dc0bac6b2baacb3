"""The noise of the threshold strategies: fast draws and tables against exact tails."""

import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms.float_tails import RELATIVE_ERROR
from dp_transforms.mechanisms.partition_selection import normal
from dp_transforms.mechanisms.partition_selection.normal import RoundedGaussian
from dp_transforms.mechanisms.partition_selection.truncated_geometric import (
    TruncatedGeometricNoise,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape

TRUNCATED = [
    TruncatedGeometricNoise(Fraction(1), 1),
    TruncatedGeometricNoise(Fraction(1), 11),
    TruncatedGeometricNoise(Fraction(20), 3),
    TruncatedGeometricNoise(Fraction(1, 1000), 6000),
    TruncatedGeometricNoise(Fraction(1, 10**6), 500),
]
SMALL_GAUSSIANS = [RoundedGaussian(Fraction(1, 4)), RoundedGaussian(Fraction(1000, 7))]
LARGE_GAUSSIANS = [
    RoundedGaussian(Fraction(512**2) + Fraction(1, 3)),
    RoundedGaussian(Fraction(10**11, 7)),
    RoundedGaussian(Fraction(2**90)),
]
NOISES = [*TRUNCATED, *SMALL_GAUSSIANS, *LARGE_GAUSSIANS]


@pytest.mark.parametrize("noise", TRUNCATED, ids=str)
@pytest.mark.parametrize("precision", [64, 128])
def test_the_chain_of_truncated_tails_encloses_each_one(noise, precision):
    chain = noise._tails(precision)
    assert len(chain) == noise.k + 1 and chain[-1] == (0, 0)
    for x in {0, 1, noise.k // 2, noise.k - 1}:
        lo, hi = chain[x]
        # Bits enough to tell a wrong end of the enclosure.
        exact_lo, exact_hi = noise.tail(x, 4 * precision)
        assert lo <= exact_lo and exact_hi <= hi
        assert hi - lo <= gmpy2.mpq(1, 2**precision)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_fast_draws_equal_exact_ones(noise):
    tape = InsecureSeededTape(3)
    draws = noise.sample(tape, "test", 150)
    for i, draw in enumerate(draws.tolist()):
        assert draw == noise._exact_draw(lambda bits, i=i: tape.prefix("test", i, bits))


@settings(max_examples=60, deadline=None)
@given(
    noise=st.sampled_from(NOISES),
    place=st.fractions(0, 1),
    offset=st.integers(-2, 2),
    positive=st.booleans(),
    # Not a number that is 0 for ever, which no noise without bounds could settle.
    further_bits=st.integers(1, 2**64 - 1),
)
def test_words_near_a_threshold(noise, place, offset, positive, further_bits):
    x = int(place * (noise.k if noise in TRUNCATED else 9 * math.isqrt(math.ceil(noise.sigma2))))
    threshold = int(gmpy2.mpq(noise.tail(x, 200)[0]) * 2**64) + offset
    folded = min(max(threshold, 0), 2**63 - 1) << 64 | further_bits
    number = (1 << 128) - 1 - folded if positive else folded

    def extend(element, bits):
        return number << bits - 128 if bits > 128 else number >> 128 - bits

    (draw,) = noise.from_words(np.array([number >> 64], dtype=np.uint64), extend).tolist()
    # The magnitude is the number of tails above V, of which the first 128 bits are known.
    assert draw == 0 or (draw > 0) == positive
    v = gmpy2.mpq(folded, 1 << 128)
    assert noise.tail(abs(draw), 256)[0] <= v + gmpy2.mpq(1, 1 << 128)
    assert draw == 0 or noise.tail(abs(draw) - 1, 256)[1] >= v


@pytest.mark.parametrize("noise", LARGE_GAUSSIANS, ids=str)
def test_floats_enclose_the_rounded_gaussian(noise):
    reach = 9.3 * math.sqrt(noise.sigma2)
    points = np.concatenate([[0, 1, 2], np.linspace(0, reach, 300)]).astype(np.int64)
    values = noise._cached_float_tail(points)
    for x, value in zip(points.tolist(), values.tolist(), strict=True):
        lo, hi = noise.tail(x, 160)
        assert abs(value / lo - 1) < RELATIVE_ERROR / 2 and abs(value / hi - 1) < RELATIVE_ERROR / 2


def test_the_table_and_the_floats_agree(monkeypatch):
    tape, variance = InsecureSeededTape(6), Fraction(600**2)
    by_floats = RoundedGaussian(variance).sample(tape, "test", 20_000)
    monkeypatch.setattr(normal, "_TABLE_SIGMA2", 1000**2)
    by_table = RoundedGaussian(variance)
    assert by_table._cached_float_tail is None
    assert np.array_equal(by_table.sample(tape, "test", 20_000), by_floats)
