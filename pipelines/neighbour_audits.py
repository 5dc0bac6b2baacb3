"""Makes audits: tests of a mechanism on a pair of neighbouring inputs.

The outputs of an audit are PRIVATE, and so are its inputs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pyarrow as pa

from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.columnar.columns import COUNT, NOISY_COUNT, PARTITION
from dp_transforms.columnar.counting import count_pairs, histogram, sum_counts, user_degrees
from dp_transforms.engines.round_kernels import select_in_memory
from dp_transforms.engines.selection_kernels import select_from_counts
from dp_transforms.evaluation import (
    Statistic,
    exact_epsilon,
    exact_partition_epsilon,
)
from dp_transforms.mechanisms import FrequencyList, FrobeniusMechanism, NoisyCoordinates
from dp_transforms.mechanisms.decimals import float_above
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, FrobeniusCoordinates
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.selection import SelectionStrategy, WeightedStrategy
from dp_transforms.mechanisms.selection.strategy import CountStrategy
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS
from dp_transforms.runtime.job_secret import JobSecret

Report = Callable[[int], None]
_MOST_ENUMERATED = 12


@dataclass(frozen=True)
class Audit:
    """A test of a mechanism on a pair of neighbours.

    Attributes:
      inputs: the two neighbouring inputs.
      draw: returns a number of independent outputs of an input, and reports how many are drawn.
      statistics: functions of outputs; events are sets of their values.
      exact: returns the exact epsilon at this delta; None if the distributions are not known.
      epsilon: the promised epsilon.
      pair: the inputs, in words.
      delta: the promised delta.
    """

    inputs: tuple[Any, Any]
    draw: Callable[[Any, int, Report], list[Any]]
    statistics: Sequence[Statistic]
    exact: Callable[[], float] | None
    epsilon: float
    pair: str
    delta: float = 0.0


def list_audit(
    mechanism: PartitionMechanism, frequency_list: FrequencyList, neighbour: FrequencyList
) -> Audit:
    """Returns the audit of a mechanism on two lists."""
    lists = (frequency_list, neighbour)
    return Audit(
        inputs=lists,
        draw=functools.partial(_releases, mechanism),
        statistics=(functools.partial(_loss, lists=lists),),
        exact=functools.partial(exact_partition_epsilon, mechanism, *lists),
        epsilon=mechanism.epsilon_cost,
        pair=f"two lists, {frequency_list.l1_distance(neighbour):,} apart in L1",
    )


def records_list_audit(mechanism: PartitionMechanism, table: pa.Table, without: pa.Table) -> Audit:
    """Returns the audit of the way from records to a released list, on records with and without a
    user."""

    def bounded(records: pa.Table, secret: JobSecret) -> FrequencyList:
        counts = _counts(records, mechanism.sensitivity, secret)
        return FrequencyList.from_histogram(histogram(counts))

    def draw(records: pa.Table, count: int, drawn: Report) -> list[Any]:
        bounded_lists = (bounded(records, JobSecret.from_os()) for _ in range(count))
        lists = [*_reported(bounded_lists, drawn)]
        # The draws from equal lists are made together, since their preparation takes long.
        released = {f: iter(_releases(mechanism, f, n)) for f, n in Counter(lists).items()}
        return [next(released[f]) for f in lists]

    fixed = JobSecret.from_os()
    audit = list_audit(mechanism, bounded(table, fixed), bounded(without, fixed))
    if not _is_bounded_at_random(table, mechanism.sensitivity):
        return audit
    return replace(
        audit, inputs=(table, without), draw=draw, exact=None, pair=_removed(table, without)
    )


def selection_audit(
    strategy: SelectionStrategy,
    table: pa.Table,
    without: pa.Table,
    own: Iterable[Any],
    noisy_counts: bool = False,
) -> Audit:
    """Returns the audit of the way from records to selected partitions, perhaps with noisy counts,
    on records with and without a user who has the partitions ``own``."""
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

    selected = names.intersection

    def number(output: dict[Any, int]) -> int:
        return len(selected(output))

    def noisy_sum(output: dict[Any, int]) -> tuple[int, int]:
        return number(output), sum(output[name] for name in selected(output))

    def draw(records: pa.Table, count: int, drawn: Report) -> list[dict[Any, int]]:
        selections = (
            _select(strategy, noisy_counts, records, JobSecret.from_os()) for _ in range(count)
        )
        return [*_reported(selections, drawn)]

    return Audit(
        inputs=(table, without),
        draw=draw,
        statistics=(selected, number, *([noisy_sum] if noisy_counts else [])),
        exact=exact,
        epsilon=float_above(Fraction(strategy.epsilon)),
        delta=float(strategy.delta),
        pair=_removed(table, without),
    )


def _removed(table: pa.Table, without: pa.Table) -> str:
    return f"{table.num_rows - without.num_rows:,} of {table.num_rows:,} records removed"


def _counts(records: pa.Table, max_partitions: int, secret: JobSecret) -> pa.Table:
    key = secret.key(BOUND_CONTRIBUTIONS)
    return sum_counts(count_pairs(distinct_pairs(records, at_most=max_partitions, key=key)))


def _select(
    strategy: SelectionStrategy, noisy_counts: bool, records: pa.Table, secret: JobSecret
) -> dict[Any, int]:
    """Returns the selected partitions with their noisy counts, which are 0 if none are wanted."""
    if isinstance(strategy, WeightedStrategy):
        selected = select_in_memory(distinct_pairs(records), strategy, secret)
    else:
        assert isinstance(strategy, CountStrategy)
        counts = _counts(records, strategy.max_partitions_per_user, secret)
        selected = select_from_counts(counts, strategy, secret.key("selection"), noisy_counts)
    names = selected[PARTITION].to_pylist()
    noisy = selected[NOISY_COUNT].to_pylist() if noisy_counts else [0] * len(names)
    return dict(zip(names, noisy, strict=True))


def _distribution_of_names(
    strategy: CountStrategy, records: pa.Table, max_partitions: int, names: Iterable[Any]
) -> dict[tuple[bool, ...], Any]:
    """Returns the probability of each selection from the partitions ``names``. A strategy decides
    about them independently, so probabilities are products."""
    table = _counts(records, max_partitions, JobSecret.from_os())
    counts = dict(zip(table[PARTITION].to_pylist(), table[COUNT].to_pylist(), strict=True))
    keeps = [gmpy2.mpq(strategy.keep_enclosure(counts.get(name, 0), 256)[0]) for name in names]
    return {
        choice: math.prod(
            (keep if kept else 1 - keep for keep, kept in zip(keeps, choice, strict=True)),
            start=gmpy2.mpq(1),
        )
        for choice in itertools.product((False, True), repeat=len(keeps))
    }


def _is_bounded_at_random(records: pa.Table, max_partitions: int) -> bool:
    """Returns whether some user has more partitions than are kept."""
    return max(user_degrees(distinct_pairs(records)), default=0) > max_partitions


def _releases(
    mechanism: PartitionMechanism,
    private: FrequencyList,
    count: int,
    drawn: Report = lambda number: None,
) -> list[Any]:
    """Returns released lists or, for the Frobenius mechanism, the noisy coordinates that determine
    them."""
    if not isinstance(mechanism, FrobeniusMechanism):
        # All are drawn together, since a preparation takes as long as many draws.
        released = mechanism.release_many(private, count)
        drawn(count)
        return released
    return [*_reported((mechanism.noisy_coordinates(private) for _ in range(count)), drawn)]


def _reported(outputs: Iterable[Any], drawn: Report) -> Iterator[Any]:
    """Yields outputs, and reports each one when it is drawn."""
    for output in outputs:
        drawn(1)
        yield output


def _loss(
    released: FrequencyList | NoisyCoordinates, lists: tuple[FrequencyList, FrequencyList]
) -> int:
    """Returns the distance of an output from the second list less that from the first.

    The ratio of the output's probabilities, given either list, is a function of this number alone.
    """
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
