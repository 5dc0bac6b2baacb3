"""Makes releases from records of this process, or of files, without a pipeline.

Under one secret, a function, transform and command give the same release, since they share kernels
and keys. Arguments are checked, and a session's budget is spent, before a record is used.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget, PrivacyUnit, Request
from dp_transforms.budget.entry import NO_BUDGET, BudgetEntry
from dp_transforms.engines.base import Collections
from dp_transforms.engines.in_process import InProcess, enough_memory
from dp_transforms.errors import hiding_originals
from dp_transforms.files.filenames import COUNTS, period_names
from dp_transforms.files.frame_records import Names, listed_names, records_of
from dp_transforms.frames.graphs import edges_of_graph
from dp_transforms.frames.payer import Payer
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees
from dp_transforms.releases import (
    AllRecordsRelease,
    AllRecordsSpec,
    Attribute,
    AttributeReleases,
    AttributesSpec,
    DegreesSpec,
    GroupReleases,
    GroupsSpec,
    HierarchySpec,
    ListAndNamesSpec,
    ListRelease,
    ListSpec,
    NamesRelease,
    NamesSpec,
    NodeDegreesSpec,
    PeriodListsSpec,
    Releases,
    ReleaseSpec,
    UserDegreesSpec,
)
from dp_transforms.releases.base import time_entry
from dp_transforms.releases.names_files import names_table, statement_with_types
from dp_transforms.releases.node_degrees import ProjectedList
from dp_transforms.runtime.job_secret import JobSecret, claimed, release_frequency_list
from dp_transforms.runtime.python_values import column_name, public_names, several_names

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.postprocessing.kappa_choice import KappaChoice
    from dp_transforms.postprocessing.planning import ReleasePlan


@hiding_originals
def release(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    epsilon: Number,
    max_partitions_per_user: int | None = None,
    survey: bool | Number | None = None,
    largest_degree: int | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many users partitions have, without naming the partitions.

    It is epsilon-DP, with delta = 0, for adding or removing all records of one user.

    Args:
      data: an object with ``__arrow_c_stream__``, such as a frame of pandas (2.2 or later) or
        polars, a relation of DuckDB or a table of pyarrow; a dictionary of columns; an iterable of
        dictionaries, or of tuples whose columns are positions from 0; or the path of a file.
      user: the column that identifies the user of a record.
      partition: the column, or columns, by which users are counted.
      epsilon: the privacy loss of the release; positive.
      max_partitions_per_user: kappa, the most partitions in which one user counts. For a user with
        more, a random choice of kappa is kept. By default a part of epsilon buys a survey of how
        many partitions users have, kappa is chosen by it, and the answers are about all records.
        Declare it where it is known: 1, if each account has one password.
      survey: with a declared kappa, True also pays for the survey. A number between 0 and 1 is the
        survey's part of epsilon.
      largest_degree: with a survey, a public number of partitions that no user is thought to
        exceed; intervals about all records then have an upper end. It is enforced: so many
        partitions of a user, chosen at random, are all that counts.
      mechanism: see ``partition_mechanism``.
      drop_nulls: leave out records without a user or a partition, instead of refusing them.
      session: pays for the release from its budget; by default no budget is checked.
      secret: makes all random decisions of this one release; a fresh one by default.

    Returns:
      A ``ListRelease``; with a survey an ``AllRecordsRelease``.

    Raises:
      ValueError: an argument is out of range, or a column is missing or has nulls.
      TypeError: the data are of no known kind.
      BudgetExceededError: the session has too little left; nothing was read or spent.

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 1, 2, 3], "page": ["home", "news", "home", "home"]}
    >>> release = dp.release(
    ...     visits, user="who", partition="page", epsilon=100, max_partitions_per_user=2
    ... )
    >>> release.to_arrow().select(["rank", "frequency"]).to_pydict()
    {'rank': [1, 2], 'frequency': [3, 1]}
    """
    if max_partitions_per_user is None or survey:
        return _release_all_records(
            epsilon,
            max_partitions_per_user,
            survey,
            largest_degree,
            mechanism,
            session,
            secret,
            (data, user, partition, drop_nulls),
        )
    if largest_degree is not None:
        raise ValueError("largest_degree goes with a survey: give survey=True, or leave it out")
    spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    ((released,),), statement = run_spec(spec, session, secret, data, user, partition, drop_nulls)
    return ListRelease(released, statement)


