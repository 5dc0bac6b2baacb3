"""The peers that the mechanism is compared with do what they are said to do.

Statistical tests allow five standard errors, which one in 1.7 million runs exceeds.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from benchmarks.baselines import (
    PEERS,
    PublicBounds,
    _parts,
    _sides,
    column_cut,
    cumulative_histogram_l1,
    cumulative_histogram_l2,
    cyclic_laplace,
    priv_hist,
    sorted_counts,
)
from benchmarks.noisy_runs import (
    Runs,
    descending_l1,
    descending_l2,
    middle_l1,
    two_sided_geometric,
)
from dp_transforms.mechanisms import FrequencyList
from tests import enumeration
from tests.statistical.distributions import score

PRIVATE = FrequencyList([900, 412, 57, 4, 3, 1], [1, 2, 1, 9, 30, 400])
BOUNDS = PublicBounds(items=600, count=1000)


def runs_of(values):
    return Runs(np.array(values), np.ones(len(values), dtype=np.int64))


def dense(runs):
    return np.repeat(runs.values, runs.sizes)


def distances(peer, private, rate, bounds, count, seed):
    rng = np.random.default_rng(seed)
    return np.array([private.l1_distance(peer(private, rate, bounds, rng)) for _ in range(count)])


@pytest.mark.parametrize("peer", PEERS)
def test_without_noise_the_list_comes_back(peer):
    for release in PEERS[peer]:
        assert release(PRIVATE, 1e5, BOUNDS, np.random.default_rng(1)) == PRIVATE


@pytest.mark.parametrize("rate", [0.7, 3.0])
def test_the_noise_has_the_distribution_that_its_budget_asks_for(rate):
    draws = 100_000
    noise = two_sided_geometric(rate, draws, np.random.default_rng(3))
    for k in (-2, -1, 0, 1, 2):
        p = math.tanh(rate / 2) * math.exp(-rate * abs(k))
        assert abs((noise == k).mean() - p) < 5 * math.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize("fit", [descending_l1, middle_l1, descending_l2])
@pytest.mark.parametrize("rate", [4.0, 1.0])
def test_noise_far_inside_a_run_changes_no_fit(fit, rate):
    rng = np.random.default_rng(4)
    reach = 100 + math.ceil(480 / rate**2)
    values, sizes = np.array([9, 7, 6, 0]), np.array([2, 4 * reach, 3 * reach, 5 * reach])
    private, places = np.repeat(values, sizes), np.arange(sizes.sum())
    ends = np.cumsum(sizes)
    near = places - np.repeat(ends - sizes, sizes) < reach
    near |= np.repeat(ends, sizes) - places <= reach
    for _ in range(20):
        noise = two_sided_geometric(rate, len(private), rng)
        everywhere, near_ends = fit(runs_of(private + noise)), fit(runs_of(private + noise * near))
        assert (dense(everywhere) == dense(near_ends)).all()
    noisy = dense(Runs(values, sizes).with_noise(rate, rng))
    assert (noisy[~near] == private[~near]).all()
    assert (noisy[near] != private[near]).any()


def test_nodescending_list_is_nearer_in_l1():
    rng = np.random.default_rng(5)
    lists = np.array(list(enumeration.partitions(5, 6)))
    for _ in range(300):
        values = rng.integers(-2, 7, 5)
        fitted = dense(descending_l1(runs_of(values)))
        assert (np.diff(fitted) <= 0).all()
        positive = np.maximum(values, 0)
        assert np.abs(fitted - positive).sum() == np.abs(lists - positive).sum(axis=1).min()


def test_the_nearestdescending_list_is_that_of_all_values_one_by_one():
    rng = np.random.default_rng(6)
    for _ in range(200):
        runs = Runs(rng.integers(-2, 7, 8), rng.integers(1, 4, 8))
        fitted = isotonic_regression(dense(runs).astype(float), increasing=False).x
        assert (dense(descending_l2(runs)) == np.maximum(np.rint(fitted), 0)).all()


def test_equal_sorted_counts_err_by_the_harmonic_number():
    """Theorem 2 of Hay et al. bounds it for d distinct counts by d log(n)**3; for one count it is
    the noise's variance times 1 + 1/2 + ... + 1/n, of any noise (Sparre Andersen)."""
    n, rate = 40, 0.02
    rng = np.random.default_rng(7)
    errors = []
    for _ in range(1000):
        fitted = descending_l2(runs_of(10**6 + two_sided_geometric(rate, n, rng))).values
        errors.append(((fitted - 10**6) ** 2).sum())
    q = math.exp(-rate)
    assert abs(score(errors, 2 * q / (1 - q) ** 2 * sum(1 / k for k in range(1, n + 1)))) < 5


