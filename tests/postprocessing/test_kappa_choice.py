import math
import pathlib
from collections import Counter

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import choose_strategy
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism
from dp_transforms.postprocessing.kappa_choice import (
    choose_kappa,
    kept_part,
    kept_words,
    number_of_contributions,
    number_of_users,
    users_of_no_end,
)
from dp_transforms.postprocessing.planning import KINDS, made_up_dists
from tests.tapes import InsecureSeededTape

# Real pairs; see benchmarks/data/README.md for where they are from.
PAIRS = pathlib.Path(__file__).parents[2] / "benchmarks/data/git_tldr_author_file.csv.gz"


@pytest.fixture(scope="module")
def pairs():
    return np.loadtxt(PAIRS, delimiter=",", skiprows=1, dtype=np.int64)


def released_degrees(pairs, epsilon, seed=1):
    degrees = np.unique(pairs[:, 0], return_counts=True)[1].tolist()
    return UserDegreeMechanism(epsilon).release(Counter(degrees), InsecureSeededTape(seed))


@pytest.mark.slow
def test_the_recommended_kappa_is_nearly_the_best_for_a_list(pairs):
    """PRIVATE evaluation: errors of releases beside the true list, at several values of kappa."""
    choice = choose_kappa(released_degrees(pairs, 0.2), 4)
    whole = FrequencyList.from_counts(np.unique(pairs[:, 1], return_counts=True)[1].tolist())
    data = dict(zip(("user", "partition"), pairs.T, strict=True))
    errors = {}
    for kappa in {1, 16, 64, 160, 256, 384, 512, 1_000, choice.recommended}:
        options = {"epsilon": 4, "max_partitions_per_user": kappa}
        options["secret"] = dp.JobSecret.insecure_for_testing(kappa)
        release = dp.release(data, user="user", partition="partition", **options)
        errors[kappa] = release.released.l1_distance(whole)
    assert errors[choice.recommended] < 1.3 * min(errors.values())
    assert errors[1] > 2 * min(errors.values())


@pytest.mark.thorough
def test_what_is_dropped_is_what_bounding_drops(pairs):
    """With hardly any noise: within cells alone degrees are not known."""
    degrees = np.minimum(np.unique(pairs[:, 0], return_counts=True)[1], 1000)
    choice = choose_kappa(released_degrees(pairs, 100), 2)
    assert choice.users.low == choice.users.value == choice.users.high == len(degrees)
    assert choice.contributions.low <= degrees.sum() <= choice.contributions.high
    for plan in choice.plans:
        dropped = np.maximum(degrees - plan.kappa, 0).sum()
        assert plan.dropped == pytest.approx(dropped, rel=0.02)
        assert plan.kept.value == pytest.approx(1 - dropped / degrees.sum(), abs=0.01)
        assert plan.kept.low <= 1 - dropped / degrees.sum() <= plan.kept.high
        assert plan.error >= plan.noise


def test_the_interval_of_what_is_kept_holds(pairs):
    """At 80%, in 100 seeded releases: a right one fails here with a probability below 1e-4."""
    # Of users with 1,000 or more, nothing is known: see the test of the largest degree.
    degrees = np.minimum(np.unique(pairs[:, 0], return_counts=True)[1], 999)
    mechanism, counted = UserDegreeMechanism(2), Counter(degrees.tolist())
    releases = [mechanism.release(counted, InsecureSeededTape(seed)) for seed in range(100)]
    for kappa in (1, 7, 40, 1000):
        true = np.minimum(degrees, kappa).sum() / degrees.sum()
        parts = [kept_part(released, kappa, 0.8) for released in releases]
        assert np.mean([part.low - 1e-9 <= true <= part.high + 1e-9 for part in parts]) > 0.65
        # Degrees are known up to a quarter; the rest is noise.
        assert max(part.high / part.low for part in parts) < 1.7
    assert kept_part(releases[0], 1000).high == 1
    with pytest.raises(ValueError, match="kappa must be a positive integer"):
        kept_part(releases[0], 0)


def test_the_intervals_of_users_and_contributions_hold(pairs):
    """At 80%, in 100 seeded releases. All users have a degree with a cell of its own, so that the
    intervals are as short as they can be: a right one fails here with a probability below 1e-4."""
    degrees = np.minimum(np.unique(pairs[:, 0], return_counts=True)[1], 6)
    mechanism, counted = UserDegreeMechanism(2, max_degree=7), Counter(degrees.tolist())
    releases = [mechanism.release(counted, InsecureSeededTape(seed)) for seed in range(100)]
    for estimate, true in (
        (number_of_users, len(degrees)),
        (number_of_contributions, degrees.sum()),
    ):
        estimates = [estimate(released, 0.8) for released in releases]
        assert np.mean([number.low <= true <= number.high for number in estimates]) > 0.65
        assert all(number.low <= number.value <= number.high for number in estimates)
        assert max(number.high - number.low for number in estimates) < 80


