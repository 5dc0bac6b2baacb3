from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.degree_survey import DegreeSurvey
from dp_transforms.postprocessing.planning import expected_dist, zipf_list
from dp_transforms.postprocessing.survey_plan import (
    LEAST_RATE,
    candidates,
    choose_bound,
    divided,
    expected_noise,
)
from tests.postprocessing.test_degree_survey import lognormal_degrees, surveyed


@pytest.mark.parametrize("epsilon", ["0.01", "0.25", 1, 2.5, 3, 4, 100])
def test_epsilon_is_divided_without_rest(epsilon):
    survey, rest = divided(epsilon)
    assert survey + rest == Fraction(str(epsilon))
    assert Fraction(1, 8) <= survey / (survey + rest) <= Fraction(22, 100)
    assert divided(epsilon, "0.4")[0] == Fraction(str(epsilon)) * Fraction(2, 5)


def test_parts_out_of_range_are_refused():
    with pytest.raises(ValueError, match="share must be below 1"):
        divided(1, 1)
    with pytest.raises(ValueError, match="epsilon"):
        divided(0)


def test_candidates_are_public_and_leave_lists_some_epsilon():
    for epsilon in ("0.001", "0.2", 8):
        found = candidates(epsilon)
        assert found[0] == 1 and list(found) == sorted(set(found))
        assert all(Fraction(epsilon) / kappa >= LEAST_RATE for kappa in found[1:])


def test_nobody_with_more_than_one_needs_one():
    for seed in range(5):
        survey = surveyed(np.ones(10_000, int), "0.2", seed)
        assert choose_bound(survey, "0.8").kappa == 1


def test_more_epsilon_allows_a_larger_bound():
    survey = surveyed(lognormal_degrees(8_000), 2)
    chosen = [choose_bound(survey, epsilon).kappa for epsilon in ("0.05", "0.5", 5, 50)]
    assert chosen == sorted(chosen) and chosen[0] < 40 < chosen[-1]


def test_a_plan_is_the_sum_of_its_parts_and_the_least_is_recommended():
    choice = choose_bound(surveyed(lognormal_degrees(3_000), 1), 1)
    for plan in choice.plans:
        assert plan.error == pytest.approx(plan.noise + plan.missed + plan.uncertain)
        assert plan.error >= choice.recommended.error
    missed = [plan.missed for plan in choice.plans]
    assert missed == sorted(missed, reverse=True)


def test_no_data_is_no_error():
    for users in ((0, 0, 0), (-40, 3, -7)):
        survey = DegreeSurvey.of(ReleasedDegrees((1, 2, 3), users, 0.5))
        assert choose_bound(survey, 1).kappa >= 1


@pytest.mark.parametrize(("epsilon", "kappa"), [(2, 1), (1, 1), (1, 4), (1, 20)])
def test_predicted_noise_is_that_of_releases_within_a_factor(epsilon, kappa):
    """Simulated releases of Zipf's list: its square is 0.27 of the root of its total, within a
    factor of 1.5, and so is the noise within one of 2."""
    reference = zipf_list(20_000)
    simulated = expected_dist(partition_mechanism(epsilon, kappa), reference).dist
    predicted = expected_noise(epsilon / kappa, reference.total)
    assert 1 / 2 < predicted / simulated < 2
