"""Releases how many users have how many partitions. ``choose_kappa`` decides by these numbers."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import DEGREES_FILE, DEGREES_HEADER
from dp_transforms.files.output import CsvTable
from dp_transforms.files.paths import local_path
from dp_transforms.files.release_files import SavedRelease, as_malformed
from dp_transforms.mechanisms.decimals import Number
from dp_transforms.mechanisms.user_degrees import MAX_DEGREE, ReleasedDegrees, UserDegreeMechanism
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
    set_positive_integers,
)
from dp_transforms.releases.surveys import read_degree_table
from dp_transforms.releases.tables import Release, publish
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import NO_WORDS, Words, guarantee_words, mechanism_words

if TYPE_CHECKING:
    from dp_transforms.engines.base import Collections, Engine
    from dp_transforms.postprocessing.kappa_choice import KappaChoice


def degree_tables(released: Iterable[ReleasedDegrees], _: Statement) -> Tables:
    """Returns the table of how many users have how many partitions.

    >>> degree_tables([ReleasedDegrees((1, 2), (40, -3), 1.0)], {})
    {'released_user_degrees.csv': CsvTable(header=('partitions_from', 'users'), rows=[(1, 40), ...
    """
    (degrees,) = released
    rows = list(zip(degrees.lowest, degrees.users, strict=True))
    return {DEGREES_FILE: CsvTable(DEGREES_HEADER, rows)}


MECHANISM = "histogram of users by their numbers of partitions, discrete Laplace noise"


@dataclass(frozen=True)
class UserDegreesSpec(ReleaseSpec):
    """Specifies the numbers of users by how many partitions they have. Arguments and errors are
    those of ``ReleaseUserDegrees``."""

    tables = ReleasedTables(DEGREES_FILE, degree_tables)

    epsilon: Number
    max_degree: int = MAX_DEGREE

    def __post_init__(self) -> None:
        set_positive_integers(self, "max_degree")
        _ = self.mechanism

    @functools.cached_property
    def mechanism(self) -> UserDegreeMechanism:
        return UserDegreeMechanism(self.epsilon, self.max_degree)

    @property
    def requests(self) -> tuple[Request, ...]:
        return (Request("partitions per user", Cost(PrivacyBudget(self.epsilon))),)

    def release(self, engine: Engine) -> Collections:
        return engine.user_degrees(self)

    def guarantee(self, bounded_by_job: bool) -> Statement:
        return {
            "mechanism": MECHANISM,
            **amount_entries("epsilon", PrivacyBudget(self.epsilon).epsilon),
            "delta": 0,
            "neighbours": NEIGHBOURS,
            "max_degree": self.max_degree,
            "sensitivity": 1,
            "sensitivity_norm": "L1 distance of histograms",
        }


@dataclass(frozen=True, repr=False)
class DegreesOfUsers(Release):
    """The released numbers of users by how many partitions they have. Kappa can be chosen by them.

    Attributes:
      degrees: the noisy numbers, see ``ReleasedDegrees``; they may be negative.
      statement: the guarantee, as in privacy.json.
    """

    _words = 0
    _file_name = DEGREES_FILE

    degrees: ReleasedDegrees
    statement: Mapping[str, Any]

    def choose_kappa(self, for_epsilon: Number, for_delta: Number | None = None) -> KappaChoice:
        """Compares values of kappa for a later release, at no further cost: see
        ``dp_transforms.choose_kappa``."""
        from dp_transforms.postprocessing import kappa_choice

        kappa_choice.check_later_release(for_epsilon, for_delta)
        return kappa_choice.choose_kappa(self.degrees, for_epsilon, for_delta)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the numbers and privacy.json, as the job does: see ``ListRelease.save``."""
        publish(directory, self, overwrite)

    def page(self, words: Words = NO_WORDS) -> Page:
        from dp_transforms.releases.user_degrees_page import user_degrees_page

        return user_degrees_page(self, words)

    def statement_words(self) -> list[str]:
        what, most = "These numbers of users were released", self.statement["max_degree"]
        return [
            guarantee_words(what, self.statement["epsilon"], self.statement),
            f"A user of more than {most:,} partitions counts as having so many.",
            mechanism_words([self.statement["mechanism"]], "users"),
        ]

    def _tables(self) -> Tables:
        return degree_tables([self.degrees], {})

    def _columns(self) -> dict[str, Any]:
        return {"partitions_from": self.degrees.lowest, "users": self.degrees.users}


def read(saved: SavedRelease) -> DegreesOfUsers:
    """Reads the numbers of users, with their statement."""
    return DegreesOfUsers(_degrees(saved), saved.statement)


def read_degrees(directory: str) -> ReleasedDegrees:
    """Reads the numbers of users by how many partitions they have, as choose-kappa writes them."""
    return _degrees(SavedRelease(local_path(directory)))


def _degrees(saved: SavedRelease) -> ReleasedDegrees:
    rows = read_degree_table(saved, DEGREES_FILE, DEGREES_HEADER)[()]
    with as_malformed(saved.directory, "a release of choose-kappa"):
        lowest, users = zip(*rows, strict=True)
        return ReleasedDegrees(lowest, users, float(saved.statement["epsilon"]))


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of degrees of users."""
    return bool(statement["mechanism"] == MECHANISM)


READER = Reader(DEGREES_FILE, _describes, read)
