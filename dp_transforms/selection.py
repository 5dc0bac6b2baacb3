"""Selecting partitions: the names that may be released, from records or from counts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dp_transforms.batching import FromTables, ToTables
from dp_transforms.columnar.columns import PARTITION, concat, single
from dp_transforms.columnar.counting import sum_counts
from dp_transforms.columnar.named_uniforms import NamedUniforms
from dp_transforms.columnar.weighting import is_in
from dp_transforms.contributions import BoundContributions
from dp_transforms.counting import CountDistinctUsers, comes_from
from dp_transforms.job_secret import JobSecret, refuse_templates
from dp_transforms.mechanisms.partition_selection import (
    CountStrategy,
    NoisyCountStrategy,
    SelectionStrategy,
    TruncatedGeometricSelection,
    WeightedStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.partition_selection.choice import AUTO
from dp_transforms.mechanisms.partition_selection.threshold_law import ThresholdLaw
from dp_transforms.records import COUNT, NOISY_COUNT, refuse_windows
from dp_transforms.shuffle import OnThreads, ReduceByHash
from dp_transforms.weighted_rounds import OnThreadsBeside, SelectInRounds, unless_empty


class SelectPartitions(beam.PTransform):
    """Selects the partitions that may be named, under (epsilon, delta)-differential privacy.

    Neighbours: add or remove all records of one user. Each user counts in at most
    ``max_partitions_per_user`` partitions, and once in each: the transform sees to that, unless
    ``already_bounded`` declares it. A partition that no record has is never selected, unless it is
    public.

    Takes tuples (user, partition), rows or Arrow tables, and gives partitions of the same kind: the
    partitions themselves for tuples, rows with the field ``partition``, tables with that column;
    with ``noisy_counts`` pairs (partition, noisy_count).

    Every decision is exact and follows from the secret and the partition's name, so that a retried
    bundle repeats it (see ``mechanisms.partition_selection``).

    Args:
      epsilon, delta: the budget of the whole selection.
      max_partitions_per_user: kappa.
      strategy: "auto", which takes the best single-round strategy for these parameters; a name of
        ``mechanisms.partition_selection.STRATEGIES``; or a strategy of your own making, which has
        these parameters in it, so that none but ``noisy_counts`` is given beside it.
      noisy_counts: release noisy counts with the names, at no further cost.
      already_bounded: declares that no user has more than kappa partitions. Repeated records are
        still counted once.
      pre_threshold: partitions with fewer users than this are never selected.
      neighbours: "replace" protects the exchange of one user's records by another's, at twice the
        cost.
      public_partitions: names that are public anyway, of the partitions' type. They may be selected
        without having users, and are kept if their noisy count exceeds ``public_threshold``. For
        the strategy "truncated_geometric", which "auto" then takes.
      public_threshold: from -k to k, the bound of that strategy's noise: at -k no public partition
        with users is missed, at k none without users is selected.
      purpose: tells several selections under one secret apart. Two with the same purpose and
        strategy would use the same random numbers, so that their noise could be compared away.
      secret: the job's secret; a fresh one when the transform is applied, by default.
      num_buckets: how many parts users and partitions are split into, see ``shuffle``.

    Raises:
      ValueError: an argument is out of range or missing, the input is unbounded or windowed, the
        job is a classic template; at run time, there are nulls.
      TypeError, at run time: users or partitions are not strings, bytes or integers of one type.

    >>> records = [(user, "jazz") for user in range(40)] + [(99, "rock")]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create(records)
    ...         | SelectPartitions(epsilon=1, delta=1e-9, max_partitions_per_user=1)
    ...         | beam.Map(print)
    ...     )
    jazz
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        max_partitions_per_user: int | None = None,
        strategy: str | SelectionStrategy = AUTO,
        noisy_counts: bool = False,
        already_bounded: bool = False,
        *,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        public_partitions: Iterable[Any] = (),
        public_threshold: int | None = None,
        purpose: str = "selection",
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        public = tuple(public_partitions)
        if isinstance(strategy, str):
            if strategy == AUTO and public:
                strategy = TruncatedGeometricSelection.name
            self._strategy = _named_strategy(
                strategy,
                noisy_counts,
                {
                    "epsilon": epsilon,
                    "delta": delta,
                    "max_partitions_per_user": max_partitions_per_user,
                },
                {"pre_threshold": pre_threshold, "neighbours": neighbours},
            )
        else:
            given = (epsilon, delta, max_partitions_per_user, pre_threshold, neighbours)
            if any(value is not None for value in given):
                raise ValueError("a strategy of your own has its budget and bounds in it already")
            self._strategy = strategy
        self._already_bounded = already_bounded
        self._purpose = purpose
        self._secret = secret
        self._num_buckets = num_buckets
        self._select_from_counts = functools.partial(
            SelectFromCounts,
            self._strategy,
            noisy_counts,
            public_partitions=public,
            public_threshold=public_threshold,
            purpose=purpose,
            num_buckets=num_buckets,
        )
        for_counts = noisy_counts or public or public_threshold is not None
        if for_counts or not self._strategy.uses_weights:
            # Its arguments are checked now.
            self._select_from_counts()

    @property
    def strategy(self) -> SelectionStrategy:
        """The strategy in use, as chosen by "auto" or given."""
        return self._strategy

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_templates(records.pipeline.options)
        refuse_windows(records)
        secret = self._secret or JobSecret.from_os()
        tables = records | "ToTables" >> ToTables()
        if isinstance(self._strategy, WeightedStrategy):
            selected = tables | "Rounds" >> SelectInRounds(
                self._strategy, self._purpose, secret, self._num_buckets
            )
            return selected | "FromTables" >> FromTables(records, (PARTITION,))
        distinct = comes_from(records, BoundContributions)
        if not self._already_bounded:
            kappa = self._strategy.max_partitions_per_user
            tables |= "Bound" >> BoundContributions(kappa, secret, self._num_buckets)
            distinct = True
        select = self._select_from_counts(secret=secret)
        counts = tables | "Count" >> CountDistinctUsers(
            cap=select.cap,
            already_distinct=distinct,
            secret=secret,
            num_buckets=self._num_buckets,
        )
        selected = counts | "Select" >> select
        return selected | "FromTables" >> FromTables(records, select.names)

    def display_data(self) -> dict[str, Any]:
        return _displayed(self._strategy) | {"already_bounded": self._already_bounded}


