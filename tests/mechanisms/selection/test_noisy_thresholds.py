import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricSelection,
    gaussian,
)
from dp_transforms.mechanisms.selection.keep_distribution import OptimalDistribution
from dp_transforms.mechanisms.selection.threshold_distribution import (
    TruncatedGeometricNoise,
    truncated_geometric_noise,
)
from tests.mechanisms.selection.shared import NOISY, as_mpf, select_with_counts
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

BUDGETS = [(0.01, 1e-6), (0.5, 1e-9), (1.0, 1e-5), (3.0, 0.01), (20.0, 1e-10)]
PUBLIC = TruncatedGeometricSelection(1.0, 1e-3)
K = PUBLIC.distribution.threshold


def geometric_distribution(epsilon, k):
    """Definition 6 in 60 digits, normalised by summation."""
    with mpmath.workdps(60):
        masses = {x: mpmath.exp(-mpmath.mpf(epsilon) * abs(x)) for x in range(-k, k + 1)}
        total = mpmath.fsum(masses.values())
        return {x: mass / total for x, mass in masses.items()}


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_truncated_noise_has_the_smallest_support_that_is_private(epsilon, delta):
    k = truncated_geometric_noise(Fraction(epsilon), Fraction(delta)).k
    distribution = geometric_distribution(epsilon, k)
    with mpmath.workdps(60):
        grown = mpmath.exp(mpmath.mpf(epsilon))
        # Of a shift by one to the right; to the left it is the same.
        spent = (p - grown * distribution.get(x + 1, 0) for x, p in distribution.items())
        assert mpmath.fsum(max(0, p) for p in spent) <= mpmath.mpf(delta)
        assert k == 1 or geometric_distribution(epsilon, k - 1)[k - 1] > mpmath.mpf(delta)


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 1), (1.0, 7), (0.01, 300), (20.0, 3)])
def test_truncated_tails_sum_their_distribution(epsilon, k):
    noise = TruncatedGeometricNoise(Fraction(epsilon), k)
    distribution = geometric_distribution(epsilon, k)
    with mpmath.workdps(60):
        for x in {*range(min(k, 20) + 2), k - 1, k, k + 5} - {-1}:
            expected = mpmath.fsum(p for y, p in distribution.items() if y > x)
            lo, hi = map(as_mpf, noise.tail(x, 180))
            assert lo - mpmath.mpf(10) ** -50 <= expected <= hi + mpmath.mpf(10) ** -50


def test_truncated_noise_is_optimal_where_its_formula_needs_no_rounding():
    grown, k = math.exp(0.7), 9
    # A little more than the delta of a whole k, below which the smallest k would be 10.
    delta = (1 + 1e-13) * (grown - 1) / ((grown + 1) * grown**k - 2)
    noisy = TruncatedGeometricSelection(0.7, delta)
    optimal = OptimalDistribution(Fraction(0.7), Fraction(delta))
    assert noisy.saturation_count == optimal.saturation == 2 * k + 1
    for n in range(2 * k + 2):
        assert noisy.keep_probability(n) == pytest.approx(optimal.keep_probability(n), rel=1e-9)


@pytest.mark.parametrize("strategy", NOISY)
@pytest.mark.parametrize(("epsilon", "delta", "max_partitions"), [(1.0, 1e-3, 1), (0.3, 1e-4, 4)])
def test_names_and_counts_agree_and_so_does_equality(strategy, epsilon, delta, max_partitions):
    chosen = strategy(epsilon, delta, max_partitions)
    distribution, count = chosen.distribution, 30_000
    tape = InsecureSeededTape(11)
    words = tape.words("users", count) % np.uint64(2 * distribution.threshold)
    users = 1 + words.astype(np.int64)
    noise = distribution.noise.sample(tape, "selection", count)
    keep, noisy = select_with_counts(chosen, users, tape)
    assert np.array_equal(noisy, np.where(keep, users + noise, 0))
    # Without counts the same partitions are kept.
    assert np.array_equal(keep, chosen.select(users, tape))
    ties = users + noise == distribution.threshold
    assert np.array_equal(keep[~ties], (users + noise > distribution.threshold)[~ties])
    assert ties.sum() > 100
    assert (distribution.tie == 0) == (strategy is TruncatedGeometricSelection)
    distributions.assert_probability(keep[ties].sum(), ties.sum(), distribution.tie)


@pytest.mark.parametrize("strategy", NOISY[1:])
def test_the_threshold_spends_delta_on_the_only_user_of_a_partition(strategy):
    chosen = strategy(1.0, 1e-6)
    low, high = chosen.keep_enclosure(1, 128)
    assert 0.999e-6 < low <= high <= Fraction(1e-6) and 0 <= chosen.distribution.tie < 1


