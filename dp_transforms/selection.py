"""Selecting partitions: the names that may be released, from users' records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam

from dp_transforms.contributions import BoundContributions, DeclareBounded
from dp_transforms.count_selection import SelectFromCounts, check_strategy, displayed
from dp_transforms.counting import CountDistinctUsers, CountOtherUsers, noise_of_users
from dp_transforms.job_secret import JobSecret, secret_for
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition_selection import (
    MeasuredSelection,
    SelectionStrategy,
    TruncatedGeometricSelection,
    WeightedStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.partition_selection.choice import AUTO
from dp_transforms.runtime.batching import FromTables, ToTables
from dp_transforms.runtime.bounds import Releases, known_bound, refuse_counts
from dp_transforms.runtime.records import PARTITION, refuse_windows
from dp_transforms.weighted_rounds import SelectInRounds


class SelectPartitions(Releases, beam.PTransform):
    """Selects the partitions that may be named, under (epsilon, delta)-differential privacy.

    Neighbours: add or remove all records of one user. Each user counts in at most
    ``max_partitions_per_user`` partitions, and once in each: the transform sees to that, unless it
    is known of the records (see ``runtime.bounds``) or ``already_bounded`` declares it. A partition
    that no record has is never selected, unless it is public.

    Takes tuples (user, partition), rows or Arrow tables, and gives partitions of the same kind: the
    partitions themselves for tuples, rows with the field ``partition``, tables with that column;
    with ``noisy_counts`` pairs (partition, noisy_count), or with ``intervals`` tuples of these and
    of the ends of an interval. With ``others_epsilon`` it gives a dictionary of these,
    ``"partitions"``, and of one integer, ``"other_users"``: about how many users have a partition
    that is not among them (see ``CountOtherUsers``).

    Every decision is exact and follows from the secret and the partition's name, so that a retried
    bundle repeats it (see ``mechanisms.partition_selection``). Partitions come in the order of
    their names, as long as they fit in one table: the order tells nothing else of the records.

    Args:
      epsilon, delta: the budget of the whole selection.
      max_partitions_per_user: kappa. By default what is known of the records, if it is.
      strategy: "auto", which takes what should name the most partitions; a name of
        ``mechanisms.partition_selection.STRATEGIES``; or a strategy of your own making, which has
        these parameters in it: none but ``noisy_counts`` and ``intervals`` are given beside it.
      noisy_counts: release noisy counts with the names, at no further cost.
      intervals: give ``low`` and ``high`` with noisy counts: each interval holds the number of
        users that the partition has within kappa, with 95% confidence given that it is selected
        (see ``count_intervals``).
      already_bounded: declares that no user has more than kappa partitions, as ``DeclareBounded``
        does. Repeated records are still counted once.
      others_epsilon: what the number of users of other partitions costs, beside epsilon. Without it
        there is no such number.
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
      ValueError: an argument is out of range or missing, the records are bounded to more than is
        declared, the input is unbounded or windowed or holds counts, the job is a classic template;
        at run time, there are nulls.
      TypeError, at run time: users or partitions are not strings, bytes or integers of one type.

    >>> records = [(user, "jazz") for user in range(400)] + [(999, "rock")]
    >>> with beam.Pipeline() as pipeline:
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
        epsilon: Number | None = None,
        delta: Number | None = None,
        max_partitions_per_user: int | None = None,
        strategy: str | SelectionStrategy = AUTO,
        noisy_counts: bool = False,
        already_bounded: bool = False,
        *,
        intervals: bool = False,
        others_epsilon: Number | None = None,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        public_partitions: Iterable[Any] = (),
        public_threshold: int | None = None,
        purpose: str = "selection",
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._public = tuple(public_partitions)
        self._public_threshold = public_threshold
        self._noisy_counts = noisy_counts
        self._intervals = intervals
        self._already_bounded = already_bounded
        self._kappa = max_partitions_per_user
        optional = {"pre_threshold": pre_threshold, "neighbours": neighbours}
        options: dict[str, Any] = {k: value for k, value in optional.items() if value is not None}
        if isinstance(strategy, str):
            if strategy == AUTO and self._public:
                strategy = TruncatedGeometricSelection.name
            if epsilon is None or delta is None:
                name = "epsilon" if epsilon is None else "delta"
                raise ValueError(f"{name} must be given, unless strategy is one of your own making")
            of_budget = functools.partial(
                make_strategy, strategy, epsilon, delta, noisy_counts, **options
            )
            self._make: Callable[[int, bool], SelectionStrategy] | None = lambda kappa, bounded: (
                of_budget(already_bounded=bounded, max_partitions_per_user=kappa)
            )
            # Arguments are checked now, whatever kappa will be.
            self._strategy = self._make(1 if self._kappa is None else self._kappa, already_bounded)
        else:
            check_strategy(strategy)
            given = (epsilon, delta, max_partitions_per_user)
            if options or any(value is not None for value in given):
                raise ValueError("a strategy of your own has its budget and bounds in it already")
            self._make, self._strategy = None, strategy
            self._kappa = strategy.max_partitions_per_user
        self._is_auto = strategy == AUTO
        self._others_epsilon = others_epsilon
        if others_epsilon is not None:
            # Checked now.
            noise_of_users(others_epsilon)
        self._purpose = purpose
        self._secret = secret
        self._num_buckets = num_buckets
        for_counts = noisy_counts or intervals or self._public or public_threshold is not None
        if for_counts or not self._strategy.uses_weights:
            # Its arguments are checked now.
            self._select_from_counts(self._strategy)

    @property
    def strategy(self) -> SelectionStrategy:
        """The strategy in use, as chosen by "auto" or given.

        Raises:
          ValueError: it depends on what is known of the records.
        """
        if self._kappa is None:
            raise ValueError("give max_partitions_per_user: the strategy depends on it")
        return self._strategy

    def _resolved(self, kappa: int, known: int | None) -> SelectionStrategy:
        """The strategy at this kappa, for users who are known to have at most so many partitions,
        if that is known."""
        if self._make is None:
            return self._strategy
        strategy = self._strategy
        if kappa != strategy.max_partitions_per_user:
            strategy = self._make(kappa, self._already_bounded)
        if self._is_auto and isinstance(strategy, MeasuredSelection):
            # With all of them within kappa there is nothing to measure.
            if known is not None and known <= kappa:
                strategy = self._make(kappa, True)
        return strategy

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_windows(records)
        known = refuse_counts(records, "SelectPartitions").partitions
        kappa = self._kappa
        if kappa is None:
            kappa = known_bound(records, None, "SelectPartitions", of_counts=False)
        strategy = self._resolved(kappa, known)
        secret = secret_for(records.pipeline, self._secret)
        tables = records | "ToTables" >> ToTables()
        if self._already_bounded:
            tables |= "Declare" >> DeclareBounded(kappa)
        if isinstance(strategy, WeightedStrategy):
            selected = tables | "Rounds" >> SelectInRounds(
                strategy, self._purpose, secret, self._num_buckets
            )
            return self._released(records, tables, selected, (PARTITION,), strategy, secret)
        pairs = tables
        if not self._already_bounded and (known is None or known > kappa):
            pairs |= "Bound" >> BoundContributions(kappa, secret, self._num_buckets)
        select = self._select_from_counts(strategy, secret)
        counts = pairs | "Count" >> CountDistinctUsers(
            cap=select.cap, secret=secret, num_buckets=self._num_buckets
        )
        selected = counts | "Select" >> select
        return self._released(records, tables, selected, select.names, strategy, secret)

    def _select_from_counts(
        self, strategy: SelectionStrategy, secret: JobSecret | None = None
    ) -> SelectFromCounts:
        return SelectFromCounts(
            strategy,
            self._noisy_counts,
            intervals=self._intervals,
            public_partitions=self._public,
            public_threshold=self._public_threshold,
            purpose=self._purpose,
            secret=secret,
            num_buckets=self._num_buckets,
        )

    def _released(
        self,
        records: beam.PCollection,
        tables: beam.PCollection,
        selected: beam.PCollection,
        names: tuple[str, ...],
        strategy: SelectionStrategy,
        secret: JobSecret,
    ) -> Any:
        partitions = selected | "FromTables" >> FromTables(records, names)
        if self._others_epsilon is None:
            return partitions
        others = tables | "OtherUsers" >> CountOtherUsers(
            selected,
            self._others_epsilon,
            secret,
            f"users of other partitions than of {self._purpose} by {strategy!r}",
            self._num_buckets,
        )
        return {"partitions": partitions, "other_users": others}

    def display_data(self) -> dict[str, Any]:
        described = {} if self._kappa is None else displayed(self._strategy)
        return described | {"already_bounded": self._already_bounded}
