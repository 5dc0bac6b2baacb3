"""Releases a frequency list together with a survey of degrees, to answer about ALL records.

A list is about the records that bounding kept, but people ask about all the records they have. So
the release begins with a survey: how many users have how many partitions. The survey tells how much
bounding drops, and it chooses kappa unless kappa is declared.

Intervals about all records need the number of users with more than kappa partitions. By the survey,
this number is a sum of many noisy cells, and its margin must hold for every kappa that the survey
may choose. The number can also be released alone, for the kappa that was chosen, at 1/25 of the
epsilon that the survey leaves. It is, if its margin is then less than half of the sum's margin. The
list's noise grows by 4%.

Privacy. Neighbouring data differ by all records of one user. Three parts are released:

* The survey has rounds, and costs the epsilon_1 of its last round, whichever that is
  (``mechanisms.gradual_survey``). The number of rounds is a function of the survey's output and of
  public numbers.
* The number of users beyond kappa costs epsilon_2 = (epsilon - epsilon_1) / 25
  (``mechanisms.users_beyond``), and nothing if it is not released. Whether it is released depends
  on the survey's output and on public numbers alone.
* The list gets the rest, epsilon_3. For each kappa, the list of the records that bounding by kappa
  keeps costs epsilon_3: the bound is enforced by an order of each user's own pairs, which depends
  on a key and on no other user, and the noise is that of the mechanism at sensitivity kappa.

Kappa is a function of the survey's output and of public numbers. So for each outcome of the survey
the three parts together cost epsilon, also for users with more partitions than every kappa. What
follows (the estimate of all records, its intervals) is computed from these outputs alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import (
    ALL_RECORDS_FILE,
    COORDINATES_HEADER,
    DEGREES_HEADER,
    FREQUENCIES_FILE,
    FREQUENCIES_HEADER,
    SURVEY_FILE,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.decimals import (
    Number,
    decimal_text,
    float_above,
    positive_rational,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.gradual_survey import GradualSurvey
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import (
    AUTO,
    known_mechanism,
    partition_mechanism,
)
from dp_transforms.mechanisms.randomness import RandomTape
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.mechanisms.users_beyond import UsersBeyond, UsersBeyondMechanism
from dp_transforms.postprocessing.all_records_bounds import (
    AllRecordsBounds,
    AllRecordsIntervals,
    margin_of_count,
    margin_of_survey,
)
from dp_transforms.postprocessing.decoded_surveys import decoded_survey
from dp_transforms.postprocessing.estimates import Answers, Estimate, ReleaseIntervals, percents
from dp_transforms.postprocessing.survey_plan import (
    SURVEY_MAX_DEGREE,
    candidates,
    choose_bound,
    is_enough,
    survey_of,
)
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
    bound_entries,
    set_positive_integers,
)
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.lists import (
    list_guarantee,
    list_tables,
    read_list_table,
    read_lists,
)
from dp_transforms.releases.surveys import (
    BEYOND,
    Survey,
    SurveyedList,
    estimate_of,
    read_degree_table,
    survey_of_rows,
)
from dp_transforms.reports.entries import CHOSEN_BY_SURVEY, SURVEY
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import NO_WORDS, Words, of_all_records

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine
    from dp_transforms.postprocessing.degree_survey import DegreeSurvey

BEYOND_SHARE = Fraction(1, 25)
"""The number of users beyond kappa costs this part of the epsilon that the survey leaves."""


def surveyed_tables(released: Iterable[SurveyedList], statement: Statement) -> Tables:
    """Returns the tables of the only element: the bounded list with its noisy coordinates, the
    survey, and the estimated list of all records that follows from them."""
    (surveyed,) = released
    return _tables_with(surveyed, estimate_of(surveyed, statement), statement)


def _tables_with(surveyed: SurveyedList, estimate: FrequencyList, statement: Statement) -> Tables:
    """Returns the tables, given the estimated list of all records."""
    degrees = surveyed.survey.degrees
    survey = list(zip(degrees.lowest, degrees.users, strict=True))
    return {
        **list_tables([surveyed.released], statement),
        SURVEY_FILE: CsvTable(DEGREES_HEADER, survey),
        ALL_RECORDS_FILE: CsvTable(FREQUENCIES_HEADER, list(estimate)),
    }


def surveyed_entries(released: Iterable[SurveyedList]) -> Statement:
    """Returns the part of the statement that follows from the survey."""
    (surveyed,) = released
    return surveyed.entries


@dataclass(frozen=True, kw_only=True)
class SurveyOptions:
    """The arguments of a survey and a list, besides what they cost.

    Attributes:
      max_partitions_per_user: kappa, if it is declared; otherwise the survey chooses it.
      survey_share: the survey's part of epsilon (0 to 1); by default its own first rounds choose
        it, see ``survey_plan``.
      mechanism: of the list, see ``partition_mechanism``.
      max_degree: public; in the survey, users with more partitions count as having this many.
      largest_degree: a public number of partitions that no user is thought to exceed. It gives
        intervals about all records their upper ends. It is enforced: if a user has more partitions,
        a random choice of this many stands for all of them. So privacy does not depend on whether
        the number is true.
    """

    max_partitions_per_user: int | None = None
    survey_share: Number | None = None
    mechanism: str = AUTO
    max_degree: int = SURVEY_MAX_DEGREE
    largest_degree: int | None = None

    def spec_at(self, epsilon: Fraction) -> AllRecordsSpec:
        """Returns the specification of a survey and a list with these options and this cost.
        Raises a ValueError as ``AllRecordsSpec`` does."""
        options = {field.name: getattr(self, field.name) for field in fields(SurveyOptions)}
        return AllRecordsSpec(epsilon=epsilon, **options)


@dataclass(frozen=True, kw_only=True)
class AllRecordsSpec(SurveyOptions, ReleaseSpec):
    """Specifies a survey and a list, which together cost epsilon.

    Raises:
      ValueError: an argument is out of range, or there is no such mechanism at a kappa that may be
        chosen.
    """

    tables = ReleasedTables(FREQUENCIES_FILE, surveyed_tables, surveyed_entries)

    epsilon: Number

    def __post_init__(self) -> None:
        set_positive_integers(self, "largest_degree", "max_partitions_per_user", "max_degree")
        largest, kappa = self.largest_degree, self.max_partitions_per_user
        if largest is not None and kappa is not None and largest < kappa:
            # No more partitions of a user are left, so noise for more would be for nothing.
            object.__setattr__(self, "max_partitions_per_user", largest)
        positive_rational("epsilon", self.epsilon)
        known_mechanism(self.mechanism)
        # An epsilon that is too small for a list at the whole of it is an error about epsilon, and
        # not about the noise of the survey.
        partition_mechanism(self.epsilon, self.max_partitions_per_user or 1)
        for spent in self.survey.epsilons:
            # A noise scale that is out of range is refused here, before there are data.
            _ = UsersBeyondMechanism(self._beyond_epsilon(spent), kappa=1)
        outcomes = itertools.product(self.survey.epsilons, self._possible_kappas, (False, True))
        for spent, kappa, counts_beyond in outcomes:
            try:
                self._list_mechanism(spent, kappa, counts_beyond)
            except ValueError as error:
                if self.max_partitions_per_user is not None or self.mechanism == AUTO:
                    raise
                raise ValueError(
                    f"mechanism {self.mechanism!r} cannot follow a survey, which may choose kappa "
                    f"= {kappa}: declare max_partitions_per_user, or leave mechanism out ({error})"
                ) from None

    @cached_property
    def survey(self) -> GradualSurvey:
        """Returns the mechanism of the survey."""
        max_degree = self.max_degree
        if self.largest_degree is not None:
            max_degree = min(max_degree, self.largest_degree)
        return survey_of(self.epsilon, self.survey_share, max_degree)

    @property
    def _possible_kappas(self) -> tuple[int, ...]:
        if self.max_partitions_per_user is not None:
            return (self.max_partitions_per_user,)
        left = self._list_epsilon(self.survey.epsilons[0], counts_beyond=True)
        return candidates(left, self.survey.max_degree)

    @property
    def most_partitions(self) -> int:
        """Returns how many partitions of each user the survey and the list look at. Unless a
        largest degree is declared, these are more than every kappa that may be chosen, so that it
        is seen which users have more than kappa."""
        if self.largest_degree is not None:
            return self.largest_degree
        return max(self.survey.max_degree, max(self._possible_kappas) + 1)

    def survey_under(
        self, users_by_degree: Mapping[int, int], tape_of: Callable[[str], RandomTape]
    ) -> Survey:
        """Makes the releases that come before the list: the degrees, from which kappa follows, and
        the number of users beyond kappa if that is worth its cost.

        Args:
          users_by_degree: {degree: number of users}, PRIVATE.
          tape_of: ``JobSecret.tape`` of the job's secret.
        """
        degrees = self.survey.release_under(users_by_degree, tape_of, self.is_enough)
        kappa = self.kappa_after(degrees)
        spent = self.spent_on(degrees)
        if not self._counts_beyond(spent, kappa):
            return Survey(degrees, kappa, None)
        mechanism = UsersBeyondMechanism(self._beyond_epsilon(spent), kappa)
        return Survey(degrees, kappa, mechanism.release_under(users_by_degree, tape_of))

    def is_enough(self, degrees: ReleasedDegrees) -> bool:
        """Returns whether a round of the survey is enough: a function of the survey's output
        alone."""
        kappa = self.max_partitions_per_user
        kappas = None if kappa is None else [kappa]
        survey, spent = self._decoded(degrees), self.spent_on(degrees)
        return is_enough(degrees, survey, self.epsilon, spent, kappas)

    def spent_on(self, degrees: ReleasedDegrees) -> Fraction:
        """Returns the cost of a survey that was released."""
        for epsilon in self.survey.epsilons:
            if float_above(epsilon) == degrees.epsilon:
                return epsilon
        raise ValueError("degrees must be those of this survey: no round has their epsilon")

    def kappa_after(self, degrees: ReleasedDegrees) -> int:
        """Returns kappa: a function of the released survey alone."""
        if self.max_partitions_per_user is not None:
            return self.max_partitions_per_user
        left = self._list_epsilon(self.spent_on(degrees), counts_beyond=True)
        return choose_bound(self._decoded(degrees), left).kappa

    def _decoded(self, degrees: ReleasedDegrees) -> DegreeSurvey:
        return decoded_survey(degrees, self.largest_degree)

    def list_mechanism(self, survey: Survey) -> PartitionMechanism:
        """Returns the mechanism of the list after a survey."""
        # What was released decides what is left. The comparison of floats in ``_counts_beyond`` is
        # not repeated here, where it might come out differently.
        counts_beyond = survey.users_beyond is not None
        return self._list_mechanism(self.spent_on(survey.degrees), survey.kappa, counts_beyond)

    def _list_mechanism(
        self, spent: Fraction, kappa: int, counts_beyond: bool
    ) -> PartitionMechanism:
        return partition_mechanism(self._list_epsilon(spent, counts_beyond), kappa, self.mechanism)

    def _list_epsilon(self, spent: Fraction, counts_beyond: bool) -> Fraction:
        """Returns what a survey leaves for the list, with or without the number of users beyond
        kappa."""
        left = positive_rational("epsilon", self.epsilon) - spent
        return left - self._beyond_epsilon(spent) if counts_beyond else left

    def _beyond_epsilon(self, spent: Fraction) -> Fraction:
        """Returns what the number of users beyond kappa costs after a survey."""
        return (positive_rational("epsilon", self.epsilon) - spent) * BEYOND_SHARE

    def _counts_beyond(self, spent: Fraction, kappa: int) -> bool:
        """Returns whether the number of users beyond kappa is worth its cost: a function of public
        numbers."""
        if self.largest_degree is not None and self.largest_degree <= kappa:
            return False
        possible_kappas = 1
        if self.max_partitions_per_user is None:
            possible_kappas = len(self.survey.lowest)
        choices = possible_kappas * self.survey.rounds
        by_survey = margin_of_survey(self.survey.lowest, float(spent), kappa, choices)
        return margin_of_count(float_above(self._beyond_epsilon(spent))) < by_survey / 2

    def surveyed(self, survey: Survey, released: ReleasedList) -> SurveyedList:
        """Returns what an engine has made, with the entries of the statement that follow."""
        bound = bound_entries(survey.kappa, bounded_by_job=True)
        if self.max_partitions_per_user is None:
            bound["max_partitions_per_user_is"] = CHOSEN_BY_SURVEY
        spent = self.spent_on(survey.degrees)
        parts = {SURVEY: self._survey_entry | amount_entries("epsilon", spent)}
        if survey.users_beyond is not None:
            parts[BEYOND] = {
                "noisy_users": survey.users_beyond.users,
                "noise": "discrete Laplace, Pr[n] proportional to exp(-epsilon |n|)",
                **amount_entries("epsilon", self._beyond_epsilon(spent)),
            }
        of_list = self._list_epsilon(spent, survey.users_beyond is not None)
        parts["list"] = amount_entries("epsilon", of_list)
        entries = list_guarantee(self.list_mechanism(survey), NEIGHBOURS, bound)
        of_all = amount_entries("epsilon", PrivacyBudget(self.epsilon).epsilon)
        return SurveyedList(survey, released, entries | of_all | parts)

    @property
    def requests(self) -> tuple[Request, ...]:
        cost = Cost(PrivacyBudget(self.epsilon))
        return (Request("survey of partitions per user, and frequency list", cost),)

    def release(self, engine: Engine) -> Collections:
        return engine.all_records(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        """Returns the part of the statement that does not depend on the survey."""
        return {
            SURVEY: self._survey_entry,
            "all_records": {"file": ALL_RECORDS_FILE, "is": "an estimate from the other files"},
        }

    @property
    def _survey_entry(self) -> Statement:
        return {
            "max_degree": self.survey.max_degree,
            "largest_degree": self.largest_degree,
            "epsilon_of_rounds": [decimal_text(epsilon) for epsilon in self.survey.epsilons],
            "noise": "discrete Laplace in each cell, Pr[n] proportional to exp(-epsilon |n|), of "
            "the last round that was made; it has the epsilon of the survey",
            "file": SURVEY_FILE,
        }


@dataclass(frozen=True, repr=False)
class AllRecordsRelease(ListRelease):
    """A released list with a survey: its answers are about ALL records.

    Attributes:
      released: the estimated list of all records, usable as a ``FrequencyList``.
      statement: the guarantee, as in privacy.json.
      bounded: the list of the records that bounding kept; its answers are about these records.
      degrees: the survey, see ``ReleasedDegrees``.
      users_beyond: the noisy number of users with more than kappa partitions, if it was released
        besides the survey.

    Intervals are proved (``all_records_bounds``), over the noise of both releases. The values are
    those of a model, moved into the intervals.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(500) for page in range(user % 3)]
    >>> release = dp.release(visits, user=0, partition=1, epsilon=200)
    >>> release.kappa, release.bounded.released.total, release.released.total
    (2, 499, 499)
    """

    bounded: ListRelease
    degrees: ReleasedDegrees
    users_beyond: UsersBeyond | None

    @classmethod
    def of(
        cls,
        surveyed: SurveyedList,
        statement: Mapping[str, Any] | None = None,
        estimate: FrequencyList | None = None,
    ) -> AllRecordsRelease:
        """Returns the release, from what an engine or a transform has made.

        Args:
          surveyed: the survey and the list.
          statement: the whole statement; by default the entries that follow from the survey, which
            suffice for all answers.
          estimate: the estimated list of all records. It follows from the other arguments; unless
            it is given, computing it takes a second.
        """
        if statement is None:
            statement = surveyed.entries
        if estimate is None:
            estimate = estimate_of(surveyed, statement)
        of_all = ReleasedList(estimate.frequencies, estimate.multiplicities, None, None)
        bounded = ListRelease(surveyed.released, statement)
        degrees, _, users_beyond = surveyed.survey
        return cls(of_all, statement, bounded, degrees, users_beyond)

    @property
    def kappa(self) -> int:
        """Returns the number of partitions in which one user counts in the bounded list."""
        return int(self.statement["max_partitions_per_user"])

    @cached_property
    def survey(self) -> DegreeSurvey:
        """Returns the decoded survey."""
        return decoded_survey(self.degrees, self.statement[SURVEY]["largest_degree"])

    def kept_share(self) -> Estimate:
        """Estimates the part of all pairs (user, partition) that bounding kept, under the model of
        the survey."""
        return self.survey.kept_share(self.kappa)

    @cached_property
    def intervals(self) -> ReleaseIntervals:
        """Returns the proved intervals about all records."""
        bounds = AllRecordsBounds(
            self.bounded.intervals,
            self.degrees,
            self.kappa,
            largest_degree=self.statement[SURVEY]["largest_degree"],
            kappa_from_degrees=self.statement["max_partitions_per_user_is"] == CHOSEN_BY_SURVEY,
            users_beyond=self.users_beyond,
        )
        return AllRecordsIntervals(self.released, bounds)

    @cached_property
    def model(self) -> Answers:
        """Raises a ValueError: about all records, there are proved intervals only."""
        raise ValueError(
            "there are only proved intervals about all records; bounded.model is about those that "
            "bounding kept"
        )

    def page(self, words: Words = NO_WORDS) -> Page:
        from dp_transforms.reports.lists import all_records_page

        return all_records_page(self, words)

    def _tables(self) -> Tables:
        survey = Survey(self.degrees, self.kappa, self.users_beyond)
        surveyed = SurveyedList(survey, self.bounded.released, {})
        return _tables_with(surveyed, self.released, dict(self.statement))

    def _summary(self) -> list[str]:
        (of_all,), (of_kept,) = super()._summary(), self.bounded._summary()
        kept = self.kept_share()
        part = " to ".join(percents(kept.low, kept.high, 1))
        sure = f"{kept.confidence:.0%} under the model"
        return [
            f"All records{of_all_records(self.statement)}: {of_all}",
            f"Kept by bounding ({part} of all, {sure}): {of_kept}",
        ]


def read(saved: SavedRelease) -> AllRecordsRelease:
    """Reads the list, the survey and the estimate."""
    lists, statement = read_lists(saved, FREQUENCIES_FILE, FREQUENCIES_HEADER, COORDINATES_HEADER)
    rows = read_degree_table(saved, SURVEY_FILE, DEGREES_HEADER)[()]
    survey = survey_of_rows(rows, statement)
    estimate = read_list_table(saved, ALL_RECORDS_FILE, FREQUENCIES_HEADER)[()]
    return AllRecordsRelease.of(SurveyedList(survey, lists[()], {}), statement, estimate)


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of a list with a survey."""
    return SURVEY in statement and "lists" not in statement


READER = Reader(FREQUENCIES_FILE, _describes, read)
