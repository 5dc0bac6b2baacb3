"""Divides epsilon between a survey of degrees and a list, and chooses kappa from the survey.

The error is that of the estimated list of all records (``all_records``), half its L1 distance to
the true one. Three things add to it: the noise of the list, which grows with kappa; what the
estimate gets wrong about dropped pairs; and an uncertain number of dropped pairs, by half of what
it is off. They are independent, so that their squares add up.

How much the estimate gets wrong about dropped pairs is not known before the list is released. Where
its model holds, it is about a tenth of half of them (``MISSED``). But users of many things may have
the same ones, as authors of papers with many authors do. Then the estimate adds the dropped pairs
to wrong partitions, and is off by more than all of their half (``MISSED_AT_WORST``). A survey of
degrees does not tell the two cases apart. So kappa is chosen for the least geometric mean of the
error in both, with the weight ``DOUBT`` of the second one: whoever compares two values of kappa
looks at the ratio of their errors. Only public numbers enter: epsilon and the survey. The error
orders values of kappa and is no bound.

A survey has rounds (``mechanisms.gradual_survey``), each of which doubles its part of epsilon, and
halves what is uncertain. There is one more round if it lessens the predicted error of all.

Noise moves a list of N pairs by about D g(c), for the side D of its Durfee square and c = epsilon /
kappa. D is a tenth to four tenths of the root of N on real lists. g is nearly the same for all
lists that are not tiny: that of noise on D coordinates of each arm for large c, and a power law
below.
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
"""The survey's part of epsilon if its first round is enough, and how many rounds there may be: the
last one takes 2/5 of epsilon. The first takes half of what was long spent on choosing kappa."""
MAX_DEGREE = 10_000  # the largest degree with a cell in such a survey
LEAST_RATE = Fraction(1, 512)
"""The least epsilon / kappa above kappa = 1: below, lists are mostly noise, and take seconds."""
SQUARE = 0.27  # D of a list of N pairs, by the root of N.
DECODED = 0.82  # What a decoder leaves of noise, for c from ``POWER_FROM`` on.
POWER_FROM, POWER = 0.8, 0.69
SURPRISE = 1.5  # Noise alone is such a surprise in one of fifteen rounds.
MISSED, MISSED_AT_WORST = 0.1, 1.2
"""The part of half the dropped pairs by which an estimate is off: 0.05 to 0.2 where the model
holds, and 0.7 to 1.3 where users of many things have the same ones."""
DOUBT = 0.25
"""The weight of the case in which the model does not hold. At 0.15, errors are a few percent less
where it holds, and twice as large where it does not; from 0.35 on, it costs more than it saves."""


@dataclass(frozen=True)
class BoundPlan:
    """A plan predicts the error of the estimated list of all records at one kappa.

    Attributes:
      kappa: the bound.
      kept: the part of all pairs that is kept.
      noise: the part of the error from noise.
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
        """Returns the predicted error, half the L1 distance to the list of all records: the
        geometric mean over how well the model holds."""
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


def survey_of(epsilon: Number, share: Number | None, max_degree: int) -> GradualSurvey:
    """Returns the survey of a release.

    Args:
      epsilon: of the survey and the list together; a float stands for the decimal that it prints.
      share: the survey's part of it; None for as many rounds as are worth their cost.
      max_degree: users with more partitions count as having so many.

    Raises:
      ValueError: an argument is out of range, or the share leaves nothing.

    >>> [str(cost) for cost in survey_of(1, None, 100).epsilons]
    ['1/20', '1/10', '1/5', '2/5']
    """
    whole = positive_rational("epsilon", epsilon)
    if share is None:
        return GradualSurvey(whole * FIRST_SHARE, ROUNDS, max_degree)
    part = positive_rational("share", share)
    if part >= 1:
        raise ValueError(f"share must be below 1, got {share}: the list needs a part of epsilon")
    return GradualSurvey(whole * part, 1, max_degree)


def candidates(epsilon: Number, max_degree: int = MAX_DEGREE) -> tuple[int, ...]:
    """Returns the values of kappa that may be chosen for a list, ascending: public before the
    survey is made. Who keeps records for a later choice keeps as many of each user's as the last
    of them. Each is the last degree of a cell, so that the survey tells who has more.

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
    """Chooses kappa for a list of that epsilon, for the least error to the list of all records.

    Args:
      survey: a decoded survey of degrees.
      epsilon: of the list alone.
      kappas: to choose from; by default ``candidates``.
      certainty: what is uncertain is divided by this, as by a survey of less noise.

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
    """Says whether a survey is enough: whether a round that costs twice as much, and is twice as
    certain, leaves a list of no less error. A survey is not enough if it surprises its model: if
    there are more users beyond kappa than the model believes, by ``SURPRISE`` deviations of noise.

    Args:
      released: the survey.
      survey: the same, decoded.
      epsilon: of the survey and the list together.
      spent: the cost of this survey.
      kappas: to choose from; by default ``candidates``.
    """
    left = positive_rational("epsilon", epsilon) - positive_rational("spent", spent)
    more = left - positive_rational("spent", spent)
    stopped = choose_bound(survey, left, kappas).recommended
    if _surplus_beyond(stopped.kappa, released, survey) > SURPRISE:
        return False
    return choose_bound(survey, more, kappas, certainty=2).recommended.error >= stopped.error


def _surplus_beyond(kappa: int, released: ReleasedDegrees, survey: DegreeSurvey) -> float:
    """Returns how many more users beyond kappa were released than the model believes, in standard
    deviations of the noise."""
    beyond = [
        users
        for lowest, users in zip(released.lowest, released.users, strict=True)
        if lowest > kappa
    ]
    if not beyond:
        return 0.0
    deviation = math.sqrt(2 * len(beyond)) / released.epsilon
    return (sum(beyond) - survey.users_beyond(kappa).value) / deviation


def expected_noise(rate: float, pairs: float) -> float:
    """Returns about half the L1 distance by which noise moves a list of so many pairs; ``rate`` is
    c = epsilon / kappa."""
    side = SQUARE * math.sqrt(max(pairs, 0.0))
    at = max(rate, POWER_FROM)
    for_large = DECODED / math.sinh(at) if at < 700 else 0.0
    return float(side * for_large * max(POWER_FROM / rate, 1.0) ** POWER)


def _log(error: float) -> float:
    return math.log(max(error, 1e-9))


def _half_width(draws: FloatArray) -> float:
    """Returns half the distance between the quartiles."""
    low, high = np.quantile(draws, [0.25, 0.75])
    return float(high - low) / 2
