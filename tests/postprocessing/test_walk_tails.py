"""The intervals of single frequencies against the exact distributions of the mechanisms, and at
their worst cases."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from dp_transforms.mechanisms import ExactTotalMechanism, FrequencyList, partition_mechanism
from dp_transforms.mechanisms.partition.distributions.marginals import (
    GeometricMarginals,
    Marginals,
    conjugate,
)
from dp_transforms.mechanisms.partition.distributions.release_distribution import (
    ExponentialDistribution,
    GeometricDistribution,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.intervals import intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from tests.row_distribution import RowDistribution

LISTS = [
    FrequencyList(),
    FrequencyList([1], [1]),
    FrequencyList([1000], [1]),
    FrequencyList([1000], [1000]),
    FrequencyList([50, 3, 2, 1], [1, 3, 10, 400]),
    FrequencyList(list(range(40, 0, -1)), [1] * 40),
    FrequencyList([100, 5], [4, 3000]),
]


def released_as(frequency, rank):
    """Some list with this frequency at this rank."""
    return FrequencyList([frequency], [rank]) if frequency and rank else FrequencyList()


def missed(distribution, private_value, ask):
    """The probability that the interval of the released value leaves the private one out.

    Intervals reach equally far from every value but where they would be negative, which is looked
    at for three.
    """
    values = distribution.least + np.arange(len(distribution.probabilities))
    top = ask(10**9)
    below, above = 10**9 - top.low, top.high - 10**9
    for value in (0, 1, int(values[-1])):
        one = ask(value)
        assert (one.low, one.high) == (max(value - below, 0), value + above)
    covered = (values - below <= private_value) & (private_value <= values + above)
    return distribution.probabilities[~covered].sum()


MARGINALS = {ExponentialDistribution: Marginals, GeometricDistribution: GeometricMarginals}


@pytest.mark.parametrize(
    ("own_distribution", "marginals"),
    [(ExponentialDistribution(rate), Marginals) for rate in (0.15, 0.5, 2.0)]
    + [(GeometricDistribution(rate), GeometricMarginals) for rate in (1.1, 3.0)],
    ids=str,
)
def test_every_rank_of_every_list_is_covered(own_distribution, marginals):
    for private in LISTS:
        found = marginals(private, own_distribution.rate)
        asked = [
            (found.distribution_of_frequency(rank), rank, int(private.at_ranks([rank])[0]))
            for rank in {1, 2, 17, 500, max(1, private.distinct), private.distinct + 1}
        ]
        partitions = marginals(conjugate(private), own_distribution.rate).distribution_of_frequency(
            1
        )
        for confidence in (0.5, 0.95, 0.9999):
            for distribution, rank, own in asked:

                def ask(value, rank=rank, confidence=confidence):
                    facts = WalkIntervals(released_as(value, rank), own_distribution)
                    return facts.frequency_at(rank, confidence)

                assert missed(distribution, own, ask) <= 1 - confidence

            def number_of(value, confidence=confidence):
                facts = WalkIntervals(released_as(1, value), own_distribution)
                return facts.number_of_partitions(confidence)

            assert missed(partitions, private.distinct, number_of) <= 1 - confidence


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_bounds_cannot_be_tighter(epsilon):
    """At the corner of a large rectangle one step less would fail too often."""
    corner = FrequencyList([10**6], [10**6])
    marginals = Marginals(corner, epsilon / 2)
    for rank, side in ((1, 0), (10**6, 1)):
        facts = WalkIntervals(released_as(10**6, rank), ExponentialDistribution(epsilon / 2))
        one = facts.frequency_at(rank, 0.9)
        reach = abs(10**6 - (one.low, one.high)[side])
        distribution = marginals.distribution_of_frequency(rank)
        steps = distribution.least + np.arange(len(distribution.probabilities)) - 10**6
        beyond = [
            distribution.probabilities[(steps * (-1) ** side) > d].sum() for d in (reach, reach - 1)
        ]
        assert beyond[0] <= 0.05 < beyond[1]


@pytest.mark.parametrize("private", [(), (3,), (2, 2, 2), (5, 1)], ids=str)
def test_the_theorem_on_distributions_of_the_rows(private):
    """Without the walk: every rank and every k."""
    q, reach = math.exp(-0.4), 120
    rows = RowDistribution(private, q, reach)
    powers = q ** np.arange(1, 500)
    padded = [*private, *[0] * reach]
    for rank in range(1, 9):
        distribution = rows.marginals[rank - 1]
        own = padded[rank - 1]
        for k in range(1, 40):
            assert distribution[own + k :].sum() <= 1 - np.prod(1 - powers[k - 1 :]) + 1e-12
            if k <= own:
                bound = 1 - np.prod(1 - powers[k - 1 : k - 1 + rank])
                assert distribution[: own - k + 1].sum() <= bound + 1e-12


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="rate must be a positive finite number"):
        ExponentialDistribution(0)
    facts = WalkIntervals(FrequencyList([1], [1]), ExponentialDistribution(0.5))
    with pytest.raises(ValueError, match="confidence"):
        facts.number_of_partitions(1)
    with pytest.raises(ValueError, match="confidence"):
        facts.frequency_at(1, 0)
    with pytest.raises(ValueError, match="rank must be at least 1"):
        facts.frequency_at(0)
    with pytest.raises(ValueError, match="users must be at least 1"):
        facts.partitions_with_at_least(0)
    with pytest.raises(ValueError, match="partitions must be at least 1"):
        facts.sum_of_top(0)
    with pytest.raises(ValueError, match="of ExactTotalMechanism"):
        ExactTotalMechanism(epsilon=1, total=3).distribution  # noqa: B018


@pytest.mark.parametrize("epsilon", [1.2, 0.5])
def test_intervals_from_releases_alone_cover_lists_made_at_random(epsilon):
    """By both default mechanisms. Fails with a probability below 1e-8 for right intervals."""
    rng, mechanism, draws, ranks = np.random.default_rng(77), partition_mechanism(epsilon), 60, 4
    counts = np.sort(rng.geometric(0.08, 60))[::-1]
    private = FrequencyList.from_counts(counts.tolist())
    covered = np.zeros(ranks + 1, int)
    for seed in range(draws):
        facts = intervals_of(mechanism.release(private, InsecureSeededTape(seed)))
        for i, rank in enumerate(rng.integers(1, 61, ranks).tolist()):
            one = facts.frequency_at(rank, 0.9)
            covered[i] += one.low <= counts[rank - 1] <= one.high
        one = facts.number_of_partitions(0.9)
        covered[ranks] += one.low <= 60 <= one.high
    assert binom.cdf(covered, draws, 0.9).min() > 1e-9
