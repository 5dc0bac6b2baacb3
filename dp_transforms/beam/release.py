"""Transforms that release frequency lists of counts, and numbers of users by their partitions.

One worker draws each release.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from dp_transforms.beam.batching import ToTables, parts_of
from dp_transforms.beam.bounds import ReleaseTransform, bound_of, known_bound, refuse_bounded
from dp_transforms.beam.contributions import BoundContributions, CountDistinctUsers
from dp_transforms.beam.pipeline_secret import secret_for
from dp_transforms.beam.records import (
    RecordKind,
    check_known_fields,
    refuse_windows,
    table_from,
)
from dp_transforms.columnar import counting
from dp_transforms.columnar.columns import COUNT, PARTITION, plain_table
from dp_transforms.engines.list_kernels import NamedList, histograms
from dp_transforms.mechanisms.arguments import text
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.identifier import identifier
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import partition_mechanism, with_largest_count
from dp_transforms.mechanisms.tape_contexts import FREQUENCY_LIST, USER_DEGREES
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees
from dp_transforms.releases import UserDegreesSpec
from dp_transforms.runtime.job_secret import JobSecret, release_histogram

ON_ONE_WORKER = {"min_ram": "16GB", "max_active_bundles_per_worker": "1"}
"""The resource hints of a step that holds all data of a release."""


class ReleaseFrequencyList(ReleaseTransform, beam.PTransform):
    """Releases the sorted list of counts without the partitions; returns one ReleasedList.

    It is epsilon-differentially private, with delta = 0 unless the mechanism says otherwise.
    Neighbours add or remove all records of one user. This moves the sorted list by at most kappa in
    L1, the mechanism's sensitivity (Blocki, Datta and Bonneau, NDSS 2016). Counts are refused
    unless their kappa is known from ``BoundContributions`` or ``DeclareBounded`` (see
    ``beam.bounds``).

    One worker gets the histogram of the counts, which has at most sqrt(2 N) pairs for N records. An
    empty list is released like any other. If counts are known to be capped, or to be degrees in a
    projected graph, no frequency that is decoded from noisy coordinates exceeds the cap or the
    bound of the projection.

    Args:
      epsilon: the privacy loss of this release, positive; ``partition_mechanism`` then chooses the
        mechanism.
      max_partitions_per_user: the sensitivity. The default is the known kappa, and smaller values
        are refused.
      mechanism: instead of epsilon, a mechanism of your own making, such as one with ``eta`` or
        between bounds. Its sensitivity must be at least kappa.
      secret: see ``BoundContributions``.
      context: a name that makes the random numbers of several lists under one secret independent,
        see ``release_frequency_list``. Two lists of different counts in one context are refused.

    Raises:
      ValueError: an argument is out of range, neither or both of epsilon and mechanism are given,
        kappa is not known of the input or is too large, the input is unbounded or windowed, or the
        job is a classic template; at run time, a count is not a positive integer.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        max_partitions_per_user: int | None = None,
        *,
        mechanism: PartitionMechanism | None = None,
        secret: JobSecret | None = None,
        context: str = FREQUENCY_LIST,
    ):
        super().__init__()
        if max_partitions_per_user is not None:
            positive_integer("max_partitions_per_user", max_partitions_per_user)
        self._max_partitions = max_partitions_per_user
        if (epsilon is None) == (mechanism is None):
            raise ValueError("give either epsilon or mechanism")
        if not isinstance(mechanism, PartitionMechanism | None):
            raise TypeError(
                f"mechanism must be a PartitionMechanism, got {type(mechanism).__name__}"
            )
        self._context = text("context", context)
        self._epsilon = epsilon
        self._mechanism = mechanism
        # Making a mechanism checks the arguments now.
        self._mechanism_for(self._max_partitions or 1)
        self._secret = secret

    def expand(self, counts: beam.PCollection) -> beam.PCollection:
        refuse_windows(counts)
        max_partitions = known_bound(counts, self._max_partitions, "ReleaseFrequencyList")
        check_known_fields(counts, (COUNT,))
        secret = secret_for(counts.pipeline, self._secret)
        mechanism = self._mechanism_for(max_partitions, bound_of(counts).largest_count)
        secret.claim(counts, f"{self._context} by {identifier(mechanism)}")
        return (
            counts
            | "Histogram" >> beam.Map(_histogram, RecordKind.of(counts))
            | "Merge" >> beam.CombineGlobally(counting.add_histograms)
            | "Release"
            >> beam.Map(release_histogram, mechanism, secret, self._context)
            .with_output_types(ReleasedList)
            .with_resource_hints(**ON_ONE_WORKER)
            # Without a shuffle, later steps could be fused with this one and get its hints.
            | "Bracket" >> beam.Reshuffle()
        )

    def _mechanism_for(
        self, max_partitions: int, largest_count: int | None = None
    ) -> PartitionMechanism:
        if self._mechanism is None:
            mechanism = partition_mechanism(self._epsilon, max_partitions)
            if largest_count is None:
                return mechanism
            return with_largest_count(mechanism, largest_count)
        if self._mechanism.sensitivity < max_partitions:
            raise ValueError(
                "the mechanism's sensitivity must be at least max_partitions_per_user = "
                f"{max_partitions}, got {self._mechanism.sensitivity}"
            )
        return self._mechanism

    def display_data(self) -> dict[str, Any]:
        mechanism = self._mechanism_for(self._max_partitions or 1)
        described: dict[str, Any] = {
            "mechanism": type(mechanism).__name__,
            "epsilon": mechanism.epsilon_cost,
            "delta": mechanism.failure_probability,
        }
        if self._max_partitions is not None:
            described["max_partitions_per_user"] = self._max_partitions
        return described


