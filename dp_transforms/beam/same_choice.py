"""Makes sure that all steps of a release go by one outcome of its survey or look.

Kappa, or the plan of a selection, follows from noisy numbers by computations with floats. All steps
that need it read it from one collection. If an engine computes this collection twice, on machines
whose floats differ, then one step may bound records by one kappa, while another step draws noise
for a smaller kappa. The release would be less private than it says.

So each sum over users of a partition comes with a third number, the *mark*: every user adds a
number that stands for the choice by which the user's records were bounded. If the sum of the marks
is not the number of users times the mark of the choice that a later step reads, this step raises an
error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from dp_transforms.columnar.attributes import LIST
from dp_transforms.columnar.columns import COUNT, PARTITION, single
from dp_transforms.columnar.counting import numbers_of_rows
from dp_transforms.columnar.hashing import to_arrow, to_numpy
from dp_transforms.errors import InputError
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.selection.measured import Choice

MARK = "mark"
"""The column of sums of marks."""


def mark_of_plan(choice: Choice) -> int:
    """Returns the mark of a choice's plan: a number of 24 bits, so that sums of marks do not
    overflow."""
    digest = hashlib.blake2b(repr(choice.plan).encode(), digest_size=3).digest()
    return 1 + int.from_bytes(digest, "big")


def marked(counts: pa.Table, mark: int | IntArray) -> pa.Table:
    """Returns a table of numbers of users, with their sums of a mark, or of a mark for each row.

    >>> marked(pa.table({"partition": ["a", "b"], "count": [3, 1]}), 10)["mark"].to_pylist()
    [30, 10]
    """
    return counts.append_column(MARK, to_arrow(to_numpy(single(counts[COUNT])) * mark))


def check_marks(counts: pa.Table, mark: int) -> None:
    """Raises an InputError if a sum of marks is not that of the number of users."""
    sums, users = (to_numpy(single(counts[name])) for name in (MARK, COUNT))
    if (sums != users * mark).any():
        raise _other_choice()


def weigh_marked(
    weigh: Callable[..., pa.Table], table: pa.Table, choice: Choice, **side_inputs: Any
) -> pa.Table:
    """Returns the sums that ``weigh`` makes of a table by a choice, with sums of its mark."""
    return marked(weigh(table, choice=choice, **side_inputs), mark_of_plan(choice))


def decide_checked(
    decide: Callable[..., pa.Table], table: pa.Table, choice: Choice, **side_inputs: Any
) -> pa.Table:
    """Returns what ``decide`` makes of sums by a choice. Raises an InputError if the sums were made
    by another choice."""
    check_marks(table, mark_of_plan(choice))
    return decide(table.drop_columns([MARK]), choice=choice, **side_inputs)


def marked_histogram(counts: pa.Table) -> dict[tuple[int, int], int]:
    """Returns {(count, sum of marks): number of partitions}.

    >>> sorted(marked_histogram(pa.table({"count": [3, 1, 1], "mark": [30, 10, 10]})).items())
    [((1, 10), 2), ((3, 30), 1)]
    """
    return numbers_of_rows(counts.select([COUNT, MARK]))


def marked_histograms(
    counts: pa.Table,
) -> Iterable[tuple[str, dict[tuple[int, int], int]]]:
    """Returns (list, {(count, sum of marks): number of partitions}) of each list, from counts of
    listed pairs (see ``list_kernels.listed``)."""
    lists = single(counts[PARTITION]).field(LIST)
    rows = pa.table({LIST: lists, COUNT: counts[COUNT], MARK: counts[MARK]})
    by_list: dict[str, dict[tuple[int, int], int]] = {}
    for (name, count, sum_of_marks), partitions in numbers_of_rows(rows).items():
        by_list.setdefault(name, {})[count, sum_of_marks] = partitions
    return by_list.items()


def histogram_by_choice(by_marks: Mapping[tuple[int, int], int], mark: int) -> dict[int, int]:
    """Returns {count: number of partitions}. Raises an InputError if records were bounded by
    another choice than the one with this mark."""
    if any(sum_of_marks != count * mark for count, sum_of_marks in by_marks):
        raise _other_choice()
    return {count: partitions for (count, _), partitions in by_marks.items()}


def _other_choice() -> InputError:
    return InputError(
        "two workers of this job came to different choices by the same noisy numbers, and nothing "
        "was released: run it on machines of one kind, with the same libraries and settings, or "
        "declare max_partitions_per_user (and, for names, a strategy other than measured)"
    )
