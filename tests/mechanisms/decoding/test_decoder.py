import collections
import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import geom, nbinom

from dp_transforms.mechanisms.decoding import gap_chains
from dp_transforms.mechanisms.decoding.decoder import Posterior
from dp_transforms.mechanisms.decoding.gap_chains import Arm, GapChains
from dp_transforms.mechanisms.decoding.gap_model import (
    END,
    PRIOR_WEIGHTS,
    SHAPE,
    cell_masses,
    end_probabilities,
    weights_along_arm,
)
from dp_transforms.mechanisms.frequency_list import MAX_VALUE, FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    FrobeniusCoordinates,
    list_of_coordinates,
)
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.mechanisms.partition_bounds import PartitionBounds
from dp_transforms.sample_data import rockyou
from tests import enumeration
from tests.tapes import InsecureSeededTape

pytestmark = pytest.mark.filterwarnings("error")
Noisy = collections.namedtuple("Noisy", ["rows", "columns", "rate"])
WEIGHTS = np.array([0.8, 0.15, 0.05])


def coordinates(frequency_list, behind):
    """Rows and columns, with zeros behind them."""
    private = FrobeniusCoordinates(frequency_list)
    index = np.arange(1, private.square + behind + 1)
    return private.of(ROWS, index), private.of(COLUMNS, index)


def noisy(frequency_list, rate, rng, behind):
    exact = np.array(coordinates(frequency_list, behind))
    noise = rng.geometric(-math.expm1(-rate), (2, *exact.shape))
    return Noisy(*(exact + noise[:, 0] - noise[:, 1]), rate)


# The model, by enumeration.


def gap_mass(gap, mean, columns):
    """The three distributions of gaps, from their definitions."""
    if columns:
        smooth = nbinom.pmf(gap, SHAPE, SHAPE / (SHAPE + mean))
    else:  # Two points at a distance E, exponential, behind a uniform place in a cell.
        places = (np.arange(1000) + 0.5) / 1000
        above = [math.exp(-max(x, 0) / mean) for x in (gap - places).tolist()]
        beyond = [math.exp(-max(x, 0) / mean) for x in (gap + 1 - places).tolist()]
        smooth = np.mean(above) - np.mean(beyond)
    return np.array(
        [smooth, geom.pmf(gap + 1, 1 / (1 + mean)), mean / (mean + gap) - mean / (mean + gap + 1)]
    )


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("mean", [0.05, 1.0, 7.5])
def test_distributions_of_gaps_are_as_defined(columns, mean):
    means = np.array([mean])
    gaps = np.arange(-1.0, 40.0)
    expected = np.array([gap_mass(g, mean, columns) if g >= 0 else np.zeros(3) for g in gaps]).T
    masses = cell_masses(gaps[None, :], means, 1, columns)[:, 0]
    np.testing.assert_allclose(masses, expected, atol=2e-4)
    weights = np.array([0.7, 0.2, 0.1])
    tails = 1 - np.cumsum(weights @ expected)
    states = np.arange(1.0, 30.0)[None, :]
    (ends,) = end_probabilities(states, means, weights[:, None, None], columns)
    # Of columns by a logistic distribution.
    np.testing.assert_allclose(ends, END + (1 - END) * tails[:29], atol=0.06 if columns else 2e-3)


@pytest.mark.parametrize(
    ("columns", "mean"), [(False, 5.0), (False, 60.0), (True, 9.0), (True, 300.0)]
)
def test_coarse_distributions_keep_the_mean_and_nearly_the_variance(columns, mean):
    cell = 16
    gaps = mean + cell * np.arange(-40.0, 200.0)
    mass = cell_masses(gaps[None, :], np.array([mean]), cell, columns)[0, 0]
    variance = mean + mean**2 / SHAPE if columns else mean**2
    assert mass.sum() == pytest.approx(1)
    assert mass @ gaps == pytest.approx(mean, rel=0.01)
    assert mass @ (gaps - mean) ** 2 == pytest.approx(variance, rel=0.1)


def test_weights_follow_what_gaps_are_like_along_an_arm():
    places = np.arange(1, 2001)
    # Probabilities of gaps, divided by those in the mixture: far out, gaps are geometric.
    likely = np.where(places[:, None] <= 400, [1.1, 0.1, 0.1], [0.6, 6.0, 0.6])
    there = (places <= 1500).astype(float)
    weights = weights_along_arm(PRIOR_WEIGHTS, likely * there[:, None], there)
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (weights > 0).all()
    assert weights[90:200, 0].min() > 0.75 and weights[700:1500, 1].min() > 0.85
    # Gaps that are equally likely in all distributions leave the prior as it is.
    same = weights_along_arm(PRIOR_WEIGHTS, np.ones((50, 3)), np.ones(50))
    np.testing.assert_allclose(same, np.tile(PRIOR_WEIGHTS, (50, 1)), atol=2e-3)
    assert weights_along_arm(PRIOR_WEIGHTS, np.zeros((1, 3)), np.zeros(1)).shape == (1, 3)


