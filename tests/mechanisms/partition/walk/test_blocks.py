import itertools
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.partition.walk.blocks import fill_blocks, geometric, in_first_part
from dp_transforms.mechanisms.partition.walk.walk import Blocks
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape, NearlyUndecidable

DRAWS = 2_000
PATHS = [
    # Roomy for the smaller ratios: across zero, up from above it, and towards it from below.
    *[(9, -2, 4), (8, -1, 2), (7, 3, 2), (8, -6, 3)],
    # Tight for all ratios.
    *[(5, -2, 4), (6, 0, 5)],
]
ETAS = [Eta(1, 1, 1), Eta(3, 2, 1), Eta(1, 3, 1)]


def distribution_of_places(base, length, entered, flips):
    """The distribution of where a run of zeros moves, from the weights of whole paths."""
    weights, steps = {}, range(1, length + 1)
    for positions in itertools.combinations(steps, flips):
        states = (entered + sum(place <= step for place in positions) for step in steps)
        weights[positions] = base ** sum(map(abs, states))
    total = sum(weights.values())
    return {positions: weight / total for positions, weight in weights.items()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("length", "entered", "flips", "bit", "eta"),
    [(*path, (i + j) % 2, eta) for i, path in enumerate(PATHS) for j, eta in enumerate(ETAS)],
    ids=str,
)
def test_moves_have_the_distribution_of_the_paths(length, entered, flips, bit, eta):
    """Many blocks at once, of which some need a second try; ones are zeros mirrored."""
    distribution = distribution_of_places(Fraction(eta.base), length, entered, flips)
    states = (1 - 2 * bit) * np.array([entered, entered + flips])
    places, runs = [], 40
    # Every second block moves back, so that all of those in between begin alike.
    bits, lengths = np.tile([bit, 1 - bit], runs), np.tile([length, flips], runs)
    walls = np.full(2 * runs + 1, 100)
    blocks = Blocks(bits, lengths, top=length * runs, lowest=-walls, highest=walls)
    along = np.append(np.tile(states, runs), states[0])
    starts = np.repeat(blocks.ends[:-1], flips)
    for tape in map(InsecureSeededTape, range(DRAWS // runs)):
        diagonals = np.sort(fill_blocks(blocks, along, Decay(base=eta), tape))[::-1]
        # One row for each block.
        positions = (starts - diagonals).reshape(2 * runs, flips)
        places += map(tuple, positions[::2].tolist())
        assert (positions[1::2] == np.arange(1, flips + 1)).all()
    distributions.assert_follows(places, distribution)


def known(value):
    """A uniform number that is a rational, but for 2**-4000."""
    return NearlyUndecidable(0, "known", 0, value, 4000).uniform("known", 0)


def smallest(decay, factor, value, length):
    """The x of one known number."""
    number, lengths = known(value), None if length is None else np.array([length])
    words = np.array([number.prefix(64)], dtype=np.uint64)
    return geometric(decay, np.array([factor]), lengths, words, lambda _: number).item()


@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1), Eta(1023, 10, 1)], ids=str)
@pytest.mark.parametrize("length", [None, 2, 5, 64, 1000])
@pytest.mark.parametrize("factor", [1, 3])
def test_numbers_close_to_a_threshold(eta, length, factor):
    """Within 2**-50 .. 2**-400 of F(x), on either side."""
    decay, ratio = Decay(base=eta), eta.base**factor

    def distribution(x):
        return (1 - ratio**x) / (1 if length is None else 1 - ratio**length)

    for x, bits in itertools.product((1, 2, 4, 40), (50, 63, 65, 130, 400)):
        tiny = gmpy2.mpq(1, 2**bits * 3)
        if (length is not None and x >= length) or distribution(x) + tiny >= 1:
            continue
        assert smallest(decay, factor, distribution(x) - tiny, length) == x
        above = smallest(decay, factor, distribution(x) + tiny, length)
        assert distribution(above - 1) <= distribution(x) + tiny < distribution(above)


def test_the_largest_float_below_one_is_no_special_case():
    """All of its leading 53 bits are ones."""
    assert smallest(Decay(base=Eta(1, 1, 1)), 1, 1 - gmpy2.mpq(3, 2**62), None) == 61


@pytest.mark.parametrize("eta", [Eta(1, 1, 1), Eta(3, 2, 1)], ids=str)
def test_numbers_close_to_the_share_of_a_first_half(eta):
    """How many of a block's moves are there, by enumeration, within 2**-100 of its thresholds."""
    decay = Decay(base=eta)
    for (near, far), entered, flips in itertools.product([(3, 4), (5, 5)], (-5, -2, 0, 3), (2, 3)):
        distribution = distribution_of_places(Fraction(eta.base), near + far, entered, flips)
        below = Fraction(0)
        for count in range(flips):
            below += sum(p for at, p in distribution.items() if sum(x <= near for x in at) == count)
            for side, answer in ((-1, count), (1, count + 1)):
                number = known(below + Fraction(side, 2**100))
                assert in_first_part(decay, near, far, entered, flips, number) == answer
