"""Error bars against brute force over all lists nearby, and their coverage under the exact
distribution."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import (
    FrequencyList,
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.partition.distributions import (
    ExponentialDistribution,
    GeometricDistribution,
)
from dp_transforms.postprocessing.guessing_metrics import (
    alpha_guesswork_bits,
    success_rate,
    success_rate_bits,
)
from dp_transforms.postprocessing.intervals import intervals_of
from dp_transforms.postprocessing.walk_intervals import (
    ReleaseError,
    WalkIntervals,
    _log_runs,
    _log_uniform,
)
from dp_transforms.sample_data import yahoo
from tests import enumeration
from tests.geometric_reference import probability
from tests.postprocessing.test_intervals import between
from tests.row_distribution import RowDistribution
from tests.tapes import InsecureSeededTape

EXACT = 1e-9
OUTCOMES = list(enumeration.partitions_of_at_most(16))
GEOMETRIC = GeometricDistribution(math.log(9))
SMALL = [(), (1,), (2,), (3,), (2, 2), (3, 3), (1,) * 3, (1,) * 4, (1,) * 5, (4, 2, 1), (5, 2, 1)]


def differences(f, x):
    return [abs(a - b) for a, b in itertools.zip_longest(f, x, fillvalue=0)]


def allows(error, f, x):
    """Tells whether the bounds do not rule out the private list f, given the released list x."""
    moved = np.cumsum(differences(f, x) or [0])
    return moved[-1] <= error.l1 and all(m <= error.up_to(b) for b, m in enumerate(moved, start=1))


def lists_within(x, error):
    """All non-empty lists that the bounds do not rule out."""
    nearby = filter(any, enumeration.partitions_of_at_most(sum(x) + error.l1))
    return (f for f in nearby if allows(error, f, x))


def inside(value, interval):
    return interval.low - EXACT <= value <= interval.high + EXACT


def facts_of(released, error, monkeypatch):
    """The intervals of a list with these bounds on its distance."""
    monkeypatch.setattr(ReleaseError, "of", lambda *_: error)
    return WalkIntervals(released, None)


CASES = [
    ((5, 2, 1, 1, 1), ReleaseError(0, math.inf, 0)),
    ((5, 2, 1, 1, 1), ReleaseError(3, math.inf, 0)),
    ((9, 4, 2, 2, 1), ReleaseError(2, math.inf, 0)),
    ((1,) * 9, ReleaseError(3, math.inf, 0)),
    ((7, 7), ReleaseError(4, math.inf, 0)),
    ((2, 1), ReleaseError(3, math.inf, 0)),  # the private list may be nearly anything
    ((9, 4, 2, 2, 1), ReleaseError(4, head_base=0, head_slope=1)),
    ((6, 6, 1, 1, 1, 1), ReleaseError(4, head_base=1, head_slope=0.5)),
]


@pytest.mark.parametrize(("x", "error"), CASES)
def test_no_list_nearby_is_outside(x, error, monkeypatch):
    released = FrequencyList.from_counts(x)
    nearby = [FrequencyList.from_counts(f) for f in lists_within(x, error)]
    assert released in nearby
    facts = facts_of(released, error, monkeypatch)
    for f in nearby:
        assert inside(f.total, facts.total())
    for guesses in (1, 2, 3, 5, len(x), len(x) + 4):
        rates, top = facts.share_of_top(guesses), facts.sum_of_top(guesses)
        bits = facts.success_rate_bits(guesses)
        low, high = (float(ends[0]) for ends in facts.success_rates([guesses]))
        for f in nearby:
            rate = success_rate(f, guesses)
            assert inside(rate, rates) and low - EXACT <= rate <= high + EXACT
            assert inside(success_rate_bits(f, guesses), bits)
            assert inside(round(rate * f.total), top)
    for alpha in (0.1, 0.25, 0.5, 0.8, 1):
        interval = facts.alpha_guesswork_bits(alpha)
        for f in nearby:
            assert inside(alpha_guesswork_bits(f, alpha), interval)


@pytest.mark.parametrize(
    ("x", "l1", "guesses"),
    [((9, 5, 2, 1, 1, 1), 2, 1), ((20, 3, 1, 1, 1, 1, 1), 3, 1), ((9, 8, 3, 1, 1, 1), 2, 2)],
)
def test_bounds_on_the_success_rate_are_attained(x, l1, guesses, monkeypatch):
    released, error = FrequencyList.from_counts(x), ReleaseError(l1, math.inf, 0)
    rates = [success_rate(FrequencyList.from_counts(f), guesses) for f in lists_within(x, error)]
    share = facts_of(released, error, monkeypatch).share_of_top(guesses)
    assert (share.low, share.high) == pytest.approx((min(rates), max(rates)), abs=EXACT)


def chances(distribution, f):
    """The probabilities of ``OUTCOMES``, and that of all others."""
    if distribution is GEOMETRIC:
        probabilities = np.array([float(probability(Fraction(1, 9), x, f)) for x in OUTCOMES])
    else:
        q = math.exp(-distribution.rate)
        weights = np.array([q ** enumeration.l1_distance(f, x) for x in OUTCOMES])
        probabilities = weights / RowDistribution(f, q, reach=60).total
    return probabilities, 1 - probabilities.sum()


@pytest.mark.parametrize(
    ("distribution", "confidences"),
    [
        (ExponentialDistribution(1.25), (0.5, 0.9)),
        (ExponentialDistribution(2.0), (0.2,)),
        pytest.param(GEOMETRIC, (0.2, 0.9), marks=pytest.mark.thorough),
    ],
    ids=repr,
)
def test_coverage_under_the_exact_distribution(distribution, confidences):
    """For every small private list the bounds fail with at most the stated probability."""
    exact = [(f, *chances(distribution, f)) for f in SMALL]
    for confidence in confidences:
        lists = map(enumeration.as_list, OUTCOMES)
        errors = [ReleaseError.of(x, distribution, confidence) for x in lists]
        for f, probabilities, failed in exact:
            right = [allows(error, f, x) for error, x in zip(errors, OUTCOMES, strict=True)]
            assert failed + probabilities[~np.array(right)].sum() <= 1 - confidence


@pytest.mark.parametrize("distribution", [ExponentialDistribution(2.0), GEOMETRIC], ids=repr)
@pytest.mark.parametrize("f", SMALL, ids=str)
def test_lemma_2_under_the_exact_distribution(f, distribution):
    probabilities, _ = chances(distribution, f)
    for t, b in itertools.product((0.5, 1.0, 1.5), (1, 2, 4)):
        heads = np.array([sum(differences(f, x)[:b]) for x in OUTCOMES])
        u = math.exp(t - distribution.rate)
        bound = ((1 + u) / (1 - u)) ** b * math.exp(distribution.log_head)
        assert (np.exp(t * heads) * probabilities).sum() <= bound


@pytest.mark.thorough
def test_codes_are_probabilities():
    """Over all lists up to a total, the two weights of Lemma 1 add up to less than one each."""
    lists = list(map(enumeration.as_list, enumeration.partitions_of_at_most(25)))
    assert 0.3 < sum(math.exp(-_log_runs(x)) for x in lists) < 1
    assert sum(math.exp(-_log_uniform(x)) for x in lists) < 1


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
def test_the_head_bound_follows_from_lemma_2(epsilon):
    decay, confidence = epsilon / 2, 0.95
    error = ReleaseError.of(FrequencyList(), ExponentialDistribution(decay), confidence)
    t = np.linspace(0, decay, 1001)[1:-1]
    u = np.exp(t - decay)
    for b in (1, 2, 10, 100):
        too_far = math.floor(error.head_base + error.head_slope * b) + 1
        log_moment = b * np.log((1 + u) / (1 - u)) + math.pi**2 / (6 * decay)
        chance = math.exp((log_moment - t * too_far).min())
        assert chance <= (1 - confidence) / 2 * 0.1 * 0.9 ** (b - 1)


def test_ten_to_the_nine_singletons():
    released = FrequencyList([10**6, 1], [100, 10**9])
    facts = WalkIntervals(released, ExponentialDistribution(0.5))
    work, rate = facts.alpha_guesswork_bits(0.5), facts.success_rate_bits(1)
    assert inside(alpha_guesswork_bits(released, 0.5), work) and work.high - work.low < 0.01
    assert rate.low <= success_rate_bits(released, 1) <= rate.high < rate.low + 1e-3


def test_intervals_narrow_with_epsilon_and_widen_with_confidence():
    released = FrequencyList([5000, 200, 9, 1], [1, 9, 150, 4000])

    def width(distribution, **parameters):
        bits = WalkIntervals(released, distribution).success_rate_bits(10, **parameters)
        return bits.high - bits.low

    reference = ExponentialDistribution(0.5)
    assert (
        width(ExponentialDistribution(1.0)) < width(reference) < width(reference, confidence=0.999)
    )
    # The geometric mechanism's corners have a weight, and its head no factor.
    assert width(GeometricDistribution(1.1)) <= width(ExponentialDistribution(1.1))


@pytest.mark.parametrize(
    "distribution", [ExponentialDistribution(0.8), GeometricDistribution(1.2)], ids=repr
)
def test_bands_hold_every_list_within_their_tails(distribution):
    """A list whose every row and column is as far away as bounds that hold together allow."""
    released = FrequencyList([300, 41, 40, 7, 1], [1, 3, 20, 90, 5000])
    lower, upper = WalkIntervals(released, distribution).bands(0.9)
    assert between(lower, released, upper)
    # Of the first rank and of the number of partitions: rows and columns of level 0.1 / 8.
    first = distribution.largest_excess(0.1 / 8)
    assert upper.frequencies[0] == 300 + distribution.largest_shortfalls(0.1 / 8, [1])[0]
    assert (lower.frequencies[0], lower.distinct) == (300 - first, 5114 - first)
    # The share of one rank among all costs a logarithm.
    assert (upper.at_ranks([24]) - lower.at_ranks([24]))[0] < 8 * first


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [IntegerPartitionMechanism(1), GeometricPartitionMechanism(4)]
)
def test_bands_hold_a_large_list(mechanism):
    private = yahoo()
    # The bounds fail once in 1e9 runs, and the seed is fixed.
    lower, upper = intervals_of(mechanism.release(private, InsecureSeededTape(1))).bands(1 - 1e-9)
    assert between(lower, private, upper)
    assert upper.total - lower.total < private.total / 50
