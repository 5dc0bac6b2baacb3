"""Makes releases in one process, without Beam, whose import and runner take seconds.

The engine has the kernels and keys of the transforms, so that its releases are equal to those on
Beam under the same secret.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from dp_transforms import specs
from dp_transforms.columnar import counting
from dp_transforms.columnar.bounding import Limits, distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER, coded_table, decoded
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.mechanisms.degree_projection import (
    OUT,
    UNDIRECTED,
    project_degrees,
    project_directed_degrees,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.selection import WeightedStrategy
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.runtime import named_lists, selecting
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list, release_histogram
from dp_transforms.runtime.local import Held, reduced
from dp_transforms.runtime.threads import map_ahead

Tables = Iterable[pa.Table]


class Source(Protocol):
    """A source gives records as tables with the columns ``user``, ``partition`` and others."""

    estimated_rows: int

    @property
    def num_buckets(self) -> int:
        """Returns the number of buckets to shuffle the records into."""

    def tables(self) -> Iterator[pa.Table]:
        """Yields the records."""


class Watch(Protocol):
    """A watch passes tables on, and may tell how many have passed."""

    def __call__(
        self, tables: Tables, stage: str, rows: str, total: int = 0, private: bool = True
    ) -> Tables:
        """Returns the tables of a stage, such as "reading records". ``rows`` names their rows, of
        which about ``total`` are expected, 0 if unknown; their number may be ``private``."""


def _unwatched(tables: Tables, *_: object, **__: object) -> Tables:
    return tables


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Replaces the text of a MemoryError by advice."""
    try:
        yield
    except MemoryError:
        raise MemoryError(
            "the records need more memory than there is: give it more, or take a job on a runner "
            "of several machines, such as Flink"
        ) from None


def projected_degrees(
    edges: Tables, degree_bound: int, degree: str, order_key: bytes
) -> FrequencyList:
    """Returns the degrees in the projection of a graph (see ``mechanisms.degree_projection``), from
    distinct edges, whose sources are the column ``partition``."""
    pairs = itertools.chain.from_iterable(
        zip(one[PARTITION].to_pylist(), one[USER].to_pylist(), strict=True)
        for one in map(decoded, edges)
    )
    if degree == UNDIRECTED:
        return project_degrees(pairs, degree_bound, order_key)
    return project_directed_degrees(pairs, degree_bound, order_key)[degree == OUT]


