from fractions import Fraction

import numpy as np
import pytest

from examples import naive_exponential, truncated_addition_attack, zero_rounding_attack
from tests.statistical import distributions
from tests.tapes import InsecureSeededTape

LOSS = 4
"""2**(2 * eta) at sensitivity 1."""
PAIR = zero_rounding_attack.WITHOUT_RECORD, zero_rounding_attack.WITH_RECORD


def test_zero_rounding_breaks_floats():
    assert [naive_exponential.probabilities(records, 1.0)[1] for records in PAIR] == [0.5, 0.0]
    without, with_record = (
        zero_rounding_attack.naive_frequency(records, 1, 1000) for records in PAIR
    )
    assert with_record == 0 < without


def test_zero_rounding_is_resisted():
    for utilities, probability in zip(PAIR, (Fraction(1, 2), Fraction(1, 3)), strict=True):
        frequency = zero_rounding_attack.exact_frequency(utilities, InsecureSeededTape(1), 2000)
        distributions.assert_probability(round(frequency * 2000), 2000, probability)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_truncated_addition_breaks_floats(dtype):
    assert truncated_addition_attack.naive_probability(False, dtype) == 0
    assert truncated_addition_attack.naive_probability(True, dtype) > 0
    exact = [truncated_addition_attack.exact_probability(record, dtype) for record in (False, True)]
    assert 0 < exact[1] / exact[0] <= LOSS


@pytest.mark.slow
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
