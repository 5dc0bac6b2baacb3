"""Guessing metrics against hand-computed lists, the definitions on written-out lists, and print."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing.guessing_metrics import (
    _guesswork_and_rate,
    alpha_guesswork_bits,
    success_rate,
    success_rate_bits,
)
from dp_transforms.sample_data import yahoo

counts_lists = st.lists(st.integers(1, 12), min_size=1, max_size=12)
alphas = st.fractions(Fraction(1, 60), 1, max_denominator=60)


def written_out(counts):
    """Probabilities p_1 >= p_2 >= ... as exact fractions, one per item."""
    return [Fraction(c, sum(counts)) for c in sorted(counts, reverse=True)]


def test_hand_computed_list():
    # p = 4/8, 2/8, 1/8, 1/8.
    counts = FrequencyList([4, 2, 1], [1, 1, 2])
    assert [success_rate(counts, beta) for beta in (1, 2, 3, 4, 5)] == [0.5, 0.75, 0.875, 1, 1]
    assert success_rate_bits(counts, 1) == 1
    assert success_rate_bits(counts, 2) == pytest.approx(math.log2(2 / 0.75))
    # alpha = 1: 1/2 * 1 + 1/4 * 2 + 1/8 * (3 + 4) = 15/8; alpha = 3/4: 1/2 * 1 + 1/2 * 2 = 3/2.
    # lg(2 * 15/8 / 1 - 1) + lg 1, and lg(2 * 3/2 / (3/4) - 1) + lg(1 / (5/4)).
    assert alpha_guesswork_bits(counts, 1) == pytest.approx(math.log2(11 / 4))
    assert alpha_guesswork_bits(counts, 0.75) == pytest.approx(math.log2(3 / 1.25))


@pytest.mark.parametrize("items", [1, 2, 1000, 10**9])
def test_every_metric_of_a_uniform_list_is_its_size_in_bits(items):
    uniform = FrequencyList([3], [items])
    expected = pytest.approx(math.log2(items), abs=1e-9)
    for guesses in {1, math.ceil(items / 3), items}:
        assert success_rate_bits(uniform, guesses) == expected
    for alpha in (1e-9, 0.25, 1 / 3, 1):
        assert alpha_guesswork_bits(uniform, alpha) == expected


@given(counts_lists, st.integers(1, 15), alphas)
def test_definitions_on_the_written_out_list(counts, guesses, alpha):
    p = written_out(counts)
    frequency_list = FrequencyList.from_counts(counts)

    rate = sum(p[:guesses])
    assert success_rate(frequency_list, guesses) == float(rate)
    assert success_rate_bits(frequency_list, guesses) == pytest.approx(math.log2(guesses / rate))

    mu = next(j for j in range(1, len(p) + 1) if sum(p[:j]) >= alpha)

    # Bonneau's own form of G_alpha, which the implementation does not use.
    reached = sum(p[:mu])
    work = (1 - reached) * mu + sum(i * q for i, q in enumerate(p[:mu], start=1))
    bits = math.log2(2 * work / reached - 1) + math.log2(1 / (2 - reached))
    assert alpha_guesswork_bits(frequency_list, alpha) == pytest.approx(bits, abs=1e-9)


@given(counts_lists, alphas)
def test_monotone(counts, alpha):
    frequency_list = FrequencyList.from_counts(counts)
    bits = [success_rate_bits(frequency_list, b) for b in range(1, len(counts) + 2)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(bits))
    assert bits[0] <= alpha_guesswork_bits(frequency_list, alpha) + 1e-9


def test_ten_to_the_nine_items_and_totals_beyond_doubles():
    # 2**60 + 1 users: a double cannot hold the sums, and 10**9 items cannot be written out in
    # time. A second guess at the first list is needed for the last user alone.
    counts = FrequencyList([2**60, 1], [1, 1])
    assert alpha_guesswork_bits(counts, Fraction(2**60, 2**60 + 1)) == pytest.approx(0, abs=1e-15)
    # A mean of 1/2 * 1 + 1/2 * (1 + mean of 1..10**9) guesses.
    work = 1 + (10**9 + 1) / 4
    long_tail = FrequencyList([10**9, 1], [1, 10**9])
    assert alpha_guesswork_bits(long_tail, 1) == pytest.approx(math.log2(2 * work - 1), rel=1e-12)


def test_yahoo_row_of_table_iii():
    """Blocki, Datta and Bonneau (NDSS 2016), Table III, "All"; the list is itself a release."""
    passwords = yahoo()
    row = [success_rate_bits(passwords, beta) for beta in (1, 10, 100)]
    row += [alpha_guesswork_bits(passwords, alpha) for alpha in (0.25, 0.5)]
    assert row == pytest.approx([6.5, 9.1, 11.4, 17.6, 21.6], abs=0.1)


@pytest.mark.parametrize("alpha", [0, -0.5, 1.01, float("nan"), float("inf"), "half"])
def test_alpha_outside_the_unit_interval_is_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        alpha_guesswork_bits(FrequencyList([1], [1]), alpha)


def test_what_has_no_metrics_is_refused():
    with pytest.raises(ValueError, match="frequency_list is empty"):
        success_rate_bits(FrequencyList(), 1)
    with pytest.raises(ValueError, match="guesses must be at least 1, got 0"):
        success_rate(FrequencyList([1], [1]), 0)


def test_alpha_is_taken_at_its_decimal_value():
    # The double next to 0.1 is above one tenth and would ask for a second guess.
    ten = FrequencyList([1], [10])
    assert _guesswork_and_rate(ten, 0.1)[1] == Fraction(1, 10)
