"""Turns the curves of groups, which do not add up, into lists of integers that do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.shapes import (
    LEAST_VARIANCE,
    Curve,
    nearest_of_sum,
    nearest_within,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList

ROUNDING = 1 / 12  # The variance of the error of a number that is rounded to an integer.


def combined(own: Curve, children: Sequence[Curve]) -> Curve:
    """Returns the weighted mean of a group's own curve and of the sum of its children's curves.

    The weights at each j are the inverse variances of the two curves there.
    """
    values = np.unique(np.concatenate([own.values, *(child.values for child in children)]))
    mean, variance = own.at(values)
    sum_of_means, sum_of_variances = np.zeros(len(values)), np.zeros(len(values))
    for child in children:
        last = np.searchsorted(values, child.values[-1], "right") if len(child.values) else 0
        means, variances = child.at(values[:last])
        sum_of_means[:last] += means
        sum_of_variances[:last] += variances
    variance, sum_of_variances = variance + LEAST_VARIANCE, sum_of_variances + LEAST_VARIANCE
    # Children have errors in common, for example those of the shape that they borrow. So their sum
    # gets a larger variance if the two curves differ by more than the variances explain.
    unexplained = (mean - sum_of_means) ** 2 - variance - sum_of_variances
    sum_of_variances += np.maximum(unexplained, 0)
    weight = sum_of_variances / (variance + sum_of_variances)
    means = weight * mean + (1 - weight) * sum_of_means
    return Curve(values, means, weight * variance, weight * own.borrowed_at(values))


def list_of_curve(curve: Curve) -> FrequencyList:
    """Returns the list nearest to a curve: the falling numbers of partitions that are nearest in
    squares over variances, rounded.

    >>> curve = Curve(np.array([1, 3]), np.array([2.4, 0.6]), np.zeros(2))
    >>> list(list_of_curve(curve))
    [(3, 1), (1, 1)]
    """
    levels = _falling(curve.means, 1 / (curve.variances + LEAST_VARIANCE))
    sizes = np.floor(levels + 0.5).astype(np.int64)
    repeats = sizes - np.append(sizes[1:], 0)
    return FrequencyList.from_runs(curve.values[::-1], repeats[::-1])


def parts_of(
    whole: FrequencyList, children: Sequence[Curve], most_partitions: Sequence[int] | None = None
) -> list[FrequencyList]:
    """Distributes the partitions of a list over its children, by the children's curves.

    No child gets more than its bound of ``most_partitions``, if these are given. Their sum must be
    at least the number of partitions of the whole list.

    Returns a list for each child; together they have exactly the partitions of the whole list.

    The rounded curve of a child says how many partitions it has, and about which frequencies they
    have. The partitions of all children together, from the largest frequency to the smallest, take
    the frequencies of the whole list in the same order. So each child keeps its number of
    partitions, frequencies change as little as they can, and the parts add up exactly.
    """
    values, repeats = whole.frequencies, whole.multiplicities
    if not len(values):
        return [FrequencyList() for _ in children]
    sizes = np.cumsum(repeats)
    wanted = _wanted_sizes(values, sizes, children)
    rounded = _rounded_columns(wanted, sizes)
    rounded[:, -1] = _rounded(wanted[:, -1], int(sizes[-1]), most_partitions)
    rounded = np.minimum(rounded, rounded[:, -1:])
    # Runs of partitions of one child that want one frequency. They are ordered by frequency; among
    # runs of one frequency, the child that was rounded up the most comes last.
    run_lengths = np.diff(rounded, axis=1, prepend=0)
    child, place = np.nonzero(run_lengths)
    order = np.lexsort((rounded[child, place] - wanted[child, place], place))
    child_of_run = child[order]
    ends_of_runs = np.cumsum(run_lengths[child, place][order])
    # The runs of children and the runs of the whole list, cut wherever either of them ends.
    cuts = np.union1d(ends_of_runs, sizes)
    child_of_piece = child_of_run[np.searchsorted(ends_of_runs, cuts)]
    value_of_piece = np.searchsorted(sizes, cuts)
    parts = np.zeros(wanted.shape, np.int64)
    np.add.at(parts, (child_of_piece, value_of_piece), np.diff(cuts, prepend=0))
    return [FrequencyList.from_runs(values, part) for part in parts]


def _wanted_sizes(values: IntArray, sizes: IntArray, children: Sequence[Curve]) -> FloatArray:
    """Returns how many partitions of at least each frequency each child should have: children x
    frequencies.

    Args:
      values: the frequencies of the whole list, falling.
      sizes: for each frequency, how many partitions of the whole list have at least that.
      children: the curves of the children.

    At each frequency, the difference of ``sizes`` and the sum of the curves is distributed over
    the children in proportion to the variances of their curves. Then the numbers of each child are
    made to rise.
    """
    wanted, variances, borrowed = np.empty((3, len(children), len(values)))
    for row, child in enumerate(children):
        wanted[row], variances[row] = child.at(values)
        borrowed[row] = child.borrowed_at(values)
    difference = sizes - wanted.sum(0)
    in_common = borrowed.sum(0)
    unexplained = np.clip(difference**2 - variances.sum(0) - ROUNDING, 0, in_common**2)
    variances += borrowed * (unexplained / np.maximum(in_common, 1e-9))
    wanted += variances / (variances.sum(0) + ROUNDING) * difference
    return _rising(wanted, 1 / (variances + LEAST_VARIANCE))


def _rising(wanted: FloatArray, weights: FloatArray) -> FloatArray:
    """Returns the rising numbers of at least 0 that are nearest to each row in weighted squares.

    Where all numbers before a place are at most all numbers from it on, the row can be cut. Only
    parts that do not rise are pooled, which saves most of the time.
    """
    above = np.maximum.accumulate(wanted, axis=1)
    below = np.minimum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1]
    rising = wanted.copy()
    for row in np.flatnonzero((above > below).any(1)).tolist():
        rises = np.append(above[row, :-1] <= below[row, 1:], True)
        ends = np.flatnonzero(rises) + 1
        begins = np.append(0, ends[:-1])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if end - begin > 1:
                part = slice(begin, end)
                falling = _falling(wanted[row, part][::-1], weights[row, part][::-1])
                rising[row, part] = falling[::-1]
    return np.maximum(rising, 0)


def _rounded_columns(numbers: FloatArray, sums: IntArray) -> IntArray:
    """Returns integers near numbers whose columns have given sums, as far as rounding up or down
    leads there and each row rises.

    In each column the numbers with the largest remainders are rounded up. If each number were
    rounded by itself, the sums would be off by the roundings of all rows together.
    """
    down = np.floor(numbers + 1e-9).astype(np.int64)
    order = np.argsort(down - numbers, axis=0, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(len(numbers))[:, None], axis=0)
    rounded = down + (places < sums - down.sum(0))
    above = np.maximum.accumulate(rounded, axis=1)
    below = np.minimum.accumulate(rounded[:, ::-1], axis=1)[:, ::-1]
    return (above + below) // 2


def _rounded(numbers: FloatArray, total: int, highest: Sequence[int] | None = None) -> IntArray:
    """Returns integers with a given sum, near numbers of at least 0, and not above ``highest``.

    The numbers are first moved to this sum, and then rounded down, except that those with the
    largest remainders are rounded up.

    >>> _rounded(np.array([0.6, 1.7, 2.6]), 5).tolist()
    [0, 2, 3]
    """
    spread = np.maximum(numbers, LEAST_VARIANCE)
    if highest is None:
        numbers = nearest_of_sum(numbers, spread, float(total))
    else:
        numbers = nearest_within(numbers, spread, float(total), np.array(highest, np.float64))
    parts = np.floor(numbers + 1e-9).astype(np.int64)  # An integer may be slightly less as a float.
    missing = total - int(parts.sum())
    parts[np.argsort(parts - numbers, kind="stable")[:missing]] += 1
    return parts


def _falling(levels: FloatArray, weights: FloatArray) -> FloatArray:
    """Returns the falling numbers that are nearest to the levels in weighted squares.

    Neighbours that rise are pooled, and get their weighted mean, until means fall from each pool to
    the next ("pool adjacent violators"). Each level is pooled once, so the cost is linear.
    """
    sums: list[float] = []
    masses: list[float] = []
    lengths: list[int] = []
    for level, weight in zip(levels.tolist(), weights.tolist(), strict=True):
        total, mass, length = level * weight, weight, 1
        while sums and sums[-1] * mass < total * masses[-1]:
            total += sums.pop()
            mass += masses.pop()
            length += lengths.pop()
        sums.append(total)
        masses.append(mass)
        lengths.append(length)
    return np.repeat(np.array(sums) / np.array(masses), lengths) if sums else np.zeros(0)
