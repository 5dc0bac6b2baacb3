"""Selects the partitions that may be named, from users' records or from counts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from dp_transforms.beam import shuffle
from dp_transforms.beam.batching import FromTables, ToTables
from dp_transforms.beam.bounds import ReleaseTransform, bound_of, known_bound, refuse_counts
from dp_transforms.beam.contributions import (
    BoundContributions,
    CountDistinctUsers,
    DeclareBounded,
    add_counts,
)
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import field_types, refuse_windows
from dp_transforms.beam.rounds import selected_in_rounds
from dp_transforms.budget import PrivacyUnit
from dp_transforms.columnar import columns, counting
from dp_transforms.columnar.columns import COUNT, PARTITION, USER
from dp_transforms.engines import other_users, selection_kernels
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.selection import (
    MeasuredSelection,
    SelectionStrategy,
    WeightedStrategy,
)
from dp_transforms.mechanisms.selection.choice import AUTO
from dp_transforms.mechanisms.tape_contexts import ORDER_OF_PARTITIONS, route_by
from dp_transforms.releases import NamesSpec
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.python_values import public_column

_ARROW_TYPES = {str: pa.string(), bytes: pa.binary(), int: pa.int64()}


class SelectPartitions(ReleaseTransform, beam.PTransform):
    """Selects the partitions that may be named, under (epsilon, delta)-differential privacy.

    Neighbours add or remove all records of one user. Each user counts in at most
    ``max_partitions_per_user`` partitions, and once in each: the transform bounds contributions,
    unless they are known to be bounded (see ``beam.bounds``) or ``already_bounded`` declares it.
    A partition without records is never selected, unless it is public.

    Takes tuples (user, partition), rows, dictionaries or Arrow tables. Returns partitions
    themselves for tuples, and otherwise the same kind, with the field ``partition``.
    ``noisy_counts`` adds ``noisy_count``, and ``intervals`` adds ``low`` and ``high``. With
    ``others_epsilon`` it returns a dictionary: ``"partitions"`` has the partitions, and
    ``"other_users"`` one integer, the noisy number of users who have a partition that is not
    selected.

    Every decision is exact, and is a function of the secret, the partition and its users, so that a
    retried bundle repeats it. Partitions that fit in one table are sorted by name, so their order
    discloses nothing more about the records than the names do.

    Args:
      epsilon, delta: the budget of the whole selection.
      max_partitions_per_user: kappa; by default the known bound of the records. If no bound is
        known, "auto" takes the strategy "measured", which spends a part of the budget on the choice
        of how many partitions of a user count.
      strategy: "auto", for the strategy that is expected to name the most partitions; a name of
        ``mechanisms.selection.STRATEGIES``; or a strategy object. An object has its own epsilon,
        delta, max_partitions_per_user, pre_threshold and neighbours, which are then not given.
      noisy_counts: release noisy counts with the names. Names and counts share epsilon and delta.
      intervals: add the ends of 95% intervals for the partition's number of users after bounding.
        Each interval holds given that its partition is selected (see ``count_intervals``).
      already_bounded: declares that no user has more than kappa partitions, as ``DeclareBounded``
        does. Repeated records are still counted once.
      others_epsilon: also release the noisy number of users with a partition that is not selected,
        at this cost beside epsilon.
      pre_threshold: partitions with fewer users than this are never selected.
      neighbours: "replace" is for neighbours that replace one user's records by others (bounded
        DP), which counts as two users changing.
      public_partitions: names that are public anyway, of the partitions' type, one at least. They
        are selected if their noisy count exceeds ``public_threshold``, even without users. Only the
        strategy "truncated_geometric" takes them, and "auto" then chooses it.
      public_threshold: from -k to k, the bound of that strategy's noise: at -k no public partition
        with users is missed, at k none without users is selected.
      context: a name that makes the random numbers of several selections under one secret
        independent. Two with the same context and strategy would use the same random numbers, and
        are refused for different data.
      with_entries: return a dictionary in any case. It has one more collection, ``"entries"``, if
        the statement can say something only after the release, such as the plan that "measured"
        chose and the noise of its counts. The elements are dictionaries of this.
      secret, num_buckets: see ``BoundContributions``.

    Raises:
      ValueError, TypeError: as ``BoundContributions``; an argument is missing, or the records are
        bounded to more than is declared.

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
        *,
        strategy: str | SelectionStrategy = AUTO,
        noisy_counts: bool = False,
        already_bounded: bool = False,
        intervals: bool = False,
        others_epsilon: Number | None = None,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        public_partitions: Iterable[Any] | None = None,
        public_threshold: int | None = None,
        context: str = "selection",
        with_entries: bool = False,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._with_entries = boolean("with_entries", with_entries)
        options: dict[str, Any] = {
            "noisy_counts": noisy_counts,
            "already_bounded": already_bounded,
            "intervals": intervals,
            "others_epsilon": others_epsilon,
            "public_partitions": _public_names(public_partitions),
            "public_threshold": public_threshold,
            "context": context,
        }
        self._max_partitions = max_partitions_per_user
        self._make: Callable[..., NamesSpec] | None = None
        if isinstance(strategy, str):
            if epsilon is None or delta is None:
                missing = "epsilon" if epsilon is None else "delta"
                raise ValueError(
                    f"{missing} must be given, unless strategy is one of your own making"
                )
            options |= {"pre_threshold": pre_threshold, "neighbours": neighbours}
            of: Callable[..., NamesSpec] = NamesSpec.of
            self._make = functools.partial(of, strategy, epsilon, delta, **options)
            # This checks the arguments now, although kappa may be known only in ``expand``.
            self._spec = self._make(1 if self._max_partitions is None else self._max_partitions)
        else:
            given = (epsilon, delta, max_partitions_per_user, pre_threshold, neighbours)
            if any(value is not None for value in given):
                raise ValueError("a strategy of your own has its budget and bounds in it already")
            self._spec = NamesSpec(strategy, **options)
            self._max_partitions = strategy.max_partitions_per_user
        self._secret = secret
        self._num_buckets = num_buckets

    @property
    def strategy(self) -> SelectionStrategy:
        """The strategy in use, as given or as chosen by "auto"; a ValueError if it depends on the
        bound of the records."""
        if self._max_partitions is None:
            raise ValueError("give max_partitions_per_user: the strategy depends on it")
        return self._spec.strategy

    def _resolved(self, max_partitions: int | None, known: int | None) -> NamesSpec:
        """Returns the specification for a kappa, given the known bound of the records. Either is
        None if it is not given, or not known."""
        if self._make is None:
            return self._spec
        spec = self._make(max_partitions)
        is_bounded = known is not None and max_partitions is not None and known <= max_partitions
        if is_bounded and isinstance(spec.strategy, MeasuredSelection):
            # With bounded records there is nothing to measure, so "auto" takes another strategy.
            bounded = self._make(max_partitions, already_bounded=True)
            spec = dataclasses.replace(spec, strategy=bounded.strategy)
        return spec

    def expand(self, records: beam.PCollection) -> Any:
        refuse_windows(records)
        known = refuse_counts(records, "SelectPartitions").partitions
        max_partitions = self._max_partitions
        if max_partitions is None:
            max_partitions = known
        spec = self._resolved(max_partitions, known)
        _check_declared_type(records, spec)
        secret = secret_for(records.pipeline, self._secret)
        secret.claim(records, f"{spec.context} by {identifier(spec.strategy)}")
        tables = records | "ToTables" >> ToTables()
        if spec.already_bounded and max_partitions is not None:
            tables |= "Declare" >> DeclareBounded(max_partitions)
        entries: list[beam.PCollection] = []
        if isinstance(spec.strategy, WeightedStrategy):
            selected, entries = selected_in_rounds(tables, spec, secret, self._num_buckets)
        else:
            pairs = tables
            most = spec.strategy.max_partitions_per_user
            if not spec.already_bounded and (known is None or known > most):
                pairs |= "Bound" >> BoundContributions(
                    most, secret=secret, num_buckets=self._num_buckets
                )
            counts = pairs | "Count" >> CountDistinctUsers(
                spec.cap, secret=secret, num_buckets=self._num_buckets
            )
            selected = _selected_by_counts(counts, spec, secret, self._num_buckets)
        names = selected | "FromTables" >> FromTables(records, selection_kernels.columns_of(spec))
        collections = {"partitions": names}
        if spec.others_epsilon is not None:
            others = _other_users(tables, selected, spec, secret, self._num_buckets)
            collections["other_users"] = others
            entries.append(others | "Entries" >> beam.Map(other_users.entries_of_others))
        if self._with_entries and spec.has_entries:
            collections["entries"] = tuple(entries) | "AllEntries" >> beam.Flatten()
        return collections if self._with_entries or len(collections) > 1 else names

    def display_data(self) -> dict[str, Any]:
        described = {} if self._max_partitions is None else displayed(self._spec.strategy)
        return described | {"already_bounded": self._spec.already_bounded}


