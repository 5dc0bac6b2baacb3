"""Compares two released lists, number by number."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.releases.all_records import AllRecordsRelease
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.questions import (
    QUESTIONS,
    Question,
    answers_of,
    difference,
    half,
    names_of,
    question_of,
    questions_to_show,
)
from dp_transforms.releases.tables import PicturedTable
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import (
    GENERAL_NOUNS,
    NO_WORDS,
    Nouns,
    Words,
    drops_records,
    of_all_records,
    some,
)


@dataclass(frozen=True, repr=False)
class Comparison(PicturedTable):
    """A comparison has numbers of two lists, and for each the second number minus the first.
    ``comparison["total"]`` is the estimated difference of the question in these words.

    Attributes:
      lists: the two lists.
      labels: their names.
      questions: the questions asked of both, in words.
      first, second, differences: the answers for each list and for the difference; each interval
        holds with its confidence by itself.
    """

    lists: tuple[ListRelease, ListRelease]
    labels: tuple[str, str]
    questions: tuple[str, ...]
    first: tuple[Estimate, ...]
    second: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]

    def __getitem__(self, question: str) -> Estimate:
        """Returns the difference of a number, such as "rank 1" or "users at rank 1".

        Raises:
          KeyError: it was not compared.
          ValueError: it is no number of a list.
        """
        differences = dict(zip(self.questions, self.differences, strict=True))
        if question not in differences:
            names = names_of(self.lists[0].statement)
            question = question_of(question, names).words.format(**names)
        if question not in differences:
            raise KeyError(f"{question!r} was not compared: numbers are {', '.join(differences)}")
        return differences[question]

    def __iter__(self) -> Iterator[str]:
        return iter(self.questions)

    def __len__(self) -> int:
        return len(self.questions)

    def page(self, words: Words = NO_WORDS) -> Page:
        from dp_transforms.reports.lists import comparison_page

        return comparison_page(self, words)

    @property
    def different_records(self) -> str:
        """Returns words that say which records each list is about; an empty text if both are about
        equally many partitions of each user."""
        return self.different_records_with(GENERAL_NOUNS)

    def different_records_with(self, nouns: Nouns) -> str:
        """Returns ``different_records`` with these nouns for partitions and users."""
        first, second = (_records_of(release, nouns) for release in self.lists)
        if first == second:
            return ""
        return (
            f"{self.labels[0]} is about {first}, {self.labels[1]} about {second}: a part of the "
            "differences may come from this"
        )

    def _below(self) -> list[str]:
        return [self.different_records] if self.different_records else []

    def _figure(self) -> Any:
        from dp_transforms.reports.lists import comparison_figure

        return comparison_figure(self)

    def _columns(self) -> dict[str, Any]:
        return {
            "number": list(self.questions),
            "first": [float(estimate.value) for estimate in self.first],
            "second": [float(estimate.value) for estimate in self.second],
            "difference": [float(estimate.value) for estimate in self.differences],
            "low": [float(estimate.low) for estimate in self.differences],
            "high": [float(estimate.high) for estimate in self.differences],
        }


def _records_of(release: ListRelease, nouns: Nouns) -> str:
    """Returns words on the records that a list is about."""
    if isinstance(release, AllRecordsRelease) or not drops_records(release.statement):
        return f"all records{of_all_records(release.statement, nouns)}"
    kappa = release.statement["max_partitions_per_user"]
    return f"at most {some(kappa, nouns.thing, nouns.things)} of each {nouns.user}"


def compare(
    first: ListRelease,
    second: ListRelease,
    confidence: float = CONFIDENCE,
    labels: tuple[str, str] = ("first", "second"),
    numbers: str | Sequence[str] | None = None,
) -> Comparison:
    """Compares two released lists number by number; ``Releases.series`` compares many.

    Args:
      first, second: releases about the same users or different ones.
      confidence: of the interval of each difference by itself.
      labels: names of the two in pictures and pages.
      numbers: what to compare, such as ["total", "at least 20"]: see ``Releases.series``. Choose it
        without looking at the releases. By default the usual numbers are compared.

    Proof of the intervals. Let the interval of each list fail with probability at most a / 2. If
    both hold, the difference of the numbers before noise is at least the low end of the second
    less the high end of the first, and at most the high end of the second less the low end of the
    first. By the union bound both hold with probability at least 1 - a, however the two noises
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
    if any(isinstance(release, (str, os.PathLike)) for release in (first, second)):
        raise ValueError("compare takes two lists, not paths: dp.load reads a list of a directory")
    if not all(isinstance(release, ListRelease) for release in (first, second)):
        raise ValueError("compare takes two lists, not names, groups or periods")
    if ("degree" in first.statement) != ("degree" in second.statement):
        raise ValueError(
            "compare takes two lists of the same kind, and these are one of users' partitions and "
            "one of degrees of a graph"
        )
    names = names_of(first.statement)
    asked: Sequence[Question] = QUESTIONS
    if numbers is not None:
        several = [numbers] if isinstance(numbers, str) else numbers
        asked = [question_of(number, names) for number in several]
    of_first = answers_of(first, half(confidence), asked)
    of_second = answers_of(second, half(confidence), asked)
    questions = [question for question in asked if question in of_first and question in of_second]
    if numbers is None:
        to_show = {*questions_to_show(of_first), *questions_to_show(of_second)}
        questions = [question for question in questions if question in to_show]
    return Comparison(
        (first, second),
        labels,
        tuple(question.words.format(**names) for question in questions),
        tuple(of_first[question] for question in questions),
        tuple(of_second[question] for question in questions),
        tuple(
            difference(of_first[question], of_second[question], confidence)
            for question in questions
        ),
    )
