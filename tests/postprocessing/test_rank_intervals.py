import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_transforms.mechanisms import (
    FrequencyList,
    GeometricPartitionMechanism,
    IntegerPartitionMechanism,
)
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.frequency_intervals import frequency_interval
from dp_transforms.postprocessing.guessing_intervals import ReleaseError
from dp_transforms.postprocessing.rank_intervals import rank_frequency_band, rank_frequency_interval
from dp_transforms.sample_data import yahoo

COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=12)


def at_ranks(frequency_list, ranks):
    counts = np.repeat(frequency_list.frequencies, frequency_list.multiplicities)
    return np.append(counts, np.zeros(max(ranks)))[np.array(ranks) - 1]


@given(COUNTS, COUNTS)
def test_every_list_at_the_stated_distance_is_inside(released, private):
    released, private = map(FrequencyList.from_counts, (released, private))
    ranks = list(range(1, 15))
    # The tightest true statement: the exact distance, and the exact one of each head by a line.
    l1 = released.l1_distance(private)
    gaps = np.cumsum(np.abs(at_ranks(released, ranks) - at_ranks(private, ranks)))
    slope = max((gaps - gaps[0]) / np.maximum(np.arange(14), 1))
    error = ReleaseError(l1, head_base=float(gaps[0] - slope), head_slope=float(slope))
    lower, upper = rank_frequency_interval(released, ranks, error)
    truth = at_ranks(private, ranks)
    assert (lower <= truth + 1e-9).all() and (truth <= upper + 1e-9).all()


def test_a_release_is_inside_and_the_interval_says_something():
    private = yahoo()
    mechanism = IntegerPartitionMechanism(epsilon=1)
    released = mechanism.release(private, InsecureSeededTape(3))
    # The bounds fail once in 1e9 runs, and the seed is fixed.
    error = ReleaseError.of_release(released, mechanism.law, 1 - 1e-9)
    ranks = [1, 2, 5, 10, 100, 1000, 10_000, 10**6]
    lower, upper = rank_frequency_interval(released, ranks, error)
    truth = np.repeat(private.frequencies, private.multiplicities)[np.array(ranks) - 1]
    assert (lower <= truth).all() and (truth <= upper).all()
    assert upper[0] - lower[0] < truth[0] / 100


@pytest.mark.parametrize(
    "mechanism",
    [
        IntegerPartitionMechanism(epsilon=0.1),
        IntegerPartitionMechanism(epsilon=1),
        GeometricPartitionMechanism(epsilon=1.2),
        GeometricPartitionMechanism(epsilon=4),
    ],
    ids=repr,
)
def test_the_band_holds_every_frequency_and_takes_the_better_bounds(mechanism):
    private = yahoo()
    for seed in range(3):
        released = mechanism.release(private, InsecureSeededTape(seed))
        # The bounds fail once in 1e9 runs, and the seeds are fixed.
        ranks, lower, upper = rank_frequency_band(released, mechanism.law, 1 - 1e-9)
        assert ranks[0] == 1 and released.distinct / 1.1 < ranks[-1] <= released.distinct
        truth = private.frequencies[np.searchsorted(np.cumsum(private.multiplicities), ranks)]
        assert (lower <= truth).all() and (truth <= upper).all()
        assert (np.diff(lower) <= 0).all() and (np.diff(upper) <= 0).all()
        error = ReleaseError.of_release(released, mechanism.law, 1 - 5e-10)
        others = rank_frequency_interval(released, ranks.tolist(), error)
        alone = frequency_interval(released, [1], mechanism.law, 1 - 5e-10)
        widths = upper - lower
        assert (widths <= others[1] - others[0]).all()
        assert widths[0] < others[1][0] - others[0][0]
        # The share of one rank among some 500 costs a logarithm.
        assert widths[0] < 2 * int(alone[1][0] - alone[0][0])
        assert widths[-1] <= 1


def test_ranks_from_one():
    with pytest.raises(ValueError, match="ranks must be positive"):
        rank_frequency_interval(FrequencyList([1], [1]), [0], ReleaseError(1))
