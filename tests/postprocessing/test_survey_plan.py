import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from dp_transforms.postprocessing.planning import expected_dist, zipf_list
from dp_transforms.postprocessing.survey_plan import (
    LEAST_RATE,
    MISSED,
    MISSED_AT_WORST,
    SQUARE,
    candidates,
    choose_bound,
    expected_noise,
    is_enough,
    survey_of,
)
from tests.postprocessing.test_degree_survey import lognormal_degrees, surveyed
from tests.tapes import InsecureSeededTape


@pytest.mark.parametrize("epsilon", ["0.01", "0.25", 1, 2.5, 3, 4, 100])
def test_a_survey_begins_with_a_twentieth_and_takes_two_fifths_at_most(epsilon):
    whole = Fraction(str(epsilon))
    costs = survey_of(epsilon, None, 50).epsilons
    assert costs == (whole / 20, whole / 10, whole / 5, whole * 2 / 5)
    assert survey_of(epsilon, "0.3", 50).epsilons == (whole * 3 / 10,)


def test_parts_out_of_range_are_refused():
    with pytest.raises(ValueError, match="share must be below 1"):
        survey_of(1, 1, 50)
    with pytest.raises(ValueError, match="epsilon"):
        survey_of(0, None, 50)


def rounds_of(degrees, seed):
    """How much of epsilon = 1 a survey takes."""
    survey, counted = survey_of(1, None, 10_000), Counter(degrees.tolist())

    def enough(released):
        return is_enough(released, DegreeSurvey.of(released), 1, released.epsilon)

    return survey.release(counted, enough, InsecureSeededTape(seed)).epsilon


def test_a_rough_survey_is_enough_where_every_user_has_one_thing():
    """Noise that looks like users asks for another round in one of fifteen: of 5 surveys, 2 do so
    with a probability of 0.04."""
    taken = [rounds_of(np.ones(40_000, int), seed) for seed in range(5)]
    assert np.median(taken) == 0.05 and max(taken) <= 0.2


def test_a_rough_survey_is_not_enough_where_few_users_have_most_pairs():
    degrees = np.append(np.ones(20_000, int), np.rint(np.geomspace(10, 3_000, 600)).astype(int))
    assert min(rounds_of(degrees, seed) for seed in range(3)) >= 0.1


def test_a_rough_survey_is_not_enough_if_its_model_denies_a_cell_that_it_shows():
    """A hundredth of the users have most of the pairs, and all of them the same number. The model
    takes such a spike for noise, which is hardly ever ten times its scale."""
    degrees = np.append(np.arange(19_800) % 3 + 1, np.full(200, 500))
    assert min(rounds_of(degrees, seed) for seed in range(6)) >= 0.1


def test_candidates_are_public_and_leave_lists_some_epsilon():
    for epsilon in ("0.001", "0.2", 8):
        kappas = candidates(epsilon)
        assert kappas[0] == 1 and list(kappas) == sorted(set(kappas))
        assert all(Fraction(epsilon) / kappa >= LEAST_RATE for kappa in kappas[1:])


def test_nobody_with_more_than_one_needs_one():
    for seed in range(5):
        survey = surveyed(np.ones(10_000, int), "0.2", seed)
        assert choose_bound(survey, "0.8").kappa == 1


def test_more_epsilon_allows_a_larger_bound():
    survey = surveyed(lognormal_degrees(8_000), 2)
    chosen = [choose_bound(survey, epsilon).kappa for epsilon in ("0.05", "0.5", 5, 50)]
    assert chosen == sorted(chosen) and chosen[0] < 40 < chosen[-1]


def test_squares_of_a_plan_add_up_and_the_least_is_recommended():
    choice = choose_bound(surveyed(lognormal_degrees(3_000), 1), 1)
    for plan in choice.plans:
        squares = plan.noise**2 + (0.3 * plan.dropped) ** 2 + plan.uncertain**2
        assert plan.error_if(0.3) ** 2 == pytest.approx(squares)
        least, most = plan.error_if(MISSED), plan.error_if(MISSED_AT_WORST)
        assert least * (1 - 1e-9) <= plan.error <= most * (1 + 1e-9)
        assert plan.error >= choice.recommended.error
    dropped = [plan.dropped for plan in choice.plans]
    assert dropped == sorted(dropped, reverse=True) and dropped[0] > 0


def test_if_the_model_fails_a_choice_is_not_much_worse_than_one_without_a_model():
    """By the plan's own numbers: beside the best bound for a list that is not estimated at all,
    whose error is all of the noise and half of what is dropped."""
    for epsilon in ("0.25", 1, 4):
        choice = choose_bound(surveyed(lognormal_degrees(8_000), 1, seed=2), epsilon)
        without = min(plan.noise + plan.dropped for plan in choice.plans)
        assert choice.recommended.error_if(MISSED_AT_WORST) <= 2 * without
        assert choice.recommended.error_if(MISSED) <= 0.8 * without


def test_no_data_is_no_error():
    for users in ((0, 0, 0), (-40, 3, -7)):
        survey = DegreeSurvey.of(ReleasedDegrees((1, 2, 3), users, 0.5))
        assert choose_bound(survey, 1).kappa >= 1


@pytest.mark.parametrize(("epsilon", "kappa"), [(2, 1), (1, 1), (1, 4), (1, 20), (1, 60), (1, 180)])
def test_predicted_noise_is_that_of_releases_within_a_factor(epsilon, kappa):
    """Simulated releases of Zipf's list: its square is 0.27 of the root of its total, within a
    factor of 1.5, and so is the noise within one of 2. With the largest kappa, the scale of noise
    is several times the side of the square."""
    reference = zipf_list(20_000)
    simulated = expected_dist(partition_mechanism(epsilon, kappa), reference).dist
    predicted = expected_noise(epsilon / kappa, reference.total)
    assert 1 / 2 < predicted / simulated < 2


def test_noise_beyond_the_side_of_the_square_grows_as_its_scale_does():
    pairs = 10_000
    at_side = 1 / (SQUARE * math.sqrt(pairs))
    assert math.isclose(
        expected_noise(at_side / 10, pairs), 10 * expected_noise(at_side, pairs), rel_tol=1e-9
    )
    assert expected_noise(at_side, pairs) < 2 * expected_noise(2 * at_side, pairs)
