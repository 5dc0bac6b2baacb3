"""Questions that float64 leaves open: settled by the next blocks, and by MPFR messages of all."""

from fractions import Fraction

import gmpy2
import pytest

from dp_transforms.mechanisms import FrequencyList, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.mechanisms.sampler.levels import Level, Sampler
from dp_transforms.mechanisms.sampler.walk import Blocks
from dp_transforms.mechanisms.sampler.walls import walled_blocks
from tests.tapes import NearlyUndecidable

WALLED = walled_blocks(
    FrequencyList([60, 50, 4, 1], [1, 30, 7, 9]),
    PartitionBounds.of_runs([50, 30, 4, 0, 0], [90, 52, 9, 2, 1], [2, 20, 5, 9, 300]),
)
CASES = {
    "stairs": (Blocks.of(FrequencyList(range(12, 0, -1), [1] * 12)), 200),
    "squares": (Blocks.of(FrequencyList([30, 20], [40, 30])), 500),
    "walls": (WALLED, 25),
    "long runs": (Blocks.of(FrequencyList([4000, 99, 98], [300, 1, 9000])), 12),
}


@pytest.mark.parametrize("name", CASES)
def test_walks_are_those_of_the_precise_level(name):
    """Numbers are within 2**-60 of a threshold: those above it make one move more."""
    blocks, inverse_rate = CASES[name]
    sampler, other = (Sampler(blocks, Decay(Fraction(1, inverse_rate))) for _ in "ab")
    states = sampler.states(InsecureSeededTape(1)).tolist()
    window, count = sampler.first_level.window, len(sampler.blocks)
    floats, precise = sampler.at_level(Level(window)), other.at_level(Level(3 * window // 2, 128))
    asked = 0
    for index in range(-1, count):
        channel = ("head", 0) if index < 0 else ("moves", index)
        lo, hi = precise.thresholds(index, states[index]) if index >= 0 else precise._head()
        likely = [j for j, (a, b) in enumerate(zip(lo, hi, strict=True)) if 0.05 < a and b < 0.95]
        for j in likely[: 1 if asked < 2 else 0]:
            moves = []
            for side in (-1, 1):
                number = gmpy2.mpq(lo[j]) + gmpy2.mpq(side, 2**60)
                tape = NearlyUndecidable(1, *channel, number, 96)
                with pytest.raises(Undecided):
                    floats.states(tape)
                found = sampler.states(tape).tolist()
                assert found == precise.states(tape).tolist()
                moves.append(abs(found[index + 1] - (found[index] if index >= 0 else 0)))
            assert moves == [j, j + 1]
            asked += 1
    assert asked == 2
    # No other level was asked.
    assert max(sampler._levels, key=lambda level: level.bits).bits == 53
