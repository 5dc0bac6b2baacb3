"""Predicts the errors of a release before any data are read.

Everything here is computed from public numbers: the number of users, a public list of a similar
kind (or made-up lists in its place), and the parameters of the release. So a plan costs no privacy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import FrobeniusCoordinates
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import (
    NAMED_MECHANISMS,
    chosen_mechanism,
    partition_mechanism,
)
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.selection import STRATEGIES, MeasuredSelection, choose_strategy
from dp_transforms.mechanisms.selection.measured import Choice
from dp_transforms.mechanisms.selection.population import Population
from dp_transforms.mechanisms.selection.strategy import StrategyRefusal

_SIMULATIONS, _MOVED = 4, 800
"""A list is released so often, or until noise has moved so many users."""
_LEAST_PLANNED_RATE = 0.02
"""Mechanisms with a smaller rate of noise are planned only if they are the default. The others have
several times its error, and their formulas take seconds."""
_EXACT, _ROUGH = 1500, 600
"""The largest side of a Durfee square that is simulated: for references, and for made-up lists."""
_SKETCHED = 100_000
"""The most contributions of a made-up list that is simulated. Errors of larger ones are scaled."""
_MOST_MADE_UP = 10**14  # Larger lists take minutes, and then all memory.
KINDS = "Zipf", "log-normal", "two steps"


@dataclass(frozen=True)
class SelectionPlan:
    """Predicts the names of one selection strategy at one budget.

    Attributes:
      strategy: the name of the strategy.
      chosen: whether ``strategy="auto"`` takes it.
      half_from: the fewest users with which a partition is named half of the time; None if there
        are none.
      named: how many partitions of the reference list have at least that many users. For "measured"
        it is the number of names that its plan is predicted to find, if each user has
        ``max_partitions_per_user`` partitions.
    """

    strategy: str
    chosen: bool
    half_from: int | None
    named: int


@dataclass(frozen=True)
class MechanismPlan:
    """Predicts the error of one mechanism for frequency lists at one budget.

    Attributes:
      mechanism: the name of the mechanism.
      chosen: whether jobs take it by default.
      expected_dist: half the expected L1 distance between the released and the reference list. None
        if the mechanism is not for this epsilon, or if it is far worse than the default.
    """

    mechanism: str
    chosen: bool
    expected_dist: float | None


@dataclass(frozen=True)
class ReleasePlan:
    """Predicts the errors of a frequency list and, with a delta, of a selection of names.

    Attributes:
      epsilon: the cost of the list, and again of the selection.
      mechanisms: the plan of each mechanism. The numbers below are for the chosen one.
      expected_dist: half the expected L1 distance between the released and the reference list.
      relative_error: the expected L1 distance divided by the number of all contributions.
      seconds: about how long one release of the reference list takes on this machine.
      selections: the plan of each strategy; empty without a delta.
      other_dists: the same as ``expected_dist`` for lists of other kinds, by their names.
    """

    epsilon: float
    mechanisms: tuple[MechanismPlan, ...]
    expected_dist: float
    relative_error: float
    seconds: float
    selections: tuple[SelectionPlan, ...]
    other_dists: Mapping[str, float] = field(default_factory=dict)


def plan_releases(
    reference: FrequencyList,
    epsilons: Sequence[Number],
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
    made_up: bool = False,
) -> tuple[ReleasePlan, ...]:
    """Returns a plan for each epsilon: of releases of a list like the reference.

    Args:
      reference: a PUBLIC list; never the one to release, since its error is private.
      epsilons: the budgets to compare.
      delta: the delta of a selection of names; without it none is planned.
      max_partitions_per_user: kappa.
      made_up: whether the reference is a made-up Zipf list. If so, lists of the other ``KINDS`` are
        planned as well.

    Raises:
      ValueError: the reference is empty, or a parameter is out of range.

    >>> plan, = plan_releases(zipf_list(10_000), [1], delta=1e-5)
    >>> 20 < plan.expected_dist < 40
    True
    >>> [m.mechanism for m in plan.mechanisms if m.chosen]
    ['frobenius']
    >>> [(s.strategy, s.half_from, s.named) for s in plan.selections if s.chosen]
    [('measured', 12, 116)]
    """
    if not len(reference):
        raise ValueError("reference is empty: a plan needs a list with at least one partition")
    return tuple(
        _plan(reference, epsilon, delta, max_partitions_per_user, made_up) for epsilon in epsilons
    )


def zipf_list(contributions: int, exponent: float = 1.0) -> FrequencyList:
    """Returns the list with floor(c / i**exponent) users at rank i, for the largest possible c.

    Args:
      contributions: an upper bound on the sum of all frequencies, from 1 to 10**14.
      exponent: how fast frequencies fall, from 0.5 to 3; about 1 for words and pages, below 1 for
        passwords.

    >>> list(zipf_list(10))
    [(5, 1), (2, 1), (1, 3)]
    """
    contributions = positive_integer("contributions", contributions)
    if contributions > _MOST_MADE_UP:
        raise ValueError(
            f"contributions must be at most {_MOST_MADE_UP:,}, got {contributions:,}: plan for "
            "fewer users, or a smaller bound on what each one has"
        )
    if not 0.5 <= exponent <= 3:
        raise ValueError(f"exponent must be between 0.5 and 3, got {exponent}")
    low, high = 1.0, float(contributions + 1)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if _zipf(middle, exponent).total <= contributions:
            low = middle
        else:
            high = middle
    return _zipf(low, exponent)


def _zipf(scale: float, exponent: float) -> FrequencyList:
    """Returns the list with floor(scale / i**exponent) users at rank i.

    The first ranks are computed one by one. Behind them many ranks share a frequency. So for each
    frequency the last rank is computed that has at least so much.
    """
    ranks = math.ceil(scale ** (1 / (1 + exponent)))
    head = np.floor(scale / np.arange(1, ranks + 1) ** exponent).astype(np.int64)
    values = np.arange(head[-1], 0, -1)
    at_least = np.floor((scale / values) ** (1 / exponent)).astype(np.int64)
    tail = np.diff(np.maximum(at_least, ranks), prepend=ranks)
    return FrequencyList.from_runs(np.append(head, values), np.append(np.ones_like(head), tail))


def made_up_lists(contributions: int) -> dict[str, FrequencyList]:
    """Returns a list of each of ``KINDS`` with about this many contributions, by kind.

    The log-normal list has more partitions with many users each than the Zipf list. The list of two
    steps has only two frequencies, so that a decoder can tell nearly all noise from it.
    """
    partitions = round(contributions**0.75)
    normal = map(NormalDist().inv_cdf, (np.arange(partitions, 0, -1) - 0.5) / partitions)
    sizes = np.exp(2 * np.fromiter(normal, float))
    few = math.isqrt(contributions)
    return {
        "Zipf": zipf_list(contributions),
        "log-normal": FrequencyList.from_runs(
            np.rint(sizes * contributions / sizes.sum()), np.ones(partitions)
        ),
        "two steps": FrequencyList.from_runs(
            [-(-few // 2), -(-contributions // (2 * partitions))], [few, partitions]
        ),
    }


def _plan(
    reference: FrequencyList,
    epsilon: Number,
    delta: Number | None,
    max_partitions: int,
    made_up: bool,
) -> ReleasePlan:
    """Returns the plan for one epsilon; see ``plan_releases`` for arguments."""
    mechanism = partition_mechanism(epsilon, max_partitions)
    chosen = chosen_mechanism(epsilon, max_partitions)
    expected = {}
    for name in NAMED_MECHANISMS:
        try:
            named = partition_mechanism(epsilon, max_partitions, name)
        except ValueError:  # Another mechanism works at this epsilon.
            continue
        if name == chosen or named.rate >= _LEAST_PLANNED_RATE:
            expected[name] = expected_dist(named, reference, _ROUGH if made_up else _EXACT)
    dist, seconds = expected[chosen]
    mechanisms = tuple(
        MechanismPlan(name, name == chosen, expected[name].dist if name in expected else None)
        for name in NAMED_MECHANISMS
    )
    selections: tuple[SelectionPlan, ...] = ()
    if delta is not None:
        selections = _selections(reference, epsilon, delta, max_partitions)
    return ReleasePlan(
        epsilon=mechanism.epsilon_cost,
        mechanisms=mechanisms,
        expected_dist=dist,
        relative_error=2 * dist / reference.total,
        seconds=seconds,
        selections=selections,
        other_dists=made_up_dists(mechanism, reference.total, KINDS[1:]) if made_up else {},
    )


def made_up_dists(
    mechanism: PartitionMechanism, contributions: int, kinds: Sequence[str] = KINDS
) -> dict[str, float]:
    """Returns about half the expected L1 distance between a made-up list and its release, by kind.

    A list of more than ``_SKETCHED`` contributions is replaced by one of ``_SKETCHED``
    contributions. Its error is scaled by the square root of the ratio of the two numbers.

    Args:
      mechanism: releases the lists.
      contributions: the number of contributions of each list.
      kinds: some of ``KINDS``.
    """
    small = min(contributions, _SKETCHED)
    lists, scale = made_up_lists(small), math.sqrt(contributions / small)
    return {
        kind: expected_dist(mechanism, lists[kind], least_moved=1).dist * scale for kind in kinds
    }


class ExpectedDist(NamedTuple):
    """Half an expected L1 distance, and the seconds that a release or the formula takes."""

    dist: float
    seconds: float


def expected_dist(
    mechanism: PartitionMechanism,
    reference: FrequencyList,
    largest_square: int = _EXACT,
    least_moved: int = _MOVED,
) -> ExpectedDist:
    """Returns half the mean L1 distance of a PUBLIC list to a mechanism's unrestricted releases.

    It is exact if the mechanism has a ``distribution_type``. Otherwise it is the mean of a few
    draws from fixed seeds: until ``least_moved`` users have been moved, and four at most.

    If the side of the list's Durfee square is larger than ``largest_square``, a list with a smaller
    diagram takes its place, and the distance is scaled by the ratio of the sides. For noise moves
    each stretch of a diagram's boundary according to its slope, so that the distance grows in
    proportion to the side.
    """
    side = FrobeniusCoordinates(reference).square
    small = scaled_down(reference, -(-side // largest_square))
    scale = 1.0
    if small is not reference:
        scale = side / max(FrobeniusCoordinates(small).square, 1)
    start = time.perf_counter()
    if mechanism.distribution_type is not None:
        dist = mechanism.distribution.expected_l1(small) / 2
        return ExpectedDist(dist * scale, time.perf_counter() - start)
    moved: list[int] = []
    while not moved or (sum(moved) < least_moved and len(moved) < _SIMULATIONS):
        tape = RandomTape.from_secret(bytes(32), f"simulation {len(moved)} of a public list")
        moved.append(mechanism.release(small, tape).l1_distance(small))
    seconds = (time.perf_counter() - start) / len(moved)
    return ExpectedDist(float(np.mean(moved)) / 2 * scale, seconds * scale)


def scaled_down(frequency_list: FrequencyList, scale: int) -> FrequencyList:
    """Returns the list whose diagram is smaller by the factor ``scale`` in both directions.

    >>> list(scaled_down(FrequencyList([900, 20, 1], [100, 1000, 90]), 10))
    [(90, 10), (2, 100)]
    """
    if scale <= 1:
        return frequency_list
    ends = (frequency_list.multiplicities.cumsum() + scale // 2) // scale
    values = (frequency_list.frequencies + scale // 2) // scale
    return FrequencyList.from_runs(values, np.diff(ends, prepend=0))


def _selections(
    reference: FrequencyList, epsilon: Number, delta: Number, max_partitions: int
) -> tuple[SelectionPlan, ...]:
    """Returns the plans of all strategies that can be used at this budget."""
    chosen = choose_strategy(epsilon, delta, max_partitions_per_user=max_partitions).name
    plans = []
    for name, strategy in STRATEGIES.items():
        try:
            half = strategy(epsilon, delta, max_partitions_per_user=max_partitions).median_users
        except StrategyRefusal:
            continue
        named = 0 if half is None else int(reference.at_least([half])[0])
        if name == MeasuredSelection.name:
            named = round(planned_choice(reference, epsilon, delta, max_partitions).chosen.names)
        plans.append(SelectionPlan(name, name == chosen, half, named))
    return tuple(plans)


def planned_choice(
    reference: FrequencyList,
    epsilon: Number,
    delta: Number,
    max_partitions: int,
    counted: bool = False,
) -> Choice:
    """Returns what the strategy "measured" would choose for a PUBLIC list, with its predictions.

    Every user is assumed to have ``max_partitions`` partitions.

    >>> planned_choice(zipf_list(100_000), 1, 1e-5, 1).plan.by
    'optimal'
    """
    users = max(reference.total / max_partitions, 1.0)
    population = Population.of_sizes(
        np.array([float(max_partitions)]),
        np.array([users]),
        reference.frequencies.astype(float),
        reference.multiplicities.astype(float),
    )
    strategy = MeasuredSelection(epsilon, delta, max_partitions, counted=counted)
    return strategy.choice_for(population)
