"""The contexts of random tapes: no two releases under one secret have the same. The contexts
of keys: their texts never change."""

import itertools
from fractions import Fraction

import pytest

from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism
from dp_transforms.mechanisms import tape_contexts as contexts
from dp_transforms.mechanisms.degree_bound_choice import DegreeBoundMechanism
from dp_transforms.mechanisms.gradual_survey import GradualSurvey
from dp_transforms.mechanisms.user_degrees import UserDegreeMechanism
from tests.tapes import InsecureSeededTape

NAMES = ["", "a", "1", "a' 'b", "a'", "('a',)", "frequency list"]
PURPOSES = {
    "list": [contexts.FREQUENCY_LIST],
    "degrees": [contexts.USER_DEGREES],
    "bound": [contexts.DEGREE_BOUND],
    "beyond": [contexts.USERS_BEYOND],
    "period": [contexts.purpose_of_period(name) for name in NAMES],
    "attribute": [contexts.purpose_of_attribute(name) for name in NAMES],
    "users": [contexts.purpose_of_users(*pair) for pair in itertools.product(NAMES, NAMES)],
    "level": [contexts.purpose_of_level(depth) for depth in range(12)],
    "group": [
        contexts.purpose_of_group(length, path)
        for length in range(3)
        for path in itertools.product(NAMES, repeat=length)
    ],
}


def test_no_two_purposes_are_equal():
    purposes = [*itertools.chain(*PURPOSES.values())]
    assert len(set(purposes)) == len(purposes) == 1 + 1 + 1 + 1 + 7 + 7 + 49 + 12 + 57


def test_the_texts_of_keys_never_change():
    made = [
        contexts.BOUND_CONTRIBUTIONS,
        contexts.BOUND_IN_LOOK,
        contexts.BOUND_IN_COUNTS,
        contexts.bound_in_round(3),
        contexts.ORDER_OF_PARTITIONS,
        contexts.value_of_attribute("a'b"),
        contexts.route_by("user"),
        contexts.route_by("partition"),
    ]
    assert made == [
        "bound contributions",
        "bound contributions, look",
        "bound contributions, counts",
        "bound contributions, round 3",
        "order of partitions",
        """value of attribute "a'b\"""",
        "route users",
        "route partitions",
    ]


def released_with(release, *arguments):
    """The contexts of the tapes that a release takes."""
    asked = []

    def tape_of(context):
        asked.append(context)
        return InsecureSeededTape(1)

    release(*arguments, tape_of=tape_of)
    return asked


SURVEY = GradualSurvey(1, 2, 4)
DEGREES = UserDegreeMechanism(1, 4)
CHOICE = DegreeBoundMechanism(1, (1, 2), (3, 4))


def of_survey(survey, cells):
    return released_with(lambda *args, tape_of: survey.release_under(*args, tape_of, bool), cells)


def of_degrees(mechanism, cells):
    return released_with(mechanism.release_under, cells)


def of_choice(mechanism, kept):
    return released_with(mechanism.choose_under, kept)


def test_releases_of_other_content_or_by_other_mechanisms_have_other_tapes():
    # Two cells of the same numbers of users and of edges: only purposes and mechanisms differ.
    asked = [
        *of_survey(SURVEY, {1: 5, 2: 7}),
        *of_survey(SURVEY, {1: 5, 2: 8}),
        *of_survey(SURVEY, {1: 5, 3: 7}),
        *of_survey(GradualSurvey(1, 3, 4), {1: 5, 2: 7}),
        *of_survey(GradualSurvey(Fraction(1, 2), 2, 4), {1: 5, 2: 7}),
        *of_degrees(DEGREES, {1: 5, 2: 7}),
        *of_degrees(DEGREES, {1: 5, 2: 8}),
        *of_degrees(UserDegreeMechanism(2, 4), {1: 5, 2: 7}),
        *of_choice(CHOICE, {1: 5, 2: 7}),
        *of_choice(CHOICE, {1: 5, 2: 8}),
        *of_choice(DegreeBoundMechanism(1, (1, 2), (3, 5)), {1: 5, 2: 7}),
        *of_choice(DegreeBoundMechanism(1, (1, 2), (3, 4), directed=True), {1: 5, 2: 7}),
    ]
    assert len(set(asked)) == len(asked) == 12


@pytest.mark.parametrize(
    ("ask", "mechanism", "content"),
    [
        (of_survey, SURVEY, {1: 5, 2: 7}),
        (of_degrees, DEGREES, {1: 5, 2: 7}),
        (of_choice, CHOICE, {1: 5, 2: 7}),
    ],
)
def test_a_retry_has_the_same_tape(ask, mechanism, content):
    # The order in which a histogram was made does not matter.
    assert ask(mechanism, content) == ask(mechanism, dict(reversed(content.items())))


def test_equal_content_for_other_purposes_has_other_tapes():
    numbers, lists = [5, 7], [FrequencyList([5], [7]), FrequencyList([5], [8])]
    made = [
        contexts.context_of_numbers(purpose, numbers, DEGREES)
        for purpose in (contexts.USER_DEGREES, contexts.DEGREE_BOUND)
    ]
    made += [
        contexts.context_of_list(purpose, frequency_list, mechanism)
        for purpose in itertools.chain(*PURPOSES.values())
        for frequency_list in lists
        for mechanism in (FrobeniusMechanism(1), FrobeniusMechanism(1, sensitivity=2))
    ]
    assert len(set(made)) == len(made)
