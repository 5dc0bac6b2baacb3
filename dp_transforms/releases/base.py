"""Defines what each kind of release has: a specification with its cost, statement and tables.

A specification is checked when it is made, and this needs no data, Beam or Arrow. Jobs, functions
and transforms make their releases from the same specifications, on either engine.
"""

from __future__ import annotations

import abc
import datetime
import functools
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dp_transforms import __version__
from dp_transforms.budget import PrivacyBudget, PrivacyUnit
from dp_transforms.budget.ledger import Request
from dp_transforms.budget.ledger_rows import now, text_of_time
from dp_transforms.files.output import CsvTable
from dp_transforms.mechanisms.decimals import decimal_text, float_above, positive_integer
from dp_transforms.reports.entries import DECLARED, ENFORCED

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine
    from dp_transforms.files.release_files import SavedRelease

Tables = dict[str, CsvTable]
"""Tables, by the names of their files."""
Statement = dict[str, Any]
"""The content of a privacy.json."""

NEIGHBOURS = PrivacyUnit.USER.neighbours
CREATED = "created"
"""The entry of a statement with the time of its release."""
_MOST_DIGITS = 11  # of a time in seconds since 1970: enough for the year 5000
_LIBRARIES = ("apache-beam", "gmpy2", "numpy", "pyarrow")


def _no_entries(_: Iterable[Any]) -> Statement:
    return {}


class ReleasedTables(NamedTuple):
    """The files of a kind of release.

    Both functions are defined at the top of a module, since a runner pickles them by their names.

    Attributes:
      file_name: the name of the main table's file, which matches ``filenames.RELEASED_FILES``.
      make: makes all tables, including the main one, from the statement and the elements of the
        first collection that the engine returns.
      entries: returns the part of the statement that follows from these elements.
    """

    file_name: str
    make: Callable[[Iterable[Any], Statement], Tables]
    entries: Callable[[Iterable[Any]], Statement] = _no_entries


class Reader(NamedTuple):
    """Reads a kind of release from its directory. The module of the kind calls it ``READER``, by
    which ``directory`` finds it.

    Attributes:
      file_name: the name of the main table's file.
      describes: tells whether a statement is that of this kind. It is true of no statement of
        another kind.
      read: reads the release.
    """

    file_name: str
    describes: Callable[[Mapping[str, Any]], bool]
    read: Callable[[SavedRelease], Any]


class ReleaseSpec(abc.ABC):
    """A specification says what is released, and by which mechanism. It is a frozen dataclass.

    A subclass checks its arguments in ``__post_init__``. Specifications are sent to workers, so
    they can be pickled. ``UserDegreesSpec`` is the smallest subclass.
    """

    tables: ClassVar[ReleasedTables]

    @property
    @abc.abstractmethod
    def requests(self) -> tuple[Request, ...]:
        """Returns the parts of the budget that the release needs."""

    @abc.abstractmethod
    def release(self, engine: Engine) -> Collections:
        """Makes the release by the engine's method for this kind, and returns the method's
        collections: see ``Collections``."""

    @abc.abstractmethod
    def guarantee(self, bounded_by_job: bool) -> Statement:
        """Returns the part of the statement about the mechanism and its guarantee.

        Together with the entries of ``tables``, it has "mechanism", "epsilon", "delta" and
        "neighbours": everything that shows a release reads them. If users count in a bounded number
        of partitions, it has those of ``bound_entries`` too. The argument is explained at
        ``statement``.
        """

    @property
    def cost(self) -> PrivacyBudget:
        """Returns the cost of all parts together, by basic composition."""
        return sum((request.cost.budget for request in self.requests), PrivacyBudget(0))

    @property
    def integer_columns(self) -> int:
        """Returns the number of columns that hold integers. They are the last columns of each
        table; the columns before them hold text."""
        return 2

    @property
    def public_groups(self) -> Mapping[str, Sequence[str]]:
        """Returns the public names of groups, by the column of the records that has them. Most
        kinds of release have none. ``RecordSource.check_groups`` refuses names that no record can
        have."""
        return {}

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        """Returns the part of the statement about the columns of partitions."""
        return {"partition_columns": [column.name for column in columns]}

    def statement(
        self, columns: Sequence[pa.Field] | None, bounded_by_job: bool = True
    ) -> Statement:
        """Returns the statement of one release, without its budget. It depends on the names and
        types of the data's columns, and on nothing else of the data.

        Args:
          columns: the columns of partitions; None for counts that were made elsewhere.
          bounded_by_job: whether the job itself keeps each user to max_partitions_per_user
            partitions. Otherwise the caller declares that no user has more.
        """
        statement = self.guarantee(bounded_by_job)
        statement["versions"] = library_versions()
        if columns is not None:
            statement |= self.column_entries(columns)
        return statement


def set_positive_integers(spec: Any, *names: str) -> None:
    """Replaces these fields of a specification by Python's own integers. The integers of numpy
    cannot be written into a privacy.json. Fields that are None by default may be None.

    Raises:
      ValueError: a field is no positive integer. The message has its name.
    """
    may_be_none = {field.name for field in fields(spec) if field.default is None}
    for name in names:
        value = getattr(spec, name)
        if value is not None or name not in may_be_none:
            object.__setattr__(spec, name, positive_integer(name, value))


STATEMENT_ONLY: dict[str, str] = {"is for": "statements"}
"""The metadata of a field of a specification that only its statement needs."""


def arguments(spec: Any) -> dict[str, Any]:
    """Returns the fields of a specification, by their names, that are the arguments of the
    transform that makes its release."""
    return {
        field.name: getattr(spec, field.name)
        for field in fields(spec)
        if field.init and field.metadata != STATEMENT_ONLY
    }


def bound_entries(max_partitions: int, bounded_by_job: bool) -> Statement:
    """Returns the entries about kappa."""
    how = ENFORCED if bounded_by_job else DECLARED
    return {"max_partitions_per_user": max_partitions, "max_partitions_per_user_is": how}


def amount_entries(name: str, value: Fraction) -> Statement:
    """Returns entries for a part of a budget: a float not below it, and the exact decimal text."""
    return {name: float_above(value), f"{name}_exact": decimal_text(value)}


def time_entry(opened: datetime.datetime | None = None) -> Statement:
    """Returns the entry for the time of a release, in UTC and to the second. It must depend on no
    record. The environment variable SOURCE_DATE_EPOCH (seconds since 1970) replaces it, so that
    files can be made equal byte by byte.

    Args:
      opened: when the source of the records was opened; by default the time is now.
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    is_fixed = seconds.isascii() and seconds.isdigit() and len(seconds) <= _MOST_DIGITS
    if not is_fixed:
        return {CREATED: now() if opened is None else text_of_time(opened)}
    moment = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return {CREATED: text_of_time(moment)}


def library_versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that a release depends on."""
    versions = {"dp-frequency-lists": __version__, "python": platform.python_version()}
    return versions | {name: _version(name) for name in _LIBRARIES}


# The versions are cached: reading all four takes a millisecond, and a release by group or period
# states them for each of its lists.
_version = functools.cache(metadata.version)
