"""Where moves are inside a block, by its two ends: laws enumerated in exact rationals."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.blocks import fill_blocks, partitions
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests.statistical import laws

DRAWS = 3_000
WINDOW = 12


def law_of_places(base, length, entered, moves):
    """The law of where a run of zeros moves, from the weights of whole paths."""
    weights = {}
    for places in itertools.combinations(range(1, length + 1), moves):
        weight = Fraction(1)
        for step in range(1, length + 1):
            state = entered + sum(place <= step for place in places)
            weight *= base ** abs(state)
        weights[places] = weight
    total = sum(weights.values())
    return {places: weight / total for places, weight in weights.items()}


@pytest.mark.parametrize(
    ("length", "entered", "moves"),
    [
        # Roomy for the smaller ratios: across zero, up from above it, and towards it from below.
        (9, -2, 4),
        (8, -1, 2),
        (7, 3, 2),
        (8, -6, 3),
        # Tight for all ratios.
        (5, -2, 4),
        (6, 0, 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1), Eta(1, 3, 1)], ids=str)
def test_moves_have_the_law_of_the_paths(length, entered, moves, bit, eta):
    """Many blocks at once, of which some need a second try; ones are zeros mirrored."""
    transfer = FloatTransfer(Decay(base=eta), WINDOW)
    direction = 1 - 2 * bit
    step = direction * moves
    law = law_of_places(Fraction(eta.base), length, entered, moves)
    states = direction * entered + step * np.arange(2)
    found = []
    runs = 40
    for seed in range(DRAWS // runs):
        # Every second block moves back, so that all of those in between begin alike.
        blocks = Blocks(
            bits=np.tile([bit, 1 - bit], runs),
            lengths=np.tile([length, moves], runs),
            run_lengths=np.tile([length, moves], runs),
            top=length * runs,
            lowest=np.full(2 * runs + 1, -100),
            highest=np.full(2 * runs + 1, 100),
        )
        tape = InsecureSeededTape(seed)
        at, places = fill_blocks(
            blocks, np.append(np.tile(states, runs), states[0]), transfer, tape
        )
        for run in range(runs):
            found.append(tuple(sorted(places[at == 2 * run].tolist())))
            assert sorted(places[at == 2 * run + 1].tolist()) == list(range(1, moves + 1))
    laws.assert_follows(found, law)


def test_partitions_into_distinct_parts_have_their_law():
    """Several at once, none of them empty but one."""
    eta, counts = Eta(1, 1, 1), np.array([2, 0, 1, 3])
    drawn = [
        partitions(Decay(base=eta), counts, InsecureSeededTape(seed), "parts").tolist()
        for seed in range(DRAWS)
    ]
    for first, count in ((0, 2), (2, 1), (3, 3)):
        parts = [tuple(found[first : first + count]) for found in drawn]
        assert all(list(part) == sorted(set(part), reverse=True) for part in parts)
        # q**sum / total, where the total is q**(n (n + 1) / 2) / (q; q)_n; beyond 12 is the rest.
        base, total = Fraction(eta.base), Fraction(1)
        for i in range(1, count + 1):
            total *= base**i / (1 - base**i)
        law = {
            chosen[::-1]: base ** sum(chosen) / total
            for chosen in itertools.combinations(range(1, 13), count)
        }
        laws.assert_follows(parts, law)
