"""Releases how users are distributed over the values of each of their attributes, under one budget.

A record has values of one user, such as the fonts of a browser. An attribute is a column or a
combination of columns. The list of an attribute says how many users its values have. The values
themselves stay secret.

Definition. The value of a combination in a record is the tuple of its columns' values. A null or an
empty text is no value, and a combination has no value if one of its columns has none. A user counts
for an attribute with at most one value: among the user's distinct values over all records, it is
the one with the smallest PRF(key of the attribute, user, value). Users without a value of an
attribute are in no partition of its list.

Guarantee. All lists together are epsilon-DP for adding or removing all records of one user. Proof,
for any value of the secret that keys the choice:

1. Each user's own records alone decide which value of an attribute counts. So for each attribute,
   the pairs (user, value) of two neighbouring inputs differ in one pair at most, that of one user.
2. So at most one count of the attribute's values differs, by one, and the sorted list moves by at
   most 1 in L1. Its release, with kappa = 1, is epsilon_a-DP, where epsilon_a is its part of
   epsilon.
3. The lists of all attributes are released with independent random numbers, and one user may be in
   all of them. So the parts add up (sequential composition), and their sum is epsilon. QED.

Which attributes get a list, and how epsilon is divided among them, is public.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.budget import PrivacyBudget
from dp_transforms.budget.budget import Cost
from dp_transforms.budget.ledger import Request
from dp_transforms.files.filenames import (
    ATTRIBUTE_COORDINATES_HEADER,
    ATTRIBUTES_FILE,
    ATTRIBUTES_HEADER,
    COORDINATES_FILE,
)
from dp_transforms.files.output import CsvTable
from dp_transforms.files.release_files import SavedRelease
from dp_transforms.mechanisms.arguments import shown
from dp_transforms.mechanisms.decimals import Number, positive_rational
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism
from dp_transforms.mechanisms.partition.registry import AUTO, partition_mechanism
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.releases import attributes_page
from dp_transforms.releases.base import (
    NEIGHBOURS,
    Reader,
    ReleasedTables,
    ReleaseSpec,
    Statement,
    Tables,
    amount_entries,
    bound_entries,
)
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.lists import (
    is_decoded,
    list_guarantee,
    price_entries,
    price_of,
    read_lists,
    rows_of,
)
from dp_transforms.releases.questions import ENTROPY_BITS, UNIQUE, USERS, VALUES
from dp_transforms.releases.series import Releases, columns_of_estimates
from dp_transforms.releases.tables import publish
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import (
    NO_WORDS,
    Words,
    amount,
    cost_words,
    guarantee_words,
    mechanism_words,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.engines.base import Collections, Engine

MOST_ATTRIBUTES = 1000
Key = str | tuple[str, ...]
"""An attribute as a key: the name of its only column, or the tuple of the names of several."""


def attribute_columns(attribute: Any) -> tuple[str, ...]:
    """Returns the columns of an attribute, given the name of one or a sequence of several."""
    if isinstance(attribute, str):
        return (attribute,)
    is_combination = isinstance(attribute, Sequence) and not isinstance(attribute, bytes)
    if not is_combination or not all(isinstance(name, str) for name in attribute):
        raise ValueError(
            "an attribute must be the name of a column, or a tuple of such names, got "
            f"{shown(attribute)}"
        )
    return tuple(attribute)


def attribute_key(columns: Sequence[str]) -> Key:
    """Returns the attribute in the form of a key: the only column, or the tuple of several."""
    return columns[0] if len(columns) == 1 else tuple(columns)


def attribute_label(columns: Sequence[str]) -> str:
    """Returns the name of an attribute in files, tables and pictures."""
    return " + ".join(columns)


def attribute_tables(
    lists: Iterable[tuple[str, ReleasedList]], statement: Mapping[str, Any]
) -> Tables:
    """Returns the table of the lists, and that of their noisy coordinates if they are decoded.

    Args:
      lists: (label, list) for each attribute, in order.
      statement: their privacy statement.
    """
    lists = list(lists)
    rows = [(label, *row) for label, released in lists for row in rows_of(released)]
    tables = {ATTRIBUTES_FILE: CsvTable(ATTRIBUTES_HEADER, rows)}
    if is_decoded(statement):
        coordinates = [
            (label, *row) for label, released in lists for row in released.coordinates or ()
        ]
        tables[COORDINATES_FILE] = CsvTable(ATTRIBUTE_COORDINATES_HEADER, coordinates)
    return tables


@dataclass(frozen=True, kw_only=True)
class AttributesSpec(ReleaseSpec):
    """Specifies a list for each attribute. The module's docstring has the guarantee.

    Args:
      attributes: for each list the name of a column, or the tuple of several for a combination.
      epsilon: the cost of all lists together.
      shares: maps attributes to their shares of epsilon, relative to the others; an attribute that
        it leaves out has the share 1. By default all are equal.
      mechanism: see ``partition_mechanism``.

    Raises:
      ValueError, TypeError: there are no attributes or too many, one is given twice or is no name;
        a share is not positive, or its attribute is not released; or an argument is out of range.
    """

    tables = ReleasedTables(ATTRIBUTES_FILE, attribute_tables)

    attributes: Sequence[str | Sequence[str]]
    epsilon: Number
    shares: Mapping[Any, Number] | None = None
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        given = self.attributes
        if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
            raise ValueError(f"attributes must be a list of columns, got {shown(given)}")
        object.__setattr__(self, "attributes", tuple(map(attribute_columns, given)))
        if not 0 < len(self.attributes) <= MOST_ATTRIBUTES:
            raise ValueError(f"attributes must be one at least, and {MOST_ATTRIBUTES} at most")
        for columns in self.attributes:
            if not columns or not all(columns) or len(set(columns)) < len(columns):
                raise ValueError(f"an attribute must have different columns, got {shown(columns)}")
            for name in columns:
                if name in ("user", "partition"):
                    raise ValueError(f"an attribute cannot be called {name!r}: rename the column")
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("attributes must be different, also in their names joined by ' + '")
        if self.shares is not None and not isinstance(self.shares, Mapping):
            raise TypeError("shares must map attributes to numbers, such as {'fonts': 2}")
        for attribute in self.shares or {}:
            if attribute_columns(attribute) not in self.attributes:
                released = ", ".join(map(repr, self.labels))
                raise ValueError(
                    f"shares has an attribute that is not released: these are {released}"
                )
        _ = self.mechanisms  # Refuses a budget or shares out of range now.

    @property
    def labels(self) -> tuple[str, ...]:
        """Returns the names that attributes have in files."""
        return tuple(map(attribute_label, self.attributes))

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the columns of records that the release reads, each once."""
        return tuple(dict.fromkeys(name for columns in self.attributes for name in columns))

    @functools.cached_property
    def mechanisms(self) -> tuple[PartitionMechanism, ...]:
        """Returns the mechanism of each attribute's list; their epsilons add up to the whole."""
        weights: dict[str, Number] = dict.fromkeys(self.labels, 1)
        for attribute, share in (self.shares or {}).items():
            weights[attribute_label(attribute_columns(attribute))] = positive_rational(
                "each of shares", share
            )
        parts = PrivacyBudget(self.epsilon).split_by(weights)
        return tuple(
            partition_mechanism(parts[label].epsilon, 1, self.mechanism) for label in self.labels
        )

    @property
    def requests(self) -> tuple[Request, ...]:
        return tuple(
            Request(
                f"list of attribute {label}",
                Cost(price_of(mechanism), mechanism.loss_range),
            )
            for label, mechanism in zip(self.labels, self.mechanisms, strict=True)
        )

    def release(self, engine: Engine) -> Collections:
        return engine.attribute_lists(self)

    def column_entries(self, columns: Sequence[pa.Field]) -> Statement:
        """Returns nothing: the guarantee names the columns of each attribute."""
        return {}

    def guarantee(self, bounded_by_job: bool) -> Statement:
        bound = bound_entries(1, bounded_by_job=True)
        statement = list_guarantee(self.mechanisms[0], NEIGHBOURS, bound)
        statement |= amount_entries("epsilon", self.cost.epsilon)
        statement["composition"] = "sequential over attributes"
        statement["lists"] = [
            {
                "attribute": attribute_label(columns),
                "columns": list(columns),
                **price_entries(mechanism),
            }
            for columns, mechanism in zip(self.attributes, self.mechanisms, strict=True)
        ]
        return statement


