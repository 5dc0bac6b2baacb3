"""Functions from records of this process, or files, to releases: no pipeline is needed.

Under one secret, function, transform and command line give the same release: by the same kernels,
and under the same keys. Arguments are checked, and a session's budget is spent, before a record is
used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms import specs
from dp_transforms.budget import PrivacyBudget, Request
from dp_transforms.files.filenames import COUNTS, period_names
from dp_transforms.files.frame_records import Names, records_of
from dp_transforms.files.partition_file import names_table
from dp_transforms.frames.answers import ListRelease, NamesRelease
from dp_transforms.frames.releases import GroupReleases, Releases
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees
from dp_transforms.reports.privacy_statement import statement_of
from dp_transforms.runtime.in_process import InProcess, enough_memory
from dp_transforms.runtime.job_secret import JobSecret, release_frequency_list

if TYPE_CHECKING:
    from dp_transforms.frames.session import Session
    from dp_transforms.postprocessing.kappa_choice import KappaChoice
    from dp_transforms.postprocessing.planning import ReleasePlan


def release(
    data: Any,
    *,
    user: str | int,
    partition: Names,
    epsilon: Number,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many users partitions have, without saying which partitions: epsilon-DP for
    adding or removing all records of one user, with delta = 0.

    Args:
      data: an object with ``__arrow_c_stream__``, such as a frame of pandas (2.2 or later) or
        polars, a relation of DuckDB or a table of pyarrow; a dictionary of columns; an iterable of
        dictionaries, or of tuples whose columns are positions from 0; or a path as jobs take it.
      user: the column that says whose a record is.
      partition: the column of what is counted, or several.
      epsilon: the privacy loss that the release costs; positive.
      max_partitions_per_user: kappa, the most partitions in which one user counts. Of a user with
        more, as many are kept at random.
      mechanism: see ``partition_mechanism``.
      drop_nulls: leave out records without a user or a partition, which are refused otherwise.
      session: spend from its budget; by default the release stands by itself.
      secret: makes all random decisions; a fresh one by default. It serves one release.

    Raises:
      ValueError: an argument is out of range, or a column is missing or has nulls.
      TypeError: the data are of no known kind.
      BudgetExceededError: the session has less left than this costs; nothing was read or spent.

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 1, 2, 3], "page": ["home", "news", "home", "home"]}
    >>> release = dp.release(
    ...     visits, user="who", partition="page", epsilon=100, max_partitions_per_user=2
    ... )
    >>> release.to_arrow().select(["rank", "frequency"]).to_pydict()
    {'rank': [1, 2], 'frequency': [3, 1]}
    """
    spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    (released,), statement = _made(spec, session, secret, data, user, partition, drop_nulls)
    return ListRelease(released, statement)


