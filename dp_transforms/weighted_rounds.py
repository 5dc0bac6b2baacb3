"""Rounds of weighted selection: users' weights, their sums, decisions, and what remains.

A round needs each user's remaining partitions together, and then each partition's users together:
two shuffles, of which the first is the same for all rounds. What earlier rounds selected reaches
the users as a side input; it is no larger than the release. So does the plan of a strategy that
measures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import PARTITION, USER
from dp_transforms.columnar.weighting import WEIGHT, sum_weights
from dp_transforms.job_secret import JobSecret
from dp_transforms.mechanisms.partition_selection import MeasuredSelection, WeightedStrategy
from dp_transforms.mechanisms.partition_selection.weighted_strategies import Plan
from dp_transforms.runtime.batching import ToTables
from dp_transforms.runtime.records import COUNT
from dp_transforms.runtime.selecting import (
    Bound,
    bounds,
    select_round,
    users_by_partitions,
    weigh_remaining,
)
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
        users = tables | "ByUser" >> self._reduce(
            rounds[0] if len(rounds) == 1 else distinct_pairs, USER, "route users"
        )
        measured = {}
        if isinstance(self._strategy, MeasuredSelection):
            plan = users | "Measure" >> self._measure(self._strategy)
            measured["measured"] = beam.pvalue.AsSingleton(plan)
        selected: list[beam.PCollection] = []
        for index, bound in enumerate(rounds):
            earlier = []
            if selected:
                names = tuple(selected) | f"Earlier{index}" >> beam.Flatten()
                earlier = [beam.pvalue.AsList(names)]
            selected.append(users | f"Round{index}" >> self._round(index, bound, earlier, measured))
        return (
            tuple(selected)
            | beam.Flatten()
            | "InOrder" >> InOrder(PARTITION, self._secret.key("order of partitions"))
        )

    def _round(
        self,
        index: int,
        bound: Bound,
        earlier: Sequence[beam.pvalue.AsList],
        measured: dict[str, beam.pvalue.AsSingleton],
    ) -> beam.PTransform:
        key = self._secret.key(f"{self._purpose} by {self._strategy!r}, round {index}")
        of_round = functools.partial(functools.partial, strategy=self._strategy, index=index)
        weigh = OnThreadsBeside(of_round(weigh_remaining, bound=bound))
        decide = OnThreadsBeside(of_round(select_round, key=key))
        return (
            f"Weigh{index}" >> beam.ParDo(weigh, *earlier, **measured).with_output_types(pa.Table)
            | f"Batch{index}" >> ToTables((PARTITION, WEIGHT, COUNT))
            | f"ByPartition{index}" >> self._reduce(sum_weights, PARTITION, "route partitions")
            | f"Decide{index}"
            >> beam.ParDo(decide, *earlier, **measured).with_output_types(pa.Table)
        )

    def _measure(self, strategy: MeasuredSelection) -> beam.PTransform:
        tape = self._secret.tape(f"{self._purpose} by {strategy!r}, statistic")
        decide = functools.partial(strategy.plan, tape=tape)
        sums = beam.combiners.TupleCombineFn(*[sum] * (len(strategy.edges) + 1))
        return (
            "Users" >> beam.Map(users_by_partitions, edges=strategy.edges)
            | "Sum" >> beam.CombineGlobally(sums)
            | "Plan" >> beam.Map(decide)
        )

    def _reduce(
        self, reduce: Callable[[pa.Table], pa.Table], name: str, purpose: str
    ) -> ReduceByHash:
        return ReduceByHash(reduce, (name,), self._secret.key(purpose), self._num_buckets)


class OnThreadsBeside(OnThreads):
    """``OnThreads`` for a kernel that gives one table, and also takes side inputs: tables, and what
    was measured."""

    def process(
        self, element: pa.Table, beside: Sequence[pa.Table] = (), measured: Plan | None = None
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
