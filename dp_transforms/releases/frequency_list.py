"""Releases a frequency list: how many users partitions have, without their names.

Functions return a ``ListRelease``, and ``load`` reads it from the directory of a job or of
``save``. It holds nothing private. Its intervals allow for the noise alone, and are about the
records that bounding kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import COORDINATES_HEADER, FREQUENCIES_FILE, FREQUENCIES_HEADER
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.postprocessing.declared import Declared, DeclaredIntervals, DeclaredModel
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    SUM,
    TOTAL,
    Answers,
    Estimate,
    ReleaseIntervals,
    failure_probability,
    number_of,
)
from dp_transforms.postprocessing.intervals import intervals_of, model_intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.releases.base import (
    NEIGHBOURS,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    bound_entries,
)
from dp_transforms.releases.lists import (
    distribution_of_statement,
    list_guarantee,
    list_tables,
    price_of,
    read_lists,
)
from dp_transforms.releases.questions import (
    answers_of,
    identifiability_of,
    names_of,
    questions_to_show,
)
from dp_transforms.releases.tables import Release, publish
from dp_transforms.reports.entries import SURVEY
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import (
    NO_WORDS,
    Words,
    amount,
    bound_words,
    guarantee_words,
    mechanism_words,
    span_of,
    wording,
)

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine


@dataclass(frozen=True)
class ListSpec(ReleaseSpec):
    """Specifies a frequency list, with at most ``mechanism.sensitivity`` partitions per user."""

    tables = ReleasedTables(FREQUENCIES_FILE, list_tables)

    mechanism: PartitionMechanism

    @property
    def requests(self) -> tuple[Request, ...]:
        cost = Cost(price_of(self.mechanism), self.mechanism.loss_range)
        return (Request("frequency list", cost),)

    def release(self, engine: Engine) -> Collections:
        return engine.frequency_list(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        bound = bound_entries(self.mechanism.sensitivity, bounded_by_job)
        return list_guarantee(self.mechanism, NEIGHBOURS, bound)


@dataclass(frozen=True, repr=False)
class ListRelease(Release, Answers):
    """A released frequency list says how many users partitions have, without naming partitions.

    Intervals are proved, and each holds by itself unless a method says otherwise. Choose questions
    without looking at the release.

    Attributes:
      released: the list itself, usable as a ``FrequencyList``.
      statement: the guarantee, as in privacy.json.
      named: the list of the estimated users of names that were released too, if there are any. No
        upper end of an interval is below the number of this list.
      as_drawn: the list before it was raised where names prove it too low; None if it was not
        raised. Proved intervals are about the mechanism's noise, so they follow from this list.

    Raises:
      ValueError: a confidence is not between 0 and 1, a rank or number is below 1, or public bounds
        have narrowed a release of the exponential mechanism.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(500) for page in range(user % 3)]
    >>> release = dp.release(
    ...     visits, user=0, partition=1, epsilon=100, max_partitions_per_user=2
    ... )
    >>> print(release.partitions_with_at_least(200))
    1 (1 to 1, 95% confidence)
    """

    _words = 0
    _file_name = FREQUENCIES_FILE

    released: ReleasedList
    statement: Mapping[str, Any]
    named: FrequencyList | None = field(default=None, kw_only=True)
    as_drawn: ReleasedList | None = field(default=None, kw_only=True)

    @property
    def _drawn(self) -> ReleasedList:
        return self.released if self.as_drawn is None else self.as_drawn

    @cached_property
    def intervals(self) -> ReleaseIntervals:
        """Returns the proved intervals from which answers come. They are cut to what was declared
        about the data."""
        intervals: ReleaseIntervals
        if self._drawn.coordinates is not None:
            intervals = intervals_of(self._drawn)
        else:
            distribution = distribution_of_statement(dict(self.statement))
            intervals = WalkIntervals(self._drawn, distribution)
        declared = self._declared
        return intervals if declared is None else DeclaredIntervals(intervals, declared)

    @property
    def _declared(self) -> Declared | None:
        """Returns what was declared about the data, or enforced; None if nothing was."""
        declared = {
            name: self.statement[name] for name in Declared._fields if name in self.statement
        }
        return Declared(**declared) if declared else None

    @property
    def why_without_intervals(self) -> str:
        """Returns why the list has no intervals: public bounds have narrowed it. An empty text if
        it has intervals."""
        try:
            _ = self.intervals
        except ValueError as error:
            return str(error)
        return ""

    @property
    def contradiction(self) -> str:
        """Returns a warning if the release shows that a declared number of nodes, or a declared
        largest total, is false; otherwise an empty text. Answers are then cut to the declared
        number, and are not those of the data."""
        intervals = self._known()
        if not isinstance(intervals, DeclaredIntervals) or not intervals.contradicts:
            return ""
        what = "nodes" if "nodes" in self.statement else "max_total"
        return (
            f"The release contradicts the declared {what} of {self.statement[what]:,}, to which it "
            "is cut: its numbers are not those of the data. Declare what is true, or nothing."
        )

    def top(self, k: int, confidence: float = CONFIDENCE) -> list[Estimate]:
        """Estimates the k largest frequencies; all intervals hold together with the confidence.

        Raises:
          ValueError: so many intervals cannot hold together with the confidence.
        """
        failure = failure_probability(confidence) / positive_integer("k", k)
        if failure < 2**-34:
            raise ValueError(f"k = {k} intervals cannot hold together with confidence {confidence}")
        estimates = (self.frequency_at(rank, 1 - failure) for rank in range(1, k + 1))
        return [replace(estimate, confidence=confidence) for estimate in estimates]

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        if self.as_drawn is not None:
            value = number_of(self.as_drawn, name, index)
        low, high = self.intervals._ends(name, index, value, confidence)
        if self.named is not None and name in (TOTAL, SUM, ROWS, COLUMNS):
            high = max(high, number_of(self.named, name, index))
        return low, high

    def guesswork_bits(self, alpha: Number = "0.5", confidence: float = CONFIDENCE) -> Estimate:
        """Estimates, in bits, how hard it is to guess a part alpha of accounts whose passwords are
        the partitions: see ``guessing_metrics.alpha_guesswork_bits``."""
        return self.intervals.alpha_guesswork_bits(alpha, confidence)

    alpha_guesswork_bits = guesswork_bits  # The name in ``Answers``, where alpha has no default.

    def numbers(
        self,
        confidence: float = CONFIDENCE,
        *,
        by_model: bool = False,
        things: str | None = None,
        users: str | None = None,
    ) -> dict[str, Estimate]:
        """Estimates the usual numbers of a list, with their names in words as keys.

        Args:
          confidence: of each interval by itself.
          by_model: take the intervals of ``model``, which may raise an error.
          things, users: names of partitions and users in the keys.
        """
        proved = answers_of(self, confidence)
        answers = answers_of(self.model, confidence) if by_model else proved
        names = names_of(self.statement, things, users)
        return {
            question.words.format(**names): answers[question]
            for question in questions_to_show(proved)
        }

    def identifiability(self, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """Estimates how identifying an attribute of users is. Its values are the partitions.

        Keys are "users", "values", "Shannon entropy (bits)", "normalized entropy" (by the logarithm
        of the number of users), "min-entropy (bits)", "Tsallis entropy" (of order 2); and the
        shares of users whose value is "unique" or "in sets below 10" or 100 users.

        Args:
          confidence: of each interval by itself.
        """
        return identifiability_of(self, confidence)

    @cached_property
    def model(self) -> Answers:
        """Returns answers with shorter intervals. These are not proved: they are only as good as
        the decoder's model of lists. Raises a ValueError if the list has no noisy coordinates."""
        model, declared = model_intervals_of(self._drawn), self._declared
        return model if declared is None else DeclaredModel(model, declared)

    def plot(
        self, path: str | os.PathLike[str] | None = None, confidence: float = CONFIDENCE
    ) -> Any:
        """Draws frequencies by rank, with error bars that all hold together. Writes the image to
        ``path``, if it is given, and returns the ``matplotlib`` figure.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
        """
        from dp_transforms.reports import lists

        users = wording(dict(self.statement)).users
        return lists.plot_list(self.released, path, confidence, self._known(), users)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the list, noisy coordinates and privacy.json, as a job does: all files or none.

        Raises:
          ValueError: the directory cannot be written, or has a release and ``overwrite`` is false.
        """
        publish(directory, self, overwrite)

    def page(self, words: Words = NO_WORDS) -> Page:
        from dp_transforms.reports.lists import list_page

        return list_page(self, words)

    def statement_words(self) -> list[str]:
        return statement_words(self.statement)

    def _tables(self) -> Tables:
        return list_tables([self.released], self.statement)

    def _known(self) -> ReleaseIntervals | None:
        """Returns the proved intervals. None if there are none, because public bounds have narrowed
        the list."""
        return None if self.why_without_intervals else self.intervals

    def _columns(self) -> Statement:
        """Returns a row for each run of ranks with equal numbers and equal intervals. The intervals
        hold together. If everything that is known about the list rules out a released number, its
        interval is widened to contain it: a wider interval holds more often."""
        intervals = self._known()
        lists: dict[str, FrequencyList] = {"frequency": self.released}
        if intervals:
            lists["low"], lists["high"] = intervals.bands(CONFIDENCE)
        last_ranks = np.concatenate([each.multiplicities.cumsum() for each in lists.values()])
        last_ranks = np.unique(np.minimum(last_ranks, self.released.distinct))
        last_ranks = last_ranks[last_ranks > 0]
        partitions = np.diff(last_ranks, prepend=0)
        columns = {name: each.at_ranks(last_ranks) for name, each in lists.items()}
        if intervals:
            columns["low"] = np.minimum(columns["low"], columns["frequency"])
            columns["high"] = np.maximum(columns["high"], columns["frequency"])
        return {"rank": last_ranks - partitions + 1, **columns, "partitions": partitions}

    def _summary(self) -> list[str]:
        things = names_of(self.statement)["things"]
        if self._known() is None:
            return [f"{self.released.distinct:,} {things}, total {self.released.total:,}"]
        lines = [f"{things}: {self.number_of_partitions()}; total: {self.total()}"]
        degree_bound = self.statement.get("degree_bound")
        if degree_bound is not None:
            lines.append(
                f"{things} at the bound of {degree_bound} edges: "
                f"{self.partitions_with_at_least(degree_bound)}; further edges of theirs were "
                f"dropped, so the whole graph has at least what this list says"
            )
        if self.contradiction:
            lines.append(self.contradiction)
        return lines


def statement_words(statement: Mapping[str, Any]) -> list[str]:
    """Returns the privacy.json of a list, or of lists of periods, in words: paragraphs that a
    publisher can paste.

    >>> statement_words({"epsilon": 1.0, "neighbours": "add or remove one user",
    ...     "mechanism": "noise", "max_partitions_per_user": 1,
    ...     "max_partitions_per_user_is": "enforced"})[1]
    'Each user counts in at most 1 partition, chosen at random; the job that made this release ...'
    """
    what = f"This {'degree' if 'degree' in statement else 'frequency'} list was released"
    epsilon = statement["epsilon"]
    if "periods" in statement and "period" not in statement:  # the statement is of all periods
        what = "These frequency lists were released"
        epsilon = statement["periods"]["epsilon_of_all"]
    about = "users" if statement.get("privacy_unit", "user") == "user" else "graph"
    return [
        guarantee_words(what, epsilon, statement),
        bound_words(statement) + _period_words(statement),
        mechanism_words([statement["mechanism"]], about),
    ]


def _period_words(statement: Mapping[str, Any]) -> str:
    if "periods" not in statement:
        return ""
    periods, period = statement["periods"], statement.get("period")
    about_others = ""
    if SURVEY in statement:
        about_others = (
            f" If a user has records in more {periods['of']}s, the records of the other "
            f"{periods['of']}s are in no list, and in no number about all records."
        )
    which = f"This is the list of {period}; there is a list" if period else "These are the lists"
    return (
        f" {which} of {span_of(periods)}. The bound on partitions is for each list. A user counts "
        f"in at most {periods['max_periods_per_user']} of these lists, chosen at random, so all "
        f"lists together cost epsilon = {amount(periods['epsilon_of_all'])}.{about_others}"
    )


def read(saved: SavedRelease) -> ListRelease:
    """Reads the list."""
    lists, statement = read_lists(saved, FREQUENCIES_FILE, FREQUENCIES_HEADER, COORDINATES_HEADER)
    return ListRelease(lists[()], statement)