def release_counts(
    counts: FrequencyList | Iterable[int],
    *,
    epsilon: Number,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases counts that were made elsewhere, one for each partition.

    Args:
      counts: the number of distinct users of each partition.
      epsilon, mechanism, session, secret: see ``release``, also for errors.
      max_partitions_per_user: kappa, the most partitions in which one user is counted. Counts do
        not tell it: the guarantee rests on this declaration, and the statement says so. Where there
        are records, take ``release``, which bounds them.

    >>> import dp_transforms as dp
    >>> dp.release_counts([7, 1, 1], epsilon=1, max_partitions_per_user=3).statement[
    ...     "max_partitions_per_user_is"
    ... ]
    'declared'
    """
    spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    charge = _charge(session, spec.requests)
    if not isinstance(counts, FrequencyList):
        try:
            counts = FrequencyList.from_counts(counts)
        except (TypeError, ValueError):
            # The original message may show a count.
            raise ValueError(
                "counts must be integers from 1 with a total below 2**63, and no mapping"
            ) from None
    secret = _serving(secret, spec)
    with charge as told:
        released = release_frequency_list(counts, spec.mechanism, secret)
    return ListRelease(released, statement_of(spec, None, bounded_by_job=False) | told)


def select(
    data: Any,
    *,
    user: str | int,
    partition: Names,
    epsilon: Number,
    delta: Number,
    max_partitions_per_user: int,
    counts: bool = False,
    strategy: str = AUTO,
    pre_threshold: int = 1,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> NamesRelease:
    """Selects the partitions that may be named: (epsilon, delta)-DP for adding or removing all
    records of one user.

    Args:
      data, user, partition, max_partitions_per_user, drop_nulls, session, secret: see ``release``,
        also for errors.
      epsilon, delta: what the selection costs; take a delta far below 1 / number of users.
      counts: also release noisy numbers of users, with intervals, at no further cost.
      strategy: see ``mechanisms.selection.make_strategy``.
      pre_threshold: never name a partition with fewer users than this.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> dp.select(
    ...     visits, user="who", partition="page", epsilon=1, delta=1e-9, max_partitions_per_user=1
    ... ).to_arrow().to_pydict()
    {'page': ['home']}
    """
    spec = specs.NamesSpec.of(
        strategy,
        epsilon,
        delta,
        max_partitions_per_user,
        pre_threshold=pre_threshold,
        noisy_counts=counts,
        intervals=counts,
    )
    named = [partition] if isinstance(partition, (str, int)) else partition
    added = {*COUNTS} & {str(name) for name in named}
    if counts and added:
        raise ValueError(f"counts adds a column {min(added)!r}: rename that of the partitions")
    (selected, _), statement = _made(spec, session, secret, data, user, partition, drop_nulls)
    return NamesRelease(names_table(selected, statement), statement)


def _list_spec(epsilon: Number, max_partitions_per_user: int, mechanism: str) -> specs.ListSpec:
    max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)
    return specs.ListSpec(partition_mechanism(epsilon, max_partitions, mechanism))


def _made(
    spec: specs.Spec, session: Session | None, secret: JobSecret | None, *records: Any
) -> tuple[Any, dict[str, Any]]:
    """Makes a release of records as ``records_of`` takes them; returns what came out of the engine,
    and the statement."""
    charge = _charge(session, spec.requests)
    with enough_memory():
        source = records_of(*records)
        if isinstance(spec, specs.GroupsSpec):
            source.check_groups([attribute.groups or () for attribute in spec.attributes])
        engine = InProcess(source, _serving(secret, source))
        with charge as told:
            released = getattr(engine, spec.verb)(spec)
    return released, statement_of(spec, source.partition_fields) | told


def _charge(
    session: Session | None, requests: Sequence[Request]
) -> contextlib.AbstractContextManager[dict[str, Any]]:
    """Spends a session's budget on entry. More than is left is refused now: before data are looked
    at."""
    if session is None:
        return contextlib.nullcontext({})
    session.check(requests)
    return session.spending(requests)


def _serving(secret: JobSecret | None, records: Any) -> JobSecret:
    """A secret that serves these records alone."""
    secret = secret or JobSecret.from_os()
    secret.claim(records)
    return secret


def release_by_period(
    data: Any,
    *,
    user: str | int,
    partition: Names,
    time: str,
    period: str,
    periods: str,
    epsilon: Number,
    max_periods_per_user: int,
    max_partitions_per_user: int,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> Releases:
    """Releases a list for each hour, day, week or month: epsilon-DP for all of them together.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      time: the column of dates, timestamps, or text such as 2026-01-31 23:59. Timestamps of a time
        zone count in UTC, text as it is written.
      period: "hour", "day", "week" or "month".
      periods: the first and the last day, as "2026-01-01..2026-01-31". Public: choose them without
        looking at the records. Records of other days are left out.
      epsilon: what all lists cost together; each costs epsilon / max_periods_per_user.
      max_periods_per_user: the most periods in which one user counts. Of a user with more, as many
        are kept at random.
      max_partitions_per_user: the most partitions in which one user counts in each of these.

    Returns:
      A ``ListRelease`` by the name of each period, with or without records.

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
    spec = specs.PeriodListsSpec(
        periods=period_names(period, periods),
        epsilon=epsilon,
        max_periods_per_user=max_periods_per_user,
        max_partitions_per_user=max_partitions_per_user,
        mechanism=mechanism,
        kind=period,
    )
    lists, statement = _made(
        spec, session, secret, data, user, partition, drop_nulls, [time], period
    )
    return Releases(
        {name: ListRelease(one, statement | {"period": name}) for name, one in lists}, period
    )


def release_groups(
    data: Any,
    *,
    user: str | int,
    partition: Names,
    groups: Mapping[str, Sequence[str] | None],
    epsilon_all: Number,
    epsilon_groups: Number,
    max_partitions_per_user: int,
    epsilon_selection: Number | None = None,
    delta: Number | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> GroupReleases:
    """Releases the list of all users and one for each group of them, under one budget for adding or
    removing all records of one user: see ``transforms.grouped`` for the argument.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      groups: for each column by whose values users are grouped, such as "gender", the values that
        are public and get a list each; None where the values are to be selected.
      epsilon_all: what the list of all users costs.
      epsilon_groups: what all groups cost; each column gets an equal part.
      max_partitions_per_user: kappa, in all lists.
      epsilon_selection, delta: what the selection of names costs, for columns with None.

    Returns:
      A ``ListRelease`` by column and value, and that of all users by ("", "").

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 2, 3], "page": ["a", "a", "b"], "sex": ["f", "m", "m"]}
    >>> lists = dp.release_groups(
    ...     visits, user="who", partition="page", groups={"sex": ["f", "m"]}, epsilon_all=100,
    ...     epsilon_groups=100, max_partitions_per_user=1,
    ... )
    >>> list(lists["", ""].released), list(lists["sex", "m"].released)
    ([(2, 1), (1, 1)], [(1, 2)])
    """
    selection = None
    if epsilon_selection is not None and delta is not None:
        selection = PrivacyBudget(epsilon_selection, delta)
    selects = any(values is None for values in groups.values())
    if {epsilon_selection is not None, delta is not None} != {selects}:
        raise ValueError("epsilon_selection and delta go with None as the groups of a column")
    spec = specs.GroupsSpec(
        attributes=[
            specs.Attribute(
                name,
                values if values is None or isinstance(values, str) else tuple(map(str, values)),
            )
            for name, values in groups.items()
        ],
        epsilon_all=epsilon_all,
        epsilon_groups=epsilon_groups,
        max_partitions_per_user=max_partitions_per_user,
        selection=selection,
        mechanism=mechanism,
    )
    lists, statement = _made(spec, session, secret, data, user, partition, drop_nulls, [*groups])
    return GroupReleases({(attribute, group): one for attribute, group, one in lists}, statement)


def degrees(
    edges: Any,
    *,
    source: str | int,
    target: str | int,
    epsilon: Number,
    degree: str = "undirected",
    degree_bound: int | None = None,
    nodes: int | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> ListRelease:
    """Releases how many nodes of a graph have each degree: epsilon-DP for adding or removing an
    edge or, with a ``degree_bound``, a node with all its edges.

    Args:
      edges: data as ``release`` takes them, a record for each edge.
      source, target: the columns of its two ends.
      epsilon: what the release costs.
      degree: "undirected", "in" or "out".
      degree_bound: the most edges that are kept at a node; further ones are dropped. Public: choose
        it without looking at the graph.
      nodes: the number of nodes, if it is public and edges are protected.
      mechanism, drop_nulls, session, secret: see ``release``, also for errors. The session is for
        the unit "edge" or "node".

    >>> import dp_transforms as dp
    >>> edges = [("hub", leaf) for leaf in "abcd"]
    >>> list(dp.degrees(edges, source=0, target=1, epsilon=150).released)
    [(4, 1), (1, 4)]
    """
    spec = specs.DegreesSpec(epsilon, degree, degree_bound, nodes, mechanism)
    (released,), statement = _made(spec, session, secret, edges, source, target, drop_nulls)
    return ListRelease(released, statement)


def choose_kappa(
    data: Any,
    *,
    user: str | int,
    partition: Names,
    epsilon: Number,
    for_epsilon: Number,
    for_delta: Number | None = None,
    max_degree: int = MAX_DEGREE,
    drop_nulls: bool = False,
    session: Session | None = None,
    secret: JobSecret | None = None,
) -> KappaChoice:
    """Compares values of ``max_partitions_per_user`` for a release that follows, by a small release
    of how many partitions users have: epsilon-DP, and added to what follows.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      epsilon: what this release costs; a tenth of ``for_epsilon`` is plenty.
      for_epsilon: the epsilon of the release that follows.
      for_delta: the delta of a selection of names that follows; by default a list follows.
      max_degree: the largest value to try. Public: choose it without looking at the data.

    Returns:
      A choice whose ``recommended`` is the best.

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

    spec = specs.UserDegreesSpec(epsilon, max_degree)
    # Whether there is a mechanism for what follows: of one user, who is made up.
    kappa_choice.choose_kappa(ReleasedDegrees((1,), (1,), 1.0), for_epsilon, for_delta)
    (released,), _ = _made(spec, session, secret, data, user, partition, drop_nulls)
    return kappa_choice.choose_kappa(released, for_epsilon, for_delta)


def plan(
    epsilons: Number | Sequence[Number],
    *,
    users: int | None = None,
    reference: FrequencyList | None = None,
    delta: Number | None = None,
    max_partitions_per_user: int = 1,
) -> tuple[ReleasePlan, ...]:
    """Foretells the errors of releases without any private data: one plan for each epsilon.

    Args:
      epsilons: one, or several to compare.
      users: about how many there are. Each is taken to have ``max_partitions_per_user`` partitions,
        and these to follow Zipf's law; ``other_dists`` are for lists of other kinds.
      reference: a public list that is like the one to release, instead of users.
      delta: of a selection of names, if one is planned too.
      max_partitions_per_user: kappa.

    Raises:
      ValueError: an argument is out of range, or neither or both of users and reference are given.

    >>> import dp_transforms as dp
    >>> (one,) = dp.plan(1, users=10_000)
    >>> 20 < one.expected_dist < 40
    True
    """
    from dp_transforms.postprocessing.planning import plan_releases, zipf_list

    if (users is None) == (reference is None):
        raise ValueError("give either users or reference")
    if isinstance(epsilons, str) or not isinstance(epsilons, Sequence):
        epsilons = [epsilons]
    kappa = positive_integer("max_partitions_per_user", max_partitions_per_user)
    made = reference or zipf_list(positive_integer("users", users) * kappa)
    return plan_releases(made, epsilons, delta, kappa, reference is None)