def small_chains(rows, columns, rate, means, reach):
    arms = [
        Arm(z, np.zeros_like(z), np.zeros_like(z), np.full_like(z, 2**62))
        for z in (np.array(rows), np.array(columns))
    ]
    return GapChains(arms, means, [WEIGHTS] * 2, rate, 1, reach)


@pytest.mark.parametrize(
    ("rows", "columns", "rate"),
    [([5, 1, 2], [4, 3, 0], 0.7), ([0, -1, 0], [1, 0, 0], 0.3), ([9, 6, 4], [2, 2], 0.2)],
)
def test_medians_are_those_of_all_pairs_of_chains(rows, columns, rate):
    reach = 4
    means = [np.array([1.5, 0.8, 0.5])[: len(rows)], np.array([0.4, 1.0, 2.0])[: len(columns)]]
    chains = small_chains(rows, columns, rate, means, reach)
    states = range(1, chains.width + 1)

    @functools.cache
    def mass(gap, place, arm):
        return float(WEIGHTS @ gap_mass(gap, means[arm][place], arm == 1))

    def weight(path, z, arm):
        result = math.exp(-rate * enumeration.l1_distance(z, path))
        if not path:
            return result
        result *= 1 / rate / (path[0] + 1 / rate) ** 2
        for place, (x, y) in enumerate(itertools.pairwise(path)):
            result *= mass(x - y - 1, place, arm)
        last = path[-1]
        tail = 1 - sum(mass(gap, len(path) - 1, arm) for gap in range(last - 1))
        return result * (END + (1 - END) * tail)

    arms, sums = [], []
    for arm, z in enumerate((rows, columns)):
        sizes = (itertools.combinations(states, size) for size in range(len(z) + 1))
        paths = [path[::-1] for path in itertools.chain.from_iterable(sizes)]
        arms.append([(path, weight(path, z, arm)) for path in paths])
        lengths, values = [len(path) for path in paths], [value for _, value in arms[arm]]
        sums.append(np.bincount(lengths, values, 6))
    # The empty path comes first. The ends of columns are those of a logistic distribution, above.
    no_partition = arms[0][0][1] * arms[1][0][1]
    every = sums[0] @ sums[1] + sums[0][1:] @ sums[1][:-1]
    assert chains.evidence[0] == pytest.approx(math.log(every / no_partition), abs=0.05)
    # D rows with D or D - 1 columns.
    compatible = [sums[1] + np.append(0, sums[1][:-1]), sums[0] + np.append(sums[0][1:], 0)]
    for arm, paths in enumerate(arms):
        for place in range(len((rows, columns)[arm])):
            distribution = np.zeros(chains.width + 1)
            for path, value in paths:
                x = path[place] if place < len(path) else 0
                distribution[x] += value * compatible[arm][len(path)]
            cumulative = np.cumsum(distribution / distribution.sum())
            for level in (0.1, 0.5, 0.9):
                x = chains.quantiles(level)[arm][place]
                assert cumulative[x] > level - 1e-3
                assert x == 0 or cumulative[x - 1] < level + 1e-3


def test_samples_follow_the_posterior():
    chains = small_chains([9, 6, 4, 0], [5, 2, 2, 0], 0.3, [np.full(4, 1.5), np.full(4, 0.6)], 8)
    number = 4000
    draws = chains.sample(number, seed=3)
    # Six standard errors of a share: less than 1e-7 for all of the shares together.
    slack = 6 * 0.5 / math.sqrt(number)
    for level in (0.1, 0.5, 0.9):
        for drawn, limit in zip(draws, chains.quantiles(level), strict=True):
            assert ((drawn <= limit).mean(0) > level - slack).all()
            assert (((drawn < limit).mean(0) < level + slack) | (limit == 0)).all()
    for rows, columns in zip(*draws, strict=True):
        list_of_coordinates(rows, columns)


def test_segments_give_what_one_sweep_gives(monkeypatch):
    rng = np.random.default_rng(4)
    square = FrequencyList([200], [200])  # Never forgets: all its gaps are 0.
    falling = FrequencyList.from_counts(np.sort(rng.zipf(1.7, 20_000).clip(1, 10**6)))
    for frequency_list in (square, falling):
        given_noise = noisy(frequency_list, 0.5, rng, 20)
        monkeypatch.setattr(gap_chains, "SEGMENT", 16)
        short = Posterior(given_noise).quantiles(0.5)
        monkeypatch.setattr(gap_chains, "SEGMENT", 10**6)
        whole = Posterior(given_noise).quantiles(0.5)
        for of_segments, of_sweep in zip(short, whole, strict=True):
            assert np.abs(of_segments - of_sweep).sum() <= 0.01 * len(of_segments)


