"""Releases a list, or names, for each hour, day, week or month, under one budget."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.errors import InputError
from dp_transforms.files.filenames import (
    ALL_PERIODS_FILE,
    ALL_RECORDS_FILE,
    FREQUENCIES_FILE,
    MOST_PERIODS,
    PARTITIONS_FILE,
    PRIVACY_FILE,
    period_names,
)
from dp_transforms.files.output import CsvTable, csv_rows
from dp_transforms.files.paths import join, local_path, paths_in_subdirectories, read_bytes
from dp_transforms.files.release_files import (
    SavedRelease,
    as_malformed,
    is_there,
    read_file,
    write_files,
)
from dp_transforms.mechanisms.arguments import ArgumentError, listed
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.releases.all_records import (
    AllRecordsSpec,
    SurveyOptions,
    surveyed_entries,
    surveyed_tables,
)
from dp_transforms.releases.base import (
    STATEMENT_ONLY,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    amount_entries,
    set_positive_integers,
)
from dp_transforms.releases.frequency_list import ListRelease, ListSpec
from dp_transforms.releases.lists import list_tables
from dp_transforms.releases.names import NamesRelease, NamesSpec
from dp_transforms.releases.names_files import name_tables, names_table, statement_with_types
from dp_transforms.releases.series import Releases
from dp_transforms.releases.surveys import before_survey
from dp_transforms.reports.entries import KAPPA_IS_OF

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine


@dataclass(frozen=True, kw_only=True)
class PeriodSpec(ReleaseSpec):
    """Specifies what is released for each public period. Subclasses say what it is."""

    periods: Sequence[str]
    max_periods_per_user: int | None = None
    epsilon: Number
    kind: str = field(default="period", metadata=STATEMENT_ONLY)
    span: str | None = field(default=None, metadata=STATEMENT_ONLY)
    """The days whose records count, such as "2026-01-01..2026-01-31"; by default, all days of the
    periods."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "periods", tuple(listed("periods", self.periods)))
        number = len(self.periods)
        named = all(isinstance(period, str) for period in self.periods)
        if not named or not 1 <= number <= MOST_PERIODS or len(set(self.periods)) < number:
            raise ValueError(
                f"there must be 1 to {MOST_PERIODS:,} different periods, as text, got {number:,}"
            )
        set_positive_integers(self, "max_periods_per_user")
        if self.max_periods_per_user is None and not self.may_count_in_all:
            raise ArgumentError.about(
                "max_periods_per_user",
                "is needed: a user who counts in more periods needs more noise",
            )

    @property
    def may_count_in_all(self) -> bool:
        """Returns whether the number of a user's periods needs no bound."""
        return False

    @property
    @abc.abstractmethod
    def partitions_per_period(self) -> int | None:
        """Returns how many partitions of each user are kept in each period; None for all."""

    @property
    def combined_file(self) -> str:
        """Returns the name of the table that one file shows for all periods."""
        return self.tables.file_name

    @property
    def periods_per_user(self) -> int:
        """Returns the largest number of periods in which a user counts."""
        number = len(self.periods)
        if self.max_periods_per_user is None:
            return number
        return min(self.max_periods_per_user, number)

    @property
    def about(self) -> Statement:
        """Returns the part of a privacy.json about the periods."""
        return {
            "of": self.kind,
            "first": self.periods[0],
            "last": self.periods[-1],
            "max_periods_per_user": self.periods_per_user,
            **self._days,
        }

    @property
    def _days(self) -> Statement:
        """Returns the entry about the days whose records count. The names of hours and days show
        them without it."""
        if self.span is None or self.kind not in ("week", "month"):
            return {}
        return {"days": self.span}

    def statement(
        self, columns: Sequence[pa.Field] | None, bounded_by_job: bool = True
    ) -> Statement:
        """Returns the statement about all periods together: see ``ReleaseSpec.statement``."""
        return super().statement(columns, bounded_by_job) | {"periods": self.about}


@dataclass(frozen=True, kw_only=True)
class SeparatePeriodsSpec(PeriodSpec):
    """Specifies a release for each public period by itself."""

    @property
    def epsilon_of_each(self) -> Fraction:
        """Returns the cost of one period."""
        return PrivacyBudget(self.epsilon).epsilon / self.periods_per_user

    @property
    def about(self) -> Statement:
        whole = PrivacyBudget(self.epsilon).epsilon
        return super().about | amount_entries("epsilon_of_all", whole)