class InProcess:
    """An engine makes releases of records in this process, each by a verb.

    A verb returns the elements that the transform of the same release gives, in a list.

    Args:
      source: the records.
      secret: the job's; it serves one release.
      num_buckets: the most parts that rows are split into; by default the source's number.
      watch: is told of each stage.

    Raises, in each verb:
      ValueError, TypeError: the records cannot be used, see ``BoundContributions``.
      SpillError: records that are too many for the memory do not fit on the disk either.
    """

    def __init__(
        self,
        source: Source,
        secret: JobSecret,
        num_buckets: int | None = None,
        watch: Watch = _unwatched,
    ):
        self._source, self._secret, self._watch = source, secret, watch
        self._num_buckets = num_buckets or source.num_buckets

    def frequency_list(self, spec: specs.ListSpec) -> list[ReleasedList]:
        """Releases a list of records after bounding: see ``ReleaseFrequencyList``."""
        pairs = self._bounded(spec.mechanism.sensitivity)
        return [self._list(self._counts(pairs), spec.mechanism)]

    def names(self, spec: specs.NamesSpec) -> tuple[list[pa.Table], list[int]]:
        """Releases names and, if asked for, the number of users who have a partition that is not
        named: see ``SelectPartitions``."""
        weighted = isinstance(spec.strategy, WeightedStrategy)
        if not (weighted or spec.already_bounded or spec.others_epsilon is not None):
            pairs: Tables = self._bounded(spec.strategy.max_partitions_per_user)
            return self._by_counts(self._counts(pairs), spec), []
        # Each user's distinct pairs are all in one table.
        names = (USER, PARTITION)
        with Held(self._reduced(self._records(), names, distinct_pairs)) as held:
            found = self._selected(held, spec)
            if spec.others_epsilon is None:
                return found, []
            others = functools.partial(selecting.users_of_others, beside=found)
            users = sum(one.num_rows for one in map_ahead(others, map(decoded, held)))
            return found, [selecting.noisy_users(users, spec, self._secret)]

    def list_and_names(
        self, one: specs.ListSpec, names: specs.NamesSpec
    ) -> tuple[list[ReleasedList], list[pa.Table]]:
        """Releases a list and names from the same bounded records."""
        pairs = self._bounded(one.mechanism.sensitivity)
        if isinstance(names.strategy, WeightedStrategy):
            with Held(pairs) as held:
                released = self._list(self._counts(held), one.mechanism)
                return [released], self._selected(held, names)
        with Held(self._counts(pairs)) as counts:
            return [self._list(counts, one.mechanism)], self._by_counts(counts, names)

    def lists_by_period(self, spec: specs.PeriodListsSpec) -> list[tuple[str, ReleasedList]]:
        """Releases lists by period: see ``ReleaseListsByPeriod``."""
        found = self._histograms(self._in_periods(spec))
        lists = named_lists.lists_of_periods(spec)
        return [(name, self._named(found.get(name, {}), one)) for name, one in lists.items()]

    def names_by_period(self, spec: specs.PeriodNamesSpec) -> list[pa.Table]:
        """Releases names by period: see ``SelectPartitionsByPeriod``."""
        pairs = map(distinct_pairs, self._in_periods(spec))
        return [named_lists.names_of_periods(one) for one in self._selected(pairs, spec.names)]

    def grouped_lists(self, spec: specs.GroupsSpec) -> list[tuple[str, str, ReleasedList]]:
        """Releases lists of groups: see ``ReleaseGroupedLists``."""
        tables = (named_lists.attribute_table(one, spec.attributes) for one in self._records())
        names = named_lists.columns_of(spec)
        bound = named_lists.bounds_of_groups(spec, self._secret)
        wanted = named_lists.public_lists(spec)
        with Held(self._bounding(self._reduced(tables, names, bound))) as bounded:
            every = (named_lists.in_all_lists(one, spec) for one in bounded)
            found = self._histograms(itertools.chain.from_iterable(every))
            if spec.names is not None:
                of_groups = (named_lists.users_of_lists(one, spec) for one in bounded)
                for selected in self._selected(of_groups, spec.names):
                    wanted += selected[PARTITION].to_pylist()
        lists = sorted((named_lists.list_of_group(name, spec), name) for name in wanted)
        released = ((one.label, self._named(found.get(name, {}), one)) for one, name in lists)
        return [(attribute, group, one) for (attribute, group), one in released]

    def degree_list(self, spec: specs.DegreesSpec) -> list[ReleasedList]:
        """Releases the degrees of a graph: see ``CountDegrees`` and ``CountProjectedDegrees``."""
        ends = (
            coded_table([edge], (USER, PARTITION)).rename_columns(
                [counting.SOURCE, counting.TARGET]
            )
            for edge in self._records("edges")
        )
        to = OUT if spec.degree_bound is not None else spec.degree
        turned = (counting.neighbours(one, to) for one in ends)
        pairs = self._reduced(turned, (USER, PARTITION), distinct_pairs)
        if spec.degree_bound is None:
            counts = self._watch(self._added(pairs), "counting degrees", "nodes")
            return [self._list(counts, spec.mechanism)]
        key = self._secret.key("order of edges")
        degrees = projected_degrees(pairs, spec.degree_bound, spec.degree, key)
        return [release_frequency_list(degrees, spec.mechanism, self._secret)]

    def user_degrees(self, spec: specs.UserDegreesSpec) -> list[ReleasedDegrees]:
        """Releases how many partitions users have: see ``ReleaseUserDegrees``."""
        # Each user's pairs are all in one table.
        found = counting.add_histograms(map(counting.user_degrees, self._bounded(spec.max_degree)))
        return [spec.mechanism.release_under(found, self._secret.tape)]

    def _records(self, rows: str = "records") -> Tables:
        total = self._source.estimated_rows
        return self._watch(self._source.tables(), f"reading {rows}", "records", total)

    def _reduced(
        self, tables: Tables, names: tuple[str, ...], reduce: Reduce
    ) -> Iterator[pa.Table]:
        key = self._secret.key(f"route {names[0]}s")
        return reduced(tables, names, reduce, key, self._num_buckets)

    def _bounded(self, max_partitions: int) -> Tables:
        names = (USER, PARTITION)
        bound = self._bound(max_partitions, Limits())
        return self._bounding(self._reduced(self._records(), names, bound))

    def _bound(self, max_partitions: int, limits: Limits | None = None) -> Reduce:
        key = self._secret.key("bound contributions")
        return functools.partial(distinct_pairs, at_most=max_partitions, key=key, limits=limits)

    def _bounding(self, pairs: Tables) -> Tables:
        return self._watch(pairs, "bounding contributions", "contributions kept")

    def _counts(self, pairs: Tables) -> Tables:
        return self._watch(self._added(pairs), "counting users per partition", "partitions")

    def _added(self, pairs: Tables) -> Iterator[pa.Table]:
        # No user is in two of the tables, so counts of a partition add up.
        return self._reduced(
            map(counting.count_pairs, pairs), (PARTITION, COUNT), counting.sum_counts
        )

    def _in_periods(
        self, spec: specs.PeriodListsSpec | specs.PeriodNamesSpec
    ) -> Iterator[pa.Table]:
        tables = (named_lists.in_known_periods(one, spec.periods) for one in self._records())
        bound = named_lists.bounds_of_periods(spec, self._secret)
        kept = self._reduced(tables, (USER, PARTITION, named_lists.LIST), bound)
        return map(named_lists.in_periods, self._bounding(kept))

    def _selected(self, pairs: Tables, spec: specs.NamesSpec) -> list[pa.Table]:
        """Selects from tables of distinct pairs, each of which has all pairs of its users."""
        strategy = spec.strategy
        if not isinstance(strategy, WeightedStrategy):
            if not spec.already_bounded:
                pairs = map_ahead(self._bound(strategy.max_partitions_per_user), pairs)
            return self._by_counts(self._counts(pairs), spec)

        def add(tables: Tables) -> Iterator[pa.Table]:
            return self._reduced(tables, (PARTITION, counting.WEIGHT, COUNT), counting.sum_counts)

        with contextlib.nullcontext(pairs) if isinstance(pairs, Held) else Held(pairs) as held:
            found = selecting.in_rounds(
                selecting.InMemory(held, add), strategy, spec.context, self._secret
            )
        return self._found(itertools.chain.from_iterable(found), spec)

    def _by_counts(self, counts: Tables, spec: specs.NamesSpec) -> list[pa.Table]:
        decide = selecting.decider(spec, self._secret)
        if spec.public_distribution is not None:
            public = selecting.public_counts(spec)
            decide = functools.partial(decide, beside=[public])
            every = itertools.chain(counts, [public])
            counts = self._reduced(every, (PARTITION, COUNT), counting.sum_counts)
        return self._found(map_ahead(decide, map(decoded, counts)), spec)

    def _found(self, selected: Tables, spec: specs.NamesSpec) -> list[pa.Table]:
        """Returns the tables of names, at least one, which may be empty."""
        found = list(self._watch(selected, "selecting partitions", "selected", private=False))
        if found:
            return found
        nothing = dict.fromkeys(selecting.columns_of(spec)[1:], pa.array([], pa.int64()))
        return [pa.table({PARTITION: pa.array([], pa.string())} | nothing)]

    def _histograms(self, in_lists: Tables) -> dict[str, collections.Counter[int]]:
        found: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        for counts in self._counts(in_lists):
            for name, one in named_lists.histograms(counts):
                found[name].update(one)
        return found

    def _list(self, counts: Tables, mechanism: PartitionMechanism) -> ReleasedList:
        found = counting.add_histograms(map(counting.histogram, counts))
        return release_histogram(found, mechanism, self._secret)

    def _named(self, counts: Mapping[int, int], one: named_lists.NamedList) -> ReleasedList:
        return release_histogram(counts, one.mechanism, self._secret, one.context)
