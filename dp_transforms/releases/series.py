"""Defines collections of releases that were made together, and series of their numbers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_transforms.mechanisms.arguments import shown
from dp_transforms.postprocessing.estimates import CONFIDENCE, Estimate
from dp_transforms.releases import series_page
from dp_transforms.releases.frequency_list import ListRelease
from dp_transforms.releases.frequency_list import statement_words as list_words
from dp_transforms.releases.names_page import names_words
from dp_transforms.releases.questions import difference, half, names_of, question_of
from dp_transforms.releases.surveys import before_survey
from dp_transforms.releases.tables import PicturedTable, Release, Table, drawn, publish_several
from dp_transforms.reports.page import Page
from dp_transforms.reports.phrases import GENERAL_NOUNS, NO_WORDS, Words

if TYPE_CHECKING:
    import pyarrow as pa


class Releases(PicturedTable, Release, Mapping[Any, Any]):
    """Maps labels, such as days, to lists or names that were released together.

    Attributes:
      statement: the joint guarantee of all releases, as in privacy.json.
    """

    def __init__(self, lists: Mapping[Any, Any], kind: str):
        self._lists, self.kind = dict(lists), kind
        self.statement = _joint_statement([release.statement for release in self.values()])

    def __getitem__(self, name: Any) -> Any:
        """Returns a list. Raises a KeyError that shows some of the keys if there is none."""
        try:
            return self._lists[name]
        except KeyError:
            keys = ", ".join(map(repr, itertools.islice(self._lists, 3)))
            more = ", ..." if len(self._lists) > 3 else ""
            raise KeyError(f"there is no list of {shown(name)}: keys are {keys}{more}") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    @property
    def labels(self) -> list[str]:
        """Returns the lists' labels for pictures and tables of numbers."""
        return self.labels_with(GENERAL_NOUNS.users)

    def labels_with(self, users: str) -> list[str]:
        """Returns the lists' labels for pages and pictures that have another word for users."""
        return [f"week of {name}" for name in self] if self.kind == "week" else list(self)

    @property
    def _names(self) -> list[str]:
        """Returns the lists' labels for tables."""
        return list(self)

    @property
    def are_lists(self) -> bool:
        """Returns whether all releases are lists; otherwise they are names."""
        return all(isinstance(release, ListRelease) for release in self.values())

    def page(self, words: Words = NO_WORDS) -> Page:
        return series_page.series_page(self, words)

    def statement_words(self) -> list[str]:
        words = list_words if self.are_lists else names_words
        return words(self.statement)

    def _label_columns(self, name: Any) -> dict[str, str]:
        return {self.kind: name}

    def to_arrow(self) -> pa.Table:
        """Returns all releases in one ``pyarrow.Table``, whose first columns hold their labels."""
        import pyarrow as pa

        parts = []
        for name, release in self.items():
            table = release.to_arrow()
            for place, (column, label) in enumerate(self._label_columns(name).items()):
                table = table.add_column(place, column, [pa.repeat(label, len(table))])
            parts.append(table)
        return pa.concat_tables(parts)

    def series(self, number: str = "partitions", confidence: float = CONFIDENCE) -> Series:
        """Estimates one number of every list, and its change from the list before.

        Args:
          number: "partitions", "total", "at least N" (partitions with at least N users), "rank N"
            (the users of the partition of that rank), "top N" (the share of the N largest), or any
            key of ``ListRelease.numbers``.
          confidence: of each interval by itself.

        Raises:
          ValueError: there is no such number, or the releases are names.
        """
        if not self.are_lists:
            raise ValueError("numbers have a series in lists, not in names")
        names = names_of(self.statement)
        asked = question_of(number, names)
        number = asked.words.format(**names)
        estimates = [asked.of_list(release, confidence) for release in self.values()]
        wider = [asked.of_list(release, half(confidence)) for release in self.values()]
        changes = [
            difference(before, after, confidence) for before, after in itertools.pairwise(wider)
        ]
        return Series(self.kind, number, tuple(self._names), tuple(estimates), tuple(changes))

    def numbers_of_each(
        self, confidence: float = CONFIDENCE
    ) -> list[tuple[dict[str, str], dict[str, Estimate] | None]]:
        """Estimates the usual numbers of every list: see ``ListRelease.numbers``.

        Args:
          confidence: of each interval by itself.

        Returns:
          For each list, the columns that name it in ``to_arrow``, such as {"day": "2026-01-31"},
          and its numbers; None in their place if the list has no intervals.

        Raises:
          ValueError: the releases are names.
        """
        if not self.are_lists:
            raise ValueError("lists have these numbers, and names do not")
        return [
            (self._label_columns(name), self._numbers_of(release, confidence))
            for name, release in self.items()
        ]

    def _numbers_of(self, release: ListRelease, confidence: float) -> dict[str, Estimate] | None:
        return None if release.why_without_intervals else release.numbers(confidence)

    def plot(self, path: str | os.PathLike[str] | None = None, number: str | None = None) -> Any:
        """Draws one number of every release, with 95% intervals: see ``ListRelease.plot``. Releases
        of periods are drawn over time. ``number`` is an argument of ``series``."""
        return drawn(series_page.series_figure(self, number=number), path)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes each release into a subdirectory, as a job with ``--period``: see
        ``ListRelease.save``."""
        publish_several(directory, self, overwrite)

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {self.kind: self._names}
        if not self.are_lists:
            return columns | {"names": [len(names) for names in self.values()]}
        for number in ("partitions", "total"):
            names = (number, f"{number}, low", f"{number}, high")
            columns |= columns_of_estimates(names, self.series(number).estimates)
        return columns


def _joint_statement(statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns what the statements of releases that were made together share. If each has a survey,
    the entry about the mechanism names all mechanisms that were used."""
    if not statements:
        return {}
    joint = before_survey(statements[0])
    joint.pop("period", None)
    mechanisms = dict.fromkeys(statement["mechanism"] for statement in statements)
    return joint | {"mechanism": " or the ".join(mechanisms)}


@dataclass(frozen=True, repr=False)
class Series(Table):
    """A series has one number of several lists in order, and its change from list to list.
    ``series["2026-01-31"]`` is the estimate for the list with this label.

    Attributes:
      kind: the kind of the lists' labels, such as "day".
      number: what was asked, in words.
      names: the labels of the lists.
      estimates: the number of each list; each interval holds by itself.
      changes: from each list to the next; each interval holds by itself.
    """

    kind: str
    number: str
    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    changes: tuple[Estimate, ...]

    def __getitem__(self, name: str) -> Estimate:
        return dict(zip(self.names, self.estimates, strict=True))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _columns(self) -> dict[str, Any]:
        changes = [None, *self.changes][: len(self.names)]
        return {
            self.kind: list(self.names),
            **columns_of_estimates((self.number, "low", "high"), self.estimates),
            **columns_of_estimates(("change", "change_low", "change_high"), changes),
        }


def columns_of_estimates(
    names: Sequence[str], estimates: Sequence[Estimate | None]
) -> dict[str, list[Any]]:
    """Returns three columns with these names: the values, low ends and high ends of estimates. A
    missing estimate is None in each."""
    columns = {}
    for name, field in zip(names, ("value", "low", "high"), strict=True):
        columns[name] = [
            None if estimate is None else getattr(estimate, field) for estimate in estimates
        ]
    return columns