@dataclass(frozen=True, kw_only=True)
class PeriodListsSpec(SeparatePeriodsSpec):
    """Specifies a list for each public period. Arguments are those of ``ReleaseListsByPeriod``."""

    tables = ReleasedTables(FREQUENCIES_FILE, list_tables)

    max_partitions_per_user: int
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_partitions_per_user is None:
            raise ValueError("max_partitions_per_user is needed for lists without a survey")
        set_positive_integers(self, "max_partitions_per_user")
        _ = self.of_each

    @property
    def partitions_per_period(self) -> int:
        return self.max_partitions_per_user

    @functools.cached_property
    def of_each(self) -> PartitionMechanism:
        """Returns the mechanism of each period's list."""
        return partition_mechanism(
            self.epsilon_of_each, self.max_partitions_per_user, self.mechanism
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        return (Request(f"frequency list of each {self.kind}", Cost(PrivacyBudget(self.epsilon))),)

    def release(self, engine: Engine) -> Collections:
        return engine.lists_by_period(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        return ListSpec(self.of_each).guarantee(bounded_by_job)


@dataclass(frozen=True, kw_only=True)
class PeriodAllRecordsSpec(SeparatePeriodsSpec, SurveyOptions):
    """Specifies a survey and a list for each public period. Other arguments than those of
    ``PeriodListsSpec`` are those of ``SurveyOptions``.

    Privacy. Neighbouring data differ by all records of one user, in any periods. The user's own
    records alone decide in which periods, at most w of them, the user counts. The release of each
    of these periods, survey and list together, is (epsilon / w)-DP: see ``all_records``, whose
    argument holds for the records of one period. The releases of all other periods have the same
    input, and each release has random numbers of its own. So all periods together are epsilon-DP.
    The kappa of a period follows from the survey of this period alone.
    """

    tables = ReleasedTables(FREQUENCIES_FILE, surveyed_tables, surveyed_entries)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.of_each

    @functools.cached_property
    def of_each(self) -> AllRecordsSpec:
        """Returns the specification of each period's release."""
        return self.spec_at(self.epsilon_of_each)

    @property
    def partitions_per_period(self) -> int:
        return self.of_each.most_partitions

    @property
    def combined_file(self) -> str:
        return ALL_RECORDS_FILE

    @property
    def requests(self) -> tuple[Request, ...]:
        request = Request(
            f"survey and frequency list of each {self.kind}", Cost(PrivacyBudget(self.epsilon))
        )
        return (request,)

    def release(self, engine: Engine) -> Collections:
        return engine.all_records_by_period(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        return self.of_each.guarantee(bounded_by_job)


@dataclass(frozen=True, kw_only=True)
class PeriodNamesSpec(PeriodSpec):
    """Specifies names in each public period. Arguments are those of
    ``SelectPartitionsByPeriod``.

    Privacy. Neighbouring data differ by all records of one user, in any periods: one has them and
    the other has none, or other records if ``neighbours`` says so. Names are selected once, as
    pairs of a period and a partition. Each user's own records alone decide which pairs of the user
    the selection gets: those of at most w periods and, if kappa is declared, of at most kappa
    partitions in each. So the selection gets neighbouring data, which differ by the pairs of one
    user. If kappa is declared, a user has at most w * kappa pairs, the number that the selection is
    made for. Otherwise a user may have any number of pairs. ``MeasuredSelection`` is
    (epsilon, delta)-DP for such data: its look moves by one whatever a user has, and its plan
    counts as many pairs of each user as it is made for (see ``measured``). In both cases all
    periods together cost epsilon and delta.
    """

    tables = ReleasedTables(PARTITIONS_FILE, name_tables)

    max_partitions_per_user: int | None = None
    delta: Number
    strategy: str = AUTO
    noisy_counts: bool = False
    intervals: bool = False
    pre_threshold: int | None = None
    neighbours: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_positive_integers(self, "max_partitions_per_user")
        _ = self.names

    @property
    def may_count_in_all(self) -> bool:
        # Then the look chooses how many pairs of a user count in all periods together.
        return self.max_partitions_per_user is None

    @property
    def partitions_per_period(self) -> int | None:
        return self.max_partitions_per_user

    @functools.cached_property
    def names(self) -> NamesSpec:
        """Returns the selection of names in all periods at once: what it selects are pairs of a
        period and a partition."""
        kappa, of_all = self.max_partitions_per_user, None
        if kappa is not None:
            of_all = self.periods_per_user * kappa
        return NamesSpec.of(
            self.strategy,
            self.epsilon,
            self.delta,
            of_all,
            pre_threshold=self.pre_threshold,
            neighbours=self.neighbours,
            noisy_counts=self.noisy_counts,
            already_bounded=kappa is not None,
            intervals=self.intervals,
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.names.requests_for(f"names of partitions in each {self.kind}")

    @property
    def about(self) -> Statement:
        bound: Statement = {"max_partitions_per_user_and_period": self.max_partitions_per_user}
        if self.max_partitions_per_user is None:
            bound = {KAPPA_IS_OF: f"all {self.kind}s together"}
        return super().about | bound

    def release(self, engine: Engine) -> Collections:
        return engine.names_by_period(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        return self.names.guarantee(bounded_by_job)

    @property
    def integer_columns(self) -> int:
        return self.names.integer_columns

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        return self.names.column_entries(columns)


def names_of_each(
    periods: Sequence[str], selected: Sequence[pa.Table], statement: Statement
) -> dict[str, NamesRelease]:
    """Returns the names of each period.

    The types of columns are those of the names of all periods together, so that a period without
    names has them too.

    Args:
      periods: the names of all periods.
      selected: the tables of an engine, with the period of a name in the column ``list``.
      statement: the joint statement of all periods.
    """
    statement = statement_with_types(names_table(selected, statement), statement)
    releases = {}
    for period in periods:
        of_period = [names_of_period(table, period) for table in selected]
        names = names_table(of_period, statement)
        releases[period] = NamesRelease(names, statement | {"period": period})
    return releases


def names_of_period(selected: pa.Table, period: str) -> pa.Table:
    """Returns the rows of one period of a table of names, whose column ``list`` has the periods."""
    import pyarrow.compute as pc

    from dp_transforms.columnar.attributes import LIST

    return selected.filter(pc.equal(selected[LIST], period))


def write_all_periods(
    directory: str, periods: Sequence[str], file_name: str, keep: bool = False
) -> str:
    """Writes the releases of all periods into one file beside their directories, and returns its
    path. The first column is the period. If ``keep`` is true, a file that is there is left as it
    is."""
    directory = local_path(directory)
    header: tuple[str, ...] = ("period",)
    rows: list[tuple[str, ...]] = []
    with as_malformed(directory, "a release for each period"):
        for period in periods:
            content_of_period = read_file(join(directory, period), file_name).decode()
            header_of_period, *rows_of_period = csv_rows(content_of_period)
            header = ("period", *header_of_period)
            rows += [(period, *row) for row in rows_of_period]
    content, path = CsvTable(header, rows).content(), join(directory, ALL_PERIODS_FILE)
    if is_there(directory, ALL_PERIODS_FILE) and (keep or read_bytes(path) == content):
        return path
    return write_files(directory, {ALL_PERIODS_FILE: content})


def read_periods(
    directory: str, read_period: Callable[[str], ListRelease | NamesRelease]
) -> Releases | None:
    """Reads the releases of periods below a directory; None if there are none. Any privacy.json
    tells which periods there are, and ``read_period`` reads the directory of one of them."""
    paths = paths_in_subdirectories(directory, PRIVACY_FILE)
    if not paths:
        return None
    with as_malformed(directory, "a release for each period"):
        statement = before_survey(SavedRelease(min(paths).removesuffix(PRIVACY_FILE)).statement)
        if "periods" not in statement:
            return None
        periods = statement["periods"]
        first, last = _first_day(periods["first"]), _first_day(periods["last"])
        names = period_names(periods["of"], f"{first}..{last}")
        releases = {name: read_period(join(directory, name)) for name in names}
        if any(
            before_survey(release.statement) != statement | {"period": name}
            for name, release in releases.items()
        ):
            # Releases of several jobs cost more together than any statement of them says.
            raise InputError(
                f"{directory} holds periods of several jobs: give the directory of one period, or "
                "move those of earlier jobs elsewhere"
            )
    return Releases(releases, periods["of"])


def _first_day(period: str) -> str:
    """Returns the day on which a period begins.

    >>> _first_day("2026-02"), _first_day("2026-02-28"), _first_day("2026-02-28T07")
    ('2026-02-01', '2026-02-28', '2026-02-28')
    """
    is_month = len(period) == len("2026-02")
    return f"{period}-01" if is_month else period[: len("2026-02-28")]
