"""Releases that answer questions: a list of frequencies, or names. All that is in them is public.

A function returns the same object as ``load`` does for the directory that a job, or ``save``, has
written. Intervals are for the noise alone; where a user has more partitions than count, they are
about the records that do.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dp_transforms.files.filenames import COORDINATES_FILE, COUNTS, PARTITIONS_FILE
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.files.release_files import (
    Tables,
    grouped_tables,
    is_decoded,
    list_tables,
    read_release,
)
from dp_transforms.mechanisms.decimals import Real
from dp_transforms.mechanisms.frequency_list import ReleasedList
from dp_transforms.postprocessing.estimates import CONFIDENCE
from dp_transforms.postprocessing.guessing_metrics import check_positive
from dp_transforms.postprocessing.intervals import intervals_of, model_intervals_of
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.reports.page import table as html_table
from dp_transforms.reports.page import text_table
from dp_transforms.reports.pages import figure_of, page_of
from dp_transforms.reports.phrases import Words, statement_words
from dp_transforms.reports.privacy_statement import distribution_of_statement

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.postprocessing.estimates import Answers, Estimate, ReleaseIntervals

_SHOWN = 10


class Question(NamedTuple):
    """A question that lists are often asked: its words, and a method of ``Answers`` with arguments.

    In the words, ``{things}`` and ``{users}`` stand for what partitions and users are called.
    """

    words: str
    method: str
    of: tuple[int, ...] = ()

    def of_list(self, answers: Answers, confidence: float) -> Estimate:
        """The answer."""
        found: Estimate = getattr(answers, self.method)(*self.of, confidence)
        return found


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
"""The first questions are asked of every list, the others where something may be there."""


class _Table:
    """A table for whichever library the user has."""

    _words: int = 1
    """The number of first columns that hold words, even where these are digits."""

    def to_arrow(self) -> pa.Table:
        """Returns the table as a ``pyarrow.Table``."""
        import pyarrow as pa

        return pa.table(self._columns())

    def to_pandas(self) -> Any:
        """Returns the table as a ``pandas.DataFrame``.

        Raises:
          ImportError: pandas is not installed.
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Returns the table as a ``polars.DataFrame``.

        Raises:
          ImportError: polars is not installed.
        """
        import polars

        return polars.from_arrow(self.to_arrow())

    def _columns(self) -> dict[str, Any]:
        raise NotImplementedError

    def _below(self) -> list[str]:
        """The lines below the table."""
        return []

    def _shown(self) -> list[list[str]]:
        """The head of the table, and its first rows."""
        columns = self._columns()
        found = (np.asarray(one)[:_SHOWN].tolist() for one in columns.values())
        first = [
            [str(one) if place < self._words else _text(one) for one in values]
            for place, values in enumerate(found)
        ]
        rows = [list(row) for row in zip(*first, strict=True)]
        if len(next(iter(columns.values()))) > _SHOWN:
            rows.append(["..."] * len(columns))
        return [list(columns), *rows]

    def __repr__(self) -> str:
        return "\n".join([text_table(self._shown(), self._words), *self._below()])

    def _repr_html_(self) -> str:
        below = "".join(f"<p>{html.escape(text)}</p>" for text in self._below())
        rows = self._shown()
        return html_table(rows, len(rows[0]) - self._words) + below


class _Paged(_Table):
    """A table that a page can be about."""

    page_kind: str
    """Which page of ``reports.pages`` it is."""

    def report(
        self,
        path: str | os.PathLike[str],
        about: str | None = None,
        *,
        users: str = "users",
        title: str | None = None,
        data_name: str | None = None,
    ) -> None:
        """Writes one self-contained page with the numbers, pictures and the guarantee.

        Args:
          path: of the page.
          about: what partitions are, such as "passwords", if the column's name does not say it.
          users: what users are, such as "accounts".
          title: of the page; by default it says what is released, and of which data.
          data_name: what to call the data.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
        """
        page, _ = page_of(self, Words(about, users, title, data_name))
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)


class _Pictured(_Paged):
    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws one number of every list, or two lists by rank, with 95% intervals.

        Args and errors: see ``ListRelease.plot``.
        """
        figure = figure_of(self)
        if path is not None:
            figure.savefig(path)
        return figure