class ReleaseUserDegrees(ReleaseTransform, beam.PTransform):
    """Releases the numbers of users by their numbers of partitions: takes records, returns
    ReleasedDegrees.

    It is epsilon-DP, with delta = 0, for adding or removing all records of one user.
    ``mechanisms.user_degrees`` has the argument. ``postprocessing.kappa_choice`` recommends a kappa
    from the result.

    Takes tuples (user, partition), rows, dictionaries or Arrow tables, which need not be bounded.

    Args:
      epsilon: the cost of this release. Costs of several releases add up.
      max_degree: users with more partitions count as if they had this many. Public: choose it
        without looking at the records.
      secret, num_buckets: see ``BoundContributions``.
      context: a name that makes the random numbers of several such releases under one secret
        independent, see ``ReleaseFrequencyList``.

    Raises:
      ValueError, TypeError: an argument is out of range; or as ``BoundContributions``.

    >>> with beam.Pipeline() as pipeline:
    ...     records = pipeline | beam.Create([("ann", "jazz"), ("ann", "rock"), ("bob", "jazz")])
    ...     degrees = records | ReleaseUserDegrees(epsilon=100, max_degree=3)
    ...     _ = degrees | beam.Map(lambda released: print(released.lowest, released.users))
    (1, 2, 3) (1, 1, 0)
    """

    def __init__(
        self,
        epsilon: Number,
        max_degree: int = MAX_DEGREE,
        *,
        secret: JobSecret | None = None,
        num_buckets: int | None = None,
        context: str = USER_DEGREES,
    ):
        super().__init__()
        self._mechanism = UserDegreesSpec(epsilon, max_degree).mechanism
        self._secret = secret
        self._num_buckets = num_buckets
        self._context = text("context", context)

    def expand(self, records: beam.PCollection) -> beam.PCollection:
        refuse_bounded(records, "ReleaseUserDegrees")
        secret = secret_for(records.pipeline, self._secret)
        secret.claim(records, f"{self._context} by {identifier(self._mechanism)}")
        bound = BoundContributions(
            self._mechanism.max_degree, secret=secret, num_buckets=self._num_buckets
        )
        release = functools.partial(
            self._mechanism.release_under, tape_of=secret.tape, context=self._context
        )
        # Each user's pairs are all in one bounded table.
        return (
            records
            | "ToTables" >> ToTables()
            | "Bound" >> bound
            | "Degrees" >> beam.Map(counting.user_degrees)
            | "Merge" >> beam.CombineGlobally(counting.add_histograms)
            | "Release" >> beam.Map(release).with_output_types(ReleasedDegrees)
        )

    def display_data(self) -> dict[str, Any]:
        return {"epsilon": self._mechanism.epsilon_cost, "max_degree": self._mechanism.max_degree}


