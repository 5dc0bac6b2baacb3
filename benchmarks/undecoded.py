"""What noisy Frobenius coordinates are worth without the decoder."""

from __future__ import annotations

import numpy as np

from benchmarks.noisy_runs import Runs, middle_l1
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.arrays import IntArray
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    FrobeniusCoordinates,
    NoisyCoordinates,
    list_of_coordinates,
)


def noise_distance(drawn: NoisyCoordinates, private: FrequencyList) -> float:
    """Returns half the L1 distance of noisy coordinates, which are no list, to those of a list."""
    coordinates = FrobeniusCoordinates(private)
    distance = 0
    for arm in (ROWS, COLUMNS):
        noisy = getattr(drawn, arm)
        true = coordinates.of(arm, np.arange(1, len(noisy) + 1))
        distance += int(np.abs(noisy - true).sum())
    return distance / 2


def isotonic_distance(drawn: NoisyCoordinates, private: FrequencyList) -> float:
    """Returns dist of ``isotonic_list``."""
    return private.l1_distance(isotonic_list(drawn, private)) / 2


def isotonic_list(drawn: NoisyCoordinates, private: FrequencyList) -> FrequencyList:
    """Returns the list whose rows and columns are the strictly falling ones nearest in L1 to noisy
    coordinates.

    It is told the side of the largest square in the private diagram, where both arms end.
    """
    arms = (drawn.rows, drawn.columns)
    size = min(FrobeniusCoordinates(private).square, *map(len, arms))
    # The last column may be 0.
    rows, columns = (
        _strictly_falling(arm[:size], last) for arm, last in zip(arms, (1, 0), strict=True)
    )
    return list_of_coordinates(rows, columns)


def _strictly_falling(noisy: IntArray, last: int) -> IntArray:
    """Returns strictly falling integers, none below ``last``, that are nearest in L1."""
    index = np.arange(len(noisy))
    # With their index added they only have to descend.
    levels = middle_l1(Runs(noisy + index, np.ones_like(index))).values
    falling: IntArray = np.maximum(levels, len(noisy) - 1 + last) - index
    return falling
