"""Float64 transfer weights and messages against MPFR enclosures of the same."""

from fractions import Fraction

import numpy as np
import pytest

from dp_transforms.mechanisms import Eta, FrequencyList, PartitionBounds
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.enclosure import rounding_pair
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.messages import backward
from dp_transforms.mechanisms.sampler.precise_level import PreciseLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import Blocks
from dp_transforms.mechanisms.sampler.walls import walled_blocks
from tests.cases import slow_unless

DOWN, UP = rounding_pair(200)

# Rows are grouped by 32: on each side of zero there is one full group and one that is not.
WINDOW = 40

DECAYS = {
    "1/50": Decay(Fraction(1, 50)),
    "1/1000": Decay(Fraction(1, 1000)),
    "ln 2": Decay(base=Eta(1, 1, 1)),
}


def scaled(context, mantissa, factor, exponent):
    """mantissa * factor * 2**exponent."""
    return context.mul(context.mul(float(mantissa), factor), context.exp2(int(exponent)))


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("length", slow_unless([1, 2, 7, 33, 90, 700, "long", 2**41], [33, "long"]))
def test_entries_lie_in_their_enclosures(decay, length):
    transfer = FloatTransfer(DECAYS[decay], WINDOW)
    # So much longer than long that 128 bits need a matrix of their own.
    length = transfer.long + 10 if length == "long" else length
    matrix = transfer.matrix(length)
    lower, upper = PreciseTransfer(DECAYS[decay], WINDOW, 128).matrix(length)
    size = 2 * WINDOW + 1
    kept = 0
    for row in range(size):
        lo, hi, exponents = matrix.row(row, size - row)
        for column in range(row, size):
            at = column - row
            below = scaled(DOWN, lo[at], 1 - matrix.error, exponents[at])
            above = scaled(UP, hi[at], 1 + matrix.error, exponents[at])
            assert below <= upper[row, column]
            assert lower[row, column] <= above
            kept += lo[at] > 0
    reached = np.minimum(np.arange(size, 0, -1), length + 1).sum()
    # All that a run can reach; in a long one, only what begins below zero and ends above.
    assert kept == (reached if length < transfer.long else (WINDOW + 1) ** 2)
    assert matrix.lost < 2.0**-800
    for row in range(size):
        lo, hi, exponents = matrix.column(row, size - 1)
        whole = [matrix.row(r, size - r) for r in range(row, size)]
        assert lo.tolist() == [found[0][-1] for found in whole]
        assert hi.tolist() == [found[1][-1] for found in whole]
        assert exponents.tolist() == [found[2][-1] for found in whole]


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("length", slow_unless([1, 7, 33, 90, 700, 10**6], [33, 10**6]))
def test_weights_rise_no_faster_than_said_beyond_the_window(decay, length):
    wider = WINDOW + 3
    rise = FloatTransfer(DECAYS[decay], WINDOW).matrix(length).rise
    _, upper = PreciseTransfer(DECAYS[decay], wider, 128).matrix(length)
    for row in range(2 * WINDOW + 1):
        edge = 2 * WINDOW + 3
        for column in range(edge, edge + 3):
            bound = UP.mul(upper[row + 3, column], float(rise[row]))
            assert upper[row + 3, column + 1] <= bound


LISTS = {
    "empty": FrequencyList(),
    "stairs": FrequencyList(range(12, 0, -1), [1] * 12),
    "one": FrequencyList([500], [1]),
    "ones": FrequencyList([1], [500]),
    "square": FrequencyList([3000], [3000]),
    "runs of many lengths": FrequencyList(
        [100_000, 99_999, 99_000, 70, 9], [1, 60, 3, 700, 50_000]
    ),
    "long runs": FrequencyList(
        [90_000, 50_000, 49_999, 9_000, 2], [10_000, 6_000, 1, 8_000, 70_000]
    ),
}


BLOCKS = {name: Blocks.of(values).cut() for name, values in LISTS.items()}
BLOCKS["long runs"] = Blocks.of(LISTS["long runs"])
BLOCKS["walls far apart, close, and shut"] = walled_blocks(
    FrequencyList([600, 50, 4, 1], [1, 30, 70, 2000]),
    PartitionBounds.of_runs(
        [500, 30, 41, 40, 4, 0, 0], [900, 520, 480, 90, 4, 2, 1], [2, 20, 5, 3, 30, 900, 3000]
    ),
)


@pytest.mark.parametrize(
    ("name", "rate", "window"),
    slow_unless(
        # Next to a large corner the walk is near ln(2) / c: 35, and 14.
        CASES := [
            *((name, Fraction(1, 50), 60) for name in BLOCKS),
            *((name, Fraction(1, 20), 24) for name in BLOCKS),
        ],
        [case for case in CASES if case[0] in ("empty", "stairs", "one")]
        + [("long runs", Fraction(1, 20), 24)],
    ),
    ids=str,
)
def test_messages_lie_in_their_enclosures(name, rate, window):
    """Where the window is too narrow for a message its bounds are far apart, and still true."""
    decay, blocks, wide = Decay(rate), BLOCKS[name], window + 15
    with np.errstate(all="ignore"):
        messages = backward(blocks, FloatTransfer(decay, window))
    exact = PreciseLevel(blocks, PreciseTransfer(decay, wide, 128))._messages
    narrow = 0
    for index in range(len(blocks) + 1):
        error = messages.errors[index]
        for state in range(2 * window + 1):
            lo, hi = (side[state + 15] for side in exact[index])
            exponent = messages.exponents[index, state]
            assert scaled(DOWN, messages.lo[index, state], 1 - error, exponent) <= hi
            assert lo <= scaled(UP, messages.hi[index, state], 1 + error, exponent)
            narrow += messages.lo[index, state] > 0.999 * messages.hi[index, state]
    # What the walls forbid is zero.
    narrow += (messages.hi == 0).sum()
    assert narrow > 0.4 * messages.lo.size


def test_a_window_that_is_too_narrow_is_refused():
    with pytest.raises(FloatingPointError, match="too narrow"):
        backward(BLOCKS["long runs"], FloatTransfer(Decay(Fraction(1, 20)), 16))