@hiding_originals
def release_counts(
    counts: FrequencyList | Iterable[int],
    *,
    epsilon: Number,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases counts of distinct users that were made elsewhere.

    Args:
      counts: the number of distinct users of each partition.
      epsilon, mechanism, session, secret: see ``release``, also for errors.
      max_partitions_per_user: kappa, the most partitions in which one user is counted. The
        guarantee rests on this declaration, and the statement says so; ``release`` bounds records.

    >>> import dp_transforms as dp
    >>> dp.release_counts([7, 1, 1], epsilon=1, max_partitions_per_user=3).statement[
    ...     "max_partitions_per_user_is"
    ... ]
    'declared'
    """
    spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    identity, secret = id(counts), claimed(secret, spec)
    with _charge(session, spec.requests) as entry:
        about = time_entry() | entry.statement
        if not isinstance(counts, FrequencyList):
            try:
                counts = FrequencyList.from_counts(counts)
            except (TypeError, ValueError):
                # The original message may show a count.
                raise ValueError(
                    "counts must be integers from 1 with a total below 2**63, and no mapping"
                ) from None
        released = release_frequency_list(counts, spec.mechanism, secret)
    if session is not None:
        session.note_release(spec, "counts", identity)
    return ListRelease(released, spec.statement(None, bounded_by_job=False) | about)


@hiding_originals
def select(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    epsilon: Number,
    delta: Number,
    max_partitions_per_user: int | None = None,
    counts: bool = False,
    strategy: str = AUTO,
    pre_threshold: int = 1,
    public_partitions: Iterable[Any] | None = None,
    public_threshold: int | None = None,
    others_share: Number | None = None,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> NamesRelease:
    """Selects the partitions that may be named.

    It is (epsilon, delta)-DP for adding or removing all records of one user.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      epsilon, delta: the cost of the selection; take a delta far below 1 / number of users.
      max_partitions_per_user: kappa, the most partitions in which one user counts at once. By
        default a small private look at the data chooses it, and how names are found.
      counts: also release noisy numbers of users, with intervals. Names and counts cost epsilon and
        delta together: with counts there are fewer names, but at least about three quarters.
      strategy: see ``mechanisms.selection.make_strategy``.
      pre_threshold: never name a partition with fewer users than this.
      public_partitions: names that are public anyway, of the type of the column; tuples for several
        columns. With ``counts`` each of them is in the release, also without users.
      public_threshold: name public partitions whose noisy count exceeds this number alone; 0 by
        default without ``counts``.
      others_share: also release about how many users have partitions that are not named, for this
        part of epsilon: ``users_of_other_partitions`` in the statement.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> dp.select(
    ...     visits, user="who", partition="page", epsilon=1, delta=1e-9, max_partitions_per_user=1
    ... ).to_arrow().to_pydict()
    {'page': ['home']}
    """
    public: Any = ()
    if public_partitions is not None:
        public = public_names(public_partitions, several_names(partition))
    spec = NamesSpec.of_whole(
        strategy_name(strategy),
        epsilon,
        delta,
        max_partitions_per_user,
        others_share,
        pre_threshold=pre_threshold,
        noisy_counts=counts,
        intervals=counts,
        public_partitions=public,
        public_threshold=public_threshold,
    )
    check_count_columns(counts, partition)
    (selected, *others), statement = run_spec(
        spec, session, secret, data, user, partition, drop_nulls
    )
    for entries in itertools.chain(*others):
        statement |= entries
    return names_release(selected, statement)


def names_release(selected: Sequence[pa.Table], statement: dict[str, Any]) -> NamesRelease:
    """Returns the names that an engine has selected, and their statement, as a release."""
    names = names_table(selected, statement)
    return NamesRelease(names, statement_with_types(names, statement))


def strategy_name(strategy: object) -> str:
    """Returns the name of a strategy, or raises a TypeError."""
    if not isinstance(strategy, str):
        raise TypeError(f"strategy must be a name, got {type(strategy).__name__}")
    return strategy


def check_count_columns(counts: bool, partition: Names) -> None:
    """Raises a ValueError if a column of partitions has the name of one that counts add."""
    added = {*COUNTS} & {*map(str, several_names(partition))}
    if counts and added:
        raise ValueError(f"counts adds a column {min(added)!r}: rename that of the partitions")


def _release_all_records(
    epsilon: Number,
    max_partitions_per_user: int | None,
    survey: bool | Number | None,
    largest_degree: int | None,
    mechanism: str,
    session: Payer | None,
    secret: JobSecret | None,
    records: tuple[Any, ...],
) -> AllRecordsRelease:
    if survey is False:
        raise ValueError("survey=False goes with max_partitions_per_user, which is not given")
    spec = AllRecordsSpec(
        epsilon=epsilon,
        max_partitions_per_user=max_partitions_per_user,
        survey_share=None if survey is True else survey,
        mechanism=mechanism,
        largest_degree=largest_degree,
    )
    ((surveyed,),), statement = run_spec(spec, session, secret, *records)
    return AllRecordsRelease.of(surveyed, statement | surveyed.entries)


def _list_spec(epsilon: Number, max_partitions_per_user: int, mechanism: str) -> ListSpec:
    max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)
    return ListSpec(partition_mechanism(epsilon, max_partitions, mechanism))


def run_spec(
    spec: ReleaseSpec,
    session: Payer | None,
    secret: JobSecret | None,
    *records: Any,
    given: Any = None,
) -> tuple[Collections, dict[str, Any]]:
    """Makes a release from the arguments of ``records_of``; returns the engine's collections and
    the statement. ``given`` is what the caller gave, if the records were taken out of it."""
    collections, columns, about = collect(spec, session, secret, *records, given=given)
    return collections, spec.statement(columns) | about


def collect(
    spec: ReleaseSpec | ListAndNamesSpec,
    session: Payer | None,
    secret: JobSecret | None,
    *records: Any,
    given: Any = None,
) -> tuple[Collections, list[pa.Field], dict[str, Any]]:
    """Makes a release as ``run_spec``; returns the engine's collections, the columns of partitions,
    and what statements say of the time and the budget."""
    with enough_memory(), _charge(session, spec.requests) as entry:
        source = records_of(*records)
        if isinstance(spec, GroupsSpec):
            source.check_groups([attribute.groups or () for attribute in spec.attributes])
        if isinstance(spec, HierarchySpec):
            source.check_groups(spec.names_of_columns)
        about = time_entry() | entry.statement
        engine = InProcess(source, claimed(secret, source))
        collections = spec.release(engine)
    if session is not None:
        data, *arguments = records
        data = data if given is None else given
        session.note_release(spec, repr(arguments), data if isinstance(data, str) else id(data))
    return collections, source.partition_fields, about


def _charge(
    session: Payer | None, requests: Sequence[Request]
) -> contextlib.AbstractContextManager[BudgetEntry]:
    """Returns a context that spends a session's budget; refuses now to spend more than is left."""
    if session is None:
        return contextlib.nullcontext(NO_BUDGET)
    # Of the type: a data frame has attributes by the names of its columns.
    if not hasattr(type(session), "spending"):
        raise TypeError(
            "session must be a Session, such as Session.open(PATH) of a ledger, got "
            f"{type(session).__name__}"
        )
    session.check(requests)
    return session.spending(requests)


def callers_level() -> int:
    """Returns the ``stacklevel`` by which a warning of the calling function names the line that
    called this package."""
    level, frame = 0, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_CALLERS:
        level, frame = level + 1, frame.f_back
    return level


_NOT_CALLERS = ("dp_transforms", "contextlib")


@hiding_originals
def release_by_period(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    time: str,
    period: str,
    periods: str,
    epsilon: Number,
    max_periods_per_user: int,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> Releases:
    """Releases a list for each hour, day, week or month; all of them together are epsilon-DP.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      time: the column of dates, timestamps, or text such as 2026-01-31 23:59. Timestamps of a time
        zone count in UTC, text as it is written.
      period: "hour", "day", "week" or "month".
      periods: the first and the last day, as "2026-01-01..2026-01-31". Public: choose them without
        looking at the records. Records of other days are left out: a first or last week, or month,
        has only those of its days that are given.
      epsilon: the cost of all lists together; each costs epsilon / max_periods_per_user.
      max_periods_per_user: the most periods in which one user counts, chosen at random.
      max_partitions_per_user: the most partitions in which one user counts in each period.

    Returns:
      A mapping from the name of every period, even one without records, to its ``ListRelease``.

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 2, 1], "page": ["a", "a", "b"], "when": ["2026-01-01"] * 3}
    >>> days = dp.release_by_period(
    ...     visits, user="who", partition="page", time="when", period="day",
    ...     periods="2026-01-01..2026-01-02", epsilon=200, max_periods_per_user=2,
    ...     max_partitions_per_user=2,
    ... )
    >>> {day: list(one.released) for day, one in days.items()}
    {'2026-01-01': [(2, 1), (1, 1)], '2026-01-02': []}
    """
    spec = PeriodListsSpec(
        periods=period_names(period, periods),
        epsilon=epsilon,
        max_periods_per_user=max_periods_per_user,
        max_partitions_per_user=max_partitions_per_user,
        mechanism=mechanism,
        kind=period,
        span=periods,
    )
    (lists,), statement = run_spec(
        spec, session, secret, data, user, partition, drop_nulls, [time], period, periods
    )
    return Releases(
        {name: ListRelease(one, statement | {"period": name}) for name, one in lists}, period
    )


@hiding_originals
def release_groups(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    groups: Mapping[str, Sequence[str] | None],
    epsilon_all: Number,
    epsilon_groups: Number,
    max_partitions_per_user: int,
    epsilon_selection: Number | None = None,
    delta: Number | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> GroupReleases:
    """Releases the list of all users and that of each group of users, under one budget.

    Neighbours add or remove all records of one user; ``transforms.grouped`` has the proof.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      groups: maps each column of groups, such as "gender", to its public values, each of which gets
        a list, or to None if the values are to be selected.
      epsilon_all: the cost of the list of all users.
      epsilon_groups: the cost of all groups; each column gets an equal part.
      max_partitions_per_user: kappa, in all lists.
      epsilon_selection, delta: the cost of selecting names, for columns with None.

    Returns:
      A mapping from (column, value) to a ``ListRelease``; all users are at ("", "").

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 2, 3], "page": ["a", "a", "b"], "sex": ["f", "m", "m"]}
    >>> lists = dp.release_groups(
    ...     visits, user="who", partition="page", groups={"sex": ["f", "m"]}, epsilon_all=100,
    ...     epsilon_groups=100, max_partitions_per_user=1,
    ... )
    >>> list(lists["", ""].released), list(lists["sex", "m"].released)
    ([(2, 1), (1, 1)], [(1, 2)])
    """
    if not isinstance(groups, Mapping):
        raise TypeError("groups must map columns to their values, such as {'sex': ['f', 'm']}")
    for name in groups:
        column_name("groups", name)
    selection = None
    if epsilon_selection is not None and delta is not None:
        selection = PrivacyBudget(epsilon_selection, delta)
    selects = any(values is None for values in groups.values())
    if {epsilon_selection is not None, delta is not None} != {selects}:
        raise ValueError("epsilon_selection and delta go with None as the groups of a column")
    spec = GroupsSpec(
        attributes=[
            Attribute(
                str(name),
                values
                if isinstance(values, str) or not isinstance(values, Iterable)
                else tuple(map(_group_name, values)),
            )
            for name, values in groups.items()
        ],
        epsilon_all=epsilon_all,
        epsilon_groups=epsilon_groups,
        max_partitions_per_user=max_partitions_per_user,
        selection=selection,
        mechanism=mechanism,
    )
    (lists,), statement = run_spec(
        spec, session, secret, data, user, partition, drop_nulls, [*groups]
    )
    return GroupReleases({(attribute, group): one for attribute, group, one in lists}, statement)


@hiding_originals
def release_attributes(
    data: Any,
    user: str | int,
    *,
    attributes: Sequence[str | int | Sequence[str | int]],
    epsilon: Number,
    shares: Mapping[Any, Number] | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> AttributeReleases:
    """Releases how users are distributed over the values of each attribute, without the values.

    All lists together are epsilon-DP for adding or removing all records of one user;
    ``releases.attributes`` has the proof. A user counts for each attribute with one value, chosen
    at random if the records of the user have several. A null or an empty text is no value: replace
    it, for example by "none", if users without a value are to count as equal.

    Args:
      data, user, mechanism, drop_nulls, session, secret: see ``release``, also for errors.
      attributes: for each list a column of text, integers, booleans or dates; or a tuple of
        several, whose combinations are its values.
      epsilon: the cost of all lists together.
      shares: maps attributes to their shares of epsilon, relative to one another; an attribute that
        it leaves out has the share 1. Public: choose them without looking at the data.

    Returns:
      A mapping from each attribute, as it was given, to a ``ListRelease``.

    >>> import dp_transforms as dp
    >>> browsers = {"id": [1, 2, 3], "os": ["linux", "linux", "bsd"], "font": ["a", "b", None]}
    >>> lists = dp.release_attributes(
    ...     browsers, user="id", attributes=["os", "font", ("os", "font")], epsilon=300
    ... )
    >>> list(lists["os"].released), list(lists["os", "font"].released)
    ([(2, 1), (1, 1)], [(1, 2)])
    >>> lists["os"].unique_users().value
    1
    """
    if isinstance(attributes, (str, bytes)) or not isinstance(attributes, Sequence):
        raise TypeError("attributes must be a list of columns, such as ['os', ('os', 'fonts')]")
    if not isinstance(shares, Mapping | None):
        raise TypeError("shares must map attributes to numbers, such as {'fonts': 2}")
    spec = AttributesSpec(
        attributes=[_attribute(one) for one in attributes],
        epsilon=epsilon,
        shares=shares and {_attribute(one): share for one, share in shares.items()},
        mechanism=mechanism,
    )
    with listed_names("attributes", spec.columns):
        (lists,), statement = run_spec(
            spec, session, secret, data, user, (), drop_nulls, [*spec.columns]
        )
    return AttributeReleases(dict(lists), statement)


def _attribute(given: Any) -> str | tuple[str, ...]:
    """Returns an attribute with its columns as text."""
    if isinstance(given, (list, tuple)):
        return tuple(str(column_name("attributes", name)) for name in given)
    return str(column_name("attributes", given))


def _group_name(value: Any) -> Any:
    """Returns the text that a value of a column of groups has in records."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None else str(value)


@hiding_originals
def degrees(
    edges: Any,
    source: str | int = 0,
    target: str | int = 1,
    *,
    epsilon: Number,
    degree: str = "undirected",
    privacy_unit: str | None = None,
    degree_bound: int | None = None,
    nodes: int | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many nodes of a graph have each degree.

    It is epsilon-DP for adding or removing an edge, or a node with all its edges.

    Args:
      edges: a graph of networkx or igraph, or data as ``release`` takes them, with a record for
        each edge.
      source, target: the columns of an edge's two ends; by default the first two positions. Graphs
        have none.
      epsilon: the cost of the release.
      degree: "undirected", "in" or "out".
      privacy_unit: "edge" or "node"; by default "edge", or "node" with a ``degree_bound``.
      degree_bound: the most edges that are kept at a node; further ones are dropped. Public: choose
        it without looking at the graph. By default, if nodes are protected, it is chosen from the
        graph at a tenth of epsilon.
      nodes: the number of nodes, if it is public and edges are protected. A warning says if the
        release shows that there are more.
      mechanism, drop_nulls, session, secret: see ``release``, also for errors. The session's unit
        is "edge" or "node".

    >>> import dp_transforms as dp
    >>> edges = [("hub", leaf) for leaf in "abcd"]
    >>> list(dp.degrees(edges, epsilon=150).released)
    [(4, 1), (1, 4)]
    """
    units = (PrivacyUnit.EDGE.value, PrivacyUnit.NODE.value)
    if privacy_unit is not None and privacy_unit not in units:
        raise ValueError(f"privacy_unit must be edge or node, got {shown(privacy_unit)}")
    if privacy_unit == PrivacyUnit.EDGE.value and degree_bound is not None:
        raise ValueError("degree_bound protects nodes: leave it out, or privacy_unit")
    chooses_bound = privacy_unit == PrivacyUnit.NODE.value and degree_bound is None
    if chooses_bound and nodes is not None:
        raise ValueError("nodes is for the privacy of edges: a node more changes their number")
    spec: DegreesSpec | NodeDegreesSpec
    if chooses_bound:
        spec = NodeDegreesSpec(epsilon, degree, mechanism)
    else:
        spec = DegreesSpec(epsilon, degree, degree_bound, nodes, mechanism)
    records = edges_of_graph(edges, degree)
    if records is not None and (source, target) != (0, 1):
        raise ValueError("source and target are columns of records, and a graph has none")
    arguments = (edges if records is None else records, source, target, drop_nulls)
    ((element,),), statement = run_spec(spec, session, secret, *arguments, given=edges)
    if isinstance(element, ProjectedList):
        return ListRelease(element.released, statement | element.entries)
    release = ListRelease(element, statement)
    if nodes is not None and release.contradiction:
        warnings.warn(release.contradiction, stacklevel=callers_level())
    return release


@hiding_originals
def choose_kappa(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    epsilon: Number,
    for_epsilon: Number,
    for_delta: Number | None = None,
    max_degree: int = MAX_DEGREE,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> KappaChoice:
    """Compares values of ``max_partitions_per_user`` for a later release.

    It releases how many partitions users have, which is epsilon-DP and adds to the later cost.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      epsilon: the cost of this comparison; a tenth of ``for_epsilon`` is usually enough.
      for_epsilon: the epsilon of the later release.
      for_delta: the delta of a later selection of names; by default a list follows.
      max_degree: the largest value to try; a user with more partitions counts as having so many.
        With few users noise among large values passes for users. Public: choose it without looking
        at the data.

    Returns:
      A choice whose ``recommended`` is the best value.

    Raises:
      ValueError: also if the noisy numbers show no user.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(2_000) for page in range(user % 4)]
    >>> dp.choose_kappa(
    ...     visits, user=0, partition=1, epsilon=1, for_epsilon=1, max_degree=8
    ... ).recommended
    3
    """
    from dp_transforms.postprocessing import kappa_choice

    spec = UserDegreesSpec(epsilon, max_degree)
    # A made-up user shows, before anything is spent, whether the later release has a mechanism.
    kappa_choice.choose_kappa(ReleasedDegrees((1,), (1,), 1.0), for_epsilon, for_delta)
    ((released,),), _ = run_spec(spec, session, secret, data, user, partition, drop_nulls)
    return kappa_choice.choose_kappa(released, for_epsilon, for_delta)


@hiding_originals
def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
    attributes: int = 1,
) -> tuple[ReleasePlan, ...]:
    """Predicts the errors of releases without private data; returns one plan for each epsilon.

    Args:
      epsilons: one, or several to compare.
      users: the approximate number of users, each with ``max_partitions_per_user`` partitions. The
        list is taken to follow Zipf's law; a plan's ``other_dists`` are for two other kinds.
      reference: a public list like the one to release, instead of ``users``.
      delta: of a selection of names, if one is planned too.
      max_partitions_per_user: kappa.
      attributes: the number of lists of ``release_attributes``, which share each epsilon equally;
        plans are of one of them, with its part of epsilon.

    Raises:
      ValueError: an argument is out of range, or neither or both of users and reference are given.

    >>> import dp_transforms as dp
    >>> (one,) = dp.plan(1, users=10_000)
    >>> 20 < one.expected_dist < 40
    True
    """
    from dp_transforms.postprocessing.attribute_plan import parts_of
    from dp_transforms.postprocessing.planning import plan_releases, zipf_list

    if (users is None) == (reference is None):
        raise ValueError("give either users or reference")
    if isinstance(epsilons, str) or not isinstance(epsilons, Sequence):
        epsilons = [epsilons]
    kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
    if reference is None:
        reference = zipf_list(positive_integer("users", users) * kappa)
    elif not isinstance(reference, FrequencyList):
        raise TypeError(
            "reference must be a FrequencyList, such as the attribute released of a release, got "
            f"{type(reference).__name__}"
        )
    parts = epsilons if attributes == 1 else parts_of(epsilons, attributes)
    return plan_releases(reference, parts, delta, kappa, users is not None)
