"""Releases that answer questions: a list of frequencies, or names. All that is in them is public.

A function returns the same object as ``load`` does for the directory that a job, or ``save``, has
written. Intervals are for the noise alone; where a user has more partitions than count, they are
about the records that do.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.frames import jobs
from dp_transforms.mechanisms.decimals import Real
from dp_transforms.mechanisms.released_list import ReleasedList

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_transforms.postprocessing.estimates import Estimate, ReleaseIntervals

_SHOWN = 10
CONFIDENCE = 0.95


class _Table:
    """A table for whichever library the user has."""

    _labels: Sequence[str] = ()
    """Columns of names, which are not numbers even where they are digits."""

    def to_arrow(self) -> pa.Table:
        """The table as a ``pyarrow.Table``."""
        import pyarrow as pa

        return pa.table(self._columns())

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``.

        Raises:
          ImportError: pandas is not installed.
        """
        _needed("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The table as a ``polars.DataFrame``.

        Raises:
          ImportError: polars is not installed.
        """
        return _needed("polars").from_arrow(self.to_arrow())

    def _columns(self) -> dict[str, Any]:
        raise NotImplementedError

    def _below(self) -> list[str]:
        """The lines below the table."""
        return []

    def _shown(self) -> list[list[str]]:
        """The head of the table, and its first rows."""
        columns = self._columns()
        first = [
            [str(one) if name in self._labels else _text(one) for one in values[:_SHOWN].tolist()]
            for name, values in ((name, np.asarray(one)) for name, one in columns.items())
        ]
        rows = [list(row) for row in zip(*first, strict=True)]
        if len(next(iter(columns.values()))) > _SHOWN:
            rows.append(["..."] * len(columns))
        return [list(columns), *rows]

    def __repr__(self) -> str:
        rows = self._shown()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in rows
        ]
        return "\n".join([*lines, *self._below()])

    def _repr_html_(self) -> str:
        head, *rows = self._shown()
        cells = ["".join(f"<td>{html.escape(text)}</td>" for text in row) for row in rows]
        heads = "".join(f"<th>{html.escape(text)}</th>" for text in head)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        below = "".join(f"<p>{html.escape(text)}</p>" for text in self._below())
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{below}"


class _Answers(_Table):
    """The statement of a release, and its table."""

    statement: Mapping[str, Any]

    @property
    def privacy(self) -> str:
        """The guarantee in words that a publisher can paste."""
        return "\n\n".join(jobs.words_of(self.statement))

    def _summary(self) -> str:
        raise NotImplementedError

    def _below(self) -> list[str]:
        told = self.statement
        delta = f" and delta {told['delta']:g}" if told["delta"] else ""
        bound = ""
        if "max_partitions_per_user" in told:
            kappa = told["max_partitions_per_user"]
            how = told["max_partitions_per_user_is"]
            bound = f"; at most {kappa} partition{'s' * (kappa > 1)} of each user ({how})"
        neighbours = f"neighbouring data: {told['neighbours']}"
        return [self._summary(), f"epsilon {told['epsilon']:g}{delta}; {neighbours}{bound}"]


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

    released: ReleasedList
    statement: Mapping[str, Any]

    @cached_property
    def intervals(self) -> ReleaseIntervals:
        """The intervals that give answers, see ``postprocessing.estimates.ReleaseIntervals``."""
        return jobs.intervals(self.released, self.statement)

    def top(self, k: int, confidence: float = CONFIDENCE) -> list[Estimate]:
        """The k largest frequencies as released, whose intervals hold together with the confidence.
        A value outside its interval is moved to the nearer end."""
        from dataclasses import replace

        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        each = 1 - (1 - confidence) / k
        ranks = range(1, k + 1)
        told = zip(self.released.at_ranks([*ranks]).tolist(), ranks, strict=True)
        answers = ((value, self.frequency_at(rank, each)) for value, rank in told)
        return [
            replace(one, value=min(max(value, one.low), one.high), confidence=confidence)
            for value, one in answers
        ]

    def number_of_partitions(self, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions."""
        return self.intervals.number_of_partitions(confidence)

    def partitions_with_at_least(self, users: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the number of partitions with at least so many users."""
        return self.intervals.partitions_with_at_least(users, confidence)

    def frequency_at(self, rank: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates the users of the partition of a rank, counted from 1; 0 behind the last."""
        return self.intervals.frequency_at(rank, confidence)

    def total(self, confidence: float = CONFIDENCE) -> Estimate:
        """The sum of all frequencies: how many pairs of a user and a partition there are."""
        return self.intervals.total(confidence)

    def share_of_top(self, partitions: int, confidence: float = CONFIDENCE) -> Estimate:
        """The part of the total that the largest frequencies make up."""
        return self.intervals.share_of_top(partitions, confidence)

    def numbers(self, confidence: float = CONFIDENCE) -> dict[str, Estimate]:
        """The numbers that are mostly asked for, by what they are in words."""
        return {name: asked(self.intervals, confidence) for name, asked in _ASKED}

    def guesswork_bits(self, alpha: Real = "0.5", confidence: float = CONFIDENCE) -> Estimate:
        """Estimates, of passwords, the bits of work to guess a part alpha of accounts; see
        ``guessing_metrics.alpha_guesswork_bits``."""
        return self.intervals.alpha_guesswork_bits(alpha, confidence)

    def success_rate_bits(self, guesses: int, confidence: float = CONFIDENCE) -> Estimate:
        """Estimates, of passwords, the bits that so many guesses at each account meet; see
        ``guessing_metrics.success_rate_bits``."""
        return self.intervals.success_rate_bits(guesses, confidence)

    def plot(
        self, path: str | os.PathLike[str] | None = None, confidence: float = CONFIDENCE
    ) -> Any:
        """A picture of frequencies by rank, with error bars that hold together: a figure of
        matplotlib, written to a path if one is given.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
        """
        from dp_transforms.postprocessing import views

        return views.plot_released_list(self.released, path, confidence, self._known())

    def report(self, path: str | os.PathLike[str], about: str | None = None) -> None:
        """Writes one self-contained page with the numbers, pictures and the guarantee.

        Args:
          path: of the page.
          about: what partitions are, such as "password", if the column's name does not say it.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
        """
        page = jobs.report(self.released, self.statement, about)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes what the job writes: the list, its noisy coordinates and privacy.json, whole or
        not at all.

        Raises:
          ValueError: the directory cannot be written, or has a release and ``overwrite`` is false.
        """
        jobs.save_list(os.fspath(directory), self.released, self.statement, overwrite)

    def _known(self) -> ReleaseIntervals | None:
        try:
            return self.intervals if len(self.released) else None
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

    def _summary(self) -> str:
        things = "nodes" if "degree" in self.statement else "partitions"
        if self._known() is None:
            return f"{self.released.distinct:,} {things}, total {self.released.total:,}"
        return f"{things}: {self.number_of_partitions()}; total: {self.total()}"


@dataclass(frozen=True, repr=False, eq=False)
class NamesRelease(_Answers):
    """Released names of partitions, perhaps with noisy numbers of their users.

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

    names: pa.Table
    statement: Mapping[str, Any]

    @property
    def _labels(self) -> list[str]:  # type: ignore[override]  # it depends on the table
        return jobs.names_of_columns(self.names, self.statement)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes what the job writes: the names and privacy.json, whole or not at all.

        Raises:
          ValueError: the directory cannot be written, or has a release and ``overwrite`` is false.
        """
        jobs.save_names(os.fspath(directory), self.names, self.statement, overwrite)

    def _columns(self) -> dict[str, Any]:
        return {name: self.names[name] for name in self.names.column_names}

    def _summary(self) -> str:
        return f"{self.names.num_rows:,} names"

    def __len__(self) -> int:
        return int(self.names.num_rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamesRelease):
            return NotImplemented
        return bool(self.names.equals(other.names)) and self.statement == other.statement

    __hash__ = None  # type: ignore[assignment]  # a table has no hash


class Releases(_Table, Mapping[str, ListRelease]):
    """Lists that were released together, by name: of each day, say. Also one table.

    Args:
      lists: in order.
      kind: what the names are, such as "day".
    """

    def __init__(self, lists: Mapping[str, ListRelease], kind: str):
        self._lists, self.kind = dict(lists), kind

    def __getitem__(self, name: str) -> ListRelease:
        return self._lists[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lists)

    def __len__(self) -> int:
        return len(self._lists)

    def to_arrow(self) -> pa.Table:
        """All lists in one ``pyarrow.Table``, whose first column has their names."""
        import pyarrow as pa

        parts = []
        for name, one in self.items():
            table = one.to_arrow()
            parts.append(table.add_column(0, self.kind, [pa.repeat(name, len(table))]))
        return pa.concat_tables(parts)

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes each list into a directory of its name, as the job does with ``--period``."""
        for name, one in self.items():
            one.save(os.path.join(os.fspath(directory), name), overwrite)

    def __repr__(self) -> str:
        return f"<{len(self)} lists by {self.kind}: {', '.join([*self][:_SHOWN])}>"


@dataclass(frozen=True, repr=False)
class Comparison(_Table):
    """Numbers of two lists side by side, and their differences, the second less the first.

    Attributes:
      questions: what is asked.
      first, second, differences: the answers; each interval holds with its confidence by itself.
    """

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


_ASKED: Sequence[tuple[str, Callable[[ReleaseIntervals, float], Estimate]]] = (
    ("partitions", lambda one, c: one.number_of_partitions(c)),
    ("partitions with at least 10", lambda one, c: one.partitions_with_at_least(10, c)),
    ("partitions with at least 100", lambda one, c: one.partitions_with_at_least(100, c)),
    ("partitions with at least 1,000", lambda one, c: one.partitions_with_at_least(1000, c)),
    ("total", lambda one, c: one.total(c)),
    ("users at rank 1", lambda one, c: one.frequency_at(1, c)),
    ("users at rank 10", lambda one, c: one.frequency_at(10, c)),
    ("users at rank 100", lambda one, c: one.frequency_at(100, c)),
    ("share of the top 10", lambda one, c: one.share_of_top(10, c)),
    ("share of the top 100", lambda one, c: one.share_of_top(100, c)),
)


def compare(first: ListRelease, second: ListRelease, confidence: float = CONFIDENCE) -> Comparison:
    """Compares two released lists by numbers of each.

    Each of the two intervals of a number fails with half of the probability that the interval of
    their difference may fail with, so that this holds whatever the two noises have in common.

    >>> import dp_transforms as dp
    >>> monday, tuesday = (
    ...     dp.release_counts([users, 1], epsilon=50, max_partitions_per_user=1)
    ...     for users in (20, 50)
    ... )
    >>> dp.compare(monday, tuesday).to_arrow().to_pylist()[4]["difference"]
    30.0
    """
    from dp_transforms.postprocessing.estimates import Estimate

    half = 1 - (1 - confidence) / 2
    ones, twos = first.numbers(half), second.numbers(half)
    differences = [
        Estimate(two.value - one.value, two.low - one.high, two.high - one.low, confidence)
        for one, two in zip(ones.values(), twos.values(), strict=True)
    ]
    return Comparison(tuple(ones), *map(tuple, (ones.values(), twos.values(), differences)))


def load(directory: str | os.PathLike[str]) -> ListRelease | NamesRelease:
    """The release of a directory that a job, or ``save``, has written.

    Raises:
      ValueError: there is none, or it cannot be read.
    """
    found, statement = jobs.read_release(os.fspath(directory))
    if isinstance(found, ReleasedList):
        return ListRelease(found, statement)
    return NamesRelease(found, statement)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _needed(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"to_{name} needs {name}: pip install {name}") from None