class _Answers(_Paged):
    """A release with its statement."""

    statement: Mapping[str, Any]

    @property
    def privacy(self) -> str:
        """The guarantee in words that a publisher can paste."""
        return "\n\n".join(statement_words(dict(self.statement)))

    def _summary(self) -> list[str]:
        return []

    def _below(self) -> list[str]:
        told = self.statement
        if not told:
            return []
        cost = f"epsilon {told['epsilon']:g}" + f" and delta {told['delta']:g}" * (
            told["delta"] > 0
        )
        periods = told.get("periods", {})
        if "epsilon_of_all" in periods:
            together = f"epsilon {periods['epsilon_of_all']:g} for all {periods['of']}s together"
            cost = f"{together}, {told['epsilon']:g} for each"
        bound = ""
        if "max_partitions_per_user" in told:
            max_partitions = told["max_partitions_per_user"]
            how = told["max_partitions_per_user_is"]
            plural = "s" * (max_partitions > 1)
            bound = f"; at most {max_partitions} partition{plural} of each user ({how})"
        neighbours = f"neighbouring data: {told['neighbours']}"
        return [*self._summary(), f"{cost}; {neighbours}{bound}"]


@dataclass(frozen=True, repr=False)
class ListRelease(_Answers):
    """A released frequency list: how many users partitions have, and not which.

    Every answer is an ``Estimate`` with an interval that is proved, each with its confidence by
    itself unless it says otherwise. Choose what to ask without looking at the release.

    Attributes:
      released: the list itself; it serves wherever a ``FrequencyList`` does.
      statement: the guarantee, as in privacy.json.

    Raises:
      ValueError: by every question, if a confidence is not between 0 and 1, a rank or number is
        below 1, or public knowledge has narrowed a release of the exponential mechanism.

    >>> import dp_transforms as dp
    >>> visits = [(user, page) for user in range(500) for page in range(user % 3)]
    >>> release = dp.release(
    ...     visits, user=0, partition=1, epsilon=100, max_partitions_per_user=2
    ... )
    >>> print(release.partitions_with_at_least(200))
    1 (1 to 1, 95% confidence)
    """

    page_kind = "list"
    _words = 0

    released: ReleasedList
    statement: Mapping[str, Any]

    @cached_property
    def intervals(self) -> ReleaseIntervals:
        """The proved intervals from which answers come: see ``estimates.ReleaseIntervals``."""
        if self.released.coordinates is not None:
            return intervals_of(self.released)
        return WalkIntervals(self.released, distribution_of_statement(dict(self.statement)))

    def top(self, k: int, confidence: float = CONFIDENCE) -> list[Estimate]:
        """Estimates the k largest frequencies; all intervals hold together with the confidence.

        Values are as released. One that is outside its interval is moved to the nearer end.
        """
        check_positive("k", k)
        each = 1 - (1 - confidence) / k
        told = (self.frequency_at(rank, each) for rank in range(1, k + 1))
        return [replace(one, confidence=confidence) for one in told]

    def number_of_partitions(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions."""
        return self.intervals.number_of_partitions(confidence)

    def partitions_with_at_least(self, users: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions with at least so many users."""
        return self.intervals.partitions_with_at_least(users, confidence)

    def frequency_at(self, rank: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of users of the partition of a rank, counted from 1.

        Behind the last partition the number is 0.
        """
        return self.intervals.frequency_at(rank, confidence)

    def total(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the sum of all frequencies: the number of pairs of a user and a partition."""
        return self.intervals.total(confidence)

    def share_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the part of the total (0 to 1) that so many largest frequencies make up."""
        return self.intervals.share_of_top(partitions, confidence)

    def numbers(
        self,
        confidence: float = CONFIDENCE,
        *,
        by_model: bool = False,
        things: str | None = None,
        users: str | None = None,
    ) -> dict[str, Estimate]:
        """Estimates the numbers that are asked for most; the keys name them in words.

        Args:
          confidence: of each interval by itself.
          by_model: intervals of the decoder's model, which are shorter and not proved; they need
            noisy coordinates. The same numbers are estimated either way.
          things, users: what partitions and users are called in the keys.
        """
        asked = _asked(self.intervals, confidence)
        told = _asked(self.model, confidence) if by_model else asked
        names = _names(self, things, users)
        return {one.words.format(**names): told[one] for one in _shown(asked)}

    @cached_property
    def model(self) -> Answers:
        """Intervals of the decoder's model: shorter, and not proved but as good as the model.

        Raises:
          ValueError: the list has no noisy coordinates.
        """
        return model_intervals_of(self.released)

    def guesswork_bits(self, alpha: Real = "0.5", confidence: float = CONFIDENCE) -> Estimate:
        """Estimates how hard it is to guess the passwords of a part of the accounts, in bits.

        Args:
          alpha: the part of accounts, above 0 and at most 1; partitions are their passwords.
          confidence: of the interval.

        See ``guessing_metrics.alpha_guesswork_bits``.
        """
        return self.intervals.alpha_guesswork_bits(alpha, confidence)

    def success_rate_bits(self, guesses: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates how well passwords resist a number of guesses at each account, in bits.

        See ``guessing_metrics.success_rate_bits``. The upper end may be infinite.
        """
        return self.intervals.success_rate_bits(guesses, confidence)

    def plot(
        self, path: str | os.PathLike[str] | None = None, confidence: float = CONFIDENCE
    ) -> Any:
        """Draws frequencies by rank, with error bars that all hold together.

        Args:
          path: write an image there.
          confidence: of all error bars together.

        Returns:
          The ``matplotlib`` figure.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
        """
        from dp_transforms.reports import lists

        return lists.plot_list(self.released, path, confidence, self._known())

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the files of the job, all or none: the list, noisy coordinates and privacy.json.

        Raises:
          ValueError: the directory cannot be written, or has a release and ``overwrite`` is false.
        """
        _publish(directory, list_tables([self.released]), self.statement, overwrite)

    def _known(self) -> ReleaseIntervals | None:
        try:
            return self.intervals
        except ValueError:  # of a list that public knowledge has narrowed
            return None

    def _columns(self) -> dict[str, Any]:
        """One row for each stretch of ranks with the same numbers, by its first rank: frequencies,
        bounds that hold together, and of how many partitions."""
        facts = self._known()
        lists = [self.released, *(facts.bands(CONFIDENCE) if facts else ())]
        last = self.released.distinct
        ends = np.unique(np.concatenate([one.multiplicities.cumsum() for one in lists]))
        ends = np.append(ends[ends < last], [last] * bool(last)).astype(np.int64)
        found = [one.at_ranks(ends) for one in lists]
        first = np.append(1, ends[:-1] + 1)[: len(ends)].astype(np.int64)
        columns = dict(zip(("frequency", "low", "high"), found, strict=False))
        return {"rank": first, **columns, "partitions": ends - first + 1}

    def _summary(self) -> list[str]:
        things = _names(self)["things"]
        if self._known() is None:
            return [f"{self.released.distinct:,} {things}, total {self.released.total:,}"]
        return [f"{things}: {self.number_of_partitions()}; total: {self.total()}"]


@dataclass(frozen=True, repr=False, eq=False)
class NamesRelease(_Answers):
    """Released names of partitions, perhaps with noisy counts of their users.

    Attributes:
      names: a ``pyarrow.Table`` of the columns of partitions and, with counts, ``noisy_count`` and
        the ends ``low`` and ``high`` of an interval for the number of users. Each interval holds
        with 95% confidence by itself, given that its partition is named.
      statement: the guarantee, as in privacy.json.

    >>> import dp_transforms as dp
    >>> visits = {"who": list(range(100)), "page": ["home"] * 99 + ["diary"]}
    >>> dp.select(
    ...     visits, user="who", partition="page", epsilon=1, delta=1e-9, max_partitions_per_user=1
    ... ).names["page"].to_pylist()
    ['home']
    """

    page_kind = "names"

    names: pa.Table
    statement: Mapping[str, Any]

    @property
    def _words(self) -> int:  # type: ignore[override]  # it depends on the table
        counts = len(COUNTS) if self.statement["noisy_counts"] else 0
        return int(self.names.num_columns) - counts

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes the files of the job, all or none: the names and privacy.json.

        Raises:
          ValueError: the directory cannot be written, or has a release and ``overwrite`` is false.
        """
        from dp_transforms.files.partition_file import names_lines

        noisy = bool(self.statement["noisy_counts"])
        tables = {PARTITIONS_FILE: names_lines(self.names, noisy)}
        _publish(directory, tables, self.statement, overwrite, len(COUNTS) * noisy)

    def _columns(self) -> dict[str, Any]:
        return {name: self.names[name] for name in self.names.column_names}

    def _summary(self) -> list[str]:
        return [f"{self.names.num_rows:,} names"]

    def __len__(self) -> int:
        return int(self.names.num_rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamesRelease):
            return NotImplemented
        return bool(self.names.equals(other.names)) and self.statement == other.statement

    __hash__ = None  # type: ignore[assignment]  # a table has no hash


class Releases(_Pictured, _Answers, Mapping[Any, Any]):
    """A mapping of releases that were made together, such as those of each day, by name.

    Args:
      lists: a ``ListRelease`` or a ``NamesRelease`` by each name, in order.
      kind: what the names are, such as "day".

    Attributes:
      statement: the guarantee of all of them together, as in privacy.json.
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
        """The names of the lists in tables and pictures."""
        return list(self)

    def _label_columns(self, name: Any) -> dict[str, str]:
        return {self.kind: name}

    def to_arrow(self) -> pa.Table:
        """Returns all lists in one ``pyarrow.Table``, whose first columns hold their names."""
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
          number: in words, as ``ListRelease.numbers`` has it.
          confidence: of each interval by itself.

        Raises:
          ValueError: there is no such number, or these are names and not lists.
        """
        if not all(isinstance(one, ListRelease) for one in self.values()):
            raise ValueError("numbers have a series in lists, not in names")
        names = _names(next(iter(self.values()), None))
        by_words = {one.words.format(**names): one for one in QUESTIONS}
        if number not in by_words:
            raise ValueError(f"number must be one of {', '.join(by_words)}, got {number!r}")
        asked = by_words[number]
        told, wider = (
            [asked.of_list(one.intervals, level) for one in self.values()]
            for level in (confidence, _half(confidence))
        )
        changes = [_difference(*pair, confidence) for pair in pairwise(wider)]
        return Series(self.kind, number, tuple(self.labels), tuple(told), tuple(changes))

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes each list into a directory of its name, as the job does with ``--period``.

        Errors are those of ``ListRelease.save``.
        """
        for name, one in self.items():
            one.save(os.path.join(os.fspath(directory), name), overwrite)

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {self.kind: self.labels}
        if all(isinstance(one, ListRelease) for one in self.values()):
            for number in ("partitions", "total"):
                told = self.series(number).estimates
                columns[number] = [one.value for one in told]
                columns[f"{number}, low"] = [one.low for one in told]
                columns[f"{number}, high"] = [one.high for one in told]
        else:
            columns["names"] = [len(one) for one in self.values()]
        return columns


class GroupReleases(Releases):
    """A mapping of the list of each group, by (attribute, value); that of all users is at ("", "").

    Args:
      lists: by these names, in order.
      statement: the guarantee of all of them together, as in privacy.json.
    """

    def __init__(self, lists: Mapping[tuple[str, str], ReleasedList], statement: Mapping[str, Any]):
        prices = {one.get("attribute", ""): one for one in statement["lists"]}
        # Every list is under pure differential privacy; names of groups may not be.
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
        """Writes the lists into a directory, as the job does. Errors: see ``ListRelease.save``."""
        tables = grouped_tables((*name, one.released) for name, one in self.items())
        if not is_decoded(self.statement):
            del tables[COORDINATES_FILE]
        _publish(directory, tables, self.statement, overwrite)


_OF_ALL = ("lists", "selection_of_groups", "composition", "groups_per_user_and_attribute")
"""What the statement of several groups says of none by itself."""


@dataclass(frozen=True, repr=False)
class Series(_Table):
    """One number of several lists in order, and its change from each list to the next.

    Attributes:
      kind: what the lists are by, such as "day".
      number: the number in words, as ``ListRelease.numbers`` has it.
      names: of the lists.
      estimates: the number of each list.
      changes: of each list but the first, from the list before. Each interval, here and in
        ``estimates``, holds with its confidence by itself.
    """

    kind: str
    number: str
    names: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    changes: tuple[Estimate, ...]

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {self.kind: list(self.names)}
        for names, told in (
            ((self.number, "low", "high"), self.estimates),
            (("change", "change_low", "change_high"), [None, *self.changes]),
        ):
            for name, end in zip(names, ("value", "low", "high"), strict=True):
                ends = [None if one is None else getattr(one, end) for one in told]
                columns[name] = ends[: len(self.names)]
        return columns


@dataclass(frozen=True, repr=False)
class Comparison(_Pictured):
    """Numbers of two lists side by side, and their differences, the second less the first.

    Attributes:
      lists: the two lists.
      labels: what they are called.
      questions: what is asked of both, in words.
      first, second, differences: the answer to each question, of the lists and of their difference;
        each interval holds with its confidence by itself.
    """

    page_kind = "comparison"

    lists: tuple[ListRelease, ListRelease]
    labels: tuple[str, str]
    questions: tuple[str, ...]
    first: tuple[Estimate, ...]
    second: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]

    def _columns(self) -> dict[str, Any]:
        return {
            "number": list(self.questions),
            "first": [float(one.value) for one in self.first],
            "second": [float(one.value) for one in self.second],
            "difference": [float(one.value) for one in self.differences],
            "low": [float(one.low) for one in self.differences],
            "high": [float(one.high) for one in self.differences],
        }


def compare(
    first: ListRelease,
    second: ListRelease,
    confidence: float = CONFIDENCE,
    labels: tuple[str, str] = ("first", "second"),
) -> Comparison:
    """Compares two released lists by numbers of each. ``Releases.series`` does so for many.

    Proof. Let the interval of each list fail with probability at most a / 2. Where both hold, the
    difference of the true numbers is between the low end of the second less the high end of the
    first, and the converse. So this fails with probability at most a, whatever the two noises have
    in common. QED.

    Args:
      first, second: about the same users or others.
      confidence: 1 - a, of the interval of each difference by itself.
      labels: what to call the two in pictures and pages.

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
    if not all(isinstance(one, ListRelease) for one in (first, second)):
        raise ValueError("compare takes two lists, not names, groups or periods")
    ones, twos = (_asked(one.intervals, _half(confidence)) for one in (first, second))
    both = {*_shown(ones), *_shown(twos)} & ones.keys() & twos.keys()
    asked = [one for one in QUESTIONS if one in both]
    names = _names(first)
    return Comparison(
        (first, second),
        labels,
        tuple(one.words.format(**names) for one in asked),
        tuple(ones[one] for one in asked),
        tuple(twos[one] for one in asked),
        tuple(_difference(ones[one], twos[one], confidence) for one in asked),
    )


def load(directory: str | os.PathLike[str]) -> Any:
    """Reads the release from a directory that a job, or ``save``, has written.

    Returns:
      A ``ListRelease``, ``NamesRelease`` or ``GroupReleases``; or the ``Releases`` that
      ``--period`` has written into a directory for each.

    Raises:
      ValueError: there is no release, or it cannot be read.
    """

    def answering(found: Any, statement: dict[str, Any]) -> ListRelease | NamesRelease:
        kind = ListRelease if isinstance(found, ReleasedList) else NamesRelease
        return kind(found, statement)

    found, statement, kind = read_release(os.fspath(directory))
    if not isinstance(found, dict):
        return answering(found, statement)
    if kind is None:
        return GroupReleases(found, statement)
    return Releases({name: answering(*one) for name, one in found.items()}, kind)


def _publish(
    directory: str | os.PathLike[str],
    tables: Tables,
    statement: Mapping[str, Any],
    overwrite: bool,
    numbers: int = 2,
) -> None:
    """Writes the files of a job, of which the first table is the release, with Python's words in
    errors."""
    file_name, *beside = tables
    try:
        place = ReleaseDirectory(
            os.fspath(directory), file_name, overwrite, numbers=numbers, beside=tuple(beside)
        )
        place.check()
        place.publish(tables, dict(statement))
    except ValueError as error:
        told = str(error).replace("--overwrite", "overwrite=True").replace("--output", "directory")
        raise ValueError(told) from None


def _names(
    release: ListRelease | None, things: str | None = None, users: str | None = None
) -> dict[str, str]:
    """The words for partitions and users: those of the caller or, of a graph, nodes and edges."""
    is_graph = release is not None and "degree" in release.statement
    default = ("nodes", "edges") if is_graph else ("partitions", "users")
    return {"things": things or default[0], "users": users or default[1]}


def _half(confidence: float) -> float:
    return 1 - (1 - confidence) / 2


def _difference(one: Estimate, two: Estimate, confidence: float) -> Estimate:
    """The second less the first, from intervals that fail with half of the probability each."""
    low, high = two.low - one.high, two.high - one.low
    return replace(one, value=two.value - one.value, low=low, high=high, confidence=confidence)


def _asked(answers: Answers, confidence: float) -> dict[Question, Estimate]:
    """The answers to all questions; an empty list has no shares."""
    some = len(answers.released) > 0
    return {
        one: one.of_list(answers, confidence)
        for one in QUESTIONS
        if some or one.method != "share_of_top"
    }


def _shown(asked: Mapping[Question, Estimate]) -> list[Question]:
    """The questions to which there is something to say: about ranks that may be there."""
    ranks = {one.of: told for one, told in asked.items() if one.method == "frequency_at"}
    return [
        one
        for place, (one, told) in enumerate(asked.items())
        if place < _ALWAYS or (ranks[one.of] if one.method == "share_of_top" else told).high > 0
    ]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
