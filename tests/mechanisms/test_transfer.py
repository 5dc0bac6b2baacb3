"""Transfer weights against powers of the one-step matrix, in exact rationals."""

from fractions import Fraction

import gmpy2
import pytest

from dp_transforms.mechanisms import Eta
from dp_transforms.mechanisms.decay import Decay
from dp_transforms.mechanisms.transfer import FloatTransfer, PreciseTransfer

WINDOW = 5
LENGTHS = (1, 2, 3, 4, 7, 12, 33)


def exact_power(positive, negative, length):
    """T_length on the window; a path never leaves it and comes back, so cutting it off is exact."""

    def weight(state):
        return positive**state if state >= 0 else negative**-state

    states = range(-WINDOW, WINDOW + 1)
    power = {(a, b): Fraction(a == b) for a in states for b in states}
    for _ in range(length):
        power = {
            (a, b): weight(b) * (power[a, b] + power.get((a, b - 1), 0))
            for a in states
            for b in states
        }
    return power


def fraction(number):
    numerator, denominator = number.as_integer_ratio()
    return Fraction(int(numerator), int(denominator))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("positive", "negative"),
    [(Eta(1, 1, 1), Eta(1, 1, 1)), (Eta(3, 2, 1), Eta(1, 2, 1)), (Eta(7, 3, 1), Eta(15, 4, 1))],
    ids=str,
)
def test_enclosures_contain_the_exact_power(positive, negative, length):
    exact = exact_power(Fraction(positive.base), Fraction(negative.base), length)
    decays = Decay(base=positive), Decay(base=negative)
    floats = FloatTransfer(*decays, WINDOW).matrix(length)
    precise = PreciseTransfer(*decays, WINDOW, 100).matrix(length)
    scale = floats.rows if hasattr(floats, "rows") else None
    assert scale is None or not scale.any()
    slack = Fraction(floats.error)
    for (a, b), weight in exact.items():
        at = a + WINDOW, b + WINDOW
        assert Fraction(floats.lo[at]) * (1 - slack) <= weight
        assert weight <= Fraction(floats.hi[at]) * (1 + slack)
        assert floats.hi[at] - floats.lo[at] <= 1e-280
        lo, hi = (fraction(gmpy2.mpq(table[at])) for table in precise)
        assert lo <= weight <= hi
        assert hi - lo <= weight * Fraction(1, 2**90)


@pytest.mark.parametrize("length", LENGTHS)
def test_what_leaves_the_window_is_bounded(length):
    """The exit's column bounds T_n times any messages that fall geometrically above the window."""
    eta, ratio = Eta(3, 2, 1), Fraction(9, 10)
    base = Fraction(eta.base)
    decay = Decay(base=eta)
    transfer = FloatTransfer(decay, decay, WINDOW)
    # Far enough above the window for the rest to be negligible beside the bound's slack.
    high = 40
    states = range(-WINDOW, high + 1)
    messages = {d: ratio ** (d - WINDOW) if d > WINDOW else Fraction(0) for d in states}
    for _ in range(length):
        messages = {
            d: base ** abs(d) * messages[d] + base ** abs(d + 1) * messages.get(d + 1, 0)
            for d in states
        }
    exit_weight = transfer.exit_weight(1.0, float(ratio), length)
    column = transfer.matrix(length).hi[:, -1]
    for state in range(-WINDOW, WINDOW + 1):
        assert messages[state] <= Fraction(column[state + WINDOW]) * Fraction(exit_weight)
