import dataclasses
import functools

import numpy as np
import pytest

from dp_transforms.mechanisms.gradual_survey import GradualSurvey
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees, UserDegreeMechanism
from dp_transforms.postprocessing.dropped_users import DroppedUsers
from tests.tapes import InsecureSeededTape

KAPPA = 2
POPULATIONS = {
    "few heavy": {1: 300, 2: 100, 3: 30, 9: 6, 40: 2},
    "heavy": {3: 40, 8: 60, 40: 50, 200: 20},
    "light": {1: 500, 2: 3},
    "beyond the survey": {1: 50, 30: 10, 10_000: 40},
}


def kept_distribution(degrees, kappa):
    """The exact distribution of how many of these users keep the partition."""
    distribution = np.ones(1)
    for degree in degrees:
        part = min(1.0, kappa / degree)
        distribution = np.convolve(distribution, [1 - part, part])
    return distribution


@pytest.mark.parametrize("population", POPULATIONS.values(), ids=POPULATIONS)
@pytest.mark.parametrize("failure", [0.5, 0.05])
def test_bounds_hold_for_all_partitions_over_what_is_kept(population, failure):
    """The survey has next to no noise. Of partitions with N users, those of the users with the most
    partitions are the hardest; also those of a random draw, and of the fewest."""
    degrees = UserDegreeMechanism(1000, 500).release(population, InsecureSeededTape(1))
    bounds = DroppedUsers(degrees, KAPPA, 1e-9)
    every = np.array(
        sorted(functools.reduce(lambda a, b: a + [b[0]] * b[1], population.items(), []))
    )
    random = np.random.default_rng(3)
    for number in (1, 2, 5, 20, 45, len(every)):
        for users in (every[-number:], random.choice(every, number, False), every[:number]):
            distribution = kept_distribution(users, KAPPA)
            high = bounds.most_users(np.arange(len(distribution)), failure)
            assert (high >= np.arange(len(distribution))).all()
            assert distribution[high < number].sum() <= failure


def test_bounds_are_not_much_wider_than_the_exact_ones():
    """Chernoff's bound beside the smallest N that the exact distribution refutes."""
    population = POPULATIONS["heavy"]
    degrees = UserDegreeMechanism(1000, 500).release(population, InsecureSeededTape(1))
    bounds = DroppedUsers(degrees, KAPPA, 1e-9)
    every = np.array([d for d, n in sorted(population.items(), reverse=True) for _ in range(n)])
    kept = np.array([0, 3, 10, 30])
    for x, high in zip(kept, bounds.most_users(kept, 0.05), strict=True):
        exact = max(
            n
            for n in range(len(every) + 1)
            if kept_distribution(every[:n], KAPPA)[: x + 1].sum() > 0.05
        )
        assert exact <= high <= 1.6 * exact + 8
        assert high <= x + bounds.most_dropping


def test_noise_of_the_survey_is_covered():
    """Of 100 noisy surveys, bounds on the number of users with more partitions fail in at most the
    stated 20%: Binomial(100, 0.2) exceeds 40 with probability 2e-6."""
    population = POPULATIONS["heavy"]
    failures = 0
    for seed in range(100):
        degrees = UserDegreeMechanism(0.5, 500).release(population, InsecureSeededTape(seed))
        failures += DroppedUsers(degrees, 7, 0.2).most_dropping < 130
    assert failures <= 40


def test_noise_of_a_survey_is_covered_whichever_round_was_the_last():
    """An adversary ends a survey with the first round whose bound fails. Of 100 surveys, this
    succeeds in at most the stated 20%: Binomial(100, 0.2) exceeds 40 with probability 2e-6."""
    population = POPULATIONS["heavy"]
    survey = GradualSurvey(0.1, rounds=4, max_degree=500)

    def fails(released):
        return DroppedUsers(released, 7, 0.2).most_dropping < 130

    ends = [survey.release(population, fails, tape=InsecureSeededTape(seed)) for seed in range(100)]
    assert sum(map(fails, ends)) <= 40
    # The bound of a round has the share of one in four of the failure probability.
    released = ends[0]
    assert released.rounds == 4
    alone = dataclasses.replace(released, rounds=1)
    for failure in (0.2, 0.01):
        of_four = DroppedUsers(released, 7, failure).most_dropping
        assert of_four == DroppedUsers(alone, 7, failure / 4).most_dropping
        assert of_four > DroppedUsers(alone, 7, failure).most_dropping


def test_where_nobody_drops_anything_nothing_is_added():
    degrees = ReleasedDegrees((1, 2, 3, 4), (500, 20, 0, 0), 1e6)
    bounds = DroppedUsers(degrees, 2, 0.01)
    assert bounds.most_users(np.array([0, 7, 7, 100]), 0.01).tolist() == [0, 7, 7, 100]
    with pytest.raises(ValueError, match="kappa must be"):
        DroppedUsers(degrees, 0, 0.01)
