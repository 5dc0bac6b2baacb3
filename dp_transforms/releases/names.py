"""Releases the names of partitions that enough users have, perhaps with noisy counts of users."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import COUNTS, NAMED_USERS_FILE, PARTITIONS_FILE
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms import DiscreteLaplace
from dp_transforms.mechanisms.arguments import boolean, shown, text
from dp_transforms.mechanisms.decimals import Number, exact_fraction, integer, positive_rational
from dp_transforms.mechanisms.selection import (
    CountStrategy,
    MeasuredSelection,
    NoisyCountStrategy,
    SelectionStrategy,
    TruncatedGeometricSelection,
    WeightedStrategy,
    make_strategy,
)
from dp_transforms.mechanisms.selection.choice import AUTO
from dp_transforms.mechanisms.selection.measured import MOST_PARTITIONS
from dp_transforms.mechanisms.selection.strategy import REPLACE
from dp_transforms.mechanisms.selection.threshold_distribution import (
    CONFIDENCE,
    ThresholdDistribution,
)
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
    bound_entries,
)
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.name_answers import NameAnswers
from dp_transforms.releases.name_statements import unnamed_entries
from dp_transforms.releases.names_files import (
    columns_table,
    estimates_table,
    name_tables,
    read_estimates,
    read_names,
)
from dp_transforms.releases.tables import Release, publish
from dp_transforms.reports.entries import ENFORCED_IN_ROUNDS, ESTIMATES, OTHER_PARTITIONS
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import NO_WORDS, Words, some

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine

MECHANISM = "partition selection"


@dataclass(frozen=True)
class NamesSpec(ReleaseSpec):
    """Specifies a selection of names. Arguments and errors are those of ``SelectPartitions``."""

    tables = ReleasedTables(PARTITIONS_FILE, name_tables)

    strategy: SelectionStrategy
    _: KW_ONLY
    noisy_counts: bool = False
    already_bounded: bool = False
    intervals: bool = False
    others_epsilon: Number | None = None
    public_partitions: pa.Array | None = None
    public_threshold: int | None = None
    context: str = "selection"

    def __post_init__(self) -> None:
        if not isinstance(self.strategy, SelectionStrategy):
            raise TypeError(
                "strategy must be a SelectionStrategy, such as OptimalSelection(1, 1e-9), "
                f"got {type(self.strategy).__name__}"
            )
        for argument in ("noisy_counts", "already_bounded", "intervals"):
            # The text "False" would be taken for True.
            boolean(argument, getattr(self, argument))
        if self.public_threshold is not None:
            threshold = integer("public_threshold", self.public_threshold)
            object.__setattr__(self, "public_threshold", threshold)
        name, public = self.strategy.name, self.public_partitions is not None
        text("context", self.context)
        if self.public_threshold is not None and not public:
            raise ValueError("public_threshold is for public_partitions, and none are given")
        if public:
            self.require_counts()
        if isinstance(self.strategy, MeasuredSelection):
            counted = self.strategy.counted
            if counted != self.noisy_counts:
                raise ValueError(
                    f"noisy_counts must be what the strategy's counted is, {counted}, since it "
                    "spends its budget accordingly"
                )
        elif self.noisy_counts or self.intervals:
            self.require_counts()
            if self.noisy_counts and not isinstance(self.strategy, NoisyCountStrategy):
                raise ValueError(f"strategy {name!r} has no noisy counts")
        if self.intervals and not self.noisy_counts:
            raise ValueError("intervals are those of noisy_counts, which are not asked for")
        if public:
            if not isinstance(self.strategy, TruncatedGeometricSelection):
                raise ValueError(
                    f"public_partitions are for the strategy {TruncatedGeometricSelection.name!r}, "
                    f"got {name!r}"
                )
            if self.strategy.pre_threshold > 1:
                raise ValueError(
                    "pre_threshold and public_partitions exclude each other: one hides small "
                    "partitions, the other shows even empty ones"
                )
        _ = self.public_distribution, self.noise_of_others

    @classmethod
    def of(
        cls,
        strategy: str,
        epsilon: Number,
        delta: Number,
        max_partitions_per_user: int | None,
        *,
        pre_threshold: int | None = None,
        neighbours: str | None = None,
        **options: Any,
    ) -> NamesSpec:
        """Makes a specification from the arguments of ``make_strategy``, with further fields as
        options. If there are public partitions, "auto" takes the strategy for them. Kappa may be
        None for "measured" and "auto" alone: then the look of ``MeasuredSelection`` chooses it."""
        has_public = options.get("public_partitions") is not None
        if strategy == AUTO and has_public:
            strategy = TruncatedGeometricSelection.name
        given = {"pre_threshold": pre_threshold, "neighbours": neighbours}
        bound: dict[str, Any] = {"max_partitions_per_user": max_partitions_per_user}
        if max_partitions_per_user is None:
            if has_public:
                raise ValueError("max_partitions_per_user must be given with public_partitions")
            if options.get("already_bounded"):
                raise ValueError("max_partitions_per_user must be given with already_bounded")
            if strategy not in (AUTO, MeasuredSelection.name):
                raise ValueError(
                    f"max_partitions_per_user must be given, unless strategy is {AUTO!r} or "
                    f"{MeasuredSelection.name!r}, which choose how many partitions of a user count"
                )
            strategy = MeasuredSelection.name
            bound = {"max_partitions_per_user": MOST_PARTITIONS, "declared": False}
        made = make_strategy(
            strategy,
            epsilon,
            delta,
            options.get("noisy_counts", False),
            options.get("already_bounded", False),
            **bound,
            **{name: value for name, value in given.items() if value is not None},
        )
        return cls(made, **options)

    @classmethod
    def of_whole(
        cls,
        strategy: str,
        epsilon: Number,
        delta: Number,
        max_partitions_per_user: int | None,
        others_share: Number | None = None,
        **options: Any,
    ) -> NamesSpec:
        """Makes a specification as ``of``. If ``others_share`` is given, the number of users of
        other partitions costs this part of epsilon, and the names cost the rest. Raises a
        ValueError unless it is between 0 and 1."""
        names = PrivacyBudget(epsilon, delta)
        if others_share is None:
            return cls.of(strategy, epsilon, delta, max_partitions_per_user, **options)
        share = exact_fraction("others_share", others_share)
        if not 0 < share < 1:
            raise ValueError(f"others_share must be between 0 and 1, got {shown(others_share)}")
        others = PrivacyBudget(names.epsilon * share)
        names -= others
        return cls.of(
            strategy,
            names.epsilon,
            names.delta,
            max_partitions_per_user,
            others_epsilon=others.epsilon,
            **options,
        )

    @property
    def integer_columns(self) -> int:
        return len(COUNTS) if self.noisy_counts else 0

    def require_counts(self) -> None:
        """Raises a ValueError unless the strategy decides by counts of users alone."""
        if not isinstance(self.strategy, CountStrategy):
            raise ValueError(
                f"strategy {self.strategy.name!r} needs users' records: counts, noisy counts and "
                "public partitions are not for it"
            )

    @functools.cached_property
    def public_distribution(self) -> ThresholdDistribution | None:
        """Returns the rule for public partitions, if there are any."""
        if self.public_partitions is None:
            return None
        assert isinstance(self.strategy, TruncatedGeometricSelection)
        return self.strategy.public_distribution(self._least_public)

    @property
    def _least_public(self) -> int:
        """Returns the threshold of public partitions. By default all of them are named if there are
        counts: a count of 0 says more than a missing name."""
        if self.public_threshold is not None:
            return self.public_threshold
        if not self.noisy_counts:
            return 0
        assert isinstance(self.strategy, TruncatedGeometricSelection)
        return self.strategy.lowest_public_threshold

    @functools.cached_property
    def noise_of_others(self) -> DiscreteLaplace | None:
        """Returns the noise of the number of users of other partitions, if that is released."""
        if self.others_epsilon is None:
            return None
        return DiscreteLaplace(1 / positive_rational("others_epsilon", self.others_epsilon))

    @property
    def has_entries(self) -> bool:
        """Returns whether the statement has entries that follow from what is released."""
        return self.others_epsilon is not None or isinstance(self.strategy, MeasuredSelection)

    @property
    def cap(self) -> int | None:
        """Returns the number of users from which on a partition is certain to be selected, so that
        counting may stop there. None if there is no such number, or if counts are needed in
        full."""
        if self.noisy_counts or self.public_distribution:
            return None
        if not isinstance(self.strategy, CountStrategy):
            return None
        return self.strategy.saturation_count

    @property
    def requests(self) -> tuple[Request, ...]:
        return self.requests_for("names of partitions")

    def requests_for(self, purpose: str) -> tuple[Request, ...]:
        """Returns the parts of the budget that the release needs. The part for the names gets this
        purpose."""
        strategy = self.strategy
        replaced = strategy.neighbours == REPLACE
        unit = PrivacyUnit.REPLACED_USER if replaced else PrivacyUnit.USER
        names = Request(purpose, Cost(PrivacyBudget(strategy.epsilon, strategy.delta)), unit)
        if self.others_epsilon is None:
            return (names,)
        others = Cost(PrivacyBudget(self.others_epsilon))
        return names, Request("users of other partitions", others, unit)

    def release(self, engine: Engine) -> Collections:
        return engine.names(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        described = self.strategy.describe()
        replaces = described.pop("neighbours") == REPLACE
        first = ("strategy", "epsilon", "epsilon_exact", "delta", "delta_exact")
        bound = bound_entries(described.pop("max_partitions_per_user"), bounded_by_job)
        bounded_before = self.already_bounded and bounded_by_job
        bounded_in_rounds = isinstance(self.strategy, WeightedStrategy) and not bounded_before
        if bounded_in_rounds:
            bound["max_partitions_per_user_is"] = ENFORCED_IN_ROUNDS
        statement: Statement = {
            "mechanism": MECHANISM,
            **{name: described.pop(name) for name in first},
            "neighbours": PrivacyUnit.REPLACED_USER.neighbours if replaces else NEIGHBOURS,
            **bound,
            "noisy_counts": self.noisy_counts,
            **described,
        }
        if self.noisy_counts:
            statement["noisy_counts_are_of"] = (
                "users, each in at most max_partitions_per_user partitions, chosen at random"
                if bounded_by_job
                else "users"
            )
            statement["count_intervals"] = {
                "confidence": float(CONFIDENCE),
                "of": "each count, given that its partition is named",
            }
        statement |= unnamed_entries(self.strategy, not bounded_in_rounds)
        if self.public_partitions is not None:
            statement["public_partitions"] = len(self.public_partitions)
            statement["public_threshold"] = self._least_public
        if self.others_epsilon is not None:
            statement[OTHER_PARTITIONS] = {
                "mechanism": "discrete Laplace noise on the number of users",
                **amount_entries("epsilon", PrivacyBudget(self.others_epsilon).epsilon),
                "sensitivity": 1,
            }
        return statement

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        """Returns the names and the types of the partitions' columns."""
        from dp_transforms.files.logical_types import stated_type

        types = [stated_type(column) for column in columns]
        return super().column_entries(columns) | {"partition_types": types}


