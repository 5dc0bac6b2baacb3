"""Lists strategies by name, chooses one, and shows how likely each is to keep a partition.

All this depends on public parameters alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dp_transforms.mechanisms.arguments import boolean, shown
from dp_transforms.mechanisms.decimals import Number, exact_fraction
from dp_transforms.mechanisms.selection.count_strategies import (
    GaussianSelection,
    LaplaceSelection,
    OptimalSelection,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.selection.measured import MeasuredSelection
from dp_transforms.mechanisms.selection.rounds import RenyiRoundsSelection
from dp_transforms.mechanisms.selection.strategy import (
    REPLACE,
    CountStrategy,
    NoisyCountStrategy,
    SelectionStrategy,
    StrategyRefusal,
)

AUTO = "auto"

STRATEGIES: dict[str, type[SelectionStrategy]] = {
    strategy.name: strategy
    for strategy in (
        OptimalSelection,
        TruncatedGeometricSelection,
        LaplaceSelection,
        GaussianSelection,
        RenyiRoundsSelection,
        MeasuredSelection,
    )
}
"""All strategies by name. Of equally good ones ``choose_strategy`` takes the first."""

_ROWS = 16


def make_strategy(
    strategy: str,
    epsilon: Number,
    delta: Number,
    noisy_counts: bool = False,
    already_bounded: bool = False,
    **options: Any,
) -> SelectionStrategy:
    """Returns the strategy of a name, or for "auto" the result of ``choose_strategy``.

    Args:
      strategy: "auto" or a key of ``STRATEGIES``.
      epsilon, delta: the budget of the whole selection.
      noisy_counts: whether selected partitions get noisy counts.
      already_bounded: whether users are known to have at most kappa partitions. It only matters for
        "auto".
      **options: other arguments of the strategies, such as ``max_partitions_per_user``.

    Raises:
      ValueError: there is no such strategy, it has no noisy counts, or an option is out of range.

    >>> make_strategy("laplace", 1, 1e-5).name
    'laplace'
    """
    boolean("noisy_counts", noisy_counts)
    if isinstance(strategy, str) and strategy == AUTO:
        return choose_strategy(epsilon, delta, noisy_counts, already_bounded, **options)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ValueError(
            f"strategy must be {AUTO!r} or one of {list(STRATEGIES)}, got {shown(strategy)}"
        )
    chosen = STRATEGIES[strategy]
    if chosen is MeasuredSelection:
        return MeasuredSelection(epsilon, delta, counted=noisy_counts, **options)
    if noisy_counts and not chosen.has_noisy_counts:
        with_counts = [name for name in STRATEGIES if _may_count(name)]
        raise ValueError(
            f"strategy {strategy!r} has no noisy counts; take {AUTO!r} or one of {with_counts}"
        )
    return chosen(epsilon, delta, **options)


def _may_count(name: str) -> bool:
    """Tells whether the strategy of this name can release noisy counts."""
    return name == MeasuredSelection.name or STRATEGIES[name].has_noisy_counts


def choose_strategy(
    epsilon: Number,
    delta: Number,
    noisy_counts: bool = False,
    already_bounded: bool = False,
    **options: Any,
) -> SelectionStrategy:
    """Returns the strategy that is expected to name the most partitions.

    The choice depends on public parameters alone, and costs no privacy.

    Usually it is ``measured``, with and without noisy counts. This strategy chooses between several
    rounds and a single one by a private look at the records.

    There are three exceptions: users are known to have at most kappa partitions; epsilon or delta
    is 0; or ``measured`` refuses the parameters. Then it is the strategy that needs the fewest
    users to keep a partition half of the time. For kappa = 2 or more without noisy counts,
    ``renyi_rounds`` is taken instead if it accepts the parameters and neither epsilon nor delta is
    0.

    Args and errors: see ``make_strategy``.

    >>> choose_strategy(1, 1e-5).name, choose_strategy(1, 1e-5, already_bounded=True).name
    ('measured', 'optimal')
    >>> choose_strategy(1, 1e-5, max_partitions_per_user=10).name
    'measured'
    >>> choose_strategy(1, 1e-5, True, already_bounded=True, max_partitions_per_user=10).name
    'gaussian'
    """
    has_zero = 0 in (exact_fraction("epsilon", epsilon), exact_fraction("delta", delta))
    if not has_zero and not already_bounded:
        with contextlib.suppress(StrategyRefusal):
            return MeasuredSelection(epsilon, delta, counted=noisy_counts, **options)
    wanted_kind = NoisyCountStrategy if noisy_counts else CountStrategy
    medians: dict[SelectionStrategy, int] = {}
    for kind in STRATEGIES.values():
        if not issubclass(kind, wanted_kind) or (has_zero and kind.needs_positive_budget):
            continue
        with contextlib.suppress(StrategyRefusal):
            strategy = kind(epsilon, delta, **options)
            if strategy.median_users:
                medians[strategy] = strategy.median_users
    if not medians:
        raise ValueError(
            "no partition could ever be selected: delta and, for noisy counts, epsilon must be "
            f"positive, got epsilon={shown(epsilon)} and delta={shown(delta)}"
        )
    best = min(medians, key=medians.__getitem__)
    if not noisy_counts and not has_zero and best.max_partitions_per_user > 1:
        with contextlib.suppress(StrategyRefusal):
            return RenyiRoundsSelection(epsilon, delta, **options)
    return best


@dataclass(frozen=True)
class Explanation:
    """Holds the keep-probabilities of several strategies at several numbers of users.

    Attributes:
      strategies: the strategies that are compared.
      chosen: the name of the strategy that ``strategy="auto"`` takes.
      users: numbers of users per partition, ascending.
      probabilities: for each strategy, its ``keep_probability`` at each number of users.
      refused: names of strategies that refuse these parameters, with their reasons.
    """

    strategies: tuple[SelectionStrategy, ...]
    chosen: str
    users: tuple[int, ...]
    probabilities: tuple[tuple[float, ...], ...]
    refused: tuple[str, ...] = ()

    @property
    def budget(self) -> str:
        """Returns a text with epsilon, delta, kappa and all parameters that differ from their
        defaults."""
        strategy = self.strategies[0]
        max_partitions = strategy.max_partitions_per_user
        partitions = "1 partition" if max_partitions == 1 else f"{max_partitions} partitions"
        words = [
            f"epsilon = {float(strategy.epsilon):g}",
            f"delta = {float(strategy.delta):g}",
            f"{partitions} per user",
        ]
        if strategy.pre_threshold > 1:
            words.append(f"{strategy.pre_threshold} users at least")
        if strategy.neighbours == REPLACE:
            words.append("a user's records replaced")
        return ", ".join(words)

    @property
    def reason(self) -> str:
        """Returns a text that says why this strategy was chosen."""
        chosen = next(s for s in self.strategies if s.name == self.chosen)
        if isinstance(chosen, MeasuredSelection):
            return (
                "for a small part of epsilon a noisy look at users and partitions predicts how "
                "many names each plan would find; the column shows one such plan"
            )
        if self.chosen == RenyiRoundsSelection.name:
            return "users may have several partitions, and later rounds gain from earlier ones"
        return "it keeps a partition half of the time at the fewest users"

    def __str__(self) -> str:
        names = [s.name + (" *" if s.name == self.chosen else "") for s in self.strategies]
        first = [str(n) for n in self.users] + ["half from"]
        columns = [["users", *first]]
        for name, strategy, row in zip(names, self.strategies, self.probabilities, strict=True):
            median = strategy.median_users
            cells = [f"{p:.4g}" for p in row] + ["never" if median is None else str(median)]
            columns.append([name, *cells])
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            for line in zip(*columns, strict=True)
        ]
        lines.insert(0, f"Probability of keeping a partition; {self.budget}")
        lines.append(f'* is what strategy="auto" takes: {self.reason}')
        lines += [f"left out: {refusal}" for refusal in self.refused]
        return "\n".join(lines)


def explain(
    epsilon: Number,
    delta: Number,
    users: Sequence[int] | None = None,
    noisy_counts: bool = False,
    **options: Any,
) -> Explanation:
    """Returns a comparison of strategies at the same public parameters, without any data.

    Args:
      epsilon, delta: the budget; positive.
      users: the numbers of users to show; by default up to one at which every strategy keeps nearly
        all partitions.
      noisy_counts: whether only strategies that have noisy counts are compared.
      **options: other arguments of the strategies, such as ``max_partitions_per_user``.

    Raises:
      ValueError: a parameter is out of range, or users are empty or not positive.

    >>> print(explain(1, 1e-5, users=[1, 12, 20], noisy_counts=True))
    Probability of keeping a partition; epsilon = 1, delta = 1e-05, 1 partition per user
        users  truncated_geometric  laplace  gaussian  measured *
            1            7.718e-06    1e-05     1e-05       1e-05
           12               0.7311   0.5987   0.08983      0.7547
           20               0.9999   0.9999    0.7834      0.9999
    half from                   12       12        18          12
    * is what strategy="auto" takes: for a small part of epsilon a noisy look at users and ...
    """
    strategies: list[SelectionStrategy] = []
    refused: list[str] = []
    for name in STRATEGIES:
        if noisy_counts and not _may_count(name):
            continue
        try:
            strategies.append(make_strategy(name, epsilon, delta, noisy_counts, **options))
        except StrategyRefusal as refusal:
            refused.append(f"{name}, since {refusal}")
    chosen = choose_strategy(epsilon, delta, noisy_counts, **options).name
    if users is None:
        medians = [strategy.median_users or 1 for strategy in strategies]
        shown = evenly(1, 2 * max(medians), _ROWS)
    else:
        shown = tuple(sorted(set(users)))
        if not shown or shown[0] < 1:
            raise ValueError("users must be positive integers, at least one")
    probabilities = tuple(
        tuple(strategy.keep_probability(n) for n in shown) for strategy in strategies
    )
    return Explanation(tuple(strategies), chosen, shown, probabilities, tuple(refused))


def evenly(first: int, last: int, points: int) -> tuple[int, ...]:
    """Returns at most ``points`` different integers from first to last, evenly spaced."""
    return tuple(sorted({first + (last - first) * i // (points - 1) for i in range(points)}))
