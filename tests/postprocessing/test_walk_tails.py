"""The intervals of single frequencies against the exact distributions of the mechanisms, and at
their worst cases."""

import math
from functools import partial

import numpy as np
import pytest

from dp_transforms.mechanisms import ExactTotalMechanism, FrequencyList
from dp_transforms.mechanisms.partition.distributions import (
    ExponentialDistribution,
    GeometricDistribution,
)
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from tests.enumeration import conjugate
from tests.geometric_reference import frequency_distribution
from tests.row_distribution import RowDistribution

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
    """The probability that the interval of the released value leaves the private one out. Intervals
    reach equally far from every value but where they would be negative, which is looked at for
    three."""
    values = np.arange(len(probabilities))
    top = ask(10**9)
    below, above = 10**9 - top.low, top.high - 10**9
    for value in (0, 1, len(values)):
        interval = ask(value)
        assert (interval.low, interval.high) == (max(value - below, 0), value + above)
    covered = (values - below <= private_value) & (private_value <= values + above)
    return probabilities[~covered].sum()


def ranks_of(private):
    return {1, 2, 17, 500, max(1, private.distinct), private.distinct + 1}


def by_rows(rate, private):
    """The distributions of the exponential mechanism, by rank, without the walk."""
    frequencies = np.repeat(private.frequencies, private.multiplicities).tolist()
    reach = max([len(frequencies), *frequencies[:1]]) + math.ceil(45 / rate)
    return dict(enumerate(RowDistribution(frequencies, math.exp(-rate), reach).marginals, 1))


def by_cells(rate, private):
    """The distributions of the geometric mechanism, by rank, from its cells."""
    values = int(private.frequencies.max(initial=0)) + 45
    chances = partial(frequency_distribution, rate, private, values=values)
    return {rank: np.array(chances(rank)) for rank in ranks_of(private)}


WALKS = [(ExponentialDistribution(rate), by_rows) for rate in (0.2, 0.3, 2.0)]
CELLS = [(GeometricDistribution(rate), by_cells) for rate in (1.1, 3.0, 8.0)]


@pytest.mark.parametrize(("own_distribution", "exact"), [*WALKS, *CELLS])
def test_every_rank_of_every_list_is_covered(own_distribution, exact):
    def frequency(rank, confidence, value):
        facts = WalkIntervals(released_as(value, rank), own_distribution)
        return facts.frequency_at(rank, confidence)

    def partitions(confidence, value):
        facts = WalkIntervals(released_as(1, value), own_distribution)
        return facts.number_of_partitions(confidence)

    for private in LISTS:
        marginals = exact(own_distribution.rate, private)
        asked = [
            (marginals[rank], int(private.at_ranks([rank])[0]), partial(frequency, rank))
            for rank in ranks_of(private) & marginals.keys()
        ]
        columns = exact(own_distribution.rate, conjugate(private))
        for distribution, own, ask in [*asked, (columns[1], private.distinct, partitions)]:
            for confidence in (0.5, 0.95, 0.9999):
                assert missed(distribution, own, partial(ask, confidence)) <= 1 - confidence


@pytest.mark.parametrize("failure", [0.2, 0.05, 1e-6])
@pytest.mark.parametrize(("distribution", "exact"), [*WALKS, *CELLS])
def test_bounds_cannot_be_tighter(distribution, exact, failure):
    """At the corner of a large rectangle one step less would fail too often."""
    side = math.ceil(45 / distribution.rate)
    marginals = exact(distribution.rate, FrequencyList([side], [side]))
    for rank, sign in ((1, 1), (side, -1)):
        facts = WalkIntervals(released_as(side, rank), distribution)
        interval = facts.frequency_at(rank, 1 - 2 * failure)
        reach = side - interval.low if sign > 0 else interval.high - side
        steps = sign * (np.arange(len(marginals[rank])) - side)
        beyond = [marginals[rank][steps > d].sum() for d in (reach, reach - 1)]
        assert beyond[0] <= failure < beyond[1]


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="rate must be a positive finite number"):
        ExponentialDistribution(0)
    with pytest.raises(ValueError, match="of ExactTotalMechanism"):
        ExactTotalMechanism(epsilon=1, total=3).distribution  # noqa: B018
