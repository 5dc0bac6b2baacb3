import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism, cell_bounds
from dp_transforms.postprocessing.all_records import estimate_all_records
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from tests.list_strategies import frequency_lists
from tests.tapes import InsecureSeededTape


def survey_of(degrees, epsilon=50, seed=1):
    mechanism = UserDegreeMechanism(epsilon, 10_000)
    return DegreeSurvey.of(mechanism.release(Counter(degrees.tolist()), InsecureSeededTape(seed)))


def list_of(things):
    return FrequencyList.from_counts(np.unique(things, return_counts=True)[1])


def random_pairs(seed, users=4_000, things=6_000, exponent=0.9):
    """Users of log-normal degrees with random things: users and things, in random order."""
    random = np.random.default_rng(seed)
    degrees = np.minimum(np.rint(np.exp(random.normal(1.5, 1.1, users))).astype(int) + 1, 500)
    weights = 1 / np.arange(1.0, things + 1) ** exponent
    owners = np.repeat(np.arange(users), degrees)
    drawn = random.choice(things, len(owners), p=weights / weights.sum())
    pairs = np.unique(np.stack([owners, drawn], 1), axis=0)
    return random.permutation(pairs)


def bounded_things(pairs, kappa):
    """The things of each user's first kappa pairs."""
    order = np.argsort(pairs[:, 0], kind="stable")
    owners, things = pairs[order].T
    starts = np.flatnonzero(np.append(True, np.diff(owners)))
    rank = np.arange(len(owners)) - np.repeat(starts, np.diff(np.append(starts, len(owners))))
    return things[rank < kappa]


@pytest.mark.parametrize("kappa", [2, 5, 12])
def test_it_is_several_times_nearer_to_all_records(kappa):
    """Without noise, on data where the model's random draw holds."""
    pairs = random_pairs(3)
    everything = list_of(pairs[:, 1])
    bounded = list_of(bounded_things(pairs, kappa))
    survey = survey_of(np.unique(pairs[:, 0], return_counts=True)[1])
    estimate = estimate_all_records(bounded, kappa, survey, tilt=0)
    assert estimate.l1_distance(everything) < 0.2 * bounded.l1_distance(everything)
    assert estimate.total == pytest.approx(everything.total, rel=0.05)
    assert estimate.distinct == pytest.approx(everything.distinct, rel=0.1)
    # The tilt is a prior, and does little harm where it does not hold.
    tilted = estimate_all_records(bounded, kappa, survey)
    assert tilted.l1_distance(everything) < 0.3 * bounded.l1_distance(everything)


def test_it_helps_with_noise_and_a_noisy_survey():
    pairs = random_pairs(4)
    everything = list_of(pairs[:, 1])
    degrees = np.unique(pairs[:, 0], return_counts=True)[1]
    bounded = list_of(bounded_things(pairs, 6))
    released = partition_mechanism("0.8", 6).release(bounded, InsecureSeededTape(5))
    estimate = estimate_all_records(released, 6, survey_of(degrees, "0.2"))
    assert estimate.l1_distance(everything) < 0.4 * released.l1_distance(everything)


def test_thinning_by_enumeration_is_undone():
    """Every way to keep 1 of each user's 2 pairs, for lists of n partitions with 2 users each. The
    mean estimate of the number of partitions is nearer to n than what is kept."""
    number = 4
    # User i has partitions i and i + 1, in a circle: all of them have 2 users.
    ways = itertools.product(*[(user, (user + 1) % number) for user in range(number)])
    bounded = [FrequencyList.from_counts(list(Counter(way).values())) for way in ways]
    survey = survey_of(np.full(number, 2))
    kept = np.mean([frequencies.distinct for frequencies in bounded])
    estimates = [estimate_all_records(frequencies, 1, survey) for frequencies in bounded]
    assert abs(np.mean([estimate.distinct for estimate in estimates]) - number) < number - kept
    assert np.mean([estimate.total for estimate in estimates]) == pytest.approx(
        2 * number, rel=0.25
    )


def test_nothing_changes_where_nothing_is_dropped():
    bounded = FrequencyList([400, 21, 3, 1], [1, 2, 30, 400])
    survey = survey_of(np.full(894, 1))
    assert estimate_all_records(bounded, 1, survey) == bounded
    survey = survey_of(np.full(300, 4))
    assert estimate_all_records(bounded, 4, survey) == bounded
    assert estimate_all_records(FrequencyList(), 1, survey) == FrequencyList()


def test_it_adds_no_more_pairs_than_the_survey_says_were_dropped():
    """Few users have most of the pairs, of rare things that nobody else has. What the model makes
    of the few pairs that were kept of them is too much."""
    random = np.random.default_rng(9)
    weights = 1 / np.arange(1, 2_001)
    common = random.choice(2_000, 40_000, p=weights / weights.sum())
    users = np.append(np.arange(40_000) % 19_800, np.repeat(np.arange(19_800, 20_000), 2_000))
    things = np.append(common, 2_000 + random.integers(0, 6_000, 400_000))
    pairs = random.permutation(np.unique(np.stack([users, things], 1), axis=0))
    survey = survey_of(np.unique(pairs[:, 0], return_counts=True)[1], epsilon=20)
    bounded = list_of(bounded_things(pairs, 3))
    total = bounded.total / np.median(survey.kept_shares(3))
    assert 0.9 * total < estimate_all_records(bounded, 3, survey).total < 1.003 * total


def test_little_changes_where_little_is_dropped():
    degrees = np.append(np.full(30_000, 1), np.full(10, 3))
    survey = survey_of(degrees)
    bounded = FrequencyList([5_000, 800, 77, 5, 1], [1, 10, 90, 900, 9_000])
    moved = estimate_all_records(bounded, 1, survey).l1_distance(bounded)
    dropped = bounded.total * (1 - survey.kept_share(1).value)
    assert moved < 3 * dropped + 5


def test_more_dropped_pairs_give_a_longer_list():
    bounded = FrequencyList([500, 90, 20, 3, 1], [1, 3, 10, 100, 700])
    totals = [
        estimate_all_records(bounded, 2, survey_of(np.append(np.ones(900, int), heavy))).total
        for heavy in (np.full(20, 3), np.full(40, 9), np.full(40, 90))
    ]
    assert bounded.total < totals[0] < totals[1] < totals[2]


@pytest.mark.thorough
@settings(max_examples=15, deadline=None)
@given(
    frequency_lists(),
    st.sampled_from([1, 3, 100]),
    st.lists(st.integers(-50, 10**6), min_size=13, max_size=13),
    st.sampled_from([0.01, 1.0, 50.0]),
)
def test_it_is_a_list_of_no_less_for_any_input(bounded, kappa, users, epsilon):
    survey = DegreeSurvey.of(ReleasedDegrees(cell_bounds(30), tuple(users), epsilon))
    estimate = estimate_all_records(bounded, kappa, survey)
    ranks = np.unique(np.append(np.arange(1, 200), bounded.multiplicities.cumsum()))
    assert (estimate.at_ranks(ranks) >= bounded.at_ranks(ranks)).all()
    assert estimate.distinct >= bounded.distinct


def test_kappa_is_checked():
    with pytest.raises(ValueError, match="kappa must be a positive integer"):
        estimate_all_records(FrequencyList([1], [1]), 0, survey_of(np.ones(10, int)))
