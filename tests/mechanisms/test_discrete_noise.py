import itertools
import math
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import DiscreteLaplace, Eta, TwoSidedGeometric
from dp_transforms.mechanisms.discrete_noise import RELATIVE_ERROR
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.threshold_distribution import TruncatedGeometricNoise
from tests.cases import refused, slow_unless
from tests.tapes import InsecureSeededTape

SMALL = [
    *map(DiscreteLaplace, (Fraction(1, 3), 1, 20.5)),
    *map(TwoSidedGeometric, (Eta(1, 1, 1), Eta(13, 4, 2))),
]
LARGE = [*map(DiscreteLaplace, (513, 10**7, 2**48)), TwoSidedGeometric(Eta(2**48 - 1, 48, 1))]
TRUNCATED = [
    TruncatedGeometricNoise(Fraction(epsilon), k)
    for epsilon, k in ((1, 1), (1, 11), (20, 3), ("1/1000", 6000), ("1/1000000", 500))
]
GAUSSIANS = [RoundedGaussian(Fraction(s)) for s in ("1/4", "1000/7", "100000000000/7", 2**90)]
UNBOUNDED = [*SMALL, *LARGE]
NOISES = [*UNBOUNDED, *TRUNCATED, *GAUSSIANS]


def deviation(noise):
    """The standard deviation, of probabilities in proportion to q**|x|, rounded up."""
    if isinstance(noise, TwoSidedGeometric):
        q, rest = float(noise.eta.base), float(1 - noise.eta.base)
    else:
        q, rest = math.exp(-1 / noise.scale), -math.expm1(-1 / noise.scale)
    return math.ceil(math.sqrt(2 * q) / rest)


SCALES = {noise: deviation(noise) for noise in UNBOUNDED}


@pytest.mark.parametrize("noise", SMALL, ids=str)
def test_tails_and_probabilities_enclose_the_definition(noise):
    """By closed forms, in MPFR at nearest rounding."""
    with gmpy2.context(precision=300):
        if isinstance(noise, TwoSidedGeometric):
            ratio = gmpy2.mpfr(noise.eta.base)
        else:
            ratio = gmpy2.exp(-1 / gmpy2.mpq(noise.scale))
        tails = {x: ratio ** (x + 1) / (1 + ratio) for x in (0, 1, 2, 5, 17, 60)}
        chances = {x: ratio ** abs(x) * (1 - ratio) / (1 + ratio) for x in (-7, -1, 0, 1, 2, 19)}
    for (x, tail), precision in itertools.product(tails.items(), (64, 128)):
        lo, hi = noise.tail(x, precision)
        assert lo <= tail <= hi and hi - lo <= gmpy2.mpq(1, 2**precision)
    for x, chance in chances.items():
        lo, hi = noise.probability(x)
        assert lo <= chance <= hi and hi - lo <= 2.0**-64


@pytest.mark.parametrize(
    ("noise", "reach"),
    [
        *((noise, 30 * SCALES[noise]) for noise in LARGE),
        *((noise, min(noise.k - 1, 45 / noise.epsilon - 1)) for noise in TRUNCATED),
        *((noise, 9.3 * math.sqrt(noise.sigma2) - 0.5) for noise in GAUSSIANS),
    ],
    ids=str,
)
def test_floats_enclose_the_tail(noise, reach):
    """The floats that decide are as near to the tails, out to ``reach``, as they claim to be."""
    points = np.minimum([0, 1, 2, *np.linspace(0, reach, 300)], int(reach)).astype(np.int64)
    for x, value in zip(points.tolist(), noise._float_tails(points).tolist(), strict=True):
        lo, hi = noise.tail(x, 160)
        assert abs(value / lo - 1) < RELATIVE_ERROR / 2 and abs(value / hi - 1) < RELATIVE_ERROR / 2


@pytest.mark.parametrize("noise", [DiscreteLaplace(1), RoundedGaussian(Fraction(1))], ids=str)
def test_a_tail_far_out_is_enclosed_by_short_numbers(noise):
    # Each had a denominator of 2**30 bits.
    for x, expected in ((2**48, 0), (-(2**48), 1)):
        for end in noise.above(x, 128):
            assert abs(end - expected) < 2.0**-1000
            assert end.denominator.bit_length() <= 2**20 + 1
    lower, upper = noise.above(2**48, 128)
    assert lower == 0 < upper and noise.above(-(2**48), 128) == (1 - upper, 1)
    # Where a tail has fewer bits, it is as it was.
    assert noise.above(30, 128) == noise.tail(30, 128).rational()


@pytest.mark.parametrize(
    "noise", slow_unless(NOISES, [*SMALL, LARGE[0], *TRUNCATED, *GAUSSIANS]), ids=str
)
def test_fast_draws_equal_exact_ones(noise):
    tape = InsecureSeededTape(3)
    for i, draw in enumerate(noise.sample(tape, "test", 200).tolist()):
        assert draw == noise._exact_draw(lambda bits, i=i: tape.prefix("test", i, bits))


@st.composite
def noises_and_points(draw):
    noise = draw(st.sampled_from(NOISES))
    if noise in UNBOUNDED:
        return noise, int(draw(st.fractions(0, 5)) * SCALES[noise])
    end = noise.k if noise in TRUNCATED else 9 * math.isqrt(math.ceil(noise.sigma2))
    return noise, int(draw(st.fractions(0, 1)) * end)


@settings(max_examples=120)
@given(noises_and_points(), st.integers(-2, 2), st.booleans(), st.integers(1, 2**64 - 1))
def test_words_near_a_threshold(noise_and_point, offset, positive, further_bits):
    """A word that is ``offset`` from the tail at x decides rightly, with 64 more bits behind it.
    These bits are not all 0: no noise without bounds could settle a number that is 0 for ever."""
    noise, x = noise_and_point
    threshold = int(gmpy2.floor(gmpy2.mpq(noise.tail(x, 200)[0]) * 2**64)) + offset
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


def test_draw_i_depends_on_channel_and_index_only():
    noise, tape = DiscreteLaplace(3), InsecureSeededTape(4)
    draws = noise.sample(tape, "a", 500)
    assert (draws[100:200] == noise.sample(tape, "a", 100, start=100)).all()
    assert (draws != noise.sample(tape, "b", 500)).any()
    assert draws.dtype == np.int64 and draws.shape == (500,)
    assert noise.sample(tape, "a", 0).shape == (0,)


def test_neighbours_of_a_count_are_within_epsilon():
    # Noise of scale 1 / epsilon: every output's probability moves by at most e**epsilon.
    noise, bound = DiscreteLaplace(Fraction(5, 2)), gmpy2.exp(gmpy2.mpq(2, 5))
    for x in range(-20, 20):
        here, there = noise.probability(x, 100), noise.probability(x + 1, 100)
        assert max(here[0] / there[1], there[0] / here[1]) <= bound


test_errors = refused(
    lambda make: make(),
    (lambda: DiscreteLaplace(0), "scale must be a positive"),
    (lambda: DiscreteLaplace(float("nan")), "scale must be a positive"),
    (lambda: DiscreteLaplace(2.0**49), r"scale must be at most 2\*\*48"),
    (lambda: TwoSidedGeometric(0.5), "eta must be an Eta"),
    (lambda: TwoSidedGeometric(Eta(2**49 - 1, 49, 1)), r"must be at least 2\*\*-48"),
    (lambda: DiscreteLaplace(1).from_words([1], None), "uint64"),
    (lambda: DiscreteLaplace(1).from_words(np.zeros(3), None), "uint64"),
)
