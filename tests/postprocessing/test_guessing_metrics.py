import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing.guessing_metrics import (
    Attack,
    alpha_guesswork,
    alpha_guesswork_bits,
    guesses_to_reach,
    guessing_curve,
    min_entropy,
    rational_attack,
    success_rate,
    success_rate_bits,
)
from tests.cases import refused

counts_lists = st.lists(st.integers(1, 12), min_size=1, max_size=12)
alphas = st.fractions(Fraction(1, 60), 1, max_denominator=60)


def written_out(counts):
    """Probabilities p_1 >= p_2 >= ... as exact fractions, one per item."""
    return [Fraction(c, sum(counts)) for c in sorted(counts, reverse=True)]


@pytest.mark.parametrize("items", [1, 2, 10, 1000, 10**9])
def test_every_metric_of_a_uniform_list_is_its_size_in_bits(items):
    uniform = FrequencyList([3], [items])
    expected = pytest.approx(math.log2(items), abs=1e-9)
    assert min_entropy(uniform) == expected
    for guesses in {1, math.ceil(items / 3), items}:
        assert success_rate_bits(uniform, guesses) == expected
    for alpha in (1e-9, 0.25, 1 / 3, 1):
        assert alpha_guesswork_bits(uniform, alpha) == expected
    # The double next to 0.1 is above one tenth, and would ask for a second guess of ten.
    assert guesses_to_reach(uniform, 0.1) == math.ceil(items / 10)


@given(counts_lists, st.integers(1, 15), alphas)
def test_definitions_on_the_written_out_list(counts, guesses, alpha):
    p = written_out(counts)
    frequency_list = FrequencyList.from_counts(counts)
    assert min_entropy(frequency_list) == pytest.approx(-math.log2(p[0]))
    rate = sum(p[:guesses])
    assert success_rate(frequency_list, guesses) == float(rate)
    assert success_rate_bits(frequency_list, guesses) == pytest.approx(math.log2(guesses / rate))
    curve, rates = guessing_curve(frequency_list)
    assert len(curve) == len(frequency_list) and rates[-1] == 1
    assert rates.tolist() == [float(sum(p[:g])) for g in curve.tolist()]
    assert np.all(np.diff(rates) > 0)
    mu = next(j for j in range(1, len(p) + 1) if sum(p[:j]) >= alpha)
    assert guesses_to_reach(frequency_list, alpha) == mu
    # Bonneau's own form of G_alpha, which the implementation does not use.
    reached = sum(p[:mu])
    work = (1 - reached) * mu + sum(i * q for i, q in enumerate(p[:mu], start=1))
    assert alpha_guesswork(frequency_list, alpha) == float(work)
    bits = math.log2(2 * work / reached - 1) + math.log2(1 / (2 - reached))
    assert alpha_guesswork_bits(frequency_list, alpha) == pytest.approx(bits, abs=1e-9)


@given(counts_lists, st.fractions(0, 60, max_denominator=20))
@example([50] + [1] * 50, Fraction(30))  # All 51 pay together, but the second alone does not.
@example([50] + [1] * 50, Fraction(2))  # A tie of no guess with one.
def test_the_rational_attack_is_the_best_of_all(counts, value):
    p = written_out(counts)

    def profit(guesses):
        cost = sum(1 - sum(p[:j]) for j in range(guesses))
        return value * sum(p[:guesses]) - cost

    best = max(range(len(p) + 1), key=profit)  # the first of equals
    expected = Attack(best, float(sum(p[:best])), float(profit(best)))
    assert rational_attack(FrequencyList.from_counts(counts), value) == expected


def test_ten_to_the_nine_items_and_totals_beyond_doubles():
    # A double cannot hold the sums, and nobody can write out the items in time.
    counts = FrequencyList([2**60, 1], [1, 1])
    assert guesses_to_reach(counts, Fraction(2**60, 2**60 + 1)) == 1
    assert guesses_to_reach(counts, 1) == 2
    long_tail = FrequencyList([10**9, 1], [1, 10**9])
    assert guesses_to_reach(long_tail, 0.75) == 1 + 5 * 10**8
    # 1/2 * 1 + 1/2 * (1 + mean of 1..10**9)
    assert alpha_guesswork(long_tail, 1) == pytest.approx(1 + (10**9 + 1) / 4, rel=1e-12)


ONE = FrequencyList([1], [1])
NO_ALPHAS = (0, -0.5, 1.01, float("nan"), float("inf"), "half")
METRICS = (guesses_to_reach, alpha_guesswork, alpha_guesswork_bits)
test_what_has_no_metrics_is_refused = refused(
    lambda metric, *arguments: metric(*arguments),
    *((metric, ONE, alpha, "alpha") for metric in METRICS for alpha in NO_ALPHAS),
    (min_entropy, FrequencyList(), "frequency_list is empty"),
    (success_rate, ONE, 0, "guesses must be a positive integer, got 0"),
    (rational_attack, ONE, -1, "value_per_cost must not be negative"),
)