class SelectFromCounts(ReleaseTransform, beam.PTransform):
    """Selects partitions by their counts: takes (partition, count), returns partitions.

    The privacy is that of the strategy, if the counts are of distinct users and no user is counted
    in more than the strategy's ``max_partitions_per_user`` partitions. Counts without a known bound
    are refused (see ``beam.bounds``). If there are neither noisy counts nor public partitions,
    counts may have been capped at the strategy's ``saturation_count``.

    Args:
      strategy: a ``CountStrategy``, such as ``OptimalSelection``.
      noisy_counts, intervals, public_partitions, public_threshold, context, secret, num_buckets:
        see ``SelectPartitions``.

    Raises:
      ValueError: an argument is out of range, see ``SelectPartitions``; the bound of the counts is
        not known, or is larger than the strategy's; or the counts are a Flatten of several
        collections, in which a partition may occur twice.

    >>> from dp_transforms import DeclareBounded
    >>> from dp_transforms.mechanisms.selection import OptimalSelection
    >>> with beam.Pipeline() as pipeline:
    ...     given = pipeline | beam.Create([("jazz", 40), ("rock", 1)])
    ...     counts = given | DeclareBounded(1, counted=True)
    ...     _ = counts | SelectFromCounts(OptimalSelection(1, 1e-9)) | beam.Map(print)
    jazz
    """

    def __init__(
        self,
        strategy: SelectionStrategy,
        *,
        noisy_counts: bool = False,
        intervals: bool = False,
        public_partitions: Iterable[Any] | None = None,
        public_threshold: int | None = None,
        context: str = "selection",
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
    ):
        super().__init__()
        self._spec = NamesSpec(
            strategy,
            noisy_counts=noisy_counts,
            intervals=intervals,
            public_partitions=_public_names(public_partitions),
            public_threshold=public_threshold,
            context=context,
        )
        self._spec.require_counts()
        self._secret = secret
        self._num_buckets = num_buckets

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        spec = self._spec
        refuse_windows(counts)
        known_bound(counts, spec.strategy.max_partitions_per_user, "SelectFromCounts")
        bound = bound_of(counts)
        if bound.distinct is False:
            # If a partition had two counts, both decisions would use the same random number.
            raise ValueError(
                "SelectFromCounts takes one count of each partition, which one user changes by at "
                "most one: flatten records before they are counted, not counts"
            )
        # Counts with one row for each partition have a largest count only if they were capped.
        cap = bound.largest_count
        if cap is not None and (spec.cap is None or cap < spec.cap):
            needed = "counts in full" if spec.cap is None else f"counts up to {spec.cap}"
            raise ValueError(
                f"SelectFromCounts needs {needed} here, but these were capped at {cap}: "
                "leave cap out of CountDistinctUsers"
            )
        if bound.unit is not PrivacyUnit.USER:
            raise ValueError(
                f"SelectFromCounts protects users, but these counts are bounded for each "
                f"{bound.unit.value}: count the users of records that are bounded by user"
            )
        secret = secret_for(counts.pipeline, self._secret)
        secret.claim(counts, f"{spec.context} by {identifier(spec.strategy)}")
        like_names = (PARTITION, COUNT)
        _check_declared_type(counts, spec, like_names)
        tables = counts | "ToTables" >> ToTables((PARTITION, COUNT))
        selected = _selected_by_counts(tables, spec, secret, self._num_buckets)
        return selected | "FromTables" >> FromTables(
            counts, selection_kernels.columns_of(spec), like_names
        )

    def display_data(self) -> dict[str, Any]:
        return displayed(self._spec.strategy)