def noise_delta(shift2, epsilon):
    """The delta of normal noise for a shift of this squared norm, by scipy."""
    if shift2 == 0:
        return max(0.0, 1 - math.exp(epsilon))
    mu = math.sqrt(shift2)
    near, far = (stats.norm.cdf(sign * mu / 2 - epsilon / mu) for sign in (1, -1))
    return near - math.exp(epsilon) * far


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_noise_is_calibrated_analytically(epsilon, delta):
    def excess(log_sigma):
        return noise_delta(math.exp(-2 * log_sigma), epsilon) - delta

    sigma = math.exp(optimize.brentq(excess, -3, 12))
    mu2 = gaussian.largest_mu2(Fraction(epsilon), Fraction(delta))
    assert float(mu2) ** -0.5 == pytest.approx(sigma, rel=1e-6)
    more = mu2 * (1 + Fraction(1, 2**30))
    least, most = (gaussian.gaussian_delta(x, Fraction(epsilon)) for x in (mu2, more))
    assert least <= Fraction(delta) < most


def test_tails():
    chosen = LaplaceSelection(0.5, 1e-4)
    ratio, tie = math.exp(-0.5), float(chosen.distribution.tie)

    def above(gap):
        return ratio ** (gap + 1) / (1 + ratio) if gap >= 0 else 1 - ratio**-gap / (1 + ratio)

    for n in range(1, 60):
        gap = chosen.distribution.threshold - n
        kept = (1 - tie) * above(gap) + tie * above(gap - 1)
        assert chosen.keep_probability(n) == pytest.approx(kept, rel=1e-11)
    for sigma2 in (Fraction(1, 4), Fraction(3), Fraction(10**6)):
        for x in range(12):
            expected = stats.norm.sf((x + 0.5) / math.sqrt(sigma2))
            tail = gaussian.RoundedGaussian(sigma2).tail(x, 128)[0]
            assert float(tail) == pytest.approx(expected, rel=1e-9)
    assert gaussian.gaussian_delta(0, Fraction(1)) == 0
    for shift2, at in ((0, Fraction(-1)), (1, 0)):
        assert float(gaussian.gaussian_delta(shift2, at)) == pytest.approx(noise_delta(shift2, at))


@pytest.mark.parametrize("probability", [0.49, 0.1, 1e-5, 1e-40])
def test_upper_quantile_is_on_the_private_side(probability):
    z = float(gaussian.upper_quantile(Fraction(probability)))
    assert z == pytest.approx(stats.norm.isf(probability), rel=1e-8, abs=1e-8)
    assert stats.norm.sf(z) <= probability * (1 + 1e-12)


@pytest.mark.parametrize("max_partitions", [1, 3, 20])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.05, 0.02), (8.0, 1e-3)])
def test_gaussian_noise_and_threshold_share_the_budget(epsilon, delta, max_partitions):
    """Every mix of shared and new partitions, both orders, by scipy."""
    chosen = GaussianSelection(epsilon, delta, max_partitions)
    new, spent = chosen.keep_probability(1), []
    for fresh in range(max_partitions + 1):
        stay = (1 - new) ** fresh
        shift2 = (max_partitions - fresh) / chosen.sigma**2
        added = 1 - stay + stay * noise_delta(shift2, epsilon - math.log(stay))
        removed = noise_delta(shift2, epsilon + math.log(stay))
        spent.append(max(added, removed))
    assert max(spent) <= delta
    # Noise and threshold use the whole of it each, unless it is large.
    assert delta > 0.01 or min(spent[0], spent[-1]) > 0.99 * delta


@pytest.mark.parametrize("strategy", NOISY)
def test_noise_that_64_bits_do_not_hold_is_refused(strategy):
    with pytest.raises(ValueError, match=r"raise epsilon|take a larger epsilon"):
        _ = strategy(1e-18, "1e-30").distribution


def test_thresholds_of_public_partitions():
    lowest, highest = PUBLIC.public_distribution(-K), PUBLIC.public_distribution(K)
    # No partition with users is missed, or none without is shown.
    assert lowest.keep_probability(1) == 1 > lowest.keep_probability(0) >= 1 - 1e-3
    assert highest.keep_probability(0) == 0
    for n in range(1, 20):
        assert highest.keep_probability(n) == PUBLIC.keep_probability(n)
    for threshold in (-K - 2, K + 1):
        with pytest.raises(ValueError, match=rf"must be an integer in \[-{K + 1}, {K}\]"):
            PUBLIC.public_distribution(threshold)


@pytest.mark.parametrize("threshold", [-3, 0, 2])
def test_public_partitions_stay_within_the_budget(threshold):
    distribution = PUBLIC.public_distribution(threshold)
    keep = np.array([distribution.keep_probability(n) for n in range(40)])
    assert 0 < keep[0] and keep[1] < 1
    for chances in (keep, 1 - keep[::-1]):
        assert (0 <= np.diff(chances)).all()
        assert (chances[1:] <= math.e * chances[:-1] + 1e-3).all()


def test_decisions_and_counts_of_public_partitions_start_at_no_users():
    distribution = PUBLIC.public_distribution(0)
    tape, users = InsecureSeededTape(8), np.zeros(20_000, dtype=np.int64)
    keep, noisy = select_with_counts(distribution, users, tape)
    distributions.assert_probability(keep.sum(), len(users), distribution.keep_enclosure(0, 128))
    assert np.array_equal(keep, distribution.noise.sample(tape, "selection", len(users)) > 0)
    assert noisy[keep].min() == 1
