import pytest

from benchmarks import answers, coverage
from dp_transforms import release_counts
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.releases.frequency_list import ListRelease

PRIVATE = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])
PROVED = {*coverage.KINDS.values(), *(coverage.GUESSES, coverage.TOGETHER, coverage.BANDS)}


def noiseless(mechanism):
    return release_counts(PRIVATE, epsilon=200, max_partitions_per_user=1, mechanism=mechanism)


def test_errors_are_distances_from_the_truth():
    other = FrequencyList([890, 110, 40, 1], [1, 1, 4, 299])
    measured = answers.errors(answers.asked(coverage.exact(other)), PRIVATE)
    # The largest are 900, 40 five times, 3 four times, and 890, 110, 40 four times, 1 four times.
    assert [*measured.values()][:3] == [21, pytest.approx((10 + 70 + 4 * 2) / 10), 1]
    # 1,160 of 1,460 users, and 1,160 + 94 of 1,459, are in the first 100.
    true, estimated = (900 + 200 + 60 + 74) / 1460, (890 + 110 + 160 + 94) / 1459
    assert measured["share of the top 100, %"] == pytest.approx(100 * abs(estimated - true))
    assert not any(answers.errors(answers.asked(coverage.exact(PRIVATE)), PRIVATE).values())


@pytest.mark.parametrize("mechanism", ["frobenius", "geometric"])
def test_without_noise_everything_is_covered(mechanism):
    intervals = [*coverage.intervals_held(noiseless(mechanism), PRIVATE)]
    assert {kind for kind, _ in intervals} == PROVED | {coverage.CURVE}
    assert all(held for _, held in intervals)


def test_what_is_not_covered_counts(monkeypatch):
    monkeypatch.setattr(ListRelease, "total", lambda *_: Estimate(1, 0, 2))
    intervals = coverage.intervals_held(noiseless("frobenius"), PRIVATE)
    assert [kind for kind, held in intervals if not held] == ["total"]
    other = FrequencyList([900, 40, 4, 1], [1, 5, 20, 300])
    intervals = coverage.intervals_held(noiseless("frobenius"), other, by_model=True)
    assert {kind for kind, held in intervals if not held} >= {"total"}
