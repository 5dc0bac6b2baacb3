"""Holds what all kinds of releases with surveys share: surveys, their lists, and their statements.

A survey says how many users have how many partitions. It is released before a list of bounded
records, and the estimated list of all records follows from both (``all_records``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dp_transforms.files.filenames import DEGREES_HEADER
from dp_transforms.files.release_files import SavedRelease, parse_rows
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.user_degrees import ReleasedDegrees
from dp_transforms.mechanisms.users_beyond import UsersBeyond
from dp_transforms.postprocessing.decoded_surveys import decoded_survey
from dp_transforms.releases.base import Statement, amount_entries
from dp_transforms.releases.lists import COORDINATES_KEY
from dp_transforms.reports.entries import CHOSEN_BY_SURVEY, SURVEY

BEYOND = "users_beyond_the_bound"
"""The entry of a statement about users with more than kappa partitions."""


class Survey(NamedTuple):
    """What is released about users before their records are bounded.

    Attributes:
      degrees: how many users have how many partitions.
      kappa: the bound, declared or chosen by the degrees.
      users_beyond: how many users have more than kappa partitions. It is None if it was not
        released: the survey tells it well enough, or it is public that there are none.
    """

    degrees: ReleasedDegrees
    kappa: int
    users_beyond: UsersBeyond | None


class SurveyedList(NamedTuple):
    """A survey and the list that followed it, as an engine makes them.

    Attributes:
      survey: what was released before the list.
      released: the list of the records that bounding kept.
      entries: the part of the statement that follows from the survey.
    """

    survey: Survey
    released: ReleasedList
    entries: Statement


def estimate_of(surveyed: SurveyedList, statement: Mapping[str, Any]) -> FrequencyList:
    """Returns the estimated list of all records."""
    from dp_transforms.postprocessing.all_records import estimate_all_records

    degrees, kappa, _ = surveyed.survey
    survey = decoded_survey(degrees, statement[SURVEY]["largest_degree"])
    return estimate_all_records(surveyed.released, kappa, survey)


def before_survey(statement: Mapping[str, Any]) -> Statement:
    """Returns the entries of a statement that do not follow from its survey. They are those that
    all of several releases share, if each has a survey. A statement without a survey is returned
    as it is."""
    if SURVEY not in statement:
        return dict(statement)
    follows = {*_FOLLOWS}
    if statement["max_partitions_per_user_is"] == CHOSEN_BY_SURVEY:
        follows.add("max_partitions_per_user")
    shared = {name: value for name, value in statement.items() if name not in follows}
    survey = dict(statement[SURVEY])
    for name in amount_entries("epsilon", Fraction(1)):
        survey.pop(name, None)
    return shared | {SURVEY: survey}


_FOLLOWS = (
    "mechanism",
    "sensitivity",
    "rate",
    "rate_exact",
    "base_2",
    COORDINATES_KEY,
    BEYOND,
    "list",
)
"""The entries of a statement that follow from its survey, besides kappa if it was chosen."""


def read_degree_table(
    saved: SavedRelease, file_name: str, header: Sequence[str]
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Reads how many users have how many partitions, as pairs of (smallest degree, users), by
    (attribute, group). A file without these columns has one survey, and its key is ()."""
    return saved.table(file_name, functools.partial(_parse_degrees, header=header))


def _parse_degrees(
    content: bytes, header: Sequence[str]
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    rows_of: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    if tuple(header) == DEGREES_HEADER:
        rows_of[()] = []
    for *label, lowest, users in parse_rows(content, header):
        rows_of.setdefault(tuple(label), []).append((int(lowest), int(users)))
    for rows in rows_of.values():
        degrees = [lowest for lowest, _ in rows]
        if degrees != sorted({1, *degrees}):
            raise ValueError("degrees must ascend from 1")
    return rows_of


def survey_of_rows(rows: Sequence[tuple[int, int]], statement: Mapping[str, Any]) -> Survey:
    """Returns the survey with the rows of a file, of (smallest degree, users), and the statement of
    its list."""
    lowest, users = zip(*rows, strict=True)
    entry = statement[SURVEY]
    rounds = len(entry["epsilon_of_rounds"])
    degrees = ReleasedDegrees(lowest, users, float(entry["epsilon"]), rounds)
    users_beyond = None
    if BEYOND in statement:
        of_beyond = statement[BEYOND]
        users_beyond = UsersBeyond(int(of_beyond["noisy_users"]), float(of_beyond["epsilon"]))
    return Survey(degrees, int(statement["max_partitions_per_user"]), users_beyond)