class AttributeReleases(Releases):
    """Maps each attribute to its ``ListRelease``. Keys are names of columns, or tuples of several.

    The table of it has the attributes by their Shannon entropy, the most identifying first.

    Attributes:
      statement: the joint guarantee, as in privacy.json.
    """

    _file_name = ATTRIBUTES_FILE

    def __init__(self, lists: Mapping[str, ReleasedList], statement: Mapping[str, Any]):
        common = {name: value for name, value in statement.items() if name not in _OF_ALL}
        releases = {}
        for entry in statement["lists"]:
            of_list = {**common, **entry, "partition_columns": entry["columns"]}
            released = lists[entry["attribute"]]
            releases[attribute_key(entry["columns"])] = ListRelease(released, of_list)
        super().__init__(releases, "attribute")
        self.statement = dict(statement)
        self._rankings: dict[float, list[tuple[str, dict[str, Estimate]]]] = {}

    def labels_with(self, users: str) -> list[str]:
        return [release.statement["attribute"] for release in self.values()]

    def ranking(self, confidence: float = CONFIDENCE) -> list[tuple[str, dict[str, Estimate]]]:
        """Returns (label, ``identifiability``) of each attribute, the largest entropy first.

        Each interval holds with this confidence by itself, not all of them together.
        """
        if confidence not in self._rankings:
            rows = [
                (label, release.identifiability(confidence))
                for label, release in zip(self.labels, self.values(), strict=True)
            ]
            rows.sort(key=lambda row: -row[1][ENTROPY_BITS].value)
            self._rankings[confidence] = rows
        return list(self._rankings[confidence])

    def _numbers_of(self, release: ListRelease, confidence: float) -> dict[str, Estimate]:
        return release.identifiability(confidence)

    def page(self, words: Words = NO_WORDS) -> Page:
        return attributes_page.attributes_page(self, words)

    def _figure(self) -> Any:
        return attributes_page.entropy_figure(self.ranking())

    def statement_words(self) -> list[str]:
        return statement_words(self.statement)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the lists into a directory, as a job does: see ``ListRelease.save``."""
        publish(directory, self, overwrite)

    def _label_columns(self, name: Key) -> dict[str, str]:
        return {"attribute": self[name].statement["attribute"]}

    def _columns(self) -> dict[str, Any]:
        ranked = self.ranking()
        columns: dict[str, Any] = {"attribute": [label for label, _ in ranked]}
        for name in (USERS, VALUES):
            columns[name] = [numbers[name].value for _, numbers in ranked]
        for name, short in ((ENTROPY_BITS, "bits"), (UNIQUE, "unique")):
            names = short, f"{short}, low", f"{short}, high"
            columns |= columns_of_estimates(names, [numbers[name] for _, numbers in ranked])
        return columns

    def _below(self) -> list[str]:
        return [
            f"bits: Shannon entropy; unique: part of users; each interval has {CONFIDENCE:.0%} "
            "confidence",
            f"{cost_words(self.statement)} for all lists; neighbouring data: "
            f"{self.statement['neighbours']}; at most one value of each attribute of each user "
            "(enforced)",
        ]

    def _tables(self) -> Tables:
        lists = zip(self.labels, (release.released for release in self.values()), strict=True)
        return attribute_tables(lists, self.statement)


_OF_ALL = ("lists", "composition")
"""These fields of a statement concern all attributes together."""


def statement_words(statement: Mapping[str, Any]) -> list[str]:
    """Puts the privacy.json of lists of attributes into paragraphs that a publisher can paste."""
    what = "These lists, one for each attribute of users, were released together"
    parts = [f"{amount(entry['epsilon'])} for {entry['attribute']}" for entry in statement["lists"]]
    return [
        guarantee_words(what, statement["epsilon"], statement)
        + " The values of attributes were not released.",
        f"Epsilon adds up from: {', '.join(parts)}.",
        "Each user counts for an attribute with one value, chosen at random where the user's "
        "records have several; the job that made this release enforced it. Users without a value "
        "of an attribute are not in its list.",
        mechanism_words((entry["mechanism"] for entry in statement["lists"]), "users"),
    ]


def read(saved: SavedRelease) -> AttributeReleases:
    """Reads the lists of attributes, with their statement."""
    lists, statement = read_lists(
        saved, ATTRIBUTES_FILE, ATTRIBUTES_HEADER, ATTRIBUTE_COORDINATES_HEADER
    )
    return AttributeReleases({label: released for (label,), released in lists.items()}, statement)


def _describes(statement: Mapping[str, Any]) -> bool:
    """Returns whether a statement is that of lists of attributes."""
    return any("columns" in entry for entry in statement.get("lists", ()))


READER = Reader(ATTRIBUTES_FILE, _describes, read)
