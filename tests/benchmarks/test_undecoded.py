from fractions import Fraction

import numpy as np
import pytest

from benchmarks.undecoded import isotonic_list, noise_distance
from dp_transforms.mechanisms import FrequencyList, NoisyCoordinates
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.noisy_coordinates import COLUMNS, ROWS, FrobeniusCoordinates
from dp_transforms.sample_data import rockyou
from tests import enumeration


def noisy_coordinates(private, places, noise):
    """The coordinates of a list at so many places, plus noise for both arms."""
    indices = np.arange(1, places + 1)
    rows, columns = (
        FrobeniusCoordinates(private).of(arm, indices) + added
        for arm, added in zip((ROWS, COLUMNS), noise, strict=True)
    )
    return NoisyCoordinates(rows, columns, Decay(Fraction(1)))


@pytest.mark.parametrize("entries", [*enumeration.partitions_of_at_most(7)])
def test_without_noise_the_list_comes_back(entries):
    private = enumeration.as_list(entries)
    drawn = noisy_coordinates(private, 5, (0, 0))
    assert noise_distance(drawn, private) == 0
    assert isotonic_list(drawn, private) == private


def test_noise_is_measured_at_all_places():
    private = FrequencyList([5, 2, 1], [1, 1, 4])
    noise = np.array([1, 0, -2, 0]), np.array([0, 0, 0, 3])
    assert noise_distance(noisy_coordinates(private, 4, noise), private) == 3


def test_any_noise_leaves_a_list_that_is_nearer_than_the_noise():
    rng = np.random.default_rng(3)
    private = rockyou()
    noise = rng.integers(-3, 4, (2, 1300))
    drawn = noisy_coordinates(private, 1300, noise)
    assert private.l1_distance(isotonic_list(drawn, private)) / 2 < noise_distance(drawn, private)
    for _ in range(300):
        drawn = NoisyCoordinates(*rng.integers(-3, 4, (2, 6)), Decay(Fraction(1)))
        assert isotonic_list(drawn, private).at_ranks([6])[0] >= 6
