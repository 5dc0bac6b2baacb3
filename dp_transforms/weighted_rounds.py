"""Rounds of weighted selection: users' weights, their sums, decisions, and what remains.

A round needs each user's remaining partitions together, and then each partition's users together:
two shuffles, of which the first is the same for all rounds. What earlier rounds selected reaches
the users as a side input; it is no larger than the release. So does the plan of a strategy that
measures. The loop over rounds is ``in_rounds``, for Beam and for one process alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER, concat, decoded, single
from dp_transforms.columnar.named_uniforms import NamedUniforms
from dp_transforms.columnar.weighting import WEIGHT, sum_weights, weigh_pairs, without_partitions
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.partition_selection import MeasuredSelection, WeightedStrategy
from dp_transforms.mechanisms.partition_selection.measured import users_in_classes
from dp_transforms.mechanisms.partition_selection.rounds import RoundPlan
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.records import COUNT
from dp_transforms.runtime.shuffle import InOrder, OnThreads, ReduceByHash

Bound = Callable[..., pa.Table]
"""Leaves at most kappa of the distinct pairs of a user."""

_Names = TypeVar("_Names")
_Measured = TypeVar("_Measured")


def bounds(strategy: WeightedStrategy, secret: JobSecret) -> list[Bound]:
    """What bounds users in each round of a strategy."""
    purpose = "bound contributions"
    return [
        functools.partial(
            distinct_pairs,
            at_most=strategy.max_partitions_per_user,
            key=secret.key(f"{purpose}, round {index}" if strategy.one_order(index) else purpose),
            one_order=strategy.one_order(index),
        )
        for index in range(strategy.most_rounds)
    ]


class Engine(Protocol[_Names, _Measured]):
    """What carries out rounds on all distinct (user, partition) pairs."""

    def measure(
        self, edges: Sequence[int], plan: Callable[[Sequence[int]], RoundPlan]
    ) -> _Measured:
        """The plan by how many users are in each class, see ``users_in_classes``."""

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[_Names],
        measured: _Measured | None,
    ) -> _Names:
        """The names that ``decide`` takes, given the sums of what ``weigh`` gives of the pairs.

        Both take a table, the tables of names of earlier rounds (``beside``) and a plan
        (``measured``), if there is one.
        """


def in_rounds(
    engine: Engine[_Names, _Measured], strategy: WeightedStrategy, purpose: str, secret: JobSecret
) -> list[_Names]:
    """The names that each round selects."""
    by = f"{purpose} by {strategy!r}"
    measured = None
    if isinstance(strategy, MeasuredSelection):
        tape = secret.tape(f"{by}, statistic")
        measured = engine.measure(strategy.edges, functools.partial(strategy.plan, tape=tape))
    found: list[_Names] = []
    for index, bound in enumerate(bounds(strategy, secret)):
        of_round = functools.partial(functools.partial, strategy=strategy, index=index)
        weigh = of_round(weigh_remaining, bound=bound)
        decide = of_round(select_round, key=secret.key(f"{by}, round {index}"))
        found.append(engine.one_round(index, weigh, decide, found, measured))
    return found


class SelectInRounds(beam.PTransform):
    """The partitions that a weighted strategy selects: record tables in, tables of names out.

    In every round ``bounds`` say which kappa of a user's remaining partitions count, if there are
    more; a user with no more than kappa needs no other bound. All distinct partitions of one user
    are held together.
    """

    def __init__(
        self,
        strategy: WeightedStrategy,
        purpose: str,
        secret: JobSecret,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._strategy = strategy
        self._purpose = purpose
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        rounds = bounds(self._strategy, self._secret)
        # A single round needs no more of a user than what counts in it.
        distinct = rounds[0] if len(rounds) == 1 else distinct_pairs
        by_user, by_partition = (
            functools.partial(
                ReduceByHash,
                names=(name,),
                key=self._secret.key(f"route {name}s"),
                num_buckets=self._num_buckets,
            )
            for name in (USER, PARTITION)
        )
        engine = _OnBeam(tables | "ByUser" >> by_user(distinct), by_partition(sum_weights))
        return (
            tuple(in_rounds(engine, self._strategy, self._purpose, self._secret))
            | beam.Flatten()
            | "InOrder" >> InOrder(PARTITION, self._secret.key("order of partitions"))
        )


class _OnBeam:
    """The engine of PCollections: what earlier rounds selected, and a plan, are side inputs."""

    def __init__(self, users: beam.PCollection, add: ReduceByHash):
        self._users = users
        self._add = add

    def measure(
        self, edges: Sequence[int], plan: Callable[[Sequence[int]], RoundPlan]
    ) -> beam.pvalue.AsSingleton:
        sums = beam.combiners.TupleCombineFn(*[sum] * (len(edges) + 1))
        planned = (
            self._users
            | "Users" >> beam.Map(users_by_partitions, edges=edges)
            | "Sum" >> beam.CombineGlobally(sums)
            | "Plan" >> beam.Map(plan)
        )
        return beam.pvalue.AsSingleton(planned)

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[beam.PCollection],
        measured: beam.pvalue.AsSingleton | None,
    ) -> beam.PCollection:
        beside = []
        if earlier:
            beside.append(beam.pvalue.AsList(tuple(earlier) | f"Earlier{index}" >> beam.Flatten()))
        planned = {} if measured is None else {"measured": measured}

        def on_threads(kernel: Callable[..., pa.Table]) -> beam.ParDo:
            tables = beam.ParDo(OnThreadsBeside(kernel), *beside, **planned)
            return tables.with_output_types(pa.Table)

        return (
            self._users
            | f"Weigh{index}" >> on_threads(weigh)
            | f"Batch{index}" >> ToTables((PARTITION, WEIGHT, COUNT))
            | f"ByPartition{index}" >> self._add
            | f"Decide{index}" >> on_threads(decide)
        )


class _InMemory:
    """The engine of one table of pairs in this process."""

    def __init__(self, pairs: pa.Table):
        self._pairs = pairs

    def measure(
        self, edges: Sequence[int], plan: Callable[[Sequence[int]], RoundPlan]
    ) -> RoundPlan:
        return plan(users_by_partitions(self._pairs, edges))

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[pa.Table],
        measured: RoundPlan | None,
    ) -> pa.Table:
        told = {"beside": list(earlier), "measured": measured}
        return decide(sum_weights(weigh(self._pairs, **told)), **told)


def select_here(
    pairs: pa.Table, strategy: WeightedStrategy, secret: JobSecret, purpose: str = "selection"
) -> pa.Table:
    """What ``SelectInRounds`` selects from all distinct (user, partition) pairs, in no order; in
    this process."""
    return concat(in_rounds(_InMemory(pairs), strategy, purpose, secret))


class OnThreadsBeside(OnThreads):
    """``OnThreads`` for a kernel that gives one table, and also takes side inputs: tables, and what
    was measured."""

    def process(
        self, element: pa.Table, beside: Sequence[pa.Table] = (), measured: RoundPlan | None = None
    ) -> Iterator[Any]:
        kernel = functools.partial(unless_empty, self._kernel, beside=beside)
        if measured is not None:
            kernel = functools.partial(kernel, measured=measured)
        yield from self.submit(kernel, element)


def unless_empty(
    kernel: Callable[..., pa.Table], table: pa.Table, **options: Any
) -> list[pa.Table]:
    """The kernel's result for a table, if it has rows."""
    result = kernel(table, **options)
    return [result] if result.num_rows else []


