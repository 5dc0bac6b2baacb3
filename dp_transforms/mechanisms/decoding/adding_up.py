"""Makes lists of integers that add up from curves that do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_transforms.mechanisms.arrays import FloatArray, IntArray
from dp_transforms.mechanisms.decoding.shapes import LEAST_VARIANCE, Curve, nearest_of_sum
from dp_transforms.mechanisms.frequency_list import FrequencyList


def combined(own: Curve, children: Sequence[Curve]) -> Curve:
    """Returns the mean of a group's own curve and the sum of its children's, weighted by their
    inverse variances at each j."""
    values = np.unique(np.concatenate([own.values, *(child.values for child in children)]))
    mean, variance = own.at(values)
    below, spread = np.zeros(len(values)), np.zeros(len(values))
    for child in children:
        last = np.searchsorted(values, child.values[-1], "right") if len(child.values) else 0
        means, variances = child.at(values[:last])
        below[:last] += means
        spread[:last] += variances
    variance, spread = variance + LEAST_VARIANCE, spread + LEAST_VARIANCE
    # Children share errors, such as those of the shape that they borrow. What the variances do not
    # explain is held to be theirs.
    spread += np.maximum((mean - below) ** 2 - variance - spread, 0)
    weight = spread / (variance + spread)
    means = weight * mean + (1 - weight) * below
    return Curve(values, means, weight * variance)


def list_of_curve(curve: Curve) -> FrequencyList:
    """Returns the list nearest to a curve.

    >>> curve = Curve(np.array([1, 3]), np.array([2.4, 0.6]), np.zeros(2))
    >>> list(list_of_curve(curve))
    [(3, 1), (1, 1)]
    """
    levels = _falling(curve.means, 1 / (curve.variances + LEAST_VARIANCE))
    sizes = np.floor(levels + 0.5).astype(np.int64)
    repeats = sizes - np.append(sizes[1:], 0)
    return FrequencyList.from_runs(curve.values[::-1], repeats[::-1])


def parts_of(whole: FrequencyList, children: Sequence[Curve]) -> list[FrequencyList]:
    """Distributes the partitions of a list over its children, by the curves of these.

    The sum of the curves differs from the list's. The difference is distributed at each j in
    proportion to the curves' variances there. Rounded, the curves are lists; and the partitions of
    all of these together, from the largest frequency to the smallest, take the frequencies of the
    whole list in the same order. So each child keeps its number of partitions, frequencies change
    as little as they can, and the parts add up exactly.
    """
    values, repeats = whole.frequencies, whole.multiplicities
    if not len(values):
        return [FrequencyList() for _ in children]
    sizes = np.cumsum(repeats)
    wanted = np.empty((len(children), len(values)))
    spread = np.empty_like(wanted)
    for row, child in enumerate(children):
        wanted[row], spread[row] = child.at(values)
    spread += LEAST_VARIANCE * (wanted + LEAST_VARIANCE)
    wanted += spread / spread.sum(0) * (sizes - wanted.sum(0))
    # Near the rising numbers that fit best.
    lower = np.minimum.accumulate(wanted[:, ::-1], axis=1)[:, ::-1]
    wanted = np.maximum((np.maximum.accumulate(wanted, axis=1) + lower) / 2, 0)
    rounded = np.floor(wanted + 0.5).astype(np.int64)
    rounded[:, -1] = _rounded(wanted[:, -1], int(sizes[-1]))
    rounded = np.minimum(rounded, rounded[:, -1:])
    # The partitions of all children, by their places and then by how clearly they belong there.
    new = np.diff(rounded, axis=1, prepend=0)
    line, place = np.nonzero(new)
    order = np.lexsort((rounded[line, place] - wanted[line, place], place))
    of_run, counts = line[order], new[line, place][order]
    # Both orders, cut wherever one of them has a cut.
    ends = np.cumsum(counts)
    cuts = np.union1d(ends, sizes)
    of_child = of_run[np.searchsorted(ends, cuts)]
    of_value = np.searchsorted(sizes, cuts)
    parts = np.zeros(wanted.shape, np.int64)
    np.add.at(parts, (of_child, of_value), np.diff(cuts, prepend=0))
    return [FrequencyList.from_runs(values, part) for part in parts]


def _rounded(numbers: FloatArray, total: int) -> IntArray:
    """Rounds numbers of at least 0 to integers of a given sum: down, but for those with the largest
    remainders.

    >>> _rounded(np.array([0.6, 1.7, 2.6]), 5).tolist()
    [0, 2, 3]
    """
    numbers = nearest_of_sum(numbers, np.maximum(numbers, LEAST_VARIANCE), float(total))
    parts = np.floor(numbers + 1e-9).astype(np.int64)
    missing = total - int(parts.sum())
    parts[np.argsort(parts - numbers, kind="stable")[:missing]] += 1
    return parts


def _falling(levels: FloatArray, weights: FloatArray) -> FloatArray:
    """Returns the falling numbers nearest to levels in weighted squares (pool adjacent
    violators)."""
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