@pytest.mark.parametrize("rate", [2.0, 0.5])
@pytest.mark.parametrize(
    "peer", [cumulative_histogram_l1, cumulative_histogram_l2, sorted_counts, cyclic_laplace]
)
def test_numbers_far_apart_keep_their_noise(peer, rate):
    """The L1 error is then the sum of the noise's absolute values. For the cyclic Laplace that is
    1.5 / rate a count, the slope of Figure 3 of Kohli and Laskowski, which rises by 1.5 for each
    count and, at epsilon 1, to 0.0015 at 97 counts and some 100,000 schools."""
    counts, apart = 30, 1000
    if peer is sorted_counts:
        private = FrequencyList(apart * np.arange(counts, 0, -1), [1] * counts)
    else:
        private = FrequencyList(np.arange(counts, 0, -1), [apart] * counts)
    bounds = PublicBounds(private.distinct, int(private.frequencies[0]))
    if peer is cyclic_laplace:
        # The empty count 0 joins the circle; below 0 its noise is cut off, and so is not shared.
        private = FrequencyList(private.frequencies + 1, private.multiplicities)
    errors = distances(peer, private, rate, bounds, 400, 8)
    if peer is cyclic_laplace:
        assert errors.mean() == pytest.approx(1.5 / rate * counts, rel=0.15)
    else:
        q = math.exp(-rate)
        assert abs(score(errors, counts * 2 * q / (1 - q**2))) < 5


def test_privhist_hides_who_crosses_the_threshold():
    """Neighbouring lists have the same two sides, one item more moved across; or as many sorted
    counts, and sides that differ by one."""
    threshold = 2
    for entries in enumeration.partitions_of_at_most(6):
        private = enumeration.as_list(entries)
        for rank in range(len(entries) + 1):
            counts = [*entries, 0]
            counts[rank] += 1
            other = enumeration.as_list(counts)
            crosses = counts[rank] == threshold + 1
            for decoys, across in itertools.product((0, 1), range(-3, 4)):
                large, small = _sides(private, threshold, decoys, across)
                other_sides = _sides(other, threshold, decoys, across + crosses)
                assert sum(large.sizes) == sum(other_sides[0].sizes)
                moved = np.abs(dense(large) - dense(other_sides[0])).sum()
                moved += small.l1_distance(other_sides[1])
                assert moved == 0 if crosses else moved <= 1


def test_a_cut_at_a_column_has_one_cell_of_a_neighbour_in_one_part():
    bounds = PublicBounds(items=7, count=7)
    for column in (1, 2, 3, 9):
        for entries in enumeration.partitions_of_at_most(6):
            up_to, above = _parts(enumeration.as_list(entries), bounds, column)
            for rank in range(len(entries) + 1):
                counts = [*entries, 0]
                counts[rank] += 1
                other_up_to, other_above = _parts(enumeration.as_list(counts), bounds, column)
                moved = np.abs(dense(above) - dense(other_above)).sum()
                assert moved + up_to.l1_distance(other_up_to) == 1


def test_a_cut_at_a_column_errs_less_than_the_noise_on_either_side():
    """On a staircase no numbers are equal, and regression gains something: each number is one away
    from the next ones."""
    rate, steps = 1.0, 60
    private = FrequencyList(np.arange(steps, 0, -1), [1] * steps)
    noise = 2 * math.exp(-rate) / (1 - math.exp(-2 * rate))
    for column in (1, 30, 59):
        release = functools.partial(column_cut, column=column)
        errors = distances(release, private, rate, PublicBounds(100, 100), 40, 10)
        assert 0.5 * steps * noise < errors.mean() < steps * noise


def test_privhist_errs_by_the_root_of_the_number_of_users():
    """The theorem of Suresh: twice the staircase has four times the users, and twice the error."""
    means = []
    for steps in (150, 300):
        stairs = FrequencyList(np.arange(steps, 0, -1), [1] * steps)
        means.append(distances(priv_hist, stairs, 1.0, BOUNDS, 40, 9).mean())
    assert means[1] / means[0] == pytest.approx(2, rel=0.1)