def _public_names(given: Iterable[Any] | None) -> pa.Array | None:
    """Returns a column of public names, or None if none are given."""
    if given is None:
        return None
    return columns.plain(public_column(given), "public_partitions")


def _check_declared_type(
    records: beam.PCollection, spec: NamesSpec, names: Sequence[str] = (USER, PARTITION)
) -> None:
    """Raises a TypeError if public names have another type than the one that is declared for
    partitions. If none is declared, the types are compared at run time.

    Args:
      records: records or counts.
      names: the names of the parts of tuples.
    """
    if spec.public_partitions is None:
        return
    kind = spec.public_partitions.type
    declared = field_types(records.element_type, names).get(PARTITION)
    if declared in _ARROW_TYPES and _ARROW_TYPES[declared] != kind:
        raise TypeError(
            f"public_partitions are of the type {kind}, but partitions are declared as "
            f"{declared.__name__}: give names of this type"
        )


def _selected_by_counts(
    tables: beam.PCollection, spec: NamesSpec, secret: JobSecret, num_buckets: int | None
) -> beam.PCollection:
    """Returns tables of the selected names, in order: takes tables of counts, one for each
    partition."""
    side_inputs = {}
    if spec.public_distribution is not None:
        public = tables.pipeline | "Public" >> beam.Create(
            [selection_kernels.public_counts(spec)], reshuffle=False
        ).with_output_types(pa.Table)
        side_inputs["public_names"] = beam.pvalue.AsList(public)
        # Public partitions without users have counts too.
        both = (tables, public) | beam.Flatten()
        tables = both | "ByPartition" >> add_counts(secret, num_buckets)
    return (
        tables
        | "Decide"
        >> shuffle.on_threads(selection_kernels.decision_function(spec, secret), **side_inputs)
        | "InOrder" >> shuffle.in_order(PARTITION, secret.key(ORDER_OF_PARTITIONS))
    )


