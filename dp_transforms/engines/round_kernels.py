"""Selects partitions in rounds, from tables of users' pairs.

Here are the kernels of rounds, on Beam and in one process, and the runner of rounds in one process.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

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
    single,
)
from dp_transforms.columnar.hashing import KeyedUniforms, to_arrow, to_numpy
from dp_transforms.engines.selection_kernels import (
    names_in,
    of_other_partitions,
    selected_by_counts,
)
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.selection import (
    MeasuredSelection,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.measured import Choice
from dp_transforms.mechanisms.selection.population import degree_cells, tail_cells
from dp_transforms.mechanisms.tape_contexts import (
    BOUND_CONTRIBUTIONS,
    BOUND_IN_COUNTS,
    BOUND_IN_LOOK,
    bound_in_round,
)
from dp_transforms.threads import map_ahead

if TYPE_CHECKING:
    from dp_transforms.runtime.job_secret import JobSecret


_Names = TypeVar("_Names")
_Choice = TypeVar("_Choice")


def bounds(strategy: WeightedStrategy, secret: JobSecret) -> list[Callable[..., pa.Table]]:
    """Returns, for each round, the function that keeps at most kappa distinct pairs of a user. If
    all users share an order of partitions in a round, the round has a key of its own."""
    functions: list[Callable[..., pa.Table]] = []
    for index in range(strategy.most_rounds):
        shared_order = strategy.shared_order(index)
        context = bound_in_round(index) if shared_order else BOUND_CONTRIBUTIONS
        bound = functools.partial(
            distinct_pairs,
            at_most=strategy.max_partitions_per_user,
            key=secret.key(context),
            shared_order=shared_order,
        )
        functions.append(bound)
    return functions


class RoundRunner(Protocol[_Names, _Choice]):
    """A runner carries out rounds on all distinct (user, partition) pairs."""

    def choose(
        self,
        edges: Sequence[int],
        first: Callable[[pa.Table], pa.Table],
        choose: Callable[[Sequence[int], Sequence[int]], Choice],
    ) -> _Choice:
        """Returns the choice that follows from a look at the pairs: see ``population``.

        Args:
          edges: the ends of the cells in which users are counted by their numbers of partitions.
          first: keeps one pair of each user in a table, and counts the users of each partition.
          choose: makes the choice from the numbers of users in these cells, and from the tails of
            the counts that ``first`` makes.
        """

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[_Names],
        choice: _Choice | None,
    ) -> _Names:
        """Carries out a round, and returns the names that it selects.

        Args:
          index: the round, from 0.
          weigh: sums the weights of partitions, for a table of pairs.
          decide: selects names by the sums over all tables.
          earlier: the names of earlier rounds. Both functions get them as ``named``.
          choice: the choice of the look; None if there was no look. Both functions get it as
            ``choice``.
        """

    def count_named(
        self,
        weigh: Callable[..., pa.Table],
        count: Callable[..., pa.Table],
        named: Sequence[_Names],
        choice: _Choice,
    ) -> _Names:
        """Counts the users of named partitions, and returns the names with their counts.

        Args:
          weigh: counts the users of named partitions, for a table of pairs.
          count: makes the counts from the sums over all tables, where a name without users has 0.
          named, choice: the names, and the choice of the look. Both functions get them.
        """


class Rounds(NamedTuple):
    """The results of rounds: collections of named partitions, and the choice, if there is one."""

    named: list[Any]
    choice: Any = None


def in_rounds(
    runner: RoundRunner[_Names, _Choice],
    strategy: WeightedStrategy,
    context: str,
    secret: JobSecret,
) -> Rounds:
    """Selects names in rounds. If the strategy measures first, a look comes before the rounds; and
    if it counts, named partitions are counted after them.

    Args:
      runner: carries out the look, the rounds and the counts.
      strategy: what is done in each round.
      context: the purpose of the selection, from which its random numbers are derived.
      secret: the secret of the job.
    """
    by = f"{context} by {identifier(strategy)}"
    choice = None
    if isinstance(strategy, MeasuredSelection):
        key = secret.key(BOUND_IN_LOOK)
        first = functools.partial(_weigh_first, key=key)
        tape = secret.tape(f"{by}, look")
        choice = runner.choose(strategy.edges, first, functools.partial(strategy.choose, tape=tape))
    selected: list[_Names] = []
    for index, bound in enumerate(bounds(strategy, secret)):
        weigh = functools.partial(weigh_remaining, bound=bound, strategy=strategy, index=index)
        key = secret.key(f"{by}, round {index}")
        decide = functools.partial(select_round, strategy=strategy, index=index, key=key)
        selected.append(runner.one_round(index, weigh, decide, selected, choice))
    if not (isinstance(strategy, MeasuredSelection) and strategy.counted):
        return Rounds(selected, choice)
    bound = functools.partial(distinct_pairs, key=secret.key(BOUND_IN_COUNTS))
    weigh = functools.partial(weigh_named, strategy=strategy, bound=bound)
    count = functools.partial(count_named, strategy=strategy, key=secret.key(f"{by}, counts"))
    assert choice is not None
    return Rounds([runner.count_named(weigh, count, selected, choice)], choice)


def _weigh_first(pairs: pa.Table, key: bytes) -> pa.Table:
    """Counts the users of each partition. Of each user, one partition counts."""
    first = distinct_pairs(decoded(pairs), at_most=1, key=key)
    return counting.weigh_pairs(first, np.ones_like)


class InMemory:
    """A runner of rounds in this process. Each of its tables has all pairs of its users.

    Args:
      pairs: the tables, which are read once in each round.
      add: adds up the sums of a partition over several tables, by ``sum_counts``.
    """

    def __init__(
        self,
        pairs: Iterable[pa.Table],
        add: Callable[[Iterable[pa.Table]], Iterable[pa.Table]],
    ):
        self._pairs, self._add = pairs, add

    def choose(
        self,
        edges: Sequence[int],
        first: Callable[[pa.Table], pa.Table],
        choose: Callable[[Sequence[int], Sequence[int]], Choice],
    ) -> Choice:
        degrees, tails = degree_cells(NOBODY, edges), tail_cells(NOBODY)
        for table in self._pairs:
            degrees += users_by_partitions(table, edges)
        for sums in self._add(map_ahead(first, self._pairs)):
            tails += partitions_by_users(sums)
        return choose(degrees.tolist(), tails.tolist())

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[list[pa.Table]],
        choice: Choice | None,
    ) -> list[pa.Table]:
        named = list(itertools.chain.from_iterable(earlier))
        weighed = map_ahead(functools.partial(weigh, named=named, choice=choice), self._pairs)
        return [decide(sums, named=named, choice=choice) for sums in self._add(weighed)]

    def count_named(
        self,
        weigh: Callable[..., pa.Table],
        count: Callable[..., pa.Table],
        named: Sequence[list[pa.Table]],
        choice: Choice,
    ) -> list[pa.Table]:
        tables = list(itertools.chain.from_iterable(named))
        zeros = map(functools.partial(without_users, choice=choice), tables)
        weighed = map_ahead(functools.partial(weigh, named=tables, choice=choice), self._pairs)
        counts = (count(sums, choice=choice) for sums in self._add(itertools.chain(weighed, zeros)))
        return [*counts, *map(functools.partial(counted_before, choice=choice), tables)]


def select_in_memory(
    pairs: pa.Table, strategy: WeightedStrategy, secret: JobSecret, context: str = "selection"
) -> pa.Table:
    """Selects in rounds, in this process, from one table of all distinct (user, partition) pairs.
    Returns the named partitions, in no order."""
    runner = InMemory([pairs], lambda tables: [counting.sum_counts(concat(list(tables)))])
    rounds = in_rounds(runner, strategy, context, secret)
    return concat(list(itertools.chain.from_iterable(rounds.named)))


NOBODY = np.array([], np.int64)


def users_by_partitions(pairs: pa.Table, edges: Sequence[int]) -> IntArray:
    """Counts users by their number of partitions, see ``degree_cells``. The table has all distinct
    pairs of each user."""
    partitions = np.bincount(to_numpy(single(pairs[USER]).indices))
    # A dictionary may hold users without a row.
    return degree_cells(partitions[partitions > 0], edges)


def partitions_by_users(sums: pa.Table) -> IntArray:
    """Returns the tails of a table of total counts, see ``tail_cells``."""
    return tail_cells(to_numpy(single(sums[COUNT])))


def weigh_remaining(
    pairs: pa.Table,
    bound: Callable[..., pa.Table],
    strategy: WeightedStrategy,
    index: int,
    named: Sequence[pa.Table],
    choice: Choice | None = None,
) -> pa.Table:
    """Sums the weights of a round by partition. After the last round of a plan there are no
    weights.

    Args:
      pairs: all distinct pairs of each user.
      bound: keeps some pairs of each user, see ``bounds``.
      strategy, index, named, choice: see ``select_round``. Partitions that were named before
        are left out.
    """
    strategy = strategy.branch(choice)
    if index >= strategy.most_rounds:
        return counting.weigh_pairs(pairs.slice(0, 0), np.zeros_like)
    weights = functools.partial(strategy.weights, index, named=rows_of(named))
    # By the plan of a look, fewer than kappa partitions of a user may count.
    pairs = decoded(of_other_partitions(pairs, named))
    bounded = bound(pairs, at_most=strategy.max_partitions_per_user)
    return counting.weigh_pairs(bounded, weights)


def weigh_named(
    pairs: pa.Table,
    strategy: WeightedStrategy,
    bound: Callable[..., pa.Table],
    named: Sequence[pa.Table],
    choice: Choice,
) -> pa.Table:
    """Counts the users of the partitions in the tables ``named``, from all distinct pairs of
    each user. Of each user, as many of these partitions count as the choice says."""
    later = strategy.branch(choice).later_counts
    if later is None or not named:
        return counting.weigh_pairs(pairs.slice(0, 0), np.zeros_like)
    counted = counting.of_partitions(pairs, names_in(named))
    return counting.weigh_pairs(bound(decoded(counted), at_most=later.partitions), np.ones_like)


def without_users(named: pa.Table, choice: Choice) -> pa.Table:
    """Returns a row of zeros for each named partition, with the columns of ``weigh_named``. So a
    partition is counted even if none of its users is left. If counts come from the selection, there
    are no rows."""
    names = named.select([PARTITION]) if choice.plan.counted else named.slice(0, 0)
    zeros = to_arrow(np.zeros(names.num_rows, np.int64))
    return pa.table({PARTITION: single(names[PARTITION]), counting.WEIGHT: zeros, COUNT: zeros})


def counted_before(named: pa.Table, choice: Choice) -> pa.Table:
    """Returns the named partitions with the noisy counts by which they were selected. If they were
    selected otherwise, there are no rows."""
    if not choice.plan.counted and NOISY_COUNT in named.column_names:
        return named
    return _without_rows(single(named[PARTITION]))


def count_named(
    table: pa.Table, strategy: WeightedStrategy, key: bytes, choice: Choice
) -> pa.Table:
    """Adds noise to the total numbers of users of named partitions.

    Args:
      table: the sums of ``weigh_named`` and of ``without_users``.
      key: 32 secret bytes, used for nothing else.

    Returns:
      Columns ``partition``, ``noisy_count``, ``low`` and ``high``.
    """
    partitions, users = single(table[PARTITION]), to_numpy(single(table[COUNT]))
    later = strategy.branch(choice).later_counts
    if later is None or not len(partitions):
        return _without_rows(partitions)
    uniforms = KeyedUniforms(partitions, key)
    noisy = later.noisy(users, uniforms.words, uniforms.prefix)
    low, high = later.intervals(noisy)
    return _with_counts(partitions, noisy, low, high)


def _with_counts(
    partitions: pa.Array, noisy_counts: IntArray, low: IntArray, high: IntArray
) -> pa.Table:
    numbers = {NOISY_COUNT: noisy_counts, LOW: low, HIGH: high}
    arrays = {name: to_arrow(values) for name, values in numbers.items()}
    return pa.table({PARTITION: partitions} | arrays)


def _without_rows(partitions: pa.Array) -> pa.Table:
    """Returns a table without rows, with the columns of ``_with_counts``."""
    nothing = np.array([], np.int64)
    return _with_counts(partitions.slice(0, 0), nothing, nothing, nothing)


def rows_of(tables: Sequence[pa.Table]) -> int:
    """Returns the number of rows of all tables together."""
    return sum(table.num_rows for table in tables)


def select_round(
    table: pa.Table,
    strategy: WeightedStrategy,
    index: int,
    key: bytes,
    named: Sequence[pa.Table],
    choice: Choice | None = None,
) -> pa.Table:
    """Selects the partitions of a round.

    Args:
      table: the total sums of ``weigh_remaining``.
      strategy, index: the strategy, and which round this is.
      key: 32 secret bytes of this round alone.
      named: tables of partitions that were named before.
      choice: the choice of the look, if there was one.

    Returns:
      The column ``partition``; if the strategy decides by noisy counts, the columns of
      ``count_named``.
    """
    partitions = single(table[PARTITION])
    if not len(partitions):
        return table.select([PARTITION])
    strategy = strategy.branch(choice)
    sums, users = (to_numpy(single(table[name])) for name in (counting.WEIGHT, COUNT))
    if strategy.counting is not None:
        counts = table.select([PARTITION, COUNT])
        return selected_by_counts(strategy.counting, counts, key, noisy_counts=True, intervals=True)
    uniforms = KeyedUniforms(partitions, key, users >= strategy.pre_threshold)
    keep = strategy.decide_round(
        index, sums, users, uniforms.words, uniforms.prefix, rows_of(named)
    )
    return counting.rows_where(table.select([PARTITION]), keep)
