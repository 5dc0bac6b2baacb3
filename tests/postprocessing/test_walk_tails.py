"""The intervals of single frequencies against the exact distributions of the mechanisms, and at
their worst cases."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from dp_transforms.mechanisms import ExactTotalMechanism, FrequencyList, partition_mechanism
from dp_transforms.mechanisms.partition.distributions import (
    ExponentialDistribution,
    GeometricDistribution,
)
from dp_transforms.postprocessing.intervals import intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from tests.enumeration import conjugate
from tests.geometric_reference import frequency_distribution
from tests.row_distribution import RowDistribution
from tests.tapes import InsecureSeededTape

LISTS = [
    FrequencyList(),
    FrequencyList([1], [1]),
    FrequencyList([300], [1]),
    FrequencyList([80], [80]),
    FrequencyList([50, 3, 2, 1], [1, 3, 10, 300]),
    FrequencyList(list(range(40, 0, -1)), [1] * 40),
    FrequencyList([100, 5], [4, 300]),
]


def released_as(frequency, rank):
    """Some list with this frequency at this rank."""
    return FrequencyList([frequency], [rank]) if frequency and rank else FrequencyList()


def missed(probabilities, private_value, ask):
    """The probability that the interval of the released value leaves the private one out.

    Intervals reach equally far from every value but where they would be negative, which is looked
    at for three.
    """
    values = np.arange(len(probabilities))
    top = ask(10**9)
    below, above = 10**9 - top.low, top.high - 10**9
    for value in (0, 1, len(values)):
        one = ask(value)
        assert (one.low, one.high) == (max(value - below, 0), value + above)
    covered = (values - below <= private_value) & (private_value <= values + above)
    return probabilities[~covered].sum()


def by_rows(rate, private):
    """The distributions of the exponential mechanism, by rank, without the walk."""
    frequencies = np.repeat(private.frequencies, private.multiplicities)
    reach = max([len(frequencies), *frequencies[:1]]) + math.ceil(45 / rate)
    return RowDistribution(frequencies.tolist(), math.exp(-rate), reach).marginals


def by_cells(rate, private):
    """The distributions of the geometric mechanism, by rank, from its cells."""
    values = int(private.frequencies.max(initial=0)) + 45
    ranks = range(1, max(500, private.distinct + 1) + 1)
    chosen = {1, 2, 17, 500, private.distinct, private.distinct + 1}
    return [
        np.array(frequency_distribution(rate, private, rank, values)) if rank in chosen else None
        for rank in ranks
    ]


@pytest.mark.parametrize(
    ("own_distribution", "exact"),
    [(ExponentialDistribution(rate), by_rows) for rate in (0.3, 2.0)]
    + [(GeometricDistribution(rate), by_cells) for rate in (1.1, 3.0)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_every_rank_of_every_list_is_covered(own_distribution, exact):
    def frequency(rank, confidence, value):
        facts = WalkIntervals(released_as(value, rank), own_distribution)
        return facts.frequency_at(rank, confidence)

    def partitions(confidence, value):
        facts = WalkIntervals(released_as(1, value), own_distribution)
        return facts.number_of_partitions(confidence)

    for private in LISTS:
        found = exact(own_distribution.rate, private)
        asked = [
            (found[rank - 1], int(private.at_ranks([rank])[0]), partial(frequency, rank))
            for rank in {1, 2, 17, 500, max(1, private.distinct), private.distinct + 1}
            if rank <= len(found)
        ]
        columns = exact(own_distribution.rate, conjugate(private))
        for distribution, own, ask in [*asked, (columns[0], private.distinct, partitions)]:
            for confidence in (0.5, 0.95, 0.9999):
                assert missed(distribution, own, partial(ask, confidence)) <= 1 - confidence


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 4.0])
def test_bounds_cannot_be_tighter(epsilon):
    """At the corner of a large rectangle one step less would fail too often."""
    side = math.ceil(90 / epsilon)
    exact = by_rows(epsilon / 2, FrequencyList([side], [side]))
    for rank, sign in ((1, 1), (side, -1)):
        facts = WalkIntervals(released_as(side, rank), ExponentialDistribution(epsilon / 2))
        one = facts.frequency_at(rank, 0.9)
        reach = max(side - one.low if sign > 0 else one.high - side, 0)
        steps = sign * (np.arange(len(exact[rank - 1])) - side)
        beyond = [exact[rank - 1][steps > d].sum() for d in (reach, reach - 1)]
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