@dataclass(frozen=True, repr=False)
class NamesRelease(NameAnswers, Release):
    """A release of names holds partitions, perhaps with noisy counts of their users.

    As a collection it holds the names: values, or tuples of them if partitions have several
    columns. ``names["/page"]`` is a ``NameCount``: the users of a named partition, or the largest
    number of users that an unnamed one may have.

    With a list or a survey of the same records, the columns ``users``, ``low`` and ``high`` replace
    those of the noisy counts in the table. They hold estimates and proved intervals
    (``postprocessing.name_counts`` and ``dropped_users``), about all records if there is a survey
    of degrees.

    Attributes:
      names: a ``pyarrow.Table`` of the partitions' columns and, with counts, ``noisy_count`` and
        the ends ``low`` and ``high`` of an interval for the number of users whose records count.
        Each interval holds with 95% confidence by itself, given that its partition is named.
      statement: the guarantee, as in privacy.json.
      frequency_list: the list of the same records, if it was released too.
      degrees: a survey of the degrees of their users, if there is one beside the list.
      is_of_one_job: whether one job released the names and the list, see ``beside``.
      saved_estimates: the columns ``users``, ``low`` and ``high`` in the order of the names, if the
        names were loaded with estimates but without the list from which these follow. Then
        ``missing`` returns None, and ``at_most`` is about the records that count.
    """

    _file_name = PARTITIONS_FILE

    names: pa.Table
    statement: Mapping[str, Any]
    frequency_list: ListRelease | None = None
    degrees: ReleasedDegrees | None = None
    is_of_one_job: bool = field(default=False, kw_only=True, compare=False)
    saved_estimates: pa.Table | None = field(default=None, kw_only=True)

    @property
    def _words(self) -> int:  # type: ignore[override]  # it depends on the table
        counts = len(COUNTS) if self.statement["noisy_counts"] else 0
        return int(self.names.num_columns) - counts

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the names and privacy.json, as the job does: see ``ListRelease.save``."""
        publish(directory, self, overwrite)

    def page(self, words: Words = NO_WORDS) -> Page:
        from dp_transforms.releases.names_page import names_page

        return names_page(self, words)

    def statement_words(self) -> list[str]:
        from dp_transforms.releases.names_page import names_words

        return names_words(self.statement)

    def _tables(self) -> Tables:
        names = self.names
        columns = dict(zip(names.column_names, names.columns, strict=True))
        tables: Tables = {PARTITIONS_FILE: columns_table(columns)}
        if self.has_estimates:
            tables[NAMED_USERS_FILE] = columns_table(self._columns())
        return tables

    def _columns(self) -> dict[str, Any]:
        columns = {name: self.names[name] for name in self.names.column_names}
        if self._table is None:
            return columns
        import pyarrow as pa

        users, low, high = self._table
        order = np.lexsort((np.arange(len(users)), -users))
        columns = {name: columns[name].take(pa.array(order)) for name in [*columns][: self._words]}
        return columns | estimates_table(users[order], low[order], high[order])

    def _summary(self) -> list[str]:
        about = ""
        if self.has_estimates:
            of = "all records" if self.is_about_all_records else "the records that count"
            about = f"; users are estimates about {of}"
        return [some(self.names.num_rows, "name") + about, *self.about_unnamed()]


def read(saved: SavedRelease) -> NamesRelease:
    """Reads the names, with the estimates of their users if there are any."""
    statement, estimates = saved.statement, None
    names = saved.table(PARTITIONS_FILE, functools.partial(read_names, statement=statement))
    # Directories of earlier versions do not say which records their estimates are about.
    if "about" in statement.get(ESTIMATES, {}) and saved.has(NAMED_USERS_FILE):
        parse = functools.partial(read_estimates, statement=statement, names=names)
        estimates = saved.table(NAMED_USERS_FILE, parse)
    return NamesRelease(names, statement, saved_estimates=estimates)


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of names."""
    return bool(statement["mechanism"] == MECHANISM)


READER = Reader(PARTITIONS_FILE, _describes, read)
