"""Releases of fixed tapes, which must be the same on every machine and in every version."""

import hashlib

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism, PartitionBounds
from dp_transforms.mechanisms.partition.exponential import GeometricPartitionMechanism
from dp_transforms.sample_data import rockyou
from tests.cases import thorough_unless
from tests.tapes import InsecureSeededTape

SIXES = FrequencyList(range(60, 0, -6), [6] * 10)
"""At a ratio of 1/2, moves at both ends of a run of six have exactly the room that they need."""

STAIRS = FrequencyList(range(60, 0, -1), [1] * 60)
SQUARE = FrequencyList([3000], [3000])
MANY = FrequencyList([100_000, 99_999, 99_000, 70, 9], [1, 60, 3, 700, 50_000])
NEAR_MANY = PartitionBounds.around(MANY, 3)
CASES = [
    (IntegerPartitionMechanism(eta=Eta(1, 1, 1)), SIXES, "935899f5fcfa3ee4"),
    (IntegerPartitionMechanism(eta=Eta(1, 3, 1)), SIXES, "59812f3c8a76bcc5"),
    (IntegerPartitionMechanism(epsilon=0.1), SIXES, "e26e3be279b09f32"),
    (IntegerPartitionMechanism(eta=Eta(3, 2, 1)), STAIRS, "ac0d77bae0ab8271"),
    (IntegerPartitionMechanism(epsilon=0.03), STAIRS, "3d798a495c223597"),
    (IntegerPartitionMechanism(epsilon=2.0), SQUARE, "d1679705ae95c885"),
    (IntegerPartitionMechanism(epsilon=0.2), SQUARE, "bc9e4982a00a82a5"),
    (IntegerPartitionMechanism(epsilon=0.02), SQUARE, "8ea25ce57d03df58"),
    (IntegerPartitionMechanism(epsilon=0.5), MANY, "e54fdc75f6e8b086"),
    (IntegerPartitionMechanism(epsilon=1.0, sensitivity=20), MANY, "4acdf6464e6a7e8f"),
    (IntegerPartitionMechanism(epsilon=0.1), FrequencyList(), "2e4f1ccb3d376868"),
    (IntegerPartitionMechanism(epsilon=0.3, bounds=NEAR_MANY), MANY, "89281721e9bf14dd"),
    (GeometricPartitionMechanism(epsilon=1.1), SIXES, "c63118037bf52485"),
    (GeometricPartitionMechanism(epsilon=2), rockyou(), "b6cd15476a3647fe"),
    (IntegerPartitionMechanism(epsilon=1.0), rockyou(), "462ed056e096d006"),
]


@pytest.mark.parametrize("shift", thorough_unless([False, True], [True]))
@pytest.mark.parametrize(("mechanism", "private", "expected"), CASES)
def test_a_tape_gives_the_same_release_as_ever(monkeypatch, mechanism, private, expected, shift):
    """Also if a library differs in the last bits of logarithms and exponentials: each is one up or
    down."""
    rng = np.random.default_rng(1)

    def shifted(function):
        def rounded(x):
            value = function(x)
            return np.nextafter(value, np.where(rng.random(np.shape(value)) < 0.5, -np.inf, np.inf))

        return rounded

    for name in ("log", "log1p", "log2", "exp", "expm1") if shift else ():
        monkeypatch.setattr(np, name, shifted(getattr(np, name)))
    releases = mechanism.release_many(private, 3, map(InsecureSeededTape, range(3)))
    digest = hashlib.sha256(repr([list(x) for x in releases]).encode()).hexdigest()
    assert digest[:16] == expected
