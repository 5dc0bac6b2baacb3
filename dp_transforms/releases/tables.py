"""Defines what releases turn into: tables for libraries of data frames, pages, pictures, files, and
the guarantee in words."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dp_transforms.budget.entry import NO_BUDGET
from dp_transforms.errors import InputError, as_input_error
from dp_transforms.files.output import CsvTable, ReleaseDirectory, directory_path
from dp_transforms.files.paths import join
from dp_transforms.files.several_releases import ARGUMENTS, SeveralReleases
from dp_transforms.postprocessing.text_table import text_table
from dp_transforms.reports.page import Page
from dp_transforms.reports.page import table as html_table
from dp_transforms.reports.phrases import (
    NO_WORDS,
    Words,
    cost_words,
    counts_bound_words,
    partitions_that_count,
    periods_of_user,
    some,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 10


class Table:
    """A table converts to the data frames of pyarrow, pandas and polars."""

    _words: int = 1
    """The number of columns, from the first on, that are shown as words even if they hold digits.
    Numbers in the other columns are shown with separators of thousands."""

    def to_arrow(self) -> pa.Table:
        """Returns the table as a ``pyarrow.Table``."""
        import pyarrow as pa

        return pa.table(self._columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports ``to_arrow`` to other libraries, as Arrow's PyCapsule interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Returns the table as a ``pandas.DataFrame``; needs pandas."""
        table = self.to_arrow()
        try:
            return table.to_pandas()
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install pandas") from None

    def to_polars(self) -> Any:
        """Returns the table as a ``polars.DataFrame``; needs polars."""
        try:
            import polars
        except ImportError:
            raise ImportError("to_polars needs polars: pip install polars") from None

        return polars.from_arrow(self.to_arrow())

    def _columns(self) -> dict[str, Any]:
        """Returns the columns of ``to_arrow``, by their names. Every subclass defines this."""
        raise NotImplementedError

    def _below(self) -> list[str]:
        """Returns lines that are shown below the table."""
        return []

    def _shown(self) -> list[list[str]]:
        """Returns the header and the first rows, as texts."""
        import pyarrow as pa

        table = pa.table(self._columns())
        rows = [
            [*map(str, row[: self._words]), *map(_text, row[self._words :])]
            for row in zip(*table[:_SHOWN].to_pydict().values(), strict=True)
        ]
        if len(table) > _SHOWN:
            rows.append(["..."] * table.num_columns)
        return [table.column_names, *rows]

    def __repr__(self) -> str:
        return "\n".join([text_table(self._shown(), self._words), *self._below()])

    def _repr_html_(self) -> str:
        below = "".join(f"<p>{html.escape(text)}</p>" for text in self._below())
        rows = self._shown()
        return html_table(rows, len(rows[0]) - self._words) + below


class PagedTable(Table):
    """A table that can write a page."""

    def page(self, words: Words = NO_WORDS) -> Page:
        """Returns the page, with its pictures. Raises an InputError if this kind of release has no
        page, or if its numbers have no error bars."""
        raise InputError(f"there are no pages of the kind {type(self).__name__}: print the release")

    def report(
        self,
        path: str | os.PathLike[str],
        about: str | None = None,
        *,
        users: str = "users",
        title: str | None = None,
        data_name: str | None = None,
    ) -> None:
        """Writes a self-contained page with numbers, pictures and the guarantee.

        Args:
          path: where the page is written.
          about: a word for partitions, such as "passwords", if the column's name does not say it.
          users: a word for users, such as "accounts".
          title: the title of the page; by default it names the kind of release and the data.
          data_name: a name for the data.

        Raises:
          ImportError: matplotlib is not installed; it is in the extra ``report``.
          InputError: the page cannot be written.
        """
        page, _ = self.page(Words(about, users, title, data_name))
        unwritten = f"{os.fspath(path)} cannot be written: give the path of a file"
        with as_input_error(unwritten, (OSError,)), open(path, "w", encoding="utf-8") as file:
            file.write(page)


class PicturedTable(PagedTable):
    """A table that can draw several lists in one picture."""

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draws one number of every list, or two lists by rank, with 95% intervals: see
        ``ListRelease.plot``."""
        return drawn(self._figure(), path)

    def _figure(self) -> Any:
        raise NotImplementedError


class Release(PagedTable):
    """A release is a table with a privacy statement.

    A subclass defines ``statement_words`` and ``_columns``, ``_tables`` if it is written into one
    directory, and ``page`` if there are pages of its kind. Only ``Releases`` and subclasses of it
    are no frozen dataclasses with ``repr=False``.
    """

    statement: Mapping[str, Any]
    _file_name: str
    """The name of the main table, as in ``ReleaseSpec.tables``."""

    def _tables(self) -> dict[str, CsvTable]:
        """Returns the tables that ``publish`` writes, by the names of their files. They are those
        that ``ReleaseSpec.tables`` makes."""
        raise NotImplementedError

    @property
    def privacy(self) -> str:
        """Returns the guarantee in words, for a publisher to paste."""
        return "\n\n".join(self.statement_words())

    def statement_words(self) -> list[str]:
        """Returns the guarantee in words, as paragraphs."""
        raise NotImplementedError

    def _summary(self) -> list[str]:
        """Returns lines that are shown between the table and the guarantee."""
        return []

    def _below(self) -> list[str]:
        """Returns the summary, and the guarantee in a line."""
        statement = self.statement
        if not statement:
            return []
        guarantee = f"{cost_words(statement)}; neighbouring data: {statement['neighbours']}"
        if "max_partitions_per_user" in statement:
            most = some(partitions_that_count(statement), "partition")
            how = statement["max_partitions_per_user_is"]
            guarantee += f"; at most {most} of each user ({how}){counts_bound_words(statement)}"
        if "periods" in statement:
            most = periods_of_user(statement["periods"])
            guarantee += f"; records of at most {most} of each user count"
        return [*self._summary(), guarantee]


def drawn(figure: Any, path: str | os.PathLike[str] | None) -> Any:
    """Writes the image of a figure to a path, if one is given, and returns the figure."""
    if path is not None:
        figure.savefig(path)
    return figure


def publish(directory: str | os.PathLike[str], release: Release, overwrite: bool) -> None:
    """Writes a release into a directory, with the files that a job writes. Errors name arguments of
    Python, not flags."""
    place = ReleaseDirectory(
        os.fspath(directory),
        release._file_name,
        overwrite,
        options=ARGUMENTS,
        period=release.statement.get("period"),
    )
    _publish([place], [release])


def publish_several(
    directory: str | os.PathLike[str], releases: Mapping[str, Release], overwrite: bool
) -> None:
    """Writes each release into the subdirectory of its name, as ``publish`` does. All directories
    are checked before the first file is written."""
    parent = directory_path(os.fspath(directory))
    several = SeveralReleases(parent, tuple(releases))
    places = [
        ReleaseDirectory(
            join(parent, name), release._file_name, overwrite, several=several, options=ARGUMENTS
        )
        for name, release in releases.items()
    ]
    _publish(places, [*releases.values()])


def _publish(places: Sequence[ReleaseDirectory], releases: Sequence[Release]) -> None:
    for place in places:
        place.check()
    for place, release in zip(places, releases, strict=True):
        # The budget was charged when the release was made.
        place.publish(release._tables, dict(release.statement), NO_BUDGET)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
