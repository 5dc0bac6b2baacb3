"""Curves through lists, the prior on them, and how well a release tells where it came from."""

import math

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.laws.marginals import conjugate
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.planning import zipf_list
from dp_transforms.postprocessing.smoothing import ROUGHNESS, Curve, fit_smooth_list, thinned
from dp_transforms.sample_data import rockyou

LISTS = {
    "zipf": zipf_list(30_000),
    "rockyou": rockyou(),
    "one item": FrequencyList([7], [1]),
    "singletons": FrequencyList([1], [90]),
    "one frequency": FrequencyList([40], [60]),
}


@pytest.fixture(params=LISTS, name="a_list")
def fixture_a_list(request):
    return LISTS[request.param]


def test_the_curve_goes_through_the_list_at_its_knots(a_list):
    curve = Curve.of(a_list)
    smooth = curve.to_list()
    for one, other in ((a_list, smooth), (conjugate(a_list), conjugate(smooth))):
        ranks = {
            name: np.repeat(found.frequencies, np.minimum(found.multiplicities, 10_000))
            for name, found in (("one", one), ("other", other))
        }
        for knot in curve.knots:
            assert ranks["one"][knot - 1] == ranks["other"][knot - 1]


def test_conjugate_lists_have_conjugate_curves(a_list):
    turned = Curve.of(conjugate(a_list))
    np.testing.assert_allclose(turned.values, Curve.of(a_list).values[::-1])
    assert turned.to_list() == conjugate(Curve.of(a_list).to_list())


def test_other_knots_are_on_the_same_curve():
    curve = Curve.of(zipf_list(30_000))
    other = curve.with_knots_of(40)
    assert len(other.knots) < len(curve.knots)
    # Zipf's law is a straight line, but for its first steps and its end.
    inner = slice(20, 40)
    np.testing.assert_allclose(other.logarithms(60)[inner], curve.logarithms(60)[inner], atol=0.02)


def test_zipf_s_law_does_not_turn():
    # 1 / (i - 1/2) exactly, in both directions.
    counts = [round(100_000 / (i - 0.5)) for i in range(1, 2_000)]
    assert np.abs(Curve.of(FrequencyList.from_counts(counts)).turns()[:20]).max() < 0.02


def test_the_prior_is_that_of_random_turns_and_poisson_ranks():
    """Against turns that are drawn from the model: 20,000 of them, and 6 standard errors."""
    curve = Curve.of(zipf_list(30_000))
    ranks, frequencies = curve.points
    places, rng, draws = ranks - frequencies, np.random.default_rng(1), 20_000
    widths = np.diff(places)
    steps = ROUGHNESS * np.sqrt((widths[:-1] + widths[1:]) / 2)
    slopes = np.cumsum(rng.standard_normal((draws, len(steps))) * steps, axis=1)
    slopes = np.concatenate([np.zeros((draws, 1)), slopes], axis=1)
    # The rank of a Poisson process, as Brownian motion at time 1 / rank.
    times = np.exp(-ranks)
    jumps = rng.standard_normal((draws, len(widths))) * np.sqrt(-np.diff(times))
    turns = np.diff(slopes + jumps / widths, axis=1)
    normal = turns @ curve.prior_factor(ROUGHNESS).T
    covariance = normal.T @ normal / draws
    assert np.abs(covariance - np.eye(len(covariance))).max() < 6 * math.sqrt(2 / draws)


def test_a_sample_has_the_law_of_its_users():
    """Seeded by itself: means and standard deviations of binomials, within six of them."""
    private = FrequencyList([10_000, 3, 1], [1, 4_000, 50_000])
    sample = dict(thinned(private, 18_000))
    kept = 18_000 / private.total
    top = max(sample)
    assert abs(top - 10_000 * kept) < 6 * math.sqrt(10_000 * kept * (1 - kept))
    for count, chance in ((3, kept**3), (2, 3 * kept**2 * (1 - kept))):
        assert abs(sample[count] - 4_000 * chance) < 6 * math.sqrt(4_000 * chance)
    assert thinned(private, private.total) == private


def test_a_reference_of_the_same_shape_leaves_no_turns():
    private = thinned(rockyou(), 1_000_000)
    alone, beside = Curve.of(private), Curve.of(private, private)
    assert np.abs(beside.turns()).max() < 0.01 < 0.1 < np.abs(alone.turns()).max()
    assert beside.with_knots_of(20).reference == beside.reference


@pytest.mark.parametrize(
    ("reference", "left"),
    [
        (None, 0.85),
        pytest.param(thinned(rockyou(), 150_000), 0.5, marks=pytest.mark.slow),
    ],
    ids=["none", "like"],
)
def test_the_curve_is_nearer_than_the_release(reference, left):
    """Seeded. Around the diagonal, where the noise moves releases outwards by a fifth."""
    private = thinned(rockyou(), 100_000)
    mechanism = IntegerPartitionMechanism(epsilon=0.05)
    places = slice(20, 40, 5)
    true = Curve.of(private).logarithms(40)[places]
    found, released = [], []
    for seed in range(2):
        x = mechanism.release(private, tape=InsecureSeededTape(seed))
        found.append(fit_smooth_list(x, mechanism, reference).curve.logarithms(40)[places] - true)
        released.append(Curve.of(x).logarithms(40)[places] - true)
    assert np.mean(released) > 0.15
    assert abs(np.mean(found)) < left * np.mean(released)


def test_deviations_are_of_what_the_release_and_the_prior_leave_open():
    private = thinned(rockyou(), 20_000)
    mechanism = IntegerPartitionMechanism(epsilon=0.1)
    fit = fit_smooth_list(private, mechanism)
    slopes = fit.curve.derivative(lambda curve: curve.logarithms(12))
    first, tenth = fit.deviation(slopes[0]), fit.deviation(slopes[9])
    # The largest frequency alone moves by 1 / c either way.
    assert 0.3 < first * private.frequencies[0] * 0.05 < 1.5
    # Those in the bend are less certain, and the less so, the rougher curves may be.
    assert 1.5 * first < tenth < fit.deviation(slopes[9], 0.2)