def release_named_lists(
    pairs: beam.PCollection,
    public: Iterable[str],
    selected: beam.PCollection | None,
    of_name: Callable[[str], NamedList],
    kind: Any,
    secret: JobSecret,
    num_buckets: int | None,
) -> beam.PCollection:
    """Releases a list for each wanted name; returns tuples (*label, ReleasedList) in order.

    A wanted name that no pair has gets an empty list, which is released like any other.

    Args:
      pairs: tables of distinct pairs, from ``list_kernels.listed``.
      public: wanted names that are public.
      selected: tables of partitions, which are the wanted names that another step has selected.
      of_name: returns the place, the label, the mechanism and the context of the list of a name.
      kind: the type of the tuples to return.
      secret, num_buckets: see ``BoundContributions``.
    """
    public = list(public)
    for named_list in map(of_name, public):
        secret.claim(pairs, f"{named_list.context} by {identifier(named_list.mechanism)}")
    release = functools.partial(_release_wanted, of_name=of_name, secret=secret)
    released = (
        {
            "histograms": histograms_of_lists(pairs, secret, num_buckets),
            "wanted": wanted_names(pairs.pipeline, public, selected),
        }
        | "OfWanted" >> beam.CoGroupByKey()
        | "Release" >> beam.FlatMap(release).with_resource_hints(**ON_ONE_WORKER)
    )
    return in_order(released, kind)


def wanted_names(
    pipeline: beam.Pipeline, public: Iterable[str], selected: beam.PCollection | None
) -> beam.PCollection:
    """Returns (name, None) of each wanted name: see ``release_named_lists``."""
    names = [pipeline | "Public" >> beam.Create(public, reshuffle=False)]
    if selected is not None:
        of_table = beam.FlatMap(lambda table: table[PARTITION].to_pylist())
        names.append(selected | "Selected" >> of_table)
    return names | "Names" >> beam.Flatten() | "Wanted" >> beam.Map(lambda name: (name, None))


def histograms_of_lists(
    pairs: beam.PCollection, secret: JobSecret, num_buckets: int | None
) -> beam.PCollection:
    """Returns (list, {count: number of partitions}) of each list that has pairs."""
    count = CountDistinctUsers(already_distinct=True, secret=secret, num_buckets=num_buckets)
    return (
        pairs
        | "Count" >> count
        | "Histograms" >> beam.FlatMap(histograms)
        | "Merge" >> beam.CombinePerKey(counting.add_histograms)
    )


def in_order(released: beam.PCollection, kind: Any) -> beam.PCollection:
    """Returns elements, of the type ``kind``, in the order of their places, from pairs of a place
    and an element. So the order of lists does not depend on that of the records."""
    return (
        released
        # As this needs a shuffle, later steps are not fused with the one before and do not get its
        # hints.
        | "Gather" >> beam.combiners.ToList()
        | "InOrder" >> beam.FlatMap(_in_order).with_output_types(kind)
    )


def _release_wanted(
    element: tuple[str, Mapping[str, Iterable[Any]]],
    of_name: Callable[[str], NamedList],
    secret: JobSecret,
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    name, parts = element
    histogram: dict[int, int] = next(iter(parts["histograms"]), {})
    for _ in parts["wanted"]:
        place, label, mechanism, context = of_name(name)
        yield place, (*label, release_histogram(histogram, mechanism, secret, context))


def _in_order(lists: list[tuple[Any, tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    return (labelled for _, labelled in sorted(lists, key=operator.itemgetter(0)))


def _histogram(counts: Any, kind: RecordKind) -> Mapping[int, int]:
    if kind is RecordKind.TABLES:
        return counting.histogram(plain_table(table_from(counts, [COUNT]), [COUNT]))
    names = (PARTITION, COUNT) if kind is RecordKind.TUPLES else (COUNT,)
    *_, (count,) = parts_of([counts], names, kind)
    return {count: 1}
