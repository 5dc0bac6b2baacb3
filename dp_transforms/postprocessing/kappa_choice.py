"""Chooses kappa from a release of how many partitions users have, at no further cost.

A small kappa drops records of users, and a large one adds noise. The released degrees tell how much
is dropped, by the model of ``degree_survey``; how much noise there is follows from simulations on
public, made-up lists.

For a frequency list, the error is half the L1 distance between the list of all records and the
release from bounded records. It is at most half of the dropped contributions plus the noise of the
release. The noise is simulated on made-up lists with as many contributions as the degrees show.

For names, a count strategy sees only those users of a partition whose record of it is kept. In a
weighted strategy, users of fewer partitions weigh more. So to be named half of the time, a
partition needs ``median_users`` divided by the mean weight of a record. The fewer users a partition
needs, the more names there are, whatever the list is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decimals import (
    Number,
    exact_fraction,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.partition.registry import partition_mechanism
from dp_transforms.mechanisms.selection import choose_strategy
from dp_transforms.mechanisms.selection.rounds import WeightedStrategy
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.decoded_surveys import decoded_survey
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    Estimate,
    clamped_estimate,
    failure_probability,
    percents,
)
from dp_transforms.postprocessing.intervals import part_of_sum, sum_of_noises
from dp_transforms.postprocessing.planning import KINDS, made_up_dists
from dp_transforms.postprocessing.survey_plan import LEAST_RATE, expected_noise
from dp_transforms.postprocessing.text_table import text_table

NEEDED_USERS, ERROR = "users that a partition needs", "expected dist"
"""What the error of a plan is called: for names, and for lists."""

_FALSE_ALARM = 1e-3  # The probability to see users of the largest degree where there are none.
_HOPELESS = 1.5  # A kappa with this times the least error is not looked at.
_NEARLY_ALL = 0.999  # If a kappa keeps this part of all pairs, larger ones are not looked at.
_STEP = 4  # Noise is simulated at powers of this number.
_EXPONENTIAL_FROM = 1  # From this epsilon / kappa on, noise is exponential in it.


class _Effect(NamedTuple):
    """The fields of a ``KappaPlan`` that depend on what is released later."""

    noise: float | None
    other_noise: tuple[float, float] | None
    error: float


@dataclass(frozen=True)
class KappaPlan:
    """A plan predicts the effect of one kappa.

    Attributes:
      kappa: max_partitions_per_user.
      kept: the part of all contributions that is kept, see ``kept_part``.
      dropped: about how many contributions are dropped.
      noise: for a list, half the expected L1 distance by which the mechanism moves a Zipf list.
        None for names.
      other_noise: the least and the largest of the same number for lists of other kinds.
      error: the smaller, the better. For a list it is about half the largest L1 distance to the
        list of all records; for names, the number of users in all records with which a partition is
        named half of the time.
    """

    kappa: int
    kept: Estimate
    dropped: float
    noise: float | None
    other_noise: tuple[float, float] | None
    error: float


@dataclass(frozen=True, repr=False)
class KappaChoice:
    """A choice compares several values of kappa.

    Attributes:
      recommended: the kappa with the least error.
      plans: one for each kappa, ascending, until a larger one would not help.
      users, contributions: how many there are, see ``number_of_users`` and
        ``number_of_contributions``.
      endless_users: how many users have the largest degree or more, see ``users_of_no_end``.
      max_degree: the largest degree. A user with more partitions counts as one with so many.
    """

    recommended: int
    plans: tuple[KappaPlan, ...]
    users: Estimate
    contributions: Estimate
    endless_users: Estimate | None
    max_degree: int

    @property
    def is_about_names(self) -> bool:
        """Returns whether the later release is a selection of names, and not a list."""
        return self.plans[0].noise is None

    def __repr__(self) -> str:
        return kappa_table(self)


def choose_kappa(
    released: ReleasedDegrees, epsilon: Number, delta: Number | None = None
) -> KappaChoice:
    """Compares values of kappa for a later release, by released degrees.

    Args:
      released: what ``UserDegreeMechanism`` released.
      epsilon: the cost of the later release.
      delta: if it is given, the later release is a selection of names, and otherwise a list.

    Raises:
      ValueError: a parameter is out of range, or the degrees show no user.

    >>> released = ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1)
    >>> choose_kappa(released, epsilon=1).recommended
    3
    """
    degrees = _Degrees(released)
    effects = _lists(degrees, epsilon) if delta is None else _selections(degrees, epsilon, delta)
    plans = tuple(
        KappaPlan(kappa, kept_part(released, kappa), degrees.total - degrees.kept(kappa), *effect)
        for kappa, effect in effects
    )
    best = min(plans, key=lambda plan: plan.error)
    return KappaChoice(
        best.kappa,
        plans,
        number_of_users(released),
        number_of_contributions(released),
        users_of_no_end(released),
        int(degrees.last[-1]),
    )


def check_later_release(for_epsilon: Number, for_delta: Number | None) -> None:
    """Raises a ValueError, before anything is spent on degrees, if no kappa can be chosen for a
    later release of this epsilon and delta. Messages about one of them call it ``for_epsilon`` or
    ``for_delta``."""
    positive_rational("for_epsilon", for_epsilon)
    if for_delta is not None and not 0 < exact_fraction("for_delta", for_delta) < 1:
        raise ValueError(f"for_delta must be between 0 and 1, got {shown(for_delta)}")
    # Made-up users raise the errors of mechanisms.
    choose_kappa(ReleasedDegrees((1,), (1_000,), 1.0), for_epsilon, for_delta)


def kept_part(released: ReleasedDegrees, kappa: int, confidence: float = CONFIDENCE) -> Estimate:
    """Estimates the part of all pairs (user, partition) that a bound of kappa keeps. A user with
    more partitions than the largest degree counts as having that degree. If the degrees show such
    users (``users_of_no_end``), the part is "at most" so much, and the lower end is 0.

    Proof. Users of degree d keep min(d, kappa) pairs and lose the rest. Within a cell both numbers
    rise with d, so that the ends of the cell bound them. So two sums over cells bound the kept
    pairs, from below and above, and two the lost pairs. Noise moves each of the four sums too far
    with a quarter of the failure probability at most (Chernoff), divided by the number of rounds of
    which the release may have been the last. The part rises with the kept pairs and falls with the
    lost ones. QED.

    Raises:
      ValueError: kappa is below 1, confidence is not between 0 and 1, or the degrees show no user.

    >>> released = ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1)
    >>> print(kept_part(released, 2))
    0.9162 (0.9149 to 0.9173, 95% confidence)
    """
    kappa = positive_integer("kappa", kappa)
    degrees = _Degrees(released)
    first, last = degrees.first, degrees.last
    failure = failure_probability(confidence) / 4 / released.rounds
    kept = _ends(released, np.minimum(first, kappa), np.minimum(last, kappa), failure)
    lost = _ends(released, np.maximum(first - kappa, 0), np.maximum(last - kappa, 0), failure)
    low, high = part_of_sum(kept, lost)
    if users_of_no_end(released, confidence) is not None:
        low = 0.0
    return clamped_estimate(degrees.kept_share(kappa), low, high, confidence)


def _ends(
    released: ReleasedDegrees, least: IntArray, most: IntArray, failure: float
) -> tuple[float, float]:
    """Returns bounds on the sum over all users of a number that the cell of a user bounds from
    below by ``least`` and from above by ``most``. Each bound fails with this probability at most
    (Chernoff)."""
    noisy = np.array(released.users, np.float64)
    below, above = (
        sum_of_noises(released.epsilon, part.astype(float), failure) for part in (least, most)
    )
    return max(float(noisy @ least) - below, 0), max(float(noisy @ most) + above, 0)


def number_of_users(released: ReleasedDegrees, confidence: float = CONFIDENCE) -> Estimate:
    """Estimates how many users have a partition. Each user is in one cell, so that the noise of
    all cells bounds the number (``_ends``).

    Raises:
      ValueError: confidence is not between 0 and 1, or the degrees show no user.

    >>> print(number_of_users(ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1)))
    80,034 (79,950 to 80,130, 95% confidence)
    """
    degrees, failure = _Degrees(released), failure_probability(confidence) / 2 / released.rounds
    each = np.ones(len(degrees.first), np.int64)
    low, high = _ends(released, each, each, failure)
    return _whole(degrees.all_users, low, high, confidence)


def number_of_contributions(released: ReleasedDegrees, confidence: float = CONFIDENCE) -> Estimate:
    """Estimates how many pairs (user, partition) there are. A user with more partitions than the
    largest degree counts as having that degree. If the degrees show such users
    (``users_of_no_end``), there is no upper end. The proof is that of ``kept_part``.

    Raises:
      ValueError: see ``number_of_users``.

    >>> released = ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 0), 0.1)
    >>> print(number_of_contributions(released))
    119,997 (119,732 to 120,268, 95% confidence)
    """
    degrees, failure = _Degrees(released), failure_probability(confidence) / 2 / released.rounds
    low, high = _ends(released, degrees.first, degrees.last, failure)
    estimate = _whole(degrees.total, low, high, confidence)
    if users_of_no_end(released, confidence) is not None:
        return replace(estimate, high=math.inf)
    return estimate


def _whole(value: float, low: float, high: float, confidence: float) -> Estimate:
    """Returns an estimate of a whole number, from bounds on it."""
    return clamped_estimate(round(value), math.ceil(low), math.floor(high), confidence)


def users_of_no_end(released: ReleasedDegrees, confidence: float = CONFIDENCE) -> Estimate | None:
    """Estimates how many users have the largest degree or more. Nothing limits how many partitions
    such users have. None if noise alone shows as many users in one release of a thousand.

    Proof. On either side, the noise of one cell exceeds ``sum_of_noises`` with half of the failure
    probability at most (Chernoff), divided by the number of rounds. QED.

    Raises:
      ValueError: confidence is not between 0 and 1.

    >>> print(users_of_no_end(ReleasedDegrees((1, 2), (50_000, 400), 0.1)))
    400 (342 to 458, 95% confidence)
    """
    seen, one_cell = released.users[-1], np.ones(1)
    if seen <= sum_of_noises(released.epsilon, one_cell, _FALSE_ALARM):
        return None
    failure = failure_probability(confidence) / 2 / released.rounds
    noise = sum_of_noises(released.epsilon, one_cell, failure)
    return clamped_estimate(
        seen, max(math.ceil(seen - noise), 0), math.floor(seen + noise), confidence
    )


def kept_words(released: ReleasedDegrees, kappa: int, confidence: float = CONFIDENCE) -> str:
    """Returns a sentence on the parts that are kept and dropped, by ``kept_part``.

    >>> print(kept_words(ReleasedDegrees((1, 2, 3, 4), (50_000, 20_000, 10_000, 40), 0.1), 2))
    By the released degrees, kappa = 2 kept ...% (...% to ...%, 95% confidence) of all pairs of ...
    """
    kept, most = kept_part(released, kappa, confidence), released.lowest[-1]
    sure = f"{100 * confidence:.15g}% confidence"
    endless = users_of_no_end(released, confidence)
    if endless is not None:
        return (
            f"By the released degrees, kappa = {kappa:,} kept at most "
            f"{percents(kept.low, kept.high, 1)[1]} ({sure}) of all pairs of a user and a "
            f"partition: {endless.value:,} users ({endless.low:,} to {endless.high:,}) have "
            f"{most:,} partitions or more, and how many more is not known."
        )
    low, high = percents(kept.low, kept.high, 1)
    least, largest = percents(1 - kept.high, 1 - kept.low, 1)
    return (
        f"By the released degrees, kappa = {kappa:,} kept {kept.value:.1%} ({low} to {high}, "
        f"{sure}) of all pairs of a user and a partition, and dropped "
        f"{1 - kept.value:.1%} ({least} to {largest}); a user with more than {most:,} "
        f"partitions counts as one with {most:,}."
    )


def kappa_table(choice: KappaChoice) -> str:
    """Returns the comparison as text."""
    error, noise = NEEDED_USERS, []
    about = "the users of all records with which a partition is named half of the time"
    if not choice.is_about_names:
        error, noise = ERROR, ["noise", "of other kinds"]
        about = (
            "about the largest distance (half of L1) from the list of all pairs: half of what\n"
            "is dropped, and noise on a Zipf list; of other kinds: the noise on two other lists"
        )
    endless, warning = choice.endless_users, ""
    largest_degree = f"{choice.max_degree:,}"
    if endless is not None:
        warning = (
            f"{endless.value:,} users ({endless.low:,} to {endless.high:,}) have max_degree = "
            f"{largest_degree} partitions or more: a larger\nmax_degree would say how many; until "
            "then, more is dropped than the table knows of\n"
        )
    rows = [["kappa", "kept (95%)", "dropped", *noise, error]]
    for plan in choice.plans:
        least, most = percents(plan.kept.low, plan.kept.high, 1)
        part = f"{least} to {most}" if endless is None else f"at most {most}"
        row = [f"{plan.kappa:,}", part, f"{plan.dropped:,.0f}"]
        if plan.noise is not None and plan.other_noise is not None:
            smallest, largest = plan.other_noise
            row += [f"{plan.noise:,.0f}", f"{smallest:,.0f} to {largest:,.0f}"]
        is_recommended = plan.kappa == choice.recommended
        row.append(f"{plan.error:,.0f} *" if is_recommended else f"{plan.error:,.0f}")
        rows.append(row)
    return (
        f"users: {choice.users}\n"
        f"contributions, of at most {largest_degree} of each user: {choice.contributions}\n"
        f"{text_table(rows)}\n"
        f"kept: part of all pairs of a user and a partition, by the released degrees: a user "
        f"with more\nthan {largest_degree} partitions counts in every column as one with "
        f"{largest_degree}\n"
        f"{warning}"
        f"* recommended: max_partitions_per_user={choice.recommended}\n"
        f"{error}: {about}"
    )


class _Degrees:
    """Estimates how many contributions a bound keeps, by the model of ``degree_survey``. A user
    with more partitions than the largest degree counts as having that degree.

    Attributes:
      first, last: the smallest and the largest degree of each cell.
      degrees: representative degrees.
      users: the estimated number of users with each of them.
      all_users, total: the estimated numbers of users and of contributions.
    """

    def __init__(self, released: ReleasedDegrees):
        self.first: IntArray = np.array(released.lowest)
        self.last = np.append(self.first[1:] - 1, self.first[-1])
        self._survey = decoded_survey(released, released.lowest[-1])
        self.degrees, self.users = self._survey.degrees, self._survey.users
        self.all_users = float(np.median(self._survey.draws.sum(1)))
        self.total = float(self._survey.pairs().value)
        if sum(released.users) <= 0 or self.total < 1:
            raise ValueError(
                "the released degrees show no user: spend more on them, or choose kappa without "
                "them"
            )

    def kept_share(self, kappa: int) -> float:
        """Returns the part of the contributions that is kept."""
        return float(self._survey.kept_share(kappa).value)

    def kept(self, kappa: int) -> float:
        """Returns the number of contributions that are kept."""
        return self.total * self.kept_share(kappa)

    def candidates(self) -> Iterator[int]:
        """Yields the smallest degree of each cell, up to the first that keeps nearly everything as
        kappa."""
        for kappa in self.first.tolist():
            yield kappa
            if self.kept(kappa) >= _NEARLY_ALL * self.total:
                return


def _lists(degrees: _Degrees, epsilon: Number) -> Iterator[tuple[int, _Effect]]:
    """Yields values of kappa and their effects on a list, until noise alone exceeds the least
    error."""
    exact, contributions = positive_rational("epsilon", epsilon), max(1, round(degrees.total))
    partition_mechanism(exact)  # It raises a ValueError if epsilon is too small for any list.
    least = np.inf
    for kappa in degrees.candidates():
        if kappa > 1 and exact / kappa < LEAST_RATE:
            return
        kept = degrees.kept(kappa)
        # For lists of the same shape, noise is proportional to the side of the Durfee square, and
        # so to the root of the contributions.
        noise, *others = _noise(exact, contributions, kappa) * math.sqrt(kept / degrees.total)
        if noise > least:
            return
        error = (degrees.total - kept) / 2 + noise
        least = min(least, error)
        yield kappa, _Effect(float(noise), (float(min(others)), float(max(others))), error)


def _noise(epsilon: Fraction, contributions: int, kappa: int) -> FloatArray:
    """Returns half the expected L1 distances by which noise moves made-up lists, the Zipf list
    first."""
    if epsilon < LEAST_RATE:
        # Such lists are mostly noise, and would take minutes.
        return np.full(len(KINDS), expected_noise(float(epsilon / kappa), contributions))
    if kappa == 1:
        return np.exp(_simulated(epsilon, contributions, 0))
    power = int(math.log(kappa + 0.5, _STEP))  # Of the largest power up to kappa.
    if epsilon / _STEP ** max(power - 1, 0) > _EXPONENTIAL_FROM:
        # The logarithm is nearly linear in the rate, between the powers on both sides of kappa.
        low, high = (
            _simulated(epsilon, contributions, power),
            _simulated(epsilon, contributions, power + 1),
        )
        part = (1 - _STEP**power / kappa) / (1 - 1 / _STEP)
        between: FloatArray = np.exp(low * (1 - part) + high * part)
        return between
    # A power law through the two largest powers up to kappa, since larger ones take longer; or
    # through 1 and _STEP if kappa is below _STEP.
    power = max(1, power)
    part = math.log(kappa, _STEP) - power
    at_power = _simulated(epsilon, contributions, power)
    before = _simulated(epsilon, contributions, power - 1)
    return np.exp(at_power * (1 + part) - before * part)


@lru_cache
def _simulated(epsilon: Fraction, contributions: int, power: int) -> FloatArray:
    """Returns the logarithms of the distances of ``_noise`` if kappa is this power of ``_STEP``."""
    dists = made_up_dists(partition_mechanism(epsilon, _STEP**power), contributions)
    return np.log(np.maximum([*dists.values()], 1e-9))


def _selections(degrees: _Degrees, epsilon: Number, delta: Number) -> Iterator[tuple[int, _Effect]]:
    """Yields values of kappa, ascending, and their effects on a selection of names.

    A strategy takes a third of a second to make. So powers of two are tried first, until one is
    hopeless, and then the values around the best power.
    """
    every = list(degrees.candidates())
    # Cells begin at 4, 5 and 6 times a power of two. A strategy takes long to make, so the middle
    # ones are left out, unless one is the largest candidate.
    candidates = [kappa for kappa in every if kappa % 5 or kappa == every[-1]]
    needed: dict[int, float] = {}
    for kappa in candidates:
        is_power_of_two = kappa.bit_count() == 1
        if is_power_of_two or kappa == candidates[-1]:
            needed[kappa] = _needed(degrees, epsilon, delta, kappa)
            if needed[kappa] > _HOPELESS * min(needed.values()):
                break
    best = min(needed, key=needed.__getitem__)
    for kappa in candidates:
        if kappa not in needed and best / 2 < kappa < 2 * best:
            needed[kappa] = _needed(degrees, epsilon, delta, kappa)
    least = min(needed.values())
    for kappa, error in sorted(needed.items()):
        if error <= _HOPELESS * least:
            yield kappa, _Effect(None, None, error)


def _needed(degrees: _Degrees, epsilon: Number, delta: Number, kappa: int) -> float:
    """Returns the number of users in all records with which a partition is named half of the time.
    It is infinite if no number is enough."""
    strategy = choose_strategy(epsilon, delta, max_partitions_per_user=kappa)
    needed = strategy.median_users
    if needed is None:
        return math.inf
    counted = np.minimum(degrees.degrees, kappa)
    weights = np.ones(len(counted))
    if isinstance(strategy, WeightedStrategy):
        last = len(strategy.rounds) - 1
        steps = strategy.weights(last, [*np.maximum(1, np.rint(counted)).astype(int), kappa])
        weights = steps[:-1] / steps[-1]
    return needed * degrees.total / float(degrees.users @ (counted * weights))
