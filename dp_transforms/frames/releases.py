"""Holds releases that were made together, makes series of their numbers, and loads any release."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dp_transforms.files.filenames import LISTS_FILE, PRIVACY_FILE
from dp_transforms.files.release_files import Tables, grouped_tables, read_release, reading
from dp_transforms.frames.answers import (
    QUESTIONS,
    ListRelease,
    NamesRelease,
    difference,
    half,
    names_of,
    publish,
)
from dp_transforms.frames.tables import PicturedTable, Release, Table
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.reports.phrases import statement_words

if TYPE_CHECKING:
    import pyarrow as pa


class Releases(PicturedTable, Release, Mapping[Any, Any]):
    """Maps labels, such as days, to lists or names that were released together.

    Attributes:
      statement: the joint guarantee of all releases, as in privacy.json.
    """

    page_kind = "series"

    def __init__(self, lists: Mapping[Any, Any], kind: str):
        self._lists, self.kind = dict(lists), kind
        first = next(iter(self._lists.values())).statement if lists else {}
        self.statement = {name: value for name, value in first.items() if name != "period"}

    def __getitem__(self, name: Any) -> Any:
        return self._lists[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    @property
    def labels(self) -> list[str]:
        """Returns the lists' labels for tables and pictures."""
        return list(self)

    @property
    def _are_lists(self) -> bool:
        return all(isinstance(one, ListRelease) for one in self.values())

    def _label_columns(self, name: Any) -> dict[str, str]:
        return {self.kind: name}

    def to_arrow(self) -> pa.Table:
        """Returns all releases in one ``pyarrow.Table``, whose first columns hold their labels."""
        import pyarrow as pa

        parts = []
        for name, one in self.items():
            table = one.to_arrow()
            for column, value in reversed(self._label_columns(name).items()):
                table = table.add_column(0, column, [pa.repeat(value, len(table))])
            parts.append(table)
        return pa.concat_tables(parts)

    def series(self, number: str = "partitions", confidence: float = CONFIDENCE) -> Series:
        """Estimates one number of every list, and its change from the list before.

        Args:
          number: a key of ``ListRelease.numbers``.
          confidence: of each interval by itself.

        Raises:
          ValueError: there is no such number, or the releases are names.
        """
        if not self._are_lists:
            raise ValueError("numbers have a series in lists, not in names")
        names = names_of(self.statement)
        by_words = {one.words.format(**names): one for one in QUESTIONS}
        if number not in by_words:
            raise ValueError(f"number must be one of {', '.join(by_words)}, got {number!r}")
        asked = by_words[number]
        told, wider = (
            [asked.of_list(one, level) for one in self.values()]
            for level in (confidence, half(confidence))
        )
        changes = [difference(*pair, confidence) for pair in pairwise(wider)]
        return Series(self.kind, number, tuple(self.labels), tuple(told), tuple(changes))

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes each release into a subdirectory, as a job with ``--period``: see
        ``ListRelease.save``."""
        publish({os.path.join(directory, name): one for name, one in self.items()}, overwrite)

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {self.kind: self.labels}
        if not self._are_lists:
            return columns | {"names": [len(one) for one in self.values()]}
        for number in ("partitions", "total"):
            names = (number, f"{number}, low", f"{number}, high")
            columns |= _columns_of(names, self.series(number).estimates)
        return columns


class GroupReleases(Releases):
    """Maps (attribute, value) to the list of each group, and ("", "") to that of all users;
    ``statement`` is the joint guarantee, as in privacy.json."""

    _file_name = LISTS_FILE

    def __init__(self, lists: Mapping[tuple[str, str], ReleasedList], statement: Mapping[str, Any]):
        prices = {one.get("attribute", ""): one for one in statement["lists"]}
        # The lists are under pure differential privacy, even where the names of groups are not.
        common = {name: value for name, value in statement.items() if name not in _OF_ALL}
        common["delta"] = 0
        told = {
            name: ListRelease(one, {**common, **prices[name[0]], "group": name[1]})
            for name, one in lists.items()
        }
        super().__init__(told, "group")
        self.statement = dict(statement)

    @property
    def labels(self) -> list[str]:
        return [f"{attribute}: {group}" if attribute else "all users" for attribute, group in self]

    def _label_columns(self, name: tuple[str, str]) -> dict[str, str]:
        return dict(zip(("attribute", "group"), name, strict=True))

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the lists into a directory, as a job does: see ``ListRelease.save``."""
        publish({directory: self}, overwrite)

    def _tables(self) -> Tables:
        return grouped_tables((*name, one.released) for name, one in self.items())


_OF_ALL = (
    "delta_exact",
    "lists",
    "selection_of_groups",
    "composition",
    "groups_per_user_and_attribute",
)
"""These fields of a statement concern several groups together."""


@dataclass(frozen=True, repr=False)
class Series(Table):
    """A series has one number of several lists in order, and its change from list to list.

    Attributes:
      kind: the kind of the lists' labels, such as "day".
      number: a key of ``ListRelease.numbers``.
      names: the labels of the lists.
      estimates: the number of each list; each interval holds by itself.
      changes: from each list to the next; each interval holds by itself.
    """

    kind: str
    number: str
    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    changes: tuple[Estimate, ...]

    def _columns(self) -> dict[str, Any]:
        changes = [None, *self.changes][: len(self.names)]
        return {
            self.kind: list(self.names),
            **_columns_of((self.number, "low", "high"), self.estimates),
            **_columns_of(("change", "change_low", "change_high"), changes),
        }


def _columns_of(names: Sequence[str], told: Sequence[Estimate | None]) -> dict[str, list[Any]]:
    """Returns columns of the values and interval ends of estimates, under three names."""
    ends = zip(names, ("value", "low", "high"), strict=True)
    return {name: [one and getattr(one, end) for one in told] for name, end in ends}


def load(directory: str | os.PathLike[str]) -> Any:
    """Reads a release from the directory that a job, or ``save``, has written.

    Returns:
      A ``ListRelease``, ``NamesRelease`` or ``GroupReleases``; or, from a job with ``--period``,
      the ``Releases`` of all periods.

    Raises:
      ValueError: there is no release, or it cannot be read.
    """
    directory = os.fspath(directory)
    found, statement = read_release(directory)
    with reading(directory, f"a release with its {PRIVACY_FILE}"):
        if not isinstance(found, dict):
            return _answering(found, statement)
        if "periods" in statement:
            periods = {name: _answering(*one) for name, one in found.items()}
            return Releases(periods, statement["periods"]["of"])
        return _checked(GroupReleases(found, statement))


def _answering(found: Any, statement: dict[str, Any]) -> Any:
    kind = ListRelease if isinstance(found, ReleasedList) else NamesRelease
    return _checked(kind(found, statement))


def _checked(release: Any) -> Any:
    """The release; an error of some kind if its statement does not say all that it shows."""
    repr(release)
    statement_words(dict(release.statement))
    return release
