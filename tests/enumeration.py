"""All small integer partitions, and the distributions of mechanisms over them by the definition."""

import itertools

import numpy as np

from dp_transforms.mechanisms.frequency_list import FrequencyList


def partitions(ranks, largest):
    """All descending tuples of ``ranks`` integers between 0 and ``largest``."""
    if ranks == 0:
        yield ()
        return
    for first in range(largest + 1):
        for rest in partitions(ranks - 1, first):
            yield (first, *rest)


def partitions_of_at_most(total, largest=None):
    """All descending tuples of positive integers whose sum is at most ``total``."""
    yield ()
    for first in range(1, min(total, largest or total) + 1):
        for rest in partitions_of_at_most(total - first, first):
            yield (first, *rest)


def l1_distance(values, other_values):
    """The L1 distance of two descending tuples, the shorter one followed by zeros."""
    return sum(abs(a - b) for a, b in itertools.zip_longest(values, other_values, fillvalue=0))


def neighbours(lists, distance=1):
    """All pairs of lists at this distance, in both orders."""
    for values, other in itertools.permutations(lists, 2):
        if l1_distance(values, other) == distance:
            yield values, other


def distribution(base, target, candidates, within=lambda values: True):
    """Probability proportional to base**||y - target||_1 among the candidates that are within."""
    weights = {
        as_list(values): base ** l1_distance(values, target)
        for values in candidates
        if within(values)
    }
    total = sum(weights.values())
    return {released: weight / total for released, weight in weights.items()}


def as_list(values):
    """The frequency list of a tuple, without its zeros."""
    return FrequencyList.from_counts([value for value in values if value])


def arms(values, size):
    """The first Frobenius coordinates of rows and of columns, by counting cells."""
    coordinates = [[0] * size, [0] * size]
    for i, value in enumerate(values):
        for j in range(value):
            coordinates[j < i][min(i, j)] += 1
    return coordinates


def conjugate(frequency_list):
    """The list of how many items have a frequency of at least 1, 2, ..."""
    at_least = frequency_list.multiplicities.cumsum()
    gaps = -np.diff(frequency_list.frequencies, append=0)
    return FrequencyList(at_least[::-1], gaps[::-1])
