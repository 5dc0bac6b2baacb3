"""Normalised sampling: exact laws, the number of draws, and no answer from inexact arithmetic."""

from fractions import Fraction

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms.exponential.normalized_sampling import (
    InexactArithmeticError,
    bitwise_sample,
    draw_below,
    normalized_sample,
    require_exact,
    significant_bits,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from tests.statistical import laws


class ScriptedTape:
    """A tape whose numbers are given, and which notes what was read."""

    def __init__(self, numbers):
        self.numbers = [Fraction(n) for n in numbers]
        self.read = []

    def prefix(self, channel, index, bits):
        self.read.append((index, bits))
        return int(self.numbers[index] * 2**bits)


@pytest.mark.parametrize("sampler", [normalized_sample, bitwise_sample])
@pytest.mark.parametrize(
    "weights",
    [
        [1],
        [0.5, 0.25, 0.125, 0.125],
        [Fraction(1, 3), 2, gmpy2.mpq(1, 7), gmpy2.mpfr("0.375"), 1e-3],
        [2**200, 2**200 + 1, 1, 2**199],
        list(range(1, 40)),
    ],
    ids=str,
)
def test_law(sampler, weights):
    tape = InsecureSeededTape(1)
    draws = [sampler(weights, tape, f"choice {i}") for i in range(10_000)]
    exact = [gmpy2.mpq(weight) for weight in weights]
    laws.assert_follows(draws, {i: w / sum(exact) for i, w in enumerate(exact)})


def test_every_number_below_the_total_is_mapped_to_its_interval():
    weights = [3, 1, 4, 1, 2]
    expected = [0] * 3 + [1] + [2] * 4 + [3] + [4] * 2
    for t in range(11):
        # The total is 11, so numbers have 4 bits.
        assert normalized_sample(weights, ScriptedTape([Fraction(t, 16)]), "c") == expected[t]
        assert bitwise_sample(weights, ScriptedTape([Fraction(t, 16)]), "c") == expected[t]
    for rejected in range(11, 16):
        tape = ScriptedTape([Fraction(rejected, 16), 0])
        assert normalized_sample(weights, tape, "c") == 0
        assert [index for index, _ in tape.read] == [0, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 2**300), min_size=1, max_size=6), st.integers(0, 10**6))
def test_both_algorithms_agree_on_every_tape(weights, seed):
    tape = InsecureSeededTape(seed)
    assert normalized_sample(weights, tape, "c") == bitwise_sample(weights, tape, "c")


def test_bitwise_reads_few_bits():
    tape = ScriptedTape([Fraction(1, 3)])
    assert bitwise_sample([2**5000, 2**4990], tape, "c") == 0
    assert tape.read == [(0, 64)]
    # A number next to a boundary needs all of its bits.
    tape = ScriptedTape([Fraction(2**5000 - 1, 2**5001)])
    assert bitwise_sample([2**5000 - 1, 2**4990], tape, "c") == 1
    assert tape.read[-1] == (0, 5001)


def test_a_total_that_is_a_power_of_two_rejects_nothing():
    tape = InsecureSeededTape(2)
    for i in range(200):
        assert draw_below(256, tape, f"{i}") == tape.prefix(f"{i}", 0, 8)


def test_more_than_min_retries_draws_are_made_with_probability_below_two_to_the_minus_k():
    # The total just above a power of two is the worst case: nearly half of the draws are rejected.
    total, tape, calls = 2**20 + 1, InsecureSeededTape(3), 4_000
    rejection = 1 - Fraction(total, 2**21)
    for k in (1, 2, 4, 8):
        more = 0
        for i in range(calls):
            counted = CountingTape(tape)
            draw_below(total, counted, f"{k} {i}", min_retries=k)
            assert counted.draws >= k
            more += counted.draws > k
        laws.assert_probability(more, calls, rejection**k)
        assert rejection**k < Fraction(1, 2**k)


class CountingTape:
    def __init__(self, tape):
        self.tape, self.draws = tape, 0

    def prefix(self, *address):
        self.draws += 1
        return self.tape.prefix(*address)


@given(st.integers(1, 1000), st.integers(1, 8))
def test_min_retries_do_not_change_the_answer(seed, retries):
    tape = InsecureSeededTape(seed)
    weights = [5, 6, 6]
    assert normalized_sample(weights, tape, "c") == normalized_sample(weights, tape, "c", retries)


@given(st.integers(0, 2**200), st.integers(2, 220))
def test_inexact_means_what_it_means_to_mpfr(value, precision):
    try:
        with gmpy2.context(precision=precision, trap_inexact=True):
            gmpy2.mpfr(gmpy2.mpz(value), precision)
            fits = True
    except gmpy2.InexactResultError:
        fits = False
    if fits:
        require_exact(value, precision)
    else:
        with pytest.raises(InexactArithmeticError, match=r"needs \d+ bits"):
            require_exact(value, precision)
    assert fits == (significant_bits(value) <= precision)


@pytest.mark.parametrize("sampler", [normalized_sample, bitwise_sample])
def test_insufficient_precision_gives_no_answer(sampler):
    # 1 + 2**-60 has 61 bits: at 60 bits the small weight would vanish from the sum.
    weights = [1, Fraction(1, 2**60)]
    tape = ScriptedTape([0])
    with pytest.raises(InexactArithmeticError):
        sampler(weights, tape, "c", precision=60)
    assert tape.read == []
    assert sampler(weights, tape, "c", precision=61) == 0


@pytest.mark.parametrize(
    "weights", [[], [1, 0], [1, -1], [float("nan")], [float("inf"), 1], ["a"], [None]], ids=str
)
@pytest.mark.parametrize("sampler", [normalized_sample, bitwise_sample])
def test_bad_weights(sampler, weights):
    with pytest.raises(ValueError, match="weights must"):
        sampler(weights, InsecureSeededTape(1), "c")


def test_min_retries_must_be_positive():
    with pytest.raises(ValueError, match="min_retries must be at least 1"):
        normalized_sample([1], InsecureSeededTape(1), "c", min_retries=0)
