"""Maps frequency lists to Frobenius coordinates and back, and holds noisy coordinates.

Draw a frequency list f_1 >= f_2 >= ... as the Young diagram of the cells (i, j) with j <= f_i, and
let c_j be the number of partitions with at least j users. The diagonal divides the diagram into

    a_i = max(f_i - i + 1, 0)    the cells (i, j) of row i with j >= i       rows
    b_j = max(c_j - j, 0)        the cells (i, j) of column j with i > j     columns

Both sequences fall strictly until they are 0. Let D x D be the largest square in the diagram
(Durfee's). Then D of the a_i are positive, and D or D - 1 of the b_j. Every such pair of sequences
belongs to exactly one list.

Isometry. Each cell is counted by one coordinate, and the cells of a coordinate fill up from the
diagonal outwards. So two lists X and Y differ in |a_i(X) - a_i(Y)| cells of row i on the diagonal
or right of it, and in |b_j(X) - b_j(Y)| cells of column j below it. Hence |X - Y|_1 =
|a(X) - a(Y)|_1 + |b(X) - b(Y)|_1. Coq checks this in ``proofs/Lists.v``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList

ROWS, COLUMNS = "rows", "columns"


class FrobeniusCoordinates:
    """Computes the coordinates of a private list at given indices, without writing the list out."""

    def __init__(self, frequency_list: FrequencyList):
        self._list = frequency_list

    @property
    def square(self) -> int:
        """Returns D, the side of the largest square in the diagram."""
        ends = self._list.multiplicities.cumsum()
        return int(np.minimum(self._list.frequencies, ends).max(initial=0))

    def of(self, arm: str, indices: IntArray) -> IntArray:
        """Returns a_i (``ROWS``) or b_j (``COLUMNS``) at indices from 1 on."""
        if arm == ROWS:
            cells = self._list.at_ranks(indices) - indices + 1
        else:
            cells = self._list.at_least(indices) - indices
        coordinates: IntArray = np.maximum(cells, 0)
        return coordinates


def list_of_coordinates(rows: IntArray, columns: IntArray) -> FrequencyList:
    """Returns the list with these coordinates.

    Args:
      rows, columns: a_1, a_2, ... and b_1, b_2, ..., at least as far as they are positive.

    Raises:
      ValueError: one of the two does not fall strictly to 0, or their numbers of positive
        coordinates belong to no list.

    >>> list(list_of_coordinates(np.array([5, 1]), np.array([3])))
    [(5, 1), (2, 1), (1, 2)]
    """
    size, below = (int(np.count_nonzero(arm)) for arm in (rows, columns))
    for arm in (rows, columns):
        if (arm < 0).any() or ((arm[1:] >= arm[:-1]) & (arm[1:] > 0)).any():
            raise ValueError("the coordinates of a list fall strictly to 0")
    if below not in (size, max(size - 1, 0)):
        raise ValueError("as many rows as columns are positive, or one more")
    index = np.arange(1, size + 1)
    frequencies = rows[:size] + index - 1
    # c_1 >= ... >= c_D >= D. Behind the first D partitions, c_j - c_(j+1) have j users each.
    at_least = index + np.append(columns[:below], np.zeros(size - below, np.int64))
    behind = -np.diff(np.append(at_least, size))
    values = np.concatenate([frequencies, index[::-1]])
    repeats = np.concatenate([np.ones(size, np.int64), behind[::-1]])
    return FrequencyList.from_runs(values, repeats)


@dataclass(frozen=True, eq=False)
class NoisyCoordinates:
    """Holds Frobenius coordinates plus two-sided geometric noise: all that a release tells of a
    list.

    The noises of the coordinates are independent, each with Pr[n] = (1 - q) / (1 + q) q**|n|.
    ``partition.frobenius`` proves the guarantee. Post-processing a release costs no privacy.

    Args:
      rows, columns: noisy a_1, a_2, ... and b_1, b_2, ...; int64 arrays of any lengths.
      decay: q.
      sensitivity: the most partitions in which one user counts.

    Attributes:
      rate: c = -ln q as a float.

    Raises:
      ValueError: these are not one-dimensional arrays of integers.
    """

    rows: IntArray
    columns: IntArray
    decay: Decay
    sensitivity: int = 1

    def __post_init__(self) -> None:
        for name in (ROWS, COLUMNS):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
                raise ValueError(f"{name} must be a one-dimensional array of integers")
            array = array.astype(np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def rate(self) -> float:
        return float(self.decay.log_enclosure(53)[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisyCoordinates):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.rows.tobytes(), self.columns.tobytes(), self.decay, self.sensitivity

    def __iter__(self) -> Any:
        """Yields (arm, index, value) of each coordinate."""
        for name in (ROWS, COLUMNS):
            for index, value in enumerate(getattr(self, name).tolist(), 1):
                yield name, index, value
