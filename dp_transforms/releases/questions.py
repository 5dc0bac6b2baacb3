"""Asks the usual questions of released lists, in words that name partitions and users."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.postprocessing.estimates import Answers, Estimate, failure_probability


class Question(NamedTuple):
    """A question pairs words, with ``{things}`` and ``{users}`` to be filled in, with a method of
    ``Answers`` and its arguments."""

    words: str
    method: str
    of: tuple[int, ...] = ()

    def of_list(self, answers: Answers, confidence: float) -> Estimate:
        answer: Estimate = getattr(answers, self.method)(*self.of, confidence)
        return answer


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
USERS, VALUES, ENTROPY_BITS, UNIQUE = "users", "values", "Shannon entropy (bits)", "unique"
IDENTIFYING = (
    Question(USERS, "total"),
    Question(VALUES, "number_of_partitions"),
    Question(ENTROPY_BITS, "shannon_entropy"),
    Question("normalized entropy", "normalized_entropy"),
    Question("min-entropy (bits)", "min_entropy"),
    Question("Tsallis entropy", "tsallis_entropy"),
    Question(UNIQUE, "share_unique"),
    *(Question(f"in sets below {n:,}", "share_in_small_partitions", (n,)) for n in (10, 100)),
)
"""Questions on how identifying an attribute is whose values are the partitions."""
_ALWAYS = 2
"""This many first questions are shown for every list, others where there may be an answer."""


_FORMS = (
    (r"(?:{things} with )?at least", "{{things}} with at least {n:,}", "partitions_with_at_least"),
    (r"(?:{users} at )?rank", "{{users}} at rank {n:,}", "frequency_at"),
    (r"(?:share of the )?top", "share of the top {n:,}", "share_of_top"),
)
"""Questions about a number n: how they may be written before it, their words, and the method."""
_LARGEST = 18  # digits


def question_of(text: str, names: Mapping[str, str]) -> Question:
    """Returns the question that a text asks: "partitions", "total", "at least 20", "rank 3", "top
    5", or the whole words of ``QUESTIONS``; a ValueError for any other one.

    >>> question_of("at least 1,500", names_of({})).of
    (1500,)
    """
    if isinstance(text, str):
        for question in QUESTIONS[:_ALWAYS]:
            if text == question.words.format(**names):
                return question
        for form, words, method in _FORMS:
            before = form.format(**{name: re.escape(word) for name, word in names.items()})
            match = re.fullmatch(rf"{before} ([\d,]+)", text, re.ASCII)
            digits = match[1].replace(",", "") if match else ""
            if digits and len(digits) <= _LARGEST and int(digits):
                return Question(words.format(n=int(digits)), method, (int(digits),))
    raise ValueError(
        f"a number must be {names['things']!r}, 'total', 'at least N', 'rank N' or 'top N', with N "
        f"from 1, got {shown(text)}"
    )


def names_of(
    statement: Mapping[str, Any], things: str | None = None, users: str | None = None
) -> dict[str, str]:
    """Returns the caller's words for partitions and users, or the default ones."""
    default = ("nodes", "edges") if "degree" in statement else ("partitions", "users")
    return {"things": things or default[0], "users": users or default[1]}


def half(confidence: float) -> float:
    """Returns the confidence at which two intervals must be taken to hold together with this."""
    return 1 - failure_probability(confidence) / 2


def difference(first: Estimate, second: Estimate, confidence: float) -> Estimate:
    """Returns the second number minus the first. Its interval has this confidence if those of both
    numbers have the confidence ``half(confidence)``."""
    return replace(
        first,
        value=second.value - first.value,
        low=second.low - first.high,
        high=second.high - first.low,
        confidence=confidence,
    )


def answers_of(
    answers: Answers, confidence: float, questions: Iterable[Question] = QUESTIONS
) -> dict[Question, Estimate]:
    """Answers questions, but for shares of an empty list."""
    is_empty = len(answers.released) == 0
    return {
        question: question.of_list(answers, confidence)
        for question in questions
        if not (is_empty and question.method == "share_of_top")
    }


def identifiability_of(answers: Answers, confidence: float) -> dict[str, Estimate]:
    """Answers the questions of ``IDENTIFYING``, by their words. The min-entropy of an empty list is
    any: nothing is known of it."""
    numbers = {}
    for question in IDENTIFYING:
        if question.method == "min_entropy" and not len(answers.released):
            numbers[question.words] = Estimate(0.0, 0.0, math.inf, confidence)
        else:
            numbers[question.words] = question.of_list(answers, confidence)
    return numbers


def questions_to_show(answers: Mapping[Question, Estimate]) -> list[Question]:
    """Returns the questions to show: the first ones, and those about ranks that may exist."""
    at_rank = {
        question.of: answer
        for question, answer in answers.items()
        if question.method == "frequency_at"
    }
    return [
        question
        for place, (question, answer) in enumerate(answers.items())
        if place < _ALWAYS
        or (at_rank[question.of] if question.method == "share_of_top" else answer).high > 0
    ]
