"""Both attacks succeed against floats, and the exact mechanism resists them."""

from fractions import Fraction

import numpy as np
import pytest

from examples import naive_exponential, truncated_addition_attack, zero_rounding_attack
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

LOSS = 4
"""2**(2 * eta) at sensitivity 1."""


def test_zero_rounding_breaks_floats():
    distribution = [
        naive_exponential.probabilities(utilities, 1.0)[1]
        for utilities in (zero_rounding_attack.WITHOUT_RECORD, zero_rounding_attack.WITH_RECORD)
    ]
    assert distribution == [0.5, 0.0]
    assert zero_rounding_attack.naive_frequency(zero_rounding_attack.WITH_RECORD, 1, 1000) == 0
    assert zero_rounding_attack.naive_frequency(zero_rounding_attack.WITHOUT_RECORD, 1, 1000) > 0


@pytest.mark.parametrize(
    ("utilities", "probability"),
    [
        (zero_rounding_attack.WITHOUT_RECORD, Fraction(1, 2)),
        (zero_rounding_attack.WITH_RECORD, Fraction(1, 3)),
    ],
)
def test_zero_rounding_is_resisted(utilities, probability):
    frequency = zero_rounding_attack.exact_frequency(utilities, InsecureSeededTape(1), 2000)
    distributions.assert_probability(round(frequency * 2000), 2000, probability)
    assert 1 / Fraction(LOSS) <= probability * 2 <= LOSS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_addition_breaks_floats(dtype):
    assert truncated_addition_attack.naive_probability(False, dtype) == 0
    assert truncated_addition_attack.naive_probability(True, dtype) > 0
    without, with_record = (
        truncated_addition_attack.exact_probability(record, dtype) for record in (False, True)
    )
    assert 0 < with_record / without <= LOSS


@pytest.mark.parametrize("record", [False, True])
def test_truncated_addition_is_resisted(record):
    choices, tape = 100, InsecureSeededTape(2)
    frequency = truncated_addition_attack.exact_frequency(record, tape, choices)
    probability = truncated_addition_attack.exact_probability(record, np.float32)
    distributions.assert_probability(round(frequency * choices), choices, probability)
    # The float mechanism's zero would fail: 100 choices without one have probability 0.2% here.
    assert frequency > 0


@pytest.mark.parametrize("attack", [zero_rounding_attack, truncated_addition_attack])
def test_the_examples_run(attack, capsys, monkeypatch):
    if attack is truncated_addition_attack:  # as often as above, which takes seconds
        monkeypatch.setattr(attack, "exact_frequency", lambda *_: 0.5)
    attack.main()
    assert "without the record" in capsys.readouterr().out
