"""Selects names: of all records, in each period, or beside a list of the same records."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.errors import hiding_originals
from dp_transforms.files.filenames import period_names
from dp_transforms.files.frame_records import Names, RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import collect, run_spec
from dp_transforms.mechanisms.arguments import boolean
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.registry import AUTO
from dp_transforms.releases import (
    ListAndNames,
    ListAndNamesSpec,
    NamesRelease,
    NamesSpec,
    PeriodNamesSpec,
    Releases,
)
from dp_transforms.releases.base import Statement
from dp_transforms.releases.list_and_names import list_release
from dp_transforms.releases.names_files import (
    check_column_names,
    names_table,
    statement_with_types,
)
from dp_transforms.releases.periods import names_of_each
from dp_transforms.runtime.job_secret import JobSecret
from dp_transforms.runtime.python_values import public_names, several_names

if TYPE_CHECKING:
    import pyarrow as pa


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
        default a small private look at the data chooses it, and how names are found. It must be
        given with ``public_partitions``, and with a strategy other than "auto" and "measured".
      counts: also release noisy numbers of users, with intervals. Names and counts cost epsilon and
        delta together: with counts there are fewer names, but at least about three quarters.
      strategy: see ``mechanisms.selection.make_strategy``.
      pre_threshold: never name a partition with fewer users than this.
      public_partitions: names that are public anyway, of the type of the column; tuples for several
        columns. If data are in memory, a session is charged before another type is found to be an
        error. With ``counts``, each of the names is in the release, even without users.
      public_threshold: only public partitions whose noisy count exceeds this number are named. By
        default it is 0 without ``counts``.
      others_share: also release about how many users have partitions that are not named, for this
        part of epsilon: ``users_of_other_partitions`` in the statement.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> dp.select(
    ...     visits, user="who", partition="page", epsilon=1, delta=1e-9, max_partitions_per_user=1
    ... ).to_arrow().to_pydict()
    {'page': ['home']}
    """
    public = None
    if public_partitions is not None:
        public = public_names(public_partitions, several_names(partition))
    spec = NamesSpec.of_whole(
        strategy_name(strategy),
        epsilon,
        delta,
        max_partitions_per_user,
        others_share,
        pre_threshold=pre_threshold,
        noisy_counts=boolean("counts", counts),
        intervals=counts,
        public_partitions=public,
        public_threshold=public_threshold,
    )
    check_column_names(_columns(partition), counts)
    records = RecordArguments(data, user, partition, drop_nulls, public=public)
    (selected, *others), statement = run_spec(spec, session, secret, records)
    return names_release(selected, _with_entries(statement, others))


