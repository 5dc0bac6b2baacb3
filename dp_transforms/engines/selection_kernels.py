"""Selects partitions from tables of counts: the kernels of ``SelectFromCounts``, on Beam and in one
process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.columnar import counting
from dp_transforms.columnar.columns import (
    COUNT,
    HIGH,
    LOW,
    NOISY_COUNT,
    PARTITION,
    concat,
    plain,
    single,
)
from dp_transforms.columnar.hashing import KeyedUniforms, to_arrow, to_numpy
from dp_transforms.mechanisms.arrays import BoolArray
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.selection import (
    CountStrategy,
)
from dp_transforms.mechanisms.selection.threshold_distribution import ThresholdDistribution

if TYPE_CHECKING:
    from dp_transforms.releases import NamesSpec
    from dp_transforms.runtime.job_secret import JobSecret


def decision_function(spec: NamesSpec, secret: JobSecret) -> Callable[..., pa.Table]:
    """Returns ``select_from_counts`` with the arguments of a specification. Its remaining arguments
    are ``table`` and ``public_names``."""
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
    """Returns the names of the columns of a table of selected names."""
    ends = (LOW, HIGH) if spec.intervals else ()
    return (PARTITION, NOISY_COUNT, *ends) if spec.noisy_counts else (PARTITION,)


def public_counts(spec: NamesSpec) -> pa.Table:
    """Returns a table of the public names, of which there are some, with counts of 0."""
    names = spec.public_partitions
    assert names is not None
    zeros = to_arrow(np.zeros(len(names), np.int64))
    return pa.table({PARTITION: plain(names, "public_partitions"), COUNT: zeros})


def select_from_counts(
    table: pa.Table,
    strategy: CountStrategy,
    key: bytes,
    noisy_counts: bool = False,
    intervals: bool = False,
    public_distribution: ThresholdDistribution | None = None,
    public_names: Sequence[pa.Table] = (),
) -> pa.Table:
    """Selects rows of a table of counts by a strategy, for ``SelectFromCounts``.

    Args:
      table: plain columns ``partition`` and ``count``.
      strategy: a ``NoisyCountStrategy`` if noisy counts are wanted.
      key: 32 secret bytes, which give each partition's name its uniform number.
      noisy_counts, intervals: whether to add noisy counts, and the ends of their intervals.
      public_distribution: decides about public partitions, if there are any.
      public_names: tables of public partitions.

    Returns:
      The column ``partition`` and, if asked for, ``noisy_count``, and ``low`` and ``high``.
    """
    select = functools.partial(
        selected_by_counts, key=key, noisy_counts=noisy_counts, intervals=intervals
    )
    public = None
    if public_distribution is not None:
        is_public = counting.is_in(single(table[PARTITION]), names_in(public_names))
        public = _at_least_zero(select(public_distribution, table.filter(is_public)))
        table = table.filter(pc.invert(is_public))
    counts = to_numpy(single(table[COUNT]))
    needed = counts >= strategy.pre_threshold
    if strategy.saturation_count is not None and not noisy_counts:
        # From this count on, a partition is kept whatever its uniform number is.
        needed &= counts < strategy.saturation_count
    names = select(strategy, table, needed=needed)
    return names if public is None else concat([names, public])


def selected_by_counts(
    decision_function: Any,
    table: pa.Table,
    key: bytes,
    noisy_counts: bool,
    intervals: bool,
    needed: BoolArray | None = None,
) -> pa.Table:
    """Returns the rows of a table of counts that a decision function keeps, with the columns of
    ``select_from_counts``.

    Args:
      decision_function: a strategy, or the distribution of a threshold. It decides from counts and
        uniform random numbers.
      table, key, noisy_counts, intervals: see ``select_from_counts``.
      needed: the rows whose decision needs a uniform number; by default all.
    """
    partitions, counts = single(table[PARTITION]), to_numpy(single(table[COUNT]))
    uniforms = KeyedUniforms(partitions, key, needed)
    names = table.select([PARTITION])
    if not noisy_counts:
        keep = decision_function.decide(counts, uniforms.words, uniforms.prefix)
        return counting.rows_where(names, keep)
    keep, noisy = decision_function.decide_with_counts(counts, uniforms.words, uniforms.prefix)
    kept = counting.rows_where(names, keep)
    columns = {PARTITION: kept[PARTITION], NOISY_COUNT: to_arrow(noisy[keep])}
    if intervals:
        columns |= zip(
            (LOW, HIGH), map(to_arrow, decision_function.count_intervals(noisy[keep])), strict=True
        )
    return pa.table(columns)


def _at_least_zero(selected: pa.Table) -> pa.Table:
    """Returns public partitions, with noisy counts below 0 replaced by 0. Intervals stay."""
    if NOISY_COUNT not in selected.column_names:
        return selected
    counts = pc.max_element_wise(selected[NOISY_COUNT], 0)
    place = selected.column_names.index(NOISY_COUNT)
    return selected.set_column(place, NOISY_COUNT, counts)


def names_in(tables: Sequence[pa.Table]) -> pa.Array:
    return single(concat(list(tables))[PARTITION])


def of_other_partitions(pairs: pa.Table, named: Sequence[pa.Table]) -> pa.Table:
    """Returns the pairs whose partition is in none of the tables ``named``."""
    return counting.without_partitions(pairs, names_in(named)) if named else pairs
