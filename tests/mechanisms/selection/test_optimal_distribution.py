"""The optimal distribution against its recursion, its inequalities, and the paper's figures."""

import itertools
from fractions import Fraction

import gmpy2
import mpmath
import pytest

from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.selection import (
    LaplaceSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.keep_distribution import OptimalDistribution
from tests.mechanisms.selection.shared import as_mpf, drop_probability, drop_recursion

GRID = [
    *((0.001, delta) for delta in (1e-15, 1e-2)),
    *((0.03, delta) for delta in (1e-10, 1e-5)),
    *((0.1, delta) for delta in (1e-15, 1e-2)),
    *((1.0, delta) for delta in (1e-10, 1e-5)),
    *((4.0, delta) for delta in (1e-15, 1e-2)),
    *((20.0, delta) for delta in (1e-15, 1e-10, 1e-2)),
]
# Where it grows linearly, and where a large delta is spent at once.
AT_THE_EDGE = [
    *((0, delta) for delta in (0.75, 0.5, 0.3, 0.1, 1e-3)),
    *((1, delta) for delta in (0.5, 0.6, 0.999)),
]


def distribution(epsilon, delta):
    return OptimalDistribution(Fraction(epsilon), Fraction(delta))


@pytest.mark.parametrize(("epsilon", "delta"), [*GRID, *AT_THE_EDGE])
def test_the_closed_form_is_the_recursion(epsilon, delta):
    optimal = distribution(epsilon, delta)
    last = min(optimal.saturation + 2, 3000)
    for n, expected in enumerate(itertools.islice(drop_recursion(epsilon, delta), last + 1)):
        lo, hi = optimal.drop_enclosure(n, 256)
        with mpmath.workdps(100):
            error = mpmath.mpf(10) ** -70
            assert as_mpf(lo) - error <= expected <= as_mpf(hi) + error
            assert as_mpf(hi) - as_mpf(lo) < mpmath.mpf(2) ** -250
        assert (expected == 0) == (n >= optimal.saturation)


def kept_and_dropped(distribution, n):
    return distribution.keep_enclosure(n, 400), distribution.drop_enclosure(n, 400)


def counts_near(marks, last):
    """Up to ``last`` evenly, and all beside the marks."""
    near = {n + i for n in marks for i in range(-12, 13)}
    return sorted(n for n in near | {round(i * last / 150) for i in range(151)} if n >= 0)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_all_four_inequalities_hold(epsilon, delta):
    optimal = distribution(epsilon, delta)
    first, last = optimal.crossover, optimal.saturation
    for n in counts_near((0, first, last), last):
        (keep, drop), (next_keep, next_drop) = (kept_and_dropped(optimal, i) for i in (n, n + 1))
        # Where the recursion takes its minimum the inequality is an identity, which no enclosure
        # can tell from a tiny excess: it must be one to 2**-350. Elsewhere it must be certain.
        assert_within(next_keep, keep, epsilon, delta, identity=n + 1 <= first)
        assert_within(drop, next_drop, epsilon, delta, identity=first < n + 1 < last)
        assert_within(keep, next_keep, epsilon, delta)
        assert_within(next_drop, drop, epsilon, delta)


def assert_within(left, right, epsilon, delta, identity=False):
    """left <= e**epsilon * right + delta."""
    down, up = rounding_pair(600)
    least = down.add(down.mul(down.exp(gmpy2.mpfr(epsilon)), right[0]), gmpy2.mpq(delta))
    if not identity:
        assert gmpy2.mpq(left[1]) <= gmpy2.mpq(least)
        return
    most = up.add(up.mul(up.exp(gmpy2.mpfr(epsilon)), right[1]), gmpy2.mpq(delta))
    tiny = gmpy2.mpq(1, gmpy2.mpz(1) << 350)
    assert gmpy2.mpq(least) - tiny < gmpy2.mpq(left[0]) <= gmpy2.mpq(left[1])
    assert gmpy2.mpq(left[1]) < gmpy2.mpq(most) + tiny


@pytest.mark.parametrize("strategy", [TruncatedGeometricSelection, LaplaceSelection])
@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_thresholds_keep_all_four_inequalities_too(strategy, epsilon, delta):
    chosen = strategy(epsilon, delta).distribution
    for n in counts_near((0, chosen.threshold, 2 * chosen.threshold), 3 * chosen.threshold):
        for pair in zip(*(kept_and_dropped(chosen, i) for i in (n, n + 1)), strict=True):
            for left, right in itertools.permutations(pair):
                assert_within(left, right, epsilon, delta)


def test_delta_zero_keeps_nothing():
    never = OptimalSelection(1, 0)
    assert never.keep_probability(10**9) == 0
    assert never.saturation_count is None and never.median_users is None


def test_counts_beyond_any_table_are_decided_too():
    tiny = distribution(1e-7, 1e-12)
    drops = [drop_probability(tiny, n) for n in (10**6, 10**7, 10**8, tiny.saturation - 1)]
    assert drops == sorted(drops, reverse=True)
    # The linear part: pi(n) is about n delta while n epsilon is small.
    assert tiny.keep_probability(1000) == pytest.approx(1000e-12, rel=1e-3)
    assert (
        drop_probability(tiny, tiny.saturation - 1) > 0 == drop_probability(tiny, tiny.saturation)
    )
