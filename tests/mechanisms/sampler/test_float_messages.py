"""Float64 messages against MPFR enclosures of the same, on windows that are too narrow too."""

from fractions import Fraction

import gmpy2
import pytest

from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.sampler.float_messages import float_backward
from dp_transforms.mechanisms.sampler.float_transfer import FloatTransfer
from dp_transforms.mechanisms.sampler.precise_level import PreciseLevel
from dp_transforms.mechanisms.sampler.precise_transfer import PreciseTransfer
from dp_transforms.mechanisms.sampler.walk import Blocks

LISTS = {
    "empty": FrequencyList(),
    "one user": FrequencyList([1], [1]),
    "a corner": FrequencyList([100], [100]),
    "steps": FrequencyList([40, 9, 2, 1], [1, 3, 20, 200]),
    "long runs": FrequencyList([9000, 4000, 3999, 2], [2500, 1, 3000, 10_000]),
}
TOO_NARROW = ("long runs", 16)


@pytest.mark.parametrize(
    ("name", "window"),
    [(name, window) for name in LISTS for window in (16, 24) if (name, window) != TOO_NARROW],
)
def test_messages_lie_in_their_enclosures(name, window):
    """What lies beyond the window is not left out: it is bounded, and bounds grow with it."""
    # Next to the corner the walk is near ln(2) / c = 14, at the edge of the narrower window.
    decay, wide = Decay(Fraction(1, 20)), 40
    blocks = Blocks.of(LISTS[name])
    transfer, precise = (
        FloatTransfer(decay, decay, window),
        PreciseTransfer(decay, decay, wide, 128),
    )
    messages = float_backward(blocks, (transfer, transfer))
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


def test_a_window_that_is_too_narrow_is_refused():
    name, window = TOO_NARROW
    decay = Decay(Fraction(1, 20))
    transfer = FloatTransfer(decay, decay, window)
    with pytest.raises(FloatingPointError, match="too narrow"):
        float_backward(Blocks.of(LISTS[name]), (transfer, transfer))
