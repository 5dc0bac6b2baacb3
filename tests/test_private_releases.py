import pytest

from dp_transforms import JobSecret, PrivateFrequencyList, PrivatePartitions, SelectPartitions
from dp_transforms.budget import BudgetExceededError, BudgetShares, PrivacyBudget
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
    assert released.cost == {"epsilon": 200.0, "delta": 0.0, "max_partitions_per_user": 2}


def test_names_are_those_of_the_selection():
    share = BudgetShares(PrivacyBudget(8, 1e-3), {"names": 1}).draw("names")
    found = run(
        RECORDS,
        PrivatePartitions(budget=share, max_partitions_per_user=2, secret=SECRET),
    )
    assert found == run(RECORDS, SelectPartitions(8, 1e-3, 2, secret=SECRET)) == [0, 1, 2]


def test_shares_add_up_and_are_drawn_once():
    whole = PrivacyBudget(1, 1e-6)
    shares = BudgetShares(whole, {"a": 0.1, "b": 0.2, "c": "1/3"}, {"b": 1, "c": 2})
    drawn = {name: shares.draw(name) for name in "abc"}
    assert sum(drawn.values(), PrivacyBudget(0)) == shares.whole == whole
    assert drawn["b"].epsilon == 2 * drawn["a"].epsilon
    assert drawn["a"].delta == 0 and drawn["c"].delta == 2 * drawn["b"].delta
    with pytest.raises(BudgetExceededError, match="the share of 'a' has been drawn"):
        shares.draw("a")
    with pytest.raises(ValueError, match="there is no share 'd', only a, b, c"):
        shares.draw("d")


@pytest.mark.parametrize(
    ("weights", "delta_weights"),
    [({}, None), ({"a": 0}, None), ({"a": -1, "b": 2}, None), ({"a": 1}, {}), ({"a": 1}, {"b": 1})],
)
def test_weights_that_are_none(weights, delta_weights):
    with pytest.raises(ValueError, match="weight"):
        BudgetShares(PrivacyBudget(1), weights, delta_weights)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrivateFrequencyList(max_partitions_per_user=1), "either epsilon or budget"),
        (
            lambda: PrivateFrequencyList(1, budget=PrivacyBudget(1), max_partitions_per_user=1),
            "either epsilon or budget",
        ),
        (lambda: PrivateFrequencyList(-1, max_partitions_per_user=1), "epsilon must be"),
        (lambda: PrivateFrequencyList(1, max_partitions_per_user=0), "max_partitions_per_user"),
        (lambda: PrivatePartitions(max_partitions_per_user=1), "either epsilon and delta"),
        (lambda: PrivatePartitions(1, max_partitions_per_user=1), "delta must be given"),
        (lambda: PrivatePartitions(1, 2, max_partitions_per_user=1), "delta"),
    ],
)
def test_arguments_are_checked_at_once(make, message):
    with pytest.raises(ValueError, match=message):
        make()
