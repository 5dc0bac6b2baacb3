"""The benchmark of noisy counts' intervals sees intervals that hold, and such that do not."""

from benchmarks.count_intervals import coverage, forgetful, holds
from dp_transforms import JobSecret
from dp_transforms.columnar.bounding import distinct_pairs
from dp_transforms.mechanisms.selection import LaplaceSelection
from tests.beam_runs import table_of


def test_intervals_hold_and_those_of_the_noise_alone_do_not():
    strategy = LaplaceSelection(1, 1e-5)
    for users in (1, 12, 40):
        assert coverage(strategy, strategy.count_intervals, users) >= 0.95
    assert coverage(strategy, forgetful(strategy), 1) == 0
    assert coverage(strategy, forgetful(strategy), 40) >= 0.95


def test_true_numbers_are_those_of_bounded_records():
    # With this much epsilon noise is 0; one of two partitions counts of each user.
    strategy = LaplaceSelection(200, 1e-9)
    pairs = distinct_pairs(table_of([(user, name) for user in range(300) for name in "ab"]))
    ours, plain, below = holds(strategy, pairs, JobSecret.insecure_for_testing(1))
    assert ours.tolist() == plain.tolist() == [True, True] and not below.any()
