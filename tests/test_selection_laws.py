"""The laws of the selecting transforms, end to end, and what users cannot change."""

import collections

import pyarrow as pa
import pytest

from dp_transforms import SelectPartitions
from dp_transforms.mechanisms.partition_selection import (
    STRATEGIES,
    MeasuredSelection,
    make_strategy,
)
from dp_transforms.runtime import shuffle
from tests.beam_runs import rows_of, run
from tests.cases import slow_unless
from tests.selection_reference import SECRET, as_tables
from tests.statistical import laws


@pytest.fixture(autouse=True)
def few_buckets(monkeypatch):
    """Small tables in few parts: a run is a matter of overhead."""
    monkeypatch.setattr(shuffle, "DEFAULT_BUCKETS", 3)


class TestLaws:
    """Enough partitions with the same users to see the law, by one run per strategy."""

    each = 3000

    @pytest.mark.parametrize("name", STRATEGIES)
    def test_every_strategy(self, name):
        epsilon, delta, kappa = 2.0, 0.05, 2
        strategy = make_strategy(name, epsilon, delta, max_partitions_per_user=kappa)
        median = strategy.median_users
        # Users come with two partitions of the same size, so that all weights are the smallest.
        records, sizes = [], sorted({1, max(1, median - 2), median})
        for size in sizes:
            for i in range(self.each):
                for user in range(size):
                    records += [(f"{size}/{i // 2}/{user}", f"{size}/{i}")]
        tables = as_tables(records)
        transform = SelectPartitions(epsilon, delta, kappa, strategy=name, secret=SECRET)
        found = collections.Counter(
            partition.split("/")[0]
            for (partition,) in rows_of(run(tables, transform, element_type=pa.Table))
        )
        taken = strategy
        if isinstance(strategy, MeasuredSelection):
            users = [sum(sizes) * self.each // 2 * (edge == kappa) for edge in strategy.edges]
            taken = strategy.branch(strategy.plan_of([*users, 0]))
            assert taken.max_partitions_per_user == kappa
        for size in sizes:
            if name in ("renyi_rounds", "measured"):
                # All users have kappa partitions.
                expected = pair_law(taken, size)
            else:
                expected = strategy.keep_enclosure(size, 128)
            laws.assert_probability(found[str(size)], self.each, expected, 1e-7)


def pair_law(strategy, size):
    """The probability that one of two partitions with the same users is selected in rounds."""
    # One of the two may be named, which are few.
    few = [strategy.round_after(index, 1) for index in range(len(strategy.rounds))]
    keep = [[r.law.keep_probability(size * r.weight(t)) for r in few] for t in (2, 1)]
    # States: both remain, or this one remains alone.
    together, single, done = 1.0, 0.0, 0.0
    for here, there in zip(*keep, strict=True):
        done += together * here + single * there
        single = single * (1 - there) + together * (1 - here) * here
        together *= (1 - here) ** 2
    return done


@pytest.mark.parametrize("name", slow_unless(STRATEGIES, ["optimal", "renyi_rounds"]))
def test_planted_users_above_kappa_have_no_more_influence(name):
    # Three users with all of 400 partitions: bounded to 2 each, they can make at most 6 partitions
    # have any user, and of those hardly one has several.
    planted = [(f"planted{user}", f"rare{i}") for user in range(3) for i in range(400)]
    crowd = [(f"user{user}", "common") for user in range(300)]
    found = set(run(planted + crowd, SelectPartitions(40, 1e-4, 2, strategy=name, secret=SECRET)))
    assert "common" in found
    assert len(found - {"common"}) <= 3


@pytest.mark.parametrize("name", slow_unless(STRATEGIES, ["laplace", "renyi_rounds"]))
def test_pre_thresholds_are_never_undercut(name):
    records = [(f"{p}/{user}", p) for p in range(200) for user in range(p % 8)]
    transform = SelectPartitions(30, 0.5, 1, strategy=name, pre_threshold=5, secret=SECRET)
    found = set(run(records, transform))
    assert found and min(p % 8 for p in found) >= 5