def _other_users(
    tables: beam.PCollection,
    named: beam.PCollection,
    spec: NamesSpec,
    secret: JobSecret,
    num_buckets: int | None,
) -> beam.PCollection:
    """Returns one integer, at least 0: the noisy number of users with a partition that was not
    named. Takes tables of records.

    Privacy. Let the names be given: another release chose them and paid for them. Whether a user
    has a partition without a name does not depend on other users. So adding or removing all records
    of one user, or exchanging them for another user's, changes the number of such users by at most
    one, however many partitions the user has. With discrete Laplace noise of scale 1 / epsilon the
    number is epsilon-differentially private given the names. By adaptive composition it costs
    epsilon in addition to the names.
    """
    noisy = functools.partial(other_users.noisy_users, spec=spec, secret=secret)
    by_user = shuffle.ReduceByHash(
        counting.distinct_users, (USER,), secret.key(route_by(USER)), num_buckets
    )
    others = shuffle.on_threads(other_users.users_of_others, named=beam.pvalue.AsList(named))
    return (
        tables
        | "Others" >> others
        | "ByOtherUser" >> by_user
        | "OtherUsers" >> beam.Map(lambda users: users.num_rows).with_output_types(int)
        | "Total" >> beam.CombineGlobally(sum)
        | "Noise" >> beam.Map(noisy).with_output_types(int)
    )


def displayed(strategy: SelectionStrategy) -> dict[str, Any]:
    """Returns a strategy's parameters as strings and numbers, for display data."""
    return {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in strategy.describe().items()
    }
