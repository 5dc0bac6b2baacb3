"""Defines releases of a list or of names, which answer questions and hold nothing private.

Functions return them, and ``load`` reads them from the directory of a job or of ``save``. Intervals
are for the noise alone, and about the bounded records.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dp_transforms.files.filenames import COUNTS, FREQUENCIES_FILE, PARTITIONS_FILE
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.release_files import Tables, list_tables
from dp_transforms.frames.tables import PicturedTable, Release
from dp_transforms.mechanisms.decimals import Number, positive_integer
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.postprocessing.estimates import (
    CONFIDENCE,
    Answers,
    Estimate,
    ReleaseIntervals,
    failure_probability,
)
from dp_transforms.postprocessing.intervals import intervals_of, model_intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.reports.phrases import some, wording
from dp_transforms.reports.privacy_statement import distribution_of_statement

if TYPE_CHECKING:
    import pyarrow as pa


class Question(NamedTuple):
    """A question pairs words, with ``{things}`` and ``{users}`` to be filled in, with a method of
    ``Answers`` and its arguments."""

    words: str
    method: str
    of: tuple[int, ...] = ()

    def of_list(self, answers: Answers, confidence: float) -> Estimate:
        found: Estimate = getattr(answers, self.method)(*self.of, confidence)
        return found


QUESTIONS = (
    Question("{things}", "number_of_partitions"),
    Question("total", "total"),
    *(
        Question(f"{{things}} with at least {n:,}", "partitions_with_at_least", (n,))
        for n in (10, 100, 1000, 10_000)
    ),
    *(Question(f"{{users}} at rank {n:,}", "frequency_at", (n,)) for n in (1, 10, 100, 1000)),
    *(Question(f"share of the top {n:,}", "share_of_top", (n,)) for n in (10, 100, 1000)),
)
_ALWAYS = 2
"""This many first questions are shown for every list, others where there may be an answer."""


@dataclass(frozen=True, repr=False)
class ListRelease(Release, Answers):
    """A released frequency list tells how many users partitions have, without naming partitions.

    Intervals are proved, and each holds by itself unless a method says otherwise. Choose questions
    without looking at the release.

    Attributes:
      released: the list itself, usable as a ``FrequencyList``.
      statement: the guarantee, as in privacy.json.

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

    page_kind = "list"
    _words = 0
    _file_name = FREQUENCIES_FILE

    released: ReleasedList
    statement: Mapping[str, Any]

    @cached_property
    def intervals(self) -> ReleaseIntervals:
        """Returns the proved intervals from which answers come."""
        if self.released.coordinates is not None:
            return intervals_of(self.released)
        return WalkIntervals(self.released, distribution_of_statement(dict(self.statement)))

    def top(self, k: int, confidence: float = CONFIDENCE) -> list[Estimate]:
        """Estimates the k largest frequencies; all intervals hold together with the confidence."""
        failure = failure_probability(confidence) / positive_integer("k", k)
        if failure < 2**-34:
            raise ValueError(f"k = {k} intervals cannot hold together with confidence {confidence}")
        told = (self.frequency_at(rank, 1 - failure) for rank in range(1, k + 1))
        return [replace(one, confidence=confidence) for one in told]

    def _ends(self, name: str, index: int, value: float, confidence: float) -> tuple[float, float]:
        return self.intervals._ends(name, index, value, confidence)

    def guesswork_bits(self, alpha: Number = "0.5", confidence: float = CONFIDENCE) -> Estimate:
        """Estimates, in bits, how hard it is to guess a part alpha of accounts whose passwords are
        the partitions: see ``guessing_metrics.alpha_guesswork_bits``."""
        return self.intervals.alpha_guesswork_bits(alpha, confidence)

    alpha_guesswork_bits = guesswork_bits

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
          by_model: take the intervals of ``model``.
          things, users: names of partitions and users in the keys.
        """
        asked = _asked(self, confidence)
        told = _asked(self.model, confidence) if by_model else asked
        names = names_of(self.statement, things, users)
        return {one.words.format(**names): told[one] for one in _shown(asked)}

    @cached_property
    def model(self) -> Answers:
        """Answers with shorter intervals, which are not proved: they are as good as the decoder's
        model of lists. Raises a ValueError if the list has no noisy coordinates."""
        return model_intervals_of(self.released)

    def plot(
        self, path: str | os.PathLike[str] | None = None, confidence: float = CONFIDENCE
    ) -> Any:
        """Draws frequencies by rank, with error bars that all hold together, and writes the image
        to ``path``, if it is given; returns the ``matplotlib`` figure.

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
        publish({directory: self}, overwrite)

    def _tables(self) -> Tables:
        return list_tables([self.released])

    def _known(self) -> ReleaseIntervals | None:
        with contextlib.suppress(ValueError):  # if public bounds have narrowed the list
            return self.intervals
        return None

    def _columns(self) -> dict[str, Any]:
        """Returns a row for each run of ranks with equal numbers; the bounds hold together."""
        facts = self._known()
        lists = [self.released, *(facts.bands(CONFIDENCE) if facts else ())]
        ends = np.concatenate([one.multiplicities.cumsum() for one in lists])
        ends = np.unique(np.minimum(ends, self.released.distinct))
        ends = ends[ends > 0]
        partitions = np.diff(ends, prepend=0)
        columns = {
            name: one.at_ranks(ends)
            for name, one in zip(("frequency", "low", "high"), lists, strict=False)
        }
        return {"rank": ends - partitions + 1, **columns, "partitions": partitions}

    def _summary(self) -> list[str]:
        things = names_of(self.statement)["things"]
        if self._known() is None:
            return [f"{self.released.distinct:,} {things}, total {self.released.total:,}"]
        return [f"{things}: {self.number_of_partitions()}; total: {self.total()}"]


