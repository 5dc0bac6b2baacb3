"""Writes the elements of releases into directories.

On Beam, workers look these functions up by the names of their modules. So the functions are in the
library: its modules have the same names on all workers, however the job was started.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dp_transforms.budget.entry import BudgetEntry
from dp_transforms.files.output import ReleaseDirectory
from dp_transforms.releases.base import ReleasedTables, Statement
from dp_transforms.releases.list_and_names import list_release, name_tables_beside
from dp_transforms.releases.name_estimates import estimates_are_of_all_records
from dp_transforms.releases.name_statements import estimates_entry
from dp_transforms.releases.periods import names_of_period


@dataclass(frozen=True)
class Writer:
    """Writes a release into a directory. On Beam, the writer is pickled.

    Attributes:
      directory: receives the files.
      statement: the privacy.json, without the entries that are known only when the release is made.
      tables: makes the content of the files, see ``ReleasedTables``.
      period: the name of the release's period, if it has one.
    """

    directory: ReleaseDirectory
    statement: Statement
    tables: ReleasedTables
    period: str | None = None

    def __call__(
        self, budget_entry: BudgetEntry, released: Iterable[Any], others: Iterable[Statement] = ()
    ) -> None:
        """Writes the elements of a release and the statement, to which it adds the entries of
        ``others``."""
        statement = self.statement | budget_entry.statement
        if self.period is not None:
            statement["period"] = self.period
        for entries in others:
            statement |= entries
        elements = list(released)
        statement |= self.tables.entries(elements)
        content = functools.partial(self.tables.make, elements, statement)
        self.directory.publish(content, statement, budget_entry)


def write_both(
    writers: Sequence[Writer],
    budget_entry: BudgetEntry,
    lists: Iterable[Any],
    selected: Iterable[Any],
    *others: Iterable[Statement],
) -> None:
    """Writes a list, and then names with estimates of their users by this list."""
    write_list, write_names = writers
    (element,) = lists
    write_list(budget_entry, [element])
    released = list_release(element, write_list.statement | budget_entry.statement)
    make = functools.partial(name_tables_beside, released)
    entry = estimates_entry(
        write_names.statement,
        released.statement,
        of_all_records=estimates_are_of_all_records(write_names.statement, released),
    )
    write_estimates_too = replace(
        write_names,
        statement=write_names.statement | entry,
        tables=write_names.tables._replace(make=make),
    )
    write_estimates_too(budget_entry, selected, *others)


def write_periods(
    writers: Mapping[str, Writer],
    budget_entry: BudgetEntry,
    elements: Iterable[Any],
    others: Iterable[Statement] = (),
) -> None:
    """Writes the release of each period. An element is either a pair of a period and its list, or a
    table of names with their periods in the column ``list``. The entries of ``others`` are added to
    the statement of each period."""
    import pyarrow.compute as pc

    from dp_transforms.columnar.attributes import LIST

    released: dict[str, list[Any]] = {period: [] for period in writers}
    for element in elements:
        if isinstance(element, tuple):
            period, released_list = element
            released[period].append(released_list)
        else:
            for period in pc.unique(element[LIST]).to_pylist():
                released[period].append(names_of_period(element, period))
    entries = list(others)
    for period, write in writers.items():
        write(budget_entry, released[period], entries)
