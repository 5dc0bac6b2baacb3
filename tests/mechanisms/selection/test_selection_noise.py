"""The noise of the threshold strategies: fast draws against exact tails."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.threshold_distribution import TruncatedGeometricNoise
from tests import noise_checks

TRUNCATED = [
    TruncatedGeometricNoise(Fraction(1), 1),
    TruncatedGeometricNoise(Fraction(1), 11),
    TruncatedGeometricNoise(Fraction(20), 3),
    TruncatedGeometricNoise(Fraction(1, 1000), 6000),
    TruncatedGeometricNoise(Fraction(1, 10**6), 500),
]
GAUSSIANS = [
    RoundedGaussian(Fraction(1, 4)),
    RoundedGaussian(Fraction(1000, 7)),
    RoundedGaussian(Fraction(10**11, 7)),
    RoundedGaussian(Fraction(2**90)),
]
NOISES = [*TRUNCATED, *GAUSSIANS]


@pytest.mark.parametrize("noise", TRUNCATED, ids=str)
def test_floats_enclose_truncated_tails(noise):
    noise_checks.assert_floats_enclose_tails(noise, min(noise.k - 1, 45 / noise.epsilon - 1))


@pytest.mark.parametrize("noise", GAUSSIANS, ids=str)
def test_floats_enclose_the_rounded_gaussian(noise):
    noise_checks.assert_floats_enclose_tails(noise, 9.3 * math.sqrt(noise.sigma2) - 0.5)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_fast_draws_equal_exact_ones(noise):
    noise_checks.assert_fast_draws_equal_exact_ones(noise)


@settings(max_examples=60, deadline=None)
@given(
    noise=st.sampled_from(NOISES),
    place=st.fractions(0, 1),
    offset=st.integers(-2, 2),
    positive=st.booleans(),
    further_bits=st.integers(1, 2**64 - 1),
)
def test_words_near_a_threshold(noise, place, offset, positive, further_bits):
    x = int(place * (noise.k if noise in TRUNCATED else 9 * math.isqrt(math.ceil(noise.sigma2))))
    noise_checks.assert_right_near_a_threshold(noise, x, offset, positive, further_bits)
