"""Selecting partitions from counts of their users."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.budget import PrivacyUnit
from dp_transforms.columnar.columns import HIGH, LOW, NOISY_COUNT, PARTITION
from dp_transforms.columnar.counting import sum_counts
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.partition_selection import (
    CountStrategy,
    NoisyCountStrategy,
    SelectionStrategy,
    TruncatedGeometricSelection,
)
from dp_transforms.mechanisms.partition_selection.threshold_law import ThresholdLaw
from dp_transforms.runtime.batching import FromTables, ToTables
from dp_transforms.runtime.bounds import Releases, bound_of, known_bound
from dp_transforms.runtime.records import COUNT, refuse_windows
from dp_transforms.runtime.selecting import select_from_counts, select_with_public
from dp_transforms.runtime.shuffle import InOrder, OnThreads, ReduceByHash
from dp_transforms.weighted_rounds import OnThreadsBeside, unless_empty


class SelectFromCounts(Releases, beam.PTransform):
    """Selects partitions by their counts of distinct users: (partition, count) in, partitions out.

    The privacy is that of the strategy, if the counts are of distinct users and no user is counted
    in more than its ``max_partitions_per_user`` partitions. Counts of which that is not known are
    refused (see ``runtime.bounds``). They may stop at ``cap``.

    Args:
      strategy: one that needs counts alone.
      noisy_counts: release noisy counts with the names.
      intervals: give the ends of ``count_intervals`` with noisy counts, as ``low`` and ``high``.
      public_partitions, public_threshold, purpose, secret, num_buckets: see ``SelectPartitions``.

    Raises:
      ValueError: an argument is out of range, see ``SelectPartitions``; it is not known to how many
        partitions users are bounded, or these are more than the strategy allows; the counts are
        several collections of counts put together, in which a partition may be twice.

    >>> from dp_transforms import DeclareBounded
    >>> from dp_transforms.mechanisms.partition_selection import OptimalSelection
    >>> with beam.Pipeline() as pipeline:
    ...     counts = pipeline | beam.Create([("jazz", 40), ("rock", 1)]) | DeclareBounded(1)
    ...     _ = counts | SelectFromCounts(OptimalSelection(1, 1e-9)) | beam.Map(print)
    jazz
    """

    def __init__(
        self,
        strategy: SelectionStrategy,
        noisy_counts: bool = False,
        *,
        intervals: bool = False,
        public_partitions: Iterable[Any] = (),
        public_threshold: int | None = None,
        purpose: str = "selection",
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._public = tuple(public_partitions)
        if public_threshold is not None and not self._public:
            raise ValueError("public_threshold is for public_partitions, and none are given")
        check_strategy(strategy)
        if not isinstance(strategy, CountStrategy):
            raise ValueError(
                f"strategy {strategy.name!r} needs users' records: counts, noisy counts and public "
                "partitions are not for it"
            )
        if noisy_counts and not isinstance(strategy, NoisyCountStrategy):
            raise ValueError(f"strategy {strategy.name!r} has no noisy counts")
        self._strategy = strategy
        if intervals and not noisy_counts:
            raise ValueError("intervals are those of noisy_counts, which are not asked for")
        self._noisy_counts = noisy_counts
        self._intervals = intervals
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
        self._purpose = purpose
        self._secret = secret
        self._num_buckets = num_buckets

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts of a selected record."""
        ends = (LOW, HIGH) if self._intervals else ()
        return (PARTITION, NOISY_COUNT, *ends) if self._noisy_counts else (PARTITION,)

    @property
    def cap(self) -> int | None:
        """The count where counts may stop: larger ones are kept with certainty; None if nowhere."""
        return None if self._noisy_counts or self._public else self._strategy.saturation_count

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        refuse_windows(counts)
        known_bound(counts, self._strategy.max_partitions_per_user, "SelectFromCounts")
        if bound_of(counts).distinct is False:
            # A partition's decisions share one number, so that two of them tell of each other.
            raise ValueError(
                "SelectFromCounts takes one count of each partition, by which one user moves it by "
                "one: flatten records before they are counted, not counts"
            )
        unit = bound_of(counts).unit
        if unit is not PrivacyUnit.USER:
            raise ValueError(
                f"SelectFromCounts protects users, but these counts are bounded for each "
                f"{unit.value}: count the users of records that are bounded by user"
            )
        secret = secret_for(counts.pipeline, self._secret)
        key = secret.key(f"{self._purpose} by {self._strategy!r}")
        given: dict[str, Any] = {
            "key": key,
            "noisy_counts": self._noisy_counts,
            "intervals": self._intervals,
        }
        decide = functools.partial(select_from_counts, strategy=self._strategy, **given)
        tables = counts | "ToTables" >> ToTables((PARTITION, COUNT))
        if self._public_law is not None:
            tables, public = self._with_public(tables, secret)
            kernel = functools.partial(
                select_with_public, decide=decide, public_law=self._public_law, **given
            )
            chosen = beam.ParDo(OnThreadsBeside(kernel), public)
        else:
            chosen = beam.ParDo(OnThreads(functools.partial(unless_empty, decide)))
        return (
            tables
            | "Decide" >> chosen.with_output_types(pa.Table)
            | "InOrder" >> InOrder(PARTITION, secret.key("order of partitions"))
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
        return displayed(self._strategy)


def check_strategy(strategy: Any) -> None:
    """Raises a TypeError unless this is a strategy."""
    if not isinstance(strategy, SelectionStrategy):
        raise TypeError(
            "strategy must be a SelectionStrategy, such as OptimalSelection(1, 1e-9), "
            f"got {type(strategy).__name__}"
        )


def displayed(strategy: SelectionStrategy) -> dict[str, Any]:
    """A strategy's description as display data, whose values are plain."""
    return {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in strategy.describe().items()
    }
