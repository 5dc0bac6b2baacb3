"""Releases frequency lists of all records, of counts made elsewhere, and of periods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from dp_transforms.errors import hiding_originals
from dp_transforms.files.filenames import period_names
from dp_transforms.files.frame_records import Names, RecordArguments
from dp_transforms.frames.payer import Payer
from dp_transforms.frames.run import charge, run_spec
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import (
    ExactNumber,
    Number,
    exact_fraction,
    positive_integer,
    positive_rational,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.releases import (
    AllRecordsSpec,
    ListRelease,
    ListSpec,
    PeriodAllRecordsSpec,
    PeriodListsSpec,
    Releases,
)
from dp_transforms.releases.base import time_entry
from dp_transforms.releases.list_and_names import list_release
from dp_transforms.releases.periods import PeriodSpec
from dp_transforms.runtime.job_secret import JobSecret, claimed, release_frequency_list


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
        exceed. Intervals about all records then have an upper end. It is enforced: if a user has
        more partitions, only this many, chosen at random, count.
      mechanism: see ``partition_mechanism``.
      drop_nulls: whether to leave out records without a user or a partition, instead of refusing
        them.
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
    positive_rational("epsilon", epsilon)
    spec: ListSpec | AllRecordsSpec
    of_survey = survey_options(max_partitions_per_user, survey, largest_degree)
    if of_survey is None:
        spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    else:
        spec = AllRecordsSpec(
            epsilon=epsilon,
            max_partitions_per_user=max_partitions_per_user,
            mechanism=mechanism,
            **of_survey,
        )
    records = RecordArguments(data, user, partition, drop_nulls)
    ((released,),), statement = run_spec(spec, session, secret, records)
    return list_release(released, statement)


def survey_options(
    max_partitions_per_user: int | None, survey: bool | Number | None, largest_degree: int | None
) -> dict[str, Any] | None:
    """Returns the ``SurveyOptions`` that these arguments give, besides kappa; None if the release
    has no survey. Raises a ValueError if arguments need a survey that the release does not have, or
    refuse the one that it needs."""
    share: ExactNumber | None = None
    is_asked_for = survey is True or max_partitions_per_user is None
    if survey is not None and not isinstance(survey, bool):
        with contextlib.suppress(ValueError):  # Its message would leave out True and False.
            share, is_asked_for = exact_fraction("survey", survey), True
        if share is None or not 0 < share < 1:
            raise ValueError(
                f"survey must be True, False, or a number between 0 and 1, got {shown(survey)}"
            )
    if max_partitions_per_user is None and survey is False:
        raise ValueError("survey=False goes with max_partitions_per_user, which is not given")
    if not is_asked_for:
        if largest_degree is not None:
            raise ValueError("largest_degree goes with a survey: give survey=True, or leave it out")
        return None
    return {"survey_share": share, "largest_degree": largest_degree}


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
    positive_rational("epsilon", epsilon)
    spec = _list_spec(epsilon, max_partitions_per_user, mechanism)
    data, secret = counts, claimed(secret, spec)
    with charge(session, spec.requests) as entry:
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
        session.note_release(data, spec, "counts")
    return ListRelease(released, spec.statement(None, bounded_by_job=False) | about)


def _list_spec(epsilon: Number, max_partitions_per_user: int | None, mechanism: str) -> ListSpec:
    """Returns the specification of a list. Raises a ValueError if kappa is None."""
    max_partitions = positive_integer("max_partitions_per_user", max_partitions_per_user)
    return ListSpec(partition_mechanism(epsilon, max_partitions, mechanism))


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
    max_partitions_per_user: int | None = None,
    survey: bool | Number | None = None,
    largest_degree: int | None = None,
    mechanism: str = AUTO,
    drop_nulls: bool = False,
    session: Payer | None = None,
    secret: JobSecret | None = None,
) -> Releases:
    """Releases a list for each hour, day, week or month; all of them together are epsilon-DP.

    Args:
      data, user, partition, mechanism, drop_nulls, session, secret: see ``release``, also for
        errors.
      max_partitions_per_user, survey, largest_degree: see ``release``; they hold for each period,
        which has a survey of its own.
      time: the column of dates, timestamps, or text such as 2026-01-31 23:59. Timestamps of a time
        zone count in UTC, text as it is written.
      period: "hour", "day", "week" or "month".
      periods: the first and the last day, such as "2026-01-01..2026-01-31". Public: choose them
        without looking at the records. Records of other days are left out, also in a first or last
        week, or month, that has other days too.
      epsilon: the cost of all lists together; each costs epsilon / max_periods_per_user.
      max_periods_per_user: the most periods in which one user counts, chosen at random. With
        surveys, answers are about all records of these periods of each user.

    Returns:
      A mapping from the name of every period, even one without records, to its ``ListRelease``;
      with surveys, to its ``AllRecordsRelease``.

    >>> import dp_transforms as dp
    >>> visits = {"who": [1, 2, 1], "page": ["a", "a", "b"], "when": ["2026-01-01"] * 3}
    >>> days = dp.release_by_period(
    ...     visits, user="who", partition="page", time="when", period="day",
    ...     periods="2026-01-01..2026-01-02", epsilon=200, max_periods_per_user=2,
    ...     max_partitions_per_user=2,
    ... )
    >>> {day: list(release.released) for day, release in days.items()}
    {'2026-01-01': [(2, 1), (1, 1)], '2026-01-02': []}
    """
    options: dict[str, Any] = {
        "periods": period_names(period, periods),
        "epsilon": epsilon,
        "max_periods_per_user": max_periods_per_user,
        "max_partitions_per_user": max_partitions_per_user,
        "mechanism": mechanism,
        "kind": period,
        "span": periods,
    }
    spec: PeriodSpec
    of_survey = survey_options(max_partitions_per_user, survey, largest_degree)
    if of_survey is None:
        spec = PeriodListsSpec(**options)
    else:
        spec = PeriodAllRecordsSpec(**options, **of_survey)
    records = RecordArguments(
        data, user, partition, drop_nulls, time=time, period=period, span=periods
    )
    (lists,), statement = run_spec(spec, session, secret, records)
    return Releases(
        {name: list_release(released, statement | {"period": name}) for name, released in lists},
        period,
    )
