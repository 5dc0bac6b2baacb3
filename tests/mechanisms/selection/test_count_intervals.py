import functools
import itertools
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution

STRATEGIES = {
    "laplace": LaplaceSelection(1, 1e-5),
    "laplace, small epsilon": LaplaceSelection(0.1, 1e-3),
    "laplace, pre-threshold": LaplaceSelection(1, 1e-3, 2, pre_threshold=7),
    "gaussian": GaussianSelection(1, 1e-5, 10),
    "gaussian, large delta": GaussianSelection(2, 0.2, 3),
    "truncated": TruncatedGeometricSelection(1, 1e-5),
    "truncated, several": TruncatedGeometricSelection(0.5, 1e-3, 3),
}
BITS = 128


@functools.cache
def above(noise, x):
    """P[X > x], exactly but for 2**-128."""
    return gmpy2.mpq(noise.tail(x, BITS)[0] if x >= 0 else 1 - noise.tail(-x - 1, BITS)[1])


def coverage(distribution, ends, users, reach=250):
    """The probability that an interval holds, given that the partition is named, by the
    definition of the noisy counts that name it."""
    threshold, tie = distribution.threshold, distribution.tie
    first = max(threshold + (tie == 0), users - reach)
    noisy = np.arange(first, max(threshold, users) + reach)
    beyond = [above(distribution.noise, y - users) for y in [first - 1, *noisy.tolist()]]
    masses = [more - less for more, less in itertools.pairwise(beyond)]
    if first == threshold:
        masses[0] *= tie
    low, high = ends(noisy)
    held = (low <= users) & (users <= high)
    return float(np.dot(held, masses) / sum(masses))


@pytest.mark.parametrize(
    ("strategy", "confidence"),
    [
        *((strategy, 0.95) for strategy in STRATEGIES.values()),
        *((STRATEGIES[name], 0.5) for name in ("laplace, pre-threshold", "gaussian, large delta")),
    ],
)
def test_every_number_of_users_is_covered_given_that_it_is_named(strategy, confidence):
    distribution, hidden = strategy.distribution, strategy.pre_threshold - 1

    def ends(noisy):
        low, high = strategy.count_intervals(noisy + hidden, confidence)
        return low - hidden, high - hidden

    step = 1 + distribution.threshold // 20
    numbers = [*range(1, 2 * distribution.threshold + 20, step), 5 * distribution.threshold + 300]
    assert min(coverage(distribution, ends, n) for n in numbers) >= confidence - 1e-12


def test_names_of_public_partitions_are_covered():
    strategy = TruncatedGeometricSelection(1, 1e-3)
    for threshold in (-strategy.distribution.threshold, -2, 0, strategy.distribution.threshold):
        distribution = strategy.public_distribution(threshold)
        named = [users for users in range(30) if users or distribution.keep_probability(0)]
        assert min(coverage(distribution, distribution.count_intervals, n) for n in named) >= 0.95
        low, high = distribution.count_intervals(np.array([threshold + 1]))
        assert low[0] == min(named) <= high[0]


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_ends_are_those_of_the_definition(strategy):
    distribution = strategy.distribution
    noisy = np.array([*range(1, 40), 10**6]) + distribution.threshold
    low, high = distribution.count_intervals(noisy, 0.9)
    (beyond,) = set((high - noisy).tolist())
    miss = gmpy2.mpq(1, 20)
    assert above(distribution.noise, beyond) <= miss < above(distribution.noise, beyond - 1)

    def is_left(y, users):
        named = gmpy2.mpq(distribution.keep_enclosure(users, 200)[0])
        return above(distribution.noise, y - users - 1) > miss * named

    for y, n in zip(noisy.tolist(), low.tolist(), strict=True):
        assert is_left(y, n) and (n == 1 or not is_left(y, n - 1))


@pytest.mark.slow
def test_ends_of_large_noise_are_in_order_and_cover_every_number_of_users():
    # Of noise of 500 users low is computed at some counts, and holds for those after them.
    distribution = ThresholdDistribution(RoundedGaussian(Fraction(500**2)), 2250, Fraction(1, 2))
    noisy = np.arange(2250, 15_000)
    low, high = distribution.count_intervals(noisy)
    assert (np.diff(low) >= 0).all() and (np.diff(high) == 1).all() and low[0] == 1
    assert noisy[-1] - low[-1] == high[-1] - noisy[-1] == 980
    for users in (1, 1250, 3000):
        assert coverage(distribution, distribution.count_intervals, users, reach=4000) >= 0.95


def test_faults_are_named():
    laplace, truncated = STRATEGIES["laplace"], STRATEGIES["truncated"]
    for confidence in (0, 1, -0.5, float("nan")):
        with pytest.raises(ValueError, match="confidence must be"):
            laplace.count_intervals(np.array([50]), confidence)
    for strategy, threshold in ((laplace, 12), (truncated, 11)):
        with pytest.raises(ValueError, match=f"a noisy count is below the threshold {threshold}"):
            strategy.count_intervals(np.array([50, 11]))
    low, high = laplace.count_intervals(np.array([], dtype=np.int64))
    assert low.shape == high.shape == (0,)
