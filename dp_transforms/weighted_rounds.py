"""Rounds of weighted selection: users' weights, their sums, decisions, and what remains.

A round needs each user's remaining partitions together, and then each partition's users together:
two shuffles, of which the first is the same for all rounds. What earlier rounds selected reaches
the users as a side input; it is no larger than the release. So does the plan of a strategy that
measures. The loop over rounds is ``runtime.selecting.in_rounds``, for Beam and for one process
alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.columnar.counting import WEIGHT, sum_weights
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.partition_selection import WeightedStrategy
from dp_transforms.mechanisms.partition_selection.rounds import RoundPlan
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.records import COUNT
from dp_transforms.runtime.selecting import bounds, in_rounds, users_by_partitions
from dp_transforms.runtime.shuffle import InOrder, OnThreads, ReduceByHash


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
