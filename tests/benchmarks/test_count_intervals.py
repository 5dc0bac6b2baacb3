"""The benchmark of noisy counts' intervals sees intervals that hold, and such that do not."""

from benchmarks.count_intervals import coverage, forgetful
from dp_transforms.mechanisms.selection import LaplaceSelection


def test_intervals_hold_and_those_of_the_noise_alone_do_not():
    strategy = LaplaceSelection(1, 1e-5)
    for users in (1, 12, 40):
        assert coverage(strategy, strategy.count_intervals, users) >= 0.95
    assert coverage(strategy, forgetful(strategy), 1) == 0
    assert coverage(strategy, forgetful(strategy), 40) >= 0.95
