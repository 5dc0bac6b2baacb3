"""Runs a selection in rounds on PCollections, for ``SelectPartitions``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam import shuffle
from dp_transforms.beam.batching import ToTables
from dp_transforms.beam.contributions import (
    add_counts,
)
from dp_transforms.beam.same_choice import MARK, decide_checked, weigh_marked
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.columnar.counting import WEIGHT
from dp_transforms.engines import round_kernels, selection_kernels
from dp_transforms.mechanisms.selection import (
    MeasuredSelection,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.measured import Choice
from dp_transforms.mechanisms.selection.population import TAILS
from dp_transforms.mechanisms.tape_contexts import ORDER_OF_PARTITIONS, route_by
from dp_transforms.releases import NamesSpec
from dp_transforms.releases.name_statements import entries_of
from dp_transforms.runtime.job_secret import JobSecret


def selected_in_rounds(
    tables: beam.PCollection, spec: NamesSpec, secret: JobSecret, num_buckets: int | None
) -> tuple[beam.PCollection, list[beam.PCollection]]:
    """Selects by a weighted strategy; returns tables of names, and collections of entries for the
    statement.

    Takes tables of records. All partitions of a user are brought together. For each round, one of
    ``rounds`` keeps at most kappa of them.
    """
    assert isinstance(spec.strategy, WeightedStrategy)
    rounds = round_kernels.bounds(spec.strategy, secret)
    # A single round needs only the pairs that count in it.
    distinct = rounds[0] if len(rounds) == 1 else distinct_pairs
    by_user = shuffle.ReduceByHash(distinct, (USER,), secret.key(route_by(USER)), num_buckets)
    runner = _RoundsOnBeam(tables | "ByUser" >> by_user, add_counts(secret, num_buckets))
    done = round_kernels.in_rounds(runner, spec.strategy, spec.context, secret)
    columns = list(selection_kernels.columns_of(spec))
    named = (
        tuple(done.named)
        | beam.Flatten()
        | "Columns" >> beam.Map(lambda table: table.select(columns)).with_output_types(pa.Table)
        | "InOrder" >> shuffle.in_order(PARTITION, secret.key(ORDER_OF_PARTITIONS))
    )
    if done.choice is None:
        return named, []
    once = tables.pipeline | "Once" >> beam.Create([spec.strategy], reshuffle=False)
    entries = once | "Choice" >> beam.Map(_entries_of, choice=done.choice)
    return named, [entries]


def _entries_of(strategy: MeasuredSelection, choice: Choice) -> dict[str, Any]:
    return entries_of(choice, strategy)


class _RoundsOnBeam:
    """Runs the rounds of a weighted selection on PCollections.

    The steps of a round get the names of earlier rounds, and the plan of "measured", as side
    inputs.
    """

    def __init__(self, users: beam.PCollection, add: shuffle.ReduceByHash):
        self._users = users
        self._add = add

    def choose(
        self,
        edges: Sequence[int],
        first: Callable[[pa.Table], pa.Table],
        choose: Callable[[Sequence[int], Sequence[int]], Choice],
    ) -> beam.pvalue.AsSingleton:
        """Returns what ``choose`` decides by the cells of a look, as a side input: users by their
        numbers of partitions, and partitions by their numbers of users in ``first``'s tables."""
        degrees = (
            self._users
            | "Degrees" >> beam.Map(round_kernels.users_by_partitions, edges=edges)
            | "SumDegrees" >> _sum_of_cells(len(edges) + 1)
        )
        tails = (
            self._users
            | "First" >> shuffle.on_threads(first)
            | "BatchFirst" >> ToTables((PARTITION, WEIGHT, COUNT))
            | "ByPartitionFirst" >> self._add
            | "Tails" >> beam.Map(round_kernels.partitions_by_users)
            | "SumTails" >> _sum_of_cells(TAILS)
        )
        chosen = degrees | "Choose" >> beam.Map(choose, beam.pvalue.AsSingleton(tails))
        return beam.pvalue.AsSingleton(chosen)

    def one_round(
        self,
        index: int,
        weigh: Callable[..., pa.Table],
        decide: Callable[..., pa.Table],
        earlier: Sequence[beam.PCollection],
        choice: beam.pvalue.AsSingleton | None,
    ) -> beam.PCollection:
        """Returns tables of the names of a round: users ``weigh`` their partitions that have no
        name of an ``earlier`` round, and ``decide`` looks at the sums of weights. Both must go by
        the same choice (``same_choice``)."""
        side_inputs: dict[str, Any] = {"named": (), "choice": choice}
        if earlier:
            named = tuple(earlier) | f"Earlier{index}" >> beam.Flatten()
            side_inputs["named"] = beam.pvalue.AsList(named)
        columns: tuple[str, ...] = (PARTITION, WEIGHT, COUNT)
        if choice is not None:
            columns = (*columns, MARK)
            weigh = functools.partial(weigh_marked, weigh)
            decide = functools.partial(decide_checked, decide)
        return (
            self._users
            | f"Weigh{index}" >> shuffle.on_threads(weigh, **side_inputs)
            | f"Batch{index}" >> ToTables(columns)
            | f"ByPartition{index}" >> self._add
            | f"Decide{index}" >> shuffle.on_threads(decide, **side_inputs)
        )

    def count_named(
        self,
        weigh: Callable[..., pa.Table],
        count: Callable[..., pa.Table],
        named: Sequence[beam.PCollection],
        choice: beam.pvalue.AsSingleton,
    ) -> beam.PCollection:
        """Returns tables of all names with counts: after the rounds if the plan says so, or else
        those by which the names were selected."""
        tables = tuple(named) | "Named" >> beam.Flatten()
        zeros = tables | "Zeros" >> shuffle.on_threads(
            functools.partial(weigh_marked, round_kernels.without_users), choice=choice
        )
        users = self._users | "WeighNamed" >> shuffle.on_threads(
            functools.partial(weigh_marked, weigh),
            named=beam.pvalue.AsList(tables),
            choice=choice,
        )
        counted = (
            (users, zeros)
            | "Both" >> beam.Flatten()
            | "BatchNamed" >> ToTables((PARTITION, WEIGHT, COUNT, MARK))
            | "ByNamed" >> self._add
            | "Count" >> shuffle.on_threads(functools.partial(decide_checked, count), choice=choice)
        )
        before = tables | "Before" >> shuffle.on_threads(
            round_kernels.counted_before, choice=choice
        )
        return (counted, before) | "AllCounts" >> beam.Flatten()


def _sum_of_cells(cells: int) -> beam.CombineGlobally:
    return beam.CombineGlobally(beam.combiners.TupleCombineFn(*[sum] * cells))
