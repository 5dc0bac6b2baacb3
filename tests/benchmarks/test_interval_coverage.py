"""Coverage is counted as it is said to be."""

import gzip

from benchmarks import interval_coverage
from dp_transforms.mechanisms import FrequencyList, IntegerPartitionMechanism


def test_without_noise_everything_is_covered():
    private = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])
    mechanism = IntegerPartitionMechanism(epsilon=200)
    assert interval_coverage.proven(private, mechanism, 2) == [1, 1, 1]
    assert interval_coverage.likely(private, mechanism, 2) == [1] * 7


def test_what_is_not_covered_counts(monkeypatch):
    private = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])
    monkeypatch.setattr(interval_coverage, "distinct_interval", lambda *_: (0, 1))
    mechanism = IntegerPartitionMechanism(epsilon=200)
    assert interval_coverage.proven(private, mechanism, 2) == [1, 0, 1]


def test_lists_are_those_that_are_said(tmp_path):
    samples = dict(interval_coverage.samples())
    assert all(one.total == interval_coverage.USERS for one in samples.values())
    logs = dict(interval_coverage.commit_logs())
    assert logs["Rails, users by item"].distinct == 44_631
    assert logs["Rails, items by user"].distinct == 6_817
    with gzip.open(tmp_path / "star.csv.gz", "wt") as file:
        file.write("src,dst\n0,1\n0,2\n0,3\n")
    ((name, one),) = interval_coverage.degrees(tmp_path)
    assert name == "degrees of star" and list(one) == [(3, 1), (1, 3)]
