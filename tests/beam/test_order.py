"""The order in which a release comes is a function of the release."""

import apache_beam as beam
import pytest

import dp_transforms as dp
from dp_transforms.mechanisms.selection import OptimalSelection
from tests.beam_runs import rows_of, run, table_of
from tests.cases import slow_unless

SECRET = dp.JobSecret.insecure_for_testing(7)
# Names whose order is not that of their numbers, and half of them far too rare.
RECORDS = [(user, f"p{n * 7919 % 1000}") for n in range(40) for user in range(60 if n % 2 else 1)]


def arrivals(records):
    yield records
    yield records[::-1]
    yield records[len(records) // 3 :] + records[: len(records) // 3]


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", slow_unless(["optimal", "renyi_rounds"], ["optimal"]))
def test_selected_names_are_in_order(strategy):
    transform = dp.SelectPartitions(20, 1e-3, 40, strategy=strategy, secret=SECRET, num_buckets=5)
    for records in arrivals(RECORDS):
        names = run(records, transform)
        assert names == sorted(names) and len(names) > 10
    tables = [table_of(records[i::4]) for i in range(4)]
    assert [p for (p,) in rows_of(run(tables, transform))] == names


def test_names_from_counts_are_in_order():
    counts = [((country, n), 1000 * n) for country in "ba" for n in range(9, 0, -1)]
    strategy = OptimalSelection(5, 1e-3)
    names = run(
        counts, dp.DeclareBounded(1, counted=True), dp.SelectFromCounts(strategy, secret=SECRET)
    )
    assert names == [(country, n) for country in "ab" for n in range(1, 10)]


@pytest.mark.thorough
def test_grouped_lists_are_in_order():
    groups = ("f", "m", "x")
    attributes = [dp.Attribute("gender", groups), dp.Attribute("age", ("9", "10"))]
    budget = {"epsilon_all": 9, "epsilon_groups": 9, "max_partitions_per_user": 1}
    release = dp.ReleaseGroupedLists(attributes, **budget)
    records = [(user, "p", groups[user % 3], ("9", "10")[user % 2]) for user in range(30)]
    for arrived in arrivals(records):
        named = run(arrived, release, beam.MapTuple(lambda attribute, group, _: (attribute, group)))
        assert named == [("", ""), ("age", "10"), ("age", "9"), *(("gender", g) for g in groups)]
