import pytest

from benchmarks import answers
from dp_transforms import release_counts
from dp_transforms.mechanisms import FrequencyList
from dp_transforms.postprocessing.estimates import Estimate
from dp_transforms.releases.frequency_list import ListRelease

PRIVATE = FrequencyList([900, 40, 3, 1], [1, 5, 20, 300])
PROVED = {*answers.KINDS.values(), *(answers.GUESSES, answers.TOGETHER, answers.BANDS)}


def noiseless(mechanism):
    return release_counts(PRIVATE, epsilon=200, max_partitions_per_user=1, mechanism=mechanism)


def test_errors_are_distances_from_the_truth():
    other = FrequencyList([890, 110, 40, 1], [1, 1, 4, 299])
    found = answers.errors(answers.asked(answers.exact(other)), PRIVATE)
    # The largest are 900, 40 five times, 3 four times, and 890, 110, 40 four times, 1 four times.
    assert [*found.values()][:3] == [21, pytest.approx((10 + 70 + 4 * 2) / 10), 1]
    # 1,160 of 1,460 users, and 1,160 + 94 of 1,459, are in the first 100.
    true, told = (900 + 200 + 60 + 74) / 1460, (890 + 110 + 160 + 94) / 1459
    assert found["share of the top 100, %"] == pytest.approx(100 * abs(told - true))
    assert not any(answers.errors(answers.asked(answers.exact(PRIVATE)), PRIVATE).values())


@pytest.mark.parametrize("mechanism", ["frobenius", "geometric"])
def test_without_noise_everything_is_covered(mechanism):
    found = [*answers.intervals_held(noiseless(mechanism), PRIVATE)]
    assert {kind for kind, _ in found} == PROVED | {answers.CURVE}
    assert all(held for _, held in found)


def test_what_is_not_covered_counts(monkeypatch):
    monkeypatch.setattr(ListRelease, "total", lambda *_: Estimate(1, 0, 2))
    found = answers.intervals_held(noiseless("frobenius"), PRIVATE)
    assert [kind for kind, held in found if not held] == ["total"]
    others = FrequencyList([900, 40, 4, 1], [1, 5, 20, 300])
    found = answers.intervals_held(noiseless("frobenius"), others, by_model=True)
    assert {kind for kind, held in found if not held} >= {"total"}
