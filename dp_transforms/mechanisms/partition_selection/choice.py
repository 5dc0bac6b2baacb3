"""Strategies by name, and the choice among them from public parameters alone."""

from __future__ import annotations

import math
from typing import Any

from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition_selection.count_strategies import (
    GaussianSelection,
    LaplaceSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.partition_selection.measured import MeasuredSelection
from dp_transforms.mechanisms.partition_selection.renyi_strategies import (
    RenyiRoundsSelection,
    RenyiSelection,
)
from dp_transforms.mechanisms.partition_selection.strategy import (
    SelectionStrategy,
    StrategyRefusal,
)
from dp_transforms.mechanisms.partition_selection.weighted_strategies import (
    SipsSelection,
    WeightedGaussianSelection,
)

AUTO = "auto"

STRATEGIES: dict[str, type[SelectionStrategy]] = {
    strategy.name: strategy
    for strategy in (
        OptimalSelection,
        TruncatedGeometricSelection,
        LaplaceSelection,
        WeightedGaussianSelection,
        GaussianSelection,
        SipsSelection,
        RenyiSelection,
        RenyiRoundsSelection,
        MeasuredSelection,
    )
}
"""Every strategy by its name. Of equally good ones ``choose_strategy`` takes the first."""

_SEVERAL_ROUNDS = (SipsSelection, RenyiRoundsSelection, MeasuredSelection)
_WORTH_ROUNDS = 1.5


def make_strategy(
    strategy: str,
    epsilon: Number,
    delta: Number,
    noisy_counts: bool = False,
    already_bounded: bool = False,
    **options: Any,
) -> SelectionStrategy:
    """The strategy of a name, or the best one for ``"auto"``.

    Args:
      strategy: "auto" or a key of ``STRATEGIES``.
      epsilon, delta: the budget of the whole selection.
      noisy_counts: noisy counts are wanted with the selected partitions.
      already_bounded: no user has more than kappa partitions before they are bounded, which "auto"
        then knows.
      **options: other arguments of the strategies, such as ``max_partitions_per_user``.

    Raises:
      ValueError: there is no such strategy, it has no noisy counts, or an option is out of range.

    >>> make_strategy("laplace", 1, 1e-5).name
    'laplace'
    """
    if strategy == AUTO:
        return choose_strategy(epsilon, delta, noisy_counts, already_bounded, **options)
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy must be {AUTO!r} or one of {list(STRATEGIES)}, got {strategy!r}"
        )
    chosen = STRATEGIES[strategy]
    if noisy_counts and not chosen.has_noisy_counts:
        able = [name for name, other in STRATEGIES.items() if other.has_noisy_counts]
        raise ValueError(
            f"strategy {strategy!r} has no noisy counts; take {AUTO!r} or one of {able}"
        )
    return chosen(epsilon, delta, **options)


def choose_strategy(
    epsilon: Number,
    delta: Number,
    noisy_counts: bool = False,
    already_bounded: bool = False,
    **options: Any,
) -> SelectionStrategy:
    """The strategy that should name the most partitions, by public parameters alone.

    That is ``measured``, which looks how many partitions users have. If they are known to have at
    most kappa, it is ``optimal`` for kappa = 1, which no other exceeds there, and ``renyi_rounds``
    from kappa = 2 on. Rounds are for kappa from 2 on if the last one, with no gain from earlier
    ones, needs at most half as many users again as the best single round for keeping a partition
    half of the time. Otherwise it is that best single round, compared at the smallest weights,
    where every user has ``max_partitions_per_user`` partitions. Strategies that refuse the
    parameters are left out. The choice costs no privacy.

    Args and errors: see ``make_strategy``.

    >>> choose_strategy(1, 1e-5).name, choose_strategy(1, 1e-5, already_bounded=True).name
    ('measured', 'optimal')
    >>> choose_strategy(1, 1e-5, max_partitions_per_user=10).name
    'measured'
    >>> choose_strategy(1, 1e-5, noisy_counts=True, max_partitions_per_user=10).name
    'gaussian'
    """
    best, best_median = None, math.inf
    for strategy in STRATEGIES.values():
        if strategy in _SEVERAL_ROUNDS or (noisy_counts and not strategy.has_noisy_counts):
            continue
        if strategy.needs_positive_budget and 0 in (epsilon, delta):
            continue
        try:
            candidate = strategy(epsilon, delta, **options)
        except StrategyRefusal:
            continue
        median = candidate.median_users
        if median is not None and median < best_median:
            best, best_median = candidate, median
    if best is None:
        raise ValueError(
            "no partition could ever be selected: delta and, for noisy counts, epsilon must be "
            f"positive, got epsilon={epsilon!r} and delta={delta!r}"
        )
    one = best.max_partitions_per_user == 1
    if noisy_counts or 0 in (epsilon, delta) or (one and already_bounded):
        return best
    several = RenyiRoundsSelection if already_bounded else MeasuredSelection
    try:
        rounds = several(epsilon, delta, **options)
    except StrategyRefusal:
        return best
    if one or (rounds.median_users or math.inf) <= _WORTH_ROUNDS * best_median:
        return rounds
    return best
