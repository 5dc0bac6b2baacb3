import re

import numpy as np
import pytest

from benchmarks import yahoo_retelling
from benchmarks.yahoo_retelling import attribute_shares, made_up_users, metrics, true_lists
from dp_transforms.mechanisms import FrequencyList

USERS = 4_000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The whole story: 4,000 users in two attributes, first with a budget that hides nothing."""
    directory = tmp_path_factory.mktemp("retelling")
    pieces = yahoo_retelling.retell(USERS, 2, ["100", "1"], str(directory))
    return "\n".join(pieces)


def test_the_table_has_every_list_and_the_differences(page):
    rows = [line.split(" | ") for line in page.splitlines() if line.endswith("|")][2:]
    assert len(rows) == 1 + 2 + 5
    for name, users, released, *bits, difference in rows[1:]:
        # At 50 for each attribute a frequency changes with probability below 1e-6.
        assert users == released and difference == "0.00 |", name
        assert all(one == other for one, other in (cell.split(" / ") for cell in bits))
    assert rows[0][1] == f"{USERS:,}"
    groups = {row[0]: int(row[1].replace(",", "")) for row in rows}
    for attribute in ("gender", "age"):
        assert sum(n for name, n in groups.items() if name.startswith(f"| {attribute}")) == USERS


def test_both_budgets_are_told_of(page):
    told = re.findall(r"and (\S+) / 2 = (\S+) for each attribute", page)
    assert told == [("100", "50"), ("1", "0.5")]


def test_users_are_a_sample_of_yahoo_s_in_groups_of_the_right_size():
    shares = attribute_shares(22)
    table = made_up_users(50_000, shares, np.random.default_rng(1))
    lists = true_lists(table, list(shares))
    assert len(shares) == 22 and len(lists) == 1 + sum(map(len, shares.values()))
    assert lists["", ""].total == table.num_rows == len(set(table["user"].to_pylist()))
    for name, groups in shares.items():
        for group, share in groups.items():
            # Odds of 1.5 at the extremes, and within 5 standard deviations of the draws.
            slack = 5 * (share * (1 - share) / 50_000) ** 0.5
            assert share / 1.5 - slack < lists[name, group].total / 50_000 < share * 1.5 + slack
    # Published for the whole list: 6.5 bits, rounded; 5 standard deviations of the sample are 0.31.
    assert abs(metrics(lists["", ""])[0] - 6.5) < 0.36


def test_differences_are_the_largest_of_the_metrics():
    lists = {("", ""): FrequencyList([8, 1], [1, 8])}
    released = {("", ""): FrequencyList([7, 1], [1, 9])}
    expected = max(
        abs(a - b)
        for a, b in zip(*(metrics(one["", ""]) for one in (lists, released)), strict=True)
    )
    assert yahoo_retelling.largest_differences(lists, released) == {("", ""): expected}


def test_without_the_job_all_users_have_a_budget_of_their_own():
    shares = attribute_shares(2)
    table = made_up_users(USERS, shares, np.random.default_rng(2))
    originals = true_lists(table, list(shares))
    # At 100 for each attribute a frequency changes with probability below 1e-20.
    released = yahoo_retelling.release_originals(originals, 2, "200")
    changed = [name for name in originals if released[name] != originals[name]]
    assert released.keys() == originals.keys() and changed == [("", "")]