class SelectFromCounts(beam.PTransform):
    """Selects partitions by their counts of distinct users: (partition, count) in, partitions out.

    The privacy is that of the strategy, if the counts are of distinct users and no user is counted
    in more than its ``max_partitions_per_user`` partitions; both are the caller's to keep, for
    example with ``BoundContributions`` and ``CountDistinctUsers``. Counts may stop at ``cap``.

    Args:
      strategy: one that needs counts alone.
      noisy_counts: release noisy counts with the names.
      public_partitions, public_threshold, purpose, secret, num_buckets: see ``SelectPartitions``.

    Raises:
      ValueError: an argument is out of range; see ``SelectPartitions``.

    >>> from dp_transforms.mechanisms.partition_selection import OptimalSelection
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     counts = pipeline | beam.Create([("jazz", 40), ("rock", 1)])
    ...     _ = counts | SelectFromCounts(OptimalSelection(1, 1e-9)) | beam.Map(print)
    jazz
    """

    def __init__(
        self,
        strategy: SelectionStrategy,
        noisy_counts: bool = False,
        *,
        public_partitions: Iterable[Any] = (),
        public_threshold: int | None = None,
        purpose: str = "selection",
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        if not isinstance(strategy, CountStrategy):
            raise ValueError(
                f"strategy {strategy.name!r} needs users' records: counts, noisy counts and public "
                "partitions are not for it"
            )
        if noisy_counts and not isinstance(strategy, NoisyCountStrategy):
            raise ValueError(f"strategy {strategy.name!r} has no noisy counts")
        self._strategy = strategy
        self._noisy_counts = noisy_counts
        self._public = tuple(public_partitions)
        self._public_law: ThresholdLaw | None = None
        if self._public:
            if not isinstance(strategy, TruncatedGeometricSelection):
                raise ValueError(
                    f"public_partitions are for the strategy {TruncatedGeometricSelection.name!r}, "
                    f"got {strategy.name!r}"
                )
            if strategy.pre_threshold > 1:
                raise ValueError(
                    "pre_threshold and public_partitions exclude each other: one hides small "
                    "partitions, the other shows even empty ones"
                )
            self._public_law = strategy.public_law(public_threshold or 0)
        elif public_threshold is not None:
            raise ValueError("public_threshold is for public_partitions, and none are given")
        self._purpose = purpose
        self._secret = secret
        self._num_buckets = num_buckets

    @property
    def names(self) -> tuple[str, ...]:
        """What the parts of a selected record are called."""
        return (PARTITION, NOISY_COUNT) if self._noisy_counts else (PARTITION,)

    @property
    def cap(self) -> int | None:
        """Where counts may stop, since larger ones are kept with certainty; None if nowhere."""
        return None if self._noisy_counts or self._public else self._strategy.saturation_count

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        refuse_templates(counts.pipeline.options)
        refuse_windows(counts)
        secret = self._secret or JobSecret.from_os()
        key = secret.key(f"{self._purpose} by {self._strategy!r}")
        decide = functools.partial(
            select_from_counts, strategy=self._strategy, key=key, noisy_counts=self._noisy_counts
        )
        tables = counts | "ToTables" >> ToTables((PARTITION, COUNT))
        if self._public_law is not None:
            tables, public = self._with_public(tables, secret)
            kernel = functools.partial(
                select_with_public,
                decide=decide,
                public_law=self._public_law,
                key=key,
                noisy_counts=self._noisy_counts,
            )
            chosen = beam.ParDo(OnThreadsBeside(kernel), public)
        else:
            chosen = beam.ParDo(OnThreads(functools.partial(unless_empty, decide)))
        return (
            tables
            | "Decide" >> chosen.with_output_types(pa.Table)
            | "FromTables" >> FromTables(counts, self.names, like_names=(PARTITION, COUNT))
        )

    def _with_public(
        self, tables: beam.PCollection, secret: JobSecret
    ) -> tuple[beam.PCollection, beam.pvalue.AsList]:
        """Counts that include public partitions without users, and the public names beside them."""
        public = (
            tables.pipeline
            | "Public" >> beam.Create([(name, 0) for name in self._public], reshuffle=False)
            | "PublicTables" >> ToTables((PARTITION, COUNT))
        )
        both = (
            (tables, public)
            | beam.Flatten()
            | "ByPartition"
            >> ReduceByHash(
                sum_counts, (PARTITION,), secret.key("route partitions"), self._num_buckets
            )
        )
        return both, beam.pvalue.AsList(public)

    def display_data(self) -> dict[str, Any]:
        return _displayed(self._strategy)


def select_from_counts(
    table: pa.Table, strategy: CountStrategy, key: bytes, noisy_counts: bool = False
) -> pa.Table:
    """The rows of a table of counts that a strategy selects; the kernel of ``SelectFromCounts``.

    Args:
      table: plain columns ``partition`` and ``count``.
      strategy: decides; one with noisy counts, if they are wanted.
      key: 32 secret bytes: with a partition's name they give its uniform number.
      noisy_counts: whether to add them.

    Returns:
      The column ``partition`` and, with noisy counts, ``noisy_count``.
    """
    counts = table[COUNT].to_numpy()
    needed = counts >= strategy.pre_threshold
    if strategy.saturation_count is not None and not noisy_counts:
        # Those are kept whatever their number.
        needed &= counts < strategy.saturation_count
    return _selected(strategy, table, key, noisy_counts, needed)


def select_with_public(
    table: pa.Table,
    beside: Sequence[pa.Table],
    decide: Callable[[pa.Table], pa.Table],
    public_law: ThresholdLaw,
    key: bytes,
    noisy_counts: bool = False,
) -> pa.Table:
    """``select_from_counts`` where some partitions are public.

    Args:
      beside: tables with the public partitions, one at least.
      decide: decides about the other partitions.
      public_law: decides about those.
    """
    public = single(concat(list(beside))[PARTITION])
    is_public = is_in(single(table[PARTITION]), public)
    listed = _selected(public_law, table.filter(is_public), key, noisy_counts, None)
    return concat([decide(table.filter(pc.invert(is_public))), listed])


def _selected(
    decider: Any,
    table: pa.Table,
    key: bytes,
    noisy_counts: bool,
    needed: npt.NDArray[np.bool_] | None,
) -> pa.Table:
    partitions, counts = single(table[PARTITION]), table[COUNT].to_numpy()
    uniforms = NamedUniforms(partitions, key, needed)
    if not noisy_counts:
        keep = decider.decide(counts, uniforms.words, uniforms.prefix)
        return pa.table({PARTITION: partitions.filter(pa.array(keep))})
    keep, noisy = decider.decide_with_counts(counts, uniforms.words, uniforms.prefix)
    return pa.table(
        {PARTITION: partitions.filter(pa.array(keep)), NOISY_COUNT: pa.array(noisy[keep])}
    )


def _named_strategy(
    name: str, noisy_counts: bool, required: dict[str, Any], optional: dict[str, Any]
) -> SelectionStrategy:
    missing = [parameter for parameter, value in required.items() if value is None]
    if missing:
        raise ValueError(f"{missing[0]} must be given, unless strategy is one of your own making")
    given = {parameter: value for parameter, value in optional.items() if value is not None}
    return make_strategy(name, noisy_counts=noisy_counts, **required, **given)


def _displayed(strategy: SelectionStrategy) -> dict[str, Any]:
    """A strategy's description as display data, whose values are plain."""
    return {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in strategy.describe().items()
    }
