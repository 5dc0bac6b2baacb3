"""Divides epsilon between a survey of degrees and a list, and chooses kappa from the survey.

The error is that of the estimated list of all records (``all_records``), half its L1 distance to
the true one. Three things add to it: the noise of the list, which grows with kappa; what the
estimate gets wrong about dropped pairs, about a fifth of half of them; and an uncertain number of
dropped pairs, by half of what it is off. The least sum is chosen. Only public numbers enter:
epsilon and the survey. The sum orders values of kappa and is no bound: on repositories, where the
users of most things have things of their own, errors were up to five times as large.

Noise moves a list of N pairs by about D g(c), for the side D of its Durfee square and c = epsilon /
kappa. D is a tenth to four tenths of the root of N on real lists. g is nearly the same for all
lists that are not tiny: that of noise on D coordinates of each arm for large c, and a power law
below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.user_degrees import cell_bounds
from dp_transforms.postprocessing.estimates import Estimate

if TYPE_CHECKING:
    from dp_transforms.postprocessing.degree_survey import DegreeSurvey

SURVEY_SHARE, LEAST_SHARE, ENOUGH = Fraction(22, 100), Fraction(1, 8), Fraction(1, 2)
"""A survey gets the first part of epsilon; but, where that is more than ``ENOUGH``, this or the
second part. More would be better where users have many things. But a list of users who have one
thing each needs nothing but noise of a small scale: up to epsilon 1, this part makes its error at
most 1.2 times, sinh(0.9) / sinh(0.78), that of a release after a tenth was spent on degrees; and
for large epsilons its error is about exp(-epsilon)."""
MAX_DEGREE = 10_000  # the largest degree with a cell in such a survey
LEAST_RATE = Fraction(1, 512)
"""The least epsilon / kappa above kappa = 1: below, lists are mostly noise, and take seconds."""
SQUARE = 0.27  # D of a list of N pairs, by the root of N.
DECODED = 0.82  # What a decoder leaves of noise, for c from ``POWER_FROM`` on.
POWER_FROM, POWER = 0.8, 0.69
MISSED = 0.12  # The part of half the dropped pairs by which an estimate is off.


@dataclass(frozen=True)
class BoundPlan:
    """A plan predicts the error of the estimated list of all records at one kappa.

    Attributes:
      kappa: the bound.
      kept: the part of all pairs that is kept.
      noise, missed, uncertain: the error's parts: from noise, from what the model misses of the
        dropped pairs, and from not knowing how many there are.
    """

    kappa: int
    kept: Estimate
    noise: float
    missed: float
    uncertain: float

    @property
    def error(self) -> float:
        """Returns the predicted error: half the L1 distance to the list of all records."""
        return self.noise + self.missed + self.uncertain


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


def divided(epsilon: Number, share: Number | None = None) -> tuple[Fraction, Fraction]:
    """Returns the epsilons of the survey and of the list, which sum to epsilon exactly.

    Args:
      epsilon: of both together; a float stands for the decimal that it prints as.
      share: the survey's part of it; by default 0.22 of it, or less of a large epsilon.

    Raises:
      ValueError: epsilon is not positive, or the share not between 0 and 1.

    >>> divided(0.5)
    (Fraction(11, 100), Fraction(39, 100))
    >>> divided(4)
    (Fraction(1, 2), Fraction(7, 2))
    """
    whole = positive_rational("epsilon", epsilon)
    if share is None:
        survey = min(whole * SURVEY_SHARE, max(whole * LEAST_SHARE, ENOUGH))
        return survey, whole - survey
    part = positive_rational("share", share)
    if part >= 1:
        raise ValueError(f"share must be below 1, got {share}: the list needs a part of epsilon")
    return whole * part, whole * (1 - part)


def candidates(epsilon: Number, max_degree: int = MAX_DEGREE) -> tuple[int, ...]:
    """Returns the values of kappa that may be chosen for a list, ascending: public before the
    survey is made. Who keeps records for a later choice keeps as many of each user's as the last
    of them.

    Args:
      epsilon: of the list.
      max_degree: of the survey.

    >>> candidates("0.02")
    (1, 2, 3, 4, 5, 6, 8, 10)
    """
    most = positive_rational("epsilon", epsilon) / LEAST_RATE
    return tuple(kappa for kappa in cell_bounds(max_degree) if kappa == 1 or kappa <= most)


def choose_bound(survey: DegreeSurvey, epsilon: Number) -> BoundChoice:
    """Chooses kappa for a list of that epsilon, for the least error to the list of all records.

    Args:
      survey: a decoded survey of degrees.
      epsilon: of the list alone.

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
    for kappa in candidates(exact, survey.max_degree):
        kept = survey.kept_shares(kappa)
        dropped = pairs * (1 - kept)
        middle = float(np.median(dropped))
        share = max(float(np.median(kept)), 1e-9)
        noise = expected_noise(float(exact / kappa), float(np.median(pairs * kept))) / share
        plans.append(
            BoundPlan(
                kappa,
                survey.kept_share(kappa),
                noise,
                MISSED * middle / 2,
                _half_width(dropped) / 2,
            )
        )
    return BoundChoice(min(plans, key=lambda plan: plan.error), tuple(plans))


def expected_noise(rate: float, pairs: float) -> float:
    """Returns about half the L1 distance by which noise moves a list of so many pairs; ``rate`` is
    c = epsilon / kappa."""
    side = SQUARE * math.sqrt(max(pairs, 0.0))
    at = max(rate, POWER_FROM)
    for_large = DECODED / math.sinh(at) if at < 700 else 0.0
    return float(side * for_large * max(POWER_FROM / rate, 1.0) ** POWER)


def _half_width(draws: FloatArray) -> float:
    """Returns half the distance between the quartiles."""
    low, high = np.quantile(draws, [0.25, 0.75])
    return float(high - low) / 2