def users_by_partitions(pairs: pa.Table, edges: Sequence[int]) -> list[int]:
    """How many users are in each class by their number of partitions, see ``users_in_classes``,
    given all distinct (user, partition) pairs of each of them."""
    has = np.bincount(single(pairs[USER]).indices.to_numpy())
    # A dictionary may have users that no row has.
    return users_in_classes(has[has > 0], edges)


def weigh_remaining(
    pairs: pa.Table,
    bound: Bound,
    strategy: WeightedStrategy,
    index: int,
    beside: Sequence[pa.Table],
    measured: RoundPlan | None = None,
) -> pa.Table:
    """Sums of weights per partition, of the pairs whose partition was not selected yet.

    Args:
      pairs: distinct (user, partition) pairs, all of each user.
      bound: leaves at most kappa pairs of a user.
      strategy, index: give users' weights in this round. After its last one there are none.
      beside: tables of the partitions that earlier rounds selected.
      measured: the plan, if the strategy measures.
    """
    strategy = strategy.branch(measured)
    if index >= strategy.most_rounds:
        return weigh_pairs(pairs.slice(0, 0), np.zeros_like)
    if beside:
        pairs = without_partitions(pairs, single(concat(list(beside))[PARTITION]))
    weights = functools.partial(strategy.weights, index, named=rows_of(beside))
    # A plan may have fewer partitions count than kappa.
    bounded = bound(decoded(pairs), at_most=strategy.max_partitions_per_user)
    return weigh_pairs(bounded, weights)


def rows_of(tables: Sequence[pa.Table]) -> int:
    """How many rows tables have together."""
    return sum(table.num_rows for table in tables)


def select_round(
    table: pa.Table,
    strategy: WeightedStrategy,
    index: int,
    key: bytes,
    beside: Sequence[pa.Table],
    measured: RoundPlan | None = None,
) -> pa.Table:
    """The partitions that one round selects, by 32 secret bytes of this round alone, from a table
    with plain columns ``partition``, ``weight`` and ``count``. For the rest see
    ``weigh_remaining``."""
    partitions = single(table[PARTITION])
    if not len(partitions):
        return table.select([PARTITION])
    strategy = strategy.branch(measured)
    sums, users = (table[name].to_numpy() for name in (WEIGHT, COUNT))
    uniforms = NamedUniforms(partitions, key, users >= strategy.pre_threshold)
    keep = strategy.decide_round(
        index, sums, users, uniforms.words, uniforms.prefix, rows_of(beside)
    )
    return pa.table({PARTITION: partitions.filter(pa.array(keep))})
