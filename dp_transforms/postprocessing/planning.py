"""The accuracy to expect of a release, before any data are read.

Everything here is computed from public numbers: the number of users, a public list of a similar
kind (or a Zipf list in its place), and the parameters of the release. It costs no privacy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.integer_partition.choice import (
    NAMED_MECHANISMS,
    chosen_mechanism,
    partition_mechanism,
)
from dp_transforms.mechanisms.integer_partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition_selection import STRATEGIES, choose_strategy
from dp_transforms.mechanisms.partition_selection.strategy import StrategyRefusal
from dp_transforms.mechanisms.randomness import RandomTape

_SIMULATIONS, _MOVED = 4, 3_000


@dataclass(frozen=True)
class SelectionPlan:
    """One selection strategy at one budget.

    Attributes:
      strategy: its name.
      chosen: it is the one that ``strategy="auto"`` takes.
      half_from: the fewest users with which a partition is kept half of the time; None if never.
      named: how many partitions of the reference list have at least that many users.
    """

    strategy: str
    chosen: bool
    half_from: int | None
    named: int


@dataclass(frozen=True)
class MechanismPlan:
    """One mechanism for frequency lists at one budget.

    Attributes:
      mechanism: its name.
      chosen: it is the one that jobs take if none is named.
      expected_dist: half the expected L1 distance between the released and the reference list; None
        if it does not work at this epsilon.
      standard_error: of that, 0 where it is exact.
    """

    mechanism: str
    chosen: bool
    expected_dist: float | None
    standard_error: float | None


@dataclass(frozen=True)
class ReleasePlan:
    """One frequency list and, with a delta, one selection at the same epsilon each.

    Attributes:
      epsilon: of the list, and of the selection.
      mechanisms: one for each mechanism; what follows is of the chosen one.
      expected_dist: half the expected L1 distance between the released and the reference list.
      relative_error: the expected L1 distance, as a part of all contributions.
      seconds: how long one release of the reference list took here.
      selections: one for each strategy.
    """

    epsilon: float
    mechanisms: tuple[MechanismPlan, ...]
    expected_dist: float
    relative_error: float
    seconds: float
    selections: tuple[SelectionPlan, ...]


def plan_releases(
    reference: FrequencyList,
    epsilons: Sequence[Number],
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
) -> tuple[ReleasePlan, ...]:
    """Predicts releases of a list like the reference, one plan for each epsilon.

    Args:
      reference: a PUBLIC list; never the one to release, since its error is private.
      epsilons: the budgets to compare.
      delta: of the selection; without it none is planned.
      max_partitions_per_user: kappa.

    Raises:
      ValueError: the reference is empty, or a parameter is out of range.

    >>> plan, = plan_releases(zipf_list(10_000), [1], delta=1e-5)
    >>> 20 < plan.expected_dist < 40
    True
    >>> [m.mechanism for m in plan.mechanisms if m.expected_dist]
    ['frobenius', 'exponential']
    >>> [(s.strategy, s.half_from, s.named) for s in plan.selections if s.chosen]
    [('measured', 12, 113)]
    """
    if not len(reference):
        raise ValueError("reference is empty: a plan needs a list with at least one partition")
    return tuple(_plan(reference, epsilon, delta, max_partitions_per_user) for epsilon in epsilons)


def zipf_list(contributions: int, exponent: float = 1.0) -> FrequencyList:
    """The list in which rank i has floor(c / i**exponent) users, c as large as the total allows.

    Args:
      contributions: an upper bound on the sum of all frequencies.
      exponent: how fast frequencies fall; about 1 for words and pages, below 1 for passwords.

    Raises:
      ValueError: contributions is below 1, or exponent is not between 0.5 and 3.

    >>> list(zipf_list(10))
    [(5, 1), (2, 1), (1, 3)]
    """
    if contributions < 1:
        raise ValueError(f"contributions must be at least 1, got {contributions}")
    if not 0.5 <= exponent <= 3:
        raise ValueError(f"exponent must be between 0.5 and 3, got {exponent}")
    low, high = 1.0, float(contributions + 1)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _zipf(middle, exponent).total <= contributions else (low, middle)
        )
    return _zipf(low, exponent)


def _zipf(scale: float, exponent: float) -> FrequencyList:
    # The first ranks one by one, the rest by how many ranks have at least each frequency.
    ranks = math.ceil(scale ** (1 / (1 + exponent)))
    head = np.floor(scale / np.arange(1, ranks + 1) ** exponent).astype(np.int64)
    values = np.arange(head[-1], 0, -1)
    at_least = np.floor((scale / values) ** (1 / exponent)).astype(np.int64)
    tail = np.diff(np.maximum(at_least, ranks), prepend=ranks)
    found, runs = np.unique(np.append(head, values), return_inverse=True)
    multiplicities = np.bincount(runs, np.append(np.ones_like(head), tail)).astype(np.int64)
    kept = np.flatnonzero((multiplicities > 0) & (found > 0))[::-1]
    return FrequencyList(found[kept], multiplicities[kept])


def _plan(
    reference: FrequencyList, epsilon: Number, delta: Number | None, kappa: int
) -> ReleasePlan:
    mechanism = partition_mechanism(epsilon, kappa)
    chosen = chosen_mechanism(epsilon, kappa)
    seconds = None
    plans = []
    for name in NAMED_MECHANISMS:
        try:
            dist, error, time_of_one = expected_dist(
                partition_mechanism(epsilon, kappa, name), reference
            )
        except ValueError:  # Another one works at this epsilon, or this would not have been asked.
            plans.append(MechanismPlan(name, False, None, None))
        else:
            plans.append(MechanismPlan(name, name == chosen, dist, error))
            seconds = time_of_one if name == chosen else seconds
    (best,) = (plan.expected_dist for plan in plans if plan.chosen)
    assert best is not None
    if seconds is None:
        start = time.perf_counter()
        mechanism.release(reference)
        seconds = time.perf_counter() - start
    return ReleasePlan(
        mechanism.epsilon_cost,
        tuple(plans),
        best,
        2 * best / reference.total,
        seconds,
        () if delta is None else _selections(reference, epsilon, delta, kappa),
    )


class ExpectedDist(NamedTuple):
    """The answer of ``expected_dist``."""

    dist: float
    standard_error: float
    seconds: float | None  # of one simulated release; None where there was none


def expected_dist(mechanism: PartitionMechanism, reference: FrequencyList) -> ExpectedDist:
    """Half the mean L1 distance of releases of a PUBLIC list, and its standard error.

    Exact, with an error of 0, where the distribution of releases has a formula; else simulated, by
    draws from fixed seeds until some 3,000 users have been moved, two at least and four at most.
    """
    if not mechanism.decodes:
        return ExpectedDist(mechanism.law.expected_l1(reference) / 2, 0.0, None)
    moved: list[int] = []
    start = time.perf_counter()
    while len(moved) < 2 or (sum(moved) < _MOVED and len(moved) < _SIMULATIONS):
        tape = RandomTape.from_secret(bytes(32), f"simulation {len(moved)} of a public list")
        moved.append(mechanism.release(reference, tape).l1_distance(reference))
    dists = np.array(moved) / 2
    seconds = (time.perf_counter() - start) / len(dists)
    error = float(dists.std(ddof=1) / math.sqrt(len(dists)))
    return ExpectedDist(float(dists.mean()), error, seconds)


def _selections(
    reference: FrequencyList, epsilon: Number, delta: Number, kappa: int
) -> tuple[SelectionPlan, ...]:
    chosen = choose_strategy(epsilon, delta, max_partitions_per_user=kappa).name
    plans = []
    for name, strategy in STRATEGIES.items():
        try:
            half = strategy(epsilon, delta, max_partitions_per_user=kappa).median_users
        except StrategyRefusal:
            continue
        named = 0
        if half is not None:
            named = int(reference.multiplicities[reference.frequencies >= half].sum())
        plans.append(SelectionPlan(name, name == chosen, half, named))
    return tuple(plans)