def test_what_is_kept_is_said_in_words():
    words = kept_words(ReleasedDegrees((1, 2, 3, 4), (600, 0, 200, 0), 1.0), 1)
    assert "kept 66.7% (65.2% to 68.2%, 95% confidence)" in words
    assert "dropped 33.3% (31.8% to 34.8%)" in words


@pytest.mark.thorough
def test_users_of_the_largest_degree_make_every_part_one_at_most():
    """300 users have 900 partitions each, of which a histogram up to 100 tells nothing: 44% is
    kept at kappa 100, where it looks like everything."""
    degrees = Counter({2: 90_000, 900: 300})
    true = (2 * 90_000 + 100 * 300) / (2 * 90_000 + 900 * 300)
    for seed in range(2):
        mechanism = UserDegreeMechanism("0.5", max_degree=100)
        released = mechanism.release(degrees, InsecureSeededTape(seed))
        part, endless = kept_part(released, 100), users_of_no_end(released)
        assert part.low <= true <= part.high
        assert endless.low <= 300 <= endless.high
        assert "kept at most 100.0% (95% confidence)" in kept_words(released, 100)
    choice = choose_kappa(released, 1)
    assert choice.endless_users == endless
    assert choice.contributions.high == math.inf and "or more, 95% confidence" in repr(choice)
    assert "at most" in repr(choice) and f"{endless.value:,} users" in repr(choice)
    assert users_of_no_end(ReleasedDegrees((1, 2), (500, 1), 1.0)) is None


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 6])
def test_noise_among_many_partitions_passes_for_no_users(most):
    """Of 2,000 users, with up to ``most`` partitions each; a few users of 1,000 would have most
    pairs. If one release in a hundred found such ones, two of 40 would with a probability of
    0.06."""
    degrees = Counter(1 + user % most for user in range(2_000))
    choices = [
        choose_kappa(UserDegreeMechanism("0.1").release(degrees, InsecureSeededTape(seed)), 1)
        for seed in range(40)
    ]
    assert sum(choice.recommended > 10 for choice in choices) <= 1


@pytest.mark.thorough
def test_users_of_three_partitions_are_given_three():
    released = ReleasedDegrees((1, 2, 3, 4, 5), (0, 0, 30_000, 0, 0), 1.0)
    assert choose_kappa(released, 1).recommended == 3
    names = choose_kappa(released, 1, 1e-6)
    assert names.recommended == 3
    (plan,) = (plan for plan in names.plans if plan.kappa == 3)
    strategy = choose_strategy(1, 1e-6, max_partitions_per_user=3)
    # All of them have kappa partitions, which is where median_users holds.
    assert plan.error == pytest.approx(strategy.median_users)
    assert plan.noise is None and plan.kept.value == 1


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_users_of_one_partition_need_no_more(delta):
    released = ReleasedDegrees((1, 2, 3, 4), (30_000, 3, -5, 1), 1.0)
    assert choose_kappa(released, 1, delta).recommended == 1


@pytest.mark.thorough
def test_too_much_noise_is_said_and_too_little_epsilon_too():
    nobody = ReleasedDegrees((1, 2), (-4, 3), 0.1)
    with pytest.raises(ValueError, match="show no user: spend more"):
        choose_kappa(nobody, 1)
    with pytest.raises(ValueError, match="epsilon must be at least"):
        choose_kappa(ReleasedDegrees((1, 2), (900, 300), 0.1), 1e-7)
    # Where only larger values of kappa are too much, they are left out.
    few = choose_kappa(ReleasedDegrees((1, 2, 3, 8), (10, 10, 90, 90), 1.0), 0.008)
    assert [plan.kappa for plan in few.plans][-1] <= 4


@pytest.mark.thorough
@pytest.mark.parametrize("epsilon", [1, 4, 10, 30])
def test_the_predicted_noise_is_that_of_a_simulation_at_each_kappa(epsilon):
    """Kappa is between powers of four, at which alone lists are simulated."""
    degrees = ReleasedDegrees((1, 2, 3, 5, 12, 20, 48, 60), (9, 9, 9, 9, 9, 9, 9, 300), 50.0)
    choice = choose_kappa(degrees, epsilon)
    contributions = round(choice.contributions.value)
    for plan in choice.plans:
        mechanism = partition_mechanism(epsilon, plan.kappa)
        simulated = made_up_dists(mechanism, contributions)[KINDS[0]]
        assert plan.noise == pytest.approx(
            simulated * math.sqrt(plan.kept.value), rel=0.4, abs=0.01
        )


def test_a_small_epsilon_of_the_list_takes_no_time():
    """The noise of such a list is not simulated: that would take minutes."""
    degrees = ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1)
    choice = choose_kappa(degrees, "0.00001")
    assert choice.recommended == 1 and choice.plans[0].noise > 80_000
