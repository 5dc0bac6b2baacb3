"""Asks the usual questions of released lists, in words that name partitions and users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

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
_ALWAYS = 2
"""This many first questions are shown for every list, others where there may be an answer."""


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
    """Subtracts the first from the second, whose intervals each have confidence ``half``."""
    return replace(
        first,
        value=second.value - first.value,
        low=second.low - first.high,
        high=second.high - first.low,
        confidence=confidence,
    )


def answers_of(answers: Answers, confidence: float) -> dict[Question, Estimate]:
    """Answers all questions, but for shares of an empty list."""
    is_empty = len(answers.released) == 0
    return {
        question: question.of_list(answers, confidence)
        for question in QUESTIONS
        if not (is_empty and question.method == "share_of_top")
    }


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
