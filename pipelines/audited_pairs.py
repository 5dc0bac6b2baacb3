"""Mechanisms on pairs of neighbours: what an audit draws from.

Everything runs in memory by the kernels of the transforms, under a fresh secret for each draw.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.columnar.counting import count_pairs, histogram, sum_counts
from dp_transforms.evaluation.auditing import Statistic, exact_epsilon, exact_partition_epsilon
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism, NoisyCoordinates
from dp_transforms.mechanisms.decimals import float_above
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, FrobeniusCoordinates
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.selection import SelectionStrategy, WeightedStrategy
from dp_transforms.mechanisms.selection.strategy import CountStrategy
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.records import NOISY_COUNT
from dp_transforms.runtime.selecting import select_from_counts, select_here

_MOST_ENUMERATED = 12


@dataclass(frozen=True)
class Audit:
    """A mechanism and a pair of neighbours."""

    draw: tuple[Callable[[int], list[Any]], ...]  # n independent outputs, for each of two inputs
    statistics: Sequence[Statistic]  # what to look for in outputs
    exact: (
        Callable[[], float] | None
    )  # epsilon at this delta; None where distributions are not known
    epsilon: float  # what is promised
    delta: float
    pair: str  # the inputs, in words


def list_audit(
    mechanism: PartitionMechanism, frequency_list: FrequencyList, neighbour: FrequencyList
) -> Audit:
    """The mechanism on two lists."""
    lists = (frequency_list, neighbour)
    one, other = (functools.partial(_releases, mechanism, f) for f in lists)
    return Audit(
        draw=(one, other),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=functools.partial(exact_partition_epsilon, mechanism, *lists),
        epsilon=mechanism.epsilon_cost,
        delta=0.0,
        pair=f"two lists, {frequency_list.l1_distance(neighbour):,} apart in L1",
    )


def records_list_audit(mechanism: PartitionMechanism, table: pa.Table, without: pa.Table) -> Audit:
    """The path from records to a released list, on records with and without a user."""

    def bounded(records: pa.Table, secret: JobSecret) -> FrequencyList:
        counts = _counts(records, mechanism.sensitivity, secret)
        return FrequencyList.from_histogram(histogram(counts))

    def draw(records: pa.Table, count: int) -> list[Any]:
        lists = [bounded(records, JobSecret.from_os()) for _ in range(count)]
        # What draws of one list have in common is computed once.
        released = {f: iter(_releases(mechanism, f, n)) for f, n in Counter(lists).items()}
        return [next(released[f]) for f in lists]

    fixed = JobSecret.from_os()
    lists = (bounded(table, fixed), bounded(without, fixed))
    if not _is_bounded_at_random(table, mechanism.sensitivity):
        return list_audit(mechanism, *lists)
    return Audit(
        draw=(functools.partial(draw, table), functools.partial(draw, without)),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=None,
        epsilon=mechanism.epsilon_cost,
        delta=0.0,
        pair=f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed",
    )


def selection_audit(
    strategy: SelectionStrategy,
    table: pa.Table,
    without: pa.Table,
    own: Iterable[Any],
    noisy_counts: bool = False,
) -> Audit:
    """The path from records to selected partitions and perhaps noisy counts, on records with and
    without a user, whose partitions are given too."""
    names = frozenset(own)
    max_partitions = strategy.max_partitions_per_user
    exact = None
    if (
        isinstance(strategy, CountStrategy)
        and not noisy_counts
        and len(names) <= _MOST_ENUMERATED
        and not _is_bounded_at_random(table, max_partitions)
    ):
        distribution, other = (
            _distribution_of_names(strategy, records, max_partitions, names)
            for records in (table, without)
        )
        exact = functools.partial(exact_epsilon, distribution, other, gmpy2.mpq(strategy.delta))

    def selected(output: dict[Any, int]) -> frozenset[Any]:
        return frozenset(name for name in names if name in output)

    def number(output: dict[Any, int]) -> int:
        return len(selected(output))

    def noisy_sum(output: dict[Any, int]) -> tuple[int, int]:
        return number(output), sum(output[name] for name in selected(output))

    def draw(records: pa.Table, count: int) -> list[dict[Any, int]]:
        return [_select(strategy, noisy_counts, records, JobSecret.from_os()) for _ in range(count)]

    return Audit(
        draw=(functools.partial(draw, table), functools.partial(draw, without)),
        statistics=(selected, number, *([noisy_sum] if noisy_counts else [])),
        exact=exact,
        epsilon=float_above(Fraction(strategy.epsilon)),
        delta=float(strategy.delta),
        pair=f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed",
    )


def _counts(records: pa.Table, max_partitions: int, secret: JobSecret) -> pa.Table:
    key = secret.key("bound contributions")
    return sum_counts(count_pairs(distinct_pairs(records, at_most=max_partitions, key=key)))


def _select(
    strategy: SelectionStrategy, noisy_counts: bool, records: pa.Table, secret: JobSecret
) -> dict[Any, int]:
    """The selected partitions with their noisy counts, or zeros."""
    if isinstance(strategy, WeightedStrategy):
        names = select_here(distinct_pairs(records), strategy, secret)[PARTITION].to_pylist()
        return dict.fromkeys(names, 0)
    assert isinstance(strategy, CountStrategy)
    counts = _counts(records, strategy.max_partitions_per_user, secret)
    selected = select_from_counts(counts, strategy, secret.key("selection"), noisy_counts)
    names = selected[PARTITION].to_pylist()
    noisy = selected[NOISY_COUNT].to_pylist() if noisy_counts else [0] * len(names)
    return dict(zip(names, noisy, strict=True))


def _distribution_of_names(
    strategy: CountStrategy, records: pa.Table, max_partitions: int, names: Iterable[Any]
) -> dict[tuple[bool, ...], Any]:
    """The probability of each selection of some partitions, which are decided on independently."""
    table = _counts(records, max_partitions, JobSecret.from_os())
    counts = dict(zip(table[PARTITION].to_pylist(), table[COUNT].to_pylist(), strict=True))
    keeps = [gmpy2.mpq(strategy.keep_enclosure(counts.get(name, 0), 256)[0]) for name in names]
    distribution = {}
    for choice in itertools.product((False, True), repeat=len(keeps)):
        distribution[choice] = gmpy2.mpq(1)
        for keep, kept in zip(keeps, choice, strict=True):
            distribution[choice] *= keep if kept else 1 - keep
    return distribution


def _is_bounded_at_random(records: pa.Table, max_partitions: int) -> bool:
    pairs = distinct_pairs(records)
    return any(
        count > max_partitions for count in pc.value_counts(pairs[USER]).field("counts").to_pylist()
    )


def _releases(mechanism: PartitionMechanism, private: FrequencyList, count: int) -> list[Any]:
    """Released lists, or the noisy coordinates of which they are functions."""
    if isinstance(mechanism, FrobeniusMechanism):
        return [mechanism.noisy_coordinates(private) for _ in range(count)]
    return [*mechanism.release_many(private, count)]


def _loss(
    released: FrequencyList | NoisyCoordinates, lists: tuple[FrequencyList, FrequencyList]
) -> int:
    # All that the output tells about which of the two lists it was made from.
    if isinstance(released, FrequencyList):
        return released.l1_distance(lists[1]) - released.l1_distance(lists[0])
    there, here = (
        sum(
            int(np.abs(noisy - coordinates.of(arm, np.arange(1, len(noisy) + 1))).sum())
            for arm, noisy in ((ROWS, released.rows), (COLUMNS, released.columns))
        )
        for coordinates in map(FrobeniusCoordinates, lists[::-1])
    )
    return there - here
