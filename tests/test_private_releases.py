import pytest

from dp_transforms import JobSecret, PrivateFrequencyList, PrivatePartitions
from dp_transforms.budget import PrivacyBudget
from tests.beam_runs import run

SECRET = JobSecret.insecure_for_testing(4)
# One user has everything; 60 others have two partitions each.
RECORDS = [(0, item) for item in range(500)] + [(u, i) for u in range(1, 61) for i in (u % 2, 2)]


def test_each_user_is_bounded():
    (released,) = run(
        RECORDS, PrivateFrequencyList(epsilon=200, max_partitions_per_user=2, secret=SECRET)
    )
    # At most two of the 500 are left, and what has 30 and 60 users.
    assert released.distinct <= 5
    assert released.frequencies[0] in (60, 61)
    assert released.cost == {"epsilon": 200.0, "delta": 0.0, "declared_max_partitions_per_user": 2}


def test_a_share_of_a_budget_is_spent_by_a_list_and_another_by_names():
    shares = PrivacyBudget(300, 1e-3).split_by({"list": 2, "names": 1}, {"names": 1})
    bound = {"max_partitions_per_user": 2, "secret": SECRET}
    (released,) = run(RECORDS, PrivateFrequencyList(shares["list"].epsilon, **bound))
    assert released.cost["epsilon"] == 200.0
    names = shares["names"]
    assert run(RECORDS, PrivatePartitions(names.epsilon, names.delta, **bound)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrivateFrequencyList(-1, max_partitions_per_user=1), "epsilon must be"),
        (lambda: PrivateFrequencyList(1, max_partitions_per_user=0), "max_partitions_per_user"),
        (lambda: PrivatePartitions(1, 2, max_partitions_per_user=1), "delta"),
    ],
)
def test_arguments_are_checked_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()
