"""Two lists that are compared: which may be, and what is said of their records."""

import numpy as np
import pytest

import dp_transforms as dp
from dp_transforms import JobSecret

SECRET = JobSecret.insecure_for_testing(11)
RANDOM = np.random.default_rng(4)
VISITS = {
    "who": RANDOM.integers(0, 900, 5_000),
    "page": (RANDOM.pareto(1, 5_000) * 2).astype(int),
}
LIST = {"user": "who", "partition": "page", "epsilon": 1, "max_partitions_per_user": 4}


def test_a_list_is_not_compared_with_degrees():
    of_users = dp.release(VISITS, **LIST)
    of_nodes = dp.degrees([("a", "b"), ("b", "c")], epsilon=1)
    with pytest.raises(ValueError, match="one of degrees of a graph"):
        dp.compare(of_users, of_nodes)


@pytest.mark.thorough
def test_the_page_of_a_comparison_says_which_records_each_list_is_about():
    of_all = dp.release(VISITS, **LIST | {"max_partitions_per_user": None}, secret=SECRET)
    of_kept = dp.release(VISITS, **LIST)
    both, _ = dp.compare(of_all, of_kept).page()
    assert "The list first is an estimate of all records" in both
    assert "The list second is of at most 4 pages of each user" in both
    assert "The list first is of at most" not in both
    assert "numbers of bounded records" not in both
    assert "first is about all records, second about at most 4 pages of each user" in both
    alike, _ = dp.compare(of_all, of_all).page()
    assert "the numbers of all records differ." in alike and "before noise" not in alike


@pytest.mark.thorough
def test_the_page_says_to_which_records_estimates_of_all_records_are_limited():
    undeclared = LIST | {"max_partitions_per_user": None}
    of_three, of_two = (
        dp.release(VISITS, **undeclared, largest_degree=largest, secret=SECRET)
        for largest in (3, 2)
    )
    alike, _ = dp.compare(of_three, of_three).page()
    limited = "all records of at most 3 pages of each user"
    assert f"The list first is an estimate of {limited}, from" in alike
    assert f"If it does not contain 0, the numbers of {limited} differ" in alike
    different, _ = dp.compare(of_three, of_two).page()
    assert "the numbers of all records differ" not in different
    assert "If it does not contain 0, the numbers that each list is about differ" in different


def test_the_page_says_what_is_printed_of_different_bounds():
    lists = [dp.release(VISITS, **LIST | {"max_partitions_per_user": kappa}) for kappa in (2, 4)]
    comparison = dp.compare(*lists)
    page, _ = comparison.page()
    assert (
        "at most 2 partitions of each user, second about at most 4" in comparison.different_records
    )
    assert comparison.different_records in repr(comparison)
    assert "at most 2 pages of each user, second about at most 4" in page
    # The two numbers of a row hold with more confidence, so that their difference holds with 95%.
    assert comparison.first[0].confidence == 0.975
    assert "The intervals below the two numbers hold with 97.5%" in page


def test_a_difference_is_looked_up_by_the_number_that_was_asked_for():
    first = dp.release_counts([20, 1], epsilon=50, max_partitions_per_user=1)
    second = dp.release_counts([50, 1], epsilon=50, max_partitions_per_user=1)
    change = dp.compare(first, second, numbers=["rank 1", "total"])
    assert change["rank 1"] == change["users at rank 1"] == change.differences[0]
    with pytest.raises(KeyError, match="was not compared: numbers are users at rank 1, total"):
        change["rank 2"]
    with pytest.raises(ValueError, match=r"dp\.load reads a list of a directory"):
        dp.compare("a", "b")
