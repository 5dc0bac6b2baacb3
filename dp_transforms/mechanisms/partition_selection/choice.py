"""Strategies by name, and the choice among them from public parameters alone."""

from __future__ import annotations

from typing import Any

from dp_transforms.mechanisms.base2 import Rational
from dp_transforms.mechanisms.partition_selection.count_strategies import (
    GaussianSelection,
    LaplaceSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.partition_selection.strategy import SelectionStrategy
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
    )
}
"""Every strategy by its name. Of equally good ones ``choose_strategy`` takes the first."""


def make_strategy(
    strategy: str, epsilon: Rational, delta: Rational, noisy_counts: bool = False, **options: Any
) -> SelectionStrategy:
    """The strategy of a name, or the best one for ``"auto"``.

    Args:
      strategy: "auto" or a key of ``STRATEGIES``.
      epsilon, delta: the budget of the whole selection.
      noisy_counts: noisy counts are wanted with the selected partitions.
      **options: other arguments of the strategies, such as ``max_partitions_per_user``.

    Raises:
      ValueError: there is no such strategy, it has no noisy counts, or an option is out of range.

    >>> make_strategy("laplace", 1, 1e-5).name
    'laplace'
    """
    if strategy == AUTO:
        return choose_strategy(epsilon, delta, noisy_counts, **options)
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
    epsilon: Rational, delta: Rational, noisy_counts: bool = False, **options: Any
) -> SelectionStrategy:
    """The single-round strategy that keeps a partition half of the time at the fewest users.

    The comparison is at the smallest weights, where every user has ``max_partitions_per_user``
    partitions, and uses public parameters alone: the choice costs no privacy. Several rounds (sips)
    pay where many partitions are shared by many users, which public parameters do not tell: name it
    to use it.

    Args and errors: see ``make_strategy``.

    >>> choose_strategy(1, 1e-5).name
    'optimal'
    >>> choose_strategy(1, 1e-5, max_partitions_per_user=10).name
    'weighted_gaussian'
    >>> choose_strategy(1, 1e-5, noisy_counts=True, max_partitions_per_user=10).name
    'gaussian'
    """
    best, best_median = None, None
    for strategy in STRATEGIES.values():
        if strategy is SipsSelection or (noisy_counts and not strategy.has_noisy_counts):
            continue
        if strategy.needs_positive_budget and 0 in (epsilon, delta):
            continue
        candidate = strategy(epsilon, delta, **options)
        median = candidate.median_users
        if median is not None and (best_median is None or median < best_median):
            best, best_median = candidate, median
    if best is None:
        raise ValueError(
            "no partition could ever be selected: delta and, for noisy counts, epsilon must be "
            f"positive, got epsilon={epsilon!r} and delta={delta!r}"
        )
    return best
