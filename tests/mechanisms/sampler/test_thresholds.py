"""Thresholds of float64 levels against those of MPFR numbers: the enclosures overlap."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import Undecided
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.levels import Level, Sampler
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import Blocks
from tests.cases import slow_unless

LISTS = {
    "one corner": FrequencyList([200], [400]),
    "two corners": FrequencyList([400, 200], [200, 200]),
    "stairs": FrequencyList(range(12, 0, -1), [1] * 12),
    "runs of many lengths": FrequencyList([9000, 8999, 170, 9], [1, 60, 700, 5000]),
}
EPSILONS = [32, 4, 1, 0.5, 0.12, 0.049]


def count_contradictions(floats, precise):
    """Compares enclosures (lo, hi) of equal numbers; a bound that is not a number says nothing."""
    found = 0
    for lo, hi, low, high in zip(*floats, *precise, strict=True):
        found += lo > high or hi < low
    return found


@pytest.mark.parametrize(
    ("name", "epsilon"),
    slow_unless(
        CASES := list(itertools.product(LISTS, EPSILONS)),
        [case for case in CASES if case[0] != "runs of many lengths" or case[1] > 0.2],
    ),
)
def test_thresholds_of_all_states_overlap(name, epsilon):
    """Far from zero they are close to underflow: an upper bound of 0 would be wrong."""
    decay = IntegerPartitionMechanism(epsilon=epsilon).decay
    sampler = Sampler(Blocks.of(LISTS[name]), decay)
    window = min(sampler.first_level.window, 52)
    floats, precise = sampler.at_level(Level(window)), sampler.at_level(Level(window + 4, 128))
    compared = 0
    with np.errstate(all="ignore"):
        for index in range(len(sampler.blocks)):
            for state in range(-window, window + 1):
                found = floats.thresholds(index, state)
                try:
                    exact = [side[: len(found[0])] for side in precise.thresholds(index, state)]
                except Undecided:
                    # From here no walk comes back to zero.
                    continue
                assert count_contradictions(found, exact) == 0, (index, state)
                compared += len(found[0])
    assert compared > 100


@pytest.mark.parametrize(
    "decay",
    [
        Decay(Fraction(16)),
        Decay(base=Eta(1, 1, 1)),
        Decay(Fraction(1, 30)),
        Decay(Fraction(1, 50)),
        Decay(Fraction(1, 1000)),
    ],
)
def test_shares_of_the_first_half_overlap(decay):
    """Of all ways to enter and leave a block, of runs so long that weights underflow."""
    window, compared = 24, 0
    floats, precise = FloatTransfer(decay, window), PreciseTransfer(decay, window, 128)
    for near, far in ((3, 4), (32, 33), (64, 64), (512, 300)):
        for start in range(0, 2 * window + 1, 3):
            for moves in range(2, min(near + far, 2 * window + 1 - start), 5):
                found = floats.in_first_part(near, far, start, moves)
                exact = precise.in_first_part(near, far, start, moves)
                assert count_contradictions(found, exact) == 0, (near, far, start, moves)
                compared += moves
    assert compared > 4000
