"""What every integer noise must do: the draws that it makes fast against its exact tails."""

import gmpy2
import numpy as np

from dp_transforms.mechanisms.discrete_noise import RELATIVE_ERROR
from dp_transforms.mechanisms.selection.keep_distribution import as_float
from tests.tapes import InsecureSeededTape


def assert_fast_draws_equal_exact_ones(noise, count=200):
    """The same tape gives the same draws at once and one by one, bit by bit."""
    tape = InsecureSeededTape(3)
    draws = noise.sample(tape, "test", count)
    for i, draw in enumerate(draws.tolist()):
        assert draw == noise._exact_draw(lambda bits, i=i: tape.prefix("test", i, bits))


def assert_right_near_a_threshold(noise, x, offset, positive, further_bits):
    """A word that is ``offset`` from the tail at x decides rightly, with 64 more bits behind it.

    These bits are not all 0: no noise without bounds could settle a number that is 0 for ever.
    """
    threshold = int(gmpy2.floor(gmpy2.mpq(noise.tail(x, 200)[0]) * 2**64)) + offset
    folded = min(max(threshold, 0), 2**63 - 1) << 64 | further_bits
    number = (1 << 128) - 1 - folded if positive else folded

    def extend(element, bits):
        return number << bits - 128 if bits > 128 else number >> 128 - bits

    (draw,) = noise.from_words(np.array([number >> 64], dtype=np.uint64), extend).tolist()
    # The magnitude is the number of tails above V, of which the first 128 bits are known.
    assert draw == 0 or (draw > 0) == positive
    v = gmpy2.mpq(folded, 1 << 128)
    assert noise.tail(abs(draw), 256)[0] <= v + gmpy2.mpq(1, 1 << 128)
    assert draw == 0 or noise.tail(abs(draw) - 1, 256)[1] >= v


def assert_floats_enclose_tails(noise, reach):
    """The floats that decide are as near to the tails, out to ``reach``, as they claim to be."""
    points = np.minimum([0, 1, 2, *np.linspace(0, reach, 300)], int(reach)).astype(np.int64)
    for x, value in zip(points.tolist(), noise._float_tails(points).tolist(), strict=True):
        lo, hi = noise.tail(x, 160)
        assert abs(value / lo - 1) < RELATIVE_ERROR / 2 and abs(value / hi - 1) < RELATIVE_ERROR / 2


def drop_probability(distribution, statistic):
    """1 - pi(statistic), to the precision of a float."""
    return as_float(lambda precision: distribution.drop_enclosure(statistic, precision))