@pytest.mark.thorough
@given(
    rows=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-30, 30), max_size=12),
    columns=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-30, 30), max_size=12),
    log_rate=st.integers(-20, 16),
    width=st.integers(0, 5),
    max_total=st.integers(0, 500),
)
@settings(max_examples=25)
def test_any_coordinates_give_a_list(rows, columns, log_rate, width, max_total):
    arrays = np.array(rows, np.int64), np.array(columns, np.int64)
    given_noise = Noisy(*arrays, 2.0**log_rate)
    assert Posterior(given_noise).median().total <= MAX_VALUE
    assert Posterior(given_noise).median(max_total).total <= max_total
    bounds = PartitionBounds.around(FrequencyList([40, 7, 2], [1, 5, 3]), width)
    assert bounds.contain(Posterior(given_noise, bounds).median())


LISTS = {
    "empty": FrequencyList(),
    "one": FrequencyList([1], [1]),
    "three": FrequencyList([3], [1]),
    "billion": FrequencyList([10**9], [1]),
    "largest": FrequencyList([4 * 10**18], [1]),
    "ones": FrequencyList([1], [10**6]),
    "square": FrequencyList([100], [100]),
    "rectangle": FrequencyList([1000], [5]),
    "steps": FrequencyList([10**7, 50], [2, 3]),
    "stairs": FrequencyList(range(60, 0, -1), [1] * 60),
    "tens": FrequencyList(range(500, 0, -10), [5] * 50),
}
CLIFF = FrequencyList.from_counts(np.random.default_rng(3).normal(300, 10, 1000).astype(int))


@pytest.mark.parametrize("truth", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("rate", [8, 0.5])
def test_corner_cases_are_no_worse_than_the_noise(truth, rate):
    given_noise = noisy(truth, rate, np.random.default_rng(5), 15)
    # Twice what noise on the positive coordinates costs, and some for whether there are any.
    raw = 0.5 * np.abs(np.subtract(given_noise[:2], coordinates(truth, 15))).sum()
    assert Posterior(given_noise).median().l1_distance(truth) / 2 <= 1.1 * raw + 2


def test_without_noise_the_list_comes_back():
    truth = rockyou()
    assert Posterior(Noisy(*coordinates(truth, 5), 16.0)).median() == truth


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("truth", "rate", "draws", "behind", "most"),
    [
        # The prototype's errors, and three standard errors.
        (rockyou(), 1.0, 2, 8, 822 + 3 * 20 / math.sqrt(2)),
        (rockyou(), 0.25, 2, 17, 2502 + 3 * 80 / math.sqrt(2)),
        (FrequencyList([1], [300]), 0.5, 25, 14, 1.4 + 3 * 2 / 5),
        (FrequencyList([9, 1], [1, 20]), 0.5, 25, 14, 4.8 + 3 * 3 / 5),
        # What is seen at one end of a rectangle tells of the other: raw noise is 250 here.
        (FrequencyList([2000], [400]), 0.5, 2, 14, 40),
        # A thousand partitions of about 300 users: a smooth rate expects the fall long before. The
        # noise alone costs some 3,000.
        (CLIFF, 0.1, 3, 25, 600),
    ],
)
def test_errors_are_small(truth, rate, draws, behind, most):
    rng = np.random.default_rng(1)
    medians = [Posterior(noisy(truth, rate, rng, behind)).median() for _ in range(draws)]
    assert np.mean([median.l1_distance(truth) / 2 for median in medians]) < most


def test_bounds_help():
    truth = FrequencyList.from_counts(10_000 // np.arange(1, 5_000))
    given_noise = noisy(truth, 0.1, np.random.default_rng(7), 30)
    bounded = Posterior(given_noise, PartitionBounds.around(truth, 5)).median()
    assert bounded.l1_distance(truth) < Posterior(given_noise).median().l1_distance(truth)


def test_intervals_cover_and_totals_are_kept_and_nearly_reached():
    truth = rockyou()
    posterior = Posterior(noisy(truth, 1.0, np.random.default_rng(9), 8))
    lower, upper = posterior.quantiles(0.05), posterior.quantiles(0.95)
    for low, high, true in zip(lower, upper, coordinates(truth, 8), strict=True):
        assert ((low <= true) & (true <= high)).mean() > 0.88
    totals = sum(arm.sum(1) for arm in posterior.sample(50))
    assert abs(totals.mean() - truth.total) < 6 * totals.std()
    free = posterior.median()
    kept = posterior.median(free.total - 20_000)
    assert free.total - 24_000 < kept.total <= free.total - 20_000
    assert kept.l1_distance(free) == free.total - kept.total


def test_a_list_above_the_largest_total_loses_no_more_users_than_it_must():
    private = FrequencyList.from_counts([max(1, 300 // rank) for rank in range(1, 600)])
    mechanism, above = FrobeniusMechanism(epsilon=2), 0
    for tape in map(InsecureSeededTape, range(8)):
        posterior = Posterior(mechanism.noisy_coordinates(private, tape))
        free, bounded = posterior.median(), posterior.median(private.total)
        if free.total <= private.total:
            assert bounded == free
            continue
        above += 1
        assert private.total - 1 <= bounded.total <= private.total
        assert free.l1_distance(bounded) == free.total - bounded.total
    assert above