@hiding_originals
def select_by_period(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    time: str,
    period: str,
    periods: str,
    epsilon: Number,
    delta: Number,
    max_periods_per_user: int | None = None,
    max_partitions_per_user: int | None = None,
    counts: bool = False,
    strategy: str = AUTO,
    pre_threshold: int = 1,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> Releases:
    """Selects the partitions that may be named in each hour, day, week or month.

    All names together are (epsilon, delta)-DP for adding or removing all records of one user.

    Args:
      data, user, partition, drop_nulls, session, secret: see ``release``, also for errors.
      time, period, periods: see ``release_by_period``.
      epsilon, delta: the cost of all periods together.
      max_periods_per_user: the most periods in which one user counts, chosen at random. By default
        a user counts in all periods; this needs no ``max_partitions_per_user``.
      max_partitions_per_user: the most partitions in which one user counts in each period. By
        default a small private look at the data chooses how many of a user's partitions count in
        all periods together, and how names are found.
      counts, strategy, pre_threshold: see ``select``.

    Returns:
      A mapping from the name of every period, even one without records, to its ``NamesRelease``.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(200)), "page": ["home"] * 200, "when": ["2026-01-01"] * 200}
    >>> days = dp.select_by_period(
    ...     visits, "who", "page", time="when", period="day", periods="2026-01-01..2026-01-02",
    ...     epsilon=2, delta=1e-9, max_periods_per_user=1, max_partitions_per_user=1,
    ... )
    >>> {day: names.to_arrow()["page"].to_pylist() for day, names in days.items()}
    {'2026-01-01': ['home'], '2026-01-02': []}
    """
    spec = PeriodNamesSpec(
        periods=period_names(period, periods),
        epsilon=epsilon,
        delta=delta,
        max_periods_per_user=max_periods_per_user,
        max_partitions_per_user=max_partitions_per_user,
        kind=period,
        span=periods,
        strategy=strategy_name(strategy),
        noisy_counts=boolean("counts", counts),
        intervals=counts,
        pre_threshold=pre_threshold,
    )
    check_column_names(_columns(partition), counts, period=period)
    records = RecordArguments(
        data, user, partition, drop_nulls, time=time, period=period, span=periods
    )
    (selected, *others), statement = run_spec(spec, session, secret, records)
    statement = _with_entries(statement, others)
    return Releases(names_of_each(spec.periods, selected, statement), period)


@hiding_originals
def release_and_select(
    data: Any,
    user: str | int,
    partition: Names,
    *,
    epsilon: Number,
    delta: Number,
    max_partitions_per_user: int | None = None,
    selection_share: Number = "0.5",
    counts: bool = False,
    mechanism: str = AUTO,
    strategy: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> ListAndNames:
    """Releases a frequency list, and the names that enough users have, of the same records.

    Together they are (epsilon, delta)-DP for adding or removing all records of one user.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      max_partitions_per_user: kappa. If it is given, users are bounded once, and both releases are
        about the same bounded records. By default the list begins with a survey, as that of
        ``release``, and the names with a look, as those of ``select``. Each chooses how many
        partitions of a user count for it, and the answers are about all records.
      epsilon, delta: the cost of both; all of delta is for the selection.
      selection_share: the selection's part of epsilon, between 0 and 1; the list gets the rest.
      counts, strategy: see ``select``.

    Returns:
      A named tuple of a ``ListRelease`` and a ``NamesRelease``.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> both = dp.release_and_select(
    ...     visits, "who", "page", epsilon=100, delta=1e-9, max_partitions_per_user=1
    ... )
    >>> list(both.frequency_list.released), both.names.to_arrow()["page"].to_pylist()
    ([(99, 1), (1, 1)], ['home'])
    """
    both = ListAndNamesSpec.of(
        PrivacyBudget(epsilon, delta),
        selection_share,
        max_partitions_per_user,
        mechanism=mechanism,
        strategy=strategy_name(strategy),
        noisy_counts=boolean("counts", counts),
    )
    check_column_names(_columns(partition), counts, beside_list=True)
    records = RecordArguments(data, user, partition, drop_nulls)
    ((released,), selected, *others), columns, about = collect(both, session, secret, records)
    of_names = _with_entries(both.names.statement(columns) | about, others)
    return ListAndNames.of(
        list_release(released, both.frequency_list.statement(columns) | about),
        names_release(selected, of_names),
    )


def _with_entries(statement: Statement, others: Iterable[Iterable[Statement]]) -> Statement:
    """Returns a statement with the entries that an engine adds to it, in further collections."""
    for entries in itertools.chain(*others):
        statement = statement | entries
    return statement


def names_release(selected: Sequence[pa.Table], statement: Statement) -> NamesRelease:
    """Returns the names that an engine has selected, and their statement, as a release."""
    names = names_table(selected, statement)
    return NamesRelease(names, statement_with_types(names, statement))


def strategy_name(strategy: object) -> str:
    """Returns the name of a strategy, or raises a TypeError."""
    if not isinstance(strategy, str):
        raise TypeError(f"strategy must be a name, got {type(strategy).__name__}")
    return strategy


def _columns(partition: Names) -> list[str]:
    return [*map(str, several_names(partition))]
