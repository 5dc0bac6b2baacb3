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
LEAST_BORROWED = 1e-9  # A sum of borrowed deviations below this one is none.


def combined(own: Curve, children: Sequence[Curve]) -> Curve:
    """Returns the weighted mean of a group's own curve and of the sum of its children's curves.

    The weights at each j are the inverse variances of the two curves there.
    """
    values = np.unique(np.concatenate([own.values, *(child.values for child in children)]))
    mean, variance = own.at(values)
    sum_of_means, sum_of_variances, in_common = np.zeros((3, len(values)))
    for child in children:
        last = np.searchsorted(values, child.values[-1], "right") if len(child.values) else 0
        means, variances = child.at(values[:last])
        sum_of_means[:last] += means
        sum_of_variances[:last] += variances
        in_common[:last] += child.borrowed_at(values[:last])
    variance, sum_of_variances = variance + LEAST_VARIANCE, sum_of_variances + LEAST_VARIANCE
    # Children have in common the errors of the shape that they borrow, which this group's own curve
    # has as well. Further errors in common show if the two curves differ by more than the variances
    # explain.
    unexplained = (mean - sum_of_means) ** 2 - variance - sum_of_variances
    sum_of_variances += np.maximum(unexplained, in_common**2)
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
    have (``_wanted_sizes``). The partitions of all children together, from the largest frequency to
    the smallest, take the frequencies of the whole list in the same order. So each child keeps its
    number of partitions, frequencies change as little as they can, and the parts add up exactly.
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
    the children in proportion to the variances of their errors. The variances of the curves count
    as independent, and so does the rounding of the whole list, which keeps its part of the
    difference. What they do not explain counts as an error that children have in common, as far as
    they borrow: it goes to them in proportion to what each borrows. So a large child, which borrows
    hardly anything, does not pay for a shape that does not fit the small ones.

    Then the numbers of each child are made to rise.
    """
    wanted, variances, borrowed = np.empty((3, len(children), len(values)))
    for row, child in enumerate(children):
        wanted[row], variances[row] = child.at(values)
        borrowed[row] = child.borrowed_at(values)
    difference = sizes - wanted.sum(0)
    in_common = borrowed.sum(0)
    # What children borrow has a sum with at most this standard deviation.
    unexplained = np.clip(difference**2 - variances.sum(0) - ROUNDING, 0, in_common**2)
    moved = variances + borrowed * (unexplained / np.maximum(in_common, LEAST_BORROWED))
    wanted += moved / (moved.sum(0) + ROUNDING) * difference
    return rising(np.maximum(wanted, 0), 1 / (moved + LEAST_VARIANCE))


def rising(numbers: FloatArray, weights: FloatArray) -> FloatArray:
    """Returns for each row the rising numbers that are nearest to it in weighted squares.

    A row can be cut wherever no number before the cut is above one behind it. Only the parts in
    between are pooled, which saves most of the time.

    >>> rising(np.array([[1.0, 4.0, 2.0, 7.0]]), np.ones((1, 4))).tolist()
    [[1.0, 3.0, 3.0, 7.0]]
    """
    largest_before = np.maximum.accumulate(numbers, axis=1)
    least_behind = np.minimum.accumulate(numbers[:, ::-1], axis=1)[:, ::-1]
    nearest: FloatArray = numbers.copy()
    for row in np.flatnonzero((largest_before > least_behind).any(1)).tolist():
        is_end = np.append(largest_before[row, :-1] <= least_behind[row, 1:], True)
        ends = np.flatnonzero(is_end) + 1
        begins = np.append(0, ends[:-1])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            if end - begin > 1:
                backwards = numbers[row, begin:end][::-1], weights[row, begin:end][::-1]
                nearest[row, begin:end] = _falling(*backwards)[::-1]
    return nearest


def _rounded_columns(numbers: FloatArray, sums: IntArray) -> IntArray:
    """Returns integers near numbers in rising rows; they rise as well.

    In each column the numbers with the largest remainders are rounded up, as many as lead to the
    column's number of ``sums``. If each number were rounded by itself, then sums would be off by
    the rounding of all rows together.

    A number that is not rounded to the nearest integer must still let its row rise. Where one that
    is rounded up meets a smaller one behind it, or one that is rounded down a larger one before it,
    the nearest integer stands. So sums may be slightly off.
    """
    nearest = np.floor(numbers + 0.5).astype(np.int64)
    down = np.floor(numbers + 1e-9).astype(np.int64)  # An integer may be slightly less as a float.
    order = np.argsort(down - numbers, axis=0, kind="stable")
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.arange(len(numbers))[:, None], axis=0)
    rounded = down + (places < sums - down.sum(0))
    up = np.minimum.accumulate(np.maximum(rounded, nearest)[:, ::-1], axis=1)[:, ::-1]
    low = np.maximum.accumulate(np.minimum(rounded, nearest), axis=1)
    rising_rows: IntArray = np.maximum.accumulate(np.where(up > nearest, up, low), axis=1)
    return rising_rows


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
