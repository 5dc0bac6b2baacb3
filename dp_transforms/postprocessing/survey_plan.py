"""Divides epsilon between a survey of degrees and a list, and chooses kappa from the survey.

The error is half the L1 distance of the estimated list of all records (``all_records``) to the true
one. It has three parts, which are taken to be independent, so that their squares add up:

* the noise of the list, which grows with kappa;
* what the estimate gets wrong about the dropped pairs;
* half of the error in the number of dropped pairs, which is uncertain.

The second part is not known before the list is released. If the model of the estimate holds, it is
about a tenth of half of the dropped pairs (``MISSED``). But users of many partitions may have the
same ones, as authors of papers with many authors do. Then the estimate adds the dropped pairs to
wrong partitions, and is off by more than half of them (``MISSED_AT_WORST``). A survey of degrees
does not tell the two cases apart. So kappa is chosen for the least geometric mean of the errors in
both cases, where the second one has the weight ``DOUBT``. The mean is geometric because values of
kappa are compared by the ratio of their errors. Only public numbers enter: epsilon and the survey.
The error orders values of kappa, and is no bound.

A survey has rounds (``mechanisms.gradual_survey``). Each round doubles the survey's part of
epsilon, and halves what is uncertain. One more round is made if it lessens the predicted error.

Noise moves a list of N pairs by about D g(c), where D is the side of its Durfee square and c =
epsilon / kappa. On real lists, D is a tenth to four tenths of the root of N. g is nearly the same
for all lists that are not tiny. For large c, it is that of noise on D coordinates of each arm;
below, it is a power law. Where the scale 1 / c of the noise exceeds D, the distance grows in
proportion to 1 / c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.gradual_survey import GradualSurvey, survey_bounds
from dp_transforms.postprocessing.estimates import Estimate

if TYPE_CHECKING:
    from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
    from dp_transforms.postprocessing.degree_survey import DegreeSurvey

FIRST_SHARE, ROUNDS = Fraction(1, 20), 4
"""The survey's part of epsilon if its first round is enough, and how many rounds there may be. The
last round takes 2/5 of epsilon."""
SURVEY_MAX_DEGREE = 10_000  # The largest degree with a cell in such a survey.
LEAST_RATE = Fraction(1, 512)
"""The least epsilon / kappa above kappa = 1. Below it, lists are mostly noise, and take seconds."""
SQUARE = 0.27  # D of a list of N pairs, divided by the root of N.
DECODED = 0.82  # The part of the noise that a decoder leaves, for c from ``POWER_FROM`` on.
POWER_FROM, POWER = 0.8, 0.69  # Below ``POWER_FROM``, g is a power law of c.
SURPRISE = 1.5  # In deviations of noise. Noise alone exceeds it in one of fifteen rounds.
CELL_SURPRISE = 5.0
"""In scales of noise. Noise alone exceeds it in one of 300 cells, and a survey has some 25."""
MISSED, MISSED_AT_WORST = 0.1, 1.2
"""The error of an estimate, as a part of half the dropped pairs. It was 0.05 to 0.2 where the model
holds, and 0.7 to 1.3 where users of many partitions have the same ones."""
DOUBT = 0.3
"""The weight of the case in which the model does not hold. At 0.15, errors are up to 4% less where
it holds, and up to 27% larger where it does not. From 0.4 on, it costs more than it saves."""


@dataclass(frozen=True)
class BoundPlan:
    """A plan predicts the error of the estimated list of all records at one kappa.

    Attributes:
      kappa: the bound.
      kept: the part of all pairs that is kept.
      noise: the part of the error from noise, scaled up to all records.
      dropped: half the number of dropped pairs, which is the error without an estimate.
      uncertain: the part of the error from not knowing how many pairs are dropped.
    """

    kappa: int
    kept: Estimate
    noise: float
    dropped: float
    uncertain: float

    @property
    def error(self) -> float:
        """Returns the predicted error, as half the L1 distance to the list of all records: the
        geometric mean of the errors if the model holds and if it does not."""
        holds, fails = self.error_if(MISSED), self.error_if(MISSED_AT_WORST)
        return math.exp((1 - DOUBT) * _log(holds) + DOUBT * _log(fails))

    def error_if(self, missed: float) -> float:
        """Returns the predicted error if the estimate is off by this part of ``dropped``."""
        return math.hypot(self.noise, missed * self.dropped, self.uncertain)


@dataclass(frozen=True)
class BoundChoice:
    """A choice compares several values of kappa.

    Attributes:
      recommended: the plan with the least error.
      plans: one for each kappa, ascending.
    """

    recommended: BoundPlan
    plans: tuple[BoundPlan, ...]

    @property
    def kappa(self) -> int:
        """Returns the recommended bound."""
        return self.recommended.kappa


def survey_of(epsilon: Number, survey_share: Number | None, max_degree: int) -> GradualSurvey:
    """Returns the survey of a release.

    Args:
      epsilon: of the survey and the list together; a float stands for the decimal that it prints.
      survey_share: the survey's part of epsilon; None for as many rounds as are worth their cost.
      max_degree: users with more partitions count as having this many.

    Raises:
      ValueError: an argument is out of range, or the share leaves nothing.

    >>> [str(cost) for cost in survey_of(1, None, 100).epsilons]
    ['1/20', '1/10', '1/5', '2/5']
    """
    whole = positive_rational("epsilon", epsilon)
    if survey_share is None:
        return GradualSurvey(whole * FIRST_SHARE, ROUNDS, max_degree)
    part = positive_rational("survey_share", survey_share)
    if part >= 1:
        raise ValueError(
            f"survey_share must be below 1, got {survey_share}: the list needs a part of epsilon"
        )
    return GradualSurvey(whole * part, 1, max_degree)


def candidates(epsilon: Number, max_degree: int = SURVEY_MAX_DEGREE) -> tuple[int, ...]:
    """Returns the values of kappa that may be chosen for a list, ascending. They are public before
    the survey is made. Each is the last degree of a cell, so that the survey tells how many users
    have more. ``AllRecordsSpec.most_partitions`` says how many partitions of each user an engine
    keeps until kappa is chosen.

    Args:
      epsilon: of the list.
      max_degree: of the survey.

    >>> candidates("0.02")
    (1, 2, 3, 4, 5, 7)
    """
    most = positive_rational("epsilon", epsilon) / LEAST_RATE
    last_degrees = *(lowest - 1 for lowest in survey_bounds(max_degree)[1:]), max_degree
    return 1, *(kappa for kappa in last_degrees if 1 < kappa <= most)


def choose_bound(
    survey: DegreeSurvey,
    epsilon: Number,
    kappas: Sequence[int] | None = None,
    certainty: float = 1.0,
) -> BoundChoice:
    """Chooses the kappa with the least predicted error, see ``BoundPlan.error``.

    Args:
      survey: a decoded survey of degrees.
      epsilon: of the list alone.
      kappas: the values to choose from; by default ``candidates``.
      certainty: the uncertain part of the error is divided by this, as if the survey had that much
        less noise.

    Raises:
      ValueError: epsilon is not positive.

    >>> from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
    >>> from dp_transforms.postprocessing.degree_survey import DegreeSurvey
    >>> survey = DegreeSurvey.of(ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 1), 0.2))
    >>> choose_bound(survey, "0.8").kappa
    3
    """
    exact = positive_rational("epsilon", epsilon)
    pairs = survey.pair_draws.sum(1)
    plans = []
    for kappa in kappas or candidates(exact, survey.max_degree):
        kept = survey.kept_shares(kappa)
        dropped = pairs * (1 - kept)
        # The estimate scales the kept list up to all records, and its noise with it.
        share = max(float(np.median(kept)), 1e-9)
        noise = expected_noise(float(exact / kappa), float(np.median(pairs * kept))) / share
        plans.append(
            BoundPlan(
                kappa,
                survey.kept_share(kappa),
                noise,
                float(np.median(dropped)) / 2,
                _half_width(dropped) / 2 / certainty,
            )
        )
    return BoundChoice(min(plans, key=lambda plan: plan.error), tuple(plans))


def is_enough(
    released: ReleasedDegrees,
    survey: DegreeSurvey,
    epsilon: Number,
    spent: Number,
    kappas: Sequence[int] | None = None,
) -> bool:
    """Returns whether a survey is enough.

    It is not enough if it shows more users beyond kappa than its model believes: by ``SURPRISE``
    deviations of noise in all cells together, or in a cell of ``CELL_SURPRISE`` scales of noise, of
    which the model believes less than half. Otherwise it is enough if the next round would not
    lessen the predicted error. That round costs as much again as all rounds so far, and is twice as
    certain.

    Args:
      released: the survey.
      survey: the same, decoded.
      epsilon: of the survey and the list together.
      spent: the cost of this survey.
      kappas: the values to choose from; by default ``candidates``.

    Raises:
      ValueError: nothing would be left for a list after the next round.
    """
    left = positive_rational("epsilon", epsilon) - positive_rational("spent", spent)
    left_after_next = left - positive_rational("spent", spent)
    now = choose_bound(survey, left, kappas).recommended
    if _surplus_beyond(now.kappa, released, survey) > SURPRISE:
        return False
    if _disbelieves_a_cell(now.kappa, released, survey):
        return False
    after_next = choose_bound(survey, left_after_next, kappas, certainty=2).recommended
    return after_next.error >= now.error


def _surplus_beyond(kappa: int, released: ReleasedDegrees, survey: DegreeSurvey) -> float:
    """Returns by how many standard deviations of noise the released number of users beyond kappa
    exceeds what the model believes."""
    beyond = [
        users
        for lowest, users in zip(released.lowest, released.users, strict=True)
        if lowest > kappa
    ]
    if not beyond:
        return 0.0
    deviation = math.sqrt(2 * len(beyond)) / released.epsilon
    return (sum(beyond) - survey.users_beyond(kappa).value) / deviation


def _disbelieves_a_cell(kappa: int, released: ReleasedDegrees, survey: DegreeSurvey) -> bool:
    """Returns whether the model takes most of the users in a cell beyond kappa for noise, although
    noise alone hardly makes so many."""
    ends = [*released.lowest[1:], math.inf]
    for lowest, end, users in zip(released.lowest, ends, released.users, strict=True):
        if lowest > kappa and users * released.epsilon > CELL_SURPRISE:
            is_within = (survey.degrees >= lowest) & (survey.degrees < end)
            if np.median(survey.draws[:, is_within].sum(1)) < users / 2:
                return True
    return False


def expected_noise(rate: float, pairs: float) -> float:
    """Returns about half the L1 distance by which noise moves a list of so many pairs. The rate is
    c = epsilon / kappa."""
    side = SQUARE * math.sqrt(max(pairs, 0.0))
    at = max(rate, POWER_FROM)
    for_large = DECODED / math.sinh(at) if at < 700 else 0.0
    at_power = for_large * max(POWER_FROM / rate, 1.0) ** POWER
    # A decoder has nothing left to smooth once noise exceeds the side of the square. From there on,
    # the distance grows as the scale of the noise does.
    beyond_side = max(1 / (rate * max(side, 1.0)), 1.0)
    return float(side * at_power * beyond_side ** (1 - POWER))


def _log(error: float) -> float:
    return math.log(max(error, 1e-9))


def _half_width(draws: FloatArray) -> float:
    """Returns half the distance between the quartiles."""
    low, high = np.quantile(draws, [0.25, 0.75])
    return float(high - low) / 2
