"""Answers about names: the users of each, what is not named, and how much is missing.

All answers are computed from releases alone: from the names, and perhaps from a list and a survey
of degrees of the same records. ``name_estimates`` estimates the users of named partitions, and
``postprocessing.unnamed`` bounds the users of others.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from dp_transforms.files.filenames import COUNTS
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.postprocessing.dropped_users import DroppedUsers
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    Estimate,
    clamped_estimate,
    failure_probability,
)
from dp_transforms.releases.all_records import AllRecordsRelease
from dp_transforms.releases.base import NEIGHBOURS
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.name_estimates import (
    NameEstimates,
    estimates_are_of_all_records,
)
from dp_transforms.releases.name_statements import (
    NOT_NAMED,
    SLOW_STRATEGIES,
    estimates_entry,
    unnamed_bound,
)
from dp_transforms.reports.phrases import (
    GENERAL_NOUNS,
    Nouns,
    drops_records,
    over_periods,
    some,
    with_article,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.releases.names import NamesRelease


@dataclass(frozen=True)
class NameCount:
    """What a release says about the users of one partition.

    Attributes:
      is_named: whether the partition was named.
      users: an estimate; None if there is none.
      low, high: the ends of an interval, which are possible numbers themselves; ``high`` is
        infinite if nothing is known.
      of: which users are meant: "all" users who have the partition; "count" for the users whose
        records count after bounding; or a number, for the users with at most this many partitions.
      over: if the name is of a period and ``of`` is a number, words about the periods in which
        these users have partitions. The number is for all of these periods together.
      confidence: of the interval by itself, for a partition that was chosen before the release was
        seen. For a named partition, it holds also given that the partition is named.

    >>> print(NameCount(True, 169, 160, 177))
    169 users (160 to 177, 95% confidence)
    >>> print(NameCount(False, None, 0, 13, of="count"))
    not named: at most 13 users that count (95% confidence)
    """

    is_named: bool
    users: int | None
    low: int
    high: float
    of: str | int = "all"
    confidence: float = CONFIDENCE
    over: str = ""

    def __str__(self) -> str:
        return self.in_words(GENERAL_NOUNS)

    def in_words(self, nouns: Nouns) -> str:
        """Returns the count in words that call partitions and users by these nouns."""
        if isinstance(self.of, int):
            which = f" of at most {some(self.of, nouns.thing, nouns.things)} each{self.over}"
        else:
            which = " that count" if self.of == "count" else ""
        sure = f"{100 * self.confidence:.15g}% confidence"
        if self.users is not None:
            ends = f"{self.low:,} or more"
            if not math.isinf(self.high):
                ends = f"{self.low:,} to {self.high:,.0f}"
            return f"{some(self.users, nouns.user, nouns.users)}{which} ({ends}, {sure})"
        if self.is_named:
            return "named: there is no count"
        if math.isinf(self.high):
            return f"not named: nothing can be said about its {nouns.users}"
        high = some(int(self.high), nouns.user, nouns.users)
        return f"not named: at most {high}{which} ({sure})"


class Missing(NamedTuple):
    """How many partitions are not named, and how much they hold. This is about all records if the
    list has a survey, and otherwise about the records that count.

    Attributes:
      partitions: the number of partitions that are not named.
      contributions: the sum of their numbers of users.
      share: their part of all contributions (0 to 1).
    """

    partitions: Estimate
    contributions: Estimate
    share: Estimate


class NameAnswers(NameEstimates):
    """Answers of a release of names, see ``NamesRelease``."""

    def beside(
        self,
        frequency_list: ListRelease,
        degrees: ReleasedDegrees | None = None,
        *,
        of_one_job: bool = False,
    ) -> NamesRelease:
        """Returns these names with estimates from a list of the same records, and perhaps from a
        survey of degrees. This costs nothing.

        Args:
          frequency_list: a list of the same records.
          degrees: degrees of the same users, as ``choose-kappa`` releases them, if the list has no
            survey.
          of_one_job: whether one job released the names and the list. Then one random choice bounds
            the records of both. Two jobs keep different records of a user, even at equal kappa.

        Raises:
          TypeError: frequency_list is no list.
          ValueError: the list is of other columns; or it keeps other records than the names do, and
            there is no survey to relate them; or the names are those of a period.
        """
        if not isinstance(frequency_list, ListRelease):
            raise TypeError(f"frequency_list must be a ListRelease, got {shown(frequency_list)}")
        mine, others = self.statement, frequency_list.statement
        if "periods" in mine:
            # They bound a user's partitions in all periods together, and also the number of the
            # user's periods. No list of one period is of the same records, and no survey of one
            # period says what was dropped.
            raise ValueError(
                "names of a period are not of the same records as any list: they are released with "
                "noisy counts of their own, by counts=True"
            )
        if mine.get("partition_columns") != others.get("partition_columns"):
            raise ValueError("frequency_list must be of the same partition columns as the names")
        costs = [others]
        if degrees is not None:
            costs.append(_cost_of(degrees))
        of_all_records = estimates_are_of_all_records(mine, frequency_list, degrees)
        made = dataclasses.replace(
            cast("NamesRelease", self),
            statement={**mine, **estimates_entry(mine, *costs, of_all_records=of_all_records)},
            frequency_list=frequency_list,
            degrees=degrees,
            is_of_one_job=of_one_job,
            saved_estimates=None,
        )
        kappa, list_kappa = mine["max_partitions_per_user"], others["max_partitions_per_user"]
        may_differ = (self._drops or drops_records(others)) and kappa != list_kappa
        if may_differ and made._survey is None:
            raise ValueError(
                f"frequency_list keeps at most {some(list_kappa, 'partition')} of each user, and "
                f"the names {kappa}: release both at one kappa, or the list with a survey"
            )
        return made

    def with_degrees(self, degrees: ReleasedDegrees) -> NamesRelease:
        """Returns these names with estimates about all records, from degrees of the same users and
        without a list. This costs nothing; the statement says what names and degrees cost together.

        Args:
          degrees: as ``choose-kappa`` releases them.
        """
        entry = estimates_entry(self.statement, _cost_of(degrees), of_all_records=True)
        return dataclasses.replace(
            cast("NamesRelease", self),
            statement={**self.statement, **entry},
            frequency_list=None,
            degrees=degrees,
            saved_estimates=None,
        )

    @cached_property
    def list_that_agrees(self) -> ListRelease | None:
        """Returns the list beside the names, raised where the names prove it too low; None if there
        is no list.

        For every t, the raised list has at least as many partitions with t or more users as there
        are such names, so its total is at least the sum over the names. The list is returned as it
        is if it may lack users of the named partitions: if the names are public, or if the list is
        of other bounded records.
        """
        released = self.frequency_list
        if released is None or not len(self) or not self._have_users_in(released):
            return released
        from dp_transforms.postprocessing.name_counts import agreeing

        users = self._users_in(isinstance(released, AllRecordsRelease))
        named = FrequencyList.from_counts(users)
        drawn = released.released
        _, raised = agreeing(users.astype(float), users, users.astype(float), drawn)
        raised_list = ReleasedList(
            raised.frequencies, raised.multiplicities, drawn.mechanism, drawn.coordinates
        )
        return dataclasses.replace(released, released=raised_list, named=named, as_drawn=drawn)

    @property
    def _are_public(self) -> bool:
        """Returns whether the names were given, so that they may have no users at all."""
        return "public_partitions" in self.statement

    def _have_users_in(self, frequency_list: ListRelease) -> bool:
        """Returns whether each named partition surely has a user in the records of a list. A user
        of each is in the records that count for the names. These are records of the list if it is
        about all records, or if one job bounded both."""
        if self._are_public:
            return False
        statement = frequency_list.statement
        if isinstance(frequency_list, AllRecordsRelease) or not drops_records(statement):
            return True
        kappa = self.statement["max_partitions_per_user"]
        return self.is_of_one_job and kappa <= statement["max_partitions_per_user"]

    def _users_in(self, list_is_about_all: bool) -> IntArray:
        """Returns how many users each name has, at least, in the records of the list beside."""
        estimates_are_about_all = self._drops and self._survey is not None
        if self._table is None or (estimates_are_about_all and not list_is_about_all):
            # Estimates about all records say nothing about kept ones, and a named partition has at
            # least one user.
            return np.ones(len(self), np.int64)
        estimates, _, _ = self._table
        return estimates

    # The names as a collection.

    def _keys(self) -> list[Any]:
        """Returns the names: values, or tuples of them if partitions have several columns."""
        columns = [self.names.column(field.name).to_pylist() for field in self._name_columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    @property
    def _name_columns(self) -> list[pa.Field]:
        """Returns the columns of partitions. Those of noisy counts follow them in the table."""
        width = self.names.num_columns - (len(COUNTS) if self.statement["noisy_counts"] else 0)
        return [self.names.schema.field(place) for place in range(width)]

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {name: place for place, name in enumerate(self._keys())}

    def __len__(self) -> int:
        return int(self.names.num_rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys())

    def __contains__(self, name: object) -> bool:
        """Returns whether the partition is named. Raises as ``names[name]``."""
        self._check_type(name)
        return name in self._places

    def __getitem__(self, name: Any) -> NameCount:
        """Returns what is known of a partition, named or not.

        Raises:
          TypeError: the name has another type than the names of the table. Such a partition would
            count as not named, whatever its users.
        """
        self._check_type(name)
        place = self._places.get(name)
        return self.at_most(name) if place is None else self._count_at(place)

    def _check_type(self, name: object) -> None:
        """Raises a TypeError unless the name, or each of its parts, has the type of its column. If
        nothing was named, the types of names are not known."""
        import pyarrow as pa

        if not len(self):
            return
        columns = self._name_columns
        parts = (name,) if len(columns) == 1 else name
        if not isinstance(parts, tuple) or len(parts) != len(columns):
            raise TypeError(
                f"a name must be a tuple of {', '.join(column.name for column in columns)}"
            )
        kinds: tuple[tuple[Callable[[pa.DataType], bool], type, str], ...] = (
            (pa.types.is_integer, numbers.Integral, "integers"),
            (pa.types.is_binary, bytes, "bytes"),
            (pa.types.is_string, str, "text"),
        )
        for part, column in zip(parts, columns, strict=True):
            for is_kind, expected, described in kinds:
                is_expected = isinstance(part, expected) and not isinstance(part, bool)
                if is_kind(column.type) and not is_expected:
                    raise TypeError(
                        f"names in the column {column.name!r} are {described}, got "
                        f"{type(part).__name__}: give it as the table shows it"
                    )

    def top(self, k: int) -> list[tuple[Any, NameCount]]:
        """Returns the k names with the most users, and what is known about each. If there are not
        so many names, it returns all. Each interval holds by itself.

        Raises:
          ValueError: k is not a positive integer, or the names have no counts.
        """
        k = positive_integer("k", k)
        if not self.statement["noisy_counts"]:
            raise ValueError("these names have no counts: release them with counts=True")
        users = self._noisy if self._table is None else self._table[0]
        order = np.argsort(-users, kind="stable")[:k].tolist()
        keys = self._keys()
        return [(keys[place], self._count_at(place)) for place in order]

    def _count_at(self, place: int) -> NameCount:
        of = "all" if self.is_about_all_records else "count"
        if not self.statement["noisy_counts"]:
            return NameCount(True, None, 0 if self._are_public else 1, math.inf, of)
        if self._table is not None:
            users, low, high = self._table
            return NameCount(True, int(users[place]), int(low[place]), float(high[place]), of)
        noisy, low_end, high_end = (self.names[name][place].as_py() for name in COUNTS)
        of = "count" if self._drops else "all"
        return NameCount(True, noisy, low_end, high_end, of)

    # What is not named.

    def at_most(self, name: Any, confidence: float = CONFIDENCE) -> NameCount:
        """Returns the largest number of users that a partition outside the table may have. The
        partition need not exist. The confidence is over the randomness of the selection and, if
        numbers are about all records, of the survey. It holds for a partition that you chose before
        you saw the table.

        Raises:
          ValueError: the partition is named, so that ``names[name]`` has its users; or the
            confidence is not between 0 and 1.
          TypeError: see ``names[name]``.
        """
        if name in self:
            raise ValueError("this partition is named: names[name] tells its users")
        return self._unnamed(confidence)

    def _unnamed(self, confidence: float = CONFIDENCE) -> NameCount:
        """Returns what is known of any partition that is not named."""
        survey = self._survey
        if self._drops and survey is not None:
            high = self._most_unnamed_of_all(survey, failure_probability(confidence))
            return NameCount(False, None, 0, high, "all", confidence)
        bound = unnamed_bound(self.statement, confidence)
        high = math.inf if bound.users is None else bound.users
        if bound.of_at_most is not None:
            # Of a user with so few partitions in so few periods, nothing was dropped before the
            # selection.
            over = over_periods(self.statement)
            return NameCount(False, None, 0, high, bound.of_at_most, confidence, over)
        which_users = "count" if self._drops else "all"
        return NameCount(False, None, 0, high, which_users, confidence)

    def _most_unnamed_of_all(self, survey: ReleasedDegrees, failure: float) -> float:
        """Returns an upper bound on the users, in all records, of a partition that is not named."""
        # Half of the failure probability is for the selection, a quarter for the noise of the
        # survey, and a quarter for the random choice of records that count.
        bound = unnamed_bound(self.statement, 1 - failure / 2)
        if bound.users is None:
            return math.inf
        if bound.of_at_most is not None:
            # The bound is about users with at most so many partitions. All others come on top.
            dropped = DroppedUsers(survey, bound.of_at_most, failure / 4)
            return bound.users + dropped.most_dropping
        kappa = self.statement["max_partitions_per_user"]
        dropped = DroppedUsers(survey, kappa, failure / 4)
        return float(dropped.most_users(np.array([bound.users]), failure / 4)[0])

    def missing(self, confidence: float = CONFIDENCE) -> Missing | None:
        """Estimates, by the list beside the names, how many partitions are not named, and how much
        they hold. Returns None if there is no list, or if the released list is empty.

        Intervals are proved. The n names have at most the sum of the n largest frequencies. If the
        list surely has records of all of them, each also has at least one user.
        """
        released = self.frequency_list
        if released is None or not len(released.released):
            return None
        number, each = len(self), 1 - failure_probability(confidence) / 3
        partitions = released.number_of_partitions(confidence)
        total = released.total(each)
        named, named_low = self._sum_of_named(released, failure_probability(confidence) / 3)
        top = released.sum_of_top(number, each).high if number else 0
        low, high = max(total.low - top, 0), max(total.high - named_low, 0)
        unnamed = max(partitions.value - number, 0)
        # Each unnamed partition has a user at least, and without any there is nothing missing.
        value = max(total.value - named, unnamed) if unnamed else 0
        low_share = low / total.high
        high_share = 1.0
        if not math.isinf(total.high):
            # Named partitions have named_low users at least, and the others at most ``high``.
            high_share = min(high / max(high + named_low, 1), 1.0)
        return Missing(
            clamped_estimate(
                unnamed,
                max(partitions.low - number, 0),
                max(partitions.high - (number if self._have_users_in(released) else 0), 0),
                confidence,
            ),
            clamped_estimate(value, low, high, confidence),
            clamped_estimate(value / total.value, low_share, high_share, confidence),
        )

    def _sum_of_named(self, answers: ListRelease, failure: float) -> tuple[float, float]:
        """Returns the estimated sum of the users of named partitions, and a lower bound that fails
        with this probability at most."""
        if not len(self):
            return 0, 0
        # Each named partition has at least one user, if it surely is in the list.
        least = len(self) if self._have_users_in(answers) else 0
        of_all = isinstance(answers, AllRecordsRelease) or not self._drops
        if not least or self._table is None or of_all != self.is_about_all_records:
            # The named partitions are about the largest.
            return answers.sum_of_top(len(self)).value, least
        # An interval fails at its lower end with half of its failure probability.
        low, _ = self._proved(1 - 2 * failure / len(self))
        return int(self._table[0].sum()), int(low.sum())

    def about_unnamed(self, nouns: Nouns = GENERAL_NOUNS) -> list[str]:
        """Returns sentences, without full stops, about the partitions that are not named."""
        lines = []
        # A slow strategy is not made again for a sentence: then the statement must have the bound.
        if NOT_NAMED in self.statement or self.statement["strategy"] not in SLOW_STRATEGIES:
            bound = self._unnamed()
            if not math.isinf(bound.high):
                text = bound.in_words(nouns).removeprefix("not named: ")
                thing = with_article(nouns.thing)
                lines.append(f"{thing[0].upper()}{thing[1:]} that is not named has {text}")
        missing = self.missing()
        if missing is not None:
            lines.append(
                f"{nouns.things.capitalize()} that are not named: {missing.partitions}; their "
                f"share of all contributions: {missing.share}"
            )
        return lines


def _cost_of(degrees: ReleasedDegrees) -> dict[str, Any]:
    """Returns the cost of released degrees, as statements have it."""
    return {"epsilon": degrees.epsilon, "neighbours": NEIGHBOURS}
