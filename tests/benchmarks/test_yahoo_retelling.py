import numpy as np
import pytest

from benchmarks import yahoo_retelling
from benchmarks.yahoo_retelling import attribute_shares, made_up_users, metrics, true_lists

USERS = 4_000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The whole story: 4,000 users in two attributes, first with a budget that hides nothing."""
    directory = tmp_path_factory.mktemp("retelling")
    return "\n".join(yahoo_retelling.retell(USERS, 2, ["100", "1"], str(directory)))


def test_the_table_has_every_list_and_the_differences(page):
    lines = [line for line in page.splitlines() if line.endswith(" |")]
    rows = [line[2:-2].split(" | ") for line in lines][2:]
    assert len(rows) == 1 + 2 + 5
    groups = {name: int(users.replace(",", "")) for name, users, *_ in rows}
    for name, users, released, *bits, off in rows[1:]:
        # At 50 for each attribute a frequency changes with probability below 1e-6.
        assert users == released and off == "0.00", name
        for cell in bits:
            parts = cell.split(" / ")
            assert len(parts) == 2 and len(set(parts)) == 1
    assert groups["all users"] == USERS
    for attribute in ("gender", "age"):
        assert sum(n for name, n in groups.items() if name.startswith(attribute)) == USERS


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
