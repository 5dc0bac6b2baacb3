"""Names and lists: which records both are about, and proved numbers of both together."""

import pytest

import dp_transforms as dp

COLUMNS = {"user": "who", "partition": "page", "max_partitions_per_user": 1}


def test_proved_intervals_of_a_list_that_names_raise_are_those_of_its_noise():
    """A hundred partitions have 100 users each. One of so many noisy counts is far too large, and
    raises the list at rank 1. Of 4 * 15 intervals at 95%, more than 9 fail with probability
    1e-3 at most. If they began at the raised list, 24 would fail here."""
    data = {"who": list(range(10_000)), "page": [user % 100 for user in range(10_000)]}
    failed, raised = 0, 0
    for seed in range(15):
        both = dp.release_and_select(
            data,
            **COLUMNS,
            epsilon=4,
            delta=1e-6,
            strategy="laplace",
            mechanism="geometric",
            counts=True,
            secret=dp.JobSecret.insecure_for_testing(seed),
        )
        of_list, drawn = both.frequency_list, both.names.frequency_list
        raised += of_list.released != drawn.released
        truths = {
            of_list.frequency_at(1): 100,
            of_list.partitions_with_at_least(101): 0,
            of_list.sum_of_top(10): 1_000,
            of_list.total(): 10_000,
        }
        failed += sum(not number.low <= truth <= number.high for number, truth in truths.items())
        assert of_list.frequency_at(1).low == drawn.frequency_at(1).low
        assert of_list.frequency_at(1).high >= drawn.frequency_at(1).high
    assert failed <= 9 and raised > 5


@pytest.fixture(scope="module")
def two_jobs():
    """Of 2,000 users, each has the page "A" and one of their own, and one of both counts. Two jobs
    keep different ones. Noise is nearly always 0."""
    users = range(2_000)
    data = {
        "who": [user for user in users for _ in range(2)],
        "page": [page for user in users for page in ("A", f"own {user}")],
    }
    names = dp.select(
        data,
        **COLUMNS,
        epsilon=20,
        delta=1e-9,
        counts=True,
        strategy="laplace",
        secret=dp.JobSecret.insecure_for_testing(1),
    )
    secret = dp.JobSecret.insecure_for_testing(2)
    return names, dp.release(data, **COLUMNS, epsilon=20, secret=secret)


def test_names_of_another_job_say_nothing_of_the_records_of_a_list(two_jobs):
    names, frequency_list = two_jobs
    assert list(names) == ["A"]
    kept = frequency_list.frequency_at(1).value
    missing = names.beside(frequency_list).missing()
    assert abs(names["A"].users - kept) > 10  # the two jobs kept different records
    for number, truth in (
        (missing.contributions, 2_000 - kept),
        (missing.partitions, 2_000 - kept),
        (missing.share, 1 - kept / 2_000),
    ):
        assert number.low <= truth <= number.high
    # Only if both were bounded together would the count of "A" be that of the list.
    assert names.beside(frequency_list).list_that_agrees == frequency_list
    together = names.beside(frequency_list, of_one_job=True)
    assert together.missing().contributions.high < missing.contributions.high


def test_names_that_are_public_may_have_no_users():
    data = {"who": list(range(50)), "page": [f"page {user}" for user in range(50)]}
    public = [f"public {name}" for name in range(100)]
    names = dp.select(data, **COLUMNS, epsilon=1, delta=1e-9, counts=True, public_partitions=public)
    of_all_records = dp.release(data, user="who", partition="page", epsilon=100)
    with_list = names.beside(of_all_records)
    missing = with_list.missing()
    assert missing.partitions.high >= 50 and missing.share.high == 1
    assert with_list.list_that_agrees.number_of_partitions().value == 50
    some = dp.select(
        data, **COLUMNS, epsilon=1, delta=1e-9, public_partitions=public, public_threshold=-21
    )
    assert some["public 0"].is_named and some["public 0"].low == 0


def test_missing_partitions_have_a_user_each_at_least():
    # Noise at a small epsilon lets totals and numbers of partitions contradict one another.
    data = {"who": list(range(60)), "page": [user % 20 for user in range(60)]}
    for seed in range(8):
        both = dp.release_and_select(
            data,
            **COLUMNS,
            epsilon=1,
            delta=1e-2,
            counts=True,
            secret=dp.JobSecret.insecure_for_testing(seed),
        )
        missing = both.names.missing()
        if missing is not None:
            partitions, contributions, _ = missing
            assert contributions.value >= partitions.value
            assert (contributions.value == 0) <= (partitions.value == 0)


def test_a_name_of_a_column_of_bytes_is_bytes():
    data = {"who": list(range(500)), "page": [b"home"] * 500}
    names = dp.select(data, **COLUMNS, epsilon=1, delta=1e-9, counts=True)
    assert names[b"home"].is_named
    for name in ("home", 3):
        with pytest.raises(TypeError, match="in the column 'page' are bytes"):
            names[name]
