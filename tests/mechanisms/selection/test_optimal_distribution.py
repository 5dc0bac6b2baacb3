import itertools
from fractions import Fraction

import mpmath
import pytest

from dp_transforms.mechanisms.selection import OptimalSelection
from dp_transforms.mechanisms.selection.keep_distribution import OptimalDistribution
from tests.mechanisms.selection.shared import SPLIT, as_mpf, drop_recursion

GRID = [
    *itertools.product((0.001, 0.1, 4.0), (1e-15, 1e-2)),
    *itertools.product((0.03, 1.0), (1e-10, 1e-5)),
    *itertools.product((20.0,), (1e-15, 1e-10, 1e-2)),
    # Counts beyond any table.
    (1e-7, 1e-12),
]
# Where it grows linearly, and where a large delta is spent at once.
AT_THE_EDGE = [
    *itertools.product((0,), (0.75, 0.5, 0.3, 0.1, 1e-3)),
    *itertools.product((1,), (0.5, 0.6, 0.999)),
]


@pytest.mark.parametrize(("epsilon", "delta"), [*GRID, *AT_THE_EDGE])
def test_the_closed_form_is_the_recursion(epsilon, delta):
    optimal = OptimalDistribution(Fraction(epsilon), Fraction(delta))
    last = min(optimal.saturation + 2, 3000)
    for n, expected in enumerate(itertools.islice(drop_recursion(epsilon, delta), last + 1)):
        with mpmath.workdps(100):
            lo, hi = map(as_mpf, optimal.drop_enclosure(n, 256))
            error = mpmath.mpf(10) ** -70
            assert lo - error <= expected <= hi + error and hi - lo < mpmath.mpf(2) ** -250
        assert (expected == 0) == (n >= optimal.saturation)


def kept_and_dropped(distribution, n):
    return distribution.keep_enclosure(n, 400), distribution.drop_enclosure(n, 400)


def counts_near(marks, last):
    """Up to ``last`` evenly, and all beside the marks."""
    near = {n + i for n in marks for i in range(-12, 13)}
    return sorted(n for n in near | {round(i * last / 150) for i in range(151)} if n >= 0)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_all_four_inequalities_hold(epsilon, delta):
    optimal = OptimalDistribution(Fraction(epsilon), Fraction(delta))
    first, last = optimal.crossover, optimal.saturation
    for n in counts_near((0, first, last), last):
        (keep, drop), (next_keep, next_drop) = (kept_and_dropped(optimal, i) for i in (n, n + 1))
        assert (drop[0] > 0) == (n < last)
        # Where the recursion takes its minimum the inequality is an identity, which no enclosure
        # can tell from a tiny excess: it must be one to 2**-350. Elsewhere it must be certain.
        assert_within(next_keep, keep, epsilon, delta, identity=n + 1 <= first)
        assert_within(drop, next_drop, epsilon, delta, identity=first < n + 1 < last)
        assert_within(keep, next_keep, epsilon, delta)
        assert_within(next_drop, drop, epsilon, delta)


@mpmath.workprec(600)
def assert_within(left, right, epsilon, delta, identity=False):
    """left <= e**epsilon * right + delta."""
    low, high = map(as_mpf, left)
    least, most = (mpmath.exp(epsilon) * as_mpf(end) + delta for end in right)
    if identity:
        tiny = mpmath.mpf(2) ** -350
        assert least - tiny < low <= high < most + tiny
    else:
        assert high <= least


@pytest.mark.parametrize("strategy", SPLIT[1:])
@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_thresholds_keep_all_four_inequalities_too(strategy, epsilon, delta):
    chosen = strategy(Fraction(epsilon), Fraction(delta)).distribution
    for n in counts_near((0, chosen.threshold, 2 * chosen.threshold), 3 * chosen.threshold):
        for pair in zip(*(kept_and_dropped(chosen, i) for i in (n, n + 1)), strict=True):
            for left, right in itertools.permutations(pair):
                assert_within(left, right, epsilon, delta)


def test_delta_zero_keeps_nothing():
    never = OptimalSelection(1, 0)
    assert never.keep_probability(10**9) == 0
    assert never.saturation_count is None and never.median_users is None
