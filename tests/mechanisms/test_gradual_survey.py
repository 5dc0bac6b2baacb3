import collections
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.discrete_noise import DiscreteLaplace
from dp_transforms.mechanisms.gradual_survey import GradualSurvey, survey_bounds
from tests.tapes import InsecureSeededTape

DEGREES = {1: 900, 2: 30, 7: 5, 400: 1}


def laplace(epsilon, n):
    return math.tanh(epsilon / 2) * math.exp(-epsilon * abs(n))


def transcripts(monkeypatch, users, reach=13):
    """{(rounds shown): probability} of one cell with so many users, by enumeration of all noise of
    two rounds; a survey stops after the first if it shows 2 users or more."""
    survey = GradualSurvey(1, 2, 1)
    q = math.exp(-1)
    probabilities = collections.Counter()
    numbers = range(-reach, reach + 1)
    drawn = {}
    monkeypatch.setattr(
        DiscreteLaplace,
        "sample",
        lambda self, tape, channel, count: np.array([drawn[channel.split()[-1]]]),
    )
    for fine, a, b, c in itertools.product(numbers, (0, 1), (0, 1), numbers):
        drawn.update(survey=fine, a=a, b=b, c=c)
        chance = laplace(2, fine) * laplace(1, c)
        for above in (a, b):
            chance *= q / (1 + q) if above else 1 / (1 + q)
        shown = []

        def enough(released, shown=shown):
            shown.append(released.users[0])
            return released.users[0] >= 2

        last = survey.release({1: users}, enough, InsecureSeededTape(1))
        if last.epsilon == 2:
            shown.append(last.users[0])
        probabilities[tuple(shown)] += chance
    return probabilities


def test_all_rounds_cost_what_the_last_one_costs(monkeypatch):
    """Everything that is shown, for 3 and 4 users, with a bound that is reached."""
    laws = [transcripts(monkeypatch, users) for users in (3, 4)]
    losses = {1: [], 2: []}
    for shown in laws[0]:
        if all(-2 <= number <= 9 for number in shown):
            losses[len(shown)].append(abs(math.log(laws[0][shown] / laws[1][shown])))
    assert max(losses[1]) == pytest.approx(1, abs=2e-3)
    assert max(losses[2]) == pytest.approx(2, abs=2e-3)


def test_each_round_has_discrete_laplace_noise():
    """Means and frequencies of 12,000 seeded draws of each round, within five deviations."""
    survey = GradualSurvey("0.4", 3, 10_000)
    true = np.array(survey.cells(DEGREES))
    never = [survey._rounds(DEGREES, InsecureSeededTape(seed)) for seed in range(430)]
    for epsilon, rounds in zip(survey.epsilons, zip(*never, strict=True), strict=True):
        noise = np.concatenate([np.array(shown.users) - true for shown in rounds])
        for number in (0, 1, -2, 5):
            expected = laplace(float(epsilon), number)
            deviation = math.sqrt(expected * (1 - expected) / len(noise))
            assert abs((noise == number).mean() - expected) < 5 * deviation
        assert {shown.epsilon for shown in rounds} == {float(epsilon)}


def test_a_round_is_the_first_that_is_enough():
    survey = GradualSurvey("0.1", 4, 100)
    for wanted in range(4):
        asked = []

        def enough(released, asked=asked, wanted=wanted):
            asked.append(released)
            return len(asked) > wanted

        released = survey.release(DEGREES, enough, InsecureSeededTape(7))
        assert Fraction(str(released.epsilon)) == survey.epsilons[wanted]
        assert len(asked) == min(wanted + 1, 3)


def test_it_repeats_under_a_secret_and_is_exact_without_noise():
    survey = GradualSurvey(200, 2, 1000)
    made = [
        survey.release_under(DEGREES, InsecureSeededTape(3).branch, lambda _: False)
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert list(made[0].users) == survey.cells(DEGREES)


def test_cells_are_two_for_each_doubling():
    bounds = np.array(survey_bounds(10**6))
    assert bounds[0] == 1 and bounds[-1] == 10**6
    assert (np.diff(bounds) > 0).all() and (bounds[5:-1] / bounds[4:-2] <= 1.5).all()
    assert survey_bounds(1) == (1,) and survey_bounds(3) == (1, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 1, 5), "epsilon"),
        ((1, 0, 5), "rounds must be a positive integer"),
        ((1, 1, 0), "max_degree"),
        ((1, 1, 10**7), "max_degree must be at most"),
        (("1e-20", 1, 5), "scale"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        GradualSurvey(*arguments)
