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
    """A question about a list, and the method that answers it.

    Attributes:
      words: the question, with ``{things}`` and ``{users}`` to be filled in.
      method: the name of a method of ``Answers``.
      of: the arguments of the method that come before the confidence.
    """

    words: str
    method: str
    of: tuple[int, ...] = ()

    def of_list(self, answers: Answers, confidence: float) -> Estimate:
        """Returns the answer for one list."""
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
NORMALIZED_ENTROPY, TSALLIS_ENTROPY = "normalized entropy", "Tsallis entropy"
MIN_ENTROPY_BITS = "min-entropy (bits)"


def in_sets_below(users: int) -> str:
    """Returns the words for the part of users whose value fewer than so many users share."""
    return f"in sets below {users:,}"


IDENTIFYING = (
    Question(USERS, "total"),
    Question(VALUES, "number_of_partitions"),
    Question(ENTROPY_BITS, "shannon_entropy"),
    Question(NORMALIZED_ENTROPY, "normalized_entropy"),
    Question(MIN_ENTROPY_BITS, "min_entropy"),
    Question(TSALLIS_ENTROPY, "tsallis_entropy"),
    Question(UNIQUE, "share_unique"),
    *(Question(in_sets_below(n), "share_in_small_partitions", (n,)) for n in (10, 100)),
)
"""Questions on how identifying an attribute is. Its values are the partitions."""
_ALWAYS = 2
"""The number of questions, from the first on, that are shown for every list. The other questions
are shown if they may have an answer."""


_FORMS = (
    (r"(?:{things} with )?at least", "{{things}} with at least {n:,}", "partitions_with_at_least"),
    (r"(?:{users} at )?rank", "{{users}} at rank {n:,}", "frequency_at"),
    (r"(?:share of the )?top", "share of the top {n:,}", "share_of_top"),
)
"""Questions about a number n: a pattern of the words that may stand before the number, the words of
the question, and its method."""
_MOST_DIGITS = 18  # of the number in a question


def question_of(text: str, names: Mapping[str, str]) -> Question:
    """Returns the question that a text asks: "partitions", "total", "at least 20", "rank 3", "top
    5", or the whole words of ``QUESTIONS``. Raises a ValueError for any other text.

    >>> question_of("at least 1,500", names_of({})).of
    (1500,)
    """
    if isinstance(text, str):
        for question in QUESTIONS[:_ALWAYS]:
            if text == question.words.format(**names):
                return question
        escaped = {name: re.escape(word) for name, word in names.items()}
        for form, words, method in _FORMS:
            match = re.fullmatch(rf"{form.format(**escaped)} ([\d,]+)", text, re.ASCII)
            digits = match[1].replace(",", "") if match else ""
            if digits and len(digits) <= _MOST_DIGITS and int(digits):
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
    """Returns the confidence that each of two intervals needs, so that both hold together with the
    given confidence: each may fail with half of the probability."""
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
    """Returns the answers to questions. An empty list has no answers about shares."""
    is_empty = len(answers.released) == 0
    return {
        question: question.of_list(answers, confidence)
        for question in questions
        if not (is_empty and question.method == "share_of_top")
    }


def identifiability_of(answers: Answers, confidence: float) -> dict[str, Estimate]:
    """Returns the answers to the questions of ``IDENTIFYING``, by their words. The min-entropy of
    an empty list is unknown, so its interval has no upper end."""
    numbers = {}
    for question in IDENTIFYING:
        if question.method == "min_entropy" and not len(answers.released):
            numbers[question.words] = Estimate(0.0, 0.0, math.inf, confidence)
        else:
            numbers[question.words] = question.of_list(answers, confidence)
    return numbers


def questions_to_show(answers: Mapping[Question, Estimate]) -> list[Question]:
    """Returns the questions to show: the first ones, and those whose answer may be above zero. The
    share of the top n is shown if there may be a partition at rank n."""
    at_rank = {
        question.of: answer
        for question, answer in answers.items()
        if question.method == "frequency_at"
    }
    shown = []
    for place, (question, answer) in enumerate(answers.items()):
        deciding = at_rank[question.of] if question.method == "share_of_top" else answer
        if place < _ALWAYS or deciding.high > 0:
            shown.append(question)
    return shown
