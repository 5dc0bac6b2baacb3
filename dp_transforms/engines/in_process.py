"""Makes releases in one process, without Beam, whose import and runner take seconds.

The engine uses the same kernels and keys as the transforms on Beam. So its releases are equal to
theirs under the same secret.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from dp_transforms.columnar import counting
from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.bounding import Limits, bounded_again, distinct_pairs
from dp_transforms.columnar.columns import COUNT, PARTITION, USER, coded_table, decoded
from dp_transforms.columnar.scattering import Reduce
from dp_transforms.engines import (
    attribute_kernels,
    degree_kernels,
    hierarchy_kernels,
    list_kernels,
    other_users,
    round_kernels,
    selection_kernels,
    survey_kernels,
)
from dp_transforms.engines.base import Engine
from dp_transforms.engines.local_shuffle import SpillableTables, reduced
from dp_transforms.mechanisms.degree_projection import OUT
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.selection import MeasuredSelection, WeightedStrategy
from dp_transforms.mechanisms.tape_contexts import BOUND_CONTRIBUTIONS, route_by
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.releases import (
    AllRecordsSpec,
    AttributesSpec,
    DegreesSpec,
    GroupAllRecordsSpec,
    GroupsSpec,
    HierarchySpec,
    ListAndNamesSpec,
    ListSpec,
    NamesSpec,
    NodeDegreesSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
    PeriodNamesSpec,
    UserDegreesSpec,
)
from dp_transforms.releases.groups import GroupedSpec
from dp_transforms.releases.hierarchy import Path
from dp_transforms.releases.name_statements import entries_of
from dp_transforms.releases.node_degrees import ProjectedList
from dp_transforms.releases.periods import PeriodSpec
from dp_transforms.releases.surveys import SurveyedList
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list, release_histogram
from dp_transforms.threads import map_ahead

Tables = Iterable[pa.Table]


class Source(Protocol):
    """A source gives records as tables with the columns ``user``, ``partition`` and others."""

    estimated_rows: int

    @property
    def num_buckets(self) -> int:
        """Returns the number of buckets to shuffle the records into."""

    def check_ends(self) -> None:
        """Raises an InputError if users and partitions, as the ends of edges, differ in type."""

    def tables(self) -> Iterator[pa.Table]:
        """Yields the records."""


class Watch(Protocol):
    """A watch passes tables on, and may report how many rows have passed."""

    def __call__(
        self, tables: Tables, stage: str, rows: str, total: int = 0, private: bool = True
    ) -> Tables:
        """Returns the tables that it is given.

        Args:
          tables: what passes.
          stage: the stage of the job, such as "reading records".
          rows: what a row is called in reports, such as "partitions".
          total: about how many rows are expected; 0 if this is unknown.
          private: whether the number of rows is private.
        """


def _unwatched(tables: Tables, *_: object, **__: object) -> Tables:
    return tables


@contextlib.contextmanager
def enough_memory() -> Iterator[None]:
    """Returns a context in which the text of a MemoryError is replaced by advice."""
    try:
        yield
    except MemoryError:
        raise MemoryError(
            "the records need more memory than there is: give it more, or take a job on a runner "
            "of several machines, such as Flink"
        ) from None


class InProcess(Engine):
    """An engine of this process: its collections are lists.

    Args:
      source: the records.
      secret: the secret of the job, for one release.
      num_buckets: the most parts that rows are split into; by default the source's number.
      watch: sees the tables of each stage.

    Raises, in each method of ``Engine``, also:
      SpillError: there are more records than memory, and they do not fit on the disk either.
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

    def frequency_list(self, spec: ListSpec) -> tuple[list[ReleasedList]]:
        pairs = self._bounded(spec.mechanism.sensitivity)
        return ([self._list(self._counts(pairs), spec.mechanism)],)

    def all_records(self, spec: AllRecordsSpec) -> tuple[list[SurveyedList]]:
        with SpillableTables(self._bounded(spec.most_partitions)) as pairs:
            return ([self._surveyed(pairs, spec)],)

    def _surveyed(self, pairs: SpillableTables, spec: AllRecordsSpec) -> SurveyedList:
        """Releases a survey and a list from distinct pairs: of each user all, or at least
        ``spec.most_partitions``. All pairs of a user are in one table."""
        users = counting.add_histograms(map_ahead(counting.user_degrees, pairs))
        survey = spec.survey_under(users, self._secret.tape)
        # Bounding a table again by a smaller kappa keeps the same pairs as bounding the records by
        # that kappa.
        bound = functools.partial(bounded_again, at_most=survey.kappa, key=self._key_of_bound)
        kept = map_ahead(bound, pairs)
        released = self._list(self._counts(kept), spec.list_mechanism(survey))
        return spec.surveyed(survey, released)

    def names(self, spec: NamesSpec) -> tuple[list[Any], ...]:
        weighted = isinstance(spec.strategy, WeightedStrategy)
        counts_others = spec.others_epsilon is not None
        if not weighted and not spec.already_bounded and not counts_others:
            bounded = self._bounded(spec.strategy.max_partitions_per_user)
            return (self._by_counts(self._counts(bounded), spec),)
        with SpillableTables(self._distinct()) as pairs:
            selected, *entries = self._selected(pairs, spec)
            if not counts_others:
                return selected, *entries
            others = functools.partial(other_users.users_of_others, named=selected)
            users = sum(table.num_rows for table in map_ahead(others, map(decoded, pairs)))
            noisy = other_users.noisy_users(users, spec, self._secret)
            of_others = other_users.entries_of_others(noisy)
            return selected, [*itertools.chain(*entries), of_others]

    def list_and_names(self, spec: ListAndNamesSpec) -> tuple[list[Any], ...]:
        names = spec.names
        if isinstance(spec.frequency_list, AllRecordsSpec):
            # Names are from all records, and the survey counts users of very many partitions as
            # having its largest number.
            with SpillableTables(self._distinct()) as all_pairs:
                surveyed = self._surveyed(all_pairs, spec.frequency_list)
                return [surveyed], *self._selected(all_pairs, names)
        mechanism = spec.frequency_list.mechanism
        pairs = self._bounded(mechanism.sensitivity)
        if isinstance(names.strategy, WeightedStrategy):
            with SpillableTables(pairs) as bounded:
                released = self._list(self._counts(bounded), mechanism)
                return [released], *self._selected(bounded, names)
        with SpillableTables(self._counts(pairs)) as counts:
            return [self._list(counts, mechanism)], self._by_counts(counts, names)

    def lists_by_period(self, spec: PeriodListsSpec) -> tuple[list[tuple[str, ReleasedList]]]:
        histograms = self._histograms(self._in_periods(spec))
        released = []
        for period, named_list in list_kernels.lists_of_periods(spec).items():
            released.append((period, self._named(histograms[period], named_list)))
        return (released,)

    def all_records_by_period(
        self, spec: PeriodAllRecordsSpec
    ) -> tuple[list[tuple[str, SurveyedList]]]:
        lists = survey_kernels.surveys_of_periods(spec)
        with SpillableTables(self._in_periods(spec)) as pairs:
            surveyed = self._surveyed_lists(lambda: pairs, lists)
        return ([*zip(lists, surveyed, strict=True)],)

    def names_by_period(self, spec: PeriodNamesSpec) -> tuple[list[Any], ...]:
        pairs = map(distinct_pairs, self._in_periods(spec))
        selected, *entries = self._selected(pairs, spec.names)
        return [*map(list_kernels.names_of_periods, selected)], *entries

    def grouped_lists(self, spec: GroupsSpec) -> tuple[list[tuple[str, str, ReleasedList]]]:
        with SpillableTables(self._in_groups(spec)) as bounded:
            histograms = self._histograms(list_kernels.in_lists_of_tables(bounded, spec))
            wanted = self._wanted_groups(bounded, spec)
        released = []
        for name in wanted:
            named_list = list_kernels.list_of_group(name, spec)
            attribute, group = named_list.label
            released.append((attribute, group, self._named(histograms[name], named_list)))
        return (released,)

    def all_records_by_group(
        self, spec: GroupAllRecordsSpec
    ) -> tuple[list[tuple[str, str, SurveyedList]]]:
        with SpillableTables(self._in_groups(spec)) as bounded:
            wanted = self._wanted_groups(bounded, spec)
            lists = {name: survey_kernels.survey_of_group(name, spec) for name in wanted}
            in_lists = functools.partial(list_kernels.in_lists_of_tables, bounded, spec)
            surveyed = self._surveyed_lists(in_lists, lists)
        released = []
        for named, surveyed_list in zip(lists.values(), surveyed, strict=True):
            attribute, group = named.label
            released.append((attribute, group, surveyed_list))
        return (released,)

    def _in_groups(self, spec: GroupedSpec) -> Tables:
        """Returns tables with the pairs of the records that bounding keeps, and with the values of
        attributes."""
        tables = (list_kernels.attribute_table(table, spec.attributes) for table in self._records())
        columns = list_kernels.columns_of(spec)
        bound = list_kernels.bounds_of_groups(spec, self._secret)
        return self._bounding(self._reduced(tables, columns, bound))

    def _wanted_groups(self, bounded: SpillableTables, spec: GroupedSpec) -> list[str]:
        """Returns the names of all lists that are released, in the order of their labels."""
        wanted = list_kernels.public_lists(spec)
        if spec.names is not None:
            of_groups = (list_kernels.users_of_lists(table, spec) for table in bounded)
            names, *_ = self._selected(of_groups, spec.names)
            for selected in names:
                wanted += selected[PARTITION].to_pylist()
        return sorted(wanted, key=lambda name: list_kernels.label_of_group(name, spec))

    def hierarchy(self, spec: HierarchySpec) -> tuple[list[tuple[Path, ReleasedList]]]:
        tables = map(hierarchy_kernels.LeafGroups(spec), self._records())
        bound = self._bound(spec.max_partitions_per_user)
        pairs = self._bounding(self._reduced(tables, (USER, PARTITION), bound))
        histograms = self._histograms(map(decoded, pairs))
        return (hierarchy_kernels.release_histograms(histograms, spec, self._secret),)

    def attribute_lists(self, spec: AttributesSpec) -> tuple[list[tuple[str, ReleasedList]]]:
        tables = (attribute_kernels.value_table(table, spec) for table in self._records())
        columns = attribute_kernels.columns_of(spec)
        keep = attribute_kernels.one_value_rule(spec, self._secret)
        bounded = self._bounding(self._reduced(tables, columns, keep))
        in_lists = (attribute_kernels.in_attribute_lists(table, spec) for table in bounded)
        histograms = self._histograms(itertools.chain.from_iterable(in_lists))
        released = []
        for name, named_list in attribute_kernels.lists_of(spec).items():
            (label,) = named_list.label
            released.append((label, self._named(histograms[name], named_list)))
        return (released,)

    def degree_list(self, spec: DegreesSpec) -> tuple[list[ReleasedList]]:
        to = OUT if spec.degree_bound is not None else spec.degree
        pairs = self._edges(to)
        if spec.degree_bound is None:
            counts = self._watch(self._added(pairs), "counting degrees", "nodes")
            return ([self._list(counts, spec.mechanism)],)
        key = degree_kernels.order_key(self._secret)
        bounds = [spec.degree_bound]
        lists = degree_kernels.projected_degrees(pairs, bounds, spec.degree, key)
        degrees = lists[spec.degree_bound]
        return ([release_frequency_list(degrees, spec.mechanism, self._secret)],)

    def node_degrees(self, spec: NodeDegreesSpec) -> tuple[list[ProjectedList]]:
        edges = self._edges(OUT)
        return ([degree_kernels.release_node_degrees(edges, spec, self._secret)],)

    def _edges(self, degree: str) -> Tables:
        """Returns distinct pairs of a node, as the partition, and its neighbour, as the user.

        Args:
          degree: the kind of degree, which determines the neighbours: see ``counting.neighbours``.
        """
        self._source.check_ends()

        def with_neighbours(records: pa.Table) -> pa.Table:
            edges = coded_table([records], (USER, PARTITION))
            edges = edges.rename_columns([counting.SOURCE, counting.TARGET])
            return counting.neighbours(edges, degree)

        pairs = map(with_neighbours, self._records("edges"))
        return self._reduced(pairs, (USER, PARTITION), distinct_pairs)

    def user_degrees(self, spec: UserDegreesSpec) -> tuple[list[ReleasedDegrees]]:
        users = counting.add_histograms(map(counting.user_degrees, self._bounded(spec.max_degree)))
        return ([spec.mechanism.release_under(users, self._secret.tape)],)

    def _records(self, things: str = "records") -> Tables:
        """Returns the source's tables, of any Arrow types. The stage of the watch is named
        "reading" and ``things``; its rows are always called records."""
        total = self._source.estimated_rows
        return self._watch(self._source.tables(), f"reading {things}", "records", total)

    def _reduced(
        self, tables: Tables, names: tuple[str, ...], reduce: Reduce
    ) -> Iterator[pa.Table]:
        """Brings rows with equal values in the first named column into one table, and reduces each
        table: see ``local_shuffle.reduced``."""
        key = self._secret.key(route_by(names[0]))
        return reduced(tables, names, reduce, key, self._num_buckets)

    def _distinct(self) -> Tables:
        """Returns the distinct pairs of the records. All pairs of a user are in one table."""
        return self._reduced(self._records(), (USER, PARTITION), distinct_pairs)

    def _bounded(self, max_partitions: int) -> Tables:
        """Returns tables of distinct pairs of the records, with at most so many pairs of each user.
        All pairs of a user are in one table."""
        names = (USER, PARTITION)
        bound = self._bound(max_partitions, Limits())
        return self._bounding(self._reduced(self._records(), names, bound))

    def _bound(self, max_partitions: int, limits: Limits | None = None) -> Reduce:
        """Returns the function that keeps at most so many distinct pairs of each user in a
        table."""
        return functools.partial(
            distinct_pairs, at_most=max_partitions, key=self._key_of_bound, limits=limits
        )

    @property
    def _key_of_bound(self) -> bytes:
        """Returns the key of the order in which a user's pairs are kept. It is the same for every
        bound."""
        return self._secret.key(BOUND_CONTRIBUTIONS)

    def _bounding(self, pairs: Tables) -> Tables:
        """Passes on pairs that were bounded, and lets the watch see them."""
        return self._watch(pairs, "bounding contributions", "contributions kept")

    def _counts(self, pairs: Tables) -> Tables:
        """Counts the users of each partition, as ``_added``, and lets the watch see the counts."""
        return self._watch(self._added(pairs), "counting users per partition", "partitions")

    def _added(self, pairs: Tables) -> Iterator[pa.Table]:
        """Counts the users of each partition, which are its rows in distinct pairs. In the result,
        a partition has one row, and columns are plain."""
        # No user is in two of the tables, so counts of a partition add up.
        return self._reduced(
            map(counting.count_pairs, pairs), (PARTITION, COUNT), counting.sum_counts
        )

    def _in_periods(self, spec: PeriodSpec) -> Iterator[pa.Table]:
        """Returns the pairs of the records that bounding keeps, each in the list of its period."""
        tables = (list_kernels.in_known_periods(table, spec.periods) for table in self._records())
        bound = list_kernels.bounds_of_periods(spec, self._secret)
        kept = self._reduced(tables, (USER, PARTITION, LIST), bound)
        return map(list_kernels.in_periods, self._bounding(kept))

    def _selected(self, pairs: Tables, spec: NamesSpec) -> tuple[list[Any], ...]:
        """Selects names from tables of distinct pairs. A table has all pairs of its users. Returns
        tables of names and, if the strategy makes a choice, entries of the statement."""
        strategy = spec.strategy
        if not isinstance(strategy, WeightedStrategy):
            if not spec.already_bounded:
                pairs = map_ahead(self._bound(strategy.max_partitions_per_user), pairs)
            return (self._by_counts(self._counts(pairs), spec),)

        def add(tables: Tables) -> Iterator[pa.Table]:
            return self._reduced(tables, (PARTITION, counting.WEIGHT, COUNT), counting.sum_counts)

        # Every round reads the pairs again.
        with contextlib.ExitStack() as stack:
            if not isinstance(pairs, SpillableTables):
                pairs = stack.enter_context(SpillableTables(pairs))
            rounds = round_kernels.in_rounds(
                round_kernels.InMemory(pairs, add), strategy, spec.context, self._secret
            )
        columns = selection_kernels.columns_of(spec)
        named = (table.select(columns) for table in itertools.chain.from_iterable(rounds.named))
        selected = self._at_least_one(named, spec)
        if rounds.choice is None:
            return (selected,)
        assert isinstance(strategy, MeasuredSelection)
        return selected, [entries_of(rounds.choice, strategy)]

    def _by_counts(self, counts: Tables, spec: NamesSpec) -> list[pa.Table]:
        """Selects names by the numbers of users of partitions."""
        decide = selection_kernels.decision_function(spec, self._secret)
        if spec.public_distribution is not None:
            public = selection_kernels.public_counts(spec)
            decide = functools.partial(decide, public_names=[public])
            all_counts = itertools.chain(counts, [public])
            counts = self._reduced(all_counts, (PARTITION, COUNT), counting.sum_counts)
        return self._at_least_one(map_ahead(decide, map(decoded, counts)), spec)

    def _at_least_one(self, selected: Tables, spec: NamesSpec) -> list[pa.Table]:
        """Returns the tables of names. If there are none, it returns one without rows."""
        tables = list(self._watch(selected, "selecting partitions", "selected", private=False))
        if tables:
            return tables
        nothing = dict.fromkeys(selection_kernels.columns_of(spec)[1:], pa.array([], pa.int64()))
        return [pa.table({PARTITION: pa.array([], pa.string())} | nothing)]

    def _histograms(self, in_lists: Tables) -> dict[str, collections.Counter[int]]:
        """Returns {count: number of partitions} of each list, from pairs in lists. Looking up a
        list without pairs gives an empty histogram."""
        histograms: dict[str, collections.Counter[int]] = collections.defaultdict(
            collections.Counter
        )
        for counts in self._counts(in_lists):
            for name, histogram in list_kernels.histograms(counts):
                histograms[name].update(histogram)
        return histograms

    def _surveyed_lists(
        self, pairs: Callable[[], Tables], lists: Mapping[str, survey_kernels.NamedSurvey]
    ) -> list[SurveyedList]:
        """Releases a survey and a list for each name, in the order of the names.

        Args:
          pairs: returns the tables of listed pairs; it is called twice. The pairs that a user has
            in a list are in one table.
          lists: the surveys and lists, by their names.
        """
        degrees: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        for degrees_of_table in map_ahead(survey_kernels.degrees_of_lists, pairs()):
            for name, users in degrees_of_table:
                degrees[name].update(users)
        surveys = {
            name: survey_kernels.survey_of_list(degrees[name], named, self._secret)
            for name, named in lists.items()
        }
        bound = functools.partial(
            survey_kernels.bounded_by_surveys,
            kappas={name: survey.kappa for name, survey in surveys.items()},
            key=self._key_of_bound,
        )
        histograms = self._histograms(map_ahead(bound, pairs()))
        return [
            survey_kernels.surveyed_list(histograms[name], surveys[name], named, self._secret)
            for name, named in lists.items()
        ]

    def _list(self, counts: Tables, mechanism: PartitionMechanism) -> ReleasedList:
        """Releases the only list, from the numbers of users of partitions."""
        histogram = counting.add_histograms(map(counting.histogram, counts))
        return release_histogram(histogram, mechanism, self._secret)

    def _named(
        self, histogram: Mapping[int, int], named_list: list_kernels.NamedList
    ) -> ReleasedList:
        """Releases one of several lists, from its histogram."""
        return release_histogram(histogram, named_list.mechanism, self._secret, named_list.context)
