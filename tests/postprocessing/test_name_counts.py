import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import DiscreteLaplace, FrequencyList
from dp_transforms.mechanisms.selection import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.gaussian import RoundedGaussian
from dp_transforms.mechanisms.selection.threshold_distribution import TruncatedGeometricNoise
from dp_transforms.postprocessing.name_counts import (
    CountModel,
    CountsAfterSelection,
    NameCounts,
    ThresholdedCounts,
    agreeing,
    log_probability,
)
from tests.list_strategies import frequency_lists

NOISES = {
    "laplace": DiscreteLaplace(Fraction(7, 2)),
    "truncated": TruncatedGeometricNoise(Fraction(1, 2), 9),
    "gaussian": RoundedGaussian(Fraction(20)),
    "small gaussian": RoundedGaussian(Fraction(1, 4)),
}


def poisson(number, mean):
    return math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_probabilities_of_noise_are_the_exact_ones(noise):
    exact = [float(noise.probability(x, 128)[0]) for x in range(13)]
    ratios = np.exp(log_probability(noise, np.arange(13.0)) - log_probability(noise, np.zeros(1)))
    np.testing.assert_allclose(ratios, np.array(exact) / exact[0], rtol=1e-9, atol=1e-30)
    np.testing.assert_array_equal(
        log_probability(noise, -np.arange(13.0)), log_probability(noise, np.arange(13.0))
    )


@pytest.mark.parametrize("kept", [1.0, 0.6])
@pytest.mark.parametrize("least", [0, 1, 4])
def test_estimates_are_those_of_bayes(kept, least):
    """Beside the sum over all means and true counts, with the moments of dropped users."""
    means = np.geomspace(2, 14, 31)
    weights = 1 / means**2
    rates = np.minimum(1, kept + 0.02 * means)
    model = CountModel(means, weights, rates)
    noise = NOISES["laplace"]
    how = CountsAfterSelection(noise)
    if least:
        how = ThresholdedCounts(LaplaceSelection(2 / Fraction(7), 1e-3, pre_threshold=least))
        noise = how.strategy.distribution.noise
    noisy = np.array([20, 4, 20, 9])
    total, first, second = np.zeros(4), np.zeros(4), np.zeros(4)
    likelihood = [
        np.array([float(noise.probability(int(y) - count)[0]) for y in noisy])
        for count in range(60)
    ]
    for (mean, weight, rate), count in itertools.product(
        zip(means, weights, rates, strict=True), range(least, 60)
    ):
        joint = weight * poisson(count, mean * rate) * likelihood[count]
        # Poisson, of this mean and variance; between partitions the mean differs by a half of it.
        dropped = (1 - rate) * mean
        total += joint
        first += joint * (count + dropped)
        second += joint * ((count + dropped) ** 2 + dropped + (dropped / 2) ** 2)
    counts = NameCounts(noisy, how, model)
    np.testing.assert_allclose(counts.means(), first / total, rtol=1e-6)
    low, high = counts.model_intervals(0.9)
    deviation = np.sqrt(second / total - (first / total) ** 2)
    np.testing.assert_allclose((high - counts.means()) / 1.6448536, deviation, rtol=1e-5)
    assert (low <= counts.means()).all()


def test_the_models_intervals_hold_where_partitions_are_uneven():
    """The same part of the users counts in each partition, or from a fifth to three fifths do. Of
    2,000 intervals of 90%, at least 88% must hold. Intervals that hold exactly as often as they say
    would fail this in one run of 600."""
    random = np.random.default_rng(9)
    means = np.geomspace(20, 2_000, 300)
    users = random.poisson(random.choice(means, 2_000, p=(1 / means) / (1 / means).sum()))
    noise = NOISES["small gaussian"]
    for least, most in ((1 / 3, 1 / 3), (0.2, 0.6)):
        parts = random.uniform(least, most, 2_000)
        model = CountModel(means, 1 / means, np.full(300, (least + most) / 2))
        noisy = np.rint(random.binomial(users, parts) + random.normal(0, 0.5, 2_000))
        counts = NameCounts(noisy.astype(np.int64), CountsAfterSelection(noise), model)
        low, high = counts.model_intervals(0.9)
        assert ((low <= users) & (users <= high)).mean() >= 0.88


