"""Float64 messages against MPFR enclosures of the same, on windows that are too narrow too."""

from fractions import Fraction

import gmpy2
import pytest

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.float_messages import backward
from dp_transforms.mechanisms.precise_level import PreciseLevel
from dp_transforms.mechanisms.transfer import FloatTransfer, PreciseTransfer
from dp_transforms.mechanisms.walk import Blocks

LISTS = {
    "empty": FrequencyList(),
    "one user": FrequencyList([1], [1]),
    "a corner": FrequencyList([100], [100]),
    "steps": FrequencyList([40, 9, 2, 1], [1, 3, 20, 200]),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("window", [16, 24])
def test_messages_lie_in_their_enclosures(name, window):
    """What lies beyond the window is not left out: it is bounded, and bounds grow with it."""
    # Next to the corner the walk is near ln(2) / c = 14, at the edge of the narrower window.
    decay, wide = Decay(Fraction(1, 20)), 40
    blocks = Blocks.of(LISTS[name])
    transfer, precise = (
        FloatTransfer(decay, decay, window),
        PreciseTransfer(decay, decay, wide, 128),
    )
    messages = backward(blocks, (transfer, transfer))
    exact = PreciseLevel(blocks, (precise, precise))._messages
    for index in range(len(blocks) + 1):
        error = Fraction(messages.errors[index])
        unit = Fraction(2) ** int(messages.exponents[index, 0])
        for state in range(2 * window + 1):
            lo, hi = (gmpy2.mpq(side[state + wide - window]) for side in exact[index])
            assert Fraction(messages.lo[index, state]) * (1 - error) * unit <= hi
            assert lo <= Fraction(messages.hi[index, state]) * (1 + error) * unit
    known = messages.lo > 0.999 * messages.hi
    assert window < 24 or known.mean() > 0.4
