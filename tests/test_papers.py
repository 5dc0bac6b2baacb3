"""What the papers state, in their own parameters, beside what is computed here: docs/papers.md."""

import bisect
import itertools
import math
import pathlib

import mpmath
import pytest

from dp_transforms.mechanisms import Eta, ExponentialMechanism
from dp_transforms.mechanisms.partition.restricted import DistanceBoundedPartitionMechanism
from dp_transforms.mechanisms.selection import GaussianSelection, LaplaceSelection, OptimalSelection
from tests.mechanisms.selection.shared import drop_recursion

PAGE = (pathlib.Path(__file__).parents[1] / "docs/papers.md").read_text()

# Blocki, Datta, Bonneau 2016.
EPSILONS_2016 = (8, 4, 2, 1, 0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.002)
DELTA_2016 = 2.0**-100
ROCKYOU = 32_603_388


def mechanism(epsilon):
    return DistanceBoundedPartitionMechanism(max_total=ROCKYOU, delta=DELTA_2016, epsilon=epsilon)


def test_weights_and_delta_prime_are_those_of_2016():
    for epsilon in EPSILONS_2016:
        ours = mechanism(epsilon)
        # exp(-epsilon dist), dist half the L1 distance.
        assert ours.rate == pytest.approx(epsilon / 2, rel=1e-12)
        expected = DELTA_2016 + math.exp(epsilon) * DELTA_2016
        assert expected <= ours.delta_prime <= expected * (1 + 1e-12)
    # They end just above the smallest rate that a release is drawn at.
    with pytest.raises(ValueError, match="epsilon must be at least"):
        mechanism(EPSILONS_2016[-1] / 2)


def test_our_d_is_that_of_lemma_1_where_it_applies():
    root = math.sqrt(ROCKYOU)
    assert DELTA_2016 >= math.exp(1 - root / 2)
    applies = [epsilon for epsilon in EPSILONS_2016 if epsilon > 48 * math.pi**2 / root]
    assert applies == [8, 4, 2, 1, 0.5, 0.25, 0.2, 0.1]
    for epsilon in applies:
        # Without the o(1) in the constants c1 and c2, which is what is left: ours holds without
        # preconditions.
        c1, c2 = 2 * math.pi * math.sqrt(2 / 3), 2
        lemma = (c1 * root - c2 * math.log(DELTA_2016)) / epsilon
        distance = mechanism(epsilon).distance
        assert 1 < distance / lemma < 1.006
        assert f"\n| {epsilon:g} | {lemma:,.0f} | {distance:,} |\n" in PAGE


# Ilvento 2019.


@pytest.mark.parametrize(
    ("x", "y", "z"), [(1, 1, 1), (3, 2, 1), (1, 1, 7), (127, 7, 3), (1023, 10, 2)]
)
@pytest.mark.parametrize(
    ("low", "high", "most"), [(0, 0, 1), (0, 40, 9), (-17, 25, 1000), (-3, -2, 5)]
)
def test_bits_of_lemma_3_4(x, y, z, low, high, most):
    eta = Eta(x, y, z)
    b_x = len(f"{eta.x:b}")
    bits = (max(1, abs(low)) + max(1, abs(high))) * eta.z * (eta.y + b_x) + most
    assert ExponentialMechanism(eta, low, high, max_outcomes=most).precision_bits == bits
    # What the worst case needs is less.
    needed = ExponentialMechanism(eta, low, high, max_outcomes=most, precision="empirical")
    assert needed.precision_bits <= bits


# Desfontaines, Voss, Gipson, Mandayam 2022.


def percentile(epsilon, delta, part):
    """The smallest n with pi(n) >= part, by the recursion of lemma 1."""
    drops = enumerate(drop_recursion(epsilon, delta))
    return next(n for n, drop in drops if drop <= 1 - mpmath.mpf(part))


def ours(strategy, part):
    """The same of a strategy."""
    return bisect.bisect_left(range(1 << 20), part, key=strategy.keep_probability)


def laplace_percentile(epsilon, delta, part):
    """Continuous noise: n + X > 1 - ln(2 delta) / epsilon with probability ``part``."""
    beyond = -math.log(2 * (1 - part)) if part >= 0.5 else math.log(2 * part)
    return 1 - math.log(2 * delta) / epsilon + beyond / epsilon


FIGURES = [
    *[(1.0, 1e-5), (0.1, 1e-10)],
    *itertools.product((0.05, 0.2, 0.5, 2.0, 5.0), [1e-5]),
    *itertools.product((0.1, 1.0), (1e-2, 1e-4, 1e-7, 1e-12)),
]


@pytest.mark.parametrize(("epsilon", "delta"), FIGURES)
def test_curves_of_figures_1_to_3(epsilon, delta):
    optimal, laplace = OptimalSelection(epsilon, delta), LaplaceSelection(epsilon, delta)
    for part in (0.05, 0.5, 0.95):
        assert ours(optimal, part) == percentile(epsilon, delta, part)
        # Discrete noise and a count are within one and a half users of the continuous one.
        assert abs(ours(laplace, part) - laplace_percentile(epsilon, delta, part)) <= 1.5
        assert ours(optimal, part) <= ours(laplace, part)


def test_mid_points_of_figure_4():
    better = []
    for max_partitions in (1, 2, 5, 50):
        # The budget divided by kappa, as in the figure; what is used by default composes better.
        share = (1 / max_partitions, 1e-5 / max_partitions)
        by_kappa = percentile(*share, 0.5)
        assert OptimalSelection(*share).median_users == by_kappa
        assert LaplaceSelection(*share).median_users >= by_kappa
        default = OptimalSelection(1, 1e-5, max_partitions_per_user=max_partitions).median_users
        assert default <= by_kappa
        gaussian = GaussianSelection(1, 1e-5, max_partitions_per_user=max_partitions).median_users
        assert f"| {max_partitions} | {by_kappa:,} | {default:,} | {gaussian:,} |" in PAGE
        better.append(gaussian < by_kappa)
    # Gaussian noise is better from some kappa on, as the figure shows.
    assert better == sorted(better) and not better[0] and better[-1]