@pytest.mark.parametrize(
    "strategy",
    [
        LaplaceSelection(0.1, 1e-4),
        GaussianSelection(0.5, 1e-5, 10),
        TruncatedGeometricSelection(0.2, 1e-5),
    ],
    ids=lambda strategy: strategy.name,
)
def test_there_is_no_winners_curse(strategy):
    """On made-up counts without structure, by distance from the threshold. Their means are within
    four standard errors: false alarms are rarer than one in a thousand."""
    random = np.random.default_rng(5)
    counts = random.zipf(1.8, 300_000).clip(max=10**6)
    size = 1 << 62
    words = random.integers(0, 2**64, len(counts), np.uint64)
    keep, noisy = strategy.decide_with_counts(counts, words, lambda i, bits: size)
    truth, noisy = counts[keep], noisy[keep]
    listed = FrequencyList.from_counts(counts)
    name_counts = NameCounts(noisy, ThresholdedCounts(strategy), CountModel.of_list(listed, 1))
    above = noisy - strategy.distribution.threshold
    scale = np.sqrt(np.mean((noisy - truth) ** 2))
    near = above < scale
    for some, cursed in ((near, True), (above >= scale, False)):
        errors = name_counts.means()[some] - truth[some]
        standard_error = errors.std() / math.sqrt(some.sum())
        assert abs(errors.mean()) < 4 * standard_error
        if cursed:
            assert (noisy - truth)[some].mean() > 8 * standard_error
    assert (errors**2).mean() <= ((noisy - truth)[above >= scale] ** 2).mean() * 1.05


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_counts_after_a_selection_have_intervals_of_the_noise_alone(noise, confidence):
    how = CountsAfterSelection(noise)
    for count in (0, 1, 30):
        noisy = np.arange(count - 80, count + 80)
        low, high = how.intervals(noisy, confidence)
        held = [
            float(noise.probability(int(y) - count)[0])
            for y, least, most in zip(noisy, low, high, strict=True)
            if least <= count <= most
        ]
        assert sum(held) >= confidence - 1e-12
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        how.intervals(np.array([3]), 1)


@settings(max_examples=50)
@given(
    frequency_lists(),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 60)), min_size=1),
)
def test_names_and_a_list_do_not_contradict_each_other(listed, names):
    """For any list, and any estimates within any intervals whose ends rise with them."""
    estimates, below, above = (np.array(column) for column in zip(*sorted(names), strict=True))
    low = np.maximum.accumulate(np.maximum(estimates - below, 0))
    high = np.maximum(np.maximum.accumulate(estimates + above), low).astype(float)
    # Equal estimates have equal intervals.
    _, place = np.unique(estimates, return_index=True)
    same = np.repeat(place, np.diff(np.append(place, len(estimates))))
    low, high = low[same], high[same]
    users, raised = agreeing(estimates.astype(float), low, high, listed)
    for t in range(1, int(users.max()) + 2):
        assert (users >= t).sum() <= raised.at_least([t])[0]
    assert users.sum() <= raised.total and len(users) <= raised.distinct
    assert (users >= 1).all() and ((low <= users) & (users <= np.maximum(high, 1))).all()
    assert (np.diff(users) >= 0).all() and (users[1:] == users[:-1])[same[1:] == same[:-1]].all()
    ranks = np.arange(1, raised.distinct + 1)
    assert (raised.at_ranks(ranks) >= listed.at_ranks(ranks)).all()
    behind = ranks > len(users)
    assert (raised.at_ranks(ranks) == listed.at_ranks(ranks))[behind].all()
    # Nothing is raised unless an interval lies above it.
    needed = np.maximum(low, 1)[::-1]
    if (needed <= listed.at_ranks(np.arange(1, len(users) + 1))).all():
        assert raised == listed


def test_no_names_have_no_estimates():
    none, noise = np.array([], np.int64), ThresholdedCounts(LaplaceSelection(1, 1e-5))
    model = CountModel.of_list(FrequencyList([3, 1], [1, 2]), kappa=1)
    counts = NameCounts(none, noise, model)
    assert (
        counts.means().shape == (0,)
        and [end.shape for end in counts.model_intervals()] == [(0,)] * 2
    )
    users, unchanged = agreeing(counts.means(), none, none.astype(float), FrequencyList([3], [1]))
    assert len(users) == 0 and list(unchanged) == [(3, 1)]
