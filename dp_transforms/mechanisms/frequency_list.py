"""Represents frequency lists: how often things occur, without their names; private and released."""

from __future__ import annotations

import bisect
import csv
import itertools
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_transforms.errors import without_originals
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decimals import integer
from dp_transforms.public_names import moved_method

if TYPE_CHECKING:
    from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates
    from dp_transforms.mechanisms.partition.mechanism import PartitionMechanism

MAX_VALUE = 2**63 - 1  # of frequencies, multiplicities and the total: a signed 64-bit integer

Integers = Sequence[int] | IntArray

_HEADER = ["frequency", "multiplicity"]
_SHOWN = 6
_SHOWN_ROWS = 20


class FrequencyList:
    """Holds a frequency list, in run-length form: ``multiplicities[i]`` items have
    ``frequencies[i]`` users each.

    It is an integer partition of its total N, and has at most sqrt(2 N) distinct frequencies. It is
    immutable and hashable, and treated as private: printing it is an error. Mechanisms return a
    ``ReleasedList``.

    Args:
      frequencies: distinct positive integers, strictly descending.
      multiplicities: as many positive integers.

    Raises:
      ValueError: an entry is not an integer, not positive, out of order, repeated, or too large for
        64 bits. The message states its position and value: do not show it if the list is private.

    >>> password_counts = FrequencyList([5, 2, 1], [1, 1, 3])
    >>> password_counts.total, password_counts.distinct
    (10, 5)
    >>> password_counts == FrequencyList.from_counts([1, 5, 1, 2, 1])
    True
    """

    __slots__ = ("_frequencies", "_multiplicities", "_total")

    def __init__(self, frequencies: Integers = (), multiplicities: Integers = ()):
        values = _positive_integers("frequencies", frequencies)
        repeats = _positive_integers("multiplicities", multiplicities)
        if len(values) != len(repeats):
            raise ValueError(
                "frequencies and multiplicities must be equally long, got "
                f"{len(values)} and {len(repeats)}"
            )
        steps = np.flatnonzero(values[1:] >= values[:-1])
        if steps.size:
            i = int(steps[0]) + 1
            raise ValueError(
                f"frequencies must be strictly descending, but frequencies[{i}] = {values[i]} "
                f"follows {values[i - 1]}"
            )
        total = sum(v * m for v, m in zip(values.tolist(), repeats.tolist(), strict=True))
        if total > MAX_VALUE or int(repeats.sum(dtype=object)) > MAX_VALUE:
            raise ValueError(f"the total of all frequencies must be at most 2**63 - 1, got {total}")
        for array in (values, repeats):
            array.setflags(write=False)
        self._frequencies = values
        self._multiplicities = repeats
        self._total: int = total

    @classmethod
    def from_counts(cls, counts: Iterable[int]) -> FrequencyList:
        """Returns the list of these counts, one per item, in any order. Zeros are not allowed.

        Raises:
          ValueError: a count is not a positive 64-bit integer.
          TypeError: they are a mapping, such as a Counter: its keys would be taken for counts.
        """
        if isinstance(counts, Mapping):
            raise TypeError("counts is a mapping: give its values(), or take from_histogram")
        if not (isinstance(counts, np.ndarray) and counts.dtype.kind in "iu"):
            counts = _positive_integers("counts", counts)
        values, repeats = np.unique(counts, return_counts=True)
        return cls(values[::-1], repeats[::-1])

    @classmethod
    def from_histogram(cls, histogram: Mapping[int, int]) -> FrequencyList:
        """Returns the list with histogram[v] items of frequency v, for every v.

        Raises:
          ValueError: see ``FrequencyList``.

        >>> list(FrequencyList.from_histogram({1: 3, 5: 1}))
        [(5, 1), (1, 3)]
        """
        descending = sorted(histogram, reverse=True)
        return cls(descending, [histogram[value] for value in descending])

    @classmethod
    def from_runs(cls, values: Integers, repeats: Integers) -> FrequencyList:
        """Returns the list with the value values[j] at the next repeats[j] ranks, for every j in
        turn.

        Args:
          values: descending; they may repeat, and zeros may follow the positive ones.
          repeats: the number of ranks for each value.

        >>> list(FrequencyList.from_runs([7, 3, 3, 0], [1, 2, 1, 5]))
        [(7, 1), (3, 3)]
        """
        values, repeats = np.asarray(values, np.int64), np.asarray(repeats, np.int64)
        kept = (values > 0) & (repeats > 0)
        values, repeats = values[kept], repeats[kept]
        if not len(values):
            return cls()
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        return cls(values[starts], np.add.reduceat(repeats, starts))

    @classmethod
    @without_originals()
    def from_csv(cls, path: str | os.PathLike[str]) -> FrequencyList:
        """Returns the list in a file with the header ``frequency,multiplicity`` and descending
        frequencies.

        Raises:
          ValueError: the file is empty, has another header, or has a bad line. The message says
            which line.
        """
        runs: list[tuple[int, int]] = []
        with open(path, newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            try:
                header = next(rows, None)
                if header is None:
                    raise ValueError(f"{path} is empty; expected {','.join(_HEADER)}")
                if [name.strip().lstrip("\ufeff") for name in header] != _HEADER:
                    raise ValueError(f"{path}: the first line must be {','.join(_HEADER)}")
                for row in filter(None, rows):
                    runs.append(_two_integers(row, f"{path}, line {rows.line_num}"))
            except csv.Error as error:
                raise ValueError(f"{path}, line {rows.line_num}: {error}") from None
        try:
            return cls([value for value, _ in runs], [repeat for _, repeat in runs])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that ``from_csv`` reads."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_HEADER)
            writer.writerows(self)

    @property
    def frequencies(self) -> IntArray:
        """Returns the distinct frequencies, strictly descending; a read-only array."""
        return self._frequencies

    @property
    def multiplicities(self) -> IntArray:
        """Returns the number of items with each frequency; a read-only array."""
        return self._multiplicities

    @property
    def total(self) -> int:
        """Returns N, the sum of the frequencies of all items. It is the number of pairs of a user
        and a partition, if frequencies are numbers of users."""
        return self._total

    @property
    def distinct(self) -> int:
        """Returns the number of items in the list."""
        return int(self._multiplicities.sum())

    def at_ranks(self, ranks: Integers, tail: int = 0) -> IntArray:
        """Returns the frequencies at some ranks, counted from 1. Ranks behind the last item have
        the frequency ``tail``."""
        ends = np.cumsum(self._multiplicities)
        return np.append(self._frequencies, tail)[np.searchsorted(ends, ranks)]

    def at_least(self, users: Integers) -> IntArray:
        """Returns, for each of several numbers of users, how many items have at least as many.

        >>> FrequencyList([5, 2, 1], [1, 1, 3]).at_least([6, 2, 1]).tolist()
        [0, 2, 5]
        """
        places = np.searchsorted(-self._frequencies, -np.asarray(users), side="right")
        return np.append(0, self._multiplicities.cumsum())[places]

    def l1_distance(self, other: FrequencyList) -> int:
        """Returns the sum over ranks of absolute differences: twice the ``dist`` of Blocki et al.
        (2016)."""
        # The last ranks of runs on which both lists are constant.
        cuts = np.union1d(*(np.cumsum(f.multiplicities) for f in (self, other)))
        widths = np.diff(cuts, prepend=0).tolist()
        here, there = (f.at_ranks(cuts).tolist() for f in (self, other))
        return sum(width * abs(a - b) for width, a, b in zip(widths, here, there, strict=True))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yields (frequency, multiplicity) pairs, descending."""
        return zip(self._frequencies.tolist(), self._multiplicities.tolist(), strict=True)

    def __len__(self) -> int:
        """Returns the number of distinct frequencies."""
        return len(self._frequencies)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrequencyList):
            return NotImplemented
        return np.array_equal(self._frequencies, other._frequencies) and np.array_equal(
            self._multiplicities, other._multiplicities
        )

    def __hash__(self) -> int:
        return hash((self._frequencies.tobytes(), self._multiplicities.tobytes()))

    def __repr__(self) -> str:
        # The entries may be private, and a repr ends up in logs and in assertion messages.
        return f"<FrequencyList at {id(self):#x}>"

    def __str__(self) -> str:
        raise TypeError(
            "a private frequency list has no text: release it with a mechanism, or write it where "
            "only you can read it with to_csv"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return FrequencyList, (self._frequencies, self._multiplicities)


class ReleasedList(FrequencyList):
    """Holds a released list, which can be used like any FrequencyList.

    Unlike a private list it shows its contents: its text consists of the lines of its CSV file.

    Args:
      frequencies, multiplicities: see ``FrequencyList``.
      mechanism: the mechanism that released it; None if it was read from a file.
      coordinates: the noisy coordinates from which it was decoded; None if it was not decoded.

    >>> released = ReleasedList([5, 2, 1], [1, 1, 3])
    >>> released
    ReleasedList([5, 2, 1], [1, 1, 3])
    >>> print(released)
    frequency,multiplicity
    5,1
    2,1
    1,3
    """

    __slots__ = ("_coordinates", "_mechanism")

    def __init__(
        self,
        frequencies: Integers = (),
        multiplicities: Integers = (),
        mechanism: PartitionMechanism | None = None,
        coordinates: NoisyCoordinates | None = None,
    ):
        super().__init__(frequencies, multiplicities)
        self._mechanism = mechanism
        self._coordinates = coordinates

    @property
    def mechanism(self) -> PartitionMechanism | None:
        """Returns the mechanism that released the list, which describes its noise."""
        return self._mechanism

    @property
    def coordinates(self) -> NoisyCoordinates | None:
        """Returns the noisy coordinates from which the list was decoded; None if it was not
        decoded. They are all that the release tells of the private list."""
        return self._coordinates

    @property
    def cost(self) -> dict[str, Any] | None:
        """Returns the release's epsilon, delta and declared bound on the partitions of a user; None
        if the mechanism is not known. Epsilon and delta hold if no user exceeds this bound, which a
        mechanism cannot check.

        >>> from dp_transforms.mechanisms import IntegerPartitionMechanism
        >>> mechanism = IntegerPartitionMechanism(epsilon=0.5, sensitivity=2)
        >>> mechanism.release(FrequencyList([7, 1], [1, 9])).cost
        {'epsilon': 0.5, 'delta': 0.0, 'declared_max_partitions_per_user': 2}
        """
        if self._mechanism is None:
            return None
        return {
            "epsilon": self._mechanism.epsilon_cost,
            "delta": self._mechanism.failure_probability,
            "declared_max_partitions_per_user": self._mechanism.sensitivity,
        }

    def to_dict(self) -> dict[str, list[int]]:
        """Returns the columns of the list's CSV file as {name: values}.

        >>> ReleasedList([5, 1], [1, 3]).to_dict()
        {'frequency': [5, 1], 'multiplicity': [1, 3]}
        """
        columns = (self.frequencies.tolist(), self.multiplicities.tolist())
        return dict(zip(_HEADER, columns, strict=True))

    # Version 0.2 had these as methods. They go in version 0.4.
    to_arrow = moved_method("dp_transforms.reports.lists", "to_arrow")
    to_pandas = moved_method("dp_transforms.reports.lists", "to_pandas")
    plot = moved_method("dp_transforms.reports.lists", "plot_list")

    def __str__(self) -> str:
        return "\n".join([",".join(_HEADER), *(f"{n},{m}" for n, m in self)])

    def __repr__(self) -> str:
        return f"ReleasedList({_first(self.frequencies)}, {_first(self.multiplicities)})"

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>{n:,}</td><td>{m:,}</td></tr>" for n, m in self][:_SHOWN_ROWS]
        if len(self) > _SHOWN_ROWS:
            rows.append("<tr><td>...</td><td>...</td></tr>")
        cost = "".join(f", {name} {value}" for name, value in (self.cost or {}).items())
        return (
            "<table><thead><tr><th>frequency</th><th>multiplicity</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
            f"<p>{self.distinct:,} partitions, total {self.total:,}{cost}</p>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        columns = (self.frequencies, self.multiplicities)
        return ReleasedList, (*columns, self._mechanism, self._coordinates)


class RankSums:
    """Computes sums of frequencies over ranks of a list, without writing the list out.

    Attributes:
      total: the sum of all frequencies.
      frequencies: the distinct frequencies, descending: that of run r is ``frequencies[r - 1]``.
      ends: ``ends[r]`` is the last rank of run r; ``ends[0]`` is 0.
      sums: ``sums[r]`` is the number of users at ranks 1 to ``ends[r]``; ``sums[0]`` is 0.
    """

    def __init__(self, frequency_list: FrequencyList):
        self.total = frequency_list.total
        self.frequencies: list[int] = frequency_list.frequencies.tolist()
        self.ends = [0, *itertools.accumulate(m for _, m in frequency_list)]
        self.sums = [0, *itertools.accumulate(v * m for v, m in frequency_list)]

    def sum_to(self, rank: int) -> int:
        """Returns the number of users at ranks 1 to ``rank``."""
        if rank >= self.ends[-1]:
            return self.total
        run = bisect.bisect_right(self.ends, rank) - 1
        return self.sums[run] + (rank - self.ends[run]) * self.frequencies[run]

    def at_least(self, value: int) -> int:
        """Returns how many ranks have a frequency of at least ``value``, which is above 0."""
        return self.ends[bisect.bisect_right(self.frequencies, -value, key=operator.neg)]

    def rank_reaching(self, users: Fraction) -> int:
        """Returns the first rank with ``sum_to(rank) >= users``, for 0 < users <= total."""
        run = bisect.bisect_left(self.sums, users) - 1
        return self.ends[run] + math.ceil((users - self.sums[run]) / self.frequencies[run])

    def sum_of_sums(self, rank: int) -> int:
        """Returns the sum of ``sum_to(j)`` over 0 <= j < rank."""
        result = 0
        for start, end, base, value in zip(
            self.ends, self.ends[1:], self.sums, self.frequencies, strict=False
        ):
            width = max(0, min(end, rank) - start)
            # Ranks start, start + 1, ... of this run have sums base, base + value, ...
            result += width * base + value * (width * (width - 1) // 2)
        return result + max(0, rank - self.ends[-1]) * self.total


def _first(values: IntArray) -> str:
    """Returns the text of a list of values, with dots in place of all but the first ones."""
    texts = [str(value) for value in values[:_SHOWN].tolist()]
    if len(values) > _SHOWN:
        texts.append("...")
    return f"[{', '.join(texts)}]"


def _two_integers(row: list[str], place: str) -> tuple[int, int]:
    try:
        value, repeat = map(int, row)
    except ValueError:
        raise ValueError(f"{place}: expected two integers ({','.join(_HEADER)})") from None
    return value, repeat


def _positive_integers(name: str, entries: Iterable[Any]) -> IntArray:
    if not (isinstance(entries, np.ndarray) and entries.dtype.kind in "iu" and entries.ndim == 1):
        values = [integer(f"{name}[{i}]", entry) for i, entry in enumerate(entries)]
        entries = np.array(values, dtype=object)
    bad = np.flatnonzero((entries < 1) | (entries > MAX_VALUE))
    if bad.size:
        entry = entries[bad[0]]
        raise ValueError(f"{name}[{bad[0]}] must be between 1 and 2**63 - 1, got {entry!r}")
    return entries.astype(np.int64)
