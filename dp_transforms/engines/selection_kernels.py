"""Selects partitions from tables of counts or of users' pairs, without Beam.

It has the kernels of ``SelectFromCounts``, of selection in rounds, also in one process, and of the
number of users of partitions that are not named.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar import counting
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import (
    COUNT,
    HIGH,
    LOW,
    NOISY_COUNT,
    PARTITION,
    USER,
    concat,
    decoded,
    plain,
    plain_table,
    single,
)
from dp_transforms.columnar.grouping import group
from dp_transforms.columnar.hashing import KeyedUniforms
from dp_transforms.mechanisms.arrays import BoolArray
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    MeasuredSelection,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.measured import users_in_classes
from dp_transforms.mechanisms.selection.rounds import RoundPlan
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution
from dp_transforms.runtime.python_values import column_of
from dp_transforms.threads import map_ahead

if TYPE_CHECKING:
    from dp_transforms.releases import NamesSpec
    from dp_transforms.runtime.job_secret import JobSecret

_Names = TypeVar("_Names")
_Measured = TypeVar("_Measured")


def bounds(strategy: WeightedStrategy, secret: JobSecret) -> list[Callable[..., pa.Table]]:
    """Returns, for each round, the function that keeps at most kappa distinct pairs of a user."""
    context = "bound contributions"
    return [
        functools.partial(
            distinct_pairs,
            at_most=strategy.max_partitions_per_user,
            key=secret.key(
                f"{context}, round {index}" if strategy.shared_order(index) else context
            ),
            shared_order=strategy.shared_order(index),
        )
        for index in range(strategy.most_rounds)
    ]


class RoundRunner(Protocol[_Names, _Measured]):
    """A runner carries out rounds on all distinct (user, partition) pairs."""

    def measure(
        self, edges: Sequence[int], plan: Callable[[Sequence[int]], RoundPlan]
    ) -> _Measured:
        """Returns the plan for the numbers of users in classes, see ``users_in_classes``."""

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[_Names],
        measured: _Measured | None,
    ) -> _Names:
        """Returns the names that ``decide`` selects from the sums of weights by ``weigh``.

        Both functions take a table, tables with the names of earlier rounds (``side_input``), and
        the plan (``measured``), if there is one.
        """


def in_rounds(
    runner: RoundRunner[_Names, _Measured],
    strategy: WeightedStrategy,
    context: str,
    secret: JobSecret,
) -> list[_Names]:
    by = f"{context} by {identifier(strategy)}"
    measured = None
    if isinstance(strategy, MeasuredSelection):
        tape = secret.tape(f"{by}, statistic")
        measured = runner.measure(strategy.edges, functools.partial(strategy.plan, tape=tape))
    selected: list[_Names] = []
    for index, bound in enumerate(bounds(strategy, secret)):
        of_round = functools.partial(functools.partial, strategy=strategy, index=index)
        weigh = of_round(weigh_remaining, bound=bound)
        decide = of_round(select_round, key=secret.key(f"{by}, round {index}"))
        selected.append(runner.one_round(index, weigh, decide, selected, measured))
    return selected


def decision_function(spec: NamesSpec, secret: JobSecret) -> Callable[..., pa.Table]:
    """Returns ``select_from_counts`` for a specification; it takes ``table`` and ``side_input``."""
    strategy: Any = spec.strategy
    return functools.partial(
        select_from_counts,
        strategy=strategy,
        key=secret.key(f"{spec.context} by {identifier(strategy)}"),
        noisy_counts=spec.noisy_counts,
        intervals=spec.intervals,
        public_distribution=spec.public_distribution,
    )


def columns_of(spec: NamesSpec) -> tuple[str, ...]:
    ends = (LOW, HIGH) if spec.intervals else ()
    return (PARTITION, NOISY_COUNT, *ends) if spec.noisy_counts else (PARTITION,)


def public_counts(spec: NamesSpec) -> pa.Table:
    """Returns a table of the public names, with counts of 0; raises a TypeError or ValueError if
    the names are not of one type, or have nulls."""
    names = spec.public_partitions
    column = names if isinstance(names, pa.Array) else column_of(list(names), PARTITION)
    zeros = pa.array(np.zeros(len(names), np.int64))
    return pa.table({PARTITION: plain(column, PARTITION), COUNT: zeros})


def select_from_counts(
    table: pa.Table,
    strategy: CountStrategy,
    key: bytes,
    noisy_counts: bool = False,
    intervals: bool = False,
    public_distribution: ThresholdDistribution | None = None,
    side_input: Sequence[pa.Table] = (),
) -> pa.Table:
    """Selects rows of a table of counts by a strategy, for ``SelectFromCounts``.

    Args:
      table: plain columns ``partition`` and ``count``.
      strategy: a ``NoisyCountStrategy`` if noisy counts are wanted.
      key: 32 secret bytes, which give each partition's name its uniform number.
      noisy_counts, intervals: whether to add these columns.
      public_distribution: decides about public partitions, if there are any.
      side_input: tables of public partitions.

    Returns:
      The column ``partition`` and, if asked for, ``noisy_count``, and ``low`` and ``high``.
    """
    selected = functools.partial(_selected, key=key, noisy_counts=noisy_counts, intervals=intervals)
    public = None
    if public_distribution is not None:
        is_public = counting.is_in(single(table[PARTITION]), _names(side_input))
        public = _at_least_zero(selected(public_distribution, table.filter(is_public)))
        table = table.filter(pc.invert(is_public))
    counts = table[COUNT].to_numpy()
    needed = counts >= strategy.pre_threshold
    if strategy.saturation_count is not None and not noisy_counts:
        # Larger counts are kept whatever their uniform number.
        needed &= counts < strategy.saturation_count
    names = selected(strategy, table, needed=needed)
    return names if public is None else concat([names, public])


def _selected(
    decision_function: Any,
    table: pa.Table,
    key: bytes,
    noisy_counts: bool,
    intervals: bool,
    needed: BoolArray | None = None,
) -> pa.Table:
    partitions, counts = single(table[PARTITION]), table[COUNT].to_numpy()
    uniforms = KeyedUniforms(partitions, key, needed)
    if not noisy_counts:
        keep = decision_function.decide(counts, uniforms.words, uniforms.prefix)
        return pa.table({PARTITION: partitions.filter(pa.array(keep))})
    keep, noisy = decision_function.decide_with_counts(counts, uniforms.words, uniforms.prefix)
    columns = {PARTITION: partitions.filter(pa.array(keep)), NOISY_COUNT: pa.array(noisy[keep])}
    if intervals:
        columns |= zip(
            (LOW, HIGH), map(pa.array, decision_function.count_intervals(noisy[keep])), strict=True
        )
    return pa.table(columns)


def _at_least_zero(selected: pa.Table) -> pa.Table:
    """Replaces noisy counts below 0, of public partitions, by 0; their intervals stay."""
    if NOISY_COUNT not in selected.column_names:
        return selected
    counts = pc.max_element_wise(selected[NOISY_COUNT], 0)
    place = selected.column_names.index(NOISY_COUNT)
    return selected.set_column(place, NOISY_COUNT, counts)


def _names(tables: Sequence[pa.Table]) -> pa.Array:
    return single(concat(list(tables))[PARTITION])


def _of_others(pairs: pa.Table, side_input: Sequence[pa.Table]) -> pa.Table:
    """Returns the pairs whose partition is in none of the tables ``side_input``."""
    return counting.without_partitions(pairs, _names(side_input)) if side_input else pairs


class InMemory:
    """A runner of rounds in this process, on tables that each have all pairs of their users.

    Args:
      pairs: the tables, read once in each round.
      add: adds up sums of a partition in several tables, by ``sum_counts``.
    """

    def __init__(
        self,
        pairs: Iterable[pa.Table],
        add: Callable[[Iterable[pa.Table]], Iterable[pa.Table]],
    ):
        self._pairs, self._add = pairs, add

    def measure(
        self, edges: Sequence[int], plan: Callable[[Sequence[int]], RoundPlan]
    ) -> RoundPlan:
        users = [users_by_partitions(table, edges) for table in self._pairs]
        return plan(np.sum(users, axis=0).tolist() if users else [0] * (len(edges) + 1))

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[list[pa.Table]],
        measured: RoundPlan | None,
    ) -> list[pa.Table]:
        side_inputs = {
            "side_input": list(itertools.chain.from_iterable(earlier)),
            "measured": measured,
        }
        weighed = map_ahead(functools.partial(weigh, **side_inputs), self._pairs)
        return [decide(sums, **side_inputs) for sums in self._add(weighed)]


def select_in_memory(
    pairs: pa.Table, strategy: WeightedStrategy, secret: JobSecret, context: str = "selection"
) -> pa.Table:
    """Selects in rounds, in this process, from one table of all distinct (user, partition) pairs;
    returns partitions in no order."""
    runner = InMemory([pairs], lambda tables: map(counting.sum_counts, tables))
    selected: list[list[pa.Table]] = in_rounds(runner, strategy, context, secret)
    return concat(list(itertools.chain.from_iterable(selected)))


def users_by_partitions(pairs: pa.Table, edges: Sequence[int]) -> list[int]:
    """Counts users by class of their number of partitions, see ``users_in_classes``, from all
    distinct pairs of each user."""
    has = np.bincount(single(pairs[USER]).indices.to_numpy())
    # A dictionary may hold users without a row.
    return users_in_classes(has[has > 0], edges)


def weigh_remaining(
    pairs: pa.Table,
    bound: Callable[..., pa.Table],
    strategy: WeightedStrategy,
    index: int,
    side_input: Sequence[pa.Table],
    measured: RoundPlan | None = None,
) -> pa.Table:
    """Sums the weights of a round by partition, from all distinct pairs of each user, without
    partitions of the tables ``side_input``; after the last round of a plan there are no weights."""
    strategy = strategy.branch(measured)
    if index >= strategy.most_rounds:
        return counting.weigh_pairs(pairs.slice(0, 0), np.zeros_like)
    weights = functools.partial(strategy.weights, index, named=rows_of(side_input))
    # A plan may let fewer than kappa partitions count.
    pairs = decoded(_of_others(pairs, side_input))
    bounded = bound(pairs, at_most=strategy.max_partitions_per_user)
    return counting.weigh_pairs(bounded, weights)


def users_of_others(records: pa.Table, side_input: Sequence[pa.Table]) -> pa.Table:
    """Returns the distinct users of partitions that are in none of the tables ``side_input``."""
    return distinct_users(_of_others(records, side_input))


def distinct_users(records: pa.Table) -> pa.Table:
    """Returns the distinct users of a table; it is idempotent and mergeable."""
    return pa.table({USER: group(single(plain_table(records, (USER,))[USER])).values})


def noisy_users(users: int, spec: NamesSpec, secret: JobSecret) -> int:
    """Adds noise to the number of users whose partitions are not all named; at least 0."""
    noise = spec.noise_of_others
    assert noise is not None
    by = f"{identifier(spec.strategy)}, {identifier(noise)}"
    context = f"users of other partitions than of {spec.context} by {by}"
    # Another number has other noise, even under one secret: the same noise would cancel.
    (drawn,) = noise.sample(secret.tape(context).branch(f"of {users}"), "users", 1).tolist()
    return max(0, users + int(drawn))


def rows_of(tables: Sequence[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def select_round(
    table: pa.Table,
    strategy: WeightedStrategy,
    index: int,
    key: bytes,
    side_input: Sequence[pa.Table],
    measured: RoundPlan | None = None,
) -> pa.Table:
    """Selects the partitions of a round from the total sums of ``weigh_remaining``; the key is 32
    secret bytes of this round alone."""
    partitions = single(table[PARTITION])
    if not len(partitions):
        return table.select([PARTITION])
    strategy = strategy.branch(measured)
    sums, users = (table[name].to_numpy() for name in (counting.WEIGHT, COUNT))
    uniforms = KeyedUniforms(partitions, key, users >= strategy.pre_threshold)
    keep = strategy.decide_round(
        index, sums, users, uniforms.words, uniforms.prefix, rows_of(side_input)
    )
    return pa.table({PARTITION: partitions.filter(pa.array(keep))})
