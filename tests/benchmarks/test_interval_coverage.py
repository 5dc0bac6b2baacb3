"""Coverage is counted as it is said to be."""

from benchmarks import interval_coverage
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.mechanisms.partition.exponential import GeometricPartitionMechanism
from dp_transforms.mechanisms.partition.frobenius import FrobeniusMechanism
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.postprocessing.intervals import CoordinateIntervals

PRIVATE = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])


def test_without_noise_everything_is_covered():
    found = interval_coverage.measured(PRIVATE, FrobeniusMechanism(200), 2)
    assert found["proved"].tolist() == [1] * 7 and found["model"].tolist() == [1] * 6
    assert (found["widths"] <= 1).all()
    found = interval_coverage.measured(PRIVATE, GeometricPartitionMechanism(200), 2)
    assert found.keys() == {"proved"} and found["proved"].tolist() == [1] * 7


def test_what_is_not_covered_counts(monkeypatch):
    monkeypatch.setattr(CoordinateIntervals, "total", lambda *_: Estimate(1, 0, 2))
    found = interval_coverage.measured(PRIVATE, FrobeniusMechanism(200), 2)
    assert found["proved"].tolist() == [1, 0, 1, 1, 1, 1, 1]
