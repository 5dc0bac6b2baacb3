"""Guessing metrics with the noise's bias taken out."""

import numpy as np
import pytest

from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism
from dp_transforms.mechanisms.randomness import InsecureSeededTape
from dp_transforms.postprocessing.guessing_estimates import GuessingEstimates
from dp_transforms.postprocessing.guessing_metrics import alpha_guesswork_bits, success_rate_bits
from dp_transforms.postprocessing.smoothing import thinned
from dp_transforms.sample_data import rockyou


@pytest.mark.slow
def test_bias_is_taken_out():
    """Seeded. Released metrics are too low, by 0.29 and 0.17 bits on average."""
    private, epsilon = thinned(rockyou(), 100_000), 0.05
    mechanism = IntegerPartitionMechanism(epsilon=epsilon)
    true = np.array(_metrics(private))
    raw, alone, beside, covered = [], [], [], []
    for seed in range(2):
        released = mechanism.release(private, tape=InsecureSeededTape(seed))
        raw.append(_metrics(released) - true)
        for reference, errors in ((None, alone), (rockyou(), beside)):
            estimates = GuessingEstimates(released, mechanism, reference=reference)
            found = [estimates.success_rate_bits(100), estimates.alpha_guesswork_bits("0.25")]
            errors.append(np.array([one.value for one in found]) - true)
            covered += [one.lower < t < one.upper for one, t in zip(found, true, strict=True)]
    before = -np.mean(raw, axis=0)
    assert (before > 0.1).all()
    assert (np.abs(np.mean(alone, axis=0)) < 0.7 * before).all()
    # A sample of the same list is of the same shape.
    assert (np.abs(np.mean(beside, axis=0)) < 0.5 * before).all()
    assert sum(covered) >= 6


def _metrics(one):
    return [success_rate_bits(one, 100), alpha_guesswork_bits(one, "0.25")]


def test_without_noise_nothing_is_corrected():
    released = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])
    estimates = GuessingEstimates(released, IntegerPartitionMechanism(epsilon=200))
    expected = success_rate_bits(released, 6)
    assert estimates.success_rate_bits(6) == (expected, expected, expected)


def test_what_no_noise_changes_is_certain():
    """With more guesses than items, all of a few items are guessed."""
    released = FrequencyList(list(range(20, 0, -1)), [1] * 20)
    bits = GuessingEstimates(released, IntegerPartitionMechanism(epsilon=0.5)).success_rate_bits(
        2**30
    )
    assert bits == (30, 30, 30)


def test_the_same_release_gives_the_same_estimates():
    released = FrequencyList([60, 9, 4, 2, 1], [1, 2, 3, 9, 40])
    mechanism = IntegerPartitionMechanism(epsilon=0.8, sensitivity=2)
    one, other = (GuessingEstimates(released, mechanism) for _ in range(2))
    assert one.alpha_guesswork_bits("0.5") == other.alpha_guesswork_bits("0.5")
    narrow, wide = (one.success_rate_bits(3, confidence=level) for level in (0.5, 0.99))
    assert wide.lower <= narrow.lower <= narrow.value <= narrow.upper <= wide.upper
    assert narrow.upper - narrow.value < wide.upper - wide.value


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="released is empty"):
        GuessingEstimates(FrequencyList(), IntegerPartitionMechanism(epsilon=1))
    estimates = GuessingEstimates(FrequencyList([1], [1]), IntegerPartitionMechanism(epsilon=4))
    with pytest.raises(ValueError, match="confidence"):
        estimates.success_rate_bits(1, confidence=1)
    with pytest.raises(ValueError, match="guesses"):
        estimates.success_rate_bits(0)