@dataclass(frozen=True, repr=False)
class NamesRelease(Release):
    """A release of names holds partitions, perhaps with noisy counts of their users.

    Attributes:
      names: a ``pyarrow.Table`` of the partitions' columns and, with counts, ``noisy_count`` and
        the ends ``low`` and ``high`` of an interval for the number of users. Each interval holds
        with 95% confidence by itself, given that its partition is named.
      statement: the guarantee, as in privacy.json.
    """

    page_kind = "names"
    _file_name = PARTITIONS_FILE

    names: pa.Table
    statement: Mapping[str, Any]

    @property
    def _words(self) -> int:  # type: ignore[override]  # it depends on the table
        counts = len(COUNTS) if self.statement["noisy_counts"] else 0
        return int(self.names.num_columns) - counts

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the names and privacy.json, as the job does: see ``ListRelease.save``."""
        publish({directory: self}, overwrite)

    def _tables(self) -> Tables:
        from dp_transforms.files.partition_file import names_content

        return {PARTITIONS_FILE: names_content(self.names, self.statement)}

    def _columns(self) -> dict[str, Any]:
        return {name: self.names[name] for name in self.names.column_names}

    def _summary(self) -> list[str]:
        return [some(self.names.num_rows, "name")]

    def __len__(self) -> int:
        return int(self.names.num_rows)


@dataclass(frozen=True, repr=False)
class Comparison(PicturedTable):
    """A comparison shows numbers of two lists, and the second number minus the first.

    Attributes:
      lists: the two lists.
      labels: their names.
      questions: the questions asked of both, in words.
      first, second, differences: the answers for each list and for the difference; each interval
        holds with its confidence by itself.
    """

    page_kind = "comparison"

    lists: tuple[ListRelease, ListRelease]
    labels: tuple[str, str]
    questions: tuple[str, ...]
    first: tuple[Estimate, ...]
    second: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]

    def _columns(self) -> dict[str, Any]:
        return {
            "number": list(self.questions),
            "first": [float(one.value) for one in self.first],
            "second": [float(one.value) for one in self.second],
            "difference": [float(one.value) for one in self.differences],
            "low": [float(one.low) for one in self.differences],
            "high": [float(one.high) for one in self.differences],
        }


def compare(
    first: ListRelease,
    second: ListRelease,
    confidence: float = CONFIDENCE,
    labels: tuple[str, str] = ("first", "second"),
) -> Comparison:
    """Compares two released lists number by number; ``Releases.series`` compares many.

    Args:
      first, second: releases about the same users or different ones.
      confidence: of the interval of each difference by itself.
      labels: names of the two in pictures and pages.

    Proof of the intervals. Let that of each list fail with probability at most a / 2. Where both
    hold, the difference of the true numbers is at least the low end of the second less the high end
    of the first, and at most the converse: so it is with probability 1 - a, however the two noises
    depend on each other. QED.

    Raises:
      ValueError: see ``ListRelease``.

    >>> import dp_transforms as dp
    >>> monday, tuesday = (
    ...     dp.release_counts([users, 1], epsilon=50, max_partitions_per_user=1)
    ...     for users in (20, 50)
    ... )
    >>> dp.compare(monday, tuesday).to_arrow().to_pylist()[1]["difference"]
    30.0
    """
    if not all(isinstance(one, ListRelease) for one in (first, second)):
        raise ValueError("compare takes two lists, not names, groups or periods")
    told = [_asked(one, half(confidence)) for one in (first, second)]
    shown = {*_shown(told[0]), *_shown(told[1])}
    asked = [one for one in QUESTIONS if one in shown and all(one in each for each in told)]
    words = tuple(one.words.format(**names_of(first.statement)) for one in asked)
    ones, twos = (tuple(each[one] for one in asked) for each in told)
    differences = (difference(*pair, confidence) for pair in zip(ones, twos, strict=True))
    return Comparison((first, second), labels, words, ones, twos, tuple(differences))


def publish(releases: Mapping[str | os.PathLike[str], Any], overwrite: bool) -> None:
    """Writes the files of jobs into directories, which are all checked before; errors name Python
    arguments, not flags."""
    try:
        places = [
            ReleaseDirectory(os.fspath(directory), one._file_name, overwrite)
            for directory, one in releases.items()
        ]
        for place in places:
            place.check()
        for place, one in zip(places, releases.values(), strict=True):
            place.publish(one._tables, dict(one.statement))
    except ValueError as error:
        told = str(error).replace("--overwrite", "overwrite=True").replace("--output", "directory")
        raise ValueError(told) from None


def names_of(
    statement: Mapping[str, Any], things: str | None = None, users: str | None = None
) -> dict[str, str]:
    """Returns the caller's words for partitions and users, or the default ones."""
    default = ("nodes", "edges") if "degree" in statement else ("partitions", "users")
    return {"things": things or default[0], "users": users or default[1]}


def half(confidence: float) -> float:
    """Returns the confidence at which two intervals must be taken to hold together with this."""
    return 1 - failure_probability(confidence) / 2


def difference(one: Estimate, two: Estimate, confidence: float) -> Estimate:
    """Subtracts the first from the second, whose intervals each have confidence ``half``."""
    low, high = two.low - one.high, two.high - one.low
    return replace(one, value=two.value - one.value, low=low, high=high, confidence=confidence)


def _asked(answers: Answers, confidence: float) -> dict[Question, Estimate]:
    """Answers all questions, but for shares of an empty list."""
    some = len(answers.released) > 0
    return {
        one: one.of_list(answers, confidence)
        for one in QUESTIONS
        if some or one.method != "share_of_top"
    }


def _shown(asked: Mapping[Question, Estimate]) -> list[Question]:
    """Returns the questions to show: the first ones, and those about ranks that may exist."""
    ranks = {one.of: told for one, told in asked.items() if one.method == "frequency_at"}
    return [
        one
        for place, (one, told) in enumerate(asked.items())
        if place < _ALWAYS or (ranks[one.of] if one.method == "share_of_top" else told).high > 0
    ]
