import copy
import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import (
    COLUMNS,
    ROWS,
    FrobeniusCoordinates,
    NoisyCoordinates,
    list_of_coordinates,
)
from tests.enumeration import arms, as_list, l1_distance, partitions_of_at_most

SIZE = 13


def coordinates(values):
    exact, indices = FrobeniusCoordinates(as_list(values)), np.arange(1, SIZE + 1)
    return [exact.of(arm, indices).tolist() for arm in (ROWS, COLUMNS)]


def test_coordinates_count_cells_and_lead_back_to_the_list():
    for values in partitions_of_at_most(12):
        rows, columns = both = coordinates(values)
        assert both == arms(values, SIZE)
        square = sum(row > 0 for row in rows)
        assert FrobeniusCoordinates(as_list(values)).square == square
        assert list_of_coordinates(np.array(rows), np.array(columns)) == as_list(values)


def test_the_distance_of_lists_is_that_of_their_coordinates():
    for values, other_values in itertools.product(partitions_of_at_most(7), repeat=2):
        moved = np.abs(np.subtract(coordinates(values), coordinates(other_values))).sum()
        assert moved == l1_distance(values, other_values)


def test_all_pairs_of_falling_chains_of_one_size_are_lists():
    falling = [values for values in partitions_of_at_most(9) if len(set(values)) == len(values)]
    for rows, columns in itertools.product(falling, repeat=2):
        both = np.array(rows, np.int64), np.array(columns, np.int64)
        if len(rows) - len(columns) in (0, 1):
            assert list_of_coordinates(*both).total == sum(rows) + sum(columns)
        else:
            with pytest.raises(ValueError, match="as many rows as columns"):
                list_of_coordinates(*both)
    for rows in ([2, 2], [1, 2], [-1], [1, 0, 1]):
        with pytest.raises(ValueError, match="fall strictly"):
            list_of_coordinates(np.array(rows), np.zeros(1, np.int64))


def test_a_huge_list_is_looked_up_without_being_written_out():
    single, many = FrequencyList([10**18], [1]), FrequencyList([1], [10**18])
    indices = np.array([1, 2, 10**6])
    for values, arm, first in ((single, ROWS, 10**18), (many, COLUMNS, 10**18 - 1)):
        assert FrobeniusCoordinates(values).of(arm, indices).tolist() == [first, 0, 0]
        assert FrobeniusCoordinates(values).square == 1


def test_noisy_coordinates_are_immutable_values():
    decay = Decay(Fraction(1, 2))
    noisy = NoisyCoordinates(np.array([5, -1]), np.array([2]), decay, 3)
    assert list(noisy) == [("rows", 1, 5), ("rows", 2, -1), ("columns", 1, 2)]
    assert noisy == pickle.loads(pickle.dumps(noisy)) and hash(noisy) == hash(copy.copy(noisy))
    assert noisy != NoisyCoordinates(np.array([5, -1]), np.array([2]), decay, 2)
    assert noisy.rate == 0.5 and noisy.sensitivity == 3
    with pytest.raises(ValueError, match="read-only"):
        noisy.rows[0] = 1
    with pytest.raises(ValueError, match="rows must be a one-dimensional array of integers"):
        NoisyCoordinates(np.array([0.5]), np.array([2]), decay)
